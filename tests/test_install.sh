#!/bin/sh
# test_install.sh: installs the build into an empty folder and builds the examples as a user would, from
# what was installed, through pkg-config.
#
#   test_install.sh BUILD
set -eu
build=$1
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
passed=0
failed=0

verdict() { # name, exit status
    if [ "$2" = 0 ]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAIL $1"
    fi
}

meson install -C "$build" --no-rebuild --quiet --destdir "$root/dest"
prefix=$(meson introspect "$build" --buildoptions | python3 -c '
import json, sys
print(next(o["value"] for o in json.load(sys.stdin) if o["name"] == "prefix"))')
installed=$root/dest$prefix
PKG_CONFIG_PATH=$(dirname "$(find "$installed" -name fovea.pc)")
PKG_CONFIG_SYSROOT_DIR=$root/dest
LD_LIBRARY_PATH=$(dirname "$PKG_CONFIG_PATH")
export PKG_CONFIG_PATH PKG_CONFIG_SYSROOT_DIR LD_LIBRARY_PATH
flags=$(pkg-config --cflags --libs fovea)
examples=$installed/share/doc/fovea/examples
strict='-Wall -Wextra -Werror'

cd "$root" # nothing of the source tree in reach
# shellcheck disable=SC2086
for compiler in gcc clang; do
    status=0
    $compiler -std=c11 $strict "$examples/attend.c" -o attend $flags -lm || status=1
    verdict "attend.c with $compiler" $status
    status=0
    ./attend || status=1
    verdict "attend by $compiler" $status
done
# shellcheck disable=SC2086
for compiler in g++ clang++; do
    status=0
    $compiler -std=c++17 $strict "$examples/features.cpp" -o features $flags || status=1
    verdict "features.cpp with $compiler" $status
    status=0
    ./features || status=1
    verdict "features by $compiler" $status
done
status=0
./features nowhere 2>message && status=1
grep -q nowhere message || status=1
verdict "a message for a missing model" $status
status=0
"$installed/bin/fovea" info >/dev/null || status=1
verdict "the program as installed" $status

echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" = 0 ]
