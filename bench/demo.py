#!/usr/bin/env python3
"""demo.py: the table and pictures of bench/demo.sh. Standard library only.

    demo.py path/to/fovea OUTPUT_FOLDER
"""
import json
import os
import subprocess
import sys
import time

MODEL = "synthetic:dinov2-s"
SCENE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "scene.jpg")
SIZES = (224, 518, 1036, 2072)
ATTENTIONS = ("softmax", "linear:elu1")
BUDGET = 240  # seconds; a softmax run that would not fit is extrapolated


def command(exe, *args):
    """Lines of JSON that the program prints, and the largest resident size it had, in bytes."""
    p = subprocess.Popen([exe, *args, "--json"], stdout=subprocess.PIPE, text=True)
    text = p.stdout.read()
    p.stdout.close()
    _, status, usage = os.wait4(p.pid, 0)
    p.returncode = os.waitstatus_to_exitcode(status)
    if p.returncode:
        raise SystemExit("%s: exit %d" % (" ".join([exe, *args]), p.returncode))
    return [json.loads(line) for line in text.splitlines()], usage.ru_maxrss * 1024


def activations(plan):
    """Bytes beside the weights that it promises."""
    return sum(plan["bytes"][k] for k in ("residual", "states", "chunks", "scratch", "staging"))


def measure(exe, size, attention, picture):
    common = [MODEL, "--size", str(size), "--attention", attention]
    plan = command(exe, "plan", *common)[0][0]
    frames = 5 if size <= 518 else 1
    runs, resident = command(exe, "run", *common, *[SCENE] * frames)
    if picture: # on its own, so that the numbers above are those of the model
        command(exe, "run", *common, SCENE, "--pca", picture)
    return {
        "tokens": plan["params"]["tokens"],
        "ms": sorted(run["ms"] for run in runs)[frames // 2],
        "activations": activations(plan),
        "resident": resident,
    }


def extrapolate(smaller, tokens):
    """Softmax attention asks for a term that grows with the square; this bounds it from below."""
    return smaller["ms"] * (tokens / smaller["tokens"]) ** 1.8


def row(size, attention, m, base):
    ms = "%s%.1f" % ("~" if m.get("guess") else "", m["ms"])
    ratio = "%.2fx" % (base["ms"] / m["ms"])
    memory = "%.1f" % (m["activations"] / 2**20) if m.get("activations") else "-"
    resident = "%.0f" % (m["resident"] / 2**20) if m.get("resident") else "-"
    saved = "%.2fx" % (base["activations"] / m["activations"])
    print("%5d %7d  %-12s %11s %8s %12s %8s %9s" % (size, m["tokens"], attention, ms, ratio, memory,
                                                   saved, resident), flush=True)


def main(exe, folder):
    os.makedirs(folder, exist_ok=True)
    exe = os.path.abspath(exe)
    info, _ = command(exe, "info")
    begin = time.time()
    devices = info[0].get("devices", info) if info else []
    for d in devices:
        if isinstance(d, dict) and "name" in d:
            print("%s %s, %s" % (d.get("id", ""), d["name"], d.get("features", "")))
    print("\n%s on %s; speed and memory against softmax at the same size\n"
          % (MODEL, os.path.basename(SCENE)))
    print("%5s %7s  %-12s %11s %8s %12s %8s %9s" % ("pixel", "tokens", "attention", "ms", "speed",
                                                   "plan MiB", "memory", "RSS MiB"))
    before = None
    for size in SIZES:
        base = None
        for attention in ATTENTIONS:
            name = attention.split(":")[0]
            linear = name == "linear"
            picture = os.path.join(folder, "features-%d.png" % size) if linear else None
            tokens = 1 + (size // 14) ** 2
            expected = extrapolate(before, tokens) / 1e3 if before and not linear else 0
            if time.time() - begin + expected > BUDGET:
                plan = command(exe, "plan", MODEL, "--size", str(size), "--attention", attention)[0][0]
                m = {"tokens": tokens, "ms": expected * 1e3, "guess": True,
                     "activations": activations(plan)}
            else:
                m = measure(exe, size, attention, picture)
            if not linear:
                base = before = m
            row(size, name, m, base)
    print("\nFeatures of the linear model as pictures: %s/features-*.png (three principal "
          "components as red, green, blue)" % folder)
    print("weights are random, so the pictures show structure, not meaning; %.0f s in all"
          % (time.time() - begin))


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(sys.argv[1], sys.argv[2])
