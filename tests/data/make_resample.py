#!/usr/bin/env python3
"""make_resample.py: writes the results of torchvision and of transformers' image processors for pictures.

Run in this folder with torchvision 0.29 and transformers 5.24 on x86-64 with AVX2; it writes
resample.txt for test_resample.c. A case is two lines: the numbers of fovea_preprocess, then the
size of the result, a hash of its bytes if bytes are resized (else 0), and some of its floats.
"""
import sys

import numpy as np
import torch
import transformers
from torchvision.transforms import v2
from torchvision.transforms.v2 import functional as F

FIELDS = ("resize filter short_edge resize_width resize_height crop_width crop_height patch "
          "most_patches resample no_antialias blur long_edge crop pad pad_width pad_height "
          "first_long_edge first_multiple").split()
NONE, SHORT, EXACT, PATCHES, FIT, LONG, BOUNDED, WITHIN = range(8)
BILINEAR, BICUBIC, LANCZOS, NEAREST = 0, 1, 2, 3
TORCHVISION, PILLOW, FLOAT = range(3)
DOWN, EVEN, UP = range(3)
SQUARE, BLACK, ZERO, CENTRED = 1, 2, 3, 4
PIL = {BILINEAR: 2, BICUBIC: 3, LANCZOS: 1, NEAREST: 0}
MODES = {BILINEAR: v2.InterpolationMode.BILINEAR, BICUBIC: v2.InterpolationMode.BICUBIC,
         LANCZOS: v2.InterpolationMode.LANCZOS, NEAREST: v2.InterpolationMode.NEAREST_EXACT}
MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]


