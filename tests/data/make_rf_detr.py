#!/usr/bin/env python3
"""make_rf_detr.py: makes tests/data/golden/models/rf-detr-02 and, with --masks, rf-detr-seg-01: a small RF-DETR with
random weights.

    make_rf_detr.py FOLDER [--masks] [--check GOLDEN]

The forward pass is a second implementation of transformers' RfDetrForObjectDetection and
RfDetrForInstanceSegmentation in NumPy and float64. With --check it is first verified against the outputs of a golden
folder that was made with such a class. Sizes that are not square are split into windows as in these classes.
"""
import argparse
import json
import math
import os
import struct
import sys

import numpy as np

SEED, INPUT = 52, (42, 28)
CONFIG = {
    "architectures": ["RfDetrForObjectDetection"], "model_type": "rf_detr", "activation_function": "silu",
    "attention_bias": True, "c2f_num_blocks": 1, "d_model": 16, "decoder_activation_function": "relu",
    "decoder_cross_attention_heads": 2, "decoder_ffn_dim": 24, "decoder_layers": 2, "decoder_n_points": 3,
    "decoder_self_attention_heads": 4, "group_detr": 2, "hidden_expansion": 0.5, "layer_norm_eps": 1e-5,
    "num_feature_levels": 1, "num_queries": 5,
    "id2label": {str(i): f"LABEL_{i}" for i in range(4)}, "label2id": {f"LABEL_{i}": i for i in range(4)},
    "backbone_config": {
        "model_type": "rf_detr_dinov2", "apply_layernorm": True, "hidden_act": "gelu", "hidden_size": 16, "image_size": 28,
        "layer_norm_eps": 1e-6, "mlp_ratio": 2, "num_attention_heads": 2, "num_channels": 3, "num_hidden_layers": 3,
        "num_windows": 2, "out_features": ["stage1", "stage3"], "out_indices": [1, 3], "patch_size": 7, "qkv_bias": True,
        "reshape_hidden_states": True, "use_mask_token": True, "use_swiglu_ffn": False},
}
WITH_MASKS = {"architectures": ["RfDetrForInstanceSegmentation"], "intermediate_size": 24, "mask_downsample_ratio": 4,
              "segmentation_head_activation_function": "gelu"}
BACKBONE = "backbone.0.encoder.encoder."


# ---- what the model computes ----

def linear(w, x, name):
    y = x @ w[name + "weight"].reshape(len(w[name + "weight"]), -1).T
    return y + w[name + "bias"] if name + "bias" in w else y


def norm(w, x, name, eps):
    x = x - x.mean(-1, keepdims=True)
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * w[name + "weight"] + w[name + "bias"]


def activate(x, name):
    if name == "relu":
        return np.maximum(x, 0)
    if name == "silu":
        return x / (1 + np.exp(-x))
    return 0.5 * x * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def attention(q, k, v, heads):
    def cut(x):
        return x.reshape(*x.shape[:-1], heads, -1).swapaxes(-2, -3)
    q, k, v = cut(q), cut(k), cut(v)
    out = softmax(q @ k.swapaxes(-1, -2) / math.sqrt(q.shape[-1])) @ v
    out = out.swapaxes(-2, -3)
    return out.reshape(*out.shape[:-2], -1)


def taps(out, size):
    """Rows of a matrix that resizes `size` values to `out`: bicubic with a = -1/2, antialiased."""
    scale = size / out
    wide = max(scale, 1.0)
    m = np.zeros((out, size))
    for i in range(out):
        for j in range(size):
            t = abs((j + 0.5 - (i + 0.5) * scale) / wide)
            m[i, j] = ((1.5 * t - 2.5) * t * t + 1 if t < 1 else ((-0.5 * t + 2.5) * t - 4) * t + 2 if t < 2 else 0)
    return m / m.sum(1, keepdims=True)


def positions(w, c, rows, columns):
    table = w[BACKBONE + "embeddings.position_embeddings"][0]
    side = math.isqrt(len(table) - 1)
    grid = table[1:].reshape(side, side, -1)
    if (rows, columns) != (side, side):
        grid = np.einsum("yi,xj,ijc->yxc", taps(rows, side), taps(columns, side), grid)
    return table[0], grid.reshape(rows * columns, -1)


