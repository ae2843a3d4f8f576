#!/usr/bin/env python3
"""make_aliases.py: makes small golden models with transformers, of ViTs that have other names for their type, their
tensors or the section of config.json that describes them.

    pip install torch==2.15.0 transformers==5.24.0 safetensors      # several GB, into a virtual environment
    python3 make_aliases.py [--match TEXT]                          # writes golden/models/alias-*, yolos-*

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
from transformers.vision_utils import get_vision_window_index

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
OTHERS = (r"language_model|text_model|multi_?modal|(^|\.)decoder\.|word_embeddings|lm_head|mm_projector|deepstack"
          r"|^model\.(layers|norm|embed_tokens|projector)|^(projector|norm|tok_embeddings|output)\."
          r"|^vision_language_adapter|^layers\.\d+\.(attention|feed_forward|ffn)|vit_downsampler")
# modules with classes that transformers does not export
HIDDEN = ("got_ocr2.modeling_got_ocr2", "idefics2.modeling_idefics2", "ovis2.modeling_ovis2",
          "pp_formulanet.modeling_pp_formulanet", "ernie4_5_vl_moe.modeling_ernie4_5_vl_moe",
          "paddleocr_vl.modeling_paddleocr_vl", "hunyuan_vl.modeling_hunyuan_vl", "hy_v4_vl.modeling_hy_v4_vl",
          "cosmos3_edge.modeling_cosmos3_edge", "glm_image.modeling_glm_image",
          "qwen3_omni_moe.modeling_qwen3_omni_moe", "qwen2_5_omni.modeling_qwen2_5_omni",
          "step3p7.modeling_step3p7", "molmo2.modeling_molmo2")
LAST, POOLED = "last_hidden_state", "pooler_output"
MERGED = "merged_patches"  # transformers: pooler_output
VL = {"hidden_size": 16, "intermediate_size": 24, "depth": 2, "num_heads": 2, "patch_size": 4, "out_hidden_size": 12}
PATCHES = {k: v for k, v in VISION.items() if k != "image_size"}
# How a tower gets its patches: the name of its argument, the shape of a patch, patches that it joins, and frames
WINDOWS = {"packed": {"name": "hidden_states", "merge": 2, "frames": 2, "windows": True}}
FRAMES = {"packed": {"name": "hidden_states", "merge": 2, "frames": 2}}

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
    ("alias-qwen2-vl-01", "Qwen2VLModel", {"vision_config": {"embed_dim": 16, "hidden_size": 12, "mlp_ratio": 2,
                                                             "depth": 2, "num_heads": 2, "patch_size": 4},
                                           "text_config": dict(TEXT, hidden_size=12, layer_types=["full_attention"])},
     "visual", FRAMES, (24, 40), (LAST, MERGED), "only rotary positions; filters of two frames; a merger"),
    ("alias-qwen2-5-vl-01", "Qwen2_5_VLModel", {
        "vision_config": dict(VL, window_size=16, fullatt_block_indexes=[1], depth=3),
        "text_config": dict(TEXT, hidden_size=12, layer_types=["full_attention"])},
     "visual", WINDOWS, (24, 40), (LAST, MERGED), "windows, smaller at the right and bottom, in two of three blocks"),
    ("alias-qwen2-5-vl-02", "Qwen2_5OmniVisionEncoder", dict(VL, window_size=20, fullatt_block_indexes=[0]), "",
     WINDOWS, (16, 48), (LAST, MERGED), "whole windows"),
    ("alias-qwen2-5-vl-03", "Qwen2_5OmniVisionEncoder", dict(VL, window_size=64, fullatt_block_indexes=[]), "",
     WINDOWS, (16, 24), (LAST, MERGED), "windows that are larger than the picture"),
    ("alias-qwen3-vl-01", "Qwen3VLModel", {
        "vision_config": dict(VL, num_position_embeddings=16, deepstack_visual_indexes=[0]),
        "text_config": dict(TEXT, hidden_size=12, layer_types=["full_attention"])},
     "visual", FRAMES, (24, 40), (LAST, MERGED), "positions whose corners stay at the corners, and rotary ones"),
    ("alias-qwen3-omni-01", "Qwen3OmniMoeVisionEncoder", dict(VL, num_position_embeddings=16,
                                                              deepstack_visual_indexes=[0]),
     "", FRAMES, (16, 24), (LAST, MERGED), "Qwen3-VL with other names"),
    ("alias-ernie-vl-01", "Ernie4_5_VLMoeVisionTransformerPretrainedModel",
     {k: v for k, v in VL.items() if k != "out_hidden_size"}, "",
     {"packed": {"name": "hidden_states", "merge": 2}}, (24, 16), (LAST,), "Qwen2-VL with a last norm"),
    ("alias-glm4v-01", "Glm4vModel", {
        "vision_config": dict(VL, image_size=20), "text_config": dict(TEXT, hidden_size=12,
                                                                      layer_types=["full_attention"])},
     "visual", {"packed": {"name": "hidden_states", "merge": 2, "frames": 2, "hook": "post_layernorm"}}, (24, 40),
     (LAST,), "norms by the root mean square, one of them before the positions; a gated MLP"),
    ("alias-glm-ocr-01", "GlmOcrModel", {
        "vision_config": dict(VL, image_size=20), "text_config": dict(TEXT, hidden_size=12,
                                                                      layer_types=["full_attention"])},
     "visual", {"packed": {"name": "hidden_states", "merge": 2, "frames": 2, "hook": "post_layernorm"}}, (16, 40),
     (LAST,), "norms of each head's queries and keys"),
    ("alias-glm-image-01", "GlmImageVisionModel", dict(VL, image_size=20, spatial_merge_size=1), "",
     {"packed": {"name": "pixel_values"}}, (20, 36), (LAST,), "positions only from a table, resized bilinearly"),
    ("alias-pixtral-01", "Mistral3Model", {"vision_config": dict(PATCHES, image_size=64, model_type="pixtral"),
                                           "text_config": dict(TEXT, model_type="mistral")},
     "vision_tower", {}, (20, 36), (LAST,), "a gated MLP with GELU; columns rotate at other rates than rows"),
    ("alias-pixtral-02", "PixtralVisionModel", dict(PATCHES, image_size=64, hidden_act="silu"), "", {}, (24, 16),
     (LAST,), "a gated MLP with SiLU"),
    ("alias-pixtral-03", "MistralLarge4ForConditionalGeneration", {
        "vision_config": dict(PATCHES, image_size=64, model_type="pixtral"),
        "text_config": dict(TEXT, n_routed_experts=2, num_experts_per_tok=1, moe_intermediate_size=8)},
     "model.vision_tower", {}, (20, 28), (LAST,), "the tensor names of Pixtral's authors"),
    ("alias-kimi-01", "Kimi_K25VisionModel", dict(PATCHES, pos_emb_height=4, pos_emb_width=4), "",
     {"packed": {"name": "pixel_values", "shape": (-1, 3, 4, 4)}}, (24, 40), (LAST,),
     "rows and columns rotate alternating channels"),
    ("alias-kimi-02", "Kimi_K25ForConditionalGeneration", {
        "vision_config": dict(PATCHES, pos_emb_height=4, pos_emb_width=4),
        "text_config": dict(QWEN, model_type="qwen3")}, "model.vision_tower",
     {"packed": {"name": "pixel_values", "shape": (-1, 3, 4, 4)}}, (24, 24), (LAST,),
     "the tensor names of Kimi's authors"),
    ("alias-video-llama-01", "VideoLlama3VisionModel", PATCHES, "",
     {"packed": {"name": "pixel_values", "merge_sizes": True}}, (20, 36), (LAST,), "SigLIP with only rotary positions"),
    ("alias-paddleocr-vl-01", "PaddleOCRVisionModel", VISION, "",
     {"packed": {"name": "pixel_values", "shape": (1, -1, 3, 4, 4)}}, (24, 36), (LAST,),
     "SigLIP with a position table and rotary positions"),
    ("alias-hunyuan-vl-01", "HunYuanVLVisionTransformer", dict(PATCHES, max_image_size=20, text_hidden_size=12), "",
     {"packed": {"name": "pixel_values"}}, (24, 36), (LAST,), "an unused row of positions"),
    ("alias-hunyuan-vl-02", "HunYuanVLForConditionalGeneration", {
        "vision_config": dict(PATCHES, max_image_size=16, text_hidden_size=16), "text_config": TEXT},
     "model.vision_tower",
     {"packed": {"name": "pixel_values"}}, (16, 16), (LAST,), "the tensor names of HunyuanVL's authors"),
    ("alias-hy-v4-vl-01", "HYV4VLVisionModel", dict(PATCHES, max_image_size=20, out_hidden_size=12), "",
     {"packed": {"name": "pixel_values"}}, (24, 36), (LAST,), "positions resized with an offset"),
    ("alias-cosmos3-edge-01", "Cosmos3EdgeVisionModel", dict(PATCHES, num_patches=25), "",
     {"packed": {"name": "pixel_values", "merge": 2, "channels": "last"}}, (24, 40), (LAST,),
     "SigLIP 2 with patches in squares"),
    ("alias-cosmos3-edge-02", "Cosmos3EdgeModel", {
        "vision_config": dict(PATCHES, num_patches=16),
        "text_config": dict(TEXT, rope_parameters={"rope_type": "default", "rope_theta": 1e4,
                                                   "mrope_section": [2, 1, 1]})},
     "visual", {"packed": {"name": "pixel_values", "merge": 2, "channels": "last"}}, (16, 16), (LAST,),
     "the same with other names"),
    ("alias-molmo2-01", "Molmo2VisionModel", dict(PATCHES, image_size=[20, 20], num_key_value_heads=2, head_dim=8), "",
     {"packed": {"name": "pixel_values", "channels": "last", "shape": (1, 25, 48), "grid": False}}, (20, 20), (LAST,),
     "patches whose colours are neighbours; no last norm"),
    ("alias-step3p5-01", "Step3p7VisionModel", dict(PATCHES, image_size=20, mlp_ratio=1.5), "",
     {"packed": {"name": "pixel_values", "shape": "picture", "grid": False, "hook": "layers.1"}}, (24, 36), (LAST,),
     "layer scales, a norm before the blocks, a table and rotary positions by column first"),
    ("yolos-01", "YolosForObjectDetection", dict(VISION, image_size=[24, 40], num_detection_tokens=5, num_labels=3),
     "", {}, (32, 28), ("logits", "pred_boxes", LAST), "detection tokens, and positions after each block"),
    ("yolos-02", "YolosForObjectDetection", dict(VISION, image_size=[20, 20], num_detection_tokens=4, num_labels=2,
                                                 use_mid_position_embeddings=False, qkv_bias=False),
     "", {}, (20, 44), ("logits", "pred_boxes", LAST), "without positions after blocks, and without biases of q, k, v"),
    ("alias-vit-msn-02", "ViTMSNForImageClassification", dict(VISION, num_labels=3), "", {}, (20, 20), ("logits",),
     "blocks are saved without the prefix of the other tensors"),
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


def packed(tower, x, outputs, name, merge=1, frames=1, shape=None, channels="first", hook=None, merge_sizes=False,
           windows=False, grid=True):
    """Runs a tower whose argument is a list of patches, square by square of merge x merge patches. Returns rows in the
    order of the grid."""
    p, m = tower.config.patch_size, merge
    height, width = x.shape[2] // p, x.shape[3] // p
    cut = x[0].reshape(3, height // m, m, p, width // m, m, p).permute(1, 4, 2, 5, 0, 3, 6)
    if channels == "last":
        cut = cut.permute(0, 1, 2, 3, 5, 6, 4)
    rows = cut.reshape(height * width, 3, 1, -1).repeat(1, 1, frames, 1).reshape(height * width, -1)
    if shape:
        rows = x if shape == "picture" else rows.reshape(shape)
    sizes = torch.tensor([[1, height, width]])
    more = {"grid_thw": sizes} if grid else {}
    if merge_sizes:
        more["merge_sizes"] = torch.tensor([1])
    seen = []
    handle = tower.get_submodule(hook).register_forward_hook(lambda _, __, y: seen.append(y)) if hook else None
    with torch.no_grad():
        out = tower(**{name: rows}, **more)
    if handle:
        handle.remove()
    last = (seen[0] if hook else out["last_hidden_state"]).reshape(height // m * (width // m), m * m, -1)
    if windows:  # the tower returns squares window by window
        order, _ = get_vision_window_index(sizes, spatial_merge_size=m, window_size=tower.config.window_size, patch_size=p)
        last = last[torch.argsort(order)]
    last = last.reshape(height // m, width // m, m, m, -1)
    found = {LAST: last.permute(0, 2, 1, 3, 4).reshape(1, height * width, -1)}
    if MERGED in outputs:
        found[MERGED] = out[POOLED].reshape(1, height // m * (width // m), -1)
    return found


def run(model, x, tower, arguments, outputs):
    for name in filter(None, tower.split(".")):
        model = getattr(model, name)
    if "packed" in arguments:
        return packed(model, x, outputs, **arguments["packed"])
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
