#!/usr/bin/env python3
"""test_golden.py: runs the golden vectors with the program and compares the results.

    test_golden.py path/to/fovea [--sample | --brief | --long | --once] [--match TEXT]

Every case runs at every ISA level of this machine. The result of one thread is compared with the official
result, those of two and three threads with that of one thread, bit by bit. Models and bidirectional operators run
streamed and stepwise, causal ones in both forms, operators also with a few chunk sizes. The longest cases run at
the best level only; with --sample, so do cases that are not in tests/data; with --brief, for sanitizers, all do. With
--long every operator runs at every level with each chunk size. With --once, for emulators, every case runs once at
every level, causal ones in both forms. The whole set is read from ../shared/golden if that exists, and cases that only
tests/data/golden has from there. Standard library only.
"""
import array
import glob
import json
import math
import os
import struct
import subprocess
import sys
import tempfile

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
LEVELS = ["scalar", "avx2", "avx512", "neon", "neon-fp16", "neon-dot"]
TYPES = {"F32": "f", "F64": "d", "I64": "q", "I32": "i"}
REFUSALS = (2, 7)  # exit statuses: an unsupported operator; an unknown type of model
CHUNKS = ("16", "37", "64", "256")  # 37 divides nothing
FAMILIES = ("alias-", "vit-", "dinov2-", "dinov3-", "clip-vision-", "siglip-", "siglip2-", "ijepa-", "radio-", "owlv2-",
            "beit-", "depth-anything-", "dpt-", "eomt-", "idefics3-", "llava-", "paligemma-", "mask2former-",
            "mavit-cascade-", "mavit-mask-", "pola-", "rf-detr-", "sam-", "smolvlm-", "swin-", "timm-", "upernet-",
            "vitpose-")


OWN = os.path.join(ROOT, "tests", "data", "golden")


def golden_folder():
    shared = os.path.join(os.path.dirname(ROOT), "shared", "golden")
    return shared if os.path.isdir(shared) else OWN


def load(path):
    """{name: (values, raw bytes, shape)}, metadata of a safetensors file."""
    with open(path, "rb") as f:
        blob = f.read()
    n = struct.unpack("<Q", blob[:8])[0]
    head = json.loads(blob[8:8 + n])
    meta = head.pop("__metadata__", {})
    out = {}
    for name, t in head.items():
        begin, end = t["data_offsets"]
        raw = blob[8 + n + begin:8 + n + end]
        values = array.array(TYPES[t["dtype"]])
        values.frombytes(raw)
        out[name] = (values, raw, t["shape"])
    return out, meta


def error(got, want):
    """max|got - want| / max|want|; inf for another size or a value that is not finite."""
    if len(got) != len(want):
        return math.inf
    top = max((abs(x) for x in want), default=0.0) or 1.0
    worst = 0.0
    for a, b in zip(got, want):
        d = abs(a - b)
        if not d <= worst:
            if not math.isfinite(d):
                return math.inf
            worst = d
    return worst / top


class Case:
    """One golden file or model: how to run it, and the expected results."""

    def __init__(self, name, command, expected, floor, must_work):
        self.name, self.command, self.floor, self.must_work = name, command, floor, must_work
        want, self.meta = load(expected)
        self.want = {n: t for n, t in want.items() if self.wanted(n)}
        self.long = "inputs_file" in self.meta
        self.own = os.path.exists(os.path.join(OWN, *os.path.abspath(command[2]).split(os.sep)[-2:]))
        self.causal = self.meta.get("causal") == "1" and self.meta["mechanism"] != "softmax"

    def wanted(self, name):
        if self.name.startswith("models/"):
            return name != "input"
        return name in ("out", "out_rows", "state_out", "z_out")

    def compare(self, got):
        if not self.want:
            return "nothing to compare"
        allowed = json.loads(self.meta.get("fp32_rel_err", "{}"))
        for name, want in self.want.items():
            if name not in got:
                return name + " is missing in the output"
            if got[name][2] != want[2]:
                return "%s: shape %s, not %s" % (name, got[name][2], want[2])
            e = error(got[name][0], want[0])
            tolerance = max(self.floor, 10 * float(allowed.get(name, 0.0)))
            if not e <= tolerance:
                return "%s: error %.2e, allowed %.2e" % (name, e, tolerance)
        return None


def models(folder, match=""):
    """Folders of golden models, including those that only tests/data has; without models whose golden outputs are
    boxes, because no model of Fovea has such an output."""
    found = {os.path.basename(path): path for place in (OWN, folder)
             for path in glob.glob(place + "/models/*" + match + "*")}
    return [path for _, path in sorted(found.items()) if "detections.boxes" not in load(path + "/io.safetensors")[0]]


