#!/usr/bin/env python3
"""test_linearised.py: compares ViTs with every attention in place of softmax with a float64 reference.

    test_linearised.py path/to/fovea

A small DINOv2 with random weights is written to a folder, run by the program, and computed here in numpy from
the equations of the papers and the official code: each mechanism in all blocks, hybrids of several, SLA's gates with
and without weights, the authors' modules around pola, nala and focused, models with and without a class token,
other constants of the mechanisms and another number of heads. The same is done for a DINOv3, whose rotary positions
rotate the features of a linear attention, but not those of its normaliser. Messages about invalid configurations must
name the error.
"""
import json
import os
import struct
import subprocess
import sys
import tempfile

import numpy as np

WIDTH, HEADS, DEPTH, PATCH, HIDDEN = 48, 4, 3, 4, 64
GRID, LARGE = (5, 7), (22, 37)  # rows, columns
D = WIDTH // HEADS
TOLERANCE = 2e-5
# Defaults of the fields for linear attentions in the section "fovea" of config.json.
USUAL = {"nala_lambda": 3, "pola_alpha": 4, "q_scale": 1, "linear_heads": HEADS}


# ---- files ----

def save(path, tensors):
    head, data = {}, b""
    for name, values in tensors.items():
        raw = np.ascontiguousarray(values, np.float32).tobytes()
        head[name] = {"dtype": "F32", "shape": list(np.shape(values)),
                      "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(head).encode()
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + data)


def load(path):
    blob = open(path, "rb").read()
    n = struct.unpack("<Q", blob[:8])[0]
    out = {}
    for name, t in json.loads(blob[8:8 + n]).items():
        if name != "__metadata__" and t["dtype"] == "F32":
            begin, end = t["data_offsets"]
            out[name] = np.frombuffer(blob[8 + n + begin:8 + n + end], np.float32).reshape(t["shape"])
    return out


def block_name(i, part):
    return "encoder.layer.%d.%s" % (i, part)


def checkpoint(rng, grid=GRID):
    """Tensors in transformers' names of a DINOv2."""
    def matrix(rows, cols):
        return (rng.standard_normal((rows, cols)) * 1.4 / cols ** 0.5).astype(np.float32)

    def vector(mean=0.0):
        return (mean + 0.3 * rng.standard_normal(WIDTH)).astype(np.float32)

    t = {"embeddings.cls_token": vector()[None, None],
         "embeddings.mask_token": vector()[None],
         "embeddings.position_embeddings":
             np.stack([vector() for _ in range(1 + grid[0] * grid[1])])[None],
         "embeddings.patch_embeddings.projection.weight":
             matrix(WIDTH, 3 * PATCH * PATCH).reshape(WIDTH, 3, PATCH, PATCH),
         "embeddings.patch_embeddings.projection.bias": vector(),
         "layernorm.weight": vector(1), "layernorm.bias": vector()}
    for i in range(DEPTH):
        for norm in ("norm1", "norm2"):
            t[block_name(i, norm + ".weight")] = vector(1)
            t[block_name(i, norm + ".bias")] = vector()
        for part in ("attention.query", "attention.key", "attention.value", "output.dense"):
            t[block_name(i, "attention." + part + ".weight")] = matrix(WIDTH, WIDTH)
            t[block_name(i, "attention." + part + ".bias")] = vector()
        t[block_name(i, "layer_scale1.lambda1")] = vector(1)
        t[block_name(i, "layer_scale2.lambda1")] = vector(1)
        t[block_name(i, "mlp.fc1.weight")] = matrix(HIDDEN, WIDTH)
        t[block_name(i, "mlp.fc1.bias")] = 0.1 * rng.standard_normal(HIDDEN)
        t[block_name(i, "mlp.fc2.weight")] = matrix(WIDTH, HIDDEN)
        t[block_name(i, "mlp.fc2.bias")] = vector()
    return t


def sla_weights(rng, rows):
    return {block_name(i, "attn.sla_%s.weight" % x): rng.standard_normal((rows, HEADS)).astype("f")
            for i in range(DEPTH) for x in "qk"}


