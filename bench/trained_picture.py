#!/usr/bin/env python3
"""trained_picture.py: draws a picture and the features of its patches as computed by a softmax model, by the result of
`fovea linearise`, and by the model with untrained ELU + 1 attention instead of softmax. All use the PCA basis of
softmax's features as colours.

    trained_picture.py path/to/fovea MODEL RESULT PICTURE OUT.jpg SIZE

Needs numpy and Pillow. Prints the mean cosines of the patches of the latter two with softmax's.
"""
import os
import subprocess
import sys
import tempfile

import numpy as np
from PIL import Image

SIDE, GAP = 296, 8  # pixels of a part's side, and of the gap between parts


def features(exe, model, picture, size, folder, *options):
    """(rows, columns, channels)"""
    path = os.path.join(folder, "features.npy")
    subprocess.run([exe, "run", model, picture, "--size", size, "--compute", "f32", "--features", path, *options],
                   check=True, stdout=subprocess.DEVNULL)
    return np.load(path)[0].astype(np.float64)


def cosine(a, b):
    return ((a * b).sum(-1) / np.sqrt((a * a).sum(-1) * (b * b).sum(-1))).mean()


def main():
    exe, model, result, picture, out, size = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        teacher = features(exe, model, picture, size, folder)
        others = [features(exe, result, picture, size, folder),
                  features(exe, model, picture, size, folder, "--attention", "linear:elu1")]
    flat = teacher.reshape(-1, teacher.shape[-1])
    mean = flat.mean(0)
    basis = np.linalg.svd(flat - mean, full_matrices=False)[2][:3].T
    low, high = np.percentile((flat - mean) @ basis, [1, 99], axis=0)

    def colours(x):
        shares = np.clip(((x - mean) @ basis - low) / (high - low), 0, 1)
        return Image.fromarray((shares * 255).astype(np.uint8)).resize((SIDE, SIDE), Image.BICUBIC)

    seen = Image.open(picture).convert("RGB")
    side = min(seen.size)
    left, top = (seen.width - side) // 2, (seen.height - side) // 2
    parts = [seen.crop((left, top, left + side, top + side)).resize((SIDE, SIDE)),
             *(colours(x) for x in (teacher, *others))]
    page = Image.new("RGB", (len(parts) * (SIDE + GAP) - GAP, SIDE), "white")
    for i, part in enumerate(parts):
        page.paste(part, (i * (SIDE + GAP), 0))
    page.save(out, quality=88)
    print("linearised %.3f, ELU + 1 untrained %.3f" % tuple(cosine(teacher, x) for x in others))


main()
