#!/bin/sh
# transformers 5.24.0: EomtImageProcessor with do_pad fills a picture up to a square, and its
# post_process_semantic_segmentation does not take the padding off again.
#
# The map of the whole square is squeezed onto the picture. Here a picture of 320x160 pixels becomes
# the upper half of a square of 64x64; a model that calls everything in it class 1 and the padding class
# 0 is perfect. The result should be 1 everywhere, and its lower half is 0: what is at the bottom of the
# picture is found in its middle.
#
#   sh findings/transformers_eomt_padding_stays.sh      exit 0: it is still so
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.15.0 torchvision==0.29.2 transformers==5.24.0 pillow==12.3.0
"$folder/venv/bin/python" - <<'PYTHON'
import sys
from types import SimpleNamespace
import torch
from PIL import Image
from transformers import EomtImageProcessor

size = {"shortest_edge": 64, "longest_edge": 64}
processor = EomtImageProcessor(size=size, do_pad=True, do_split_image=False)
pixels = processor(Image.new("RGB", (320, 160), (200, 100, 50)), return_tensors="pt")["pixel_values"][0]
padded = (pixels == pixels[:, -1:, -1:]).all(0)
rows = int((~padded).any(1).sum())
print("pixels %dx%d, of which the upper %d rows are the picture" % (*pixels.shape[:0:-1], rows))
masks = torch.full((1, 2, 64, 64), -9.0)
masks[0, 0, rows:] = 9.0  # the padding
masks[0, 1, :rows] = 9.0  # the picture
classes = torch.tensor([[[9.0, -9.0, -9.0], [-9.0, 9.0, -9.0]]])
outputs = SimpleNamespace(masks_queries_logits=masks, class_queries_logits=classes, patch_offsets=None)
found, = processor.post_process_semantic_segmentation(outputs, target_sizes=[(160, 320)], size=size)
part = float((found == 0).float().mean())
print("%.0f %% of the picture have the class of the padding" % (100 * part))
sys.exit(not (rows == 32 and 0.4 < part < 0.6))
PYTHON