def whole_weights(rng, filters, size, *parts):
    """The modules around the mechanism of every block: attn.dwc, and those named of attn.gate and attn.ln."""
    t = {}
    for i in range(DEPTH):
        t[block_name(i, "attn.dwc.weight")] = 0.3 * rng.standard_normal((filters, 1, size, size))
        t[block_name(i, "attn.dwc.bias")] = 0.3 * rng.standard_normal(filters)
        if "gate" in parts:
            t[block_name(i, "attn.gate.weight")] = rng.standard_normal((WIDTH, WIDTH)) / WIDTH ** 0.5
            t[block_name(i, "attn.gate.bias")] = 1 + 0.3 * rng.standard_normal(WIDTH)
        if "ln" in parts:
            t[block_name(i, "attn.ln.weight")] = 1 + 0.3 * rng.standard_normal(WIDTH)
            t[block_name(i, "attn.ln.bias")] = 0.3 * rng.standard_normal(WIDTH)
    return t


def maps(rng, heads, *biased):
    """Hedgehog's learned maps in every block; those of the blocks `biased` have a bias."""
    d, t = WIDTH // heads, {}
    for i in range(DEPTH):
        for x in "qk":
            t[block_name(i, "attn.map_%s.weight" % x)] = rng.standard_normal((heads, d, d)) / d ** 0.5
            if x in biased:
                t[block_name(i, "attn.map_%s.bias" % x)] = 0.3 * rng.standard_normal(WIDTH)
    return t


RENAMED = (("embeddings.patch_embeddings.projection.", "embeddings.patch_embeddings."), ("encoder.layer.", "layer."),
           ("attention.attention.query.", "attention.q_proj."), ("attention.attention.key.", "attention.k_proj."),
           ("attention.attention.value.", "attention.v_proj."), ("attention.output.dense.", "attention.o_proj."),
           ("mlp.fc1.", "mlp.up_proj."), ("mlp.fc2.", "mlp.down_proj."), ("layernorm.", "norm."))


def dinov3(tensors):
    """Tensors in transformers' names of a DINOv3, which has no position table."""
    out = {}
    for name, values in tensors.items():
        for old, new in RENAMED:
            name = name.replace(old, new)
        out[name] = values
    del out["embeddings.position_embeddings"]
    out["embeddings.register_tokens"] = np.zeros((1, 0, WIDTH))
    return out


# transformers' names of an I-JEPA, which has no class token and no layer scale.
HEADLESS = ((".norm1.", ".layernorm_before."), (".norm2.", ".layernorm_after."),
            (".mlp.fc1.", ".intermediate.dense."), (".mlp.fc2.", ".output.dense."))
PLAIN = {"model_type": "ijepa", "intermediate_size": HIDDEN}


def headless(tensors):
    out = {}
    for name, values in tensors.items():
        for old, new in HEADLESS:
            name = name.replace(old, new)
        if "layer_scale" not in name and "token" not in name:
            out[name] = values[:, 1:] if "position" in name else values
    return out


TURNED = {"model_type": "dinov3_vit", "key_bias": True, "rope_theta": 30.0}
CONFIG = {"model_type": "dinov2", "hidden_size": WIDTH, "num_hidden_layers": DEPTH,
          "num_attention_heads": HEADS, "patch_size": PATCH, "hidden_act": "gelu",
          "image_size": [GRID[0] * PATCH, GRID[1] * PATCH], "layer_norm_eps": 1e-6}


# ---- the reference: float64, q, k, v of (heads, tokens, d) ----

