#!/usr/bin/env python3
"""test_decoders.py: compares Semantic FPN, UperNet and RetinaNet on every pyramid with a float64 reference.

    test_decoders.py path/to/fovea

Necks and heads with random weights, and BatchNorm statistics or GroupNorm, are added to small backbones. The
reference computes them in numpy from the program's own stage features, as mmsegmentation and mmdetection do, with
nothing folded: logits and outputs of every level; then coordinates, scores and classes of boxes. Hostile or unknown
configurations must be refused with the names of the file and the field. Golden vectors are compared if they exist.
"""
import copy
import json
import math
import os
import subprocess
import sys
import tempfile

import numpy as np

import test_polaformer as pola
import test_pyramid as pyramid
from test_polaformer import load, save

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
SHARED = os.path.join(os.path.dirname(ROOT), "shared", "golden", "models")
PICTURE = os.path.join(ROOT, "tests", "data", "picture_wide.ppm")
TOLERANCE = 2e-5
WIDTHS = {"mavit": [8, 12, 16], "nalaformer": [8, 12, 16], "pola_pvt": [8, 12, 16], "pola_swin": [8, 16, 32],
          "swin": [8, 16, 32]}


# ---- checkpoints ----

def backbone(family, rng):
    if family in ("mavit", "nalaformer"):
        c = pyramid.config_of(family, (WIDTHS[family], [1, 1, 1], [1, 1, 2], [2, 2, 2], ["l", "l", "v"],
                                       [True, False, True], None))
        return c, pyramid.checkpoint(rng, c, "backbone")
    if family == "swin":
        return swin(rng)
    if family == "pola_pvt":
        c = pola.pvt_config(embed_dims=WIDTHS[family], num_heads=[1, 2, 2], mlp_ratios=[2, 2, 2], depths=[1, 1, 1],
                            sr_ratios=[4, 2, 1], la_sr_ratios="111", attn_type="LLL", img_size=64)
        t = pola.make_pvt(rng, c)
    else:
        c = pola.swin_config(depths=[1, 1, 1], num_heads=[1, 2, 4], attn_type="LSS", img_size=64, window_size=56)
        t = pola.make_swin(rng, c)
        del t["norm.weight"], t["norm.bias"]
        for i, n in enumerate(WIDTHS[family]):
            t["norm%d.weight" % i] = (1 + 0.2 * rng.standard_normal(n)).astype(np.float32)
            t["norm%d.bias" % i] = (0.2 * rng.standard_normal(n)).astype(np.float32)
    return c, {n: v for n, v in t.items() if not n.startswith("head.")}


def swin(rng):
    """A Swin with the names of transformers."""
    c = {"model_type": "swin", "embed_dim": 8, "depths": [1, 2, 1], "num_heads": [1, 2, 4], "window_size": 3,
         "mlp_ratio": 2, "image_size": 64}
    m = pola.Maker(rng)

    def norm(stem, width):
        m.put(stem + "weight", (width,), 0.2, 1)
        m.put(stem + "bias", (width,), 0.2)

    m.linear("embeddings.patch_embeddings.projection.", (8, 3, 4, 4))
    norm("embeddings.norm.", 8)
    for i, width in enumerate(WIDTHS["swin"]):
        for j in range(c["depths"][i]):
            stem = "encoder.layers.%d.blocks.%d." % (i, j)
            norm(stem + "layernorm_before.", width)
            norm(stem + "layernorm_after.", width)
            for part in ("query.", "key.", "value."):
                m.linear(stem + "attention.self." + part, (width, width))
            m.put(stem + "attention.self.relative_position_bias_table", (25, c["num_heads"][i]), 0.5)
            m.linear(stem + "attention.output.dense.", (width, width))
            m.linear(stem + "intermediate.dense.", (2 * width, width))
            m.linear(stem + "output.dense.", (width, 2 * width))
        if i < 2:
            norm("encoder.layers.%d.downsample.norm." % i, 4 * width)
            m.linear("encoder.layers.%d.downsample.reduction." % i, (2 * width, 4 * width), False)
        norm("hidden_states_norms.stage%d." % (i + 1), width)
    return c, m.t


class Tensors(dict):
    """Tensors by their official names; `groups`: the groups of group normalisation, by section."""
    groups = {}


