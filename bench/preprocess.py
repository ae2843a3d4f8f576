#!/usr/bin/env python3
"""preprocess.py: times the conversion of a camera's frame to normalised pixels, alternating with torchvision.

    FOVEA_LIBRARY=build/src/libfovea.so python3 bench/preprocess.py [WIDTHxHEIGHT [SIDE [THREADS]]]

A small model runs on frames that it has to resize and normalise, and on pixels that are already resized and
normalised; preprocessing is the difference. torchvision resizes a tensor of bytes and normalises it, as the image
processors of transformers do. The fastest of many calls is printed, because other load can only make a call slower.
"""
import json
import os
import sys
import tempfile
import time

# Otherwise PyTorch's threads would keep both processors busy while Fovea is measured.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python"))
import numpy as np  # noqa: E402

import fovea  # noqa: E402
from fovea import _pixels, _plan  # noqa: E402

EXACT, TORCHVISION, PILLOW, FLOAT = 2, 0, 1, 2
FILTERS = {"bilinear": 0, "bicubic": 1}
MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
SECONDS = 8
WIDTH = 32  # of the model
CONFIG = {"model_type": "dinov2", "architectures": ["Dinov2Model"], "hidden_size": WIDTH, "num_hidden_layers": 1,
          "num_attention_heads": 1, "mlp_ratio": 1, "layer_norm_eps": 1e-6, "num_channels": 3, "qkv_bias": True,
          "hidden_act": "gelu", "layerscale_value": 1.0, "use_swiglu_ffn": False}


def small_model(folder, side):
    """Writes a one-block DINOv2 with random weights; large patches keep its share of a frame small."""
    patch = next(p for p in range(32, side + 1) if side % p == 0)
    shapes = {"embeddings.cls_token": (1, 1, WIDTH), "embeddings.mask_token": (1, WIDTH),
              "embeddings.position_embeddings": (1, (side // patch) ** 2 + 1, WIDTH),
              "embeddings.patch_embeddings.projection.weight": (WIDTH, 3, patch, patch),
              "embeddings.patch_embeddings.projection.bias": (WIDTH,), "layernorm.weight": (WIDTH,),
              "layernorm.bias": (WIDTH,)}
    layer = "encoder.layer.0."
    for name in ("attention.attention.query", "attention.attention.key", "attention.attention.value",
                 "attention.output.dense", "mlp.fc1", "mlp.fc2"):
        shapes[layer + name + ".weight"], shapes[layer + name + ".bias"] = (WIDTH, WIDTH), (WIDTH,)
    for name in ("norm1.weight", "norm1.bias", "norm2.weight", "norm2.bias", "layer_scale1.lambda1",
                 "layer_scale2.lambda1"):
        shapes[layer + name] = (WIDTH,)
    random, header, data = np.random.default_rng(0), {}, b""
    for name, shape in shapes.items():
        values = random.normal(0, 0.1, shape).astype("<f4").tobytes()
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + len(values)]}
        data += values
    text = json.dumps(header).encode()
    with open(os.path.join(folder, "model.safetensors"), "wb") as f:
        f.write(len(text).to_bytes(8, "little") + text + data)
    with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as f:
        json.dump(dict(CONFIG, image_size=side, patch_size=patch), f)


def frame_call(model, pixels, kind, rule):
    """A function without arguments that runs a frame; `rule` None: without preprocessing."""
    wanted = _plan.rule_of
    if rule:
        _plan.rule_of = lambda _: rule
    try:
        plan = model.plan(pixels, attention="linear:elu1", format=kind, preprocess=rule is not None)
    finally:
        _plan.rule_of = wanted
    outputs = [np.empty(shape, np.float32) for shape in plan._shapes]
    places, frame = _plan.places(outputs), _pixels.planes(pixels, kind, plan.frame[2])
    keep = outputs, pixels
    return lambda: (fovea._lib.fovea_run(plan, frame, places, len(places)), keep)


def rule_for(model, side, filt, resample):
    rule = _plan.rule_of(model)
    rule.resize, rule.filter = EXACT, FILTERS[filt]
    rule.resize_width = rule.resize_height = side
    rule.crop_width = rule.crop_height = 0
    if hasattr(rule, "resample"):
        rule.resample = resample
    return rule


def peer_calls(rgb, side, threads):
    try:
        import torch
        from torchvision.transforms.v2 import functional as F
    except ImportError:
        return {}
    torch.set_num_threads(threads)
    picture = torch.from_numpy(rgb).permute(2, 0, 1).contiguous()[None]
    mean, std = torch.tensor(MEAN) * 255, torch.tensor(STD) * 255
    modes = {"bilinear": F.InterpolationMode.BILINEAR, "bicubic": F.InterpolationMode.BICUBIC}

    def bytes_first(mode):
        return lambda: F.normalize(F.resize(picture, [side, side], mode).to(torch.float32), mean, std, inplace=True)

    def floats(mode):
        return lambda: F.normalize(F.resize(picture * (1 / 255), [side, side], mode), MEAN, STD)
    return {("torchvision", kind, filt): call(mode) for filt, mode in modes.items()
            for kind, call in (("bytes", bytes_first), ("floats", floats))}


def main():
    width, height = map(int, (sys.argv[1] if len(sys.argv) > 1 else "1280x720").split("x"))
    side = int(sys.argv[2]) if len(sys.argv) > 2 else 518
    threads = int(sys.argv[3]) if len(sys.argv) > 3 else 2
    random = np.random.default_rng(1)
    rgb = random.integers(0, 256, (height, width, 3), np.uint8)
    nv12 = random.integers(0, 256, (height * 3 // 2, width), np.uint8)
    own = random.normal(0, 1, (3, side, side)).astype(np.float32)
    with tempfile.TemporaryDirectory() as folder:
        small_model(folder, side)
        model = fovea.load(folder, device=fovea.Device("cpu", threads=threads))
    calls = {("pixels already preprocessed",): frame_call(model, own, "planes_f32", None)}
    for filt in FILTERS:
        for kind, pixels in (("rgb8", rgb), ("nv12", nv12)):
            for name, resample in (("bytes", TORCHVISION), ("Pillow's bytes", PILLOW), ("floats", FLOAT)):
                calls[kind, name, filt] = frame_call(model, pixels, kind, rule_for(model, side, filt, resample))
    calls.update(peer_calls(rgb, side, threads))
    times = {name: [] for name in calls}
    for call in calls.values():
        call()
    end = time.perf_counter() + SECONDS
    while time.perf_counter() < end:
        for name, call in calls.items():
            begin = time.perf_counter()
            call()
            times[name].append(time.perf_counter() - begin)
    least = {name: min(values) for name, values in times.items()}
    base = least["pixels already preprocessed",]
    print("%dx%d to %dx%d, %d threads, %d turns" % (width, height, side, side, threads, len(times[next(iter(times))])))
    print("%-36s %7.2f ms" % ("pixels already preprocessed", base * 1e3))
    for name, seconds in least.items():
        if len(name) < 3:
            continue
        text = "%-36s %7.2f ms" % (" ".join(name), seconds * 1e3)
        peer = least.get(("torchvision", "floats" if name[1] == "floats" else "bytes", name[2]))
        if name[0] != "torchvision":
            preprocessing = seconds - base
            text += ", preprocessing %6.2f ms" % (preprocessing * 1e3)
            text += ": %.2f x that of bytes" % (preprocessing / (least[name[0], "bytes", name[2]] - base))
            if peer:
                text += "; torchvision takes %.1f x as long" % (peer / preprocessing)
        print(text)


if __name__ == "__main__":
    main()
