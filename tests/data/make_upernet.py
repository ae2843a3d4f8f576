#!/usr/bin/env python3
"""make_upernet.py: makes tests/data/golden/models/upernet-swin-01: a small UperNet over a Swin with random weights, and
the results of transformers' UperNetForSemanticSegmentation in float64, before they are resized to the picture.

    make_upernet.py FOLDER

It needs torch and transformers 5.24. All weights are random, because transformers initialises some with zeros or ones,
which would hide errors.
"""
import os
import sys

import torch
from safetensors.torch import save_file
from transformers import SwinConfig, UperNetConfig, UperNetForSemanticSegmentation


def scramble(model, g):
    tensors = dict(model.named_parameters())
    tensors.update((n, b) for n, b in model.named_buffers() if "running" in n)
    for name, p in tensors.items():
        r = torch.randn(p.shape, generator=g)
        if "running_var" in name:
            p.data = r.abs() + 0.3
        elif "norm" in name and name.endswith("weight"):
            p.data = 1 + 0.3 * r
        elif p.dim() > 1 and "table" not in name:
            p.data = r * (1.5 / p[0].numel()) ** 0.5
        else:
            p.data = 0.5 * r


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    folder = os.path.join(sys.argv[1], "upernet-swin-01")
    os.makedirs(folder, exist_ok=True)
    g = torch.Generator().manual_seed(60)
    backbone = SwinConfig(embed_dim=8, depths=[1, 2, 1], num_heads=[1, 2, 2], window_size=3, mlp_ratio=2,
                          out_features=["stage1", "stage2", "stage3"])
    config = UperNetConfig(backbone_config=backbone, hidden_size=12, pool_scales=[1, 3], num_labels=5,
                           auxiliary_channels=6, auxiliary_in_channels=32)
    model = UperNetForSemanticSegmentation(config).eval()
    scramble(model, g)
    model.save_pretrained(folder)
    x = torch.randn((1, 3, 54, 71), generator=g)  # neither patches nor windows divide it
    logits = []
    model.decode_head.register_forward_hook(lambda module, inputs, output: logits.append(output))
    with torch.no_grad():
        model.double()(x.double())
    save_file({"input": x, "seg_logits": logits[0].float().contiguous()}, os.path.join(folder, "io.safetensors"))


main()
