#!/usr/bin/env python3
"""task_models.py: models of tasks with random weights, as a checkpoint that Fovea reads and as the graph that PyTorch
exports of the same model, which the other engines read.

    task_models.py NAME FOLDER SIZE [OFFICIAL]

The code of Depth Anything, RF-DETR, LW-DETR, EoMT, Mask2Former, ViTPose and SAM's encoder is transformers'; that of MAViT and PolaFormer is
their authors', and OFFICIAL is a folder with checkouts of it: MALA (github.com/qhfan/MALA) and PolaFormer
(github.com/ZacharyMeng/PolaFormer). Existing files are kept. The graph's outputs are rows, as Fovea's are.
"""
import dataclasses
import json
import os
import sys
from typing import Callable


@dataclasses.dataclass(frozen=True)
class Task:
    about: str
    size: int        # height of the picture in pixels, if no size is given
    outputs: tuple   # names of Fovea's outputs; the first is compared
    make: Callable   # make(folder of official code) -> (model, function for its rows, config for Fovea or None)
    official: str = ""  # the repository that must be checked out
    packages: tuple = ("torch", "transformers", "onnx")
    wide: float = 1  # width of the picture relative to its height
    ranked: bool = False  # rows are queries that the model chooses; their order has no meaning
    lines: bool = False   # the output is a picture; its lines are compared

    def shape(self, size):
        return 1, 3, size, round(size * self.wide)

    def missing(self, official):
        """The packages or folders that the task needs and that are missing."""
        import importlib.util
        lacks = [p for p in self.packages if importlib.util.find_spec(p) is None]
        if self.official and not os.path.isdir(os.path.join(official or "", self.official)):
            lacks.append("--official FOLDER with %s in it" % self.official)
        return lacks

    def compared(self, rows, size):
        """The rows of the first output that are compared; for queries their best scores, sorted."""
        import numpy as np
        if self.lines:
            return rows.reshape(size, -1)
        return np.sort(rows.max(1))[None] if self.ranked else rows


# ---- transformers' ----

def _depth_anything(_):
    from transformers import DepthAnythingConfig, DepthAnythingForDepthEstimation, Dinov2Config
    backbone = Dinov2Config(hidden_size=384, num_attention_heads=6, image_size=518, patch_size=14,
                            out_indices=[3, 6, 9, 12], reshape_hidden_states=False, apply_layernorm=True)
    model = DepthAnythingForDepthEstimation(DepthAnythingConfig(
        backbone_config=backbone, neck_hidden_sizes=[48, 96, 192, 384], fusion_hidden_size=64,
        reassemble_hidden_size=384))
    return model, lambda out: (out.predicted_depth[0],), None


def _rf_detr(_):
    from transformers import RfDetrConfig, RfDetrForObjectDetection
    return RfDetrForObjectDetection(RfDetrConfig()), lambda out: (out.logits[0], out.pred_boxes[0]), None


def _rf_detr_seg(_):
    from transformers import RfDetrConfig, RfDetrForInstanceSegmentation
    return (RfDetrForInstanceSegmentation(RfDetrConfig()),
            lambda out: (out.logits[0], out.pred_boxes[0], out.pred_masks[0].flatten(1).T), None)


def _lw_detr(_):
    from transformers import LwDetrConfig, LwDetrForObjectDetection, LwDetrViTConfig
    backbone = LwDetrViTConfig(hidden_size=192, num_hidden_layers=10, num_attention_heads=12,
                               window_block_indices=[0, 1, 3, 6, 7, 9], out_indices=[2, 4, 5, 9], image_size=1024,
                               pretrain_image_size=224, num_windows=16)
    model = LwDetrForObjectDetection(LwDetrConfig(backbone_config=backbone, num_queries=300, **{"projector_scale_factors": [1.0]}))
    return model, lambda out: (out.logits[0], out.pred_boxes[0]), None


