#!/usr/bin/env python3
"""convert.py: official .pth files of MALA, PolaFormer and NaLaFormer as folders that Fovea runs.

    convert.py CHECKPOINT.pth MODEL FOLDER [--weights KEY]

MODEL names what the checkpoint holds: mavit-t, -s, -b, -l; nalaformer-xt, -t, -s, -b, -l; pola-swin-t, -s,
-b, -b384; pola-pvt-t, -s, -m, -l; or it is a .json file with the constructor's fields and "model_type".
Writes FOLDER/model.safetensors and FOLDER/config.json. Training programs wrap their weights: of "model_ema",
"model", "state_dict" and the like the first that is there is taken (--weights: another), and "module."
before every name is dropped. Needs PyTorch, which opens the file without running code of it.
"""
import json
import os
import re
import struct
import sys

WRAPPERS = ("model_ema", "ema_state_dict", "state_dict_ema", "model", "state_dict", "module", "ema")
TYPES = {"torch.float32": "F32", "torch.float16": "F16", "torch.bfloat16": "BF16", "torch.float64": "F64",
         "torch.int64": "I64", "torch.int32": "I32", "torch.int16": "I16", "torch.int8": "I8",
         "torch.uint8": "U8", "torch.bool": "BOOL"}


# ---- constructors ----

def pyramid(model_type, dims, depths, heads, ratio, projection):
    flags = [["l" if i < 2 else "v"] * n for i, n in enumerate(depths)]
    return {"model_type": model_type, "img_size": 224, "embed_dims": dims, "depths": depths, "num_heads": heads,
            "mlp_ratios": [ratio] * 4, "flagss": flags, "projection": projection}


def pvt(*depths):
    return {"model_type": "pola_pvt", "img_size": 224, "patch_size": 4, "embed_dims": [64, 128, 320, 512],
            "depths": list(depths), "num_heads": [1, 2, 5, 8], "mlp_ratios": [8, 8, 4, 4], "qkv_bias": True,
            "sr_ratios": [8, 4, 2, 1], "la_sr_ratios": "1111", "alpha": 4, "kernel_size": 5, "attn_type": "LLLL"}


def swin(size, width, heads, deepest):
    return {"model_type": "pola_swin", "img_size": size, "patch_size": 4, "embed_dim": width,
            "depths": [2, 2, deepest, 2], "num_heads": [heads << i for i in range(4)], "window_size": size // 4,
            "mlp_ratio": 4.0, "qkv_bias": True, "ape": False, "patch_norm": True, "alpha": 4, "kernel_size": 5,
            "attn_type": "LLSS"}


SMALL, USUAL = [64, 128, 256, 512], [1, 2, 4, 8]
MODELS = {
    "mavit-t": pyramid("mavit", SMALL, [2, 2, 6, 2], USUAL, 3.5, 2048),
    "mavit-s": pyramid("mavit", [64, 128, 320, 512], [3, 5, 9, 3], [1, 2, 5, 8], 3.5, 2048),
    "mavit-b": pyramid("mavit", [96, 192, 384, 512], [4, 6, 12, 6], [1, 2, 6, 8], 3.5, 2048),
    "mavit-l": pyramid("mavit", [96, 192, 448, 640], [4, 7, 19, 8], [1, 2, 7, 10], 3.5, 2560),
    "nalaformer-xt": pyramid("nalaformer", [32, 64, 128, 384], [2, 2, 2, 2], [1, 2, 4, 12], 3.5, 1024),
    "nalaformer-t": pyramid("nalaformer", SMALL, [2, 2, 6, 2], USUAL, 4, 1024),
    "nalaformer-s": pyramid("nalaformer", [64, 128, 320, 512], [3, 5, 9, 3], [1, 2, 5, 8], 3.5, 1024),
    "nalaformer-b": pyramid("nalaformer", [96, 192, 384, 512], [4, 6, 12, 6], [1, 2, 6, 8], 4, 1024),
    "nalaformer-l": pyramid("nalaformer", [96, 192, 448, 640], [4, 7, 19, 8], [1, 2, 7, 10], 3.5, 1024),
    "pola-swin-t": swin(224, 96, 3, 6), "pola-swin-s": swin(224, 96, 3, 18),
    "pola-swin-b": swin(224, 128, 4, 18), "pola-swin-b384": swin(384, 128, 4, 18),
    "pola-pvt-t": pvt(2, 2, 2, 2), "pola-pvt-s": pvt(3, 4, 6, 3),
    "pola-pvt-m": pvt(3, 4, 18, 3), "pola-pvt-l": pvt(3, 8, 27, 3),
}