def backbone(w, c, picture):
    """The concatenated taps, (rows, columns, channels)."""
    b, p, n = c["backbone_config"], c["backbone_config"]["patch_size"], c["backbone_config"]["num_windows"]
    rows, columns = picture.shape[1] // p, picture.shape[2] // p
    high, wide = rows // n, columns // n
    pixels = picture[:, :rows * p, :columns * p].reshape(3, rows, p, columns, p)
    x = linear(w, pixels.transpose(1, 3, 0, 2, 4).reshape(rows * columns, -1), BACKBONE + "embeddings.patch_embeddings.projection.")
    first, grid = positions(w, c, rows, columns)
    first = first + w[BACKBONE + "embeddings.cls_token"].reshape(-1)
    # The order of transformers: width before height.
    x = (x + grid).reshape(n, wide, n, high, -1).swapaxes(1, 2).reshape(n * n, high * wide, -1)
    x = np.concatenate([np.broadcast_to(first, (n * n, 1, len(first))), x], 1)
    shape, found = x.shape, []
    for i in range(b["num_hidden_layers"] + 1):
        if i in b["out_indices"]:
            y = norm(w, x, BACKBONE + "layernorm.", b["layer_norm_eps"]) if b["apply_layernorm"] else x
            y = y[:, 1:].reshape(n, n, high, wide, -1).swapaxes(1, 2)
            found.append(y.reshape(rows, columns, -1))
        if i == b["num_hidden_layers"]:
            break
        name = f"{BACKBONE}encoder.layer.{i}."
        y = norm(w, x, name + "norm1.", b["layer_norm_eps"])
        if i in b["out_indices"] or i > b["out_indices"][-1]:
            y = y.reshape(1, -1, shape[-1])
        y = attention(*(linear(w, y, f"{name}attention.attention.{k}.") for k in ("query", "key", "value")), b["num_attention_heads"])
        x = x + w[name + "layer_scale1.lambda1"] * linear(w, y.reshape(shape), name + "attention.output.dense.")
        y = activate(linear(w, norm(w, x, name + "norm2.", b["layer_norm_eps"]), name + "mlp.fc1."), b["hidden_act"])
        x = x + w[name + "layer_scale2.lambda1"] * linear(w, y, name + "mlp.fc2.")
    return np.concatenate(found, -1)


def convolution(w, c, x, name):
    k = w[name + "conv.weight"]
    pad = k.shape[2] // 2
    rows, columns = x.shape[:2]
    x = np.pad(x, ((pad, pad), (pad, pad), (0, 0)))
    y = sum(x[i:i + rows, j:j + columns] @ k[:, :, i, j].T for i in range(k.shape[2]) for j in range(k.shape[3]))
    return activate(norm(w, y, name + "bn.", c["layer_norm_eps"]), c["activation_function"])


def projector(w, c, x):
    name = "backbone.0.projector.stages.0."
    x = convolution(w, c, x, name + "0.cv1.")
    parts = np.split(x, 2, -1)
    for i in range(c["c2f_num_blocks"]):
        y = convolution(w, c, parts[-1], f"{name}0.m.{i}.cv1.")
        parts.append(convolution(w, c, y, f"{name}0.m.{i}.cv2."))
    return norm(w, convolution(w, c, np.concatenate(parts, -1), name + "0.cv2."), name + "1.", 1e-6)


def delta(w, x, name):
    for i in range(3):
        x = linear(w, x, f"{name}layers.{i}.")
        x = np.maximum(x, 0) if i < 2 else x
    return x


def refine(box, d):
    return np.concatenate([d[:, :2] * box[:, 2:] + box[:, :2], np.exp(d[:, 2:]) * box[:, 2:]], -1)


def propose(w, c, memory):
    """Boxes at the positions with the best scores, and the differences between consecutive scores in that order."""
    rows, columns = memory.shape[:2]
    y, x = np.meshgrid((np.arange(rows) + 0.5) / rows, (np.arange(columns) + 0.5) / columns, indexing="ij")
    boxes = np.stack([x, y, np.full_like(x, 0.05), np.full_like(x, 0.05)], -1).reshape(-1, 4)
    inside = ((boxes > 0.01) & (boxes < 0.99)).all(-1)
    m = norm(w, linear(w, memory.reshape(rows * columns, -1), "transformer.enc_output.0."), "transformer.enc_output_norm.0.", 1e-5)
    score = np.where(inside, linear(w, m, "transformer.enc_out_class_embed.0.").max(-1), -np.inf)
    order = np.argsort(-score, kind="stable")
    best = order[:c["num_queries"]]
    gap = -np.diff(score[order[:c["num_queries"] + 1]])
    return refine(boxes[best], delta(w, m[best], "transformer.enc_out_bbox_embed.0.")), gap


