#!/usr/bin/env python3
"""test_op_files.py: `fovea op` on files made here: invalid files, 16-bit tensors, gates computed from x, and
a sequence that is split in two and passes on its state.

    test_op_files.py path/to/fovea
"""
import array
import json
import math
import os
import random
import struct
import subprocess
import sys
import tempfile

FORMATS = {"F32": "f", "F16": "e"}


class Tensor:
    def __init__(self, shape, values, dtype="F32"):
        self.shape, self.values, self.dtype = list(shape), list(values), dtype

    def raw(self):
        if self.dtype == "BF16":
            return b"".join(struct.pack("<f", x)[2:] for x in self.values)
        return struct.pack("<%d%s" % (len(self.values), FORMATS[self.dtype]), *self.values)

    def of(self, dtype):
        return Tensor(self.shape, self.values, dtype)

    def tokens(self, begin, end):
        """(B, H, N, ...) with only some of N."""
        b, h, n = self.shape[:3]
        run = math.prod(self.shape[3:])
        values = []
        for i in range(b * h):
            values += self.values[(i * n + begin) * run:(i * n + end) * run]
        return Tensor([b, h, end - begin] + self.shape[3:], values)


def draw(shape, seed, low=-1.0, high=1.0):
    """Values that 16 bits hold exactly."""
    r = random.Random(seed)
    return Tensor(shape, [round(r.uniform(low, high) * 64) / 64 for _ in range(math.prod(shape))])


def write(path, tensors, meta):
    head, data = {"__metadata__": meta}, b""
    for name, t in tensors.items():
        raw = t.raw()
        head[name] = {"dtype": t.dtype, "shape": t.shape,
                      "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(head).encode()
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + data)


def read(path):
    blob = open(path, "rb").read()
    n = struct.unpack("<Q", blob[:8])[0]
    head = json.loads(blob[8:8 + n])
    head.pop("__metadata__", None)
    out = {}
    for name, t in head.items():
        values = array.array("f")
        values.frombytes(blob[8 + n + t["data_offsets"][0]:8 + n + t["data_offsets"][1]])
        assert t["dtype"] == "F32", name
        out[name] = Tensor(t["shape"], values)
    return out


B, H, N, D, DV = 2, 2, 9, 8, 6
CORE = {"q": draw((B, H, N, D), 1), "k": draw((B, H, N, D), 2), "v": draw((B, H, N, DV), 3)}
LINEAR = {"mechanism": "linear", "feature_map": "elu+1", "causal": "0", "eps": "1e-6"}
SCAN = {"mechanism": "linear", "feature_map": "elu1", "causal": "1", "normalize": "1",
        "eps": "1e-10", "scale": "0.5"}
DELTA = {"mechanism": "delta-rule", "feature_map": "identity", "causal": "1", "eps": "0"}
NALA = {"mechanism": "nala", "feature_map": "nala", "causal": "0", "eps": "1e-6"}
HEDGEHOG = {"mechanism": "hedgehog", "feature_map": "hedgehog", "causal": "0", "eps": "1e-6"}
POLA = {"mechanism": "pola", "feature_map": "pola", "causal": "0", "eps": "1e-6"}
RETENTION = {"mechanism": "retention", "feature_map": "identity", "causal": "1"}
BETA = draw((B, H, N), 4, 0, 1)
NAN = Tensor((B, H, N, D), [math.nan] * (B * H * N * D))


def but(meta, **changes):
    return {k: v for k, v in {**meta, **changes}.items() if v is not None}


