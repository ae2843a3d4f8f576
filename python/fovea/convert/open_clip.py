"""open_clip.py: the vision towers of OpenAI's CLIP and of OpenCLIP, by name or by open_clip_config.json."""
import json
import re

from . import Refused

NAME = re.compile(r"ViT-\w+[-/]\d+(-\d+|@\d+px)?(-quickgelu)?")
# Fields of vision_cfg that are read, or that do not affect the result.
OWN = {"image_size", "layers", "width", "head_width", "mlp_ratio", "patch_size"}
TIMM = {"image_size", "timm_model_name", "timm_model_pretrained", "timm_pool", "timm_proj", "timm_proj_bias",
        "timm_drop", "timm_drop_path"}
# The values that other fields may have, unless they are off.
NEUTRAL = {"pool_type": "tok", "pos_embed_type": "learnable", "patch_dropout": 0}
MEAN, STD = [0.48145466, 0.4578275, 0.40821073], [0.26862954, 0.26130258, 0.27577711]
FILTERS = {"bilinear": 2, "bicubic": 3, "random": 3}  # by Pillow's numbers
MODES = ("shortest", "squash")


def by_name(name, tensors):
    """The config by the model's name. OpenAI's weights, which alone have the tensor input_resolution, were trained
    with another GELU than OpenCLIP's."""
    quick = "/" in name or name.endswith("-quickgelu") or "input_resolution" in tensors
    return {"model_type": "clip", "vision_config": {"hidden_act": "quick_gelu" if quick else "gelu"}}


def check_fields(vision, read):
    for name, value in vision.items():
        if name not in read and value not in (None, False, NEUTRAL.get(name)):
            raise Refused("vision_cfg has %.60s, which is not supported" % name)


def timm_tower(vision, high, wide, pixels):
    check_fields(vision, TIMM)
    squash = pixels["resize_mode"] == "squash"
    return {"architecture": vision["timm_model_name"], "global_pool": vision.get("timm_pool", ""),
            "pretrained_cfg": {
                "input_size": [3, high, wide], "mean": pixels["mean"], "std": pixels["std"], "crop_pct": 1.0,
                "crop_mode": "squash" if squash else "center",
                "interpolation": "bilinear" if pixels["interpolation"] == "bilinear" else "bicubic"}}


def own_tower(model, vision):
    check_fields(vision, OWN)
    width = vision["width"]
    return {"model_type": "clip", "vision_config": {
        "hidden_size": width, "num_hidden_layers": vision["layers"], "patch_size": vision["patch_size"],
        "num_attention_heads": width // vision.get("head_width", 64), "image_size": vision["image_size"],
        "intermediate_size": int(width * vision.get("mlp_ratio", 4)),
        "hidden_act": "quick_gelu" if model.get("quick_gelu") else "gelu"}}


def preprocessor(high, wide, pixels):
    squash = pixels["resize_mode"] == "squash"
    return {"image_processor_type": "CLIPImageProcessor", "do_center_crop": not squash,
            "size": {"height": high, "width": wide} if squash else {"shortest_edge": min(high, wide)},
            "crop_size": {"height": high, "width": wide}, "resample": FILTERS[pixels["interpolation"]],
            "image_mean": pixels["mean"], "image_std": pixels["std"]}


def from_file(path):
    """(config.json, preprocessor_config.json or None) of OpenCLIP's own description."""
    try:
        with open(path, encoding="utf-8") as f:
            whole = json.load(f)
        model = whole["model_cfg"]
        vision, side = model["vision_cfg"], model["vision_cfg"]["image_size"]
        high, wide = (side, side) if isinstance(side, int) else side
        pixels = dict({"mean": MEAN, "std": STD, "resize_mode": "shortest", "interpolation": "bicubic"},
                      **whole.get("preprocess_cfg", {}))
        if pixels["resize_mode"] not in MODES or pixels["interpolation"] not in FILTERS:
            raise Refused("preprocess_cfg: resize_mode %.20s with %.20s is not supported" %
                          (pixels["resize_mode"], pixels["interpolation"]))
        if "timm_model_name" in vision:
            return timm_tower(vision, high, wide, pixels), None
        return own_tower(model, vision), preprocessor(high, wide, pixels)
    except Refused as e:
        raise Refused("%s: %s" % (path, e)) from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as e:
        raise Refused("%s does not describe a vision transformer of OpenCLIP: %s: %s" %
                      (path, type(e).__name__, e)) from None
