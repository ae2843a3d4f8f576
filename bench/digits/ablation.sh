#!/bin/sh
# ablation.sh: what each stage of ViT-AdaLA brings: mIoU of a tiny ViT on scenes of digits, with softmax, with
# linear attention as it is, after stage 1, after stage 2, after both; three seeds; also at other sizes.
#
#   sh bench/digits/ablation.sh
#
# An interrupted run goes on where it was; what is kept for that is in build/digits, the table is
# ablation.md there. BUILD names the build directory, THREADS the threads.
set -eu
cd "$(dirname "$0")/../.."
build=$(sh bench/build.sh build src/cli/fovea bench/scenes bench/score)
exec python3 bench/digits/lab.py "$build" ablation
