#!/usr/bin/env python3
"""precisions.py: times one model of each family in float32, bfloat16 and int8; prints a Markdown table.

    precisions.py                                   builds the program; a quarter of an hour on two quiet cores
    precisions.py --models dinov2-s,mavit-t-fpn     some of them
    precisions.py -o r.json; precisions.py --from r.json

One process of `fovea bench` verifies the precisions of a model, then measures them alternately, so that all of them
are measured under the same conditions. A ratio is the median time divided by that of float32: below 1 the narrower
type is faster; a ratio above 1.05 is bold. `estimate` is the ratio by the plan's cost model, which
tests/cli/test_precisions.py checks for every family. Weights are random. BUILD names the build directory.

Exit status: 0; 1 when something is wrong with the command or a model; 3 when a narrower precision is slower
by more than 5 percent.
"""
import argparse
import json
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
COMPUTES = ("f32", "bf16", "int8")
# Sizes of pictures; None: the model's own size.
MODELS = {"dinov2-s": "518", "siglip-b16": "224", "depth-anything-s": "518", "rf-detr-s": None, "eomt-s": None,
          "sam-b16": None, "vitpose-s": None, "mavit-t": "224", "mavit-t-fpn": "224", "nalaformer-t": "224",
          "pola-swin-t": "224", "pola-pvt-t": "224", "gla-340m": None}
SEQUENCES = ("gla-340m",)
TOKENS = "256"  # tokens that a sequence has processed before
TOLERANCE = 1.05
SLOWER = 3  # exit status


def program():
    build = subprocess.run(["sh", os.path.join(HERE, "build.sh"), "build", "src/cli/fovea"], check=True,
                           stdout=subprocess.PIPE, text=True).stdout.strip()
    return os.path.join(os.path.dirname(HERE), build, "src", "cli", "fovea")


def lines(exe, *command):
    """The JSON that the program prints. The exit status for an unstable measurement does not count as a failure."""
    p = subprocess.run([exe, *command, "--json"], stdout=subprocess.PIPE, text=True)
    if p.returncode:
        sys.exit("precisions.py: %s: exit %d" % (" ".join(command), p.returncode))
    return [json.loads(line) for line in p.stdout.splitlines()]


def estimated(exe, name, size, compute, options):
    """{phase: seconds}"""
    told, = lines(exe, "plan", "synthetic:" + name, "--compute", compute, *size, *options)
    if name in SEQUENCES:
        return {"prefill": told["prefill"]["seconds"], "decode": told["step"]["seconds"]}
    return {None: told["seconds"]}


def measured(exe, name, options):
    """Rows of the table: one for a model, or one for each phase of a sequence."""
    size = ["--size", MODELS[name]] if MODELS[name] else []
    how = ["--compute", ",".join(COMPUTES), "--time", str(options.time)]
    own = ["--threads", str(options.threads)] if options.threads else []
    if name in SEQUENCES:
        results = lines(exe, "bench", "lm", "synthetic:" + name, "--tokens", TOKENS, *how, *own)
    else:
        results = lines(exe, "bench", "model", "synthetic:" + name, *size, *how, *own)
    rows = {}
    for r in results:
        p = r["params"]
        phase = p.get("phase")
        seen = "%dx%d" % (p["width"], p["height"]) if "width" in p else phase
        row = rows.setdefault(phase, {"model": name, "seen": seen, "env": r["env"], "of": {}})
        row["of"][p["compute"]] = {"ms": r["p50_ms"], "status": r["status"], "verify": r["verify"]["ok"]}
    for compute in COMPUTES:
        for phase, seconds in estimated(exe, name, size, compute, own).items():
            rows[phase]["of"][compute]["estimate"] = seconds
    return list(rows.values())


def ratio(row, compute, key):
    return row["of"][compute][key] / row["of"]["f32"][key]


def cell(row, compute):
    r = ratio(row, compute, "ms")
    shown = "%.2f" % r
    return "%s, %s" % (milliseconds(row["of"][compute]["ms"]), "**%s**" % shown if r > TOLERANCE else shown)


def milliseconds(ms):
    return "%.2f s" % (ms / 1e3) if ms >= 1e3 else "%.*f ms" % (ms < 100, ms)


def table(rows):
    env = rows[0]["env"]
    out = ["%s, %s, %d threads; medians" % (env["name"], env["isa"], env["threads"]), "",
           "| model | seen | float32 | bfloat16 | int8 | by estimate: bfloat16, int8 | |",
           "|---|---|---:|---:|---:|---:|---|"]
    for row in rows:
        states = sorted({c["status"] for c in row["of"].values()} - {"ok"})
        out.append("| %s | %s | %s | %s | %s | %.2f, %.2f | %s |" % (
            row["model"], row["seen"], milliseconds(row["of"]["f32"]["ms"]), cell(row, "bf16"), cell(row, "int8"),
            ratio(row, "bf16", "estimate"), ratio(row, "int8", "estimate"), ", ".join(states)))
    return "\n".join(out) + "\n"


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default=",".join(MODELS), metavar="NAME,...", help="of " + ", ".join(MODELS))
    parser.add_argument("--time", type=float, default=20, help="seconds of each case (%(default)s)")
    parser.add_argument("--threads", type=int, help="number of threads; default: the device's own")
    parser.add_argument("--from", dest="earlier", metavar="FILE", help="show results of an earlier -o")
    parser.add_argument("-o", "--output", metavar="FILE", help="file for the results, as JSON")
    options = parser.parse_args()
    unknown = [name for name in options.models.split(",") if name not in MODELS]
    if unknown:
        parser.error("--models %s: choose from %s" % (unknown[0], ", ".join(MODELS)))
    return options


def main():
    options = arguments()
    if options.earlier:
        with open(options.earlier) as f:
            rows = json.load(f)
    else:
        exe, rows = program(), []
        for name in options.models.split(","):
            print("%s ..." % name, file=sys.stderr, flush=True)
            rows += measured(exe, name, options)
            if options.output:  # written after each case, in case a later one fails
                with open(options.output, "w") as f:
                    json.dump(rows, f, indent=1)
    print(table(rows), end="")
    slower = any(ratio(row, compute, "ms") > TOLERANCE for row in rows for compute in COMPUTES)
    return SLOWER if slower else 0


if __name__ == "__main__":
    sys.exit(main())