class Weights:
    """`kind` of normalisation: "bn" or "gn"."""

    def __init__(self, rng, kind="bn"):
        self.rng, self.kind, self.t = rng, kind, Tensors()

    def conv(self, name, rows, channels, size, bias=True):
        self.t[name + ".weight"] = (self.rng.standard_normal((rows, channels, size, size)) *
                                    (2 / (channels * size * size)) ** 0.5).astype(np.float32)
        if bias:
            self.t[name + ".bias"] = (0.3 * self.rng.standard_normal(rows)).astype(np.float32)

    def module(self, name, rows, channels, size, norm=True):
        self.conv(name + ".conv", rows, channels, size, not norm)
        if not norm:
            return
        for part, mean in (("weight", 1), ("bias", 0)) + ((("running_mean", 0),) if self.kind == "bn" else ()):
            self.t["%s.%s.%s" % (name, self.kind, part)] = (mean + 0.3 * self.rng.standard_normal(rows)).astype(np.float32)
        if self.kind == "bn":
            self.t[name + ".bn.running_var"] = self.rng.uniform(0.3, 2, rows).astype(np.float32)

    def neck(self, c, norm=False):
        """Adds the tensors of an FPN; returns the channels of its outputs."""
        first, out = c.get("start_level", 0), c["out_channels"]
        ins = c["in_channels"][first:]
        for i, n in enumerate(ins):
            self.module("neck.lateral_convs.%d" % i, out, n, 1, norm)
        extra = c.get("add_extra_convs", False)
        for i in range(c["num_outs"] if extra else len(ins)):
            of_input = i == len(ins) and extra in (True, "on_input")
            self.module("neck.fpn_convs.%d" % i, out, ins[-1] if of_input else out, 3, norm)
        return [out] * c["num_outs"]

    def semantic(self, c):
        index = c["in_index"]
        for i, n in enumerate(c["in_channels"]):
            for k in range(max(1, index[i] - index[0])):
                self.module("decode_head.scale_heads.%d.%d" % (i, 2 * k), c["channels"], n if k == 0 else c["channels"], 3)
        self.conv("decode_head.conv_seg", c["num_classes"], c["channels"], 1)

    def uper(self, c):
        n, pools = c["channels"], c["pool_scales"]
        ins = c["in_channels"]
        for i in range(len(pools)):
            self.module("decode_head.psp_modules.%d.1" % i, n, ins[-1], 1)
        self.module("decode_head.bottleneck", n, ins[-1] + len(pools) * n, 3)
        for i, m in enumerate(ins[:-1]):
            self.module("decode_head.lateral_convs.%d" % i, n, m, 1)
            self.module("decode_head.fpn_convs.%d" % i, n, n, 3)
        self.module("decode_head.fpn_bottleneck", n, len(ins) * n, 3)
        self.conv("decode_head.conv_seg", c["num_classes"], n, 1)

    def retina(self, c, anchors, norm=False):
        n = c["in_channels"]
        for i in range(c["stacked_convs"]):
            for kind in ("cls", "reg"):
                self.module("bbox_head.%s_convs.%d" % (kind, i), c["feat_channels"], n, 3, norm)
            n = c["feat_channels"]
        self.conv("bbox_head.retina_cls", anchors * c["num_classes"], n, 3)
        self.conv("bbox_head.retina_reg", anchors * 4, n, 3)
        self.t["bbox_head.retina_cls.bias"] -= 1


# ---- the reference; levels are (C, H, W) ----

def conv(x, t, name, stride=1):
    w = np.float64(t[name + ".weight"])
    return pyramid.conv2d(x, w, t.get(name + ".bias", np.zeros(len(w))), stride)


def groupnorm(x, w, b, groups):
    y = x.reshape(groups, -1)
    y = (y - y.mean(1, keepdims=True)) / np.sqrt(y.var(1, keepdims=True) + 1e-5)
    return y.reshape(x.shape) * np.float64(w)[:, None, None] + np.float64(b)[:, None, None]


def module(x, t, name, act=True, stride=1):
    x = conv(x, t, name + ".conv", stride)
    if name + ".bn.weight" in t:
        x = pyramid.batchnorm(x, t, name + ".bn")
    if name + ".gn.weight" in t:
        x = groupnorm(x, t[name + ".gn.weight"], t[name + ".gn.bias"], t.groups[name.split(".")[0]])
    return np.maximum(x, 0) if act else x


