#!/usr/bin/env python3
"""test_half.py: compares models that have 16-bit weights with the same models in float32.

    test_half.py path/to/fovea [--sample | --long] [--match TEXT] [--verbose]

Runs every golden model at every ISA level of this machine. With float16, every output, intermediate ones
included, must be within 5e-3 of the largest value of the float32 run; with bfloat16, so must the main output
of plain ViTs. bfloat16 has 3 bits less, and its rounding errors are 8 times those of float16, so its other
outputs must be within 2e-2. The models of DENSE may exceed these bounds if rounding of the weights alone
does: then a float32 run of a rounded checkpoint measures that error, and twice as much is allowed, because
values that are folded into weights are rounded after folding. A threshold decides which keys a query of a model of
SWITCHING sees, so that an error of rounding may change one key of a few: changing the weights of mask2former-02 at
random by at most half a unit of float16 changes its classes by 3e-4 or, where a key changes, by 4e-3 to 6e-3, and
its masks by up to 9e-3. Its bound for float16 is therefore that of bfloat16. A checkpoint in 16 bits, run with float32
arithmetic, must give the same bits as the same numbers in float32. On every OpenCL device one model (with --long
all, but in float16 only) runs with activations of the same 16-bit type, and must be within the same bounds of
float32 on the CPU. With --sample only the models of tests/data run. Models of unknown families are skipped.
Standard library only.
"""
import array
import glob
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "models"))
import test_golden

ALLOWED = {"f16": 5e-3, "bf16": 2e-2}
ALLOWED_MAIN = 5e-3
MAIN = ("logits", "last_hidden_state")
PLAIN = ("vit-", "dinov2-", "clip-vision-", "siglip-")
DENSE = ("depth-anything-", "dpt-", "eomt-", "lw-detr-", "mask2former-", "mavit-cascade-", "mavit-fpn-",
         "mavit-mask-", "mavit-retinanet-", "mavit-uper-", "rf-detr-", "vitpose-", "yolos-")
SWITCHING = ("mask2former-",)
ON_DEVICES = ("siglip-01",)
FASTER = ("neon-fp16", "neon-dot")  # levels with 16-bit multiplication, whose results differ from those of floats
LOSSLESS = ("vit-01", "dinov2-01", "clip-vision-01", "siglip-01", "depth-anything-01", "rf-detr-01")


