#!/bin/sh
# fresh_clone.sh: the two commands of the README on a Debian that has nothing: they install what they need. So does
# `pip install .` in a virtual environment.
#
#   sh tests/packages/fresh_clone.sh [bookworm|trixie|sid] [FOLDER]
#
# What is committed here is cloned there, into a folder with a space in its name and without the repository's
# neighbours. FOLDER is such a Debian, else debootstrap makes one there, or in a folder that goes at the end. Needs
# root, and a network for Debian's packages and for Meson.
set -eu
here=$(cd "$(dirname "$0")/../.." && pwd)
release=${1:-bookworm}
box=${2:-}
. "$here/tests/packages/fresh_box.sh"
. "$here/tests/verdict.sh"
open_box git
git clone -q "$here" "$work/a clone"
for command in bench/demo.sh tests/run.sh; do
    begin=$(date +%s)
    status=0
    in_box sh -c "cd '$inside/a clone' && sh $command" >"$work/log" 2>&1 || status=$?
    tail -n 60 "$work/log" >&2
    echo "sh $command: $(($(date +%s) - begin)) s, with its packages and a build" >&2
    verdict "$command" "$status"
done
status=0
in_box sh -c "cd '$inside/a clone' && apt-get install -y -qq --no-install-recommends python3-venv python3-pip &&
    python3 -m venv $inside/venv && $inside/venv/bin/pip install --quiet . &&
    $inside/venv/bin/python -c 'import fovea; print(fovea.__version__)' && $inside/venv/bin/fovea info" \
    >"$work/log" 2>&1 || status=$?
tail -n 20 "$work/log" >&2
verdict "pip install ." "$status"
verdicts
