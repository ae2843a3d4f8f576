#!/usr/bin/env python3
"""untrained.py: the table of bench/untrained.sh.

    untrained.py path/to/fovea MODEL PHOTOS FOLDER SIZES
"""
import os
import subprocess
import sys

import numpy as np

ATTENTIONS = ["foveated", "linear:elu1", "linear:relu", "linear:exp", "linear:softplus", "linear:softmax", "mala",
              "mala:relu", "mala:exp", "mala-paper", "pola", "nala", "nala-paper", "hedgehog", "focused"]


def features(exe, model, photos, size, attention, scratch):
    """Features of all photographs, (pictures, patches, channels)."""
    subprocess.run([exe, "run", model, photos, "--size", str(size), "--attention", attention, "--compute", "f32",
                    "--features", scratch], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    x = np.load(scratch).astype(np.float64)
    return x.reshape(len(x), -1, x.shape[-1])


def main():
    exe, model, photos, folder = sys.argv[1:5]
    sizes = [int(s) for s in sys.argv[5].split(",")]
    scratch = os.path.join(folder, "features.npy")
    print("| attention of all blocks, nothing trained | " + " | ".join("%d px" % s for s in sizes) + " |")
    print("|---|" + "---:|" * len(sizes))
    softmax = [features(exe, model, photos, s, "softmax", scratch) for s in sizes]
    for attention in ATTENTIONS:
        row = []
        for size, own in zip(sizes, softmax):
            got = features(exe, model, photos, size, attention, scratch)
            cosine = (got * own).sum(-1) / np.sqrt((got * got).sum(-1) * (own * own).sum(-1))
            row.append("%.2f, %.2f" % (cosine.mean(), cosine.mean(1).min()))
        print("| `%s` | %s |" % (attention, " | ".join(row)), flush=True)
    print("\nCosine of the patches with those of softmax: mean, worst picture.")


if __name__ == "__main__":
    main()