def _mask2former(_):
    from transformers import Mask2FormerConfig, Mask2FormerForUniversalSegmentation, SwinConfig
    swin = SwinConfig(embed_dim=96, depths=[2, 2, 6, 2], num_heads=[3, 6, 12, 24], window_size=7, drop_path_rate=0.3,
                      out_features=["stage1", "stage2", "stage3", "stage4"])
    model = Mask2FormerForUniversalSegmentation(Mask2FormerConfig(backbone_config=swin, num_labels=19))
    return model, lambda out: (out.masks_queries_logits[0].flatten(1).T, out.class_queries_logits[0]), None


def _eomt(_):
    from transformers import EomtConfig, EomtForUniversalSegmentation
    model = EomtForUniversalSegmentation(EomtConfig(hidden_size=384, num_attention_heads=6, num_hidden_layers=12,
                                                    num_labels=133))
    # Fovea's output has a row for each position of the masks' grid, and a column for each query.
    return model, lambda out: (out.masks_queries_logits[0].flatten(1).T, out.class_queries_logits[0]), None


def _vitpose(_):
    from transformers import VitPoseBackboneConfig, VitPoseConfig, VitPoseForPoseEstimation
    backbone = VitPoseBackboneConfig(hidden_size=384, num_attention_heads=6, num_hidden_layers=12,
                                     out_indices=[12], image_size=[256, 192], patch_size=[16, 16])
    model = VitPoseForPoseEstimation(VitPoseConfig(backbone_config=backbone, num_labels=17,
                                                   use_simple_decoder=False))
    return model, lambda out: (out.heatmaps[0].flatten(1).T,), None


def _sam(_):
    from transformers import SamVisionConfig, SamVisionModel
    return SamVisionModel(SamVisionConfig()), lambda out: (out.last_hidden_state[0].flatten(1).T,), None


# ---- their authors' ----

def _module(official, path):
    """Loads a Python file of a checkout as a module."""
    import importlib
    sys.path.insert(0, os.path.dirname(os.path.join(official, path)))
    return importlib.import_module(os.path.splitext(os.path.basename(path))[0])


def _logits(out):
    return out,


def _mavit(official):
    fields = {"embed_dims": [64, 128, 256, 512], "depths": [2, 2, 6, 2], "num_heads": [1, 2, 4, 8],
              "mlp_ratios": [3.5] * 4, "drop_path_rate": 0.1, "projection": 2048, "layerscales": [True] * 4,
              "layer_init_values": [1] * 4, "num_classes": 1000,
              "flagss": [["l"] * 2, ["l"] * 2, ["v"] * 6, ["v"] * 2]}
    model = _module(official, "MALA/classfication_release/model.py").MALA(**fields)
    return model, _logits, dict(fields, model_type="mavit")


def _pola_swin(official):
    fields = {"img_size": 224, "patch_size": 4, "num_classes": 1000, "embed_dim": 96, "depths": [2, 2, 6, 2],
              "num_heads": [3, 6, 12, 24], "window_size": 56, "mlp_ratio": 4.0, "qkv_bias": True, "ape": False,
              "patch_norm": True, "alpha": 4, "kernel_size": 5, "attn_type": "LLSS"}
    model = _module(official, "PolaFormer/models/pola_swin.py").PolaSwinTransformer(**fields)
    return model, _logits, dict(fields, model_type="pola_swin")


def _pola_pvt(official):
    fields = {"img_size": 224, "patch_size": 4, "num_classes": 1000, "embed_dims": [64, 128, 320, 512],
              "num_heads": [1, 2, 5, 8], "mlp_ratios": [8, 8, 4, 4], "qkv_bias": True, "depths": [2, 2, 2, 2],
              "sr_ratios": [8, 4, 2, 1], "la_sr_ratios": "8421", "alpha": 4, "kernel_size": 5, "attn_type": "LLLL"}
    import functools
    import torch
    norm = functools.partial(torch.nn.LayerNorm, eps=1e-6)
    model = _module(official, "PolaFormer/models/pola_pvt.py").PyramidVisionTransformer(norm_layer=norm, **fields)
    return model, _logits, dict(fields, model_type="pola_pvt")


