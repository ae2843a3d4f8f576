"""depth_anything.py: Depth Anything V1 and V2 as their authors publish them, in the names of transformers.

The backbone is DINOv2's of torch.hub behind "pretrained.", the head "depth_head.".
"""
import os
import re

from . import Refused
from .torch_files import Tensor

# By the backbone's width: heads, blocks whose outputs V2 reads (V1 reads the last four), and
# widths of the neck.
SIZES = {384: (6, [3, 6, 9, 12], [48, 96, 192, 384], 64),
         768: (12, [3, 6, 9, 12], [96, 192, 384, 768], 128),
         1024: (16, [5, 12, 18, 24], [256, 512, 1024, 1024], 256)}
NAME = re.compile(r"depth_anything(?P<second>_v2_(metric_(?P<data>hypersim|vkitti)_)?vit[slb]|_vit[slb]14)")
NAMES = "depth_anything_v2_vits, _vitb, _vitl, depth_anything_v2_metric_hypersim_vits, .., or depth_anything_vits14, .."
METRES = {"hypersim": 20, "vkitti": 80}
PATCHES, HEAD = "pretrained.patch_embed.proj.weight", "depth_head.scratch.output_conv1.weight"
BLOCK = re.compile(r"pretrained\.blocks\.(\d+)\.(.*)")
IN_BLOCK = {"norm1": "norm1", "norm2": "norm2", "attn.proj": "attention.output.dense", "mlp.fc1": "mlp.fc1",
            "mlp.fc2": "mlp.fc2", "ls1.gamma": "layer_scale1.lambda1", "ls2.gamma": "layer_scale2.lambda1"}
WHOLE = {"pretrained.cls_token": "backbone.embeddings.cls_token",
         "pretrained.mask_token": "backbone.embeddings.mask_token",
         "pretrained.pos_embed": "backbone.embeddings.position_embeddings"}
PARTS = [(r"pretrained\.patch_embed\.proj\.", "backbone.embeddings.patch_embeddings.projection."),
         (r"pretrained\.norm\.", "backbone.layernorm."),
         (r"depth_head\.projects\.(\d)\.", r"neck.reassemble_stage.layers.\1.projection."),
         (r"depth_head\.resize_layers\.(\d)\.", r"neck.reassemble_stage.layers.\1.resize."),
         (r"depth_head\.scratch\.output_conv1\.", "head.conv1."),
         (r"depth_head\.scratch\.output_conv2\.0\.", "head.conv2."),
         (r"depth_head\.scratch\.output_conv2\.2\.", "head.conv3.")]
CONV = re.compile(r"depth_head\.scratch\.layer([1-4])_rn\.weight")
FUSION = re.compile(r"depth_head\.scratch\.refinenet([1-4])\.(out_conv|resConfUnit([12])\.conv([12]))\.(weight|bias)")
QKV = ("query", "key", "value")


def known(tensors):
    return {PATCHES, HEAD} <= set(tensors)


def thirds(t):
    """Queries, keys and values from a tensor that contains all three, as views."""
    if not t.shape or t.shape[0] % 3:
        raise Refused("a tensor of queries, keys and values has the unexpected shape %s" % (t.shape,))
    n = t.shape[0] // 3
    return [Tensor(t.storage, t.offset + i * n * t.strides[0], (n, *t.shape[1:]), t.strides, t.dtype) for i in range(3)]


def of_block(number, rest, t):
    layer = "backbone.encoder.layer.%s." % number
    stem, _, part = rest.rpartition(".")
    if stem == "attn.qkv":
        return {layer + "attention.attention.%s.%s" % (name, part): v for name, v in zip(QKV, thirds(t))}
    name = IN_BLOCK.get(rest) or (stem in IN_BLOCK and "%s.%s" % (IN_BLOCK[stem], part))
    return {layer + name: t} if name else None


def fusion(match):
    number, inner, unit, conv, part = match.groups()
    layer = "neck.fusion_stage.layers.%d." % (4 - int(number))
    return layer + ("projection." if inner == "out_conv" else
                    "residual_layer%s.convolution%s." % (unit, conv)) + part


def renamed(name, t):
    """{transformers' name: tensor} for a tensor in the authors' names."""
    block, conv, refine = BLOCK.fullmatch(name), CONV.fullmatch(name), FUSION.fullmatch(name)
    if block:
        found = of_block(*block.groups(), t)
    elif conv:
        found = {"neck.convs.%d.weight" % (int(conv[1]) - 1): t}
    elif refine:
        found = {fusion(refine): t}
    else:
        found = {WHOLE[name]: t} if name in WHOLE else next(
            ({re.sub(begin, to, name): t} for begin, to in PARTS if re.match(begin, name)), None)
    if not found:
        raise Refused("tensor %.80s does not belong to Depth Anything V2" % name)
    return found


def configuration(name, path, tensors):
    """(config.json, preprocessor_config.json, tensors) as transformers has them. No tensor shows the version,
    or whether the model gives metres; the architecture's or the file's name does."""
    said = NAME.fullmatch(name or os.path.splitext(os.path.basename(path))[0])
    if not known(tensors):
        raise Refused("it is not a Depth Anything of its authors: tensor %s is missing" %
                      (PATCHES if PATCHES not in tensors else HEAD))
    if not said:
        raise Refused("it is a Depth Anything of its authors; give the variant with --architecture: " + NAMES)
    width = tensors[PATCHES].shape[0]
    if width not in SIZES:
        raise Refused("the Depth Anything has width %d; only 384, 768 and 1024 are supported" % width)
    heads, taps, widths, fused = SIZES[width]
    data, depth = said["data"], taps[-1]
    if not said["second"].startswith("_v2_"):
        taps = list(range(depth - 3, depth + 1))
    backbone = {"model_type": "dinov2", "hidden_size": width, "num_attention_heads": heads,
                "num_hidden_layers": depth, "image_size": 518, "patch_size": 14, "out_indices": taps,
                "apply_layernorm": True, "reshape_hidden_states": False}
    config = {"model_type": "depth_anything", "architectures": ["DepthAnythingForDepthEstimation"],
              "backbone_config": backbone, "neck_hidden_sizes": widths, "fusion_hidden_size": fused,
              "reassemble_hidden_size": width, "patch_size": 14,
              "depth_estimation_type": "metric" if data else "relative", "max_depth": METRES.get(data),
              "fovea": {"pos_interp": "offset"}}  # like the authors' code at other sizes than 518
    preprocessor = {"image_processor_type": "DPTImageProcessor", "do_resize": True, "do_rescale": True,
                    "do_normalize": True, "size": {"height": 518, "width": 518}, "keep_aspect_ratio": True,
                    "ensure_multiple_of": 14, "resample": 3, "image_mean": [0.485, 0.456, 0.406],
                    "image_std": [0.229, 0.224, 0.225]}
    made = {}
    for old, t in tensors.items():
        made.update(renamed(old, t))
    return config, preprocessor, made
