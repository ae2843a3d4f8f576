#!/bin/sh
# fresh_debian.sh: installs a wheel into a Debian that has Python and nothing else, and runs wheel_user.py
# and the program there.
#
#   sh tests/packages/fresh_debian.sh WHEEL [bookworm|trixie|sid [FOLDER]]
#
# FOLDER is such a Debian, else debootstrap makes one there, or in a folder that goes at the end. Needs root, and
# a network for Debian's packages and for numpy.
set -eu
here=$(cd "$(dirname "$0")/../.." && pwd)
wheel=${1:?usage: fresh_debian.sh WHEEL [bookworm|trixie|sid [FOLDER]]}
release=${2:-bookworm}
box=${3:-}
. "$here/tests/packages/fresh_box.sh"
open_box python3,python3-pip,python3-venv
cp -R "$here/tests/data/golden/models/dinov2-03" "$work/model"
cp "$wheel" "$here/tests/packages/wheel_user.py" "$work"
cat >"$work/go.sh" <<'TEXT'
set -eu
cd "$1"
for tool in gcc cc c++ clang; do
    ! command -v $tool || { echo "there is a compiler, so that nothing is shown" >&2; exit 1; }
done
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check ./*.whl
echo "Debian $(cat /etc/debian_version), $(python3 --version)"
venv/bin/python wheel_user.py model
venv/bin/fovea info | head -n 2
venv/bin/python -m fovea plan model --size 98 >/dev/null
TEXT
in_box sh "$inside/go.sh" "$inside"
echo "1 passed, 0 failed, 0 skipped"
