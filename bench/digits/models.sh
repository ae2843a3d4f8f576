#!/bin/sh
# models.sh: trains the two models of this folder from the seed: a tiny ViT that segments scenes of digits,
# and the same without softmax attention.
#
#   sh bench/digits/models.sh           both: many hours
#   sh bench/digits/models.sh linear    the second, from the first that is here: five minutes
#
# An interrupted run continues where it stopped; its state is in build/digits. BUILD names the build
# directory, THREADS the threads.
set -eu
cd "$(dirname "$0")/../.."
build=$(sh bench/build.sh build src/cli/fovea bench/scenes bench/score)
exec python3 bench/digits/lab.py "$build" "${1:-models}"
