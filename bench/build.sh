#!/bin/sh
# build.sh: builds the targets of a benchmark, and prints the build directory, which BUILD names.
#
#   build=$(sh bench/build.sh "PACKAGES" [TARGET...])     PACKAGES: for platform/setup-debian.sh
set -eu
cd "$(dirname "$0")/.."
build=${BUILD:-build}
sh platform/setup-debian.sh $1 >&2
shift
[ -e "$build/build.ninja" ] || meson setup "$build" --buildtype release >&2
ninja -C "$build" "$@" >&2
echo "$build"