# (exit code, tensors in addition to CORE or instead of it, metadata, arguments)
CASES = [
    (0, {}, LINEAR, []),
    (0, {"q": NAN}, LINEAR, []),
    (0, {}, SCAN, ["--form", "recurrent"]), (0, {}, SCAN, ["--form", "chunk", "--chunk", "4"]),
    (0, {"beta": BETA}, DELTA, ["--dtype", "bf16"]),
    (0, {}, RETENTION, []), (0, {}, but(LINEAR, mechanism="mala", feature_map="relu"), []),
    (0, {}, LINEAR, ["--attention", "softmax"]),
    (0, {}, but(NALA, **{"lambda": "3", "tau": "0.5", "k_power": "3"}), []),
    (0, {}, but(NALA, **{"lambda": "2.5", "k_power": "2.5"}), []),
    (0, {}, HEDGEHOG, []), (0, {"map_q.weight": draw((H, D, D), 7), "map_k.weight": draw((H, D, D), 8)}, HEDGEHOG, []),
    (7, {"map_q.weight": draw((H, D, D + 1), 7)}, HEDGEHOG, []),
    (7, {}, but(NALA, **{"lambda": "-1"}), []),
    (1, {}, SCAN, ["--form", "spiral"]), (1, {}, SCAN, ["--dtype", "f8"]),
    # operations that the library does not support
    (2, {}, but(LINEAR, mechanism="hydra"), []), (2, {}, but(LINEAR, feature_map="cubic"), []),
    (2, {}, but(NALA, k_power="2"), []), (2, {}, but(NALA, **{"lambda": "2", "k_power": "3"}), []),
    (2, {}, but(NALA, tau="1"), []), (2, {}, but(LINEAR, layout="BNHD"), []),
    (2, {}, but(LINEAR, part="core+conv"), []), (2, {}, but(LINEAR, out_layout="HNBD"), []),
    (2, {}, but(NALA, causal="1"), []), (2, {}, but(RETENTION, causal="0"), []),
    (2, {"mask": BETA}, LINEAR, []), (2, {"beta": BETA}, LINEAR, []),
    (2, {"z_in": draw((B, 1, H, D), 5)}, but(SCAN, normalize="0"), []),
    # contradictory files
    (7, {"v": None}, LINEAR, []), (7, {}, but(LINEAR, mechanism=None), []),
    (7, {"q": Tensor((B, H, 0, D), [])}, LINEAR, []),
    (7, {"k": Tensor((B, H, 0, D), []), "v": Tensor((B, H, 0, DV), [])}, LINEAR, []),
    (7, {"q": draw((B, H + 1, N, D), 1)}, LINEAR, []), (7, {"q": draw((H, N, D), 1)}, LINEAR, []),
    (7, {"k": draw((B, H, N, D + 1), 1)}, LINEAR, []),
    (7, {"v": draw((B, H, N + 1, DV), 1)}, LINEAR, []),
    (7, {"k": draw((B, H, 4, D), 1), "v": draw((B, H, 4, DV), 1)}, SCAN, []),
    (7, {}, but(LINEAR, eps="little"), []), (7, {}, but(LINEAR, eps="-1"), []),
    (7, {}, but(LINEAR, scale="nan"), []), (7, {}, but(LINEAR, causal="-1"), []),
    (7, {}, but(LINEAR, feature_map="identity"), []),
    (7, {}, but(LINEAR, inputs_file="nowhere.safetensors"), []),
    (7, {}, LINEAR, ["--form", "chunk"]),
    (7, {"v": draw((B, H, N, 5), 3)}, POLA, []),
    (7, {"power": draw((D, H), 1)}, POLA, []),
    (7, {"cos": draw((N, D), 1)}, NALA, []), (7, {"cos": draw((N, D + 1), 1)}, NALA, []),
    (7, {}, but(NALA, rope="1", grid_h="2", grid_w="4"), []),
    (7, {}, but(POLA, part="core+dwc"), []), (7, {}, but(POLA, part="core+g"), []),
    (7, {"dwc.weight": draw((DV, 1, 3, 3), 1)}, but(POLA, part="core+dwc", grid_h="4"), []),
    (7, {"dwc.weight": draw((DV, 1, 3, 5), 1)}, but(POLA, part="core+dwc"), []),
    (7, {}, DELTA, []), (7, {"beta": draw((B, N, H), 4)}, DELTA, []),
    (7, {"beta": BETA, "state_in": draw((B, H, DV, D), 5)}, DELTA, []),
    (7, {"z_in": draw((B, H, 1, D), 5)}, SCAN, []),
    (7, {"log_decay": Tensor((H,), [-1.0, 0.5])}, RETENTION, []),
    (7, {"log_decay": Tensor((3,), [-1.0] * 3)}, RETENTION, []),
    (7, {"rows": Tensor((2,), [0.0, float(N)])}, LINEAR, []),
    (7, {"rows": Tensor((2,), [0.0, math.nan])}, LINEAR, []), (7, {"rows": Tensor((0,), [])}, LINEAR, []),
    (7, {}, but(LINEAR, mechanism="sla-linear", normalize="0"), []),
    (7, {"ln.weight": draw((H * DV,), 1), "ln.bias": draw((H * DV,), 1)},
     but(LINEAR, part="core" + "+ln" * 40, out_layout="BNC"), []),
]


