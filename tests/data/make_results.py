#!/usr/bin/env python3
"""make_results.py: makes tests/data/results.json, the results of transformers' processors for the outputs in
tests/plan/results_cases.py.

    make_results.py FILE

It needs torch, transformers 5.24 and scipy. The sizes of the segmenter's outputs are those of
tests/data/golden/models/eomt-masked-01 on pictures of its own size, those of ViTPose's the published ones.
Mask2Former's are those of tests/data/golden/models/mask2former-01 on larger pictures.
"""
import json
import os
import sys
import types
import zlib

import numpy as np
import torch
from transformers import DPTImageProcessor, EomtImageProcessor, Mask2FormerImageProcessor, VitPoseImageProcessor

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "plan"))
import results_cases as cases


def depths():
    found = []
    for i, (frame, _) in enumerate(cases.DEPTHS):
        out = types.SimpleNamespace(predicted_depth=torch.tensor(cases.depth(i))[None])
        depth = DPTImageProcessor().post_process_depth_estimation(out, [frame[::-1]])[0]["predicted_depth"]
        found.append([round(float(v), 6) for v in depth.numpy().reshape(-1)[::cases.STEP]])
    return found


def segments(result):
    return {"map": runs(result["segmentation"].numpy().astype(int) + 1),
            "masks": [[s["label_id"], s["score"]] for s in result["segments_info"]]}


def runs(values):
    """Run lengths of a map, row by row: [value, count]."""
    flat, out = values.reshape(-1).tolist(), []
    for v in flat:
        if out and out[-1][0] == v:
            out[-1][1] += 1
        else:
            out.append([v, 1])
    return out


def masks(shape):
    found = []
    for i, frame in enumerate(cases.FRAMES):
        of_masks, of_classes = cases.masks(i, shape["queries"], *shape["grid"], shape["classes"])
        out = types.SimpleNamespace(masks_queries_logits=torch.tensor(of_masks)[None],
                                    class_queries_logits=torch.tensor(of_classes)[None], patch_offsets=None)
        p = EomtImageProcessor(size={"shortest_edge": shape["side"], "longest_edge": shape["side"]})
        size = [frame[::-1]]
        # Square results were not padded, so nothing is cut off.
        p.unpad_image = lambda logits, sizes, _: [torch.nn.functional.interpolate(
            logits, size=sizes[0], mode="bilinear", align_corners=False)[0]]
        found.append({
            "semantic": runs(p.post_process_semantic_segmentation(out, size)[0].numpy()),
            "panoptic": [segments(p.post_process_panoptic_segmentation(
                out, size, threshold=a, mask_threshold=b, overlap_mask_area_threshold=c,
                stuff_classes=cases.STUFF)[0]) for a, b, c in cases.THRESHOLDS],
            "instance": [segments(p.post_process_instance_segmentation(out, size, threshold=a)[0])
                         for a, _, _ in cases.THRESHOLDS]})
    return found


def fused(result, stuff):
    """Merges the segments of each class of `stuff`. transformers does the same, but then uses the numbers of segments
    twice."""
    number, kept, of_class = {0: 0}, [], {}
    for s in result["segments_info"]:
        label = s["label_id"]
        if label not in of_class or label not in stuff:
            kept.append(s)
            of_class[label] = len(kept)
        number[s["id"]] = of_class[label] if label in stuff else len(kept)
    merged = result["segmentation"].numpy().astype(int)
    return {"segmentation": torch.tensor(np.vectorize(number.get)(merged) - 1), "segments_info": kept}


def in_order(topk):
    """topk with the results in the order of their indices."""
    def found(self, *given, **more):
        values, indices = topk(self, *given, **more)
        indices, order = indices.sort()
        return values[order], indices
    return found


def masks_of_mask2former(shape):
    p, found, topk = Mask2FormerImageProcessor(), [], torch.Tensor.topk
    torch.Tensor.topk = in_order(topk)
    for i, frame in enumerate(cases.FRAMES):
        of_masks, of_classes = cases.masks_of_mask2former(i, shape["queries"], *shape["grid"], shape["classes"])
        out = types.SimpleNamespace(masks_queries_logits=torch.tensor(of_masks)[None],
                                    class_queries_logits=torch.tensor(of_classes)[None])
        size = [frame[::-1]]
        found.append({
            "semantic": runs(p.post_process_semantic_segmentation(out, size)[0].numpy()),
            "panoptic": [segments(fused(p.post_process_panoptic_segmentation(
                out, threshold=a, mask_threshold=b, overlap_mask_area_threshold=c, label_ids_to_fuse=set(),
                target_sizes=size)[0], cases.STUFF)) for a, b, c in cases.THRESHOLDS],
            "instance": [segments(p.post_process_instance_segmentation(out, threshold=a, target_sizes=size)[0])
                         for a, _, _ in cases.THRESHOLDS]})
    torch.Tensor.topk = topk
    return found


