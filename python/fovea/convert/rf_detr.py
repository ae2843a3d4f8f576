"""rf_detr.py: Roboflow's own checkpoints of RF-DETR, by what rfdetr saves with the weights.

Fovea reads the names of their tensors as they are. What is made here is config.json of the constructor's arguments,
and what only training reads is left out: of the groups of queries all but the first, and the heads of the others.
"""
import os
import re

from . import Refused, pickles
from .torch_files import Tensor, natural

HEADS = {"small": 6, "base": 12, "large": 16}  # heads of DINOv2 for each size of encoder
WINDOWS = {14: 4, 16: 2}  # by the side of a patch, where a file does not say
GROUPS = 13
# Arguments that change the computation, and the only value of each that Fovea supports.
ONLY = {"two_stage": True, "bbox_reparam": True, "lite_refpoint_refine": True, "layer_norm": True, "rms_norm": False,
        "decoder_norm": "LN", "encoder_only": False, "backbone_only": False, "projector_scale": ["P4"]}
# Beginnings of names of tensors, and the part of the model that they belong to.
PARTS = {"keypoint_embed.": "a head for key points, which are not supported",
         "backbone.0.encoder.base_model.": "LoRA's adapters that are not merged; merge them, and save it again",
         "backbone.0.projector.stages_sampling.": "a projector of other scales than P4, which is not supported",
         "backbone.0.cross_attn_projector.": "two projectors, which is not supported"}
TRAINING = re.compile(r"transformer\.enc_(output|output_norm|out_class_embed|out_bbox_embed)\.[1-9].*|_kp_active_mask")
QUERIES = ("query_feat.weight", "refpoint_embed.weight")
PATCHES = "backbone.0.encoder.encoder.embeddings.patch_embeddings.projection.weight"


MASKS, MASKS_MLP = "segmentation_head.", "segmentation_head.query_features_block.layers.0.weight"


def sized(patch, windows, layers, resolution, positions, taps, queries=300, masks=False):
    return {"model_type": "rf_detr", "encoder": "dinov2_windowed_small", "hidden_dim": 256, "patch_size": patch,
            "num_windows": windows, "dec_layers": layers, "sa_nheads": 8, "ca_nheads": 16, "dec_n_points": 2,
            "num_queries": queries, "num_select": queries, "out_feature_indexes": taps, "resolution": resolution,
            "positional_encoding_size": positions, "segmentation_head": masks}


