#!/bin/sh
# resolution.sh: DINOv2-L over resolution, softmax against linear attention: a table of time and peak
# memory and an SVG picture of both (after Fig. 9 of ViT-AdaLA, arXiv 2603.16063).
#
#   sh bench/resolution.sh       about twenty minutes on two fast cores, hours on a small board
#
# What is measured is kept in build/resolution/results.jsonl: an interrupted run goes on where it was;
# delete the file to begin anew. BUILD names the build directory, MODEL and SIZES another model and
# other sizes, THREADS the threads.
set -eu
cd "$(dirname "$0")/.."
build=$(sh bench/build.sh "build plot" src/cli/fovea)
exec python3 bench/resolution.py "$build/src/cli/fovea" "$build/resolution"
