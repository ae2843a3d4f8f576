#!/usr/bin/env python3
"""make_mask_rcnn.py: makes tests/data/golden/models/mavit-mask-rcnn-01 and mavit-cascade-rcnn-01, small Mask R-CNNs
with random weights, with PyTorch and torchvision.

    pip install torch==2.15.0 torchvision==0.29.2 numpy safetensors      # several GB, into a virtual environment
    python3 make_mask_rcnn.py

test_golden.py expects float64 results for a random input that is not square. They are computed as mmdetection 3
does, with torchvision's roi_align and nms. Checkpoints and the features of the backbone are those of
tests/models/test_mask_rcnn.py and test_pyramid.py.
"""
import json
import os
import shutil
import sys

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.numpy import save_file
from torchvision.ops import nms, roi_align

TESTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
sys.path.insert(0, os.path.join(TESTS, "models"))
import test_mask_rcnn as rcnn  # noqa: E402
import test_pyramid as pyramid  # noqa: E402

MODELS = os.path.join(TESTS, "data", "golden", "models")
SIZE = (64, 80)
FEW = {"max_per_img": 5}
# With these seeds, weights of float16 give the same boxes in the same order, which test_half.py expects.
CASES = {"mavit-mask-rcnn-01": (5, rcnn.case(scale=10, rcnn_test=FEW)),
         "mavit-cascade-rcnn-01": (33, rcnn.cascade(scale=10, rcnn_test=FEW))}


