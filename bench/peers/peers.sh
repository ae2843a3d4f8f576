#!/bin/sh
# peers.sh: Fovea and ONNX Runtime, OpenVINO, ncnn and PyTorch: the same model, softmax and linear,
# in float32, as each engine comes, in bfloat16 and in int8.
#
#   sh bench/peers/peers.sh                        DINOv2-B at 518 and 1036 pixels; an hour or two
#   sh bench/peers/peers.sh --precision f32        half an hour
#   sh bench/peers/peers.sh --size 1540 --peers fovea,openvino --rounds 3      options of bench/peers/peers.py
#   sh bench/peers/peers.sh --model depth-anything-s,rf-detr,eomt-s,vitpose-s,sam-b
#   sh bench/peers/peers.sh --model mavit-t,pola-swin-t --official FOLDER      FOLDER: their authors' code
#
# The others come from PyPI into build/peers/venv; PACKAGES names which (PyTorch takes several GB; without
# it, for DINOv2 alone: PACKAGES="numpy onnx onnxruntime openvino nncf ncnn MNN"). BUILD names the build directory.
set -eu
cd "$(dirname "$0")/../.."
build=$(sh bench/build.sh "build venv")
venv=$build/peers/venv
[ -x "$venv/bin/pip" ] || python3 -m venv "$venv" >&2
packages="numpy onnx onnxruntime openvino nncf ncnn MNN torch transformers timm einops fvcore"
for package in ${PACKAGES:-$packages}; do
    "$venv/bin/pip" install --quiet "$package" >&2
done
FOVEA_LIBRARY=${FOVEA_LIBRARY:-$PWD/$build/src/libfovea.so} exec "$venv/bin/python" bench/peers/peers.py "$@"
