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
build=$(sh bench/build.sh build src/cli/fovea bench/scenes bench/score)
python3 bench/demo.py "$build/src/cli/fovea" "$build/demo"
exec python3 bench/digits/lab.py "$build" demo