def padded(shape):
    """Masks of a picture that was padded at its right or bottom."""
    p = EomtImageProcessor(size={"shortest_edge": shape["side"], "longest_edge": shape["side"]}, do_pad=True)
    found = []
    for i, frame in enumerate(cases.PADDED):
        of_masks, of_classes = cases.masks(10 + i, shape["queries"], *shape["grid"], shape["classes"])
        out = types.SimpleNamespace(masks_queries_logits=torch.tensor(of_masks)[None],
                                    class_queries_logits=torch.tensor(of_classes)[None])
        a, b, c = cases.THRESHOLDS[1]
        found.append({"panoptic": segments(p.post_process_panoptic_segmentation(
                          out, [frame[::-1]], threshold=a, mask_threshold=b, overlap_mask_area_threshold=c,
                          stuff_classes=cases.STUFF)[0]),
                      "instance": segments(p.post_process_instance_segmentation(out, [frame[::-1]], threshold=a)[0])})
    return found


def parts(shape):
    p = EomtImageProcessor(size={"shortest_edge": cases.SIDE, "longest_edge": None}, do_split_image=True,
                           do_rescale=False, do_normalize=False)
    found = []
    for i, (wide, high) in enumerate(cases.PARTS):
        cut = p(images=torch.tensor(cases.picture(wide, high)).permute(2, 0, 1), return_tensors="np")
        pixels = [np.ascontiguousarray(one.transpose(1, 2, 0)) for one in cut["pixel_values"]]
        own = [cases.masks(20 + 10 * i + k, shape["queries"], *shape["grid"], shape["classes"])
               for k in range(len(pixels))]
        out = types.SimpleNamespace(masks_queries_logits=torch.tensor(np.stack([a for a, _ in own])),
                                    class_queries_logits=torch.tensor(np.stack([b for _, b in own])),
                                    patch_offsets=cut["patch_offsets"])
        classes = p.post_process_semantic_segmentation(out, [(high, wide)])[0].numpy()
        found.append({"size": [pixels[0].shape[1], pixels[0].shape[0]],
                      "crc32": [zlib.crc32(one.tobytes()) for one in pixels], "classes": runs(classes)})
    return found


def poses():
    processor, found = VitPoseImageProcessor(), []
    for i, box in enumerate(cases.BOXES):
        maps = cases.heat(i, 17, 64, 48)
        pose = processor.post_process_pose_estimation(
            types.SimpleNamespace(heatmaps=torch.tensor(maps)[None]), boxes=[[box]])[0][0]
        found.append([[round(float(v), 5) for v in (*at, score)]
                      for at, score in zip(pose["keypoints"], pose["scores"])])
    return found


def crops():
    plain = VitPoseImageProcessor(do_rescale=False, do_normalize=False)
    found = []
    for box in cases.BOXES:
        pixels = plain(images=cases.picture(), boxes=[[box]], input_data_format="channels_last",
                       return_tensors="np")["pixel_values"][0].transpose(1, 2, 0)
        found.append({"crc32": zlib.crc32(np.ascontiguousarray(pixels).tobytes()),
                      "some": pixels[::37, ::23, 1].reshape(-1).tolist()})
    return found


def main():
    shape = {"side": 48, "grid": [24, 24], "queries": 5, "classes": 3}
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    other = {"size": [168, 112], "grid": [16, 24], "queries": 6, "classes": 5}
    out = {"depth": depths(), "mask2former": other, "masks_of_mask2former": masks_of_mask2former(other), "segmenter": shape, "masks": masks(shape), "padded": padded(shape),
           "parts": parts(shape), "poses": poses(), "crops": crops()}
    with open(sys.argv[1], "w") as f:
        json.dump(out, f, separators=(",", ":"))
        f.write("\n")


main()
