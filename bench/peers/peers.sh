#!/bin/sh
# peers.sh: Fovea beside ONNX Runtime, OpenVINO, ncnn and PyTorch: the same model, softmax and linear,
# in float32, as each engine comes, in bfloat16 and in int8.
#
#   sh bench/peers/peers.sh                        DINOv2-B at 518 and 1036 pixels; an hour or two
#   sh bench/peers/peers.sh --precision f32        half an hour
#   sh bench/peers/peers.sh --size 1540 --peers fovea,openvino --rounds 3      options of bench/peers/peers.py
#
# The others come from PyPI into build/peers/venv; PACKAGES names which (PyTorch takes several GB; without
# it: PACKAGES="numpy onnx onnxruntime openvino nncf ncnn"). BUILD names the build directory.
set -eu
cd "$(dirname "$0")/../.."
build=$(sh bench/build.sh "build venv")
venv=$build/peers/venv
[ -x "$venv/bin/pip" ] || python3 -m venv "$venv" >&2
"$venv/bin/pip" install --quiet ${PACKAGES:-numpy onnx onnxruntime openvino nncf ncnn torch} >&2
FOVEA_LIBRARY=${FOVEA_LIBRARY:-$PWD/$build/src/libfovea.so} exec "$venv/bin/python" bench/peers/peers.py "$@"
