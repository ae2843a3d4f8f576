#!/usr/bin/env python3
"""test_mask_rcnn.py: compares Mask R-CNN and Cascade Mask R-CNN on every pyramid with a float64 reference.

    test_mask_rcnn.py path/to/fovea

Heads with random weights are added to small backbones. The reference computes proposals, boxes and masks in numpy
from the program's own stage features, as mmdetection 3 does, with nothing folded. Compared are the outputs, boxes,
and the pixels of masks in a photograph. Models that find nothing, equal scores, and NaN are among the cases. Hostile
configurations must be refused with the names of the file and the field.
"""
import copy
import json
import math
import os
import sys
import tempfile

import numpy as np

import test_decoders as decoders
from test_decoders import PICTURE, WIDTHS, Weights, backbone, conv, fpn, module, overlap
from test_polaformer import load, save

TOLERANCE = 1e-4  # of scores and probabilities; boxes must overlap by 0.999


# ---- checkpoints ----

def extractor(size, channels, strides, **more):
    return dict({"type": "SingleRoIExtractor", "out_channels": channels, "featmap_strides": strides,
                 "roi_layer": {"type": "RoIAlign", "output_size": size, "sampling_ratio": 0}}, **more)


def stage_of(roi, key, i):
    value = roi[key]
    return value[i] if isinstance(value, list) else value


def stages_of(roi):
    return roi.get("num_stages", 3) if roi["type"] == "CascadeRoIHead" else 1


def stem(roi, key, i):
    return "roi_head.%s.%d." % (key, i) if roi["type"] == "CascadeRoIHead" else "roi_head.%s." % key


class Heads(Weights):
    def linear(self, name, rows, cols, gain=1.0):
        self.t[name + ".weight"] = (self.rng.standard_normal((rows, cols)) * gain * (2 / cols) ** 0.5).astype(np.float32)
        self.t[name + ".bias"] = (0.3 * self.rng.standard_normal(rows)).astype(np.float32)

    def proposals(self, c, anchors):
        self.conv("rpn_head.rpn_conv", c["feat_channels"], c["in_channels"], 3)
        self.conv("rpn_head.rpn_cls", anchors, c["feat_channels"], 1)
        self.conv("rpn_head.rpn_reg", 4 * anchors, c["feat_channels"], 1)
        self.t["rpn_head.rpn_reg.weight"] *= 0.3

    def boxes(self, roi, i):
        c, name = stage_of(roi, "bbox_head", i), stem(roi, "bbox_head", i)
        cells = roi["bbox_roi_extractor"]["roi_layer"]["output_size"] ** 2
        convs, linear = layers_of(c)
        n = c["in_channels"]
        for k in range(convs):
            self.module("%sshared_convs.%d" % (name, k), c["conv_out_channels"], n, 3, c.get("norm_cfg") is not None)
            n = c["conv_out_channels"]
        n *= cells
        for k in range(linear):
            self.linear("%sshared_fcs.%d" % (name, k), c["fc_out_channels"], n)
            n = c["fc_out_channels"]
        self.linear(name + "fc_cls", c["num_classes"] + 1, n, 2)
        self.linear(name + "fc_reg", 4 if c.get("reg_class_agnostic") else 4 * c["num_classes"], n, 0.5)

    def masks(self, roi, i):
        c, name = stage_of(roi, "mask_head", i), stem(roi, "mask_head", i)
        n, width = c["in_channels"], c["conv_out_channels"]
        for k in range(c["num_convs"]):
            self.module("%sconvs.%d" % (name, k), width, n, 3, False)
            n = width
        self.t[name + "upsample.weight"] = (self.rng.standard_normal((n, width, 2, 2)) * (2 / n) ** 0.5).astype(np.float32)
        self.t[name + "upsample.bias"] = (0.3 * self.rng.standard_normal(width)).astype(np.float32)
        self.conv(name + "conv_logits", 1 if c.get("class_agnostic") else c["num_classes"], width, 1)


def layers_of(c):
    """Numbers of shared convolutions and linear layers."""
    convs, linear = {"Shared2FCBBoxHead": (0, 2), "Shared4Conv1FCBBoxHead": (4, 1), "ConvFCBBoxHead": (0, 0)}[c["type"]]
    return c.get("num_shared_convs", convs), c.get("num_shared_fcs", linear)


