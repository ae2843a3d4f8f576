#!/bin/sh
# fresh_debian.sh: installs a wheel into a Debian 12 that has Python and nothing else, and runs wheel_user.py
# and the program there.
#
#   sh tests/packages/fresh_debian.sh WHEEL [FOLDER]
#
# FOLDER is such a Debian, else debootstrap makes one there, or in a folder that goes at the end. Needs root, and
# a network for Debian's packages and for numpy.
set -eu
here=$(cd "$(dirname "$0")/../.." && pwd)
wheel=${1:?usage: fresh_debian.sh WHEEL [FOLDER]}
if [ "$(id -u)" != 0 ] || ! command -v debootstrap >/dev/null; then
    echo "fresh_debian.sh needs root and debootstrap (apt-get install debootstrap)" >&2
    exit 77
fi
box=${2:-}
[ -n "$box" ] || box=$(mktemp -d)
finish() {
    umount "$box/proc" 2>/dev/null || true
    [ -n "$keep" ] || rm -rf "$box"
}
keep=${2:-}
trap finish EXIT
if [ ! -x "$box/usr/bin/python3" ]; then
    debootstrap --variant=minbase --include=python3,python3-pip,python3-venv,ca-certificates bookworm "$box" >&2
    # Certificates that this machine trusts: it may have a package server of its own.
    cp /etc/ssl/certs/ca-certificates.crt "$box/etc/ssl/certs/ca-certificates.crt"
    cp /etc/resolv.conf "$box/etc/resolv.conf"
fi
mount --bind /proc "$box/proc"

inside=/srv/fovea
work=$box$inside
rm -rf "$work"
mkdir "$work"
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
env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=$inside LC_ALL=C.UTF-8 chroot "$box" sh "$inside/go.sh" "$inside"
echo "1 passed, 0 failed, 0 skipped"
