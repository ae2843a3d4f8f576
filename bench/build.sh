#!/bin/sh
# build.sh: builds the targets of a benchmark, and prints the build directory, which BUILD names.
#
#   build=$(sh bench/build.sh "PACKAGES" [TARGET...])     PACKAGES: for platform/setup-debian.sh
#
# A new build has no CUDA programs compiled ahead of time, for which nvcc needs a quarter of an hour
# and which only machines without NVRTC use.
set -eu
cd "$(dirname "$0")/.."
build=${BUILD:-build}
sh platform/setup-debian.sh $1 >&2
shift
[ -e "$build/build.ninja" ] || meson setup "$build" --buildtype release -Dptx=disabled >&2
ninja -C "$build" "$@" >&2
echo "$build"