def source(width, height):
    """The picture of test_resample.c: waves of integers, hard edges, black and white."""
    y, x, c = np.meshgrid(np.arange(height), np.arange(width), np.arange(3), indexing="ij")
    value = x * 7 + y * 13 + c * 50 ^ x * y >> 4
    block = (x // 9 + y // 11 + c) % 3
    return np.where(block == 0, value & 255, np.where(block == 1, 255 * (value >> 3 & 1),
                                                      value // 5 & 255)).astype(np.uint8)


def fnv(data):
    value = 0xcbf29ce484222325
    for byte in data.tobytes():
        value = (value ^ byte) * 0x100000001b3 & 0xffffffffffffffff
    return value


def line(out, size, rule, pixels, quantised):
    """pixels: normalised, [3, height, width]; quantised: the bytes before normalisation, or None."""
    height, width = pixels.shape[1:]
    print(*size, *(rule.get(name, 0) for name in FIELDS), file=out)
    digest = fnv(np.moveaxis(quantised, 0, -1)) if quantised is not None else 0
    flat = np.moveaxis(pixels, 0, -1).reshape(-1)
    at = np.unique(np.linspace(0, flat.size - 1, 5 if digest else 29).astype(int) // 7 * 7)
    print(width, height, digest, len(at), *(f"{i} {flat[i]:.9g}" for i in at), file=out)


def normalise(quantised):
    return F.normalize(torch.from_numpy(quantised).float() / 255, MEAN, STD).numpy()


def torchvision(out, size, to, filt, resample, antialias):
    picture = torch.from_numpy(source(*size)).permute(2, 0, 1)[None].contiguous()
    width, height = to
    rule = dict(resize=EXACT, filter=filt, resize_width=width, resize_height=height,
                resample=resample, no_antialias=int(not antialias))
    if resample == FLOAT:
        done = F.resize(picture * (1 / 255), [height, width], MODES[filt], antialias=antialias)
        line(out, size, rule, F.normalize(done[0], MEAN, STD).numpy(), None)
    else:
        done = F.resize(picture, [height, width], MODES[filt], antialias=antialias)[0].numpy()
        line(out, size, rule, normalise(done), done)


def processor(out, name, frame, rule, quantised=True, pick=lambda x: x[0], **options):
    """An image processor of a class of transformers, whose defaults apply to settings that are not given."""
    kind = getattr(transformers, name)
    picture = source(*frame)
    own = dict(image_mean=MEAN, image_std=STD, rescale_factor=1 / 255) | options
    pixels = pick(kind(**own)(picture, return_tensors="pt")["pixel_values"]).numpy()
    plain = None
    if quantised:
        plain = pick(kind(**own | dict(do_rescale=False, do_normalize=False))(
            picture, return_tensors="pt")["pixel_values"]).numpy()
        plain = plain.astype(np.uint8)
    line(out, frame, rule, pixels, plain)


def main():
    assert torch.backends.cpu.get_cpu_capability() in ("AVX2", "AVX512")
    sizes = [(640, 427), (427, 640), (227, 300), (1000, 872), (64, 64), (1, 37), (29, 1), (5, 3)]
    with open("resample.txt", "w") as out:
        for size in sizes:
            for filt in (BILINEAR, BICUBIC, LANCZOS, NEAREST):
                for antialias in (True, False):
                    if antialias or filt in (BILINEAR, BICUBIC):
                        targets = (224, 224), (518, 337), (size[0], 31), (7, 150)
                        for i, to in enumerate(targets):
                            torchvision(out, size, to, filt, TORCHVISION, antialias)
                            # PyTorch 2.15 is wrong on floats that are one pixel wide.
                            if (i + size[0]) % 2 and (to[0] > 1 or not antialias):
                                torchvision(out, size, to, filt, FLOAT, antialias)
        torchvision(out, (3000, 2500), (3, 2), BILINEAR, TORCHVISION, True)
        torchvision(out, (3000, 2500), (3, 2), BICUBIC, FLOAT, True)
        for size in sizes[:5]:
            # Classes that resize bytes.
            processor(out, "CLIPImageProcessor", size,
                      dict(resize=SHORT, short_edge=224, filter=BICUBIC, crop_width=224,
                           crop_height=224), size={"shortest_edge": 224}, resample=3)
            processor(out, "CLIPImageProcessor", size,
                      dict(resize=SHORT, short_edge=31, filter=BILINEAR, crop_width=45,
                           crop_height=20), size={"shortest_edge": 31}, resample=2,
                      crop_size={"height": 20, "width": 45})
            processor(out, "ViTImageProcessor", size,
                      dict(resize=BOUNDED, short_edge=100, long_edge=133, filter=BILINEAR),
                      size={"shortest_edge": 100, "longest_edge": 133})
            processor(out, "ViTImageProcessor", size,
                      dict(resize=WITHIN, resize_width=140, resize_height=90, filter=LANCZOS),
                      size={"max_height": 90, "max_width": 140}, resample=1)
            processor(out, "SamImageProcessor", size,
                      dict(resize=LONG, long_edge=128, filter=BILINEAR, pad=ZERO, pad_width=128,
                           pad_height=140), quantised=False, size={"longest_edge": 128},
                      pad_size={"height": 140, "width": 128})
            processor(out, "DPTImageProcessor", size,
                      dict(resize=FIT, resize_width=112, resize_height=112, patch=1,
                           filter=BICUBIC, pad=CENTRED, pad_width=14, pad_height=14),
                      quantised=False, size={"height": 112, "width": 112}, do_pad=True,
                      size_divisor=14, keep_aspect_ratio=True)
            processor(out, "EomtImageProcessor", size,
                      dict(resize=BOUNDED, short_edge=120, long_edge=120, filter=BILINEAR,
                           pad=BLACK, pad_width=120, pad_height=120),
                      size={"shortest_edge": 120, "longest_edge": 120}, do_pad=True)
            processor(out, "EomtImageProcessor", size,
                      dict(resize=BOUNDED, short_edge=90, long_edge=130, filter=BILINEAR,
                           pad=BLACK, pad_width=130, pad_height=90),
                      size={"shortest_edge": 90, "longest_edge": 130}, do_pad=True)
            processor(out, "Idefics3ImageProcessor", size,
                      dict(resize=EXACT, resize_width=64, resize_height=64, filter=LANCZOS,
                           first_long_edge=150, first_multiple=64), pick=lambda x: x[0, -1],
                      size={"longest_edge": 150}, max_image_size={"longest_edge": 64})
            # Classes that resize floats.
            processor(out, "DINOv3ViTImageProcessor", size,
                      dict(resize=EXACT, resize_width=224, resize_height=208, filter=BILINEAR,
                           resample=FLOAT), quantised=False, size={"height": 208, "width": 224})
            processor(out, "RfDetrImageProcessor", size,
                      dict(resize=EXACT, resize_width=112, resize_height=98, filter=BILINEAR,
                           resample=FLOAT, no_antialias=1), quantised=False,
                      size={"height": 98, "width": 112}, do_pad=False)
            for width, height in ((96, 96), (40, 72), (700, 500)):
                processor(out, "Owlv2ImageProcessor", size,
                          dict(resize=EXACT, resize_width=width, resize_height=height,
                               filter=BILINEAR, resample=FLOAT, no_antialias=1, blur=1,
                               pad=SQUARE), quantised=False,
                          size={"height": height, "width": width})
            # torchvision's own crop.
            picture = torch.from_numpy(source(*size)).permute(2, 0, 1)
            for width, height in ((35, 21), (50, 72)):
                done = v2.CenterCrop((height, width))(F.resize(picture, [40, 54])).numpy()
                line(out, size, dict(resize=EXACT, resize_width=54, resize_height=40,
                                     crop=EVEN, crop_width=width, crop_height=height),
                     normalise(done), done)
    print(transformers.__version__, torch.__version__, file=sys.stderr)


if __name__ == "__main__":
    main()
