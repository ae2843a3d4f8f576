#!/bin/sh
# headers.sh: every public header compiles by itself, as pedantic C11 and C++17; those that are installed
# are all there are.
#
#   headers.sh BUILD/include HEADER...     CC, CXX: the compilers; without CXX the headers are C only
set -eu
. "$(dirname "$0")/../verdict.sh"
generated=$1
shift
folder=$(dirname "$1")

alone() { # header, compiler, its options
    status=0
    echo "#include <fovea/$1>" >"$tmp"
    # shellcheck disable=SC2086
    $2 $3 -pedantic-errors -Wall -Wextra -Werror -fsyntax-only -I"$folder/.." -I"$generated" "$tmp" || status=1
    verdict "$1 by itself: $2 $3" $status
}

tmp=$(mktemp)
trap 'rm -f "$tmp"' EXIT
for header in "$@"; do
    name=$(basename "$header")
    [ "$name" = fovea.hpp ] || alone "$name" "$CC" '-std=c11 -x c'
    [ -z "$CXX" ] || alone "$name" "$CXX" '-std=c++17 -x c++'
done
[ -n "$CXX" ] || skipped=1

status=0
ls "$folder"/*.h "$folder"/*.hpp | sort >"$tmp"
printf '%s\n' "$@" | sort | cmp -s - "$tmp" || status=1
verdict "all headers of $folder are installed" $status
verdicts
