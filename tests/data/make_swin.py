#!/usr/bin/env python3
"""make_swin.py: makes tests/data/golden/models/swin-* and timm-swin-*: small Swins with random weights, and the results
of transformers and timm in float64.

    make_swin.py FOLDER

It needs torch, transformers 5.24 and timm 1.0. All weights are random, because the libraries initialise some with zeros
or ones, which would hide errors.
"""
import json
import os
import sys

import timm
import torch
from safetensors.torch import save_file
from transformers import SwinBackbone, SwinConfig, SwinForImageClassification


def scramble(model, g):
    for name, p in model.named_parameters():
        r = torch.randn(p.shape, generator=g)
        if "norm" in name and name.endswith("weight"):
            p.data = 1 + 0.3 * r
        elif p.dim() > 1 and "table" not in name and "position" not in name:
            p.data = r / p[0].numel() ** 0.5
        else:
            p.data = 0.5 * r


def rows(x):
    return x.flatten(2).transpose(1, 2) if x.dim() == 4 else x


def save(folder, x, outputs):
    """Features have the prefix of the program's files."""
    plain = ("logits", "pooler_output")
    save_file({"input": x, **{(name if name in plain else "feat." + name): y.detach().float().contiguous()
                              for name, y in outputs.items()}},
              os.path.join(folder, "io.safetensors"))


def begin(root, name, seed):
    folder = os.path.join(root, name)
    os.makedirs(folder, exist_ok=True)
    return folder, torch.Generator().manual_seed(seed)


def classifier(root):
    """The grids are not multiples of the windows, the picture is none of the patches; the last grid is no larger than a
    window, and so does not shift."""
    folder, g = begin(root, "swin-01", 1)
    config = SwinConfig(image_size=48, embed_dim=8, depths=[2, 3, 2], num_heads=[1, 2, 4], window_size=3,
                        layer_norm_eps=1e-3, mlp_ratio=2.5, num_labels=5)
    model = SwinForImageClassification(config).eval()
    scramble(model, g)
    model.save_pretrained(folder)
    x = torch.randn((1, 3, 37, 50), generator=g)
    y = model.double()(x.double(), output_hidden_states=True)
    base = model.swin(x.double())
    hidden = y.hidden_states
    save(folder, x, {"logits": y.logits, "patch_embed": hidden[0], "down1": hidden[1], "down2": hidden[2],
                     "stage3": hidden[3], "norm": base.last_hidden_state, "pooler_output": base.pooler_output})


def backbone(root):
    """Norms of some stages, positions, no biases of queries, keys and values, and the names that modules have now."""
    folder, g = begin(root, "swin-02", 2)
    config = SwinConfig(image_size=32, patch_size=2, embed_dim=12, depths=[2, 2], num_heads=[3, 2], window_size=5,
                        qkv_bias=False, use_absolute_embeddings=True, out_features=["stage1", "stage2"])
    model = SwinBackbone(config).eval()
    scramble(model, g)
    config.save_pretrained(folder)
    save_file(model.state_dict(), os.path.join(folder, "model.safetensors"))
    x = torch.randn((1, 3, 18, 26), generator=g)  # the last grid is smaller than a window
    y = model.double()(x.double(), interpolate_pos_encoding=True)
    save(folder, x, {"stage%d" % (i + 1): rows(f) for i, f in enumerate(y.feature_maps)})


def of_timm(root, name, original=False, size=(48, 48), window=6, depths=(2, 2, 1)):
    """timm's names, or those of the original code."""
    folder, g = begin(root, name, 3)
    sizes = dict(img_size=size, patch_size=4, embed_dim=8, depths=depths, num_heads=(2, 2, 4), window_size=window,
                 mlp_ratio=2, num_classes=7)
    model = timm.models.swin_transformer.SwinTransformer(**sizes).eval()
    scramble(model, g)
    weights = {n: t.clone() for n, t in model.state_dict().items()}
    if original:
        for i in (1, 2):
            for part in ("norm.weight", "norm.bias", "reduction.weight"):
                weights["layers.%d.downsample.%s" % (i - 1, part)] = weights.pop("layers.%d.downsample.%s" % (i, part))
        for part in ("weight", "bias"):
            weights["head." + part] = weights.pop("head.fc." + part)
    save_file(weights, os.path.join(folder, "model.safetensors"))
    config = {"architecture": "swin_tiny_patch4_window7_224", "num_classes": 7, "num_features": 32,
              "pretrained_cfg": {"input_size": [3, *size], "mean": [0.5] * 3, "std": [0.5] * 3,
                                 "interpolation": "bicubic", "crop_pct": 0.9}}
    with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as f:
        json.dump(config, f, indent=2)
    x = torch.randn((1, 3, *size), generator=g)
    double = model.double()
    norm = double.forward_features(x.double())
    save(folder, x, {"logits": double(x.double()), "norm": norm.flatten(1, 2)})


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    with torch.no_grad():
        classifier(sys.argv[1])
        backbone(sys.argv[1])
        of_timm(sys.argv[1], "timm-swin-01")
        of_timm(sys.argv[1], "timm-swin-02", original=True)
        # windows that do not divide the grids; the last one shifts only in one direction
        of_timm(sys.argv[1], "timm-swin-03", size=(40, 56), window=3, depths=(2, 2, 2))


main()
