"""data.py: photographs as training sees them: the samples of `fovea adapt`.

Order, crops, flips and colours are functions of the seed and the sample's number alone, and are those
of `fovea adapt` with the same seed: a training that goes on needs to know its step only, and processes
that share a step see together what a single one would.
"""
import collections
import json
import math
import os

import numpy as np
import torch
from PIL import Image

from .._pixels import read

# What the program reads, as Pillow calls it, and the names that files of these have.
FORMATS = ("JPEG", "PNG", "WEBP", "TIFF", "BMP", "PPM")
ENDINGS = (".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".webp", ".tif", ".tiff", ".bmp", ".dib", ".pbm", ".pgm", ".ppm",
           ".pnm", ".pfm")
WORD = (1 << 64) - 1

# width, height in pixels; crop: random, centre, none; least, most: of a random crop's side; flip:
# how often; jitter: of brightness, contrast, colour; resample: Pillow's filter
Policy = collections.namedtuple("Policy", "width height crop least most flip jitter resample seed")
# Of preprocessor_config.json: what is subtracted from colours in [0, 1], and what they are divided by.
Colours = collections.namedtuple("Colours", "mean std")


def _is_picture(path):
    """By what it begins with; and a file that has a picture's name, which is then one that cannot be read."""
    if not os.path.isfile(path):
        return False
    with open(path, "rb") as f:
        head = f.read(16)
    known = (Image.OPEN[kind][1] for kind in FORMATS if kind in Image.OPEN)
    name = os.path.basename(path).lower()
    return any(accepts is None or accepts(head) is True for accepts in known) or (
        name.endswith(ENDINGS) and not name.startswith("."))


def photographs(folder):
    """Paths of the pictures of a folder, sorted. ValueError where there are none."""
    Image.init()
    paths = [os.path.join(folder, n) for n in sorted(os.listdir(folder))]
    paths = [path for path in paths if _is_picture(path)]
    if not paths:
        raise ValueError("%s: no pictures in it (JPEG, PNG, WebP, TIFF, BMP, PNM)" % folder)
    return paths


def _read_json(path):
    if not os.path.exists(path):
        return {}
    with open(path) as f:
        return json.load(f)


def processor(folder):
    """(Colours, size in pixels or None, Pillow's filter) of a model's processor_config.json or
    preprocessor_config.json, or of timm's config.json, which goes first; ImageNet's where they say nothing."""
    timms = _read_json(os.path.join(folder, "config.json")).get("pretrained_cfg") or {}
    nested = _read_json(os.path.join(folder, "processor_config.json")).get("image_processor")
    found = {} if timms else nested or _read_json(os.path.join(folder, "preprocessor_config.json"))
    size = found.get("crop_size") or found.get("size") or timms.get("input_size", [None])[-1]
    if isinstance(size, dict):
        size = size.get("height") or size.get("shortest_edge")
    mean = found.get("image_mean") or timms.get("mean") or (0.485, 0.456, 0.406)
    std = found.get("image_std") or timms.get("std") or (0.229, 0.224, 0.225)
    return Colours(mean, std), size, found.get("resample", Image.Resampling.BICUBIC)


# ---- numbers ----


def mix(x):
    """SplitMix64: a bijection of 64 bits with full avalanche."""
    x = (x + 0x9e3779b97f4a7c15) & WORD
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9 & WORD
    x = (x ^ x >> 27) * 0x94d049bb133111eb & WORD
    return x ^ x >> 31


def draws(seed, sample, count):
    """`count` numbers in [0, 1) of a sample."""
    state, out = mix(~mix(seed) & WORD) ^ mix(sample), []
    for _ in range(count):
        state = mix(state)
        out.append((state >> 11) * 2.0 ** -53)
    return out


def pick(seed, n, sample):
    """Which of n pictures a sample is: a Feistel permutation of them for every epoch."""
    key, x, half = mix(mix(seed) ^ sample // n), sample % n, 1
    while half < 32 and 1 << 2 * half < n:
        half += 1
    mask = (1 << half) - 1
    while True:
        left, right = x >> half, x & mask
        for turn in range(6):
            left, right = right, left ^ mix(key ^ mix(turn << 32 ^ right)) & mask
        x = left << half | right
        if x < n:
            return x


# ---- pictures ----


def _side(length, most):
    return min(max(math.floor(length + 0.5), 1), most)


def _part(policy, size, share, at_x, at_y):
    """Box of `share` of the largest part that has the aspect of the cut; at: where in the room."""
    scale = share * min(size[0] / policy.width, size[1] / policy.height)
    width, height = _side(scale * policy.width, size[0]), _side(scale * policy.height, size[1])
    x, y = int(at_x * (size[0] - width + 1)), int(at_y * (size[1] - height + 1))
    return x, y, x + width, y + height


def _jittered(rgb, bright, contrast, colour):
    """Brightness and saturation, then contrast around the mean grey; rounded once."""
    own = rgb @ np.array([0.299, 0.587, 0.114])
    turned = bright * (own[..., None] + colour * (rgb - own[..., None]))
    mean = bright * own.mean()
    return np.floor(np.clip(mean + contrast * (turned - mean), 0, 255) + 0.5)


def cut(picture, policy, sample):
    """Bytes (height, width, 3) of a Pillow image, as sample `sample` sees it."""
    size, at_x, at_y, turned, *colours = draws(policy.seed, sample, 7)
    box = (0, 0, *picture.size)
    if policy.crop == "random":
        box = _part(policy, picture.size, policy.least * (policy.most / policy.least) ** size, at_x, at_y)
    elif policy.crop == "centre":
        box = _part(policy, picture.size, 1, 0.5, 0.5)
    part = picture.crop(box).resize((policy.width, policy.height), policy.resample)
    rgb = np.asarray(part)
    if turned < policy.flip:
        rgb = rgb[:, ::-1]
    if policy.jitter:
        rgb = _jittered(rgb.astype(np.float64), *(1 + policy.jitter * (2 * c - 1) for c in colours))
    return rgb.astype(np.uint8, copy=False)


def normalised(rgb, colours):
    """Bytes (height, width, 3) -> float32 [3, height, width] as a model takes them."""
    x = torch.from_numpy(rgb.astype(np.float32)) / 255
    return ((x - torch.tensor(colours.mean)) / torch.tensor(colours.std)).permute(2, 0, 1).contiguous()


class Photographs(torch.utils.data.Dataset):
    """Sample number -> normalised pixels [3, height, width]. A picture that cannot be read gives way
    to the next of the folder."""

    def __init__(self, paths, policy, colours):
        self.paths, self.policy, self.colours = paths, policy, colours

    def __getitem__(self, sample):
        at = pick(self.policy.seed, len(self.paths), sample)
        for i in range(len(self.paths)):
            try:
                with Image.open(self.paths[(at + i) % len(self.paths)]) as image:
                    picture = Image.fromarray(read(image))
                return normalised(cut(picture, self.policy, sample), self.colours)
            except OSError:
                continue
        raise ValueError("none of the %d pictures can be read" % len(self.paths))


def batches(photos, batch, first=0, rank=0, world=1, workers=0):
    """Batches [batch, 3, height, width] of this process, without end, from step `first` on. Of
    the samples of a step the first `batch` are the first process's, and so on."""
    def numbers():
        step = first
        while True:
            at = (step * world + rank) * batch
            yield list(range(at, at + batch))
            step += 1
    return torch.utils.data.DataLoader(photos, batch_sampler=numbers(), num_workers=workers)
