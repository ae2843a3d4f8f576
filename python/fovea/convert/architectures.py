"""architectures.py: config.json and preprocessor_config.json for checkpoints that neither transformers nor timm
wrote."""
import json
import os
import re

from . import Refused, depth_anything, open_clip, rf_detr


# ---- the papers' constructors ----

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
    **rf_detr.MODELS,
}


# Names of timm and torch.hub: beginnings that Fovea knows, words joined by _, and the training
# data.
OTHERS = re.compile(r"(vit|deit|deit3|flexivit|beit|beitv2|beit3|eva|eva02|samvit|test_vit|dinov2|dinov3)"
                    r"(_[a-z0-9]+)+(\.\w+)?")


# ---- choosing ----

def described(path):
    """A .json file with the constructor's fields."""
    try:
        with open(path, encoding="utf-8") as f:
            config = json.load(f)
    except OSError as e:
        raise Refused("%s: %s" % (path, e.strerror)) from None
    except (ValueError, RecursionError) as e:
        raise Refused("%s is not valid JSON: %s" % (path, e)) from None
    if not isinstance(config, dict) or not {"model_type", "architecture"} & set(config):
        raise Refused('%s has no "model_type"; set it to mavit, nalaformer, pola_pvt, pola_swin, vit, ...' % path)
    return config


def by_name(name, tensors):
    """The config of an architecture. Fovea itself knows the names of timm and torch.hub."""
    if name in MODELS:
        return MODELS[name]
    if name.endswith(".json"):
        return described(name)
    if open_clip.NAME.fullmatch(name):
        return open_clip.by_name(name, tensors)
    if OTHERS.fullmatch(name):
        return {"architecture": name.split(".")[0]}
    raise Refused("architecture %s is unknown; choose %s, a name of a ViT of timm (vit_base_patch16_224), torch.hub "
                  "(dinov2_vitb14) or OpenCLIP (ViT-B-32), %s, or a .json file" %
                  (name, ", ".join(MODELS), depth_anything.NAMES))


def files_of(folder):
    """{name of a file to write: its bytes} from the files in a checkpoint's folder, or {}."""
    files = {}
    for name in ("config.json", "preprocessor_config.json", "processor_config.json"):
        path = os.path.join(folder, name)
        if os.path.exists(path):
            with open(path, "rb") as f:
                files[name] = f.read()
    if "config.json" in files:
        return files
    path = os.path.join(folder, "open_clip_config.json")
    if not os.path.exists(path):
        return {}
    config, preprocessor = open_clip.from_file(path)
    files = {"config.json": text_of(config)}
    if preprocessor:
        files["preprocessor_config.json"] = text_of(preprocessor)
    return files


def by_contents(tensors, saved, path):
    """The config that follows from the names of the tensors, or None. DINOv3's files contain all values except
    the number of heads, which follows from the periods; RF-DETR's files contain the arguments."""
    if rf_detr.known(tensors):
        return rf_detr.told(saved, path)
    return {"model_type": "dinov3_vit"} if {"rope_embed.periods", "storage_tokens"} <= set(tensors) else None


def text_of(config):
    return json.dumps(config, indent=1).encode()
