#!/usr/bin/env python3
"""sizes.py: checks that Fovea equals PyTorch at many picture sizes.

Small random checkpoints of every ViT family are run by transformers or timm in float64, and by Fovea from the same
file.

    sizes.py path/to/fovea [--match TEXT]

Prints a Markdown table of max |got - want| / max |want| of the last hidden state for each family and
size; the exit status is 1 if one is above 1e-5. "-" marks a size that the reference does not support.
Needs torch, transformers, timm and safetensors, as bench/peers/peers.py does:

    python3 -m venv build/sizes && build/sizes/bin/pip install torch transformers timm
    build/sizes/bin/python bench/sizes.py build/src/cli/fovea
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

import timm
import torch
import transformers as hf
from safetensors.torch import load_file, save_file

SIZES = [(224, 224), (518, 518), (480, 640), (640, 480), (256, 1024), (301, 133)]  # height, width
MOST = 1e-5
DINOV2 = {"hidden_size": 64, "num_hidden_layers": 3, "num_attention_heads": 2}
HIDDEN = dict(DINOV2, intermediate_size=160)
ANY_SIZE = {"interpolate_pos_encoding": True}
ARGUMENTS = {"embed_dim": 64, "depth": 3, "num_heads": 2}


def in_transformers(model, config, **call):
    return lambda: (model(config), call)


def in_timm(name, **arguments):
    return lambda: (timm.create_model(name, num_classes=0, **dict(ARGUMENTS, **arguments)), arguments)


FAMILIES = {
    "ViT": in_transformers(hf.ViTModel, hf.ViTConfig(**HIDDEN), **ANY_SIZE),
    "DeiT": in_transformers(hf.DeiTModel, hf.DeiTConfig(**HIDDEN), **ANY_SIZE),
    "DINOv2": in_transformers(hf.Dinov2Model, hf.Dinov2Config(image_size=518, patch_size=14, **DINOV2)),
    "DINOv2, registers": in_transformers(
        hf.Dinov2WithRegistersModel, hf.Dinov2WithRegistersConfig(image_size=518, patch_size=14, **DINOV2)),
    "DINOv3": in_transformers(hf.DINOv3ViTModel, hf.DINOv3ViTConfig(num_register_tokens=4, **HIDDEN)),
    "I-JEPA": in_transformers(hf.IJepaModel, hf.IJepaConfig(patch_size=14, **HIDDEN), **ANY_SIZE),
    "CLIP": in_transformers(hf.CLIPVisionModel, hf.CLIPVisionConfig(patch_size=16, **HIDDEN), **ANY_SIZE),
    "OWLv2": in_transformers(hf.Owlv2VisionModel, hf.Owlv2VisionConfig(patch_size=16, **HIDDEN), **ANY_SIZE),
    "SigLIP": in_transformers(hf.SiglipVisionModel, hf.SiglipVisionConfig(**HIDDEN), **ANY_SIZE),
    "BEiT": in_transformers(hf.BeitModel, hf.BeitConfig(
        use_relative_position_bias=True, use_absolute_position_embeddings=False, **HIDDEN), **ANY_SIZE),
    "SAM": in_timm("samvit_base_patch16", img_size=256, window_size=7, global_attn_indexes=[1]),
    "DINOv3 of timm": in_timm("vit_small_patch16_dinov3", dynamic_img_size=True),
    "ViT of timm": in_timm("vit_base_patch16_224", dynamic_img_size=True),
    "EVA-02": in_timm("eva02_tiny_patch14_224", dynamic_img_size=True),
    "Perception Encoder": in_timm("vit_pe_spatial_tiny_patch16_512", dynamic_img_size=True),
    "RoPE ViT": in_timm("vit_small_patch16_rope_224", dynamic_img_size=True),
}


def draw(model):
    """Sets weights to a size at which every part of the model affects the result."""
    for name, p in model.named_parameters():
        p.data.normal_(0, 0.08 if p.ndim > 1 else 0.1)
        if "norm" in name.lower() and name.endswith("weight") or "lambda" in name or "gamma" in name:
            p.data += 1
        if "pos" in name or "token" in name or "class_embedding" in name:
            p.data.normal_(0, 0.5)


def save(model, extra, folder):
    if isinstance(model, hf.PreTrainedModel):
        model.save_pretrained(folder)
        return
    save_file({k: v.contiguous() for k, v in model.state_dict().items()}, os.path.join(folder, "model.safetensors"))
    with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as f:
        json.dump({"architecture": model.default_cfg.get("architecture"), "num_classes": 0,
                   "model_args": dict(ARGUMENTS, **extra)}, f)


def reference(model, call, picture):
    """The last hidden state in float64; None: the reference does not accept such a picture."""
    try:
        with torch.no_grad():
            if isinstance(model, hf.PreTrainedModel):
                return model(picture, **call).last_hidden_state
            return model.forward_features(picture)
    except (AssertionError, RuntimeError, ValueError):
        return None


def difference(fovea, folder, picture, want):
    source, result = os.path.join(folder, "picture.safetensors"), os.path.join(folder, "result.safetensors")
    save_file({"input": picture.float().contiguous()}, source)
    p = subprocess.run([fovea, "run", folder, source, "--compute", "f32", "-o", result], capture_output=True, text=True)
    if p.returncode:
        sys.exit(p.stderr)
    got = load_file(result)["last_hidden_state"].double().reshape(want.shape)
    return float((got - want).abs().max() / want.abs().max())


def row(fovea, make):
    torch.manual_seed(1)
    model, call = make()
    model.eval()
    draw(model)
    cells = []
    with tempfile.TemporaryDirectory() as folder:
        save(model, call, folder)
        model.double()
        for height, width in SIZES:
            picture = torch.randn(1, 3, height, width).float().double()
            want = reference(model, call, picture)
            cells.append(None if want is None else difference(fovea, folder, picture, want))
    return cells


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("fovea")
    parser.add_argument("--match", default="")
    options = parser.parse_args()
    print("| family | " + " | ".join("%d x %d" % (w, h) for h, w in SIZES) + " |")
    print("|---|" + "---:|" * len(SIZES))
    worst = 0.0
    for name, make in FAMILIES.items():
        if options.match not in name:
            continue
        cells = row(os.path.abspath(options.fovea), make)
        worst = max([worst] + [c for c in cells if c is not None])
        print("| %s | " % name + " | ".join("-" if c is None else "%.0e" % c for c in cells) + " |", flush=True)
    return worst > MOST


if __name__ == "__main__":
    sys.exit(main())