def cases(exe, match):
    folder = golden_folder()
    out = []
    for path in sorted(glob.glob(folder + "/ops/*.safetensors")):
        name = "ops/" + os.path.basename(path)[:-len(".safetensors")]
        if match not in name:
            continue
        _, meta = load(path)
        if "mechanism" in meta:
            out.append(Case(name, [exe, "op", path], path, 1e-5, True))
    for path in models(folder):
        name = "models/" + os.path.basename(path)
        if match in name:
            io = path + "/io.safetensors"
            out.append(Case(name, [exe, "run", path, io, "--hidden", "--compute", "f32"], io, 2e-5,
                            os.path.basename(path).startswith(FAMILIES)))
    return out


def launch(command):
    """Exit status and message of a process."""
    p = subprocess.run(command, capture_output=True, text=True, errors="replace")
    return p.returncode, (p.stderr or p.stdout).strip()[-200:]


def run(command, options, folder, start=launch):
    """Runs a case by `start`; returns its exit status, message and tensors."""
    result = os.path.join(folder, "out.safetensors")
    if os.path.exists(result):
        os.remove(result)
    code, message = start(command + ["-o", result] + options)
    if code:
        return code, message, None
    if not os.path.exists(result):
        return -1, "no output written", None
    return 0, "", load(result)[0]


def levels(exe, first, folder):
    """The ISA levels that this machine supports. Others must be refused with a message, without a crash."""
    found = []
    for level in LEVELS:
        code, _, _ = run(first.command, ["--isa", level, "--device", "cpu"], folder)
        if code == 0:
            found.append(level)
        elif code < 0 or level == "scalar":
            raise SystemExit("--isa %s: exit %d" % (level, code))
    return found


def check(case, options, threads, folder):
    options = ["--device", "cpu"] + options + ["--threads"]
    first = None
    for n in threads:
        code, message, got = run(case.command, options + [str(n)], folder)
        if code:
            return code, "exit %d: %s" % (code, message)
        if first is None:
            first = got
            bad = case.compare(got)
            if bad:
                return 1, bad
        elif {k: t[1] for k, t in got.items()} != {k: t[1] for k, t in first.items()}:
            return 1, "%d threads and %d give different bits" % (n, threads[0])
    return 0, ""


def grid(case, found, how):
    """The options and numbers of threads to run a case with; how: "--sample", "--brief", "--long", "--once" or ""."""
    def at(levels, threads, *variants):
        return [(["--isa", level] + v, threads) for level in levels for v in variants]

    forms = [["--form", "recurrent"], ["--form", "chunk"]]
    schedules = [["--schedule", "streamed"], ["--schedule", "stepwise"]]
    model, scan = case.name.startswith("models/"), case.causal
    if how == "--once":
        return at(found, (2,), *(forms if scan else [[]]))
    if how == "--long" and model:
        return at(found, (2,), []) if case.long else []
    if how == "--long":
        return at(found, (1, 3), *[["--chunk", c] + (forms[1] if scan else []) for c in CHUNKS])
    if how == "--brief" and model:
        return at(found[-1:], (2,), *schedules)
    if case.long or how == "--brief" or (how == "--sample" and not case.own):
        return at(found[-1:], (2,), *(forms if scan else [[]]))
    runs = at(found, (1, 2, 3), *(forms if scan else schedules))
    return runs if model else runs + at(found[-1:], (2,), ["--chunk", "16"], ["--chunk", "37"])


def main(argv):
    how = next((a for a in argv if a in ("--sample", "--brief", "--long", "--once")), "")
    match = argv[argv.index("--match") + 1] if "--match" in argv else ""
    exe = os.path.abspath(argv[0])
    passed = failed = skipped = 0
    todo = cases(exe, match)
    if not todo:
        print("no golden vectors in " + golden_folder())
        print("0 passed, 1 failed, 0 skipped")
        return 1
    with tempfile.TemporaryDirectory() as folder:
        working = [c for c in todo if c.must_work and not c.long] or todo
        found = levels(exe, working[0], folder)
        for case in todo:
            for options, threads in grid(case, found, how):
                code, bad = check(case, options, threads, folder)
                if code in REFUSALS and not case.must_work:
                    skipped += 1
                    break
                if code:
                    failed += 1
                    print("FAIL %s, %s: %s" % (case.name, " ".join(options), bad), flush=True)
                else:
                    passed += 1
    print("levels: " + " ".join(found))
    print("%d passed, %d failed, %d skipped" % (passed, failed, skipped))
    return 1 if failed else 0


if __name__ == "__main__":
    if len(sys.argv) < 2:
        raise SystemExit(__doc__)
    sys.exit(main(sys.argv[1:]))
