#!/usr/bin/env python3
"""test_precisions.py: by the estimates of plans, a narrower precision is never slower than a wider one, for every
model family, picture size and ISA level.

    test_precisions.py path/to/fovea [--all]     --all: every size with every level

If a precision is slower by estimate, a step most likely has no kernel of that type and uses a reference kernel:
`fovea plan MODEL --size WxH --compute TYPE --steps` shows which one. bench/precisions.py measures the same models.
Standard library only.
"""
import concurrent.futures
import json
import os
import re
import subprocess
import sys

SIZES = ("224", "518", "640x480")
COMMON = "518"  # a size that every family takes, for levels below the processor's own
COMPUTES = ("f32", "bf16", "int8")  # wider ones first
TOLERANCE = 1.05
# Without VNNI AVX-512 multiplies and adds numbers of 16 bits no faster than floats, and a prefill also quantises
# its rows. Its weights of 8 bits are for the steps that follow, which read them all for one token.
MORE_TOLERANCE = {("prefill", "avx512"): 1.06}
LEVELS = ("avx2", "avx-vnni", "avx512", "avx512-vnni", "neon", "neon-sdot", "neon-dot", "neon-i8mm", "rvv")
# The part of a name that gives the size of the model: vit-ti16, siglip-so400m, gla-340m.
LARGENESS = re.compile(r"-(n|xt|ti|t|s|m|b|l|g|h|so)?\d*m?(?=-|$)")
PYRAMIDS = ("mavit", "nalaformer", "pola-pvt", "pola-swin")
DECODERS = ("-fpn", "-upernet", "-retinanet")


def families(exe):
    """The first name of each family, which is its smallest model."""
    text = subprocess.run([exe, "info", "--models"], check=True, capture_output=True, text=True).stdout
    first = {}
    for name in re.findall(r"^synthetic:(\S+)$", text, re.M):
        first.setdefault(LARGENESS.sub("", name), name)
    return list(first.values()) + [first[p] + decoder for p in PYRAMIDS for decoder in DECODERS]


def levels(exe):
    """The ISA levels of this processor, and the one that it chooses by itself."""
    def works(level):
        return subprocess.run([exe, "info", "--isa", level], capture_output=True).returncode == 0
    return [()] + [("--isa", level) for level in LEVELS if works(level)]


def seconds(exe, model, size, compute, level):
    """{phase: estimated seconds}: two phases for a language model; empty if the model does not support the size."""
    p = subprocess.run([exe, "plan", "synthetic:" + model, "--size", size, "--compute", compute, *level, "--json"],
                       capture_output=True, text=True, env=dict(os.environ, FOVEA_WISDOM=""))
    if p.returncode:
        return p.stderr.strip()
    told = json.loads(p.stdout)
    if told["schema"] == "fovea.plan-sequence/1":
        return {phase: told[phase]["seconds"] for phase in ("prefill", "step")}
    return {"frame": told["seconds"]}


def judge(exe, model, size, level):
    """Returns the number of comparisons, and a line for each that fails."""
    times = [seconds(exe, model, size, compute, level) for compute in COMPUTES]
    what = " ".join((model, size, *level))
    if isinstance(times[0], str):  # the model does not support the size, in any precision
        return 0, ["%s: refused in float32 only" % what] if any(isinstance(t, dict) for t in times) else []
    lost = ["%s --compute %s: %s" % (what, c, t) for c, t in zip(COMPUTES, times) if isinstance(t, str)]
    if lost:
        return len(lost), lost
    compared = [(phase, i) for phase in times[0] for i in range(1, len(COMPUTES))]
    for phase, i in compared:
        wide, narrow = times[i - 1][phase], times[i][phase]
        if narrow > MORE_TOLERANCE.get((phase, *level[1:]), TOLERANCE) * wide:
            lost.append("%s: a %s takes %.3f ms in %s, %.3f ms in %s, %.2f times as long" % (
                what, phase, wide * 1e3, COMPUTES[i - 1], narrow * 1e3, COMPUTES[i], narrow / wide))
    return len(compared), lost


def main():
    exe = os.path.abspath(sys.argv[1])
    models = families(exe)
    every = "--all" in sys.argv[2:]
    cases = [(model, size, level) for level in levels(exe) for model in models for size in SIZES
             if every or not level or size == COMMON]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        judged = list(pool.map(lambda case: judge(exe, *case), cases))
    lost = [line for _, lines in judged for line in lines]
    idle = [m for m in models if not sum(n for (model, _, _), (n, _) in zip(cases, judged) if model == m)]
    lost += ["%s: takes none of the sizes" % m for m in idle]
    for line in lost:
        print("FAIL %s" % line)
    done = sum(n for n, _ in judged) + len(idle)
    print("%d passed, %d failed, 0 skipped" % (done - len(lost), len(lost)))
    return 1 if lost or not done else 0


if __name__ == "__main__":
    sys.exit(main())
