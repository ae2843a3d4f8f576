#!/bin/sh
# fresh_clone.sh: the two commands of the README on a Debian 12 that has nothing: they install what they need.
#
#   sh tests/packages/fresh_clone.sh [FOLDER]
#
# What is committed here is cloned there, without the repository's neighbours. FOLDER is such a Debian, else
# debootstrap makes one there, or in a folder that goes at the end. Needs root, and a network for Debian's packages.
set -eu
here=$(cd "$(dirname "$0")/../.." && pwd)
box=${1:-}
. "$here/tests/packages/fresh_box.sh"
. "$here/tests/verdict.sh"
open_box git
git clone -q "$here" "$work/fovea"
for command in bench/demo.sh tests/run.sh; do
    begin=$(date +%s)
    status=0
    in_box sh -c "cd $inside/fovea && sh $command" >"$work/log" 2>&1 || status=$?
    tail -n 60 "$work/log" >&2
    echo "sh $command: $(($(date +%s) - begin)) s, with its packages and a build" >&2
    verdict "$command" "$status"
done
verdicts
