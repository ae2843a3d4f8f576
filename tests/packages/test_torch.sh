#!/bin/sh
# test_torch.sh PROGRAM LIBRARY: python/fovea/torch, where a Python has PyTorch: FOVEA_TORCH_PYTHON, else
# build/torch-venv, else python3. To make one:
#     python3 -m venv build/torch-venv
#     build/torch-venv/bin/pip install torch torchvision transformers timm safetensors pillow numpy
set -eu
here=$(dirname "$0")
python=${FOVEA_TORCH_PYTHON:-$here/../../build/torch-venv/bin/python}
command -v "$python" >/dev/null || python=python3
exec "$python" "$here/test_torch.py" "$@"
