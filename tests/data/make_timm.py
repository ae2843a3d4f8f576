#!/usr/bin/env python3
"""make_timm.py: makes small golden models with timm, of architectures that are defined by their names alone.

    pip install torch==2.15.0 timm==1.0.31 safetensors      # several GB, into a virtual environment
    python3 make_timm.py [--match TEXT]                     # writes golden/models/timm-*

Each is timm's model of that name, narrow, with two blocks and random weights. test_golden.py expects its float64
outputs for a random input, whose size mostly differs from the native one. The vectors in the tree were made with
timm 1.0.31; another version may draw random numbers in another order, and then makes different, equally valid ones.
"""
import argparse
import json
import os
import shutil

import timm
import torch
from safetensors.torch import save_file
from timm.models import save_for_hf

MODELS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "golden", "models")
SMALL = {"patch_size": 8, "embed_dim": 32, "depth": 2, "num_heads": 2}
ANY = {"dynamic_img_size": True}

# Folder, architecture, arguments in addition to SMALL, native side, input (H, W), classes, what is special
CASES = [
    ("timm-beit3-01", "beit3_base_patch16_224", ANY, 40, (48, 64), 10,
     "norms inside attention and MLP, eps 1e-5, a norm behind the mean"),
    ("timm-clip-quickgelu-01", "vit_base_patch16_clip_quickgelu_224", ANY, 40, (64, 40), 10,
     "norm before the blocks, quick GELU, eps 1e-5"),
    ("timm-deit-distilled-01", "deit_base_distilled_patch16_224", ANY, 40, (40, 72), 10,
     "two prefix tokens, two heads averaged"),
    ("timm-dinov2-reg4-01", "vit_base_patch14_reg4_dinov2", ANY, 40, (48, 72), 0,
     "registers without positions, layer scale, a table resized with antialiasing"),
    ("timm-dinov3-plus-01", "vit_small_plus_patch16_dinov3_qkvb", {}, 40, (56, 40), 0,
     "gated MLP of two tensors, rotation, biases of queries and values"),
    ("timm-flexivit-01", "flexivit_small", ANY, 40, (72, 48), 10, "a class token without a position"),
    ("timm-pool-avgmax-01", "vit_base_patch16_224", dict(ANY, global_pool="avgmax", fc_norm=False), 40, (48, 64), 10,
     "half of the mean and half of the largest of the patches, which are normalised before"),
    ("timm-pool-max-01", "vit_base_patch16_224", dict(ANY, global_pool="max"), 40, (48, 64), 10,
     "the largest of the patches, channel by channel, a norm behind it"),
    ("timm-radio-v3-01", "vit_base_patch16_radio_v3", ANY, 48, (40, 64), 0,
     "no norm behind the blocks, seven registers"),
    ("timm-rope-reg4-gap-01", "vit_betwixt_patch16_rope_reg4_gap_256", ANY, 40, (40, 64), 10,
     "rotation, registers, no class token, a norm behind the mean"),
    ("timm-samvit-02", "samvit_base_patch16", {"global_attn_indexes": (1,), "window_size": 3, "neck_chans": 16}, 40,
     (48, 64), 0, "SAM's encoder without classes: the pooled row"),
    ("timm-siglip-tanh-01", "vit_base_patch32_siglip_256", ANY, 40, (40, 56), 0,
     "attention pooling; the GELU that its name stands for"),
    ("timm-test-vit3-01", "test_vit3", ANY, 40, (64, 48), 10,
     "attention pooling of all tokens, registers among them"),
]


def randomised(model):
    """Randomises weights so that each of them affects the results. Matrices preserve the size of activations, so
    that the two GELUs differ; vectors stay near their values, and none is zero."""
    with torch.no_grad():
        for p in model.parameters():
            if p.ndim == 1 or p.abs().max() == 0:
                p.add_(torch.randn_like(p) * 0.2)
            elif p.ndim == 2:
                p.mul_(1 / (p.std() * p.shape[1] ** 0.5))
    return model.eval()


def run(model, x):
    """{Fovea's name of the output: tensor}."""
    with torch.no_grad():
        features = model.forward_features(x)
        last = model.forward_head(features)
    return {"last_hidden_state": features, "logits" if model.num_classes else "pooler_output": last}


def make(case, architecture, extra, side, size, classes, notes, seed):
    torch.manual_seed(seed)
    arguments = dict(SMALL, img_size=(side, side), **extra)
    model = randomised(timm.create_model(architecture, pretrained=False, num_classes=classes, **arguments))
    folder = os.path.join(MODELS, case)
    shutil.rmtree(folder, ignore_errors=True)
    save_for_hf(model, folder, safe_serialization=True, model_args=arguments)
    x = torch.randn(1, 3, *size)
    single = run(model, x)
    double = run(model.double(), x.double())
    lost = {k: float((single[k] - v).abs().max() / v.abs().max()) for k, v in double.items()}
    source = "timm %s, %s %s" % (timm.__version__, architecture, arguments)
    tensors = {"input": x, **{k: v.float().contiguous() for k, v in double.items()}}
    save_file(tensors, os.path.join(folder, "io.safetensors"),
              {"source": source, "computed_in": "float64 (eval mode), stored as float32", "case": case,
               "fp32_rel_err": json.dumps(lost), "seed": str(seed), "reference": "official", "notes": notes,
               "kind": "model"})
    path = os.path.join(folder, "config.json")
    with open(path) as f:
        config = json.load(f)
    keep = ("interpolation", "crop_pct", "mean", "std")
    config["pretrained_cfg"] = {k: config["pretrained_cfg"][k] for k in keep}
    config["golden"] = {"input_shape": list(x.shape), "source": source, "notes": notes}
    with open(path, "w") as f:
        json.dump(config, f, indent=1)
        f.write("\n")
    total = sum(os.path.getsize(os.path.join(folder, name)) for name in os.listdir(folder))
    print("%-24s %4d KB, float32 loses %s" % (case, total // 1000, lost))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--match", default="", help="cases with this in their name alone")
    match = parser.parse_args().match
    for i, case in enumerate(CASES):
        if match in case[0]:
            make(*case, seed=7000 + i)


main()
