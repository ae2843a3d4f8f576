#!/bin/sh
# PyTorch 2.15.0, processors: grid_sample of bfloat16 gives NaN for finite values where these are not
# contiguous, and the right numbers for a contiguous copy of the same values.
#
# transformers' deformable attention (RF-DETR, Deformable DETR) hands its values over in that form, so
# that model.to(torch.bfloat16) finds nothing but NaN. The same in float32 is right.
#
#   sh findings/torch_bf16_grid_sample_strided.sh      exit 0: it is still so
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.15.0
"$folder/venv/bin/python" - <<'PYTHON'
import sys
import torch

torch.manual_seed(0)
value = torch.randn(1, 40 * 40, 16, 16).flatten(2).transpose(1, 2).reshape(16, 16, 40, 40)
grid = torch.rand(16, 300, 4, 2) * 2 - 1
sample = torch.nn.functional.grid_sample
finite = {}
for dtype in (torch.float32, torch.bfloat16):
    for name, v in (("strided", value), ("contiguous", value.contiguous())):
        out = sample(v.to(dtype), grid.to(dtype), align_corners=False)
        finite[dtype, name] = bool(torch.isfinite(out).all())
        print("%-14s %-10s %s" % (dtype, name, "finite" if finite[dtype, name] else "NaN"))
wrong = finite.pop((torch.bfloat16, "strided"))
sys.exit(wrong or not all(finite.values()))
PYTHON
