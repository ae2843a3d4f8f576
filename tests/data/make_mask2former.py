#!/usr/bin/env python3
"""make_mask2former.py: makes tests/data/golden/models/mask2former-*: small Mask2Formers with random weights, and the
results of transformers' Mask2FormerForUniversalSegmentation in float64.

    make_mask2former.py FOLDER

It needs torch and transformers 5.24. All weights are random, because transformers initialises some with zeros or ones,
which would hide errors.
"""
import os
import sys

import torch
from safetensors.torch import save_file
from transformers import Dinov2Config, Dinov2WithRegistersConfig, Mask2FormerConfig, Mask2FormerForUniversalSegmentation

BACKBONE = dict(hidden_size=16, num_hidden_layers=4, num_attention_heads=2, image_size=28, patch_size=7, mlp_ratio=2)
SIZES = dict(feature_size=32, mask_feature_size=12, encoder_feedforward_dim=24, dim_feedforward=20, num_attention_heads=4,
             num_queries=6, num_labels=5)
CASES = {
    # a finer level, and queries of another width; the coarsest level is attended to twice
    "mask2former-01": ((42, 28), Dinov2Config(out_features=["stage1", "stage2", "stage3", "stage4"], **BACKBONE),
                       dict(hidden_dim=16, encoder_layers=2, decoder_layers=5)),
    # no finer level, norms before the parts of a layer
    "mask2former-02": ((21, 49), Dinov2WithRegistersConfig(out_features=["stage2", "stage3", "stage4"],
                                                           num_register_tokens=2, **BACKBONE),
                       dict(hidden_dim=32, encoder_layers=1, decoder_layers=4, common_stride=8, pre_norm=True,
                            activation_function="gelu")),
}


def scramble(model, g):
    for name, p in model.named_parameters():
        r = torch.randn(p.shape, generator=g)
        if p.dim() > 1 and "embed" not in name.split(".")[-1] and "token" not in name:
            p.data = r / p[0].numel() ** 0.5 * (2 if "sampling_offsets" in name else 1)
        elif name.endswith("weight") or "lambda" in name:
            p.data = 1 + 0.3 * r
        else:
            p.data = 0.5 * r


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    for seed, (name, (size, backbone, more)) in enumerate(CASES.items()):
        folder = os.path.join(sys.argv[1], name)
        os.makedirs(folder, exist_ok=True)
        g = torch.Generator().manual_seed(20 + seed)
        model = Mask2FormerForUniversalSegmentation(Mask2FormerConfig(backbone_config=backbone, **SIZES, **more)).eval()
        scramble(model, g)
        model.save_pretrained(folder)
        x = torch.randn((1, 3, *size), generator=g)
        with torch.no_grad():
            y = model.double()(x.double())
        save_file({"input": x, "masks_queries_logits": y.masks_queries_logits.float().contiguous(),
                   "class_queries_logits": y.class_queries_logits.float().contiguous()},
                  os.path.join(folder, "io.safetensors"))


main()
