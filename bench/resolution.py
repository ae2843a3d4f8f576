#!/usr/bin/env python3
"""resolution.py: the table and picture of bench/resolution.sh. Standard library only.

    resolution.py path/to/fovea OUTPUT_FOLDER
"""
import json
import os
import subprocess
import sys

MODEL = os.environ.get("MODEL", "synthetic:dinov2-l")
SIZES = os.environ.get("SIZES", "252,364,518,742,1022,1274,1540").split(",")
ATTENTIONS = ("softmax", "linear:elu1")
SECONDS = 15  # of timed runs per size and attention, about: three runs at least, seven at most


def read(path):
    """Results by (size, attention); of two the later one."""
    found = {}
    if os.path.exists(path):
        for line in open(path):
            r = json.loads(line)
            p = r["params"]
            if r["schema"] == "fovea.bench/1" and p["model"] == MODEL:
                found[p["width"], p["attention"]] = r
    return found


def runs(found, size):
    """How often the next size is run, from the largest that was: time grows with tokens squared."""
    smaller = [(s, r["p50_ms"]) for (s, a), r in found.items() if a == ATTENTIONS[0] and s < size]
    if not smaller:
        return 7
    before, ms = max(smaller)
    expected = ms * 1e-3 * (size / before) ** 4
    return max(3, min(7, int(SECONDS / expected)))


def measure(exe, path, found):
    for size in map(int, SIZES):
        if all((size, a) in found for a in ATTENTIONS):
            continue
        command = [exe, "bench", "model", MODEL, "--size", str(size), "--attention",
                   ",".join(ATTENTIONS), "--runs", str(runs(found, size)), "--warmup", "0", "--json"]
        if "THREADS" in os.environ:
            command += ["--threads", os.environ["THREADS"]]
        print("%d x %d ..." % (size, size), file=sys.stderr, flush=True)
        text = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
        with open(path, "a") as f:
            f.write(text)
        found.update(read(path))


def memory(r):
    """MiB beside the weights: measured, promised."""
    peak = r["peak_bytes"]
    return peak["resident"] / 2**20, (peak["promised"] - peak["weights"]) / 2**20


def table(found):
    first = found[int(SIZES[0]), ATTENTIONS[0]]
    env = first["env"]
    yield "%s on %s, %s, %d threads; memory beside the weights (%.0f MiB), measured (promised)" % (
        MODEL, env["name"], env["isa"], first["params"]["threads"],
        first["peak_bytes"]["weights"] / 2**20)
    yield ""
    yield "| pixels | tokens | softmax | linear | faster | softmax MiB | linear MiB | less memory |"
    yield "|---:|---:|---:|---:|---:|---:|---:|---:|"
    for size in map(int, SIZES):
        softmax, linear = (found[size, a] for a in ATTENTIONS)
        (a, a_told), (b, b_told) = memory(softmax), memory(linear)
        yield "| %d | %d | %.0f ms | %.0f ms | %.2fx | %.1f (%.1f) | %.1f (%.1f) | %.1fx |" % (
            size, softmax["params"]["tokens"], softmax["p50_ms"], linear["p50_ms"],
            softmax["p50_ms"] / linear["p50_ms"], a, a_told, b, b_told, a / b if b else 0)


def main(exe, folder):
    os.makedirs(folder, exist_ok=True)
    exe, path = os.path.abspath(exe), os.path.join(folder, "results.jsonl")
    picture, shown = os.path.join(folder, "resolution.svg"), os.path.join(folder, "shown.jsonl")
    found = read(path)
    measure(exe, path, found)
    with open(shown, "w") as f:
        for size in map(int, SIZES):
            f.writelines(json.dumps(found[size, a]) + "\n" for a in ATTENTIONS)
    subprocess.run([exe, "bench", "--from", shown, "--plot", picture], stdout=subprocess.DEVNULL,
                   check=True)
    text = "\n".join(table(found)) + "\n"
    with open(os.path.join(folder, "resolution.md"), "w") as f:
        f.write(text)
    print(text, end="")
    print("\n%s\n%s" % (picture, os.path.join(folder, "resolution.md")), file=sys.stderr)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(sys.argv[1], sys.argv[2])
