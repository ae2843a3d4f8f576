#!/usr/bin/env python3
"""accuracy.py: the tables of bench/accuracy.sh.

    accuracy.py path/to/fovea MODEL PHOTOS FOLDER SIZES
"""
import json
import os
import subprocess
import sys

import numpy as np

COMPUTES = ["bf16", "int8"]
LINEAR = "linear:elu1"
STEPS = "200"  # of the adaptation


def patches(exe, model, photo, size, options, scratch):
    """The features of the patches, a row for each."""
    subprocess.run([exe, "run", model, photo, "--size", str(size), "--features", scratch, *options], check=True,
                   stdout=subprocess.DEVNULL)
    x = np.load(scratch)
    return x.reshape(-1, x.shape[-1]).astype(np.float64)


def cosines(a, b):
    return (a * b).sum(1) / np.sqrt((a * a).sum(1) * (b * b).sum(1))


def adapted(exe, model, photos, folder):
    out = os.path.join(folder, "linear")
    if not os.path.exists(os.path.join(out, "model.safetensors")):
        subprocess.run([exe, "adapt", model, "--stage", "2", "--data", photos, "-o", out, "--steps", STEPS,
                        "--batch", "4", "--attention", LINEAR, "--resume"], check=True, stdout=sys.stderr)
    return out


def main():
    exe, model, photos, folder = sys.argv[1:5]
    sizes = [int(s) for s in sys.argv[5].split(",")]
    scratch = os.path.join(folder, "features.npy")
    names = sorted(os.listdir(photos))
    students = [("softmax", model, []), ("linear", adapted(exe, model, photos, folder), [])]
    print("| attention | products | " + " | ".join("%d px mean | worst" % s for s in sizes) + " |")
    print("|---|---|" + "---:|---:|" * len(sizes))
    results = []
    for title, checkpoint, options in students:
        row = {c: [] for c in COMPUTES}
        for size in sizes:
            found = {c: [] for c in COMPUTES}
            for name in names:
                photo = os.path.join(photos, name)
                exact = patches(exe, checkpoint, photo, size, options + ["--compute", "f32"], scratch)
                for c in COMPUTES:
                    found[c].append(cosines(exact, patches(exe, checkpoint, photo, size,
                                                           options + ["--compute", c], scratch)))
            for c in COMPUTES:
                every = np.concatenate(found[c])
                row[c].append((every.mean(), every.min()))
                results.append({"attention": title, "compute": c, "size": size, "mean": every.mean(),
                                "worst": every.min(), "patches": len(every)})
        for c in COMPUTES:
            print("| %s | %s | " % (title, c) + " | ".join("%.5f | %.5f" % pair for pair in row[c]) + " |", flush=True)
    with open(os.path.join(folder, "results.json"), "w") as f:
        json.dump(results, f, indent=1)


main()
