#!/usr/bin/env python3
"""test_pyramid.py: compares MAViT and NaLaFormer with a float64 reference in which nothing is folded.

    test_pyramid.py path/to/fovea

Small checkpoints of many shapes with random weights, BatchNorm statistics and layer scales are written to a
folder, run by the program, and computed here in numpy step by step like the official models: logits and every
feature, with every schedule.
"""
import json
import os
import subprocess
import sys
import tempfile

import numpy as np

from test_linearised import gelu, load, save

TOLERANCE = 2e-5


# ---- checkpoints ----

def checkpoint(rng, config, form="whole"):
    """Tensors in the official names; form "backbone": extra_norms instead of a head, "no classes": no head."""
    nala = config["model_type"] == "nalaformer"
    t = {}

    def put(name, shape, mean=0.0, spread=1.0):
        t[name] = (mean + spread * rng.standard_normal(shape)).astype(np.float32)

    def conv(name, rows, channels, size, flat=False):
        put(name + ".weight", (rows, channels) if flat else (rows, channels, size, size),
            spread=1.4 / (channels * size * size) ** 0.5)
        put(name + ".bias", rows, spread=0.3)

    def norm(name, n, batch=False):
        put(name + ".weight", n, 1, 0.3)
        put(name + ".bias", n, 0, 0.3)
        if batch:
            put(name + ".running_mean", n, 0, 0.3)
            t[name + ".running_var"] = rng.uniform(0.3, 2, n).astype(np.float32)

    dims = config["embed_dims"]
    for i, (rows, channels) in enumerate(((dims[0] // 2, 3), (dims[0] // 2, dims[0] // 2),
                                          (dims[0] // 2, dims[0] // 2), (dims[0], dims[0] // 2))):
        conv("patch_embed.proj.%d" % (3 * i), rows, channels, 3)
        norm("patch_embed.proj.%d" % (3 * i + 1), rows, True)
    for i, c in enumerate(dims):
        hidden, layer = int(config["mlp_ratios"][i] * c), "layers.%d." % i
        d = c // config["num_heads"][i]
        t[layer + "RoPE.angle"] = angles(d).astype(np.float32)
        for j in range(config["depths"][i]):
            b = layer + "blocks.%d." % j
            for name in ("cpe1", "cpe2") if nala else ("pos",):
                conv(b + name, c, 1, 3)
            norm(b + "norm1.norm", c)
            norm(b + "norm2.norm", c)
            conv(b + ("attn.qkvg" if nala else "attn.qkvo"), 4 * c, c, 1, nala)
            conv(b + "attn.lepe", c, 1, 5)
            conv(b + ("attn.out_proj" if nala else "attn.proj"), c, c, 1, nala)
            if nala:
                norm(b + "attn.ln", c)
            conv(b + "ffn.fc1", hidden, c, 1, nala)
            conv(b + "ffn.dwconv", hidden, 1, 3)
            conv(b + "ffn.fc2", c, hidden, 1, nala)
            if config["layerscales"][i]:
                put(b + "gamma_1", (1, c, 1, 1), 0.7, 0.3)
                put(b + "gamma_2", (1, c, 1, 1), 0.7, 0.3)
        if i + 1 < len(dims):
            conv(layer + "downsample.reduction", dims[i + 1], c, 3)
            norm(layer + "downsample.norm", dims[i + 1], True)
        if form == "backbone":
            norm("extra_norms.%d.norm" % i, c)
    if form != "backbone":
        conv("proj", config["projection"], dims[-1], 1, nala)
        norm("norm", config["projection"], True)
    if form == "whole":
        conv("head", config["num_classes"], config["projection"], 1)
    return t


def angles(d):
    n = d // 4
    return np.repeat(10000.0 ** -np.linspace(0, 1, n), 2)


# ---- the reference; pictures are (C, H, W) ----

def conv2d(x, w, b, stride=1):
    """Convolution of 3 x 3 or 5 x 5, over all channels or depthwise; padded with zeros."""
    rows, channels, size, _ = w.shape
    pad = size // 2
    x = np.pad(x, ((0, 0), (pad, pad), (pad, pad)))
    high, wide = ((n - 2 * pad - 1) // stride + 1 for n in x.shape[1:])
    out = np.zeros((rows, high, wide)) + np.asarray(b, np.float64)[:, None, None]
    for y in range(size):
        for z in range(size):
            part = x[:, y:y + (high - 1) * stride + 1:stride, z:z + (wide - 1) * stride + 1:stride]
            tap = np.float64(w[:, :, y, z])
            out += tap[:, :, None] * part if channels == 1 else np.einsum("oc,chw->ohw", tap, part)
    return out


def linear(x, w, b):
    return np.einsum("oc,chw->ohw", np.float64(w).reshape(len(w), -1), x) + b[:, None, None]


def batchnorm(x, t, name):
    p = [np.float64(t[name + s])[:, None, None] for s in (".running_mean", ".running_var", ".weight",
                                                         ".bias")]
    return (x - p[0]) / np.sqrt(p[1] + 1e-5) * p[2] + p[3]


def layernorm(x, t, name, eps=1e-6):
    x = x - x.mean(0)
    x = x / np.sqrt((x * x).mean(0) + eps)
    return x * np.float64(t[name + ".weight"])[:, None, None] + t[name + ".bias"][:, None, None]


def silu(x):
    return x * (0.5 + 0.5 * np.tanh(x / 2))


def rotate(x, high, wide):
    """Rotates (N, d), tokens row by row."""
    d = x.shape[1]
    a = angles(d)
    row, column = np.divmod(np.arange(high * wide), wide)
    angle = np.concatenate((row[:, None] * a, column[:, None] * a), axis=1)
    turned = np.empty_like(x)
    turned[:, 0::2], turned[:, 1::2] = -x[:, 1::2], x[:, 0::2]
    return x * np.cos(angle) + turned * np.sin(angle)


def softmax(q, k, v, high, wide):
    s = rotate(q, high, wide) @ rotate(k, high, wide).T / q.shape[1] ** 0.5
    p = np.exp(s - s.max(1, keepdims=True))
    return p / p.sum(1, keepdims=True) @ v


def mala(q, k, v, high, wide):
    s = q.shape[1] ** -0.5
    q, k = (np.where(x > 0, x + 1, np.exp(np.minimum(x, 0))) for x in (q, k))
    z = s * q @ k.mean(0)[:, None]
    state = s / len(k) * rotate(k, high, wide).T @ v
    return rotate(q, high, wide) @ state * (1 + 1 / (z + 1e-6)) - z * v.mean(0)


def nala(q, k, v, high, wide):
    n = np.sqrt((q * q).sum(1, keepdims=True))
    p = 3 * (0.5 + np.tanh(n))
    q = [(np.maximum(x, 0) / n) ** p for x in (q, -q)]
    k = [np.maximum(x, 0) ** 3 for x in (k, -k)]
    z = sum(a @ b.mean(0)[:, None] for a, b in zip(q, k)) + 1e-6
    o = sum(rotate(a, high, wide) @ (rotate(b, high, wide).T @ v / len(v)) for a, b in zip(q, k))
    return o / z


def attend(x, t, b, config, heads, flag):
    is_nala = config["model_type"] == "nalaformer"
    fused = "attn.qkvg" if is_nala else "attn.qkvo"
    c, high, wide = x.shape
    q, k, v, gate = np.split(linear(x, t[b + fused + ".weight"], t[b + fused + ".bias"]), 4)
    core = softmax if flag == "v" else nala if is_nala else mala
    out = np.concatenate([core(*(y.reshape(heads, c // heads, -1)[h].T for y in (q, k, v)), high,
                               wide).T for h in range(heads)]).reshape(c, high, wide)
    out = out + conv2d(v, t[b + "attn.lepe.weight"], t[b + "attn.lepe.bias"])
    if not is_nala:
        return linear(out * gate, t[b + "attn.proj.weight"], t[b + "attn.proj.bias"])
    out = layernorm(out, t, b + "attn.ln", 1e-5) * silu(gate)
    return linear(out, t[b + "attn.out_proj.weight"], t[b + "attn.out_proj.bias"])


def block(x, t, b, config, heads, flag):
    def residual(x, name):
        return x + conv2d(x, t[b + name + ".weight"], t[b + name + ".bias"])

    def scaled(x, name):
        return x * t[b + name].reshape(-1, 1, 1) if b + name in t else x

    x = residual(x, "cpe1" if b + "cpe1.weight" in t else "pos")
    x = x + scaled(attend(layernorm(x, t, b + "norm1.norm"), t, b, config, heads, flag), "gamma_1")
    if b + "cpe2.weight" in t:
        x = residual(x, "cpe2")
    y = gelu(linear(layernorm(x, t, b + "norm2.norm"), t[b + "ffn.fc1.weight"],
                    t[b + "ffn.fc1.bias"]))
    y = linear(residual(y, "ffn.dwconv"), t[b + "ffn.fc2.weight"], t[b + "ffn.fc2.bias"])
    return x + scaled(y, "gamma_2")


def forward(t, x, config):
    """Every output by name."""
    out, dims = {}, config["embed_dims"]
    x = np.float64(x)
    for i in range(4):
        name = "patch_embed.proj.%d" % (3 * i)
        x = conv2d(x, t[name + ".weight"], t[name + ".bias"], 2 if i in (0, 3) else 1)
        x = batchnorm(x, t, "patch_embed.proj.%d" % (3 * i + 1))
        x = gelu(x) if i < 3 else x
    out["patch_embed"] = x
    for i in range(len(dims)):
        for j in range(config["depths"][i]):
            x = block(x, t, "layers.%d.blocks.%d." % (i, j), config, config["num_heads"][i],
                      config["flagss"][i][j])
        extra = "extra_norms.%d.norm" % i
        out["stage%d" % (i + 1)] = layernorm(x, t, extra) if extra + ".weight" in t else x
        if i + 1 < len(dims):
            down = "layers.%d.downsample." % i
            x = conv2d(x, t[down + "reduction.weight"], t[down + "reduction.bias"], 2)
            x = out["down%d" % (i + 1)] = batchnorm(x, t, down + "norm")
    if "proj.weight" in t:
        x = silu(batchnorm(linear(x, t["proj.weight"], t["proj.bias"]), t, "norm"))
        out["pooled"] = x.mean((1, 2), keepdims=True)
    if "head.weight" in t:
        out["logits"] = t["head.weight"].reshape(len(t["head.weight"]), -1) @ out["pooled"].ravel()
        out["logits"] = out["logits"] + t["head.bias"]
    return out


# ---- the cases ----

# widths, depths, heads, hidden ratios, flags, layer scales, picture (rows, columns)
SHAPES = [
    ((8, 12), (1, 2), (2, 1), (2.5, 3.3), ("l", "vl"), (True, False), (33, 47)),
    ((16, 24, 20), (2, 1, 1), (1, 3, 1), (1, 2, 3), ("lv", "l", "v"), (False, True, True), (61, 30)),
    ((4, 8, 12, 16, 32), (1,) * 5, (1, 2, 1, 4, 8), (4, 1.5, 2, 2, 0.7), "lvlvl", (True,) * 5,
     (70, 129)),
    ((96, 8), (1, 1), (1, 2), (1, 2), "lv", (True, True), (40, 24)),
    ((36,), (2,), (3,), (2,), ("lv",), (True,), (26, 26)),
    ((8, 64), (1, 2), (1, 1), (2, 1), ("v", "lv"), (False, True), (5, 3)),
    ((12, 20), (1, 1), (1, 1), (2, 2), "ll", (True, True), (1, 1)),
    ((16, 20), (1, 1), (1, 1), (1.5, 1), "ll", (True, True), (203, 178)),
    ((24, 88), (1, 1), (2, 1), (1.3, 2.3), "vl", (True, True), (34, 1)),
]


def config_of(family, shape, projection=18, classes=5):
    dims, depths, heads, ratios, flags, scales, _ = shape
    return {"model_type": family, "num_classes": classes, "embed_dims": dims, "depths": depths,
            "num_heads": heads, "mlp_ratios": ratios, "projection": projection,
            "flagss": [list(f) + ["l"] for f in flags], # longer than the stage is deep
            "layerscales": scales, "layer_init_values": 1, "drop_path_rate": 0.1}


def run(exe, folder, tensors, config, pixels, *options):
    save(folder + "/model.safetensors", tensors)
    save(folder + "/in.safetensors", {"input": pixels[None]})
    json.dump(config, open(folder + "/config.json", "w"))
    p = subprocess.run([exe, "run", folder, folder + "/in.safetensors", "--hidden", "--compute", "f32", "-o",
                        folder + "/out.safetensors", *options], capture_output=True, text=True)
    if p.returncode:
        return "exit %d: %s" % (p.returncode, p.stderr.strip())
    return load(folder + "/out.safetensors")


def difference(got, want):
    if isinstance(got, str):
        return got
    for name, value in want.items():
        name = name if name == "logits" else "feat." + name
        if name not in got:
            return name + " is missing"
        if got[name][0].shape != value.shape:
            return "%s has shape %s, not %s" % (name, got[name].shape, value.shape)
        error = abs(got[name][0] - value).max() / abs(value).max()
        if not error <= TOLERANCE:
            return "%s: error %.2e" % (name, error)
    return None


def cases(exe):
    """(case, error)"""
    rng = np.random.default_rng(11)
    schedules = [("streamed", "5"), ("stepwise", "1000"), ("streamed", "64")]
    with tempfile.TemporaryDirectory() as folder:
        for family in ("mavit", "nalaformer"):
            for i, shape in enumerate(SHAPES):
                config = config_of(family, shape)
                form = ("whole", "backbone", "no classes")[i % 3 if i > 2 else 0]
                if form == "no classes":
                    config["num_classes"] = 0
                t = checkpoint(rng, config, form)
                pixels = rng.standard_normal((3,) + shape[-1]).astype(np.float32)
                what = "%s %d, %s" % (family, i, form)
                want = forward(t, pixels, config)
                for schedule, chunk in schedules:
                    got = run(exe, folder, t, config, pixels, "--schedule", schedule, "--chunk",
                              chunk, "--threads", "2")
                    yield "%s, %s" % (what, schedule), difference(got, want)
                flags = config["flagss"]
                for attention, other in (("softmax", [["v"] * len(f) for f in flags]),
                                         (("mala" if family == "mavit" else "nala") + "+softmax@0",
                                          [["v"] + flags[0][1:]] + flags[1:])):
                    got = run(exe, folder, t, config, pixels, "--attention", attention)
                    want = forward(t, pixels, dict(config, flagss=other))
                    yield "%s, %s" % (what, attention), difference(got, want)
            got = run(exe, folder, t, config, pixels, "--attention", "linear:elu1")
            right = isinstance(got, str) and got.startswith("exit 2") and "made for its own" in got
            yield family + ", another attention", None if right else str(got)


def main(argv):
    exe = os.path.abspath(argv[0])
    results = list(cases(exe))
    failed = ["%s: %s" % r for r in results if r[1]]
    for line in failed:
        print("FAIL " + line)
    print("%d passed, %d failed, 0 skipped" % (len(results) - len(failed), len(failed)))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
