#!/usr/bin/env python3
"""tuned.py: measures what tuning gains: for each model, one process times the tuned plan and the plan of the
estimate alternately. Standard library only.

    tuned.py path/to/fovea OUTPUT_FOLDER

DEVICE (cpu), ATTENTION (linear:elu1, of the ViTs), CASES ("dinov2-s 224,mavit-t 512", all) and MINUTES
(of tuning per case, 3) in the environment change what is measured. Results are kept in OUTPUT_FOLDER,
and existing ones are not measured again.
"""
import json
import math
import os
import subprocess
import sys
import time

DEVICE = os.environ.get("DEVICE", "cpu")
ATTENTION = os.environ.get("ATTENTION", "linear:elu1")
MINUTES = float(os.environ.get("MINUTES", "3"))
SECONDS = 40  # approximate length of the timed runs per plan and case

CASES = [("dinov2-" + width, size) for width in "sbl" for size in (224, 518, 1036, 1540)]
CASES += [("mavit-t", size) for size in (224, 512, 1024)] + [("pola-pvt-t", 224)]
EXHAUSTIVE = {("dinov2-s", 224), ("dinov2-b", 518), ("mavit-t", 512), ("pola-pvt-t", 224)}


def wanted():
    names = os.environ.get("CASES")
    if not names:
        return CASES
    return [(model, int(size)) for model, size in (name.split() for name in names.split(","))]


def options(model, size):
    own = ["--attention", ATTENTION] if model.startswith("dinov2") else []
    return ["synthetic:" + model, "--size", str(size), "--device", DEVICE] + own


def tune(exe, case, rigor, path):
    """Runs the program; returns the seconds that it took."""
    begin = time.monotonic()
    subprocess.run([exe, "tune", *options(*case), "--rigor", rigor, "--time", str(60 * MINUTES),
                    "-o", path], check=True, stdout=subprocess.DEVNULL)
    return time.monotonic() - begin


def planned(exe, case, path):
    """The share of steps whose kernel comes from the wisdom, and the seconds that planning takes in a new process."""
    begin = time.monotonic()
    text = subprocess.run([exe, "plan", *options(*case), "--wisdom", path, "--json"], check=True,
                          stdout=subprocess.PIPE, text=True).stdout
    seconds = time.monotonic() - begin
    steps = json.loads(text)["steps"]
    return sum(s["source"] == "wisdom" for s in steps) / len(steps), seconds


def timed(exe, case, paths):
    """Medians in ms of the plans made by the estimate alone, and with each of the files."""
    command = [exe, "bench", "model", *options(*case), "--wisdom", ",".join(["none"] + paths),
               "--time", str(SECONDS), "--json"]
    text = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    return [json.loads(line)["p50_ms"] for line in text.splitlines()]


def measure(exe, folder, case):
    name = "%s-%d" % case
    paths = [os.path.join(folder, name + ".wisdom")]
    result = {"case": case, "tune_s": tune(exe, case, "measure", paths[0])}
    if case in EXHAUSTIVE:
        paths.append(os.path.join(folder, name + ".exhaustive.wisdom"))
        tune(exe, case, "exhaustive", paths[1])
    result["known"], result["plan_s"] = planned(exe, case, paths[0])
    result["ms"] = timed(exe, case, paths)
    return result


def row(r):
    estimate, tuned, *best = r["ms"]
    return "| %s | %d | %.1f | %.1f | %.3f | %s | %.0f s | %.0f %% | %.2f s |" % (
        *r["case"], estimate, tuned, estimate / tuned,
        "%.3f" % (min(best + [tuned]) / tuned) if best else "", r["tune_s"], 100 * r["known"],
        r["plan_s"])


def main(exe, folder):
    os.makedirs(folder, exist_ok=True)
    exe, path = os.path.abspath(exe), os.path.join(folder, "tuned.jsonl")
    found = {}
    if os.path.exists(path):
        found = {tuple(r["case"]): r for r in map(json.loads, open(path))}
    print("| model | pixels | estimate ms | tuned ms | faster | of the best | tuning | known | plan |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|---:|")
    for case in wanted():
        if case not in found:
            found[case] = measure(exe, folder, case)
            with open(path, "a") as f:
                f.write(json.dumps(found[case]) + "\n")
        print(row(found[case]), flush=True)
    ratios = [found[case]["ms"][0] / found[case]["ms"][1] for case in wanted()]
    print("\nslowest tuned plan %.3f of the estimate's speed; the estimate reaches %.3f of the tuned "
          "speed (geometric mean)" % (min(ratios),
                                      math.exp(-sum(map(math.log, ratios)) / len(ratios))))


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(sys.argv[1], sys.argv[2])
