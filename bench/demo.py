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
BUDGET = 240  # seconds; softmax runs that would take longer are extrapolated


def command(exe, *args):
    """Runs the program. Returns the lines of JSON that it prints, and its peak resident memory in bytes."""
    with subprocess.Popen([exe, *args, "--json"], stdout=subprocess.PIPE, text=True) as p:
        text = p.stdout.read()
        _, status, usage = os.wait4(p.pid, 0)
        p.returncode = os.waitstatus_to_exitcode(status)
    if p.returncode:
        raise SystemExit("%s: exit %d" % (" ".join([exe, *args]), p.returncode))
    return [json.loads(line) for line in text.splitlines()], usage.ru_maxrss * 1024


def plan(exe, model):
    """Returns the number of tokens, and the plan's memory without weights in bytes."""
    told = command(exe, "plan", *model)[0][0]
    return {"tokens": told["params"]["tokens"],
            "activations": sum(told["bytes"][k] for k in ("residual", "states", "chunks", "scratch", "staging"))}


def run(exe, model, frames):
    runs, resident = command(exe, "run", *model, *[SCENE] * frames)
    return {"ms": sorted(one["ms"] for one in runs)[frames // 2], "resident": resident}


def extrapolate(smaller, tokens):
    """Extrapolates the time of softmax attention by a term that is quadratic in the tokens: a lower bound."""
    return smaller["ms"] * (tokens / smaller["tokens"]) ** 1.8


def show(size, attention, m, base):
    guessed = "resident" not in m
    print("%5d %7d  %-12s %11s %7.2fx %12.1f %7.2fx %9s"
          % (size, m["tokens"], attention, "%s%.1f" % ("~" if guessed else "", m["ms"]), base["ms"] / m["ms"],
             m["activations"] / 2**20, base["activations"] / m["activations"],
             "-" if guessed else "%.0f" % (m["resident"] / 2**20)), flush=True)


def main(exe, folder):
    os.makedirs(folder, exist_ok=True)
    exe = os.path.abspath(exe)
    begin = time.time()
    for d in command(exe, "info")[0][0]["devices"]:
        print("%s %s, %s" % (d["id"], d["name"], d["features"]))
    print("\n%s on %s; speed and memory against softmax at the same size\n"
          % (MODEL, os.path.basename(SCENE)))
    print("%5s %7s  %-12s %11s %8s %12s %8s %9s" % ("pixel", "tokens", "attention", "ms", "speed",
                                                   "plan MiB", "memory", "RSS MiB"))
    before = None
    for size in SIZES:
        for attention in ATTENTIONS:
            softmax = attention == "softmax"
            model = [MODEL, "--size", str(size), "--attention", attention]
            m = plan(exe, model)
            expected = extrapolate(before, m["tokens"]) if before and softmax else 0
            if expected and time.time() - begin + expected / 1e3 > BUDGET:
                m["ms"] = expected
            else:
                m.update(run(exe, model, 5 if size <= 518 else 1))
                # in a run of its own, so that the numbers above are those of the model alone
                if not softmax:
                    command(exe, "run", *model, SCENE, "--pca", os.path.join(folder, "features-%d.png" % size))
            if softmax:
                before = m
            show(size, attention.split(":")[0], m, before)
    print("\nFeatures of the linear model as pictures: %s/features-*.png (three principal "
          "components as red, green, blue)" % folder)
    print("weights are random, so the pictures show structure, not meaning; %.0f s in all"
          % (time.time() - begin))


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(sys.argv[1], sys.argv[2])
