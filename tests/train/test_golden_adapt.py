#!/usr/bin/env python3
"""test_golden_adapt.py: compares three steps of every stage of adaptation with PyTorch.

    test_golden_adapt.py path/to/fovea [--match TEXT]

Compares losses, losses of single layers, the gradients of the first step, and the weights after three steps
with PyTorch's in float64, by the optimiser settings of hyper.json, at every ISA level of this machine. A planted
error of a few percent must be found. The cases are read from ../shared/golden; without them the test is skipped.
Standard library only.
"""
import glob
import json
import math
import os
import subprocess
import sys
import tempfile

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "models"))
from test_golden import LEVELS, error, golden_folder, load

LOSS = (5e-6, 2e-5)  # losses: of the first step, of the others and of single layers
GRADIENT = 1.5e-5
ENTRY, MOST, WHOLE = 2e-3, 0.9, 5e-2  # an update: its entries, how many of them, its norm


class Case:
    def __init__(self, folder, stage):
        self.name = os.path.basename(folder) + "/" + stage
        self.folder, self.stage = folder, stage
        self.want = load("%s/%s.safetensors" % (folder, stage))[0]
        self.start = load(folder + "/model.safetensors")[0]
        with open(folder + "/hyper.json") as f:
            self.lr = json.load(f)["stages"][stage]["lr"]

    def command(self, exe, out):
        return [exe, "adapt", self.folder, "--stage", self.stage, "--hyper",
                self.folder + "/hyper.json", "--tensors", self.folder + "/data.safetensors",
                "--steps", "3", "--save-grad", "-o", out]

    def rate(self, tensor):
        """The learning rate of that tensor, summed over all steps."""
        part = 1.0
        for pattern, ratio in self.lr.get("groups", {}).items():
            if tensor.startswith(pattern.rstrip("*")):
                part = ratio
        return part * sum(self.lr["per_step"])


def compare_losses(case, lines):
    losses = [x["loss"] for x in lines]
    for i, want in enumerate(case.want["loss"][0]):
        allowed = LOSS[i > 0] * abs(want)
        if i >= len(losses) or not abs(losses[i] - want) <= allowed:
            return "loss of step %d: %s, not %.9g" % (i, losses[i:i + 1], want)
    if "loss_layers" in case.want:
        got = [y for x in lines for y in x["loss_layers"]]
        want = case.want["loss_layers"][0]
        for a, b in zip(got, want[:len(got)]):
            if not abs(a - b) <= LOSS[1] * abs(b):
                return "a layer's loss: %.9g, not %.9g" % (a, b)
        if len(got) < len(want):
            return "losses of layers are missing"
    return None


def compare_gradients(case, got):
    for name, (want, *_) in case.want.items():
        if not name.startswith("grad."):
            continue
        if name not in got:
            return name + " is missing"
        e = error(got[name][0], want)
        if not e <= GRADIENT:
            return "%s: error %.2e" % (name, e)
    return None


def compare_updates(case, got):
    for name, (after, *_) in case.want.items():
        tensor = name[len("after."):]
        if not name.startswith("after."):
            continue
        before, now, top = case.start[tensor][0], got[tensor][0], case.rate(tensor)
        size = off = right = 0
        for a, b, x in zip(after, before, now):
            d = abs(x - a)
            size += (a - b) ** 2
            off += d * d
            right += max(0, d - 2.0 ** -22 * abs(a)) <= ENTRY * top
        if right < MOST * len(after):
            return "update of %s: %d of %d entries are right" % (tensor, right, len(after))
        if not math.sqrt(off) <= WHOLE * math.sqrt(size):
            return "update of %s: off by %.1e of its length" % (tensor, math.sqrt(off / size))
    return None


def judge(case, lines, gradients, weights):
    return (compare_losses(case, lines) or compare_gradients(case, gradients)
            or compare_updates(case, weights))


def run(case, exe, options, out):
    p = subprocess.run(case.command(exe, out) + options, capture_output=True, text=True,
                       errors="replace")
    if p.returncode:
        return "exit %d: %s" % (p.returncode, (p.stderr or p.stdout).strip()[-200:]), None
    with open(out + "/log.jsonl") as f:
        lines = [x for x in map(json.loads, f) if "loss" in x]
    return None, (lines, load(out + "/grad.safetensors")[0], load(out + "/model.safetensors")[0])


def plant(case, results):
    """Plants one error in each result, which the comparison must find."""
    lines, gradients, weights = results
    name = next(n for n in case.want if n.startswith("grad."))
    wrong = dict(gradients)
    wrong[name] = ([1.0001 * x for x in gradients[name][0]], b"")
    yield "a gradient", (lines, wrong, weights)
    tensor = name[len("grad."):]
    wrong = dict(weights)
    wrong[tensor] = ([b + 1.1 * (x - b) for x, b in
                      zip(weights[tensor][0], case.start[tensor][0])], b"")
    yield "an update", (lines, gradients, wrong)
    yield "a loss", ([dict(x, loss=x["loss"] * 1.0001) for x in lines], gradients, weights)


def main(argv):
    exe = os.path.abspath(argv[0])
    match = argv[argv.index("--match") + 1] if "--match" in argv else ""
    files = sorted(glob.glob(golden_folder() + "/adapt/*/stage*.safetensors"))
    todo = [Case(os.path.dirname(f), os.path.basename(f)[:-len(".safetensors")]) for f in files]
    todo = [c for c in todo if match in c.name]
    if not todo:
        print("skipped: no cases of adaptation in " + golden_folder())
        return 77
    passed = failed = 0
    for level in LEVELS:
        for case in todo:
            with tempfile.TemporaryDirectory() as folder:
                bad, results = run(case, exe, ["--isa", level, "--threads", "2"], folder + "/out")
            if bad and "isa" in bad.lower() and level != "scalar":
                break  # a level that this machine does not support
            bad = bad or judge(case, *results)
            for what, wrong in plant(case, results) if not bad and level == "scalar" else []:
                if not judge(case, *wrong):
                    bad = what + " that is wrong passes"
            if bad:
                print("FAIL %s, %s: %s" % (case.name, level, bad))
            failed += bool(bad)
            passed += not bad
    print("%d passed, %d failed" % (passed, failed))
    return 1 if failed else 0


if __name__ == "__main__":
    if len(sys.argv) < 2:
        raise SystemExit(__doc__)
    sys.exit(main(sys.argv[1:]))