AUTHORS = ("torch", "onnx", "safetensors", "timm", "einops", "fvcore")
TASKS = {
    "depth-anything-s": Task("Depth Anything V2-S", 518, ("predicted_depth",), _depth_anything, lines=True),
    "rf-detr": Task("RF-DETR, as transformers has it by default", 560, ("logits", "pred_boxes"), _rf_detr,
                    ranked=True),
    "rf-detr-seg": Task("RF-DETR for masks, as transformers has it by default", 560,
                        ("logits", "pred_boxes", "pred_masks"), _rf_detr_seg, ranked=True),
    "lw-detr-s": Task("LW-DETR-S", 640, ("logits", "pred_boxes"), _lw_detr, ranked=True),
    "mask2former-swin-t": Task("Mask2Former over Swin-T, 100 queries", 512,
                               ("masks_queries_logits", "class_queries_logits"), _mask2former, wide=2),
    "eomt-s": Task("EoMT-S, 200 queries", 640, ("masks_queries_logits", "class_queries_logits"), _eomt),
    "vitpose-s": Task("ViTPose-S", 256, ("heatmaps",), _vitpose, wide=0.75),
    "sam-b": Task("SAM-B's encoder", 1024, ("last_hidden_state",), _sam),
    "mavit-t": Task("MAViT-T", 224, ("logits",), _mavit, "MALA", AUTHORS),
    "pola-swin-t": Task("PolaFormer-Swin-T", 224, ("logits",), _pola_swin, "PolaFormer", AUTHORS),
    "pola-pvt-t": Task("PolaFormer-PVT-T", 224, ("logits",), _pola_pvt, "PolaFormer", AUTHORS),
}


# ---- what is made ----

def graph(folder, size):
    return os.path.join(folder, "graph-%d.onnx" % size)


def picture(name, size, seed):
    import numpy as np
    return np.random.default_rng(seed).standard_normal(TASKS[name].shape(size)).astype(np.float32)


def _draw(model):
    """Draws random weights with which each layer keeps the size of its input, as trained layers do."""
    import torch
    torch.manual_seed(0)
    for p in model.parameters():
        if p.dim() > 1:
            torch.nn.init.normal_(p, std=0.5 / p[0].numel() ** 0.5)


def _save(model, config, folder):
    if config is None:
        model.save_pretrained(folder)
        return
    from safetensors.torch import save_file
    save_file({k: v.contiguous().clone() for k, v in model.state_dict().items()},
              os.path.join(folder, "model.safetensors"))
    with open(os.path.join(folder, "config.json"), "w") as f:
        json.dump(config, f)


def module(name, folder, official):
    """The model as a torch module from pixels to rows; writes the checkpoint if it does not exist yet."""
    import torch
    model, rows, config = TASKS[name].make(official)
    if not os.path.exists(os.path.join(folder, "config.json")):
        _draw(model)
        os.makedirs(folder, exist_ok=True)
        _save(model, config, folder)
    elif config is None:
        # which has a table of the names under which the tensors were saved
        model = type(model).from_pretrained(folder)
    else:
        from safetensors.torch import load_file
        model.load_state_dict(load_file(os.path.join(folder, "model.safetensors")), strict=False)
    model.eval()

    class Rows(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, pixels):
            return rows(self.model(pixels))

    return Rows().eval()


def _fix_positions():
    """Makes the resized position tables constants of the graph. They alone are resized with antialiasing, which
    ONNX cannot express, and they are constant for pictures of one size."""
    import torch
    resize = torch.nn.functional.interpolate

    def fixed(table, *args, **kwargs):
        out = resize(table, *args, **kwargs)
        return torch.from_numpy(out.detach().numpy().copy()) if kwargs.get("antialias") else out

    torch.nn.functional.interpolate = fixed


def main(name, folder, size, official=None):
    import torch
    _fix_positions()
    out = graph(folder, size)
    if os.path.exists(out):
        return
    model = module(name, folder, official)
    with torch.inference_mode():
        torch.onnx.export(model, (torch.zeros(TASKS[name].shape(size)),), out + ".part", input_names=["pixels"],
                          output_names=list(TASKS[name].outputs), dynamo=False, opset_version=17)
    os.replace(out + ".part", out)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), *sys.argv[4:5])
