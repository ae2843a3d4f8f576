#!/usr/bin/env python3
"""test_eomt.py: compares EoMT with DINOv2 and DINOv3 backbones with its equations in double precision.

    test_eomt.py path/to/fovea [FOLDER]

Small models with random weights: masks and classes with every number of upscalings, with and without masked
attention, at other sizes; names in messages of refused models; attentions of the blocks. With FOLDER, writes a model
and its results there as a golden case.
"""
import json
import math
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

import numpy as np

from test_segmentation import read_png

WIDTH, HEADS, DEPTH, HIDDEN, PATCH, QUERIES, CLASSES = 24, 2, 3, 48, 8, 5, 3
GRID = (6, 4)  # rows, columns
FOLDER = os.path.abspath(sys.argv.pop(2)) if len(sys.argv) > 2 else None
FOVEA = os.path.abspath(sys.argv.pop(1)) if len(sys.argv) > 1 else "fovea"


# ---- files ----

def save(path, tensors, metadata=None):
    head, data = {"__metadata__": metadata} if metadata else {}, b""
    for name, t in tensors.items():
        raw = np.ascontiguousarray(t, "<f4").tobytes()
        head[name] = {"dtype": "F32", "shape": list(t.shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(head).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + data)


def load(path):
    with open(path, "rb") as f:
        blob = f.read()
    n = struct.unpack("<Q", blob[:8])[0]
    head = json.loads(blob[8:8 + n])
    head.pop("__metadata__", None)
    return {name: np.frombuffer(blob[8 + n + t["data_offsets"][0]:8 + n + t["data_offsets"][1]],
                                "<f4" if t["dtype"] == "F32" else "<i8").reshape(t["shape"])
            for name, t in head.items()}


# ---- a model ----

def make_config(dinov3, **fields):
    config = {"model_type": "eomt_dinov3" if dinov3 else "eomt", "hidden_size": WIDTH, "num_hidden_layers": DEPTH,
              "num_attention_heads": HEADS, "image_size": [GRID[0] * PATCH, GRID[1] * PATCH], "patch_size": PATCH,
              "num_register_tokens": 2, "num_queries": QUERIES, "num_blocks": 2, "num_upscale_blocks": 2,
              "hidden_act": "gelu"}
    if dinov3:
        config.update(intermediate_size=HIDDEN, rope_parameters={"rope_type": "default", "rope_theta": 50.0})
    config.update(fields)
    return config


def make_weights(config, seed):
    r = np.random.default_rng(seed)
    w = {}

    def matrix(name, *shape):
        w[name] = r.normal(0, 1 / math.sqrt(np.prod(shape[1:])), shape)

    def linear(name, rows, cols, bias=True):
        matrix(name + ".weight", rows, cols)
        if bias:
            w[name + ".bias"] = r.normal(0, .1, rows)

    def norm(name):
        w[name + ".weight"], w[name + ".bias"] = r.normal(1, .1, WIDTH), r.normal(0, .1, WIDTH)

    dinov3 = config["model_type"] == "eomt_dinov3"
    patch = "embeddings.patch_embeddings" + ("" if dinov3 else ".projection")
    matrix(patch + ".weight", WIDTH, 3, PATCH, PATCH)
    w[patch + ".bias"] = r.normal(0, .1, WIDTH)
    w["embeddings.cls_token"] = r.normal(0, 1, (1, 1, WIDTH))
    w["embeddings.register_tokens"] = r.normal(0, 1, (1, config["num_register_tokens"], WIDTH))
    if not dinov3:
        w["embeddings.position_embeddings.weight"] = r.normal(0, 1, (GRID[0] * GRID[1], WIDTH))
    for i in range(DEPTH):
        p = "layers.%d." % i
        norm(p + "norm1")
        norm(p + "norm2")
        for x in "qkv":
            linear(p + "attention.%s_proj" % x, WIDTH, WIDTH, not dinov3 or x != "k")
        linear(p + "attention." + ("o_proj" if dinov3 else "out_proj"), WIDTH, WIDTH)
        linear(p + "mlp." + ("up_proj" if dinov3 else "fc1"), HIDDEN, WIDTH)
        linear(p + "mlp." + ("down_proj" if dinov3 else "fc2"), WIDTH, HIDDEN)
        for k in "12":
            w[p + "layer_scale%s.lambda1" % k] = r.normal(.5, .1, WIDTH)
    norm("layernorm")
    w["query.weight"] = r.normal(0, 1, (config["num_queries"], WIDTH))
    linear("class_predictor", CLASSES + 1, WIDTH)
    for k in "123":
        linear("mask_head.fc" + k, WIDTH, WIDTH)
    for i in range(config["num_upscale_blocks"]):
        p = "upscale_block.block.%d." % i
        w[p + "conv1.weight"] = r.normal(0, 1 / math.sqrt(WIDTH), (WIDTH, WIDTH, 2, 2))
        w[p + "conv1.bias"] = r.normal(0, .1, WIDTH)
        matrix(p + "conv2.weight", WIDTH, 1, 3, 3)
        norm(p + "layernorm2d")
    w["criterion.empty_weight"] = np.ones(CLASSES + 1)
    return {name: t.astype(np.float32).astype(np.float64) for name, t in w.items()}


# ---- its equations ----

def gelu(x):
    return x * .5 * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))


