#!/bin/sh
# Pillow 13.0.0: Image.resize gives other pixels than Pillow 12.3.0 for some shapes, by more than a
# rounding.
#
# A resize is two passes with bytes between them. Up to 12.3 the horizontal one came first. 13.0 runs
# the vertical one first where the height shrinks much more than the width does. What is rounded and
# clamped between the passes is then another picture: for 427x640 to 224x224, bicubic, noise differs
# by 8 of 255 and photographs with hard edges by up to 15. Shapes that shrink evenly are the same bytes in both.
#
# A model whose pictures go through Pillow sees other pixels after the upgrade, portraits above all.
#
#   sh findings/pillow13_resize_order.sh      exit 0: it is still so
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cat >"$folder/resize.py" <<'PYTHON'
import random
import sys
from PIL import Image

random.seed(0)
values = bytes(random.choice((0, 255)) if random.random() < 0.3 else random.randrange(256)
               for _ in range(3 * 427 * 640))
for size in ((427, 640), (640, 427), (640, 640)):
    picture = Image.frombytes("RGB", size, values.ljust(3 * size[0] * size[1], b"\x80"))
    picture.resize((224, 224), Image.Resampling.BICUBIC).save("%s-%dx%d.ppm" % (sys.argv[1], *size))
PYTHON
for version in 12.3.0 13.0.0; do
    python3 -m venv "$folder/$version"
    "$folder/$version/bin/pip" install --quiet "pillow==$version"
    "$folder/$version/bin/python" "$folder/resize.py" "$folder/of-$version"
done
"$folder/13.0.0/bin/python" - "$folder" <<'PYTHON'
import sys
from PIL import Image, ImageChops

differs = {}
for size in ("427x640", "640x427", "640x640"):
    old, new = (Image.open("%s/of-%s-%s.ppm" % (sys.argv[1], v, size)) for v in ("12.3.0", "13.0.0"))
    differs[size] = max(high for low, high in ImageChops.difference(old, new).getextrema())
    print("%s to 224x224: 12.3.0 and 13.0.0 differ by %d of 255 at most" % (size, differs[size]))
sys.exit(not (differs["427x640"] > 2 and differs["640x427"] == 0 and differs["640x640"] == 0))
PYTHON
