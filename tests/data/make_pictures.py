#!/usr/bin/env python3
"""make_pictures.py: writes the pictures of test_preprocess.c, and Pillow's results for them.

Run in this folder with Pillow and numpy; test_preprocess.c lists the same cases.
"""
import math

import numpy as np
from PIL import Image

FILTERS = {
    "nearest": Image.NEAREST, "bilinear": Image.BILINEAR, "bicubic": Image.BICUBIC,
    "lanczos": Image.LANCZOS, "box": Image.BOX, "hamming": Image.HAMMING,
}


def source(width, height, seed):
    """Waves, a hard edge and noise, which reveal errors of overshoot, clipping and phase."""
    noise = np.random.default_rng(seed)
    y, x = np.mgrid[0:height, 0:width].astype(float)
    planes = [128 + 120 * np.sin(x / (2 + c) + y / (5 - c)) for c in range(3)]
    picture = np.stack(planes, -1)
    picture[(x > width * 0.6) & (y > height * 0.3)] = (255, 0, 255)
    picture += noise.normal(0, 12, picture.shape)
    return Image.fromarray(np.clip(picture, 0, 255).astype(np.uint8))


def crop(picture, width, height):
    """Hugging Face's center_crop, which pads with black."""
    a = np.asarray(picture)
    h, w = a.shape[:2]
    top, left = (h - height) // 2, (w - width) // 2
    big = np.zeros((max(height, h), max(width, w), 3), np.uint8)
    top_pad = math.ceil((big.shape[0] - h) / 2)
    left_pad = math.ceil((big.shape[1] - w) / 2)
    big[top_pad:top_pad + h, left_pad:left_pad + w] = a
    top, left = top + top_pad, left + left_pad
    return Image.fromarray(big[max(0, top):top + height, max(0, left):left + width])


def short(picture, edge):
    w, h = picture.size
    long = int(edge * max(w, h) / min(w, h))
    return (edge, long) if w <= h else (long, edge)


def main():
    sources = {"wide": source(97, 61, 1), "tall": source(41, 83, 2), "tiny": source(5, 3, 3)}
    for name, picture in sources.items():
        picture.save(f"picture_{name}.ppm")
    cases = [
        ("wide_short32_crop24", "wide", ("short", 32), "bicubic", (24, 24)),
        ("wide_short24", "wide", ("short", 24), "bilinear", None),
        ("tall_short20_crop28", "tall", ("short", 20), "bicubic", (28, 24)),
        ("tall_short31", "tall", ("short", 31), "lanczos", None),
        ("wide_exact40", "wide", (40, 40), "bilinear", None),
        ("wide_exact33x17", "wide", (33, 17), "lanczos", None),
        ("wide_exact20x50", "wide", (20, 50), "box", None),
        ("tall_exact61x30", "tall", (61, 30), "hamming", None),
        ("wide_exact50x20", "wide", (50, 20), "nearest", None),
        ("wide_exact31x61", "wide", (31, 61), "bicubic", None),
        ("wide_exact97x13", "wide", (97, 13), "bicubic", None),
        ("tiny_exact37x29", "tiny", (37, 29), "bicubic", None),
        ("tiny_exact23x40", "tiny", (23, 40), "lanczos", None),
        ("tiny_exact31x17", "tiny", (31, 17), "nearest", None),
        ("wide_exact30x20_crop41", "wide", (30, 20), "bilinear", (41, 41)),
        ("tall_crop33x21", "tall", None, "bicubic", (33, 21)),
    ]
    for name, origin, size, filt, box in cases:
        picture = sources[origin]
        if size:
            size = short(picture, size[1]) if size[0] == "short" else size
            picture = picture.resize(size, FILTERS[filt])
        if box:
            picture = crop(picture, *box)
        picture.save(f"picture_{name}.ppm")


if __name__ == "__main__":
    main()
