#!/bin/sh
# torchvision 0.29.2 with torch 2.15.0: bilinear resize of a uint8 tensor gives other bytes where the
# processor has no AVX2, as on every ARM board.
#
# With AVX2, torchvision hands the bytes to PyTorch's kernel for uint8, whose weights are whole
# numbers. Without it, it casts to float32, resizes, and rounds. Antialiased, 640x427 to 224x224 of
# random bytes: 14 % of the values differ by one. Bicubic is the kernel for uint8 on every processor,
# and does not differ. ATEN_CPU_CAPABILITY=default makes an x86-64 processor count as one without AVX2.
#
# So the default image processors of transformers 5 that resize bilinearly (ViT, SAM, SigLIP 2, EoMT)
# give a model other pixels on a Jetson or a Raspberry Pi than on the machine it was checked on.
#
#   sh findings/torchvision_bilinear_bytes_by_cpu.sh      exit 0: it is still so
set -eu
case $(uname -m) in
x86_64) grep -qw avx2 /proc/cpuinfo || { echo "needs a processor with AVX2, to compare with" >&2; exit 77; } ;;
*) echo "needs an x86-64 processor with AVX2, to compare with" >&2; exit 77 ;;
esac
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.15.0 torchvision==0.29.2 numpy
cat >"$folder/resize.py" <<'PYTHON'
import sys
import torch
from torchvision.transforms import InterpolationMode
from torchvision.transforms.v2 import functional as F

x = torch.randint(0, 256, (3, 427, 640), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
modes = (InterpolationMode.BILINEAR, InterpolationMode.BICUBIC)
torch.save([F.resize(x, [224, 224], interpolation=m, antialias=True) for m in modes], sys.argv[1])
PYTHON
"$folder/venv/bin/python" "$folder/resize.py" "$folder/avx2"
ATEN_CPU_CAPABILITY=default "$folder/venv/bin/python" "$folder/resize.py" "$folder/plain"
"$folder/venv/bin/python" - "$folder/avx2" "$folder/plain" <<'PYTHON'
import sys
import torch

bilinear, bicubic = [(a.int() - b.int()).abs() for a, b in zip(*map(torch.load, sys.argv[1:]))]
for name, d in (("bilinear", bilinear), ("bicubic", bicubic)):
    print("%s: %.1f %% of the values differ, by %d at most" % (name, 100 * (d > 0).float().mean(), d.max()))
sys.exit(not (bilinear.max() == 1 and 0.1 < (bilinear > 0).float().mean() < 0.2 and bicubic.max() == 0))
PYTHON