def resized(x, size, mode="bilinear", corners=False):
    """torch's interpolate of (C, h, w) to `size`."""
    for axis, n in zip((1, 2), size):
        have = x.shape[axis]
        if mode == "nearest":
            x = np.take(x, np.arange(n) * have // n, axis)
            continue
        at = np.arange(n) * (have - 1) / max(n - 1, 1) if corners else np.maximum(0, (np.arange(n) + 0.5) * have / n - 0.5)
        low = np.minimum(at.astype(int), have - 1)
        part = (at - low).reshape([-1 if a == axis else 1 for a in range(3)])
        x = np.take(x, low, axis) * (1 - part) + np.take(x, np.minimum(low + 1, have - 1), axis) * part
    return x


def fpn(x, t, c):
    first, n_outs = c.get("start_level", 0), c["num_outs"]
    x = x[first:]
    extra, up = c.get("add_extra_convs", False), c.get("upsample_cfg", {"mode": "nearest"})
    lat = [module(v, t, "neck.lateral_convs.%d" % i, False) for i, v in enumerate(x)]
    for i in range(len(lat) - 1, 0, -1):
        lat[i - 1] = lat[i - 1] + resized(lat[i], lat[i - 1].shape[1:], up["mode"], up.get("align_corners", False))
    out = [module(v, t, "neck.fpn_convs.%d" % i, False) for i, v in enumerate(lat)]
    for i in range(len(lat), n_outs):
        if not extra:
            out.append(out[-1][:, ::2, ::2])
            continue
        source = {"on_lateral": lat[-1], "on_output": out[-1]}.get(extra, x[-1]) if i == len(lat) else out[-1]
        out.append(module(source, t, "neck.fpn_convs.%d" % i, False, 2))
    return out


def semantic(x, t, c):
    total, corners, index = None, c.get("align_corners", False), c["in_index"]
    for i, at in enumerate(index):
        v = x[at]
        for k in range(max(1, at - index[0])):
            v = module(v, t, "decode_head.scale_heads.%d.%d" % (i, 2 * k))
            if at > index[0]:
                v = resized(v, (2 * v.shape[1], 2 * v.shape[2]), corners=corners)
        total = v if total is None else total + resized(v, total.shape[1:], corners=corners)
    return {"seg_logits": pyramid.linear(total, t["decode_head.conv_seg.weight"], t["decode_head.conv_seg.bias"])}


def pooled(x, s):
    """torch's adaptive_avg_pool2d."""
    high, wide = x.shape[1:]
    return np.stack([np.stack([
        x[:, i * high // s:-(-(i + 1) * high // s), k * wide // s:-(-(k + 1) * wide // s)].mean((1, 2))
        for k in range(s)], 1) for i in range(s)], 1)


def uper(x, t, c):
    x, corners = [x[i] for i in c["in_index"]], c.get("align_corners", False)
    parts = [x[-1]]
    for i, s in enumerate(c["pool_scales"]):
        parts.append(resized(module(pooled(x[-1], s), t, "decode_head.psp_modules.%d.1" % i), x[-1].shape[1:],
                             corners=corners))
    lat = [module(v, t, "decode_head.lateral_convs.%d" % i) for i, v in enumerate(x[:-1])]
    lat.append(module(np.concatenate(parts), t, "decode_head.bottleneck"))
    for i in range(len(lat) - 1, 0, -1):
        lat[i - 1] = lat[i - 1] + resized(lat[i], lat[i - 1].shape[1:], corners=corners)
    out = [module(v, t, "decode_head.fpn_convs.%d" % i) for i, v in enumerate(lat[:-1])] + [lat[-1]]
    out = module(np.concatenate([resized(v, out[0].shape[1:], corners=corners) for v in out]), t,
                 "decode_head.fpn_bottleneck")
    return {"seg_logits": pyramid.linear(out, t["decode_head.conv_seg.weight"], t["decode_head.conv_seg.bias"])}


def retina(x, t, c):
    out = {}
    for i, level in enumerate(x):
        for kind, name, last in (("cls", "cls", "cls"), ("box", "reg", "reg")):
            v = level
            for k in range(c["stacked_convs"]):
                v = module(v, t, "bbox_head.%s_convs.%d" % (name, k))
            out["%s.%d" % (kind, i)] = conv(v, t, "bbox_head.retina_" + last)
    return out


# ---- boxes ----

USUAL = {"octave_base_scale": 4, "scales_per_octave": 3, "ratios": [0.5, 1.0, 2.0], "strides": [8, 16, 32, 64, 128]}


def anchors_of(generator):
    """The anchors (ratios * scales, 4) for a stride of 1."""
    scales = generator.get("scales") or [2 ** (i / generator["scales_per_octave"]) * generator["octave_base_scale"]
                                         for i in range(generator["scales_per_octave"])]
    sides = [(s / r ** 0.5, s * r ** 0.5) for r in generator["ratios"] for s in scales]
    return np.array([(-w / 2, -h / 2, w / 2, h / 2) for w, h in sides])


def boxes_of(out, head, test, size):
    """Boxes, scores and classes from the outputs (C, H, W) of every level, best first."""
    generator, coder = head.get("anchor_generator", USUAL), head.get("bbox_coder", {})
    mean, std = np.array(coder.get("target_means", [0.] * 4)), np.array(coder.get("target_stds", [1.] * 4))
    found = []
    for i, stride in enumerate(generator["strides"]):
        logits = np.float64(out["cls.%d" % i]).transpose(1, 2, 0)
        high, wide = logits.shape[:2]
        base = anchors_of(generator) * stride
        logits = logits.reshape(-1, head["num_classes"])
        deltas = np.float64(out["box.%d" % i]).transpose(1, 2, 0).reshape(-1, 4) * std + mean
        scores = np.float32(1 / (1 + np.exp(-logits))).ravel()
        order = [k for k in np.argsort(-scores, kind="stable") if scores[k] > np.float32(test["score_thr"])]
        for k in order[:test["nms_pre"]]:
            place, label = divmod(int(k), head["num_classes"])
            cell, anchor = divmod(place, len(base))
            x1, y1, x2, y2 = base[anchor] + np.array([cell % wide, cell // wide] * 2) * stride
            dx, dy, dw, dh = deltas[place]
            most = -math.log(16 / 1000)
            w, h = (x2 - x1) * math.exp(min(max(dw, -most), most)), (y2 - y1) * math.exp(min(max(dh, -most), most))
            x, y = (x1 + x2) / 2 + (x2 - x1) * dx, (y1 + y2) / 2 + (y2 - y1) * dy
            box = np.array([x - w / 2, y - h / 2, x + w / 2, y + h / 2])
            if coder.get("clip_border", True):
                box = np.clip(box, 0, [size[1], size[0]] * 2)
            if test.get("min_bbox_size", -1) < 0 or min(box[2:] - box[:2]) > test["min_bbox_size"]:
                found.append((-scores[k], i, place, label, box))
    found.sort(key=lambda f: f[:4])
    kept = []
    for f in found:
        if len(kept) < test["max_per_img"] and not any(
                k[3] == f[3] and overlap(k[4], f[4]) > test["iou_threshold"] for k in kept):
            kept.append(f)
    return [(f[4], -f[0], f[3]) for f in kept]


def overlap(a, b):
    both = np.prod(np.maximum(np.minimum(a[2:], b[2:]) - np.maximum(a[:2], b[:2]), 0))
    whole = np.prod(a[2:] - a[:2]) + np.prod(b[2:] - b[:2]) - both
    return both / whole if both > 0 else 0


def difference(want, got, picture=0):
    """The largest difference of coordinates; boxes with the same score and class may be in any order."""
    mine = got["detections.image"] == picture
    left = list(zip(got["detections.boxes"][mine], got["detections.scores"][mine], got["detections.labels"][mine]))
    if len(left) != len(want):
        return "%d boxes, not %d" % (len(left), len(want))
    for box, score, label in want:
        same = [k for k, (b, s, l) in enumerate(left) if l == label and abs(s - score) < 1e-4 and
                abs(b - box).max() < 1e-3 * max(1, abs(np.array(box)).max())]
        if not same:
            return "no box %s, %.4f, %d" % (np.round(box, 2), score, label)
        del left[same[0]]
    return None


# ---- cases ----

NECK = {"type": "FPN", "out_channels": 6, "num_outs": 3}
SEMANTIC = {"type": "FPNHead", "in_channels": [6, 6, 6], "in_index": [0, 1, 2], "feature_strides": [4, 8, 16],
            "channels": 5, "num_classes": 4, "align_corners": False, "dropout_ratio": 0.1}
UPER = {"type": "UPerHead", "in_index": [0, 1, 2], "pool_scales": [1, 2, 3, 6], "channels": 5, "num_classes": 3}
RETINA = {"type": "RetinaHead", "num_classes": 3, "in_channels": 6, "stacked_convs": 1, "feat_channels": 5,
          "anchor_generator": dict(USUAL, strides=[8, 16, 32])}
TEST = {"nms_pre": 60, "score_thr": 0.3, "iou_threshold": 0.5, "max_per_img": 30}
ONES = {"type": "AnchorGenerator", "scales": [3.0, 5.0], "ratios": [1.0, 3.0], "strides": [4, 8, 16]}


# `norm`: whether the neck has batch normalisation; or numbers of groups, in which case every module has group
# normalisation: the number of a section's norm_cfg, that of "fovea" for both, or None for the usual number.

def semantic_case(neck=None, norm=False, **head):
    return "semantic", dict(NECK, **(neck or {})), dict(SEMANTIC, **head), None, norm


def retina_case(neck, head=None, test=None, norm=False):
    return "retina", dict(NECK, **neck), dict(RETINA, **(head or {})), dict(TEST, **(test or {})), norm


CASES = [
    ("mavit", (64, 64), semantic_case()),
    ("mavit", (51, 75), semantic_case({"upsample_cfg": {"mode": "bilinear", "align_corners": True}}, True,
                                      align_corners=True, norm_cfg={"type": "SyncBN", "requires_grad": True})),
    ("nalaformer", (40, 64), semantic_case(in_channels=[6, 6], in_index=[0, 2], feature_strides=[4, 16])),
    ("pola_pvt", (64, 96), semantic_case({"num_outs": 4}, in_channels=[6] * 4, in_index=[0, 1, 2, 3],
                                         feature_strides=[4, 8, 16, 32])),
    ("pola_swin", (64, 96), semantic_case()),
    ("mavit", (75, 61), ("uper", None, UPER, None, False)),
    ("nalaformer", (64, 64), ("uper", None, dict(UPER, in_index=[0, 1], align_corners=True, pool_scales=[2]), None, False)),
    ("pola_swin", (64, 64), ("uper", None, UPER, None, False)),
    ("swin", (64, 80), ("uper", None, UPER, None, False)),
    ("swin", (64, 96), semantic_case()),
    ("pola_pvt", (64, 64), ("uper", NECK, UPER, None, False)),
    ("mavit", (64, 64), retina_case({"start_level": 1, "add_extra_convs": "on_input"})),
    ("nalaformer", (75, 50), retina_case({"start_level": 1, "add_extra_convs": "on_output"}, {"stacked_convs": 0},
                                         {"min_bbox_size": 6}, True)),
    ("pola_pvt", (64, 96), retina_case({"start_level": 1, "add_extra_convs": "on_lateral", "num_outs": 4},
                                       {"anchor_generator": dict(USUAL, strides=[8, 16, 32, 64])})),
    ("pola_swin", (64, 64), retina_case({}, {"anchor_generator": ONES, "stacked_convs": 2,
                                             "bbox_coder": {"type": "DeltaXYWHBBoxCoder", "clip_border": False,
                                                            "target_means": [0.1, 0, 0, 0],
                                                            "target_stds": [0.5, 0.5, 0.2, 0.2]}})),
    ("mavit", (64, 64), retina_case({"start_level": 2, "add_extra_convs": True})),
    ("mavit", (51, 75), semantic_case({}, {"neck": 3, "decode_head": 2}, channels=8)),
    ("pola_swin", (64, 64), semantic_case({}, {"fovea": 2}, channels=8)),
    ("nalaformer", (64, 64), semantic_case({"out_channels": 32}, {}, in_channels=[32] * 3, channels=64)),
    ("mavit", (75, 61), ("uper", None, dict(UPER, channels=6), None, {"decode_head": 3})),
    ("mavit", (64, 64), retina_case({"start_level": 1, "add_extra_convs": "on_input"}, {"feat_channels": 10},
                                    norm={"neck": 6, "bbox_head": 5})),
]


def make(rng, family, kind, neck, head, test, norm):
    """config.json, tensors, and the arguments of the reference."""
    config, tensors = backbone(family, rng)
    neck, head = copy.deepcopy(neck), copy.deepcopy(head)
    grouped = isinstance(norm, dict)
    w = Weights(rng, "gn" if grouped else "bn")
    channels = WIDTHS[family]
    if neck:
        neck["in_channels"] = channels
        channels = w.neck(neck, grouped or norm)
        config["neck"] = dict(neck, norm_cfg={"type": "BN"} if norm and not grouped else None)
    if grouped:
        section = "bbox_head" if kind == "retina" else "decode_head"
        w.t.groups = {s: norm.get(s, norm.get("fovea", 32)) for s in ("neck", section)}
        for s, c in (("neck", config.get("neck")), (section, head)):
            if s in norm:
                c["norm_cfg"] = {"type": "GN", "num_groups": norm[s], "requires_grad": True}
        if "fovea" in norm:
            config["fovea"] = {"num_groups": norm["fovea"]}
    if kind == "retina":
        w.retina(head, len(anchors_of(head["anchor_generator"])), grouped)
        config.update(bbox_head=head, test_cfg=test)
    else:
        head["in_channels"] = [channels[i] for i in head["in_index"]]
        (w.semantic if kind == "semantic" else w.uper)(head)
        config["decode_head"] = head
    return config, tensors, w.t, neck, head


class Tests:
    def __init__(self, exe, folder):
        self.exe, self.folder, self.passed, self.failed = exe, folder, 0, 0
        self.rng = np.random.default_rng(5)

    def note(self, what, bad):
        self.passed += not bad
        self.failed += bool(bad)
        if bad:
            print("FAIL %s: %s" % (what, bad), flush=True)

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, config, *tensors):
        json.dump(config, open(self.path("config.json"), "w"))
        save(self.path("model.safetensors"), {n: v for t in tensors for n, v in t.items()})

    def run(self, *options, inputs=None):
        p = subprocess.run([self.exe, "run", self.folder, *(inputs or [self.path("io.safetensors")]), "--device", "cpu",
                            "--compute", "f32", "-o", self.path("out.safetensors"), *options], capture_output=True, text=True)
        return p.returncode, p.stderr.strip()

    def features(self, got, config, size):
        """The features (C, H, W) of every stage, for every picture."""
        out = []
        for b in range(len(got["feat.stage1"])):
            stages = []
            for i in range(3):
                f = np.float64(got["feat.stage%d" % (i + 1)][b])
                if f.ndim == 2:
                    high, wide = (s >> (2 + i) for s in size)
                    f = f.T.reshape(-1, high, wide)
                stages.append(f)
            out.append(stages)
        return out

    def case(self, family, size, case):
        kind, test = case[0], case[3]
        what = "%s on %s at %d x %d" % (kind, family, *size)
        config, tensors, decoder, neck, head = make(self.rng, family, *case)
        self.write(config, {"module.backbone." + n: v for n, v in tensors.items()},
                   {"module." + n: v for n, v in decoder.items()},
                   {"module.auxiliary_head.conv_seg.weight": np.zeros((2, 2), np.float32)})
        pictures = self.rng.standard_normal((2, 3) + size).astype(np.float32)
        save(self.path("io.safetensors"), {"input": pictures})
        outputs = []
        for options in (["--schedule", "streamed", "--threads", "2"], ["--schedule", "stepwise", "--threads", "3"],
                        ["--schedule", "streamed", "--threads", "1"],
                        ["--schedule", "streamed", "--chunk", "16", "--isa", "scalar"]):
            code, message = self.run("--hidden", *options)
            if code:
                self.note(what, "exit %d: %s" % (code, message))
                return
            got = load(self.path("out.safetensors"))
            outputs.append(got)
            bad = []
            for b, x in enumerate(self.features(got, config, size)):
                x = fpn(x, decoder, neck) if neck else x
                want = {"semantic": semantic, "uper": uper, "retina": retina}[kind](x, decoder, head)
                for name, values in want.items():
                    error = (abs(got[name][b] - values).max() / abs(values).max()
                             if name in got and got[name][b].shape == values.shape else math.inf)
                    if not error <= TOLERANCE:
                        bad.append("%s is off by %.1e" % (name, error))
                if kind == "retina":
                    own = {n: got[n][b] for n in want}
                    boxes = boxes_of(own, head, test, size)
                    bad += ["the definition finds no box"] if not boxes else []
                    bad += [d for d in [difference(boxes, got, b)] if d]
            self.note("%s, %s" % (what, " ".join(options)), "; ".join(bad))
        one = outputs[0]
        for how, other in (("schedules", outputs[1]), ("threads", outputs[2])):
            self.note("%s by %s" % (what, how), ", ".join(n for n in one if one[n].tobytes() != other[n].tobytes()))

    def refused(self, what, config, *texts, code=(2, 7)):
        json.dump(config, open(self.path("config.json"), "w"))
        got, message = self.run()
        right = got in code and all(t in message for t in texts) and message.count("\n") == 0
        self.note("refused: " + what, None if right else "exit %d: %s" % (got, message))

    def refusals(self):
        pictures = self.rng.standard_normal((1, 3, 64, 64)).astype(np.float32)
        save(self.path("io.safetensors"), {"input": pictures})

        def each(case, changes):
            config, tensors, decoder, _, _ = make(self.rng, "mavit", *case)
            self.write(config, tensors, decoder)
            for section, key, value, text in changes:
                c = copy.deepcopy(config)
                inner = c
                for part in section.split("."):
                    inner = inner.setdefault(part, {})
                inner[key] = value
                self.refused("%s.%s = %s" % (section, key, value), c, "config.json", text)

        each(semantic_case(), [
            ("neck", "type", "PAFPN", "neck.type"), ("neck", "num_outs", 10**9, "neck.num_outs"),
            ("neck", "num_outs", 1, "neck.num_outs"), ("neck", "out_channels", 0, "neck.out_channels"),
            ("neck", "start_level", 7, "neck.start_level"), ("neck", "end_level", -7, "neck.end_level"),
            ("neck", "in_channels", [1, 2, 3], "neck.in_channels"), ("neck", "add_extra_convs", 3, "neck.add_extra_convs"),
            ("neck", "end_level", "2", "neck.end_level"),
            ("neck", "relu_before_extra_convs", True, "neck.relu_before_extra_convs"),
            ("neck", "act_cfg", {"type": "ReLU"}, "neck.act_cfg"), ("neck", "newest", 1, "neck.newest"),
            ("neck", "upsample_cfg", {"mode": "bicubic"}, "neck.upsample_cfg.mode"),
            ("neck", "norm_cfg", {"type": "IN"}, "neck.norm_cfg.type"),
            ("neck", "norm_cfg", {"type": "GN", "num_groups": 0}, "neck.norm_cfg.num_groups"),
            ("decode_head", "norm_cfg", {"type": "LN"}, "decode_head.norm_cfg.type"),
            ("decode_head", "norm_cfg", {"type": "BN", "eps": 1e-3}, "decode_head.norm_cfg.eps"),
            ("decode_head", "act_cfg", {"type": "GELU"}, "decode_head.act_cfg.type"),
            ("decode_head", "act_cfg", None, "decode_head.act_cfg"),
            ("decode_head", "type", "FCNHead", "decode_head.type"),
            ("decode_head", "in_index", [0, 1, 9], "decode_head.in_index"),
            ("decode_head", "in_index", [2, 1, 0], "decode_head.in_index"),
            ("decode_head", "in_channels", [6, 6, 7], "decode_head.in_channels"),
            ("decode_head", "feature_strides", [4, 8, 0], "decode_head.feature_strides"),
            ("decode_head", "feature_strides", [4, 8, 65536], "decode_head.feature_strides"),
            ("decode_head", "channels", 10**9, "decode_head.channels"),
            ("decode_head", "channels", 7, "scale_heads.0.0.conv.weight"),
            ("decode_head", "num_classes", 0, "decode_head.num_classes"),
            ("decode_head", "interpolate_mode", "nearest", "decode_head.interpolate_mode"),
        ])
        each(semantic_case({}, {"fovea": 2}, channels=8), [
            ("neck", "norm_cfg", {"type": "GN", "num_groups": 4}, "neck.lateral_convs.0.gn."),
            ("fovea", "num_groups", 5, "neck.lateral_convs.0.gn."), ("fovea", "num_groups", -1, "num_groups"),
            ("decode_head", "norm_cfg", {"type": "GN", "eps": 1e-6}, "decode_head.norm_cfg.eps"),
        ])
        each(("uper", None, UPER, None, False), [
            ("decode_head", "pool_scales", [0], "decode_head.pool_scales"),
            ("decode_head", "pool_scales", [10**6], "decode_head.pool_scales"),
            ("decode_head", "in_index", [2], "decode_head.in_"),
        ])
        each(retina_case({}), [
            ("bbox_head", "type", "ATSSHead", "bbox_head.type"), ("bbox_head", "stacked_convs", 1e9, "bbox_head.stacked_convs"),
            ("bbox_head", "stacked_convs", 10**9, "bbox_head.stacked_convs"),
            ("bbox_head", "num_classes", 2**40, "bbox_head.num_classes"),
            ("bbox_head", "in_channels", 5, "bbox_head.in_channels"),
            ("bbox_head.anchor_generator", "strides", [0, 0, 0], "bbox_head.anchor_generator.strides"),
            ("bbox_head.anchor_generator", "strides", [8], "bbox_head.anchor_generator.strides"),
            ("bbox_head.anchor_generator", "ratios", [0], "bbox_head.anchor_generator.ratios"),
            ("bbox_head.anchor_generator", "ratios", [1] * 16, "bbox_head.anchor_generator"),
            ("bbox_head.anchor_generator", "scales", [8], "bbox_head.anchor_generator.scales"),
            ("bbox_head.anchor_generator", "scales_per_octave", 10**9, "bbox_head.anchor_generator.scales_per_octave"),
            ("bbox_head.anchor_generator", "center_offset", 0.5, "bbox_head.anchor_generator.center_offset"),
            ("bbox_head.bbox_coder", "target_stds", [0, 0, 0, 0], "bbox_head.bbox_coder.target_stds"),
            ("bbox_head.bbox_coder", "type", "Other", "bbox_head.bbox_coder.type"),
            ("bbox_head.loss_cls", "use_sigmoid", False, "bbox_head.loss_cls.use_sigmoid"),
            ("test_cfg", "nms_pre", 10**9, "test_cfg.nms_pre"), ("test_cfg", "max_per_img", -1, "test_cfg.max_per_img"),
            ("test_cfg", "score_thr", -1, "test_cfg.score_thr"),
            ("test_cfg", "nms", {"type": "soft_nms"}, "test_cfg.nms.type"), ("test_cfg", "rcnn", {}, "test_cfg.rcnn"),
        ])

    def unread(self):
        """If the head is unknown, only the backbone is run, provided that config.json permits it."""
        config, tensors, decoder, _, _ = make(self.rng, "mavit", *retina_case({}))
        config["bbox_head"]["type"] = "ATSSHead"
        config["fovea"] = {"ignore": ["bbox_head"]}
        self.write(config, {"backbone." + n: v for n, v in tensors.items()}, decoder)
        code, message = self.run()
        self.note("an ignored head", None if code == 0 else message)
        config, tensors, decoder, _, _ = make(self.rng, "mavit", *retina_case({}))
        decoder["bbox_head.centerness.weight"] = np.zeros((1, 4), np.float32)
        self.write(config, tensors, decoder)
        code, message = self.run()
        self.note("a tensor that is not known", None if code == 7 and "centerness" in message else message)

    def photograph(self):
        """Boxes are in pixels of the photograph; as tensors they are in pixels of the model's input."""
        config, tensors, decoder, _, _ = make(self.rng, "mavit", *retina_case({}, {}, {"min_bbox_size": 1}))
        self.write(config, tensors, decoder)
        size = [int(x) for x in open(PICTURE, "rb").read(20).split()[1:3]]
        for how, width, height, crop in (("exact", 96, 64, None), ("short", 80, 48, (80, 48))):
            pre = {"do_resize": True, "size": {"width": 96, "height": 64}, "do_center_crop": False,
                   "image_mean": [0.5] * 3, "image_std": [0.5] * 3}
            if crop:
                pre.update(size={"shortest_edge": 64}, do_center_crop=True, crop_size={"width": width, "height": height})
            json.dump(pre, open(self.path("preprocessor_config.json"), "w"))
            code, message = self.run("--boxes", self.path("boxes.json"), inputs=[PICTURE])
            if code:
                self.note("boxes of a photograph, " + how, message)
                continue
            got, coco = load(self.path("out.safetensors")), json.load(open(self.path("boxes.json")))
            whole = (96, 64)
            if crop:
                short = min(size)
                whole = tuple(64 * n // short for n in size)
            scale = np.array([size[0] / whole[0], size[1] / whole[1]])
            left = np.array([(whole[0] - width) // 2, (whole[1] - height) // 2]) * scale if crop else np.zeros(2)
            bad = None if len(coco) == len(got["detections.boxes"]) > 0 else "%d boxes" % len(coco)
            for entry, box, score, label in zip(coco, got["detections.boxes"], got["detections.scores"],
                                                got["detections.labels"]):
                ends = np.clip(np.float64(box).reshape(2, 2) * scale + left, 0, size)
                want = [*ends[0], *(ends[1] - ends[0])]
                if (np.abs(np.array(entry["bbox"]) - want).max() > 1e-3 or abs(entry["score"] - score) > 1e-6 or
                        entry["category_id"] != label or entry["file_name"] != PICTURE or entry["image_id"] != 0):
                    bad = "%s, not %s" % (entry, want)
            self.note("boxes of a photograph, " + how, bad)
        os.remove(self.path("preprocessor_config.json"))

    def golden(self):
        """Compares coordinates, because IoU cannot distinguish boxes without width or height."""
        for name in ("mavit-retinanet-01", "mavit-retinanet-02"):
            folder = os.path.join(SHARED, name)
            if not os.path.exists(folder):
                continue
            want = load(folder + "/io.safetensors")
            p = subprocess.run([self.exe, "run", folder, folder + "/io.safetensors", "--compute", "f32", "-o",
                                self.path("out.safetensors")], capture_output=True, text=True)
            boxes = list(zip(want["detections.boxes"], want["detections.scores"], want["detections.labels"]))
            self.note(name, p.stderr if p.returncode else difference(boxes, load(self.path("out.safetensors"))))


def main(argv):
    with tempfile.TemporaryDirectory() as folder:
        tests = Tests(os.path.abspath(argv[0]), folder)
        for case in CASES:
            tests.case(*case)
        tests.refusals()
        tests.unread()
        tests.photograph()
        tests.golden()
    print("%d passed, %d failed, 0 skipped" % (tests.passed, tests.failed))
    return 1 if tests.failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