class Program:
    def __init__(self, exe, folder):
        self.exe, self.folder = exe, folder

    def run(self, tensors, meta, args):
        """Runs `fovea op`; returns its exit status, message and tensors."""
        case, out = self.folder + "/case.safetensors", self.folder + "/out.safetensors"
        write(case, tensors, meta)
        if os.path.exists(out):
            os.remove(out)
        p = subprocess.run([self.exe, "op", case, "-o", out] + args, capture_output=True,
                           text=True)
        return p.returncode, p.stderr.strip(), read(out) if p.returncode == 0 else None

    def result(self, tensors, meta, args=()):
        code, message, out = self.run(tensors, meta, list(args))
        if code:
            raise SystemExit("%s: exit %d, %s" % (meta, code, message))
        return out


def distance(a, b):
    if a.shape != b.shape:
        return math.inf
    return max(abs(x - y) for x, y in zip(a.values, b.values)) / max(map(abs, b.values))


def exit_codes(p):
    for code, changes, meta, args in CASES:
        tensors = {k: t for k, t in {**CORE, **changes}.items() if t}
        got, message, _ = p.run(tensors, meta, args)
        if got != code or (code and (not message.startswith("fovea: ") or "\n" in message)):
            yield "%s with %s, %s: exit %d, wanted %d: %s" % (meta, list(changes), args, got, code,
                                                              message)


def large_heads(p):
    """Sizes whose products do not fit 32 bits are refused before anything is allocated. The file is sparse."""
    heads = 1 << 16
    size, path = 2 * heads * heads, p.folder + "/large.safetensors"
    head = {"__metadata__": LINEAR}
    for i, name in enumerate("qkv"):
        head[name] = {"dtype": "F16", "shape": [1, heads, 1, heads], "data_offsets": [i * size, (i + 1) * size]}
    text = json.dumps(head).encode()
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        f.truncate(8 + len(text) + 3 * size)
    got = subprocess.run([p.exe, "op", path, "-o", p.folder + "/out.safetensors"], capture_output=True, text=True)
    # Where addresses have 32 bits the file itself is too large.
    if got.returncode != 7 or not ("heads" in got.stderr or "address space" in got.stderr):
        yield "heads whose product overflows: exit %d: %s" % (got.returncode, got.stderr)


def own_case(p):
    """`fovea op` refuses to overwrite the case with its result."""
    path = p.folder + "/own.safetensors"
    write(path, CORE, LINEAR)
    got = subprocess.run([p.exe, "op", path, "-o", p.folder + "/./own.safetensors"], capture_output=True)
    if got.returncode != 1 or "q" not in read(path):
        yield "a result over its own case: exit %d" % got.returncode


