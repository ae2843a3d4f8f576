#!/usr/bin/env python3
"""make_aliases.py: makes small golden models with transformers, of ViTs that have other names for their type, their
tensors or the section of config.json that describes them.

    pip install torch==2.15.0 transformers==5.24.0 safetensors      # several GB, into a virtual environment
    python3 make_aliases.py [--match TEXT]                          # writes golden/models/alias-*

Each is transformers' model of that type, narrow, with two blocks and random weights, as save_pretrained writes it. Of
a larger model, the vision tower is compared, and most other tensors are left out of the file. test_golden.py expects
its float64 outputs for a random input. Another version of PyTorch may draw random numbers in another order, and then
makes different, equally valid vectors.
"""
import argparse
import importlib
import json
import os
import re
import shutil

import torch
import transformers
from safetensors.torch import load_file, save_file

MODELS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "golden", "models")
VISION = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2,
          "patch_size": 4, "image_size": 20}
TEXT = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 1, "num_attention_heads": 2,
        "num_key_value_heads": 1, "head_dim": 8, "vocab_size": 32, "max_position_embeddings": 16, "pad_token_id": 1,
        "bos_token_id": 0, "eos_token_id": 2}
QWEN = dict(TEXT, model_type="qwen2", layer_types=["full_attention"])
GEMMA = dict(TEXT, layer_types=["full_attention"])
SAM = {"hidden_size": 16, "mlp_dim": 24, "num_hidden_layers": 2, "num_attention_heads": 2, "patch_size": 4,
       "image_size": 32, "window_size": 3, "global_attn_indexes": [1, 5], "output_channels": 12}
RATIO = {k: v for k, v in dict(VISION, mlp_ratio=2).items() if k != "intermediate_size"}
RESIZED = {"interpolate_pos_encoding": True}
PALIGEMMA = {"model_type": "paligemma", "vision_config": dict(VISION, model_type="siglip_vision_model"),
             "text_config": dict(GEMMA, model_type="gemma"), "projection_dim": 16, "image_token_index": 31}
OTHERS = r"language_model|text_model|multimodal|(^|\.)decoder\.|word_embeddings"
# modules with classes that transformers does not export
HIDDEN = ("got_ocr2.modeling_got_ocr2", "idefics2.modeling_idefics2", "ovis2.modeling_ovis2",
          "pp_formulanet.modeling_pp_formulanet")
LAST, POOLED = "last_hidden_state", "pooler_output"

# Folder, class, configuration, attribute of the tower, its arguments, input (H, W), outputs, what is special
CASES = [
    ("alias-altclip-01", "AltCLIPModel", {"vision_config": VISION, "text_config": dict(TEXT, project_dim=16),
                                          "projection_dim": 8},
     "vision_model", RESIZED, (32, 20), (LAST, POOLED), "blocks are called layer instead of layers"),
    ("alias-blip-01", "BlipVisionModel", VISION, "", RESIZED, (20, 28), (LAST, POOLED),
     "queries, keys and values in one tensor; the pooled row is normalised twice"),
    ("alias-colpali-01", "ColPaliForRetrieval", {"vlm_config": PALIGEMMA, "embedding_dim": 8}, "vlm.vision_tower", {},
     (20, 20), (LAST,), "the tower's section is vlm_config.vision_config"),
    ("alias-flava-01", "FlavaModel", {"image_config": VISION, "text_config": TEXT, "multimodal_config": TEXT,
                                     "projection_dim": 8,
                                     "image_codebook_config": {"hidden_size": 4}},
     "image_model", RESIZED, (24, 32), (LAST, POOLED), "the tower's section is image_config"),
    ("alias-git-01", "GitModel", dict(TEXT, vision_config=VISION), "image_encoder.vision_model", RESIZED, (24, 32),
     (LAST,), "CLIP with the last norm on all tokens"),
    ("alias-got-ocr2-01", "GotOcr2VisionEncoder", SAM, "", {}, (32, 32), (LAST,),
     "SAM's encoder, with the index of a block that does not exist"),
    ("alias-idefics2-01", "Idefics2VisionTransformer", VISION, "", {}, (20, 36), (LAST,),
     "patches get the position of the part of the picture that they are in"),
    ("alias-internvl-01", "InternVLModel", {"vision_config": VISION, "text_config": QWEN, "downsample_ratio": 1.0,
                                            "image_token_id": 31},
     "vision_tower", {}, (32, 20), (LAST,), "layer scales, no biases of queries, keys and values, no last norm"),
    ("alias-janus-01", "JanusVisionModel", dict(VISION, mlp_ratio=1.5), "", RESIZED, (20, 32), (LAST,),
     "another name of the attention's last projection"),
    ("alias-kosmos-2-01", "Kosmos2Model", {"vision_config": VISION, "text_config": {
        "vocab_size": 32, "embed_dim": 16, "layers": 1, "ffn_dim": 24, "attention_heads": 2,
        "max_position_embeddings": 16}, "latent_query_num": 2},
     "vision_model.model", RESIZED, (28, 20), (LAST, POOLED), "the tower's prefix is vision_model.model."),
    ("alias-metaclip-2-01", "MetaClip2ForImageClassification",
     {"vision_config": VISION, "text_config": TEXT, "num_labels": 3, "projection_dim": 8}, "", {}, (20, 20),
     ("logits",), "CLIP's head"),
    ("alias-pixio-01", "PixioModel", dict(RATIO, n_cls_tokens=3), "", {}, (24, 32), (LAST,),
     "three class tokens with positions"),
    ("alias-qianfan-ocr-01", "QianfanOCRModel", {"vision_config": VISION, "text_config": dict(QWEN, model_type="qwen3"),
                                                 "downsample_ratio": 1.0, "image_token_id": 31},
     "vision_tower", {}, (32, 20), (LAST,), "the tensor names of InternViT's authors"),
    ("alias-t5gemma2-01", "T5Gemma2Model", {
        "encoder": {"vision_config": dict(VISION, model_type="siglip_vision_model"), "text_config": GEMMA,
                    "mm_tokens_per_image": 4},
        "decoder": GEMMA, "image_token_index": 31, "eoi_token_index": 30},
     "encoder.vision_tower", RESIZED, (24, 32), (LAST, POOLED), "the tower's section is encoder.vision_config"),
    ("alias-tipsv2-01", "Tipsv2VisionModel", dict(RATIO, num_register_tokens=2), "", {}, (24, 32),
     (LAST, POOLED), "the tensor names of TIPSv2's authors; positions are resized bilinearly with antialiasing"),
    ("alias-vision-encoder-decoder-01", "VisionEncoderDecoderModel", {
        "encoder": dict(VISION, model_type="deit"), "decoder": dict(TEXT, model_type="bert")},
     "encoder", RESIZED, (24, 32), (LAST, POOLED), "the tower's section is encoder"),
    ("alias-vit-msn-01", "ViTMSNModel", VISION, "", RESIZED, (24, 32), (LAST,), "another epsilon than ViT's"),
    ("alias-aimv2-01", "Aimv2Model", {"vision_config": dict(VISION, qkv_bias=True, mlp_bias=True), "text_config": TEXT,
                                      "projection_dim": 8},
     "vision_model", {}, (20, 20), (LAST,), "norms by the root mean square, one of them before the positions; biases"),
    ("alias-ovis2-01", "Ovis2VisionModel", dict(VISION, vocab_size=24, num_visual_indicator_tokens=2), "transformer",
     {}, (20, 20), (LAST,), "AIMv2 without biases, under the prefix transformer."),
    ("alias-mgp-str-01", "MgpstrModel", dict(VISION, mlp_ratio=1.5, image_size=[16, 40]), "", {}, (16, 40), (LAST,),
     "names of timm's blocks, no last norm, a picture that is not square"),
    ("alias-pp-formulanet-01", "PPFormulaNetVisionModel", dict(SAM, decoder_hidden_size=8, post_conv_in_channels=12,
                                                               post_conv_mid_channels=8, post_conv_out_channels=8),
     "", {}, (32, 32), (LAST,), "SAM's encoder beside a projector"),
    ("alias-mlcd-01", "MLCDVisionModel", VISION, "", {}, (32, 20), (LAST, POOLED),
     "CLIP with rotary positions, and learned angles of the class"),
]