def sines(boxes, n):
    rate = 2 * math.pi / 10000.0 ** (2 * (np.arange(n) // 2) / n)
    angle = boxes[:, [1, 0, 2, 3], None] * rate
    return np.where(np.arange(n) % 2, np.cos(angle), np.sin(angle)).reshape(len(boxes), -1)


def sample(values, x, y):
    """Interpolates `values` (rows, columns, d) at positions in units of values, with zeros outside."""
    out = np.zeros(x.shape + values.shape[2:])
    for i, at in np.ndenumerate(x):
        left, top = math.floor(at), math.floor(y[i])
        for line in (top, top + 1):
            for column in (left, left + 1):
                if 0 <= line < values.shape[0] and 0 <= column < values.shape[1]:
                    out[i] += (1 - abs(at - column)) * (1 - abs(y[i] - line)) * values[line, column]
    return out


def deform(w, c, x, memory, boxes, name):
    heads, points = c["decoder_cross_attention_heads"], c["decoder_n_points"]
    rows, columns = memory.shape[:2]
    values = linear(w, memory, name + "value_proj.").reshape(rows, columns, heads, -1)
    offset = linear(w, x, name + "sampling_offsets.").reshape(len(x), heads, points, 2)
    weight = softmax(linear(w, x, name + "attention_weights.").reshape(len(x), heads, points))
    at = boxes[:, None, None, :2] + offset / points * boxes[:, None, None, 2:] * 0.5
    out = [sample(values[:, :, h], at[:, h, :, 0] * columns - 0.5, at[:, h, :, 1] * rows - 0.5) for h in range(heads)]
    return linear(w, (np.stack(out, 1) * weight[..., None]).sum(2).reshape(len(x), -1), name + "output_proj.")


def between(out, size):
    """Rows of a matrix that resizes `size` values to `out`: bilinear, without align_corners or antialiasing."""
    at = np.clip((np.arange(out) + 0.5) * size / out - 0.5, 0, size - 1)
    low = at.astype(int)
    m = np.zeros((out, size))
    m[np.arange(out), low] += 1 - (at - low)
    m[np.arange(out), np.minimum(low + 1, size - 1)] += at - low
    return m


def depthwise(w, x, name):
    k = w[name + "weight"][:, 0]
    rows, columns = x.shape[:2]
    x = np.pad(x, ((1, 1), (1, 1), (0, 0)))
    return sum(x[i:i + rows, j:j + columns] * k[:, i, j] for i in range(3) for j in range(3)) + w[name + "bias"]


def masks(w, c, memory, x, size):
    h, act = "segmentation_head.", c["segmentation_head_activation_function"]
    rows, columns = (s // c["mask_downsample_ratio"] for s in size)
    y = np.einsum("yi,xj,ijc->yxc", between(rows, memory.shape[0]), between(columns, memory.shape[1]), memory)
    for i in range(c["decoder_layers"]):
        b = f"{h}blocks.{i}."
        y = y + activate(linear(w, norm(w, depthwise(w, y, b + "dwconv."), b + "norm.", 1e-6), b + "pwconv1."), act)
    q = h + "query_features_block."
    x = x + linear(w, activate(linear(w, norm(w, x, q + "norm_in.", 1e-5), q + "layers.0."), act), q + "layers.2.")
    x, y = linear(w, x, h + "query_features_proj."), linear(w, y, h + "spatial_features_proj.")
    return np.einsum("qc,yxc->qyx", x, y) + w[h + "bias"]


def forward(w, c, picture):
    memory = projector(w, c, backbone(w, c, picture))
    n, width = c["num_queries"], c["d_model"]
    best, gap = propose(w, c, memory)
    boxes = refine(best, w["refpoint_embed.weight"][:n])
    d = "transformer.decoder."
    place = np.maximum(linear(w, sines(boxes, width // 2), d + "ref_point_head.layers.0."), 0)
    place = linear(w, place, d + "ref_point_head.layers.1.")
    x = w["query_feat.weight"][:n]
    for i in range(c["decoder_layers"]):
        name = f"{d}layers.{i}."
        qkv, bias = np.split(w[name + "self_attn.in_proj_weight"], 3), np.split(w[name + "self_attn.in_proj_bias"], 3)
        q, k, v = ((x + place if j < 2 else x) @ qkv[j].T + bias[j] for j in range(3))
        y = linear(w, attention(q, k, v, c["decoder_self_attention_heads"]), name + "self_attn.out_proj.")
        x = norm(w, x + y, name + "norm1.", 1e-5)
        x = norm(w, x + deform(w, c, x + place, memory, boxes, name + "cross_attn."), name + "norm2.", 1e-5)
        y = activate(linear(w, x, name + "linear1."), c["decoder_activation_function"])
        x = norm(w, x + linear(w, y, name + "linear2."), name + "norm3.", 1e-5)
    x = norm(w, x, d + "norm.", 1e-5)
    out = {"logits": linear(w, x, "class_embed."), "pred_boxes": refine(boxes, delta(w, x, "bbox_embed."))}
    if "segmentation_head.bias" in w:
        out["pred_masks"] = masks(w, c, memory, x, picture.shape[1:])
    return out, gap


# ---- random weights ----

def weights(c, random):
    w = {}

    def tensor(name, *shape, mean=0.0, spread=0.3):
        w[name] = (mean + spread * random.standard_normal(shape)).astype(np.float32)

    def layer(name, out, into, size=None, gain=1.0):
        tensor(name + "weight", out, into, *(size or ()), spread=gain / math.sqrt(into * math.prod(size or (1,))))
        tensor(name + "bias", out, spread=0.1)

    def scale(name, n):
        tensor(name + "weight", n, mean=1.0)
        tensor(name + "bias", n)

    def head(name):
        for i in range(3):
            layer(f"{name}layers.{i}.", width if i < 2 else 4, width, gain=1.5 if i < 2 else 0.5)

    def conv(name, out, into, size):
        tensor(name + "conv.weight", out, into, size, size, spread=1 / math.sqrt(into * size * size))
        scale(name + "bn.", out)

    b, width, groups, classes = c["backbone_config"], c["d_model"], c["group_detr"], len(c["id2label"])
    n, hidden, side = b["hidden_size"], b["hidden_size"] * b["mlp_ratio"], b["image_size"] // b["patch_size"]
    tensor(BACKBONE + "embeddings.cls_token", 1, 1, n)
    tensor(BACKBONE + "embeddings.mask_token", 1, n)
    layer(BACKBONE + "embeddings.patch_embeddings.projection.", n, 3, (b["patch_size"],) * 2)
    tensor(BACKBONE + "embeddings.position_embeddings", 1, side * side + 1, n)
    for i in range(b["num_hidden_layers"]):
        name = f"{BACKBONE}encoder.layer.{i}."
        for k in ("query", "key", "value"):
            layer(f"{name}attention.attention.{k}.", n, n)
        layer(name + "attention.output.dense.", n, n)
        layer(name + "mlp.fc1.", hidden, n)
        layer(name + "mlp.fc2.", n, hidden)
        for k in (1, 2):
            tensor(f"{name}layer_scale{k}.lambda1", n, mean=1.0)
            scale(f"{name}norm{k}.", n)
    scale(BACKBONE + "layernorm.", n)
    half, p = int(width * c["hidden_expansion"]), "backbone.0.projector.stages.0."
    conv(p + "0.cv1.", 2 * half, n * len(b["out_indices"]), 1)
    for i in range(2 * c["c2f_num_blocks"]):
        conv(f"{p}0.m.{i // 2}.cv{i % 2 + 1}.", half, half, 3)
    conv(p + "0.cv2.", width, (2 + c["c2f_num_blocks"]) * half, 1)
    scale(p + "1.", width)
    tensor("query_feat.weight", groups * c["num_queries"], width, spread=1.0)
    tensor("refpoint_embed.weight", groups * c["num_queries"], 4)
    samples = c["decoder_cross_attention_heads"] * c["decoder_n_points"]
    for i in range(c["decoder_layers"]):
        name = f"transformer.decoder.layers.{i}."
        tensor(name + "self_attn.in_proj_weight", 3 * width, width, spread=1 / math.sqrt(width))
        tensor(name + "self_attn.in_proj_bias", 3 * width)
        layer(name + "self_attn.out_proj.", width, width)
        layer(name + "cross_attn.sampling_offsets.", 2 * samples, width, gain=6.0)  # also outside the grid
        layer(name + "cross_attn.attention_weights.", samples, width)
        layer(name + "cross_attn.value_proj.", width, width)
        layer(name + "cross_attn.output_proj.", width, width)
        layer(name + "linear1.", c["decoder_ffn_dim"], width)
        layer(name + "linear2.", width, c["decoder_ffn_dim"])
        for k in (1, 2, 3):
            scale(f"{name}norm{k}.", width)
    scale("transformer.decoder.norm.", width)
    layer("transformer.decoder.ref_point_head.layers.0.", width, 2 * width)
    layer("transformer.decoder.ref_point_head.layers.1.", width, width)
    for g in range(groups):
        layer(f"transformer.enc_output.{g}.", width, width)
        scale(f"transformer.enc_output_norm.{g}.", width)
        layer(f"transformer.enc_out_class_embed.{g}.", classes, width)
        head(f"transformer.enc_out_bbox_embed.{g}.")
    layer("class_embed.", classes, width)
    head("bbox_embed.")
    if "mask_downsample_ratio" in c:
        mask_head(c, tensor, layer, scale)
    return w


def mask_head(c, tensor, layer, scale):
    h, width = "segmentation_head.", c["d_model"]
    for i in range(c["decoder_layers"]):
        tensor(f"{h}blocks.{i}.dwconv.weight", width, 1, 3, 3, spread=1 / 3)
        tensor(f"{h}blocks.{i}.dwconv.bias", width)
        scale(f"{h}blocks.{i}.norm.", width)
        layer(f"{h}blocks.{i}.pwconv1.", width, width)
    layer(h + "spatial_features_proj.", width, width, (1, 1))
    scale(h + "query_features_block.norm_in.", width)
    layer(h + "query_features_block.layers.0.", c["intermediate_size"], width)
    layer(h + "query_features_block.layers.2.", width, c["intermediate_size"])
    layer(h + "query_features_proj.", width, width)
    tensor(h + "bias", 1, mean=0.7)


# ---- files ----

def read(path):
    with open(path, "rb") as f:
        blob = f.read()
    n = struct.unpack("<Q", blob[:8])[0]
    head = json.loads(blob[8:8 + n])
    head.pop("__metadata__", None)
    return {k: np.frombuffer(blob[8 + n:][slice(*t["data_offsets"])], np.float32).reshape(t["shape"]) for k, t in head.items()}


def write(path, tensors, metadata):
    head, at = {"__metadata__": metadata}, 0
    for name, t in tensors.items():
        head[name] = {"dtype": "F32", "shape": list(t.shape), "data_offsets": [at, at + t.nbytes]}
        at += t.nbytes
    text = json.dumps(head).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + b"".join(t.astype(np.float32).tobytes() for t in tensors.values()))


def run(w, c, picture):
    return forward({k: v.astype(np.float64) for k, v in w.items()}, c, picture.astype(np.float64))


def check(folder):
    with open(os.path.join(folder, "config.json"), encoding="utf-8") as f:
        config = json.load(f)
    io = read(os.path.join(folder, "io.safetensors"))
    got, _ = run(read(os.path.join(folder, "model.safetensors")), config, io["input"][0])
    for name, value in got.items():
        off = np.abs(value - io[name][0]).max() / np.abs(io[name]).max()
        print(f"{folder}: {name} off by {off:.1e}")
        if not off < 2e-6:  # float32 in that class
            sys.exit("that is too much")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--masks", action="store_true")
    parser.add_argument("--check")
    options = parser.parse_args()
    config = dict(CONFIG, **WITH_MASKS) if options.masks else CONFIG
    if options.check:
        check(options.check)
    random = np.random.default_rng(SEED)
    w = weights(config, random)
    picture = random.standard_normal((1, 3, *INPUT)).astype(np.float32)
    out, gap = run(w, config, picture[0])
    print("gaps between the best scores:", np.round(gap, 3))
    os.makedirs(options.folder, exist_ok=True)
    golden = {"input_shape": list(picture.shape), "source": "tests/data/make_rf_detr.py"}
    with open(os.path.join(options.folder, "config.json"), "w", encoding="utf-8") as f:
        json.dump(dict(config, golden=golden), f, indent=1)
        f.write("\n")
    write(os.path.join(options.folder, "model.safetensors"), w, {"format": "pt"})
    io = dict({"input": picture}, **{k: v[None].astype(np.float32) for k, v in out.items()})
    write(os.path.join(options.folder, "io.safetensors"), io,
          {"computed_in": "float64, stored as float32", "source": golden["source"],
           "fp32_rel_err": json.dumps({k: 2e-06 for k in out})})


if __name__ == "__main__":
    main()