def softplus(x):
    return np.log1p(np.exp(-abs(x))) + np.maximum(x, 0)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def over_features(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


MAPS = {"elu1": lambda x: np.where(x > 0, x + 1, np.exp(np.minimum(x, 0))),
        "relu": lambda x: np.maximum(x, 0), "exp": np.exp, "softplus": softplus,
        "softmax": over_features}


def norm(x):
    return np.sqrt((x * x).sum(-1, keepdims=True))


def halves(x, power):
    return np.concatenate([np.maximum(x, 0) ** power, np.maximum(-x, 0) ** power], -1)


def features(name, q, k, power):
    """phi(q), phi(k) of the mechanisms whose output is a quotient of means; power: NaLa's."""
    if name == "nala":
        n = norm(q)
        return halves(q / n, power * (0.5 + np.tanh(n))), halves(k, power)
    if name == "nala-paper":
        def turned(x, weight):
            f = np.pi / 4 * np.tanh(x)
            return np.concatenate([weight * np.cos(f), weight * np.sin(f)], -1)
        n, p = norm(q), power * (0.5 + np.tanh(norm(q)))
        return turned(q / n, abs(q / n) ** p), turned(k / norm(k), abs(k) ** power)
    if name == "hedgehog":
        return tuple(over_features(np.concatenate([x, -x], -1)) for x in (q, k))
    assert name == "focused"

    def focused(x):
        y = (np.maximum(x, 0) + 1e-6) / softplus(0.0)
        rows = y.transpose(1, 0, 2).reshape(y.shape[1], -1)  # these norms are over the channels of all heads
        factor = norm(rows) / norm(rows ** 3)
        return y ** 3 * factor[None]
    return focused(q), focused(k)


def softmax(q, k, v, counts=1):
    """Softmax attention in which key i counts as counts[i] equal keys."""
    return over_features(q @ k.transpose(0, 2, 1) / q.shape[-1] ** 0.5 + np.log(counts)) @ v


def seen(grid, margin, top, left):
    """The cells (y0, y1, x0, x1) that the block of 8 x 8 queries at (top, left) sees: for each level, those inside its
    region and outside that of the level below."""
    levels = 1
    while -(-max(grid) // 2 ** levels) > 10:
        levels += 1
    inner = None
    for level in range(levels + 1):
        side, unit, wide = 2 ** level, 2 ** (level + 1), margin * (2 ** (level + 1) - 1)
        outer = [(max(0, (at - wide) // unit * unit), min(end, -(-(at + 8 + wide) // unit) * unit))
                 if level < levels else (0, end) for at, end in zip((top, left), grid)]

        def inside(region, y, x):
            return region and region[0][0] <= y < region[0][1] and region[1][0] <= x < region[1][1]

        for y in range(0, grid[0], side):
            for x in range(0, grid[1], side):
                if inside(outer, y, x) and not inside(inner, y, x):
                    yield y, min(y + side, grid[0]), x, min(x + side, grid[1])
        inner = outer


def foveated(grid, margin, q, k, v):
    out = softmax(q, k, v)  # that of the prefix
    prefix = q.shape[1] - grid[0] * grid[1]
    table = prefix + np.arange(grid[0] * grid[1]).reshape(grid)
    for top in range(0, grid[0], 8):
        for left in range(0, grid[1], 8):
            cells = [np.array([i]) for i in range(prefix)]
            for y0, y1, x0, x1 in seen(grid, margin, top, left):
                cells.append(table[y0:y1, x0:x1].ravel())
            keys, values = (np.stack([x[:, c].mean(1) for c in cells], 1) for x in (k, v))
            block = table[top:top + 8, left:left + 8].ravel()
            out[:, block] = softmax(q[:, block], keys, values, [len(c) for c in cells])
    return out


def rotation(grid):
    """A function that rotates (heads, tokens, n D): in every group of D channels it rotates j and j + D/2 by the
    angle of the token's row or column; the class token stays unchanged."""
    def angles(n):
        return 2 * np.pi * ((np.arange(n) + 0.5) / n * 2 - 1)[:, None] / 30.0 ** (4 / D * np.arange(D // 4))
    y, x = np.repeat(angles(grid[0]), grid[1], 0), np.tile(angles(grid[1]), (grid[0], 1))
    all_angles = np.concatenate([np.zeros((1, D // 2)), np.concatenate([y, x], -1)])
    cos, sin = np.cos(all_angles), np.sin(all_angles)

    def turn(f):
        out = f.copy()
        for i in range(0, f.shape[-1], D):
            a, b = f[..., i:i + D // 2], f[..., i + D // 2:i + D]
            out[..., i:i + D // 2], out[..., i + D // 2:i + D] = a * cos - b * sin, b * cos + a * sin
        return out
    return turn


def attention(name, grid, shape, q, k, v, gate_q, gate_k, turn=lambda x: x):
    """gate_q, gate_k: (heads, tokens, 1), or None. turn: rotates features."""
    n, d = q.shape[1:]

    def weights(fq, fk):
        return turn(fq) @ turn(fk).transpose(0, 2, 1), (fq @ fk.transpose(0, 2, 1)).sum(-1, keepdims=True)
    one = np.ones((1, 1, 1)) if gate_k is None else gate_k
    base, _, feature_map = name.partition(":")
    if name == "softmax":
        return softmax(turn(q), turn(k), v)
    if base == "foveated":
        return foveated(grid, int(feature_map or 4), turn(q), turn(k), v)
    if base == "linear":
        phi = MAPS[feature_map or "elu1"]
        w, z = weights(phi(q), one * phi(k))
        out = w @ v / (z + 1e-6 * n)
    elif base in ("mala", "mala-paper"):
        phi = MAPS[feature_map or "elu1"]
        s, eps = (n, 0) if base == "mala-paper" else (d ** -0.5, 1e-6)
        w, z = weights(s * phi(q), one * phi(k) / n)
        out = (1 + 1 / (z + eps)) * (w @ v) - z * v.mean(1, keepdims=True)
    elif base == "pola":
        q, k = q / softplus(0.0), k / softplus(0.0)
        p = 1 + shape["pola_alpha"] * sigmoid(0.0)
        keys, streams = one * halves(k, p), []
        for sign, part in ((1, v[..., :d // 2]), (-1, v[..., d // 2:])):
            w, z = weights(halves(sign * q, p), keys / n)
            streams.append(w @ part / (z + 1e-6))
        out = np.concatenate(streams, -1)
    else:
        fq, fk = features(name, q, k, shape["nala_lambda"])
        w, z = weights(fq, one * fk / n)
        out = w @ v / (z + 1e-6)
    return out if gate_q is None else gate_q * out


def gate(t, i, which, form, x, rows, heads, total):
    """SLA's gates of block i, whose sum is `total`; rows: q or k, (tokens, WIDTH)."""
    w, d = t.get(block_name(i, "attn.sla_%s.weight" % which)), WIDTH // heads
    if w is None:
        logits = np.zeros((len(x), heads))
    elif form == "x_dense":
        logits = x @ w
    elif form == "q_dense":
        logits = rows @ w
    else:
        logits = np.stack([rows[:, h * d:(h + 1) * d] @ w[:, h] for h in range(heads)], -1)
    return total * over_features(logits).T[..., None]


def mapped(t, i, which, rows, heads):
    """Hedgehog's map of block i: a matrix and a bias for each head."""
    stem = "attn.map_%s." % which
    w = t.get(block_name(i, stem + "weight"))
    if w is None:
        return rows
    out = np.concatenate([x @ m.T for x, m in zip(np.split(rows, heads, -1), w)], -1)
    return out + t.get(block_name(i, stem + "bias"), 0)


def around(t, i, name, grid, x, v, out):
    """Applies the modules around the mechanism of block i; x: its input, v: values; (tokens, WIDTH)."""
    name = name.partition("sla-")[2] or name
    taps = t.get(block_name(i, "attn.dwc.weight"))
    if taps is None or name not in ("pola", "nala", "nala-paper", "focused"):
        return out
    repeat = WIDTH // len(taps)
    taps, bias = np.tile(taps[:, 0], (repeat, 1, 1)), np.tile(t[block_name(i, "attn.dwc.bias")], repeat)
    size, n = taps.shape[-1], grid[0] * grid[1]
    wide = np.pad(v[len(v) - n:].reshape(*grid, WIDTH), [(size // 2, size // 2)] * 2 + [(0, 0)])
    seen = sum(taps[:, a, b] * wide[a:a + grid[0], b:b + grid[1]] for a in range(size) for b in range(size))
    out = out + np.concatenate([np.zeros((len(v) - n, WIDTH)), seen.reshape(n, WIDTH) + bias])
    if name.startswith("nala") and block_name(i, "attn.ln.weight") in t:
        out = layernorm(out, t, block_name(i, "attn.ln"), 1e-5)
    if name != "focused" and block_name(i, "attn.gate.weight") in t:
        g = x @ t[block_name(i, "attn.gate.weight")].T + t[block_name(i, "attn.gate.bias")]
        out = out * (g * sigmoid(g) if name.startswith("nala") else g)
    return out


def layernorm(x, t, name, eps=1e-6):
    mean, var = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    return (x - mean) / np.sqrt(var + eps) * t[name + ".weight"] + t[name + ".bias"]


def gelu(x):
    erf = np.vectorize(__import__("math").erf)
    return 0.5 * x * (1 + erf(x / 2 ** 0.5))


def forward(t, pixels, names, form, turned=False, prefix=1, share=False, shape=USUAL):
    """last_hidden_state of one picture (3, H, W)."""
    t = {name: values.astype(np.float32).astype(np.float64) for name, values in t.items()}
    rows, columns = pixels.shape[1] // PATCH, pixels.shape[2] // PATCH
    patches = pixels.astype(np.float64).reshape(3, rows, PATCH, columns, PATCH)
    patches = patches.transpose(1, 3, 0, 2, 4).reshape(rows * columns, -1)
    patch = "embeddings.patch_embeddings.projection."
    x = patches @ t[patch + "weight"].reshape(WIDTH, -1).T + t[patch + "bias"]
    if prefix:
        x = np.concatenate([t["embeddings.cls_token"][0], x])
    more = {"turn": rotation((rows, columns))} if turned else {}
    if not turned:
        x = x + t["embeddings.position_embeddings"][0, 1 - prefix:]

    def linear(y, i, part):
        return y @ t[block_name(i, part + ".weight")].T + t[block_name(i, part + ".bias")]

    def heads(y, n):
        return y.reshape(len(y), n, -1).transpose(1, 0, 2)

    for i, name in enumerate(names):
        y = layernorm(x, t, block_name(i, "norm1"))
        q, k, v = (linear(y, i, "attention.attention." + p) for p in ("query", "key", "value"))
        gates, n = (None, None), HEADS
        if name.partition(":")[0] not in ("softmax", "foveated"):
            q, n = q * shape["q_scale"], shape["linear_heads"]
        if name.endswith("hedgehog"):
            q, k = mapped(t, i, "q", q, n), mapped(t, i, "k", k, n)
        if name.startswith("sla-"):
            name, total = name[4:], 1 if share else n
            gates = gate(t, i, "q", form, y, q, n, total), gate(t, i, "k", form, y, k, n, total)
        out = attention(name, (rows, columns), shape, heads(q, n), heads(k, n), heads(v, n), *gates, **more)
        out = around(t, i, name, (rows, columns), y, v, out.transpose(1, 0, 2).reshape(len(x), WIDTH))
        out = linear(out, i, "attention.output.dense")
        x = x + (t[block_name(i, "layer_scale1.lambda1")] if prefix else 1) * out
        y = linear(gelu(linear(layernorm(x, t, block_name(i, "norm2")), i, "mlp.fc1")), i, "mlp.fc2")
        x = x + (t[block_name(i, "layer_scale2.lambda1")] if prefix else 1) * y
    return layernorm(x, t, "layernorm")


# ---- the cases ----

EVERY = ["softmax", "foveated", "linear:elu1", "linear:relu", "linear:exp", "linear:softplus",
         "linear:softmax", "mala", "mala:relu", "mala:exp", "mala-paper", "mala-paper:relu", "pola", "nala",
         "nala-paper", "focused", "hedgehog"]
EVERY += ["sla-" + name for name in EVERY if name not in ("softmax", "foveated")]

# With rotary positions: mechanisms whose normaliser does not use them.
TURNING = [name for name in EVERY if "paper" not in name and "linear:exp" not in name]

# attention on the command line, the attentions of the blocks
HYBRIDS = [("linear:elu1+softmax@0-1", ["softmax", "softmax", "linear"]),
           ("linear:elu+1+softmax@2", ["linear", "linear", "softmax"]),
           ("softmax+sla-mala@1-", ["softmax", "sla-mala", "sla-mala"]),
           ("pola+nala@0+focused@2", ["nala", "pola", "focused"]),
           ("mala+softmax@0-2+linear:relu@1", ["softmax", "linear:relu", "softmax"])]


class Model:
    """A folder with a checkpoint, and its picture."""

    def __init__(self, exe, folder, extra, own, grid=GRID, turned=False, prefix=1):
        rng = np.random.default_rng(7)
        self.exe, self.folder, self.form, self.turned = exe, folder, own.get("sla_gates"), turned
        self.prefix, self.share = prefix, own.get("sla_gates_sum") == "one"
        self.shape = dict(USUAL, **{key: own[key] for key in own if key in USUAL})
        self.tensors = dict(checkpoint(rng, grid), **extra)
        size = [grid[0] * PATCH, grid[1] * PATCH]
        self.pixels = rng.standard_normal([3] + size).astype(np.float32)
        save(folder + "/model.safetensors", dinov3(self.tensors) if turned
             else self.tensors if prefix else headless(self.tensors))
        save(folder + "/in.safetensors", {"input": self.pixels[None]})
        config = dict(CONFIG, image_size=size, fovea=own)
        config.update(TURNED if turned else {} if prefix else PLAIN)
        json.dump(config, open(folder + "/config.json", "w"))

    def run(self, *options):
        return subprocess.run([self.exe, "run", self.folder, self.folder + "/in.safetensors", "--compute",
                               "f32", "-o", self.folder + "/out.safetensors", *options],
                              capture_output=True, text=True)

    def wrong(self, names, *options):
        """The error of the program's result for blocks with the attentions `names`; None if there is none."""
        want = forward(self.tensors, self.pixels, names, self.form, self.turned, self.prefix,
                       self.share, self.shape)
        results = []
        for schedule in ("streamed", "stepwise"):
            p = self.run("--schedule", schedule, "--threads", "2", *options)
            if p.returncode:
                return "exit %d: %s" % (p.returncode, p.stderr.strip())
            got = load(self.folder + "/out.safetensors")["last_hidden_state"][0]
            error = abs(got - want).max() / abs(want).max()
            if not error <= TOLERANCE:
                return "%s: error %.2e" % (schedule, error)
            results.append(got.tobytes())
        return None if results[0] == results[1] else "stepwise has other bits than streamed"


def refusals(exe):
    """(case, message) of configurations that are not refused as expected."""
    rng = np.random.default_rng(8)
    dense, diagonal = sla_weights(rng, WIDTH), sla_weights(rng, D)
    lone = dict(list(diagonal.items())[:1])
    gate_alone = {name: x for name, x in whole_weights(rng, D, 3, "gate").items() if "gate" in name}
    for what, extra, own, words in (
            ("a list that is too short", {}, {"attention": ["linear"]}, ["1 names", "3 blocks"]),
            ("a list with a number", {}, {"attention": ["linear", "mala", 3]}, ["one per block"]),
            ("a list with blocks", {}, {"attention": ["linear", "mala", "pola@1"]}, ["pola@1"]),
            ("a block beyond the last", {}, {"attention": "linear+mala@7"}, ["block 7 does not exist", "0 to 2"]),
            ("gates that say nothing of their input", dense, {"attention": "sla-linear"},
             ["attn.sla_q.weight", "sla_gates"]),
            ("unknown gates", dense, {"sla_gates": "dense"}, ["sla_gates", "x_dense"]),
            ("an unknown sum", diagonal, {"sla_gates_sum": "two"}, ["sla_gates_sum", "heads or one"]),
            ("gates of another shape", diagonal, {"sla_gates": "x_dense"}, ["attn.sla_q.weight"]),
            ("gates of q alone", lone, {}, ["attn.sla_k.weight"]),
            ("filters of even size", whole_weights(rng, D, 4), {}, ["attn.dwc.weight", "odd"]),
            ("filters of other channels", whole_weights(rng, 5, 3), {}, ["attn.dwc.weight", "(48, 3, 3)"]),
            ("a lambda that is too small", {}, {"nala_lambda": 1.5}, ["nala_lambda", "2 to 8"]),
            ("an alpha in words", {}, {"pola_alpha": "four"}, ["pola_alpha", "16"]),
            ("a scale of 0", {}, {"q_scale": 0}, ["q_scale", "0.001"]),
            ("heads that divide nothing", {}, {"linear_heads": 5}, ["linear_heads", "5", "48"]),
            ("an odd number of channels a head", {}, {"linear_heads": 16, "attention": "pola"}, ["pola", "even"]),
            ("maps of other heads", maps(rng, 2), {}, ["attn.map_q.weight", "(4, 12, 12)"]),
            ("a map of q alone", {name: x for name, x in maps(rng, HEADS).items() if "map_q" in name}, {},
             ["attn.map_k.weight"]),
            ("a gate of softmax", gate_alone, {}, ["attn.gate.", "is not used by"])):
        with tempfile.TemporaryDirectory() as folder:
            p = Model(exe, folder, extra, own).run()
        if p.returncode not in (2, 7) or not all(w in p.stderr for w in words):
            yield what, "exit %d: %s" % (p.returncode, p.stderr.strip())


def main(argv):
    exe = os.path.abspath(argv[0])
    rng = np.random.default_rng(9)
    failed = []
    total = 0

    def check(what, wrong):
        nonlocal total
        total += 1
        if wrong:
            failed.append("%s: %s" % (what, wrong))

    with tempfile.TemporaryDirectory() as folder:
        model = Model(exe, folder, {}, {})
        for name in EVERY:
            check(name, model.wrong([name] * DEPTH, "--attention", name))
        for text, names in HYBRIDS:
            check(text, model.wrong(names, "--attention", text))
    with tempfile.TemporaryDirectory() as folder:
        model = Model(exe, folder, {}, {}, turned=True)
        for name in TURNING:
            check("turned, " + name, model.wrong([name] * DEPTH, "--attention", name))
        for text, names in HYBRIDS:
            check("turned, " + text, model.wrong(names, "--attention", text))
        p = model.run("--attention", "linear:exp")
        check("turned, linear:exp", None if p.returncode == 2 and "rotary" in p.stderr else p.stderr)
    with tempfile.TemporaryDirectory() as folder:
        model = Model(exe, folder, {}, {}, LARGE)
        for name in ("foveated", "foveated:1"):
            check("a large grid, " + name, model.wrong([name] * DEPTH, "--attention", name))
    for own in ("linear:elu1+softmax@1", ["linear", "softmax", "linear:elu+1"]):
        with tempfile.TemporaryDirectory() as folder:
            model = Model(exe, folder, {}, {"attention": own})
            check("config.json %s" % own, model.wrong(["linear", "softmax", "linear"]))
            told = subprocess.run([exe, "plan", folder, "--json"], capture_output=True, text=True)
            told = json.loads(told.stdout)["params"]["attention"]
            check("the plan's attention",
                  None if told in ("linear:elu1+softmax@1", "linear+softmax@1+linear:elu+1@2")
                  else told)
    for form, rows in (("q_blockdiag", D), (None, D), ("q_dense", WIDTH), ("x_dense", WIDTH)):
        own = {"sla_gates": form} if form else {}
        with tempfile.TemporaryDirectory() as folder:
            model = Model(exe, folder, sla_weights(rng, rows), own)
            for name in ("sla-linear", "sla-mala", "sla-pola", "softmax"):
                check("%s, %s" % (form, name), model.wrong([name] * DEPTH, "--attention", name))
    for extra in {}, sla_weights(rng, D):
        with tempfile.TemporaryDirectory() as folder:
            model = Model(exe, folder, extra, {"sla_gates_sum": "one"})
            for name in ("sla-linear", "sla-mala"):
                check("gates that add up to one, " + name, model.wrong([name] * DEPTH, "--attention", name))
    for prefix, grid, filters, size, parts in ((1, GRID, D, 5, ("gate",)), (0, GRID, WIDTH, 3, ("gate", "ln")),
                                               (0, LARGE, D, 5, ("gate",)), (1, LARGE, WIDTH, 7, ()),
                                               (0, (1, 6), D, 9, ("gate", "ln"))):
        with tempfile.TemporaryDirectory() as folder:
            extra = whole_weights(rng, filters, size, *parts)
            model = Model(exe, folder, extra, {}, grid, prefix=prefix)
            others = ("focused", "nala-paper", "sla-pola", "mala", "softmax") if grid == GRID else ()
            for name in ("pola", "nala", *others):
                check("whole, prefix of %d, %d x %d, %s" % (prefix, *grid, name),
                      model.wrong([name] * DEPTH, "--attention", name))
            check("whole, softmax@1", model.wrong(["pola", "softmax", "nala"], "--attention",
                                                  "pola+softmax@1+nala@2", "--chunk", "1"))
    for own in ({"nala_lambda": 4.5, "q_scale": 0.5}, {"nala_lambda": 2, "pola_alpha": 1.5, "linear_heads": 3},
                {"q_scale": 3, "linear_heads": 8, "sla_gates": "q_blockdiag"}):
        n = own.get("linear_heads", HEADS)
        extra = whole_weights(rng, WIDTH // n, 3, "gate")
        if "sla_gates" in own:
            for i in range(DEPTH):
                for x in "qk":
                    extra[block_name(i, "attn.sla_%s.weight" % x)] = rng.standard_normal((WIDTH // n, n))
        with tempfile.TemporaryDirectory() as folder:
            model = Model(exe, folder, extra, own)
            for name in ("nala", "nala-paper", "pola", "mala", "sla-linear", "focused", "softmax", "foveated"):
                check("%s, %s" % (own, name), model.wrong([name] * DEPTH, "--attention", name))
            check("%s, a hybrid" % own, model.wrong(["nala", "softmax", "pola"], "--attention",
                                                    "nala+softmax@1+pola@2"))
            # options come before the file
            model.shape = {"nala_lambda": 2.5, "pola_alpha": 3, "q_scale": 2, "linear_heads": n}
            options = "--nala-lambda", "2.5", "--pola-alpha", "3", "--q-scale", "2"
            for name in ("nala", "pola"):
                check("options over %s, %s" % (own, name),
                      model.wrong([name] * DEPTH, "--attention", name, *options))
    for turned, prefix, own, biased in ((False, 1, {}, ""), (False, 0, {"linear_heads": 3, "q_scale": 0.5}, "k"),
                                        (True, 1, {}, "qk")):
        with tempfile.TemporaryDirectory() as folder:
            extra = maps(rng, own.get("linear_heads", HEADS), *biased)
            model = Model(exe, folder, extra, own, turned=turned, prefix=prefix)
            for name in "hedgehog", "sla-hedgehog", "linear":
                check("maps, %s, %s" % (own, name), model.wrong([name] * DEPTH, "--attention", name))
            check("maps, a hybrid", model.wrong(["hedgehog", "softmax", "nala"], "--attention",
                                                "hedgehog+softmax@1+nala@2", "--chunk", "1"))
    with tempfile.TemporaryDirectory() as folder:
        model = Model(exe, folder, {}, {}, turned=True)
        p = model.run("--attention", "nala", "--linear-heads", "2")
        check("turned, other heads", None if p.returncode == 2 and "linear_heads" in p.stderr else p.stderr)
        model.shape = dict(USUAL, nala_lambda=5)
        check("turned, another lambda", model.wrong(["nala"] * DEPTH, "--attention", "nala", "--nala-lambda", "5"))
    for what, wrong in refusals(exe):
        check(what, wrong)
    for line in failed:
        print("FAIL " + line)
    print("%d passed, %d failed, 0 skipped" % (total - len(failed), len(failed)))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
