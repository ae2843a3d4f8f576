#!/usr/bin/env python3
"""make_dpt.py: makes tests/data/golden/models/dpt-01 and dpt-02: small DPTs for depth with random weights, over DINOv2
and over a ViT of their own, and the depth that transformers' DPTForDepthEstimation computes in float64.

    make_dpt.py FOLDER

It needs torch and transformers 5.24.
"""
import json
import os
import sys

import torch
from safetensors.torch import load_file, save_file
from transformers import DPTConfig, DPTForDepthEstimation

NECK = {"neck_hidden_sizes": [4, 6, 8, 10], "fusion_hidden_size": 12}
DINOV2 = {"model_type": "dinov2", "hidden_size": 16, "num_hidden_layers": 4, "num_attention_heads": 2, "mlp_ratio": 2,
          "image_size": 28, "patch_size": 7, "out_indices": [1, 2, 3, 4], "reshape_hidden_states": False,
          "apply_layernorm": False}
OWN = {"hidden_size": 16, "num_hidden_layers": 4, "num_attention_heads": 2, "intermediate_size": 24, "image_size": 32,
       "patch_size": 8, "backbone_out_indices": [0, 1, 2, 3]}
# Grids with odd sides: features of a level are resized to twice the size of the coarser one.
CASES = {"dpt-01": (dict(NECK, backbone_config=DINOV2, use_bias_in_fusion_residual=False), (21, 28)),
         "dpt-02": (dict(NECK, **OWN, readout_type="add"), (24, 24))}


def scramble(model, random):
    with torch.no_grad():
        for name, p in model.named_parameters():
            scale = 0.2 if p.dim() < 2 else 1.2 / p[0].numel() ** 0.5
            mean = 1.0 if "lambda" in name or ("norm" in name and name.endswith("weight")) else 0.0
            p.copy_(mean + scale * torch.randn(p.shape, generator=random))
        model.head.head[4].bias.fill_(18.0)  # the last step is a ReLU


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    for seed, (name, (settings, size)) in enumerate(CASES.items()):
        folder, random = os.path.join(sys.argv[1], name), torch.Generator().manual_seed(70 + seed)
        model = DPTForDepthEstimation(DPTConfig(**settings)).eval()
        scramble(model, random)
        model.save_pretrained(folder)
        picture = torch.randn(1, 3, *size, generator=random)
        with torch.no_grad():
            depth = model.double()(pixel_values=picture.double()).predicted_depth.float()
        print(name, list(depth.shape), "share above 0: %.2f" % (depth > 0).float().mean())
        path = os.path.join(folder, "config.json")
        with open(path) as f:
            config = json.load(f)
        config["golden"] = {"input_shape": list(picture.shape), "source": "transformers DPTForDepthEstimation"}
        with open(path, "w") as f:
            json.dump(config, f, indent=1)
            f.write("\n")
        save_file({"input": picture, "predicted_depth": depth.contiguous()}, os.path.join(folder, "io.safetensors"),
                  {"computed_in": "float64, stored as float32", "fp32_rel_err": json.dumps({"predicted_depth": 2e-6})})
        weights = os.path.join(folder, "model.safetensors")
        save_file(load_file(weights), weights, {"format": "pt"})
        for file in ("io.safetensors", "model.safetensors"):
            os.chmod(os.path.join(folder, file), 0o644)


if __name__ == "__main__":
    main()