def configuration(model):
    if model in MODELS:
        return MODELS[model]
    if not model.endswith(".json"):
        raise SystemExit("%s: no such model; choose %s, or a .json file" % (model, ", ".join(MODELS)))
    with open(model) as f:
        config = json.load(f)
    if not isinstance(config, dict) or "model_type" not in config:
        raise SystemExit('%s: "model_type" is missing: mavit, nalaformer, pola_pvt or pola_swin' % model)
    return config


# ---- weights ----

def opened(torch, path):
    """What torch.save wrote. Training programs put their arguments beside the weights: where PyTorch can be
    told so, the classes of these are read as plain ones."""
    import argparse
    allow = getattr(torch.serialization, "add_safe_globals", None)
    if allow:
        plain = type("CfgNode", (dict,), {})
        for known in ([argparse.Namespace], [(plain, "yacs.config.CfgNode")]):
            try:
                allow(known)
            except (TypeError, ValueError, AttributeError):
                pass  # older than names for classes
    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except Exception as e:
        raise SystemExit("%s: %s\nIf its author is to be trusted, save its weights alone first:\n"
                         "    d = torch.load(%r, map_location='cpu', weights_only=False)\n"
                         "    torch.save(d.get('model', d), 'weights.pth')" % (path, e, path)) from None


def is_tensor(x):
    return hasattr(x, "dtype") and hasattr(x, "shape")


def weights_of(saved, key=None):
    """{name: tensor}, out of all that is wrapped around it."""
    while isinstance(saved, dict) and not any(is_tensor(v) for v in saved.values()):
        inner = [k for k in ([key] if key else WRAPPERS) if isinstance(saved.get(k), dict)]
        if not inner:
            raise SystemExit("no weights in it: its keys are %s%s" %
                             (", ".join(map(str, saved)), "; choose with --weights" if not key else ""))
        saved, key = saved[inner[0]], None
    if not isinstance(saved, dict):
        raise SystemExit("it holds no dictionary of weights, but a %s" % type(saved).__name__)
    return {re.sub(r"^(module\.)+", "", k): v for k, v in saved.items() if is_tensor(v)}


def raw(torch, tensor):
    flat = tensor.detach().cpu().contiguous().reshape(-1)
    return flat.view(torch.uint8).numpy().tobytes()


def save(torch, path, tensors):
    head, at = {"__metadata__": {"format": "pt"}}, 0
    for name, tensor in sorted(tensors.items()):
        kind = TYPES.get(str(tensor.dtype))
        if not kind:
            raise SystemExit("%s: values of %s cannot be stored" % (name, tensor.dtype))
        size = len(raw(torch, tensor))
        head[name] = {"dtype": kind, "shape": list(tensor.shape), "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(head).encode()
    text += b" " * (-len(text) % 8)
    with open(path + ".part", "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for _, tensor in sorted(tensors.items()):
            f.write(raw(torch, tensor))
    os.replace(path + ".part", path)


def main(argv):
    key = None
    if "--weights" in argv:
        i = argv.index("--weights")
        key = argv[i + 1] if i + 1 < len(argv) else None
        argv = argv[:i] + argv[i + 2:]
    if len(argv) != 3 or any(a.startswith("-") for a in argv):
        raise SystemExit(__doc__)
    path, model, folder = argv
    config = configuration(model)
    try:
        import torch
    except ImportError:
        raise SystemExit("PyTorch is needed to open %s: pip install torch" % path) from None
    tensors = weights_of(opened(torch, path), key)
    os.makedirs(folder, exist_ok=True)
    save(torch, os.path.join(folder, "model.safetensors"), tensors)
    with open(os.path.join(folder, "config.json"), "w") as f:
        json.dump(config, f, indent=1)
    print("%s: %d tensors, %.2fM numbers" %
          (folder, len(tensors), sum(t.numel() for t in tensors.values()) / 1e6))


if __name__ == "__main__":
    main(sys.argv[1:])
