#!/bin/sh
# models.sh: trains the two models of this folder from the seed: a tiny ViT that segments scenes of digits,
# and the same with linear attention.
#
#   sh bench/digits/models.sh
#
# An interrupted run goes on where it was; what is kept for that is in build/digits. BUILD names the build
# directory, THREADS the threads.
set -eu
cd "$(dirname "$0")/../.."
build=${BUILD:-build}

sh platform/setup-debian.sh build >&2
[ -e "$build/build.ninja" ] || meson setup "$build" --buildtype release >&2
ninja -C "$build" src/cli/fovea bench/scenes bench/newborn bench/score >&2
exec python3 bench/digits/lab.py "$build" models