def randomised(model):
    """Randomises weights so that each of them affects the results. Matrices preserve the size of activations, vectors
    stay near their values, and none is zero.."""
    with torch.no_grad():
        for p in model.parameters():
            if p.ndim < 2:
                p.add_(torch.randn_like(p) * 0.2)
            else:
                p.copy_(torch.randn_like(p) / (p[0].numel() ** 0.5 if p.shape[0] > 1 else 3))
    return model.eval()


def run(model, x, tower, arguments, outputs):
    for name in filter(None, tower.split(".")):
        model = getattr(model, name)
    if outputs == ("logits",):
        arguments = {}
    with torch.no_grad():
        out = model(pixel_values=x, **arguments)
    return {name: out[name] for name in outputs}


def make(case, name, settings, tower, arguments, size, outputs, notes, seed):
    torch.manual_seed(seed)
    kind = getattr(transformers, name, None)
    for module in () if kind else HIDDEN:
        kind = kind or getattr(importlib.import_module("transformers.models." + module), name, None)
    model = randomised(kind(kind.config_class(**json.loads(json.dumps(settings)))))
    folder = os.path.join(MODELS, case)
    shutil.rmtree(folder, ignore_errors=True)
    model.save_pretrained(folder)
    weights = os.path.join(folder, "model.safetensors")
    save_file({n: t for n, t in load_file(weights).items() if not re.search(OTHERS, n)}, weights)
    for extra in set(os.listdir(folder)) - {"config.json", "model.safetensors"}:
        os.remove(os.path.join(folder, extra))
    x = torch.randn(1, 3, *size)
    single = run(model, x, tower, arguments, outputs)
    double = run(model.double(), x.double(), tower, arguments, outputs)
    lost = {k: float((single[k] - v).abs().max() / v.abs().max()) for k, v in double.items()}
    source = "transformers %s, %s" % (transformers.__version__, name)
    save_file({"input": x, **{k: v.float().contiguous() for k, v in double.items()}},
              os.path.join(folder, "io.safetensors"),
              {"source": source, "computed_in": "float64 (eval mode), stored as float32", "case": case,
               "fp32_rel_err": json.dumps(lost), "seed": str(seed), "reference": "official", "notes": notes,
               "kind": "model"})
    path = os.path.join(folder, "config.json")
    with open(path) as f:
        config = json.load(f)
    config["golden"] = {"input_shape": list(x.shape), "source": source, "notes": notes}
    with open(path, "w") as f:
        json.dump(config, f, indent=1)
        f.write("\n")
    total = sum(os.path.getsize(os.path.join(folder, n)) for n in os.listdir(folder))
    print("%-32s %4d KB, %d tensors, float32 loses %s" % (
        case, total // 1000, len(load_file(weights)), lost))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--match", default="", help="cases with this in their name alone")
    match = parser.parse_args().match
    for i, case in enumerate(CASES):
        if match in case[0]:
            make(*case, seed=8000 + i)


main()
