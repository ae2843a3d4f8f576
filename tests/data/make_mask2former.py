#!/usr/bin/env python3
"""make_mask2former.py: makes tests/data/golden/models/mask2former-*: small Mask2Formers with random weights, and the
results of transformers' Mask2FormerForUniversalSegmentation in float64. Over the pyramids that transformers does not
have, its decoders read the features that the references of tests/models compute.

    make_mask2former.py FOLDER

It needs torch and transformers 5.24. All weights are random, because transformers initialises some with zeros or ones,
which would hide errors.
"""
import json
import os
import sys

import numpy as np
import torch
from safetensors.torch import save_file
from transformers import (Dinov2Config, Dinov2WithRegistersConfig, Mask2FormerConfig,
                          Mask2FormerForUniversalSegmentation, SwinConfig)
from transformers.models.mask2former.modeling_mask2former import (Mask2FormerPixelDecoder,
                                                                  Mask2FormerTransformerModule)

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "models"))
import test_decoders as decoders
import test_polaformer as pola
import test_pyramid as pyramid

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
    # a pyramid: levels of different sizes, none of them a multiple of the windows, the last smaller than a window
    "mask2former-swin-01": ((70, 54), SwinConfig(embed_dim=8, depths=[2, 1, 1, 2], num_heads=[1, 2, 2, 4],
                                                 window_size=3, mlp_ratio=2,
                                                 out_features=["stage1", "stage2", "stage3", "stage4"]),
                            dict(hidden_dim=16, encoder_layers=1, decoder_layers=5)),
}

PYRAMIDS = {"mask2former-mavit-01": ("mavit", (51, 75)), "mask2former-pola-swin-01": ("pola_swin", (64, 96))}


def scramble(model, g):
    for name, p in model.named_parameters():
        table = "relative_position" in name
        r = torch.randn(p.shape, generator=g)
        if p.dim() > 1 and not table and "embed" not in name.split(".")[-1] and "token" not in name:
            p.data = r / p[0].numel() ** 0.5 * (2 if "sampling_offsets" in name else 1)
        elif name.endswith("weight") or "lambda" in name:
            p.data = 1 + 0.3 * r
        else:
            p.data = 0.5 * r


def features(family, c, t, x):
    """The three stages of a pyramid, as (C, H, W) in float64."""
    if family == "mavit":
        out = pyramid.forward(t, x, c)
        return [out["stage%d" % i] for i in (1, 2, 3)]
    last = decoders.WIDTHS[family][-1]
    out = pola.define(c, dict(t, **{"norm.weight": np.ones(last), "norm.bias": np.zeros(last)}), x)
    t = {n: v.astype(np.float64) for n, v in t.items()}
    grids = [[s >> (2 + i) for s in x.shape[1:]] for i in range(3)]
    return [pola.picture(pola.norm(out["stage%d" % (i + 1)], t, "norm%d." % i, 1e-5), grids[i]) for i in range(3)]


def over_pyramid(folder, seed, family, size):
    rng, g = np.random.default_rng(seed), torch.Generator().manual_seed(seed)
    c, t = decoders.backbone(family, rng)
    own = dict(SIZES, hidden_dim=16, encoder_layers=1, decoder_layers=4, feature_strides=[4, 8, 16], common_stride=2)
    config = Mask2FormerConfig(backbone_config=SwinConfig(), **own)
    parts = {"model.pixel_level_module.decoder.": Mask2FormerPixelDecoder(config, decoders.WIDTHS[family]).eval(),
             "model.transformer_module.": Mask2FormerTransformerModule(config.feature_size, config).eval(),
             "class_predictor.": torch.nn.Linear(16, SIZES["num_labels"] + 1)}
    tensors = {"model.pixel_level_module.encoder." + n: torch.from_numpy(np.ascontiguousarray(v)) for n, v in t.items()}
    for prefix, part in parts.items():
        scramble(part, g)
        tensors.update({prefix + n: v.clone() for n, v in part.state_dict().items()})
    save_file(tensors, os.path.join(folder, "model.safetensors"))
    fields = dict(own, model_type="mask2former", backbone_config=dict(c, out_features=["stage1", "stage2", "stage3"]))
    del fields["num_labels"]
    with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as f:
        json.dump(fields, f, indent=2)
    x = rng.standard_normal((3, *size)).astype(np.float32)
    pixels, queries, classes = (part.double() for part in parts.values())
    y = pixels([torch.from_numpy(f)[None] for f in features(family, c, t, x)])
    y = queries(multi_scale_features=y.multi_scale_features, mask_features=y.mask_features)
    logits = classes(y.intermediate_hidden_states[-1].transpose(0, 1))
    save_file({"input": torch.from_numpy(x)[None], "class_queries_logits": logits.float().contiguous(),
               "masks_queries_logits": y.masks_queries_logits[-1].float().contiguous()},
              os.path.join(folder, "io.safetensors"))


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
    for seed, (name, (family, size)) in enumerate(PYRAMIDS.items()):
        folder = os.path.join(sys.argv[1], name)
        os.makedirs(folder, exist_ok=True)
        with torch.no_grad():
            over_pyramid(folder, 40 + seed, family, size)


main()
