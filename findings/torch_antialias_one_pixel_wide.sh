#!/bin/sh
# torch 2.15.0: an antialiased resize of floats is wrong where the picture is one pixel wide.
#
# Such a tensor is contiguous and channels-last at the same time. torch.nn.functional.interpolate with
# antialias=True then gives every row of the result the value of one row: of a column of 37 random
# numbers, made 31 long, all 31 are equal. The same column two pixels wide is resized rightly, and so
# are uint8 tensors and antialias=False. Bilinear and bicubic, float32 and float64, any number of
# channels.
#
# A strip that is cut from a picture for a resize by parts can be that narrow.
#
#   sh findings/torch_antialias_one_pixel_wide.sh      exit 0: it is still so
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.15.0 numpy
"$folder/venv/bin/python" - <<'PYTHON'
import sys
import torch
from torch.nn.functional import interpolate

wrong = 0
for mode in ("bilinear", "bicubic"):
    for dtype in (torch.float32, torch.float64):
        column = torch.rand(1, 1, 37, 1, generator=torch.Generator().manual_seed(0)).to(dtype)
        narrow = interpolate(column, size=(31, 1), mode=mode, antialias=True)
        wide = interpolate(column.repeat(1, 1, 1, 2), size=(31, 2), mode=mode, antialias=True)[..., :1]
        plain = interpolate(column, size=(31, 1), mode=mode)
        beside = interpolate(column.repeat(1, 1, 1, 2), size=(31, 2), mode=mode)[..., :1]
        off = (narrow - wide).abs().max().item()
        print("%s, %s: %d different values of 31, off by %.2f; without antialias off by %.2f"
              % (mode, dtype, len(narrow.unique()), off, (plain - beside).abs().max().item()))
        wrong += len(narrow.unique()) == 1 and off > 0.1 and torch.equal(plain, beside)
sys.exit(wrong != 4)
PYTHON