def conv(x, t, name, **options):
    w = t[name + ".weight"]
    return F.conv2d(x, w, t.get(name + ".bias"), padding=w.shape[-1] // 2, **options)


def module(x, t, name):
    """A convolution with batch normalisation and ReLU, where the checkpoint has them."""
    x = conv(x, t, name + ".conv")
    if name + ".bn.weight" in t:
        x = F.batch_norm(x, *(t["%s.bn.%s" % (name, p)] for p in ("running_mean", "running_var", "weight", "bias")),
                         eps=1e-5)
    return F.relu(x)


def neck(x, t, outs):
    lateral = [conv(v, t, "neck.lateral_convs.%d.conv" % i) for i, v in enumerate(x)]
    for i in range(len(lateral) - 1, 0, -1):
        lateral[i - 1] = lateral[i - 1] + F.interpolate(lateral[i], size=lateral[i - 1].shape[-2:], mode="nearest")
    out = [conv(v, t, "neck.fpn_convs.%d.conv" % i) for i, v in enumerate(lateral)]
    while len(out) < outs:
        out.append(F.max_pool2d(out[-1], 1, stride=2))
    return out


def decode(box, delta, std):
    delta = delta * torch.tensor(std, dtype=delta.dtype)
    side, centre = box[..., 2:] - box[..., :2], (box[..., 2:] + box[..., :2]) / 2
    side, centre = side * delta[..., 2:].clamp(-rcnn.GROWTH, rcnn.GROWTH).exp(), centre + side * delta[..., :2]
    box = torch.cat([centre - side / 2, centre + side / 2], -1)
    limit = torch.tensor([SIZE[1], SIZE[0]] * 2, dtype=box.dtype)
    return torch.minimum(box.clamp(min=0), limit)


def keep(boxes, scores, classes, threshold, most):
    """The indices of the kept boxes; an offset separates different classes, as by mmcv's batched_nms."""
    shifted = boxes + (classes * (boxes.max() + 1))[:, None]
    return nms(shifted, scores, threshold)[:most]


def proposals(x, t, head, test):
    boxes, scores, levels = [], [], []
    base = torch.tensor(rcnn.decoders.anchors_of(head["anchor_generator"]), dtype=x[0].dtype)
    for i, v in enumerate(x):
        h = F.relu(conv(v, t, "rpn_head.rpn_conv"))
        score = conv(h, t, "rpn_head.rpn_cls").permute(0, 2, 3, 1).reshape(-1)
        delta = conv(h, t, "rpn_head.rpn_reg").permute(0, 2, 3, 1).reshape(-1, 4)
        stride = head["anchor_generator"]["strides"][i]
        y, x0 = torch.meshgrid(torch.arange(v.shape[2]), torch.arange(v.shape[3]), indexing="ij")
        anchors = (torch.stack([x0, y, x0, y], -1)[:, :, None] + base) * stride
        score, best = score.sort(descending=True)
        best = best[:test["nms_pre"]]
        box = decode(anchors.reshape(-1, 4)[best], delta[best], [1., 1., 1., 1.])
        good = ((box[:, 2:] - box[:, :2]) > test["min_bbox_size"]).all(1)
        boxes.append(box[good])
        scores.append(score[:len(best)][good].sigmoid())
        levels.append(torch.full((len(boxes[-1]),), i))
    boxes, scores, levels = torch.cat(boxes), torch.cat(scores), torch.cat(levels)
    return boxes[keep(boxes, scores, levels, test["nms"]["iou_threshold"], test["max_per_img"])]


def extract(x, c, boxes):
    size = c["roi_layer"]["output_size"]
    level = torch.log2((boxes[:, 2:] - boxes[:, :2]).prod(1).sqrt() / c["finest_scale"] + 1e-6).floor()
    level = level.clamp(0, len(c["featmap_strides"]) - 1)
    out = boxes.new_zeros(len(boxes), x[0].shape[1], size, size)
    for i, stride in enumerate(c["featmap_strides"]):
        rois = torch.cat([boxes.new_zeros(len(boxes), 1), boxes], 1)[level == i]
        out[level == i] = roi_align(x[i], rois, size, 1 / stride, 0, True)
    return out


def detect(x, t, roi, test, boxes):
    total, stages = 0, rcnn.stages_of(roi)
    for i in range(stages):
        c, name = rcnn.stage_of(roi, "bbox_head", i), rcnn.stem(roi, "bbox_head", i)
        h = extract(x, roi["bbox_roi_extractor"], boxes)
        convs, linear = rcnn.layers_of(c)
        for k in range(convs):
            h = module(h, t, "%sshared_convs.%d" % (name, k))
        h = h.flatten(1)
        for k in range(linear):
            h = F.relu(F.linear(h, t["%sshared_fcs.%d.weight" % (name, k)], t["%sshared_fcs.%d.bias" % (name, k)]))
        logits = F.linear(h, t[name + "fc_cls.weight"], t[name + "fc_cls.bias"])
        delta = F.linear(h, t[name + "fc_reg.weight"], t[name + "fc_reg.bias"]).reshape(len(h), -1, 4)
        total = total + logits / stages
        moved = decode(boxes[:, None], delta, c["bbox_coder"]["target_stds"])
        if i + 1 < stages:
            boxes = moved[torch.arange(len(h)), logits[:, :-1].argmax(1)]
    scores = total.softmax(1)[:, :-1]
    row, label = (scores > test["score_thr"]).nonzero(as_tuple=True)
    boxes, scores = moved[row, label], scores[row, label]
    kept = keep(boxes, scores, label, test["nms"]["iou_threshold"], test["max_per_img"])
    return boxes[kept], scores[kept], label[kept]


def masks(x, t, roi, boxes, label):
    total, stages = 0, rcnn.stages_of(roi)
    for i in range(stages):
        c, name = rcnn.stage_of(roi, "mask_head", i), rcnn.stem(roi, "mask_head", i)
        h = extract(x, roi["mask_roi_extractor"], boxes)
        for k in range(c["num_convs"]):
            h = module(h, t, "%sconvs.%d" % (name, k))
        h = F.relu(F.conv_transpose2d(h, t[name + "upsample.weight"], t[name + "upsample.bias"], stride=2))
        total = total + conv(h, t, name + "conv_logits").sigmoid() / stages
    return total[torch.arange(len(label)), label]



def results(config, case, head, features, kind):
    """The outputs, computed in this type."""
    rpn, roi, test, _ = case
    t = {n: torch.tensor(v, dtype=kind) for n, v in head.items()}
    x = neck([torch.tensor(features["stage%d" % (i + 1)], dtype=kind)[None] for i in range(3)], t,
             config["neck"]["num_outs"])
    boxes, scores, label = detect(x, t, roi, test["rcnn"], proposals(x, t, rpn, test["rpn"]))
    if len(boxes) < test["rcnn"]["max_per_img"]:
        raise SystemExit("only %d boxes were found" % len(boxes))
    mask = masks(x, t, roi, boxes, label)
    out = {"pred_scores": torch.stack([scores, label.to(kind)], 1)[None], "pred_boxes": boxes[None],
           "pred_masks": mask.reshape(1, 1, -1, mask.shape[2])}
    return {n: np.float64(v.numpy()) for n, v in out.items()}


def main():
    for name, (seed, case) in CASES.items():
        rng = np.random.default_rng(seed)
        config, backbone, head = rcnn.make(rng, "mavit", *case)
        picture = rng.standard_normal((3,) + SIZE).astype(np.float32)
        features = pyramid.forward(backbone, np.float64(picture), config)
        want = results(config, case, head, features, torch.float64)
        rough = results(config, case, head, features, torch.float32)
        error = {n: "%.1e" % (abs(rough[n] - v).max() / abs(v).max()) for n, v in want.items()}
        folder = os.path.join(MODELS, name)
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)
        with open(folder + "/config.json", "w") as f:
            json.dump(config, f, indent=1)
        save_file({**{"backbone." + n: v for n, v in backbone.items()}, **head}, folder + "/model.safetensors")
        save_file({"input": picture[None], **{n: np.float32(v) for n, v in want.items()}}, folder + "/io.safetensors",
                  {"fp32_rel_err": json.dumps({n: float(v) for n, v in error.items()}),
                   "computed_in": "float64, stored as float32", "source": "tests/data/make_mask_rcnn.py"})
        print(name, error)


if __name__ == "__main__":
    main()
