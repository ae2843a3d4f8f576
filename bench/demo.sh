#!/bin/sh
# demo.sh: builds fovea and shows what linear attention does to time and memory as pictures grow:
# DINOv2-S with random weights on bench/scene.jpg, softmax against linear attention; then a scene of
# handwritten digits, segmented by the tiny models of bench/digits, whose weights are not random.
#
#   sh bench/demo.sh       under five minutes on two cores; pictures go to build/demo/ and
#                          build/digits/demo/
#
# BUILD names the build directory.
set -eu
cd "$(dirname "$0")/.."
build=${BUILD:-build}

sh platform/setup-debian.sh build >&2
[ -e "$build/build.ninja" ] || meson setup "$build" --buildtype release >&2
ninja -C "$build" src/cli/fovea bench/scenes bench/score >&2
python3 bench/demo.py "$build/src/cli/fovea" "$build/demo"
exec python3 bench/digits/lab.py "$build" demo
