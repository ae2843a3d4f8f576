#!/usr/bin/env python3
"""make_sam.py: makes tests/data/golden/models/sam-01: a small Segment Anything with random weights, the features that
transformers' SamModel computes in float64, and in prompts.safetensors the masks and scores for prompts of several
kinds, which test_prompts.c has too.

    make_sam.py FOLDER

It needs torch and transformers 5.24.
"""
import json
import os
import sys

import torch
import torchvision  # noqa: F401: the image processor needs it
from safetensors.torch import load_file, save_file
from transformers import SamConfig, SamImageProcessor, SamModel, SamProcessor

SIDE, WIDTH = 64, 32
VISION = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2, "mlp_dim": 32, "image_size": SIDE,
          "patch_size": 8, "window_size": 3, "global_attn_indexes": [1], "output_channels": WIDTH,
          "num_pos_feats": WIDTH // 2, "mlp_ratio": 32 / 24}
PROMPTS = {"hidden_size": WIDTH, "image_size": SIDE, "patch_size": 8, "image_embedding_size": SIDE // 8}
DECODER = {"hidden_size": WIDTH, "mlp_dim": 48, "num_attention_heads": 4, "iou_head_hidden_dim": 20}
PICTURE = (45, 90)  # height, width: neither square nor of the model's size
# Points with labels, and a box as x0, y0, x1, y1, in pixels of the picture.
CASES = {
    "point": {"points": [[30.0, 20.0]], "labels": [1]},
    "points": {"points": [[30.0, 20.0], [70.5, 31.25], [2.0, 44.0]], "labels": [1, 0, 1]},
    "ignored": {"points": [[30.0, 20.0], [5.0, 5.0]], "labels": [1, -1]},
    "box": {"box": [12.0, 3.5, 60.0, 40.0]},
    "both": {"points": [[30.0, 20.0], [50.0, 10.0]], "labels": [0, 1], "box": [12.0, 3.5, 60.0, 40.0]},
    "other": {"points": [[80.0, 8.0]], "labels": [0], "box": [0.0, 0.0, 89.0, 44.0]},
    "none": {},
}


def scramble(model, random):
    with torch.no_grad():
        for name, p in model.named_parameters():
            scale = 0.3 if p.dim() < 2 or "embed" in name or "token" in name else 1.3 / p[0].numel() ** 0.5
            mean = 1.0 if "norm" in name and name.endswith("weight") else 0.0
            if "positional_embedding" in name:
                scale = 1.0
            p.copy_(mean + scale * torch.randn(p.shape, generator=random))


def masks_of(model, embeddings, processor, case, sizes):
    original, reshaped = sizes
    arguments = {}
    place = [reshaped[1] / original[1], reshaped[0] / original[0]]
    if "points" in case:
        points = torch.tensor(case["points"], dtype=torch.float64) * torch.tensor(place, dtype=torch.float64)
        arguments = {"input_points": points[None, None], "input_labels": torch.tensor(case["labels"])[None, None]}
    if "box" in case:
        arguments["input_boxes"] = (torch.tensor(case["box"], dtype=torch.float64) *
                                    torch.tensor(place * 2, dtype=torch.float64))[None, None]
    found = [model(image_embeddings=embeddings, multimask_output=several, **arguments) for several in (False, True)]
    logits = torch.cat([f.pred_masks[0, 0] for f in found])
    scores = torch.cat([f.iou_scores[0, 0] for f in found])
    inside = processor.image_processor.post_process_masks(logits[None, None], torch.tensor([original]),
                                                         torch.tensor([reshaped]))[0][0]
    return logits, scores, inside


def store(folder, tensors, answers, source):
    """Writes inputs, features and answers next to a saved model, and where they come from into its config.json."""
    path = os.path.join(folder, "config.json")
    with open(path) as f:
        config = json.load(f)
    config["golden"] = {"input_shape": list(tensors["input"].shape), "source": source}
    with open(path, "w") as f:
        json.dump(config, f, indent=1)
        f.write("\n")
    exact = {name: 2e-6 for name in tensors if name != "input"}
    save_file(tensors, os.path.join(folder, "io.safetensors"),
              {"computed_in": "float64, stored as float32", "fp32_rel_err": json.dumps(exact)})
    save_file(answers, os.path.join(folder, "prompts.safetensors"), {"computed_in": "float64, stored as float32"})
    weights = os.path.join(folder, "model.safetensors")
    save_file(load_file(weights), weights, {"format": "pt"})
    for file in ("io.safetensors", "model.safetensors", "prompts.safetensors"):
        os.chmod(os.path.join(folder, file), 0o644)


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    folder, random = os.path.join(sys.argv[1], "sam-01"), torch.Generator().manual_seed(90)
    model = SamModel(SamConfig(vision_config=VISION, prompt_encoder_config=PROMPTS, mask_decoder_config=DECODER)).eval()
    scramble(model, random)
    model.save_pretrained(folder)
    processor = SamProcessor(SamImageProcessor(size={"longest_edge": SIDE}, pad_size={"height": SIDE, "width": SIDE}))
    processor.image_processor.save_pretrained(folder)
    coarse = torch.randint(0, 256, (1, 3, 6, 9), generator=random).float()
    picture = torch.nn.functional.interpolate(coarse, PICTURE, mode="bicubic").clamp(0, 255).round().byte()[0]
    seen = processor(images=picture, return_tensors="pt")
    sizes = [[int(n) for n in seen[key][0]] for key in ("original_sizes", "reshaped_input_sizes")]
    model = model.double()
    answers = {"picture": picture.permute(1, 2, 0).contiguous()}
    with torch.no_grad():
        embeddings = model.get_image_embeddings(seen["pixel_values"].double())
        tensors = {"input": seen["pixel_values"].float(), "last_hidden_state": embeddings.float().contiguous()}
        for name, case in CASES.items():
            logits, scores, inside = masks_of(model, embeddings, processor, case, sizes)
            print(name, "share inside", [round(m.double().mean().item(), 2) for m in inside], scores.tolist())
            answers.update({name + ".pred_masks": logits.float().contiguous(), name + ".iou_scores": scores.float(),
                            name + ".masks": inside.byte()})
    store(folder, tensors, answers, "transformers SamModel")


if __name__ == "__main__":
    main()
