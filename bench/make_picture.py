#!/usr/bin/env python3
"""make_picture.py: draws bench/scene.jpg, the picture of the demo: a house, trees, a road and a lake
under clouds. Ours by construction, the same every time.

    make_picture.py OUT.jpg        needs numpy and Pillow
"""
import sys

import numpy as np
from PIL import Image, ImageDraw, ImageFilter

W, H = 1600, 1200
rng = np.random.default_rng(7)


def noise(width, height, octaves, coarse=4, fade=0.5):
    """Fractal noise in [0, 1]: random grids of growing fineness, smoothly enlarged and added."""
    total = np.zeros((height, width))
    weight = 1.0
    for octave in range(octaves):
        cells = coarse << octave
        grid = rng.random((max(2, cells * height // width) + 1, cells + 1)).astype("f4")
        layer = Image.fromarray(grid).resize((width, height), Image.BICUBIC)
        total += weight * np.asarray(layer)
        weight *= fade
    total -= total.min()
    return total / total.max()


def blend(picture, colour, mask):
    mask = np.clip(mask, 0, 1)[..., None]
    return picture * (1 - mask) + np.asarray(colour, float) * mask


def sky(y):
    t = np.clip(y / 620, 0, 1)[..., None]
    picture = (1 - t) * np.array([58, 112, 190.0]) + t * np.array([214, 226, 236.0])
    clouds = noise(W, H, 7, 3)
    return blend(picture, (250, 250, 248), (clouds - 0.52) * 4 * (1 - np.clip(y / 600, 0, 1)))


def hills(picture, y):
    for level, roughness, colour in ((520, 190, (112, 132, 158)), (590, 120, (88, 116, 108)),
                                     (640, 60, (70, 104, 62))):
        ridge = level - roughness * noise(W, 8, 7, 3)[4]
        texture = noise(W, H, 8, 8)[..., None]
        hill = np.asarray(colour, float) * (0.75 + 0.5 * texture)
        picture = blend(picture, hill, y - ridge[None, :])
    return picture


def ground(picture, x, y):
    grain = noise(W, H, 9, 16, 0.75)[..., None]
    broad = noise(W, H, 4, 3)[..., None]
    meadow = (np.array([74, 122, 44.0]) * (1 - broad) + np.array([150, 152, 70.0]) * broad)
    meadow *= 0.6 + 0.8 * grain
    picture = blend(picture, meadow, (y - 660) / 3)
    shore = ((x - 1230) / 360) ** 2 + ((y - 760) / 62) ** 2 + 0.12 * (grain[..., 0] - 0.5)
    ripple = 0.9 + 0.1 * np.sin(y * 0.9 + 6 * noise(W, H, 5, 6))
    water = np.array([96, 140, 176.0]) * ripple[..., None]
    picture = blend(picture, water, (1 - shore) * 12)
    depth = np.clip((y - 670) / 530, 0, 1)
    middle, half = 640 - 260 * depth ** 1.4, 8 + 190 * depth
    road = np.clip((half - np.abs(x - middle)) / 3, 0, 1) * (y > 670)
    picture = blend(picture, (128, 124, 120), road * (0.85 + 0.15 * grain[..., 0]))
    dashes = (np.abs(x - middle) < 1 + 6 * depth) & (np.sin(60 * np.sqrt(depth)) > 0.1)
    return blend(picture, (236, 232, 214), dashes * (y > 690) * 0.9)


def house(draw, x, y, s):
    wall, shade = (206, 188, 160), (168, 150, 126)
    draw.polygon([(x, y), (x + 9 * s, y), (x + 9 * s, y + 6 * s), (x, y + 6 * s)], wall)
    draw.polygon([(x + 9 * s, y), (x + 13 * s, y - s), (x + 13 * s, y + 5 * s), (x + 9 * s, y + 6 * s)],
                 shade)
    draw.polygon([(x - s, y), (x + 4.5 * s, y - 4.5 * s), (x + 10 * s, y)], (152, 62, 48))
    draw.polygon([(x + 4.5 * s, y - 4.5 * s), (x + 8.5 * s, y - 5.2 * s), (x + 14 * s, y - s),
                  (x + 10 * s, y)], (122, 48, 40))
    draw.rectangle([x + 6.5 * s, y - 5 * s, x + 7.5 * s, y - 2.5 * s], (120, 96, 88))
    draw.rectangle([x + 3.6 * s, y + 2.6 * s, x + 5.4 * s, y + 6 * s], (86, 58, 40))
    for wx in (1, 6.4):
        draw.rectangle([x + wx * s, y + 1.6 * s, x + (wx + 1.7) * s, y + 3.6 * s], (238, 234, 226))
        draw.rectangle([x + (wx + 0.2) * s, y + 1.8 * s, x + (wx + 1.5) * s, y + 3.4 * s],
                       (66, 84, 104))


def tree(draw, x, y, s):
    draw.polygon([(x - 0.25 * s, y), (x + 0.25 * s, y), (x + 0.12 * s, y - 2.4 * s),
                  (x - 0.12 * s, y - 2.4 * s)], (84, 62, 44))
    for _ in range(260):
        angle, r = rng.random() * 2 * np.pi, np.sqrt(rng.random())
        cx, cy = x + 1.3 * s * r * np.cos(angle), y - 3.4 * s + 1.6 * s * r * np.sin(angle)
        light = 0.65 + 0.5 * rng.random() - 0.25 * (cy - y + 3.4 * s) / (1.6 * s)
        e = s * (0.10 + 0.14 * rng.random())
        draw.ellipse([cx - e, cy - e, cx + e, cy + e],
                     tuple(int(c * light) for c in (62, 108, 46)))


def car(draw, x, y, s):
    draw.polygon([(x, y), (x + 0.6 * s, y - 0.9 * s), (x + 3 * s, y - 0.9 * s), (x + 3.8 * s, y)],
                 (58, 72, 88))
    draw.rectangle([x - 0.8 * s, y, x + 4.6 * s, y + 1.1 * s], (176, 38, 36))
    for wheel in (0.3, 3.4):
        draw.ellipse([x + (wheel - 0.5) * s, y + 0.6 * s, x + (wheel + 0.5) * s, y + 1.6 * s],
                     (28, 28, 30))


def main(path):
    y, x = np.mgrid[0:H, 0:W].astype(float)
    picture = ground(hills(sky(y), y), x, y)
    image = Image.fromarray(np.clip(picture, 0, 255).astype("u1"))
    draw = ImageDraw.Draw(image)
    draw.ellipse([1290, 90, 1390, 190], (255, 244, 206))
    house(draw, 880, 640, 26)
    for tx, ty, s in ((120, 760, 60), (330, 700, 38), (1330, 700, 34), (1470, 730, 52),
                      (780, 690, 30), (60, 960, 110)):
        tree(draw, tx, ty, s)
    car(draw, 470, 900, 34)
    image = image.filter(ImageFilter.GaussianBlur(0.7))
    image.save(path, quality=82, optimize=True)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