def halved(raw, kind):
    """Converts the bytes of float32 numbers to float16, or to bfloat16 by truncation."""
    if kind == "f16":
        values = array.array("f", raw)
        return struct.pack("<%de" % len(values), *values)
    out = bytearray(len(raw) // 2)
    out[0::2], out[1::2] = raw[2::4], raw[3::4]
    return bytes(out)


def rounded(raw):
    """Rounds the bytes of float32 numbers to the nearest bfloat16 in float32, ties to even."""
    numbers = array.array("I", raw)
    for i, x in enumerate(numbers):
        numbers[i] = (x + 0x7FFF + (x >> 16 & 1)) & 0xFFFF0000
    return numbers.tobytes()


def convert(model, kind, folder):
    """Copies a model with all of its float32 tensors in 16 bits. With "rounded" weights are rounded to
    bfloat16, but stored in float32."""
    to = os.path.join(folder, os.path.basename(model) + "-" + kind)
    os.mkdir(to)
    for path in glob.glob(model + "/*.json"):
        shutil.copy(path, to)
    with open(model + "/model.safetensors", "rb") as f:
        blob = f.read()
    n = struct.unpack("<Q", blob[:8])[0]
    head, data = json.loads(blob[8:8 + n]), b""
    for name, t in head.items():
        if name == "__metadata__":
            continue
        begin, end = t["data_offsets"]
        raw = blob[8 + n + begin:8 + n + end]
        if t["dtype"] == "F32" and kind != "rounded":
            raw, t["dtype"] = halved(raw, kind), kind.upper()
        elif t["dtype"] == "F32" and len(t["shape"]) > 1:
            raw = rounded(raw)
        t["data_offsets"] = [len(data), len(data) + len(raw)]
        data += raw
    text = json.dumps(head).encode()
    with open(to + "/model.safetensors", "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + data)
    return to


class Count:
    def __init__(self, verbose):
        self.passed = self.failed = self.skipped = 0
        self.verbose = verbose

    def note(self, what, bad, detail=""):
        self.passed, self.failed = self.passed + (not bad), self.failed + bool(bad)
        if bad or self.verbose:
            print("%s%s: %s" % ("FAIL " if bad else "", what, bad or detail), flush=True)


def command(exe, model, inputs, device="cpu"):
    return [exe, "run", model, inputs + "/io.safetensors", "--hidden", "--compute", "f32", "--device", device]


def devices(exe):
    said = subprocess.run([exe, "info", "--json"], capture_output=True, text=True, check=True)
    return [d["id"] for d in json.loads(said.stdout)["devices"] if d["id"] != "cpu"]


def compare(name, kind, got, exact, cost=None):
    """Returns what is wrong, and the largest error as text. cost: the error by rounding alone, if it is allowed for."""
    worst = (0, "")
    main = next((n for n in MAIN if n in exact), None) if name.startswith(PLAIN) else None
    for output, (values, *_) in exact.items():
        e = test_golden.error(got[output][0], values) if output in got else float("inf")
        allowed = ALLOWED_MAIN if output == main else ALLOWED["bf16" if name.startswith(SWITCHING) else kind]
        if cost:
            allowed = max(allowed, 2 * test_golden.error(cost[output][0], values))
        if not e <= allowed:
            return "%s: error %.2e, allowed %.1e" % (output, e, allowed), ""
        worst = max(worst, (e, output))
    return None, "%.2e in %s" % worst


def rounding_cost(exe, path, level):
    """The error of the float32 model if its weights are rounded to bfloat16."""
    with tempfile.TemporaryDirectory() as folder:
        run = command(exe, convert(path, "rounded", folder), path) + ["--isa", level]
        code, message, got = test_golden.run(run, [], folder)
        if code:
            raise SystemExit("%s, rounded: exit %d: %s" % (path, code, message))
        return got


def check_model(count, exe, path, levels, folder):
    name = os.path.basename(path)
    for level in levels:
        run = command(exe, path, path) + ["--isa", level]
        code, message, exact = test_golden.run(run, [], folder)
        if code in test_golden.REFUSALS and not name.startswith(test_golden.FAMILIES):
            count.skipped += 1
            return
        if code:
            count.note("%s, %s" % (name, level), "exit %d: %s" % (code, message))
            continue
        for kind in ALLOWED:
            code, message, got = test_golden.run(run, ["--dtype", kind], folder)
            bad, detail = ("exit %d: %s" % (code, message), "") if code else compare(
                name, kind, got, exact)
            if bad and not code and kind == "bf16" and name.startswith(DENSE):
                bad, detail = compare(name, kind, got, exact, rounding_cost(exe, path, level))
            count.note("%s, %s, %s" % (name, level, kind), bad, detail)


def check_devices(count, exe, path, kinds, folder):
    _, _, exact = test_golden.run(command(exe, path, path), [], folder)
    for device in devices(exe):
        for kind in kinds:
            code, message, got = test_golden.run(command(exe, path, path, device),
                                                 ["--dtype", kind], folder)
            bad, detail = ("exit %d: %s" % (code, message), "") if code else compare(
                os.path.basename(path), kind, got, exact)
            count.note("%s, %s, %s" % (os.path.basename(path), device, kind), bad, detail)


def check_lossless(count, exe, path, level, folder):
    for kind in ALLOWED:
        run = command(exe, convert(path, kind, folder), path) + ["--isa", level]
        what = "%s in %s" % (os.path.basename(path), kind)
        code, message, exact = test_golden.run(run, [], folder)
        if not code:
            code, message, got = test_golden.run(run, ["--dtype", kind], folder)
        if code:
            count.note(what, "exit %d: %s" % (code, message))
            continue
        differ = [n for n in exact if got[n][1] != exact[n][1]]
        count.note(what, "other bits in " + ", ".join(differ) if differ else None, "same bits")


def main(argv):
    match = argv[argv.index("--match") + 1] if "--match" in argv else ""
    exe = os.path.abspath(argv[0])
    count = Count("--verbose" in argv)
    golden = test_golden.OWN if "--sample" in argv else test_golden.golden_folder()
    paths = test_golden.models(golden, match)
    if not paths:
        print("no golden models in " + golden)
        print("0 passed, 1 failed, 0 skipped")
        return 1
    with tempfile.TemporaryDirectory() as folder:
        known = [p for p in paths if os.path.basename(p).startswith(test_golden.FAMILIES)] or paths
        first = test_golden.Case("models/first", command(exe, known[0], known[0])[:-2],
                                 known[0] + "/io.safetensors", 0, True)
        levels = test_golden.levels(exe, first, folder)
        for path in paths:
            check_model(count, exe, path, levels, folder)
            if os.path.basename(path) in ON_DEVICES:
                check_devices(count, exe, path, ALLOWED, folder)
            elif "--long" in argv:
                check_devices(count, exe, path, ["f16"], folder)
            if os.path.basename(path) in LOSSLESS:
                check_lossless(count, exe, path, [n for n in levels if n not in FASTER][-1], folder)
    print("levels: " + " ".join(levels))
    print("%d passed, %d failed, %d skipped" % (count.passed, count.failed, count.skipped))
    return 1 if count.failed else 0


if __name__ == "__main__":
    if len(sys.argv) < 2:
        raise SystemExit(__doc__)
    sys.exit(main(sys.argv[1:]))
