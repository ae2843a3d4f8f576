#!/usr/bin/env python3
"""test_polaformer.py: compares Pola-PVT and Pola-Swin of many shapes with a float64 reference.

    test_polaformer.py path/to/fovea [--seed N] [--brief]     brief: without the published models

Checkpoints with random weights are written to a folder, run by the program, and computed here in numpy by the
equations of the official code, and at sizes that it does not support by the rules of pola_swin.c and pola_pvt.c.
The reference itself is compared with the golden vectors if they exist. Both schedules must give the same bits.
Messages about invalid configurations, and about unsupported pictures, attentions and tensors, must name the error.
"""
import glob
import json
import math
import os
import struct
import subprocess
import sys
import tempfile

import numpy as np

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
GOLDEN = os.path.join(os.path.dirname(ROOT), "shared", "golden", "models")
PICTURE = os.path.join(ROOT, "tests", "data", "picture_wide.ppm")
TOLERANCE = 2e-5
TYPES = {"F32": np.float32, "I64": np.int64}


# ---- files ----

def save(path, tensors):
    head, data = {}, []
    at = 0
    for name, values in tensors.items():
        kind = "I64" if np.asarray(values).dtype == np.int64 else "F32"
        raw = np.ascontiguousarray(values, TYPES[kind]).tobytes()
        head[name] = {"dtype": kind, "shape": list(np.shape(values)), "data_offsets": [at, at + len(raw)]}
        data.append(raw)
        at += len(raw)
    text = json.dumps(head).encode()
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + b"".join(data))


def load(path):
    blob = open(path, "rb").read()
    n = struct.unpack("<Q", blob[:8])[0]
    out = {}
    for name, t in json.loads(blob[8:8 + n]).items():
        if name != "__metadata__":
            begin, end = t["data_offsets"]
            out[name] = np.frombuffer(blob[8 + n + begin:8 + n + end], TYPES[t["dtype"]]).reshape(t["shape"])
    return out


# ---- the reference: float64, tokens in rows ----

erf = np.vectorize(math.erf)


def norm(x, t, stem, eps):
    m = x.mean(-1, keepdims=True)
    return (x - m) / np.sqrt(((x - m) ** 2).mean(-1, keepdims=True) + eps) * t[stem + "weight"] + t[stem + "bias"]


def linear(x, t, stem):
    y = x @ t[stem + "weight"].T
    return y + t[stem + "bias"] if stem + "bias" in t else y


def patches(image, t, stem):
    """Convolution of (C, h, w) whose stride equals its kernel; returns rows of tokens, and the grid."""
    weight = t[stem + "weight"]
    k = weight.shape[2]
    c, h, w = image.shape[0], image.shape[1] // k, image.shape[2] // k
    cut = image[:, :h * k, :w * k].reshape(c, h, k, w, k).transpose(1, 3, 0, 2, 4).reshape(h * w, -1)
    return cut @ weight.reshape(len(weight), -1).T + t[stem + "bias"], (h, w)


def picture(rows, grid):
    return rows.T.reshape(-1, *grid)


def mlp(x, t, stem, eps):
    h = linear(norm(x, t, stem + "norm2.", eps), t, stem + "mlp.fc1.")
    return x + linear(h * 0.5 * (1 + erf(h / math.sqrt(2))), t, stem + "mlp.fc2.")