# ---- the reference ----

GROWTH = -math.log(16 / 1000)


def moved(box, delta, coder, size):
    """Boxes (n, 4) moved and scaled by deltas (n, 4), and clipped to the picture."""
    delta = delta * np.array(coder.get("target_stds", [1.] * 4)) + np.array(coder.get("target_means", [0.] * 4))
    side = box[:, 2:] - box[:, :2]
    centre = (box[:, :2] + box[:, 2:]) / 2 + side * delta[:, :2]
    half = side * np.exp(np.clip(delta[:, 2:], -GROWTH, GROWTH)) / 2
    return np.clip(np.concatenate([centre - half, centre + half], 1), 0, [size[1], size[0]] * 2)


def suppressed(found, threshold, most):
    """The best of (score, class, box), which are in the order in which equal scores are considered."""
    kept = []
    for f in sorted(found, key=lambda f: -f[0]):
        if len(kept) < most and not any(k[1] == f[1] and overlap(k[2], f[2]) > threshold for k in kept):
            kept.append(f)
    return kept


def proposals(x, t, c, test, size):
    found = []
    for i, level in enumerate(x):
        stride = c["anchor_generator"]["strides"][i]
        base = decoders.anchors_of(c["anchor_generator"]) * stride
        h = np.maximum(conv(level, t, "rpn_head.rpn_conv"), 0)
        high, wide = h.shape[1:]
        scores = conv(h, t, "rpn_head.rpn_cls").transpose(1, 2, 0).ravel()
        deltas = conv(h, t, "rpn_head.rpn_reg").transpose(1, 2, 0).reshape(-1, 4)
        order = np.argsort(-scores, kind="stable")[:test["nms_pre"]]
        cell, anchor = np.divmod(order, len(base))
        boxes = moved(base[anchor] + np.stack([cell % wide, cell // wide] * 2, 1) * stride, deltas[order],
                      c.get("bbox_coder", {}), size)
        least = test.get("min_bbox_size", 0)
        found += [(scores[k], i, b) for k, b in zip(order, boxes)
                  if np.isfinite(scores[k]) and (least < 0 or min(b[2:] - b[:2]) > least)]
    return [f[2] for f in suppressed(found, test["nms"]["iou_threshold"], test["max_per_img"])]


def sides(low, high, scale, cells, values):
    """The matrix (cells, values) that takes means of samples along one side of a region."""
    w = np.zeros((cells, values))
    first, width = low * scale - 0.5, (high - low) * scale / cells
    n = math.ceil(width)
    for cell in range(cells):
        for i in range(n):
            at = first + cell * width + (i + 0.5) * width / n
            if not -1 <= at <= values:
                continue
            at = min(max(at, 0), values - 1)
            below = min(int(at), values - 1)
            w[cell, below] += (1 - (at - below)) / n
            w[cell, min(below + 1, values - 1)] += (at - below) / n
    return w


def features(x, c, boxes):
    """RoIAlign: (boxes, C, size, size)."""
    strides, size = c["featmap_strides"], c["roi_layer"]["output_size"]
    out = np.zeros((len(boxes), x[0].shape[0], size, size))
    for n, b in enumerate(boxes):
        scale = math.sqrt(max((b[2] - b[0]) * (b[3] - b[1]), 0))
        at = math.floor(math.log2(scale / c.get("finest_scale", 56) + 1e-6))
        level = x[min(max(at, 0), len(strides) - 1)]
        stride = strides[min(max(at, 0), len(strides) - 1)]
        across = sides(b[0], b[2], 1 / stride, size, level.shape[2])
        down = sides(b[1], b[3], 1 / stride, size, level.shape[1])
        out[n] = np.einsum("yh,chw,xw->cyx", down, level, across)
    return out


def softmax(x):
    e = np.exp(x - x.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def linear(x, t, name):
    return x @ np.float64(t[name + ".weight"]).T + np.float64(t[name + ".bias"])


def box_stage(x, t, roi, i, regions):
    c, name = stage_of(roi, "bbox_head", i), stem(roi, "bbox_head", i)
    f = features(x, roi["bbox_roi_extractor"], regions)
    convs, layers = layers_of(c)
    for k in range(convs):
        f = np.stack([module(v, t, "%sshared_convs.%d" % (name, k)) for v in f])
    f = f.reshape(len(f), -1)
    for k in range(layers):
        f = np.maximum(linear(f, t, "%sshared_fcs.%d" % (name, k)), 0)
    return linear(f, t, name + "fc_cls"), linear(f, t, name + "fc_reg").reshape(len(f), -1, 4)


def detections(x, t, roi, test, size, regions):
    """(score, class, box), best first."""
    if not regions:
        return []
    regions, total, stages = np.array(regions), 0, stages_of(roi)
    for i in range(stages):
        c = stage_of(roi, "bbox_head", i)
        coder = c.get("bbox_coder", {"target_stds": [0.1, 0.1, 0.2, 0.2]})
        logits, deltas = box_stage(x, t, roi, i, regions)
        total = total + logits / stages
        if i + 1 < stages:
            label = logits[:, :-1].argmax(1) if deltas.shape[1] > 1 else np.zeros(len(logits), int)
            regions = moved(regions, deltas[np.arange(len(label)), label], coder, size)
    scores, found = softmax(total), []
    for n in range(len(regions)):
        for k in range(scores.shape[1] - 1):
            if scores[n, k] > test["score_thr"]:
                box = moved(regions[n:n + 1], deltas[n:n + 1, k if deltas.shape[1] > 1 else 0], coder, size)[0]
                found.append((scores[n, k], k, box))
    return suppressed(found, test["nms"]["iou_threshold"], test["max_per_img"])


def masks(x, t, roi, found):
    """Probabilities (boxes, 2 size, 2 size)."""
    f, total = features(x, roi["mask_roi_extractor"], [b for _, _, b in found]), 0
    for i in range(stages_of(roi)):
        c, name = stage_of(roi, "mask_head", i), stem(roi, "mask_head", i)
        out = []
        for v, (_, label, _) in zip(f, found):
            for k in range(c["num_convs"]):
                v = module(v, t, "%sconvs.%d" % (name, k))
            w = np.float64(t[name + "upsample.weight"])
            v = np.einsum("chw,cdij->dhiwj", v, w).reshape(w.shape[1], 2 * v.shape[1], -1)
            v = np.maximum(v + np.float64(t[name + "upsample.bias"])[:, None, None], 0)
            v = conv(v, t, name + "conv_logits")[0 if c.get("class_agnostic") else label]
            out.append(1 / (1 + np.exp(-v)))
        total = total + np.array(out) / stages_of(roi)
    return total


def pasted(mask, box, size):
    """The pixels (h, w) of a mask, as by grid_sample with zeros around it."""
    def side(low, high, n):
        at = ((np.arange(n) + 0.5 - low) / (high - low) * 2 - 1 + 1) * len(mask) / 2 - 0.5
        return np.maximum(0, 1 - abs(at[:, None] - np.arange(len(mask))))
    if not (box[2] > box[0] and box[3] > box[1]):
        return np.zeros(size, bool)
    return side(box[1], box[3], size[0]) @ mask @ side(box[0], box[2], size[1]).T >= 0.5


# ---- cases ----

CHANNELS = 6
NECK = {"type": "FPN", "out_channels": CHANNELS, "num_outs": 4}
RPN = {"type": "RPNHead", "in_channels": CHANNELS, "feat_channels": 7,
       "anchor_generator": {"type": "AnchorGenerator", "scales": [4.0], "ratios": [0.5, 1.0, 2.0], "strides": [4, 8, 16, 32]},
       "bbox_coder": {"type": "DeltaXYWHBBoxCoder", "target_means": [0., 0., 0., 0.], "target_stds": [1., 1., 1., 1.]},
       "loss_cls": {"type": "CrossEntropyLoss", "use_sigmoid": True}}
BOX = {"type": "Shared2FCBBoxHead", "in_channels": CHANNELS, "fc_out_channels": 10, "roi_feat_size": 3, "num_classes": 4,
       "bbox_coder": {"type": "DeltaXYWHBBoxCoder", "target_means": [0., 0., 0., 0.], "target_stds": [0.1, 0.1, 0.2, 0.2]},
       "reg_class_agnostic": False, "loss_cls": {"type": "CrossEntropyLoss", "use_sigmoid": False}}
MASK = {"type": "FCNMaskHead", "num_convs": 2, "in_channels": CHANNELS, "conv_out_channels": 5, "num_classes": 4,
        "loss_mask": {"type": "CrossEntropyLoss", "use_mask": True}}
TEST = {"rpn": {"nms_pre": 40, "max_per_img": 30, "nms": {"type": "nms", "iou_threshold": 0.7}, "min_bbox_size": 0},
        "rcnn": {"score_thr": 0.05, "nms": {"type": "nms", "iou_threshold": 0.5}, "max_per_img": 12, "mask_thr_binary": 0.5}}
CONVOLVED = dict(BOX, type="ConvFCBBoxHead", num_shared_convs=2, num_shared_fcs=1, conv_out_channels=8,
                 norm_cfg={"type": "SyncBN", "requires_grad": True}, reg_decoded_bbox=True)
STDS = ([0.1, 0.1, 0.2, 0.2], [0.05, 0.05, 0.1, 0.1], [0.033, 0.033, 0.067, 0.067])


def case(box=None, mask=MASK, rpn=None, rpn_test=None, rcnn_test=None, scale=None, zero=(), **roi):
    boxes = extractor(3, CHANNELS, [4, 8, 16], **({"finest_scale": scale} if scale else {}))
    c = dict({"type": "StandardRoIHead", "bbox_roi_extractor": boxes, "bbox_head": dict(BOX, **(box or {}))}, **roi)
    if mask:
        c.update(mask_roi_extractor=extractor(4, CHANNELS, [4, 8, 16], finest_scale=scale or 56), mask_head=mask)
    return (dict(RPN, **(rpn or {})), c,
            {"rpn": dict(TEST["rpn"], **(rpn_test or {})), "rcnn": dict(TEST["rcnn"], **(rcnn_test or {}))}, zero)


def cascade(box=CONVOLVED, mask=MASK, stages=3, **more):
    heads = [dict(box, bbox_coder=dict(BOX["bbox_coder"], target_stds=s)) for s in STDS[:stages]]
    return case(None, mask, type="CascadeRoIHead", num_stages=stages, stage_loss_weights=[1, 0.5, 0.25], bbox_head=heads,
                **more)


CASES = [
    ("mavit", (64, 64), case()),
    ("mavit", (64, 96), case(scale=8)),
    ("nalaformer", (75, 50), case({"reg_class_agnostic": True}, scale=6, rpn_test={"min_bbox_size": 9})),
    ("pola_pvt", (64, 96), case({"type": "Shared4Conv1FCBBoxHead", "conv_out_channels": 5, "roi_feat_size": 3},
                                dict(MASK, num_convs=0, class_agnostic=True, conv_out_channels=7))),
    ("pola_swin", (64, 64), case(mask=None, rpn_test={"nms_pre": 1000, "max_per_img": 100, "min_bbox_size": -1})),
    ("mavit", (64, 64), cascade()),
    ("nalaformer", (51, 75), cascade(dict(BOX, reg_class_agnostic=True), scale=10)),
    ("pola_swin", (64, 96), cascade(dict(CONVOLVED, norm_cfg=None), [MASK, dict(MASK, num_convs=1)], 2, scale=12)),
    # equal scores, no proposals, no boxes
    ("mavit", (64, 64), case(zero=("rpn_head.rpn_cls.",))),
    ("mavit", (64, 64), case(zero=("roi_head.bbox_head.fc_cls.",), rcnn_test={"max_per_img": 50})),
    ("mavit", (64, 64), case(rpn_test={"min_bbox_size": 1000})),
    ("pola_pvt", (64, 64), cascade(rcnn_test={"score_thr": 1.0})),
]


def make(rng, family, rpn, roi, test, zero):
    config, tensors = backbone(family, rng)
    neck, rpn, roi = copy.deepcopy((NECK, rpn, roi))
    w = Heads(rng)
    neck["in_channels"] = WIDTHS[family]
    w.neck(neck)
    w.proposals(rpn, len(decoders.anchors_of(rpn["anchor_generator"])))
    for i in range(stages_of(roi)):
        w.boxes(roi, i)
        if "mask_head" in roi:
            w.masks(roi, i)
    for name in w.t:
        if name.startswith(zero):
            w.t[name] = np.zeros_like(w.t[name])
    config.update(neck=neck, rpn_head=rpn, roi_head=roi, test_cfg=test)
    return config, tensors, w.t


def compare(want, got, b, probabilities):
    """Boxes with equal scores may differ in order only if their scores do not differ by more than the tolerance."""
    mine = got["detections.image"] == b
    have = list(zip(got["detections.scores"][mine], got["detections.labels"][mine], got["detections.boxes"][mine],
                    range(int(mine.sum()))))
    if len(have) != len(want):
        return "%d boxes, not %d" % (len(have), len(want))
    for n, (score, label, box) in enumerate(want):
        same = [h for h in have if h[1] == label and abs(h[0] - score) <= TOLERANCE and
                (overlap(np.float64(h[2]), box) >= 0.999 or abs(h[2] - box).max() <= 2e-3)]
        if not same:
            return "no box %s of class %d with score %.6f" % (np.round(box, 3), label, score)
        if probabilities is not None:
            cells = got["pred_masks"][b].ravel().reshape(-1, probabilities.shape[1] ** 2)[same[0][3]]
            error = abs(cells - probabilities[n].ravel()).max()
            if not error <= TOLERANCE:
                return "the mask of box %d is off by %.1e" % (n, error)
        have.remove(same[0])
    return None


class Tests(decoders.Tests):
    def case(self, family, size, case):
        rpn, roi, test, zero = case
        what = "%s on %s at %d x %d" % (roi["type"], family, *size)
        config, tensors, head = make(self.rng, family, *case)
        self.write(config, {"module.backbone." + n: v for n, v in tensors.items()},
                   {"module." + n: v for n, v in head.items()})
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
                x = fpn(x, head, config["neck"])
                found = detections(x, head, roi, test["rcnn"], size, proposals(x, head, rpn, test["rpn"], size))
                probabilities = masks(x, head, roi, found) if "mask_head" in roi and found else None
                difference = compare(found, got, b, probabilities)
                bad += ["picture %d: %s" % (b, difference)] if difference else []
            self.note("%s, %s" % (what, " ".join(options)), "; ".join(bad))
        one = outputs[0]
        for how, other in (("schedules", outputs[1]), ("threads", outputs[2])):
            self.note("%s by %s" % (what, how), ", ".join(n for n in one if one[n].tobytes() != other[n].tobytes()))

    def not_a_number(self):
        """NaN gives no boxes, and masks of nothing."""
        config, tensors, head = make(self.rng, "mavit", *case())
        self.write(config, {"backbone." + n: v for n, v in tensors.items()}, head)
        save(self.path("io.safetensors"), {"input": np.full((1, 3, 64, 64), np.nan, np.float32)})
        code, message = self.run()
        found = len(load(self.path("out.safetensors"))["detections.scores"]) if code == 0 else message
        self.note("a picture of NaN", None if found == 0 else "%s boxes" % found)

    def photograph(self):
        """Masks are those of the boxes, pasted to the pixels of the photograph."""
        config, tensors, head = make(self.rng, "mavit", *case(scale=8))
        self.write(config, {"backbone." + n: v for n, v in tensors.items()}, head)
        wide, high = [int(x) for x in open(PICTURE, "rb").read(20).split()[1:3]]
        pre = {"do_resize": True, "size": {"width": 96, "height": 64}, "do_center_crop": False, "image_mean": [0.5] * 3,
               "image_std": [0.5] * 3}
        json.dump(pre, open(self.path("preprocessor_config.json"), "w"))
        for rule in ("instance", "panoptic"):
            code, message = self.run("--masks", self.path("masks.json"), "--mask-rule", rule, "--score", "0.051",
                                     "--overlay", self.path("overlay.png"), inputs=[PICTURE])
            if code:
                self.note("masks of a photograph, " + rule, message)
                continue
            got, coco = load(self.path("out.safetensors")), json.load(open(self.path("masks.json")))
            scale = np.array([wide / 96, high / 64] * 2)
            cells = got["pred_masks"].ravel().reshape(-1, 8, 8)
            taken, want = np.zeros((high, wide), bool), []
            for box, score, label, mask in zip(got["detections.boxes"], got["detections.scores"],
                                               got["detections.labels"], cells):
                pixels = pasted(np.float64(mask), np.float64(box) * scale, (high, wide))
                if rule == "panoptic":
                    pixels, taken = pixels & ~taken, taken | pixels
                if score > 0.051 and pixels.any():
                    want.append((score, label, pixels))
            bad = None if len(coco) == len(want) > 1 else "%d masks, not %d" % (len(coco), len(want))
            for entry, (score, label, pixels) in zip(coco, want):
                mine = decoded(entry["segmentation"])
                same = (mine & pixels).sum() / (mine | pixels).sum()
                if entry["category_id"] != label or abs(entry["score"] - score) > 1e-6 or same < 0.999:
                    bad = "class %d, score %.6f, overlap %.4f" % (entry["category_id"], entry["score"], same)
            self.note("masks of a photograph, " + rule, bad)
        os.remove(self.path("preprocessor_config.json"))

    def refusals(self):
        def each(made, changes):
            config, tensors, head = make(self.rng, "mavit", *made)
            self.write(config, {"backbone." + n: v for n, v in tensors.items()}, head)
            for section, key, value, text in changes:
                c = copy.deepcopy(config)
                inner = c
                for part in section.split("."):
                    inner = inner[int(part)] if isinstance(inner, list) else inner.setdefault(part, {})
                inner[key] = value
                self.refused("%s.%s = %s" % (section, key, value), c, "config.json", text)

        pictures = self.rng.standard_normal((1, 3, 64, 64)).astype(np.float32)
        save(self.path("io.safetensors"), {"input": pictures})
        box, mask, layer = "roi_head.bbox_head", "roi_head.mask_head", "roi_head.bbox_roi_extractor.roi_layer"
        each(case(), [
            ("rpn_head", "type", "GARPNHead", "rpn_head.type"), ("rpn_head", "num_convs", 2, "rpn_head.num_convs"),
            ("rpn_head", "anchor_generator", None, "rpn_head.anchor_generator"),
            ("rpn_head", "in_channels", 5, "rpn_head.in_channels"), ("rpn_head", "newest", 1, "rpn_head.newest"),
            ("rpn_head.bbox_coder", "clip_border", False, "rpn_head.bbox_coder.clip_border"),
            ("rpn_head.anchor_generator", "strides", [4, 8], "rpn_head.anchor_generator.strides"),
            ("rpn_head.loss_cls", "use_sigmoid", False, "rpn_head.loss_cls.use_sigmoid"),
            ("roi_head", "type", "HybridTaskCascadeRoIHead", "roi_head.type"),
            ("roi_head", "shared_head", {"type": "ResLayer"}, "roi_head.shared_head"),
            ("roi_head", "mask_roi_extractor", None, "roi_head.mask_roi_extractor"),
            ("roi_head", "bbox_head", 3, "roi_head.bbox_head"), ("roi_head", "bbox_head", [], "roi_head.bbox_head"),
            ("roi_head.bbox_roi_extractor", "featmap_strides", [4] * 5, "featmap_strides"),
            ("roi_head.bbox_roi_extractor", "featmap_strides", [0], "featmap_strides"),
            ("roi_head.bbox_roi_extractor", "out_channels", 7, "out_channels"),
            ("roi_head.bbox_roi_extractor", "finest_scale", 0, "finest_scale"),
            (layer, "sampling_ratio", 2, "sampling_ratio"), (layer, "output_size", 10**6, "output_size"),
            (layer, "aligned", False, "aligned"), (layer, "type", "RoIPool", "roi_layer.type"),
            (box, "type", "DoubleConvFCBBoxHead", "bbox_head.type"), (box, "num_classes", 0, "bbox_head.num_classes"),
            (box, "num_classes", 2**40, "bbox_head.num_classes"), (box, "num_cls_fcs", 1, "bbox_head.num_cls_fcs"),
            (box, "roi_feat_size", 7, "bbox_head.roi_feat_size"), (box, "in_channels", 5, "bbox_head.in_channels"),
            (box, "with_avg_pool", True, "bbox_head.with_avg_pool"), (box, "num_shared_fcs", 99, "num_shared_fcs"),
            (box, "fc_out_channels", 11, "shared_fcs.0.weight"),
            (box + ".bbox_coder", "clip_border", False, "bbox_head.bbox_coder.clip_border"),
            (box + ".loss_cls", "use_sigmoid", True, "bbox_head.loss_cls.use_sigmoid"),
            (mask, "type", "CoarseMaskHead", "mask_head.type"), (mask, "num_classes", 3, "mask_head.num_classes"),
            (mask, "conv_kernel_size", 5, "mask_head.conv_kernel_size"), (mask, "num_convs", 3, "convs.2"),
            (mask, "upsample_cfg", {"type": "carafe"}, "upsample_cfg.type"),
            (mask, "upsample_cfg", {"type": "deconv", "scale_factor": 4}, "upsample_cfg.scale_factor"),
            ("test_cfg", "newest", {}, "test_cfg.newest"), ("test_cfg.rpn", "nms_pre", 10**9, "test_cfg.rpn.nms_pre"),
            ("test_cfg.rpn", "nms", {"type": "soft_nms"}, "test_cfg.rpn.nms.type"),
            ("test_cfg.rcnn", "max_per_img", 0, "test_cfg.rcnn.max_per_img"),
            ("test_cfg.rcnn", "score_thr", 2, "test_cfg.rcnn.score_thr"),
            ("test_cfg.rcnn", "mask_thr_binary", 0.4, "test_cfg.rcnn.mask_thr_binary"),
        ])
        each(cascade(), [
            ("roi_head", "num_stages", 4, "roi_head.num_stages"), ("roi_head", "num_stages", 2, "roi_head.bbox_head"),
            ("roi_head.bbox_head.1", "num_classes", 5, "bbox_head"),
            ("roi_head.bbox_head.2", "norm_cfg", {"type": "LN"}, "norm_cfg.type"),
        ])

    def unknown(self):
        config, tensors, head = make(self.rng, "mavit", *case())
        for name in ("rpn_head.centerness.weight", "roi_head.semantic_head.weight"):
            self.write(config, {"backbone." + n: v for n, v in tensors.items()}, head, {name: np.zeros((1, 4), np.float32)})
            code, message = self.run()
            self.note("tensor " + name, None if code == 7 and name in message else message)
        grouped = {n.replace(".conv.bias", ".gn.bias"): v for n, v in head.items() if n.endswith("convs.0.conv.bias")}
        grouped.update({n.replace(".conv.bias", ".gn.weight"): v for n, v in head.items() if n.endswith("convs.0.conv.bias")
                        and "mask" in n})
        left = {n: v for n, v in head.items() if not n.endswith("mask_head.convs.0.conv.bias")}
        config["roi_head"]["mask_head"]["norm_cfg"] = {"type": "GN", "num_groups": 5}
        self.write(config, {"backbone." + n: v for n, v in tensors.items()}, left,
                   {n: v for n, v in grouped.items() if "mask_head" in n})
        code, message = self.run()
        self.note("group normalisation of regions", None if code == 7 and "group normalisation" in message else message)
        config["fovea"] = {"ignore": ["roi_head"]}
        self.write(config, {"backbone." + n: v for n, v in tensors.items()}, head)
        code, message = self.run()
        self.note("an ignored head", None if code == 0 else message)


def decoded(segmentation):
    """The pixels of COCO's packed run lengths."""
    high, wide = segmentation["size"]
    runs, text, at = [], segmentation["counts"], 0
    while at < len(text):
        x = shift = 0
        while True:
            c = ord(text[at]) - 48
            at += 1
            x |= (c & 31) << shift
            shift += 5
            if not c & 32:
                x -= (1 << shift) if c & 16 else 0
                break
        runs.append(x + (runs[-2] if len(runs) > 2 else 0))
    flat = np.concatenate([np.full(n, i % 2, bool) for i, n in enumerate(runs)])
    return flat.reshape(wide, high).T


def main(argv):
    with tempfile.TemporaryDirectory() as folder:
        tests = Tests(os.path.abspath(argv[0]), folder)
        for made in CASES:
            tests.case(*made)
        tests.not_a_number()
        tests.photograph()
        tests.refusals()
        tests.unknown()
    print("%d passed, %d failed, 0 skipped" % (tests.passed, tests.failed))
    return 1 if tests.failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
