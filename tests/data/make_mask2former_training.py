#!/usr/bin/env python3
"""make_mask2former_training.py: the loss of a new Mask2Former head and its gradients, as transformers computes them in
float64, for tests/train/test_trainer_queries.c.

    make_mask2former_training.py FOVEA

FOVEA is the program, which makes the head. transformers' criterion samples the points that the trainer draws
(src/train/query_targets.c), instead of random ones. The file has the loss and, for each tensor, the length of its
gradient and the gradient's product with cos(0), cos(1), ..
"""
import json
import os
import subprocess
import sys
import tempfile

import numpy as np
import torch
from safetensors.numpy import save_file
from transformers import Mask2FormerForUniversalSegmentation

HERE = os.path.dirname(os.path.abspath(__file__))
SIDE, CLASSES, SEED, STRATA = 42, 5, 3, 112
WORD = (1 << 64) - 1


def picture():
    """The first picture of tests/train/trainers.h and its mask."""
    x, pixels = 7, np.empty(SIDE * SIDE * 3, np.uint8)
    for i in range(len(pixels)):
        x = (x * 1664525 + 1013904223) & 0xffffffff
        pixels[i] = ((x >> 26) + i // 3 % SIDE * 3) & 0xff
    i = np.arange(SIDE * SIDE)
    mask = np.where(i % SIDE < 5, 255, i // 170 % CLASSES).astype(np.uint8)
    return pixels.reshape(SIDE, SIDE, 3), mask.reshape(SIDE, SIDE)


def points():
    """The points of the first picture of the first step."""
    state, out = SEED * 0xd1342543de82ef95 & WORD, np.empty((STRATA * STRATA, 2), np.float32)
    for i in range(len(out)):
        for k, cell in enumerate((i % STRATA, i // STRATA)):
            state = state + 0x9e3779b97f4a7c15 & WORD
            x = (state ^ state >> 30) * 0xbf58476d1ce4e5b9 & WORD
            x = (x ^ x >> 27) * 0x94d049bb133111eb & WORD
            part = np.float32(((x ^ x >> 31) >> 40) * 2.0 ** -24)
            out[i, k] = (np.float32(cell) + part) / np.float32(STRATA)
    return torch.tensor(out.astype(np.float64))


def make_head(fovea, folder, pixels, mask):
    """Saves the head before its training: the rate of the only step is too small to change it."""
    packed, out = os.path.join(folder, "one.safetensors"), os.path.join(folder, "out")
    save_file({"images": pixels[None], "masks": mask[None]}, packed)
    subprocess.run([fovea, "adapt", os.path.join(HERE, "golden/models/dinov2-03"), "--stage", "3", "--head", "mask2former",
                    "--data", packed, "--classes", str(CLASSES), "--size", str(SIDE), "--crop", "none", "--seed", str(SEED),
                    "--batch", "1", "--steps", "1", "--lr", "1e-30", "--weight-decay", "0", "-o", out], check=True)
    return out


def stir(weight):
    """Changes a tensor as tests/train/test_trainer_queries.c does: zeros and ones hide errors."""
    x, more = 5, np.empty(weight.numel(), np.float32)
    for i in range(len(more)):
        x = (x * 1664525 + 1013904223) & 0xffffffff
        more[i] = np.float32(x >> 8) / np.float32(1 << 26) - np.float32(0.125)
    weight.data += torch.tensor(more.astype(np.float64)).reshape(weight.shape)


def main(fovea):
    torch.set_default_dtype(torch.float64)
    pixels, mask = picture()
    with tempfile.TemporaryDirectory() as folder:
        out = make_head(fovea, folder, pixels, mask)
        model = Mask2FormerForUniversalSegmentation.from_pretrained(out, dtype=torch.float64).eval()
    head = [(name, weight) for name, weight in model.named_parameters()
            if not name.startswith("model.pixel_level_module.encoder.")]
    for name, weight in head:
        if weight.dim() == 1 or "sampling_offsets" in name or "attention_weights" in name:
            stir(weight)
    place = points()[None]
    model.criterion.sample_points_using_uncertainty = lambda logits, *_: place.expand(len(logits), -1, -1)
    random = torch.rand
    torch.rand = lambda *size, **more: place if size[-1] == 2 else random(*size, **more)  # of the matching
    rows = (pixels / 255 - np.array([0.485, 0.456, 0.406])) / np.array([0.229, 0.224, 0.225])
    classes = [k for k in range(CLASSES) if (mask == k).any()]
    found = model(pixel_values=torch.tensor(rows).permute(2, 0, 1)[None], output_auxiliary_logits=True,
                  mask_labels=[torch.tensor(np.stack([mask == k for k in classes]).astype(np.float64))],
                  class_labels=[torch.tensor(classes)])
    found.loss.backward()
    gradients = {}
    for name, weight in head:
        g = weight.grad.numpy().ravel()
        gradients[name] = [float(np.sqrt((g * g).sum())), float((g * np.cos(np.arange(len(g)))).sum())]
    with open(os.path.join(HERE, "mask2former_training.json"), "w") as file:
        json.dump({"loss": found.loss.item(), "gradients": gradients}, file, indent=1)
        file.write("\n")


if __name__ == "__main__":
    main(sys.argv[1])
