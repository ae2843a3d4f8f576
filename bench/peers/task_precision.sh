#!/bin/sh
# task_precision.sh: how far depth, boxes, masks and key points in bfloat16 are from those in
# float32, by Fovea and by PyTorch, in the units of each task.
#
#   sh bench/peers/task_precision.sh            a table, in a quarter of an hour on two cores
#   sh bench/peers/task_precision.sh rf-detr    of depth-anything-s, rf-detr, eomt-s, vitpose-s
#
# Weights and photographs are those of bench/accuracy.sh, 100 MB; PyTorch comes from PyPI into
# build/peers/venv. BUILD names the build directory, MODEL another trained ViT-S/14, PHOTOS a folder
# of other photographs.
set -eu
cd "$(dirname "$0")/../.."
build=$(sh bench/build.sh "build venv")
venv=$build/peers/venv
[ -x "$venv/bin/pip" ] || python3 -m venv "$venv" >&2
"$venv/bin/pip" install --quiet numpy pillow safetensors torch transformers >&2
sh bench/trained_fetch.sh "$build/accuracy"
FOVEA_LIBRARY=${FOVEA_LIBRARY:-$PWD/$build/src/libfovea.so} exec "$venv/bin/python" \
    bench/peers/task_precision.py "${MODEL:-$build/accuracy/trained}" \
    "${PHOTOS:-$build/accuracy/photos}" "$build/peers" "$@"