def softmax(scores):
    e = np.exp(scores - scores.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def heads_of(x, heads):
    return x.reshape(len(x), heads, -1).transpose(1, 0, 2)


def rows_of(x):
    return x.transpose(1, 0, 2).reshape(x.shape[1], -1)


def hat(x):
    return max(0.0, 1 - abs(x))


def cubic(x, a=-0.75):
    x = abs(x)
    return (((a + 2) * x - (a + 3)) * x * x + 1 if x <= 1 else
            ((a * x - 5 * a) * x + 8 * a) * x - 4 * a if x < 2 else 0.0)


def resized(table, native, grid, kernel=hat):
    """Resizes rows of a native grid to another grid, align_corners False."""
    def weights(n_in, n_out):
        m = np.zeros((n_out, n_in))
        for o in range(n_out):
            at = (o + 0.5) * n_in / n_out - 0.5
            for i in range(math.floor(at) - 1, math.floor(at) + 3):
                m[o, min(max(i, 0), n_in - 1)] += kernel(at - i)
        return m
    c = table.shape[-1]
    y = np.einsum("ab,bcd->acd", weights(native[0], grid[0]), table.reshape(*native, c))
    return np.einsum("ab,cbd->cad", weights(native[1], grid[1]), y).reshape(-1, c)


def along_tokens(v, n):
    at = np.maximum(0, (np.arange(n) + 0.5) * len(v) / n - 0.5)
    low = at.astype(int)
    part = (at - low)[:, None]
    return v[low] * (1 - part) + v[np.minimum(low + 1, len(v) - 1)] * part


def depthwise(v, grid, weight, bias):
    """Convolves the picture of every head with the filters of one head."""
    d, k = len(weight), weight.shape[-1]
    h, w = grid
    x = picture(v, grid)
    out = np.zeros_like(x)
    wide = np.pad(x, ((0, 0), (k // 2, k // 2), (k // 2, k // 2)))
    for c in range(len(x)):
        for i in range(k):
            for j in range(k):
                out[c] += weight[c % d, 0, i, j] * wide[c, i:i + h, j:j + w]
        out[c] += bias[c % d]
    return out.reshape(len(x), -1).T


def polar(q, k, v, gate, grid, positions, t, stem, heads, alpha):
    """Polarity-aware linear attention, its convolution and its gate."""
    def softplus(x):
        return np.logaddexp(0, x)

    def halves(x, swap=False):
        p, n = np.maximum(x, 0) ** power, np.maximum(-x, 0) ** power
        return np.concatenate([n, p] if swap else [p, n], -1)

    sigma = softplus(t[stem + "scale"].reshape(-1))
    power = 1 + alpha / (1 + np.exp(-t[stem + "power"].reshape(heads, 1, -1)))
    k = k + positions
    qh, kh, vh = heads_of(q / sigma, heads), heads_of(k / sigma, heads), heads_of(v, heads)
    keys, half = halves(kh), vh.shape[-1] // 2
    out = []
    for queries, values in ((halves(qh), vh[..., :half]), (halves(qh, True), vh[..., half:])):
        z = (queries * keys.mean(1, keepdims=True)).sum(-1, keepdims=True) + 1e-6
        out.append(queries @ (keys.transpose(0, 2, 1) @ values / len(k)) / z)
    v = v if len(v) == len(q) else along_tokens(v, len(q))
    local = depthwise(v, grid, t[stem + "dwc.weight"], t[stem + "dwc.bias"])
    return (rows_of(np.concatenate(out, -1)) + local) * gate


def pvt_attention(x, grid, native, t, stem, c, heads, sr):
    small, keys = x, grid
    if sr > 1:
        small, keys = patches(picture(x, grid), t, stem + "sr.")
        small = norm(small, t, stem + "norm.", 1e-5)
    width = x.shape[1]
    k, v = np.split(linear(small, t, stem + "kv."), 2, 1)
    if stem + "qg.weight" in t:
        q, gate = np.split(linear(x, t, stem + "qg."), 2, 1)
        table = t[stem + "positional_encoding"][0]
        positions = table if len(table) == len(k) else resized(table, [n // sr for n in native], keys)
        y = polar(q, k, v, gate, grid, positions, t, stem, heads, c["alpha"])
    else:
        q, k, v = (heads_of(a, heads) for a in (linear(x, t, stem + "q."), k, v))
        y = rows_of(softmax(q @ k.transpose(0, 2, 1) * (width // heads) ** -0.5) @ v)
    return linear(y, t, stem + "proj.")


def pvt(image, t, c):
    size = c["img_size"]
    size = [size, size] if isinstance(size, int) else size
    out = {}
    for i, depth in enumerate(c["depths"]):
        stem = "patch_embed%d." % (i + 1)
        native = [s // c["patch_size"] if i == 0 else s // 2 ** (i + 1) // 2 for s in size]
        x, grid = patches(image, t, stem + "proj.")
        x = out["embed%d" % (i + 1)] = norm(x, t, stem + "norm.", 1e-5)
        table = t["pos_embed%d" % (i + 1)][0]
        x = x + (table if i == 0 and len(table) == len(x) else resized(table, native, grid))
        for j in range(depth):
            stem = "block%d.%d." % (i + 1, j)
            is_linear = stem + "attn.qg.weight" in t
            sr = int(c["la_sr_ratios"][i]) if is_linear else c["sr_ratios"][i]
            normed = norm(x, t, stem + "norm1.", 1e-6)
            x = x + pvt_attention(normed, grid, native, t, stem + "attn.", c, c["num_heads"][i], sr)
            x = mlp(x, t, stem, 1e-6)
        out["stage%d" % (i + 1)] = x
        image = picture(x, grid)
    if "head.weight" in t:
        out["logits"] = linear(x.mean(0), t, "head.")
    return out


def windows(x, grid, w):
    h, wide = grid
    return x.reshape(h // w, w, wide // w, w, -1).transpose(0, 2, 1, 3, 4).reshape(-1, w * w, x.shape[-1])


def unwindows(x, grid, w):
    h, wide = grid
    return x.reshape(h // w, wide // w, w, w, -1).transpose(0, 2, 1, 3, 4).reshape(h, wide, -1)


def regions(grid, w, shift):
    number = np.zeros(grid)
    count = 0
    slices = (slice(0, -w), slice(-w, -shift), slice(-shift, None))
    for a in slices:
        for b in slices:
            number[a, b] = count
            count += 1
    return windows(number[..., None], grid, w)[..., 0]


def swin_window(c, native, is_linear):
    return min(*native, c["window_size"] if is_linear else 7 if c["window_size"] <= 56 else 12)


def padded(m, multiple):
    """Pads (h, w, C) with zeros at the right and bottom."""
    return np.pad(m, ((0, -m.shape[0] % multiple), (0, -m.shape[1] % multiple), (0, 0)))


def swin_attention(x, grid, native, t, stem, c, heads, j):
    is_linear = stem + "qkvg.weight" in t
    w = swin_window(c, native, is_linear)
    if is_linear:
        table = t[stem + "positional_encoding"][0]
    if is_linear and [w, w] == list(native):
        q, k, v, gate = np.split(linear(x, t, stem + "qkvg."), 4, 1)
        y = polar(q, k, v, gate, grid, resized(table, native, grid), t, stem, heads, c["alpha"])
        return linear(y, t, stem + "proj.")
    width = x.shape[1]
    shift = w // 2 if j % 2 and min(grid) > w else 0
    whole = padded(x.reshape(*grid, width), w)
    size = whole.shape[:2]
    rolled = np.roll(whole, (-shift, -shift), (0, 1))
    out = []
    if not is_linear:
        at = np.stack(np.meshgrid(np.arange(w), np.arange(w), indexing="ij")).reshape(2, -1)
        offset = at[:, :, None] - at[:, None, :] + w - 1
        bias = t[stem + "relative_position_bias_table"][offset[0] * (2 * w - 1) + offset[1]]
        bias = bias.transpose(2, 0, 1)
        number = regions(size, w, shift) if shift else np.zeros((size[0] * size[1] // (w * w), w * w))
    for i, rows in enumerate(windows(rolled, size, w)):
        if is_linear:
            q, k, v, gate = np.split(linear(rows, t, stem + "qkvg."), 4, 1)
            y = polar(q, k, v, gate, (w, w), table, t, stem, heads, c["alpha"])
        else:
            q, k, v = (heads_of(a, heads) for a in np.split(linear(rows, t, stem + "qkv."), 3, 1))
            offset = np.where(number[i][:, None] != number[i][None], -100.0, 0.0)
            scores = q @ k.transpose(0, 2, 1) * (width // heads) ** -0.5 + bias + offset
            y = rows_of(softmax(scores) @ v)
        out.append(linear(y, t, stem + "proj."))
    back = np.roll(unwindows(np.stack(out), size, w), (shift, shift), (0, 1))
    return back[:grid[0], :grid[1]].reshape(-1, width)


def swin(image, t, c):
    out = {}
    size = c["img_size"]
    native = [s // c["patch_size"] for s in ([size, size] if isinstance(size, int) else size)]
    x, grid = patches(image, t, "patch_embed.proj.")
    if c["patch_norm"]:
        x = norm(x, t, "patch_embed.norm.", 1e-5)
    out["patch_embed"] = x
    if c["ape"]:
        x = x + resized(t["absolute_pos_embed"][0], native, grid, cubic)
    for i, depth in enumerate(c["depths"]):
        for j in range(depth):
            stem = "layers.%d.blocks.%d." % (i, j)
            normed = norm(x, t, stem + "norm1.", 1e-5)
            x = x + swin_attention(normed, grid, native, t, stem + "attn.", c, c["num_heads"][i], j)
            x = mlp(x, t, stem, 1e-5)
        out["stage%d" % (i + 1)] = x
        if i + 1 < len(c["depths"]):
            m = padded(x.reshape(*grid, -1), 2)
            fours = [m[0::2, 0::2], m[1::2, 0::2], m[0::2, 1::2], m[1::2, 1::2]]
            grid, native = (m.shape[0] // 2, m.shape[1] // 2), [n // 2 for n in native]
            x = np.concatenate(fours, -1).reshape(grid[0] * grid[1], -1)
            x = linear(norm(x, t, "layers.%d.downsample.norm." % i, 1e-5), t, "layers.%d.downsample.reduction." % i)
            out["down%d" % (i + 1)] = x
    out["norm"] = norm(x, t, "norm.", 1e-5)
    if "head.weight" in t:
        out["logits"] = linear(out["norm"].mean(0), t, "head.")
    return out


MODELS = {"pola_pvt": pvt, "pola_swin": swin}


def define(config, tensors, image):
    t = {n: v.astype(np.float64) for n, v in tensors.items()}
    return MODELS[config["model_type"]](image.astype(np.float64), t, config)


# ---- checkpoints ----

class Maker:
    def __init__(self, rng):
        self.rng, self.t = rng, {}

    def put(self, name, shape, spread, mean=0.0):
        self.t[name] = (mean + spread * self.rng.standard_normal(shape)).astype(np.float32)

    def linear(self, stem, shape, bias=True):
        self.put(stem + "weight", shape, 1.2 / np.prod(shape[1:]) ** 0.5)
        if bias:
            self.put(stem + "bias", shape[:1], 0.2)

    def norm(self, stem, n):
        self.put(stem + "weight", (n,), 0.2, 1)
        self.put(stem + "bias", (n,), 0.2)

    def learned(self, stem, c, width, heads, keys):
        d, k = width // heads, c["kernel_size"]
        self.put(stem + "power", (1, heads, 1, d), 0.5)
        self.put(stem + "scale", (1, 1, width), 0.5)
        self.put(stem + "positional_encoding", (1, keys, width), 0.3)
        self.linear(stem + "dwc.", (d, 1, k, k))

    def around(self, stem, width, ratio):
        self.norm(stem + "norm1.", width)
        self.norm(stem + "norm2.", width)
        self.linear(stem + "attn.proj.", (width, width))
        self.linear(stem + "mlp.fc1.", (int(width * ratio), width))
        self.linear(stem + "mlp.fc2.", (width, int(width * ratio)))

    def head(self, c, width):
        self.norm("norm.", width)
        if c["num_classes"]:
            self.linear("head.", (c["num_classes"], width))


def kind(c, i, j):
    letters = c["attn_type"][:len(c["depths"])]
    return letters[i] == "L" or (letters[i] == "M" and j < int(c["attn_type"][len(letters):]))


def make_pvt(rng, c):
    m, size, before = Maker(rng), c["img_size"], 3
    size = [size, size] if isinstance(size, int) else size
    for i, width in enumerate(c["embed_dims"]):
        native = [s // c["patch_size"] if i == 0 else s // 2 ** (i + 1) // 2 for s in size]
        tokens = native[0] * native[1]
        k = 2 if i else c["patch_size"]
        m.linear("patch_embed%d.proj." % (i + 1), (width, before, k, k))
        m.norm("patch_embed%d.norm." % (i + 1), width)
        m.put("pos_embed%d" % (i + 1), (1, tokens, width), 0.3)
        for j in range(c["depths"][i]):
            stem, is_linear = "block%d.%d." % (i + 1, j), kind(c, i, j)
            sr = int(c["la_sr_ratios"][i]) if is_linear else c["sr_ratios"][i]
            attn = stem + "attn."
            m.linear(attn + ("qg." if is_linear else "q."), ((2 if is_linear else 1) * width, width), c["qkv_bias"])
            m.linear(attn + "kv.", (2 * width, width), c["qkv_bias"])
            if is_linear:
                m.learned(attn, c, width, c["num_heads"][i], tokens // sr ** 2)
            if sr > 1:
                m.linear(attn + "sr.", (width, width, sr, sr))
                m.norm(attn + "norm.", width)
            m.around(stem, width, c["mlp_ratios"][i])
        before = width
    m.head(c, before)
    return m.t


def make_swin(rng, c):
    m, size = Maker(rng), c["img_size"]
    size = [size, size] if isinstance(size, int) else size
    grid = [s // c["patch_size"] for s in size]
    width = c["embed_dim"]
    m.linear("patch_embed.proj.", (width, 3, c["patch_size"], c["patch_size"]))
    if c["patch_norm"]:
        m.norm("patch_embed.norm.", width)
    if c["ape"]:
        m.put("absolute_pos_embed", (1, grid[0] * grid[1], width), 0.3)
    for i, depth in enumerate(c["depths"]):
        for j in range(depth):
            stem, is_linear = "layers.%d.blocks.%d." % (i, j), kind(c, i, j)
            w = swin_window(c, grid, is_linear)
            attn = stem + "attn."
            m.linear(attn + ("qkvg." if is_linear else "qkv."), ((4 if is_linear else 3) * width, width), c["qkv_bias"])
            if is_linear:
                m.learned(attn, c, width, c["num_heads"][i], w * w)
            else:
                m.put(attn + "relative_position_bias_table", ((2 * w - 1) ** 2, c["num_heads"][i]), 0.5)
                m.t[attn + "relative_position_index"] = np.zeros((w * w, w * w), np.int64)
            if j % 2 and min(grid) > w and not (grid[0] % w or grid[1] % w):
                m.put(stem + "attn_mask", (grid[0] * grid[1] // w ** 2, w * w, w * w), 1)
            m.around(stem, width, c["mlp_ratio"])
        if i + 1 < len(c["depths"]):
            m.norm("layers.%d.downsample.norm." % i, 4 * width)
            m.linear("layers.%d.downsample.reduction." % i, (2 * width, 4 * width), False)
            width, grid = 2 * width, [g // 2 for g in grid]
    m.head(c, width)
    return m.t


def pvt_config(**changes):
    c = {"model_type": "pola_pvt", "img_size": 32, "patch_size": 4, "num_classes": 5, "embed_dims": [8, 12],
         "num_heads": [1, 2], "mlp_ratios": [4, 2], "qkv_bias": True, "depths": [1, 1], "sr_ratios": [2, 1],
         "la_sr_ratios": "21", "alpha": 4, "kernel_size": 5, "attn_type": "LL"}
    c.update(changes)
    return c


def swin_config(**changes):
    c = {"model_type": "pola_swin", "img_size": 32, "patch_size": 4, "num_classes": 5, "embed_dim": 8,
         "depths": [1, 1], "num_heads": [1, 2], "window_size": 56, "mlp_ratio": 2.5, "qkv_bias": True, "ape": False,
         "patch_norm": True, "alpha": 4, "kernel_size": 5, "attn_type": "LS"}
    c.update(changes)
    return c


# A configuration, and the picture's size if it is not the native one.
CASES = [
    (pvt_config(), None),
    (pvt_config(), (32, 36)),  # another number of tokens, which is reduced to the same number of keys
    (pvt_config(img_size=64, la_sr_ratios="84", kernel_size=3, alpha=3), (32, 128)),
    (pvt_config(img_size=48, la_sr_ratios="31", depths=[2, 3], kernel_size=7), (24, 96)),
    (pvt_config(img_size=56, la_sr_ratios="77", qkv_bias=False, num_heads=[4, 3]), None),
    (pvt_config(img_size=40, la_sr_ratios="51", attn_type="MM2", depths=[4, 3], sr_ratios=[3, 2]), None),
    (pvt_config(img_size=[24, 40], la_sr_ratios="21", num_classes=0), None),
    (pvt_config(img_size=48, la_sr_ratios="6", depths=[2], embed_dims=[20], num_heads=[5], mlp_ratios=[2.3],
                sr_ratios=[1], attn_type="L", kernel_size=1), None),
    (pvt_config(attn_type="SS", depths=[2, 2], sr_ratios=[3, 1], num_heads=[2, 4]), (37, 61)),
    (pvt_config(img_size=64, depths=[1, 2, 1, 1], embed_dims=[8, 16, 24, 32], num_heads=[1, 1, 2, 4],
                mlp_ratios=[1, 2, 3, 4], sr_ratios=[8, 4, 2, 1], la_sr_ratios="2111", attn_type="LSLS"), None),
    (swin_config(), None),
    (swin_config(img_size=56, window_size=7, depths=[4, 3], attn_type="LS", ape=True), None),
    (swin_config(img_size=60, window_size=5, depths=[3], num_heads=[2], attn_type="L", kernel_size=3), None),
    (swin_config(img_size=[24, 72], window_size=6, depths=[2, 2], attn_type="LL", patch_norm=False), None),
    (swin_config(img_size=[112, 56], window_size=21, depths=[2, 2], attn_type="SL", qkv_bias=False), None),
    (swin_config(img_size=[64, 16], window_size=2, depths=[4, 1], attn_type="MS2", num_classes=0), None),
    (swin_config(img_size=96, window_size=57, depths=[2, 3], attn_type="SS", embed_dim=12, num_heads=[2, 4]), None),
    (swin_config(img_size=112, window_size=14, depths=[2, 3, 1], num_heads=[1, 2, 2], attn_type="LMS1",
                 kernel_size=7, alpha=2.5), None),
    (swin_config(img_size=96, patch_size=2, window_size=24, depths=[2, 2], attn_type="LL"), None),
    (swin_config(img_size=[28, 56], patch_size=4, window_size=7, depths=[2], num_heads=[1], attn_type="S"), None),
    # Sizes that the official code does not take.
    (pvt_config(), (75, 106)),
    (pvt_config(la_sr_ratios="11"), (64, 64)),  # twice the training's
    (pvt_config(img_size=48, la_sr_ratios="31", depths=[2, 3], kernel_size=7), (28, 20)),
    (pvt_config(img_size=[24, 40], num_classes=0), (64, 48)),
    (pvt_config(img_size=64, depths=[1, 2, 1, 1], embed_dims=[8, 16, 24, 32], num_heads=[1, 1, 2, 4],
                mlp_ratios=[1, 2, 3, 4], sr_ratios=[8, 4, 2, 1], la_sr_ratios="4121", attn_type="LSLL"), (133, 97)),
    (swin_config(depths=[2, 2]), (64, 96)),
    (swin_config(depths=[2, 3], ape=True), (75, 106)),
    (swin_config(depths=[2, 3]), (13, 9)),
    (swin_config(), (4, 4)),
    (swin_config(img_size=56, window_size=7, depths=[4, 3], attn_type="LS", ape=True), (75, 106)),
    (swin_config(img_size=56, window_size=7, depths=[2, 2], attn_type="LS", ape=True), (24, 40)),
    (swin_config(img_size=60, window_size=5, depths=[3], num_heads=[2], attn_type="L", kernel_size=3), (56, 88)),
    (swin_config(img_size=[24, 72], window_size=6, depths=[2, 2], attn_type="LL", patch_norm=False), (72, 24)),
    (swin_config(img_size=[64, 16], window_size=2, depths=[4, 1], attn_type="MS2", num_classes=0), (41, 55)),
    (swin_config(img_size=96, window_size=57, depths=[2, 3], attn_type="SS", embed_dim=12, num_heads=[2, 4]),
     (140, 101)),
    (swin_config(img_size=112, window_size=14, depths=[2, 3, 1], num_heads=[1, 2, 2], attn_type="LMS1"), (90, 131)),
    (swin_config(img_size=56, window_size=7, depths=[1, 2], attn_type="SS"), (56, 112)),  # a side of one window
    (swin_config(img_size=[40, 64], window_size=7, depths=[2, 2], attn_type="LS"), None),  # no whole windows
]

# Published models: schedules must agree at these sizes, width by height.
SIZES = ("224x224", "256x320", "106x75", "384x512")


def error(got, want):
    if got.shape != want.shape or not np.isfinite(got).all():
        return math.inf
    return float(abs(got - want).max() / (abs(want).max() or 1))


class Tests:
    def __init__(self, exe, folder, seed):
        self.exe, self.folder = exe, folder
        self.rng = np.random.default_rng(seed)
        self.passed = self.failed = 0

    def note(self, what, bad):
        if bad:
            self.failed += 1
            print("FAIL %s: %s" % (what, bad), flush=True)
        else:
            self.passed += 1

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, config, tensors):
        with open(self.path("config.json"), "w") as f:
            json.dump(config, f)
        if tensors is not None:
            save(self.path("model.safetensors"), tensors)

    def run(self, *options, inputs=None):
        inputs = inputs or (self.folder, self.path("io.safetensors"))
        p = subprocess.run([self.exe, "run", *inputs, "--device", "cpu", "--compute", "f32", "-o",
                            self.path("out.safetensors"), *options], capture_output=True, text=True, errors="replace")
        return p.returncode, p.stderr.strip()

    def picture(self, h, w):
        image = self.rng.standard_normal((1, 3, h, w)).astype(np.float32)
        save(self.path("io.safetensors"), {"input": image})
        return image[0]

    def compare(self, what, want, *options):
        code, message = self.run("--hidden", *options)
        if code:
            self.note(what, "exit %d: %s" % (code, message))
            return {}
        got = load(self.path("out.safetensors"))
        bad = []
        for name, values in want.items():
            key = name if name == "logits" else "feat." + name
            e = error(got[key].reshape(values.shape), values) if key in got else math.inf
            if not e <= TOLERANCE:
                bad.append("%s is off by %.1e" % (key, e))
        self.note(what, "; ".join(bad))
        return got

    def case(self, number, config, size):
        make = make_pvt if config["model_type"] == "pola_pvt" else make_swin
        tensors = make(self.rng, config)
        native = config["img_size"]
        native = (native, native) if isinstance(native, int) else native
        image = self.picture(*(size or native))
        self.write(config, tensors)
        want = define(config, tensors, image)
        what = "case %d %s" % (number, config["model_type"])
        streamed, stepwise, _ = (self.compare(what + ", " + " ".join(options), want, *options) for options in (
            ["--schedule", "streamed", "--threads", "2"], ["--schedule", "stepwise", "--threads", "3"],
            ["--schedule", "streamed", "--threads", "1", "--chunk", "16", "--isa", "scalar"]))
        self.same(what, streamed, stepwise)

    def same(self, what, one, other):
        """Bit for bit."""
        differ = [n for n in sorted(one.keys() | other.keys())
                  if n not in one or n not in other or one[n].tobytes() != other[n].tobytes()]
        self.note(what + " by schedules", ", ".join(differ) or None if one else "no outputs")

    def published(self):
        """Runs the published models. Each schedule has its own workers and memory."""
        for name in ("pola-swin-t", "pola-pvt-t"):
            for size in SIZES:
                what, outs = "%s at %s" % (name, size), []
                for options in (("streamed", "--threads", "2", "--memory-limit", "48"), ("stepwise", "--threads", "1")):
                    code, message = self.run("--hidden", "--size", size, "--schedule", *options,
                                             inputs=("synthetic:" + name, PICTURE))
                    self.note(what, message if code else None)
                    outs.append({} if code else load(self.path("out.safetensors")))
                self.same(what, *outs)

    def golden(self):
        """The reference above equals the official code."""
        for path in sorted(glob.glob(GOLDEN + "/pola-*")):
            config = json.load(open(path + "/config.json"))
            io = load(path + "/io.safetensors")
            want = define(config, load(path + "/model.safetensors"), io["input"][0])
            bad = [n for n, v in want.items()
                   if not error(io[n if n == "logits" else "feat." + n][0].astype(np.float64), v) <= 1e-6]
            self.note("definition of " + os.path.basename(path), ", ".join(bad))

    # ---- refusals ----

    def refuse(self, what, config, tensors, says, *options):
        self.write(config, tensors)
        code, message = self.run(*options)
        if code not in (2, 7) or says not in message or "\n" in message:
            self.note("refusal of " + what, "exit %d: %s" % (code, message))
        else:
            self.note(what, None)

    def refusals(self):
        huge = 2 ** 31
        for config, make in ((pvt_config(), make_pvt), (swin_config(), make_swin)):
            good = make(self.rng, config)
            width = "embed_dims" if make == make_pvt else "embed_dim"
            ratio = "mlp_ratios" if make == make_pvt else "mlp_ratio"
            wrong = {
                "depths": [[-1, 1], [0, 0], [0, 1], [huge, 1], [], [1] * 1000000, [1.5, 1], ["1", 1], 3, None, {"0": 1}, [1, 2], [17, 1]],
                "num_heads": [[3, 2], [0, 1], [-1, 2], [huge, 1], [1], [1, 2, 3], "12", None, [8, 2]],
                width: [huge, -8, 0, "8", [], {}] if make == make_swin else
                       [[huge, 12], [-8, 12], [0, 0], [8], [8, 12, 16], "8", 8, None],
                ratio: ["4", [], [4], 0, -1, 1e300, {}, True, [4, "2"]],
                "img_size": [0, -4, huge, "32", [32], [32, 32, 32], 3, [32, 2], 65536, 34 * 4, 64],
                "patch_size": [0, -1, huge, "4", [4, 5], 8192, 33, 1],
                "kernel_size": [4, 0, -3, huge, "5", 3, 33],
                "alpha": ["4", -1, 1e9, []],
                "attn_type": ["L", "LLL", "SL", "LX", "M", "LM", "SS", "LM12345", 5, ["L", "L"], "LL1x"],
                "num_classes": [6, -1, huge, "5"],
                "qkv_bias": [2, "true", False],
                "in_chans": [1, 4, huge, "3"],
            }
            if make == make_pvt:
                wrong.update({"la_sr_ratios": ["2", "201", "2x", "20", 21, [2, 1], "99", "11"],
                              "sr_ratios": [[1], [0, 1], [huge, 1], "21", [-1, 1]]})
            else:
                wrong.update({"window_size": [0, -1, huge, "7", 5, [7]], "ape": [1, True], "patch_norm": [0, False]})
            for key, values in wrong.items():
                for value in values:
                    # Errors that no field reveals are found by a tensor with another shape.
                    says = '"' if key not in ("img_size", "in_chans") else ""
                    shown = json.dumps(value)
                    self.refuse("%s %s = %.40s" % (config["model_type"], key, shown), dict(config, **{key: value}),
                                good, says)
            for key in ("depths", "num_heads"):
                self.refuse("no " + key, {k: v for k, v in config.items() if k != key}, good, '"%s"' % key)
            self.tensors(config, good)

    def tensors(self, config, good):
        for name in sorted(good):
            if good[name].dtype == np.int64:
                continue
            less = {k: v for k, v in good.items() if k != name}
            if not name.startswith(("head.", "norm.")) or config["model_type"] == "pola_swin" and "norm" in name:
                self.refuse("a checkpoint without " + name, config, less, '"')
            self.refuse("another shape of " + name, config, dict(good, **{name: np.zeros((7, 3, 2, 5), np.float32)}), '"')
        for name in ("extra.weight", "norm3.bias", "layers.0.blocks.0.attn.extra", "block1.0.attn.extra",
                     "layers.7.blocks.0.norm1.weight", "block1.9.norm1.weight"):
            self.refuse("a stranger, " + name, config, dict(good, **{name: np.zeros(3, np.float32)}), '"%s"' % name)

    def sizes(self):
        for config, h, w, says in ((pvt_config(), 4, 256, "cannot be reduced"), (pvt_config(), 2, 64, "picture of 64 x 2"),
                                   (pvt_config(), 8, 128, None),
                                   (pvt_config(img_size=36), 36, 36, "20, which are not a grid of 9 x 9"),
                                   (pvt_config(img_size=36), 40, 32, None),
                                   (swin_config(), 3, 3, "smaller")):
            make = make_pvt if config["model_type"] == "pola_pvt" else make_swin
            self.write(config, make(self.rng, config))
            self.picture(h, w)
            code, message = self.run()
            good = code in (2, 7) and says in message if says else code == 0
            self.note("%s at %d x %d" % (config["model_type"], w, h), None if good else "exit %d: %s" % (code, message))
        self.picture(32, 32)
        for name in ("softmax", "linear:elu1", "mala", "sla-pola", "nala"):
            code, message = self.run("--attention", name)
            self.note("attention " + name, None if code == 2 and "pola" in message else "exit %d: %s" % (code, message))
        code, message = self.run("--attention", "pola")
        self.note("attention pola", message if code else None)


def main(argv):
    seed = int(argv[argv.index("--seed") + 1]) if "--seed" in argv else 7
    with tempfile.TemporaryDirectory() as folder:
        t = Tests(os.path.abspath(argv[0]), folder, seed)
        t.golden()
        for number, (config, size) in enumerate(CASES):
            t.case(number, config, size)
        if "--brief" not in argv:
            t.published()
        t.refusals()
        t.sizes()
    print("%d passed, %d failed" % (t.passed, t.failed))
    return 1 if t.failed else 0


if __name__ == "__main__":
    if len(sys.argv) < 2:
        raise SystemExit(__doc__)
    sys.exit(main(sys.argv[1:]))
