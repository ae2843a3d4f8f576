#!/bin/sh
# demo.sh: builds fovea and shows what linear attention does to time and memory as pictures grow:
# DINOv2-S with random weights on bench/scene.jpg, softmax against linear attention.
#
#   sh bench/demo.sh       under five minutes on two cores; pictures go to build/demo/
#
# BUILD names the build directory.
set -eu
cd "$(dirname "$0")/.."
build=${BUILD:-build}

sh platform/setup-debian.sh build >&2
[ -e "$build/build.ninja" ] || meson setup "$build" --buildtype release >&2
ninja -C "$build" src/cli/fovea >&2
exec python3 bench/demo.py "$build/src/cli/fovea" "$build/demo"