def with_masks(windows, layers, resolution, queries):
    return sized(12, windows, layers, resolution, resolution // 12, [3, 6, 9, 12], queries, True)


MODELS = {"rf-detr-nano": sized(16, 2, 2, 384, 24, [3, 6, 9, 12]),
          "rf-detr-small": sized(16, 2, 3, 512, 32, [3, 6, 9, 12]),
          "rf-detr-medium": sized(16, 2, 4, 576, 36, [3, 6, 9, 12]),
          "rf-detr-large-2026": sized(16, 2, 4, 704, 44, [3, 6, 9, 12]),
          "rf-detr-base": sized(14, 4, 3, 560, 37, [2, 5, 8, 11]),
          "rf-detr-seg-preview": with_masks(2, 4, 432, 200), "rf-detr-seg-nano": with_masks(1, 4, 312, 100),
          "rf-detr-seg-small": with_masks(2, 4, 384, 100), "rf-detr-seg-medium": with_masks(2, 5, 432, 200),
          "rf-detr-seg-large": with_masks(2, 5, 504, 200), "rf-detr-seg-xlarge": with_masks(2, 6, 624, 300),
          "rf-detr-seg-xxlarge": with_masks(2, 6, 768, 300)}
CLASSES = {"RFDETRNano": "rf-detr-nano", "RFDETRSmall": "rf-detr-small", "RFDETRMedium": "rf-detr-medium",
           "RFDETRLarge": "rf-detr-large-2026", "RFDETRBase": "rf-detr-base",
           "RFDETRSegPreview": "rf-detr-seg-preview", "RFDETRSegNano": "rf-detr-seg-nano",
           "RFDETRSegSmall": "rf-detr-seg-small", "RFDETRSegMedium": "rf-detr-seg-medium",
           "RFDETRSegLarge": "rf-detr-seg-large", "RFDETRSegXLarge": "rf-detr-seg-xlarge",
           "RFDETRSeg2XLarge": "rf-detr-seg-xxlarge"}
SHORT = {"n": "nano", "s": "small", "m": "medium", "l": "large", "xl": "xlarge", "2xl": "xxlarge"}
FILES = dict({name: name for name in MODELS}, **{"rf-detr-base-" + of: "rf-detr-base" for of in ("2", "coco", "o365")},
             **{"rf-detr-seg-%s-ft" % size: "rf-detr-seg-" + name for size, name in SHORT.items()})

# COCO's categories from 1 on; an empty name: no category has the number.
COCO = """person,bicycle,car,motorcycle,airplane,bus,train,truck,boat,traffic light,fire hydrant,,stop sign,
parking meter,bench,bird,cat,dog,horse,sheep,cow,elephant,bear,zebra,giraffe,,backpack,umbrella,,,handbag,tie,suitcase,
frisbee,skis,snowboard,sports ball,kite,baseball bat,baseball glove,skateboard,surfboard,tennis racket,bottle,,
wine glass,cup,fork,knife,spoon,bowl,banana,apple,sandwich,orange,broccoli,carrot,hot dog,pizza,donut,cake,chair,couch,
potted plant,bed,,dining table,,,toilet,,tv,laptop,mouse,remote,keyboard,cell phone,microwave,oven,toaster,sink,
refrigerator,,book,clock,vase,scissors,teddy bear,hair drier,toothbrush""".replace("\n", "").split(",")


# ---- the arguments in a file ----

def known(tensors):
    return set(QUERIES) | {"class_embed.weight"} <= set(tensors)


def describes(config):
    """Whether a config has the constructor's arguments instead of transformers' fields."""
    return config.get("model_type") == "rf_detr" and "backbone_config" not in config


def bare(tensors):
    """The tensors, without the prefix of a Lightning module."""
    inner = {k[len("model."):]: v for k, v in tensors.items() if k.startswith("model.")}
    return inner if known(inner) else tensors


def fields(x):
    """The items of a dictionary, or the attributes of a Namespace; values that are None are left out."""
    x = x.state if isinstance(x, pickles.Plain) else x
    return {k: v for k, v in x.items() if v is not None} if isinstance(x, dict) else {}


def told(saved, path):
    """The constructor's arguments. A file has them in one or two places, depending on its age; else they are
    those of the model that the file or its name names."""
    said = {}
    for key in ("hyper_parameters", "args", "model_config"):
        said.update(fields(saved.get(key)))
    if "encoder" not in said:
        name = saved.get("model_name")
        stem = os.path.splitext(os.path.basename(path))[0]
        name = CLASSES.get(name) if isinstance(name, str) else FILES.get(stem)
        if not name:
            raise Refused("%s: weights of RF-DETR without the arguments that rfdetr saves with them (args); "
                          "--architecture %s or a .json file with them says what it holds" %
                          (path, ", ".join(sorted(MODELS))))
        said = {**MODELS[name], **said}
    return {**said, "model_type": "rf_detr"}


# ---- single arguments ----

def shown(value):
    """A short form for messages: a value in a file may be deeply nested, or very long."""
    if isinstance(value, list) and all(isinstance(v, str) for v in value):
        return ", ".join(value)[:60]
    return "%.60s" % value if isinstance(value, (str, bool, float)) else "a %s" % type(value).__name__


def number(said, *names, usual=None):
    """The first of these arguments that is set, which must be a positive whole number."""
    value = next((said[n] for n in names if said.get(n) is not None), usual)
    if value is None:
        raise Refused('"%s" of RF-DETR is missing' % names[0])
    if not natural(value) or not 0 < value < 1 << 31:
        raise Refused('"%s" of RF-DETR must be a positive whole number' % names[0])
    return value


def heads(said):
    """The name of an encoder consists of dinov2, windowed, perhaps registers, and a size."""
    name = said.get("encoder")
    words = name.split("_") if isinstance(name, str) else []
    if sorted(words[1:-1]) not in (["windowed"], ["registers", "windowed"]) or words[0] != "dinov2" or \
            words[-1] not in HEADS:
        raise Refused('"encoder" of RF-DETR is %s; only dinov2_windowed_small, _base and _large are supported'
                      % shown(name))
    return HEADS[words[-1]]


def taps(said):
    blocks = said.get("out_feature_indexes")
    if not isinstance(blocks, (list, tuple)) or not blocks or not all(map(natural, blocks)):
        raise Refused('"out_feature_indexes" of RF-DETR must be a list of block numbers')
    return list(blocks)


def check(said, tensors):
    for name, only in ONLY.items():
        value = said.get(name, only)
        if value != only and [value] != only:
            raise Refused('"%s" of RF-DETR is %s; only %s is supported' % (name, shown(value), shown(only)))
    # heads first, because models with key points have two projectors as well
    for begin, part in PARTS.items():
        if any(name.startswith(begin) for name in tensors):
            raise Refused("it has %s" % part)
    if said.get("segmentation_head") and MASKS_MLP not in tensors:
        raise Refused("\"segmentation_head\" of RF-DETR is set, but tensor %s is missing" % MASKS_MLP)


# ---- what is written ----

def labels(said, classes):
    """Names of classes by number, if they are COCO's."""
    if classes != len(COCO) + 1 or said.get("dataset_file", "coco") != "coco":
        return {}
    names = {str(i): name for i, name in enumerate([""] + COCO)}
    return {"id2label": {i: name or "LABEL_" + i for i, name in names.items()}}


def rows(tensors, name, rank):
    shape = tensors[name].shape
    if len(shape) != rank:
        raise Refused("tensor %s has %d dimensions instead of %d" % (name, len(shape), rank))
    return shape[0]


def of_masks(said, tensors):
    """The fields of a model with a head for masks."""
    if not any(name.startswith(MASKS) for name in tensors):
        return {}
    if MASKS_MLP not in tensors:
        raise Refused("it has a head for masks without tensor %s" % MASKS_MLP)
    return {"architectures": ["RfDetrForInstanceSegmentation"], "intermediate_size": rows(tensors, MASKS_MLP, 2),
            "mask_downsample_ratio": number(said, "mask_downsample_ratio", usual=4)}


def kept(tensors, queries):
    """The tensors that inference needs."""
    found = {k: v for k, v in tensors.items() if not TRAINING.fullmatch(k)}
    for name in QUERIES:
        t = tensors[name]
        if rows(tensors, name, 2) < queries:
            raise Refused('"num_queries" of RF-DETR is %d, but tensor %s has %d rows' % (queries, name, t.shape[0]))
        found[name] = Tensor(t.storage, t.offset, (queries, t.shape[1]), t.strides, t.dtype)
    return found


def configuration(said, tensors):
    """(config.json, preprocessor_config.json or None, tensors) from the constructor's arguments."""
    said = fields(said)
    check(said, tensors)
    for name in (PATCHES, "class_embed.weight", *QUERIES):
        if name not in tensors:
            raise Refused("it is not an RF-DETR: tensor %s is missing" % name)
    rows(tensors, PATCHES, 4)
    patch = number(said, "patch_size", "dinov2_patch_size", usual=tensors[PATCHES].shape[3])
    queries = rows(tensors, QUERIES[0], 2)
    queries = number(said, "num_queries", usual=queries // number(said, "group_detr", usual=GROUPS))
    backbone = {"model_type": "rf_detr_dinov2", "num_attention_heads": heads(said), "patch_size": patch,
                "num_windows": number(said, "num_windows", "dinov2_num_windows", usual=WINDOWS.get(patch)),
                "out_indices": taps(said), "layer_norm_eps": 1e-6}
    if "positional_encoding_size" in said:
        backbone["image_size"] = patch * number(said, "positional_encoding_size")
    # The norms of rfdetr's projector use another epsilon than transformers' default.
    config = {"model_type": "rf_detr", "architectures": ["RfDetrForObjectDetection"], "layer_norm_eps": 1e-6,
              "d_model": number(said, "hidden_dim"), "decoder_layers": number(said, "dec_layers"),
              "decoder_self_attention_heads": number(said, "sa_nheads"),
              "decoder_cross_attention_heads": number(said, "ca_nheads"),
              "decoder_n_points": number(said, "dec_n_points"), "num_queries": queries, "group_detr": 1,
              "backbone_config": backbone}
    if number(said, "num_select", usual=queries) < queries:
        config["fovea"] = {"max_per_img": number(said, "num_select")}
    config.update(of_masks(said, tensors))
    config.update(labels(said, rows(tensors, "class_embed.weight", 2)))
    preprocessor = None
    if "resolution" in said:
        side = number(said, "resolution")
        preprocessor = {"image_processor_type": "RfDetrImageProcessor", "size": {"height": side, "width": side}}
    return config, preprocessor, kept(tensors, queries)
