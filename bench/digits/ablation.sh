#!/bin/sh
# ablation.sh: how much each stage of ViT-AdaLA improves: mIoU of a tiny ViT on scenes of digits, with softmax, with
# linear attention as it is, after stage 1, after stage 2, after both; three seeds; also at other sizes.
#
#   sh bench/digits/ablation.sh
#
# An interrupted run continues where it stopped; its state is in build/digits, the table is
# ablation.md there. BUILD names the build directory, THREADS the threads.
set -eu
cd "$(dirname "$0")/../.."
build=$(sh bench/build.sh build src/cli/fovea bench/scenes bench/score)
exec python3 bench/digits/lab.py "$build" ablation
