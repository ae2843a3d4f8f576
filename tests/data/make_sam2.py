#!/usr/bin/env python3
"""make_sam2.py: makes tests/data/golden/models/sam2-01: a small SAM 2 with random weights, the features that
transformers' Sam2Model computes in float64, and in prompts.safetensors the masks and scores for the prompts of
make_sam.py.

    make_sam2.py FOLDER

It needs torch and transformers 5.24.
"""
import os
import sys

import torch
import torchvision  # noqa: F401: the image processor needs it
from transformers import Sam2Config, Sam2Model
from transformers.models.sam2.image_processing_sam2 import Sam2ImageProcessor

from make_sam import CASES, PICTURE, scramble, store

# Neither the windows of 6 tokens nor those of 3 divide their grids. One block that pools is in windows of 2 tokens, and
# block 4 attends over all tokens. The picture of the model is not square.
HIGH, WIDE, WIDTH = 64, 96, 32
BACKBONE = {"hidden_size": 8, "image_size": [HIGH, WIDE], "blocks_per_stage": [1, 2, 2, 1],
            "embed_dim_per_stage": [8, 16, 24, 32], "num_attention_heads_per_stage": [1, 2, 3, 4],
            "window_size_per_stage": [4, 6, 2, 3], "global_attention_blocks": [4],
            "window_positional_embedding_background_size": [3, 5], "mlp_ratio": 2.0}
VISION = {"backbone_channel_list": [32, 24, 16, 8], "fpn_hidden_size": WIDTH,
          "backbone_feature_sizes": [[HIGH // n, WIDE // n] for n in (4, 8, 16)]}
# The usual mask is stable for some prompts.
DECODER = {"hidden_size": WIDTH, "mlp_dim": 48, "num_attention_heads": 4, "iou_head_hidden_dim": 20,
           "dynamic_multimask_stability_thresh": 0.943}


class Rectangle:
    """transformers' prompt encoder knows only square pictures: its positions are those of a picture with these sides."""

    def __init__(self, model):
        self.model, prompts = model, model.prompt_encoder
        prompts.image_embedding_size = HIGH // 16, WIDE // 16
        embedding, own = prompts.shared_embedding, prompts.shared_embedding.forward
        embedding.forward = lambda x, shape=None: own(x, None if shape is None else (HIGH, WIDE))


def masks_of(model, embeddings, processor, case, original):
    place = torch.tensor([WIDE / original[1], HIGH / original[0]], dtype=torch.float64)
    arguments = {}
    if "points" in case:
        points = torch.tensor(case["points"], dtype=torch.float64) * place
        arguments = {"input_points": points[None, None], "input_labels": torch.tensor(case["labels"])[None, None]}
    if "box" in case:
        box = torch.tensor(case["box"], dtype=torch.float64) * torch.cat([place, place])
        arguments["input_boxes"] = box[None, None]
    found = [model(image_embeddings=list(embeddings), multimask_output=several, **arguments) for several in (False, True)]
    # With multimask_output=False, the mask may be one of the alternatives: the first token's is wanted too.
    single, model.mask_decoder.dynamic_multimask_via_stability = found[0], False
    usual = model(image_embeddings=list(embeddings), multimask_output=False, **arguments)
    model.mask_decoder.dynamic_multimask_via_stability = True
    logits = torch.cat([f.pred_masks[0, 0] for f in (usual, found[1])])
    scores = torch.cat([f.iou_scores[0, 0] for f in (usual, found[1])])
    chosen = int((logits - single.pred_masks[0, 0]).abs().amax((1, 2)).argmin())
    return logits, scores, processor.post_process_masks(logits[None, None], torch.tensor([original]))[0][0], chosen


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    folder, random = os.path.join(sys.argv[1], "sam2-01"), torch.Generator().manual_seed(91)
    config = Sam2Config(vision_config=dict(VISION, backbone_config=dict(BACKBONE, model_type="sam2_hiera_det_model")),
                        prompt_encoder_config={"hidden_size": WIDTH, "image_size": HIGH}, mask_decoder_config=DECODER)
    model = Sam2Model(config).eval()
    scramble(model, random)
    with torch.no_grad():
        model.shared_image_embedding.positional_embedding.copy_(torch.randn(2, WIDTH // 2, generator=random))
        model.prompt_encoder.shared_embedding.positional_embedding.copy_(model.shared_image_embedding.positional_embedding)
    model.save_pretrained(folder)
    processor = Sam2ImageProcessor(size={"height": HIGH, "width": WIDE})
    processor.save_pretrained(folder)
    coarse = torch.randint(0, 256, (1, 3, 6, 9), generator=random).float()
    picture = torch.nn.functional.interpolate(coarse, PICTURE, mode="bicubic").clamp(0, 255).round().byte()[0]
    pixels = processor(images=picture, return_tensors="pt")["pixel_values"]
    model = model.double()
    Rectangle(model)
    answers = {"picture": picture.permute(1, 2, 0).contiguous()}
    with torch.no_grad():
        embeddings = model.get_image_embeddings(pixels.double())
        last = model.vision_encoder.backbone(pixels.double()).last_hidden_state
        tensors = {"input": pixels.float(), "image_embeddings": embeddings[2].float().contiguous(),
                   "image_embeddings.0": embeddings[0].float().contiguous(),
                   "image_embeddings.1": embeddings[1].float().contiguous(),
                   "last_hidden_state": last.flatten(1, 2).float().contiguous()}
        chosen = []
        for name, case in CASES.items():
            logits, scores, inside, choice = masks_of(model, embeddings, processor, case, PICTURE)
            print(name, "share inside", [round(m.double().mean().item(), 2) for m in inside], scores.tolist(), choice)
            chosen.append(choice)
            answers.update({name + ".pred_masks": logits.float().contiguous(), name + ".iou_scores": scores.float(),
                            name + ".masks": inside.byte()})
    answers["chosen"] = torch.tensor(chosen, dtype=torch.int32)
    store(folder, tensors, answers, "transformers Sam2Model")


if __name__ == "__main__":
    main()
