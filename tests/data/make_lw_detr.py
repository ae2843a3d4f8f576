#!/usr/bin/env python3
"""make_lw_detr.py: makes tests/data/golden/models/lw-detr-01, a small LW-DETR with random weights, with transformers.

    pip install torch==2.15.0 transformers==5.24.0 safetensors      # several GB, into a virtual environment
    python3 make_lw_detr.py

test_golden.py expects the class's float64 outputs for a random input that is not square.
"""
import os
import shutil

import torch
from safetensors.torch import save_file
from transformers import LwDetrConfig, LwDetrForObjectDetection, LwDetrViTConfig

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "golden", "models", "lw-detr-01")
HEIGHT, WIDTH = 42, 56
BACKBONE = LwDetrViTConfig(hidden_size=16, num_hidden_layers=3, num_attention_heads=2, mlp_ratio=2, image_size=56,
                           pretrain_image_size=28, patch_size=7, num_windows=4, window_block_indices=[0, 2],
                           out_indices=[1, 3])
CONFIG = LwDetrConfig(backbone_config=BACKBONE, **{"projector_scale_factors": [1.0]}, d_model=16, decoder_layers=2,
                      decoder_self_attention_heads=4, decoder_cross_attention_heads=2, decoder_n_points=3,
                      decoder_ffn_dim=24, num_queries=5, group_detr=2, num_labels=4, c2f_num_blocks=1)


def randomised(model, generator):
    """Random weights, so that each of them affects the results. Matrices preserve the size of activations."""
    with torch.no_grad():
        for name, p in list(model.named_parameters()) + list(model.named_buffers()):
            if name.endswith("running_var"):
                p.copy_(torch.rand(p.shape, generator=generator) + 0.5)
            elif p.is_floating_point() and p.ndim <= 1:
                p.add_(torch.randn(p.shape, generator=generator) * 0.1)
            elif name.endswith(("position_embeddings", "query_feat.weight", "reference_point_embed.weight")):
                p.copy_(torch.randn(p.shape, generator=generator) * 0.3)
            elif p.is_floating_point():
                p.copy_(torch.randn(p.shape, generator=generator) / (p.numel() / p.shape[0]) ** 0.5)
    return model.eval()


def main():
    generator = torch.Generator().manual_seed(7)
    model = randomised(LwDetrForObjectDetection(CONFIG), generator)
    shutil.rmtree(FOLDER, ignore_errors=True)
    model.save_pretrained(FOLDER)
    picture = torch.randn(1, 3, HEIGHT, WIDTH, generator=generator)
    with torch.no_grad():
        out = model.double()(picture.double())
    save_file({"input": picture, "logits": out.logits.float(), "pred_boxes": out.pred_boxes.float()},
              os.path.join(FOLDER, "io.safetensors"),
              {"fp32_rel_err": '{"logits": 2e-06, "pred_boxes": 2e-06}', "computed_in": "float64, stored as float32",
               "source": "tests/data/make_lw_detr.py"})


if __name__ == "__main__":
    main()
