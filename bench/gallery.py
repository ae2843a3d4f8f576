#!/usr/bin/env python3
"""gallery.py: makes bench/gallery.jpg, which shows how `fovea run --overlay` draws depth, masks, boxes and
key points.

    gallery.py path/to/fovea OUT.jpg        needs Pillow

The weights are random, so what is found means nothing: the picture shows how results are drawn.
"""
import os
import subprocess
import sys
import tempfile

from PIL import Image, ImageDraw, ImageFont

SCENE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "scene.jpg")
WIDE, HIGH, STRIP, GAP = 480, 360, 26, 6
TILES = (
    ("Depth Anything, --depth --colormap turbo", "synthetic:depth-anything-s", ["--size", "210"]),
    ("EoMT, --masks --mask-rule instance", "synthetic:eomt-s",
     ["--size", "96x64", "--mask-rule", "instance", "--score", "0.09"]),
    ("RF-DETR, --boxes", "synthetic:rf-detr-s", ["--score", "0.962"]),
    ("ViTPose, --pose", "synthetic:vitpose-s", []),
)


def main(exe, out):
    page = Image.new("RGB", (2 * WIDE + 3 * GAP, 2 * (HIGH + STRIP) + 3 * GAP), "white")
    draw = ImageDraw.Draw(page)
    with tempfile.TemporaryDirectory() as folder:
        drawn = os.path.join(folder, "drawn.png")
        for i, (caption, model, options) in enumerate(TILES):
            subprocess.run([exe, "run", model, SCENE, "--overlay", drawn, *options], check=True,
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            x, y = GAP + i % 2 * (WIDE + GAP), GAP + i // 2 * (HIGH + STRIP + GAP)
            draw.text((x, y + 6), caption + "  (random weights)", fill="black", font=ImageFont.load_default())
            page.paste(Image.open(drawn).convert("RGB").resize((WIDE, HIGH), Image.LANCZOS), (x, y + STRIP))
    page.save(out, quality=82)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    main(os.path.abspath(sys.argv[1]), sys.argv[2])