def storage(p):
    """Numbers that 16 bits represent exactly give the same results in every type of storage."""
    for meta, extra in ((LINEAR, {}), (DELTA, {"beta": BETA})):
        want = p.result({**CORE, **extra}, meta)["out"]
        for dtype in ("F16", "BF16"):
            half = {name: t.of(dtype) for name, t in CORE.items()}
            runs = [p.result({**half, **extra}, meta),
                    p.result({**half, **extra}, meta, ["--dtype", "f32"]),
                    p.result({**CORE, **extra}, meta, ["--dtype", dtype.lower()])]
            for i, got in enumerate(runs):
                if distance(got["out"], want) > 1e-5:
                    yield "%s as %s, way %d: off by %g" % (meta, dtype, i,
                                                           distance(got["out"], want))


def products(p):
    """Products in bfloat16 are close to float32, also with bfloat16 rows; scans always use float32."""
    for meta, extra, most in ((LINEAR, {}, 0.03), (but(LINEAR, mechanism="softmax", feature_map=None), {}, 0.03),
                              (DELTA, {"beta": BETA}, 0)):
        case = {**CORE, **extra}
        want = p.result(case, meta)["out"]
        for compute in ("bf16", "int8"):
            off = distance(p.result(case, meta, ["--compute", compute])["out"], want)
            if off > most:
                yield "%s with products of %s: off by %g" % (meta, compute, off)


def gates_of_x(p):
    """Gates that the program computes from x are those computed here."""
    meta = but(LINEAR, mechanism="sla-linear", normalize="0")
    wide = 5
    x, ready, raw = draw((B, N, wide), 6), {}, {}
    for name, weight, seed in (("gq", "w_gq", 7), ("gk_gate", "w_gk", 8)):
        w = draw((wide, H), seed)
        gates = [0.0] * (B * H * N)
        for b in range(B):
            for n in range(N):
                row = x.values[(b * N + n) * wide:(b * N + n + 1) * wide]
                logits = [sum(row[i] * w.values[i * H + h] for i in range(wide)) for h in range(H)]
                sum_exp = sum(map(math.exp, logits))
                for h in range(H):
                    gates[(b * H + h) * N + n] = math.exp(logits[h]) / sum_exp
        ready[name], raw[weight] = Tensor((B, H, N), gates), w
    want = p.result({**CORE, **ready}, meta)["out"]
    got = p.result({**CORE, "x": x, **raw}, meta)["out"]
    if distance(got, want) > 1e-5:
        yield "gates of x: off by %g" % distance(got, want)


def cut(p):
    """Two halves, with the state passed from one to the other, give the results of the whole sequence."""
    for meta, extra in ((SCAN, {}), (DELTA, {"beta": BETA}), (RETENTION, {})):
        tensors = {**CORE, **extra}
        whole = p.result(tensors, meta)
        first = p.result({k: t.tokens(0, 4) for k, t in tensors.items()}, meta)
        state = {"state_in": first["state_out"]}
        if "z_out" in first:
            state["z_in"] = first["z_out"]
        second = p.result({**{k: t.tokens(4, N) for k, t in tensors.items()}, **state}, meta)
        pairs = [(first["out"], whole["out"].tokens(0, 4)),
                 (second["out"], whole["out"].tokens(4, N)),
                 (second["state_out"], whole["state_out"])]
        pairs += [(second["z_out"], whole["z_out"])] if "z_out" in whole else []
        for got, want in pairs:
            if distance(got, want) > 1e-5:
                yield "%s cut in two: off by %g" % (meta, distance(got, want))


def main(argv):
    if len(argv) != 1:
        print(__doc__)
        return 2
    with tempfile.TemporaryDirectory() as folder:
        p = Program(os.path.abspath(argv[0]), folder)
        tests = exit_codes, large_heads, own_case, storage, products, gates_of_x, cut
        wrong = [m for test in tests for m in test(p)]
    print("\n".join(wrong) if wrong else "%d files" % len(CASES))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