class Model:
    def __init__(self, config, weights):
        self.c, self.w = config, weights
        self.dinov3 = config["model_type"] == "eomt_dinov3"

    def linear(self, name, x):
        return x @ self.w[name + ".weight"].T + self.w.get(name + ".bias", 0)

    def norm(self, name, x):
        x = x - x.mean(-1, keepdims=True)
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-6) * self.w[name + ".weight"] + self.w[name + ".bias"]

    def rotate(self, x):
        """Rotates one head's patches by their positions; the prefix stays unchanged."""
        rows, cols = self.grid
        if not self.dinov3:
            return x
        d = x.shape[1]
        period = self.c["rope_parameters"]["rope_theta"] ** (np.arange(d // 4) * 4 / d)
        y, c = np.meshgrid((np.arange(rows) + .5) / rows * 2 - 1, (np.arange(cols) + .5) / cols * 2 - 1, indexing="ij")
        angle = 2 * math.pi * np.concatenate([y.reshape(-1, 1) / period, c.reshape(-1, 1) / period], 1)
        angle = np.concatenate([angle, angle], 1)
        before = len(x) - rows * cols
        turned = np.concatenate([-x[before:, d // 2:], x[before:, :d // 2]], 1)
        return np.concatenate([x[:before], x[before:] * np.cos(angle) + turned * np.sin(angle)])

    def attend(self, p, x, added):
        q, k, v = (self.linear(p + "attention.%s_proj" % n, x) for n in "qkv")
        d, out = WIDTH // HEADS, []
        for h in range(HEADS):
            at = slice(h * d, h * d + d)
            s = self.rotate(q[:, at]) @ self.rotate(k[:, at]).T / math.sqrt(d) + added
            s = np.exp(s - s.max(1, keepdims=True))
            out.append(s / s.sum(1, keepdims=True) @ v[:, at])
        return self.linear(p + "attention." + ("o_proj" if self.dinov3 else "out_proj"), np.concatenate(out, 1))

    def block(self, i, x, added):
        p = "layers.%d." % i
        first, second = ("up_proj", "down_proj") if self.dinov3 else ("fc1", "fc2")
        x = x + self.w[p + "layer_scale1.lambda1"] * self.attend(p, self.norm(p + "norm1", x), added)
        h = gelu(self.linear(p + "mlp." + first, self.norm(p + "norm2", x)))
        return x + self.w[p + "layer_scale2.lambda1"] * self.linear(p + "mlp." + second, h)

    def upscale(self, x):
        """Doubles the rows and columns of (rows, columns, C) several times."""
        for i in range(self.c["num_upscale_blocks"]):
            p = "upscale_block.block.%d." % i
            rows, cols, _ = x.shape
            y = np.zeros((2 * rows, 2 * cols, WIDTH))
            for dy in range(2):
                for dx in range(2):
                    y[dy::2, dx::2] = x @ self.w[p + "conv1.weight"][:, :, dy, dx]
            y = np.pad(gelu(y + self.w[p + "conv1.bias"]), ((1, 1), (1, 1), (0, 0)))
            x = sum(y[dy:dy + 2 * rows, dx:dx + 2 * cols] * self.w[p + "conv2.weight"][:, 0, dy, dx]
                    for dy in range(3) for dx in range(3))
            x = self.norm(p + "layernorm2d", x)
        return x

    def predict(self, x):
        """Computes masks (queries, rows, columns) and classes from normalised tokens."""
        n, before = self.c["num_queries"], len(x) - self.grid[0] * self.grid[1]
        q = x[:n]
        for k in "123":
            q = self.linear("mask_head.fc" + k, q)
            q = q if k == "3" else gelu(q)
        pixels = self.upscale(x[before:].reshape(*self.grid, WIDTH))
        return np.einsum("qc,yxc->qyx", q, pixels), self.linear("class_predictor", x[:n])

    def masked(self, x, masks):
        """The mask that is added to scores: masks resized to the grid by torch's bilinear interpolation."""
        side = 2 ** self.c["num_upscale_blocks"]
        if side > 1:
            a, b = side // 2 - 1, side // 2
            masks = (masks[:, a::side] + masks[:, b::side]) / 2
            masks = (masks[:, :, a::side] + masks[:, :, b::side]) / 2
        added = np.zeros((len(x), len(x)))
        added[:len(masks), len(x) - self.grid[0] * self.grid[1]:] = np.where(
            masks.reshape(len(masks), -1) > 0, 0, -np.inf)
        return added

    def run(self, picture):
        """The masks and classes of a picture (3, H, W)."""
        self.grid = picture.shape[1] // PATCH, picture.shape[2] // PATCH
        patches = picture[:, :self.grid[0] * PATCH, :self.grid[1] * PATCH]
        patches = patches.reshape(3, self.grid[0], PATCH, self.grid[1], PATCH).transpose(1, 3, 0, 2, 4)
        name = "embeddings.patch_embeddings" + ("" if self.dinov3 else ".projection")
        x = patches.reshape(-1, 3 * PATCH * PATCH) @ self.w[name + ".weight"].reshape(WIDTH, -1).T
        x = x + self.w[name + ".bias"] + self.w.get("embeddings.position_embeddings.weight", 0)
        x = np.concatenate([self.w["embeddings.cls_token"][0], self.w["embeddings.register_tokens"][0], x])
        first, added = DEPTH - self.c["num_blocks"], 0
        probs = self.w.get("attn_mask_probs", np.zeros(self.c["num_blocks"]))
        for i in range(DEPTH):
            if i == first:
                x = np.concatenate([self.w["query.weight"], x])
            if i >= first and probs[i - first]:
                added = self.masked(x, self.predict(self.norm("layernorm", x))[0])
            x = self.block(i, x, added)
        return self.predict(self.norm("layernorm", x))


def stretch(x, axis, n):
    """Resizes as torch's bilinear interpolation does, with align_corners False."""
    size = x.shape[axis]
    at = np.maximum((np.arange(n) + .5) * size / n - .5, 0)
    low = at.astype(int)
    part = (at - low).reshape([-1 if i == axis else 1 for i in range(x.ndim)])
    return x.take(low, axis) * (1 - part) + x.take(np.minimum(low + 1, size - 1), axis) * part


def semantic(masks, classes, size):
    """The class of every pixel by transformers' post-processing."""
    masks = stretch(stretch(masks, 1, size[0]), 2, size[1])
    shares = np.exp(classes - classes.max(1, keepdims=True))
    shares = (shares / shares.sum(1, keepdims=True))[:, :-1]
    return np.einsum("qc,qyx->cyx", shares, 1 / (1 + np.exp(-masks))).argmax(0)


class Eomt(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)
        self.model = os.path.join(self.folder, "model")
        os.makedirs(self.model)

    def write(self, config, weights):
        with open(os.path.join(self.model, "config.json"), "w", encoding="utf-8") as f:
            json.dump(config, f)
        save(os.path.join(self.model, "model.safetensors"), weights)

    def run_model(self, picture, *options):
        io, out = os.path.join(self.folder, "io.safetensors"), os.path.join(self.folder, "out.safetensors")
        save(io, {"input": picture[None]})
        p = subprocess.run([FOVEA, "run", self.model, io, "--compute", "f32", "-o", out, *options],
                           capture_output=True, text=True)
        self.assertEqual(p.returncode, 0, p.stderr)
        return load(out)

    def same(self, config, weights, size, *options):
        """Checks that the program's masks and classes are those of the equations."""
        picture = np.random.default_rng(1).normal(0, 1, (3, *size)).astype(np.float32).astype(np.float64)
        self.write(config, weights)
        masks, classes = Model(config, weights).run(picture)
        got = self.run_model(picture, "--hidden", *options)
        for name, want in ("masks_queries_logits", masks), ("class_queries_logits", classes):
            self.assertEqual(got[name].shape, (1, *want.shape))
            off = np.abs(got[name][0] - want).max() / np.abs(want).max()
            self.assertLess(off, 2e-5, "%s, %s" % (name, config))

    def test_equations(self):
        native = GRID[0] * PATCH, GRID[1] * PATCH
        for dinov3 in False, True:
            for upscales in 0, 1, 2, 3:
                config = make_config(dinov3, num_upscale_blocks=upscales)
                weights = make_weights(config, 10 * upscales + dinov3)
                for probs in None, (0, 0), (1, 1), (0, 1), (1, 0):
                    if probs:
                        weights["attn_mask_probs"] = np.array(probs, float)
                    self.same(config, weights, native)

    def test_sizes(self):
        """Rotary positions are computed for any size; prefixes and numbers of queries differ."""
        for size, changes in ((40, 72), {}), ((24, 100), {"num_register_tokens": 0, "num_queries": 1}), \
                ((8, 8), {"num_blocks": 3, "num_register_tokens": 4}), ((64, 40), {"num_blocks": 1}):
            config = make_config(True, **changes)
            weights = make_weights(config, size[0])
            weights["attn_mask_probs"] = np.ones(config["num_blocks"])
            self.same(config, weights, size)
            self.same(config, weights, size, "--threads", "2", "--schedule", "stepwise")

    def test_resized(self):
        """Positions are resized if the table has another size."""
        config = make_config(False)
        self.write(config, make_weights(config, 3))
        got = self.run_model(np.zeros((3, 32, 80)))
        self.assertEqual(got["masks_queries_logits"].shape, (1, QUERIES, 16, 40))

    def test_labels(self):
        config = make_config(True, num_upscale_blocks=1)
        weights = make_weights(config, 9)
        for name in "mask_head.fc3.weight", "class_predictor.weight":  # queries that differ
            weights[name] *= 8
        self.write(config, weights)
        picture, png = np.random.default_rng(2).normal(0, 1, (3, 40, 56)), os.path.join(self.folder, "classes.png")
        got = self.run_model(picture, "--labels", png)
        want = semantic(got["masks_queries_logits"][0], got["class_queries_logits"][0], picture.shape[1:])
        self.assertGreater(len(np.unique(want)), 1)
        self.assertTrue((read_png(png)[0] == want).all())

    def plan(self, *options, weights=None, **fields):
        config = make_config(fields.pop("dinov3", False), **fields)
        changed = make_weights(make_config(config["model_type"] == "eomt_dinov3"), 5)
        changed.update(weights or {})
        self.write(config, {name: t for name, t in changed.items() if t is not None})
        return subprocess.run([FOVEA, "plan", self.model, *options], capture_output=True, text=True)

    def refused(self, code, says, *options, **fields):
        p = self.plan(*options, **fields)
        self.assertEqual(p.returncode, code, p.stdout + p.stderr)
        for text in (says if isinstance(says, tuple) else (says,)):
            self.assertIn(text, p.stderr)

    def test_refusals(self):
        config, tensors = "config.json", "model.safetensors"
        for bad in 0, -1, 1 << 31, 1 << 40, "7", 1.5:
            self.refused(7, (config, '"num_queries" must be'), num_queries=bad)
        self.refused(7, (tensors, "query.weight"), num_queries=QUERIES + 1)
        for bad in 0, DEPTH + 1, 1 << 31, "2":
            self.refused(7, (config, '"num_blocks" must be'), num_blocks=bad)
        for bad in -1, 9, 1 << 31, []:
            self.refused(7, (config, '"num_upscale_blocks" must be'), num_upscale_blocks=bad)
        self.refused(7, (config, '"num_upscale_blocks" is 4'), num_upscale_blocks=4)
        self.refused(7, (tensors, "upscale_block.block.2.conv1.weight"), num_upscale_blocks=3)
        self.refused(7, (tensors, "upscale_block.block.1"), num_upscale_blocks=1)
        self.refused(7, (tensors, "upscale_block.block.1.conv1.bias"),
                     weights={"upscale_block.block.1.conv1.bias": None})
        self.refused(7, (config, '"rope_parameters.rope_theta" must be'), dinov3=True,
                     rope_parameters={"rope_theta": 0})
        self.refused(7, (config, "rope_type"), dinov3=True, rope_parameters={"rope_type": "yarn"})
        self.refused(7, (config, '"qk_norm" is not known'), qk_norm=True)
        self.refused(7, (tensors, "extra.weight"), weights={"extra.weight": np.zeros(3)})
        self.refused(7, (tensors, "class_predictor.weight"), weights={"class_predictor.weight": None})
        self.refused(7, (tensors, "mask_head.fc2.weight"),
                     weights={"mask_head.fc2.weight": np.zeros((WIDTH, WIDTH + 1))})
        self.refused(7, (tensors, "attn_mask_probs"), weights={"attn_mask_probs": np.zeros(3)})
        for bad in .5, -1, 2, math.nan:
            self.refused(7, (tensors, "attn_mask_probs", "random"), weights={"attn_mask_probs": np.array([0, bad])})

    def test_processor(self):
        """A picture is padded to a square, or its short edge is resized and it is split into squares."""
        config, picture = make_config(True), os.path.join(self.folder, "picture.ppm")
        self.write(config, make_weights(config, 1))
        with open(picture, "wb") as f:
            f.write(b"P6 40 90 255\n" + bytes(range(240)) * 45)
        for size, seen in (({"longest_edge": 48, "shortest_edge": 48}, "40x90 seen as 48x48"),
                           ({"longest_edge": None, "shortest_edge": 24}, "40x90 seen as 24x54")):
            with open(os.path.join(self.model, "preprocessor_config.json"), "w", encoding="utf-8") as f:
                json.dump({"image_processor_type": "EomtImageProcessorFast", "size": size, "resample": 2,
                           "do_pad": True, "do_split_image": False}, f)
            p = subprocess.run([FOVEA, "run", self.model, picture], capture_output=True, text=True)
            self.assertEqual(p.returncode, 0, p.stderr)
            self.assertIn(seen, p.stderr)

    def test_attention(self):
        for attention in "linear:elu1", "mala", "foveated", "linear:elu1+softmax@1-", "sla-linear":
            for dinov3 in False, True:
                p = self.plan("--attention", attention, dinov3=dinov3)
                self.assertEqual(p.returncode, 0, p.stderr)
        masked = {"attn_mask_probs": np.ones(2)}
        self.assertEqual(self.plan("--attention", "linear:elu1+softmax@1-", weights=masked).returncode, 0)
        self.refused(2, ("block 1", "softmax@1-"), "--attention", "linear:elu1", weights=masked)
        self.refused(2, ("block 2", "softmax@2-"), "--attention", "softmax+foveated@2", weights=masked)


def write_golden(folder):
    """Writes a model with a DINOv2 backbone and masked attention, and the results of the equations."""
    config = make_config(False)
    weights = make_weights(config, 77)
    weights["attn_mask_probs"] = np.ones(config["num_blocks"])
    picture = np.random.default_rng(7).normal(0, 1, (3, GRID[0] * PATCH, GRID[1] * PATCH)).astype(np.float32)
    masks, classes = Model(config, weights).run(picture.astype(np.float64))
    source = "tests/models/test_eomt.py: the equations of transformers' EomtForUniversalSegmentation in float64"
    config["golden"] = {"input_shape": [1, *picture.shape], "source": source}
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as f:
        json.dump(config, f, indent=1)
    save(os.path.join(folder, "model.safetensors"), weights)
    save(os.path.join(folder, "io.safetensors"),
         {"input": picture[None], "masks_queries_logits": masks[None], "class_queries_logits": classes[None]},
         {"source": source, "kind": "model"})


if __name__ == "__main__":
    if FOLDER:
        write_golden(FOLDER)
        sys.exit(0)
    result = unittest.main(exit=False).result
    bad = len(result.failures) + len(result.errors)
    print("%d passed, %d failed, %d skipped" % (result.testsRun - bad - len(result.skipped), bad, len(result.skipped)))
    sys.exit(bad > 0)
