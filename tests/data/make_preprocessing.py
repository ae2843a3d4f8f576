#!/usr/bin/env python3
"""make_preprocessing.py: writes preprocessing.json, the results of image processors for test_preprocessing.py.

    make_preprocessing.py [NAME..]

Run in this folder with torch 2.15, torchvision 0.29.2, transformers 5.24, timm 1.0.31, Pillow 12.3 and OpenCLIP 3;
makes all cases, or those whose names begin with a NAME. A case has the files of a model's folder, a
picture of tests/models/pixel_model.py, and of the normalised pixels: the size, every STEP-th value, and for each
channel the sums of all values and of their squares.
"""
import json
import os
import sys
import tempfile
import warnings

import numpy as np
from PIL import Image

warnings.filterwarnings("ignore")
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "models"))
import pixel_model  # noqa: E402

STEP = 149
WIDE, TALL, LARGE, SMALL = (97, 61), (41, 83), (150, 101), (13, 11)


def size(height, width):
    return {"height": height, "width": width}


def one(name, picture=WIDE, backend=None, kind="rgb", **fields):
    """A case with one file, a preprocessor_config.json that names this class."""
    files = {"preprocessor_config.json": dict(fields, image_processor_type=name)}
    return {"files": files, "picture": [*picture, kind], "backend": backend}


def both(label, name, picture=WIDE, **fields):
    return {label: one(name, picture, None, **fields), label + ", Pillow": one(name, picture, "pillow", **fields)}


def timm(picture=WIDE, **cfg):
    return {"files": {"config.json": {"architecture": pixel_model.TIMM["architecture"], "pretrained_cfg": cfg}},
            "picture": [*picture, "rgb"], "by": "timm"}


def open_clip(picture=WIDE, side=32, **cfg):
    return {"files": {"open_clip_config.json": {"model_cfg": {"vision_cfg": {"image_size": side}},
                                                "preprocess_cfg": cfg}},
            "picture": [*picture, "rgb"], "by": "open_clip"}


def cases():
    v, clip, edge = "ViTImageProcessor", "CLIPImageProcessor", {"shortest_edge": 32}
    crop = {"crop_size": size(28, 24)}
    out = {}
    for n, picture in (("wide", WIDE), ("tall", TALL), ("large", LARGE), ("small", SMALL)):
        out |= both("ViT, %s" % n, v, picture, size=size(32, 32))
        out |= both("CLIP, %s" % n, clip, picture, size=edge, **crop)
    out |= both("CLIP, crop of more than there is", clip, TALL, size={"shortest_edge": 27}, crop_size=size(40, 36))
    out |= both("CLIP, odd excess", clip, LARGE, size={"shortest_edge": 35}, crop_size=size(32, 32))
    out |= both("DeiT", "DeiTImageProcessor", size=size(40, 40), crop_size=size(32, 32))
    out |= both("Bit", "BitImageProcessor", TALL, size={"shortest_edge": 36}, crop_size=size(32, 32), resample=3)
    out |= both("Beit", "BeitImageProcessor", size=36, crop_size=32, do_center_crop=True, do_reduce_labels=True)
    out |= both("OwlViT", "OwlViTImageProcessor", LARGE, size=size(40, 32))
    out |= both("Siglip", "SiglipImageProcessor", LARGE, size=size(32, 40))
    out |= both("Siglip2", "Siglip2ImageProcessor", LARGE, patch_size=4, max_num_patches=70)
    out |= both("Siglip2, tall", "Siglip2ImageProcessor", TALL, patch_size=4, max_num_patches=256)
    out |= both("Sam", "SamImageProcessor", LARGE, size={"longest_edge": 32}, pad_size=size(32, 32))
    out |= both("Sam, tall, padded more", "SamImageProcessor", TALL, size={"longest_edge": 36}, pad_size=size(40, 44))
    out["Sam2"] = one("Sam2ImageProcessor", LARGE, size=size(32, 40))
    out |= both("DPT, aspect", "DPTImageProcessor", size=size(32, 32), keep_aspect_ratio=True, ensure_multiple_of=4)
    out |= both("DPT, no aspect", "DPTImageProcessor", TALL, size=size(33, 38), ensure_multiple_of=4)
    out |= both("DPT, padded", "DPTImageProcessor", size=size(30, 38), do_pad=True, size_divisor=8)
    out |= both("Eomt", "EomtImageProcessor", LARGE, size={"shortest_edge": 32, "longest_edge": 32}, do_pad=True)
    out |= both("Eomt, not padded", "EomtImageProcessor", TALL, size={"shortest_edge": 32, "longest_edge": 60})
    out |= both("Segformer", "SegformerImageProcessor", size=size(36, 28))
    m, edges = "Mask2FormerImageProcessor", {"shortest_edge": 30, "longest_edge": 44}
    out["Mask2Former"] = one(m, LARGE, size=edges, size_divisor=4)
    out["Mask2Former, tall"] = one(m, TALL, size=edges, size_divisor=8)
    out["Mask2Former, not divided"] = one(m, TALL, size={"max_height": 40, "max_width": 36}, size_divisor=0)
    out["Mask2Former, exact"] = one(m, LARGE, size=size(30, 45))
    out |= both("Idefics3", "Idefics3ImageProcessor", LARGE, size={"longest_edge": 128},
                max_image_size={"longest_edge": 32})
    out |= both("Idefics3, whole", "Idefics3ImageProcessor", TALL, size={"longest_edge": 96},
                max_image_size={"longest_edge": 32}, do_image_splitting=False)
    out |= both("SmolVLM", "SmolVLMImageProcessor", TALL, size={"longest_edge": 90},
                max_image_size={"longest_edge": 40})
    out |= both("Llava", "LlavaImageProcessor", LARGE, size=edge, crop_size=size(32, 32))
    out |= both("LlavaNext", "LlavaNextImageProcessor", LARGE, size=edge, crop_size=size(32, 32),
                image_grid_pinpoints=[[64, 32], [32, 64]])
    out |= both("LlavaOnevision", "LlavaOnevisionImageProcessor", TALL, size=size(32, 32),
                image_grid_pinpoints=[[64, 32], [32, 64]])
    yolos = {"shortest_edge": 60, "longest_edge": 90}
    for n, picture in (("wide", WIDE), ("tall", TALL), ("large", LARGE), ("small", SMALL)):
        out["Yolos, " + n] = one("YolosImageProcessor", picture, size=yolos)
    out["Yolos, exact"] = one("YolosImageProcessor", WIDE, size=size(30, 45))
    qwen = {"patch_size": 4, "merge_size": 2, "temporal_patch_size": 2}
    for n, picture in (("wide", WIDE), ("tall", TALL), ("large", LARGE), ("small", SMALL)):
        out["Qwen2VL, " + n] = one("Qwen2VLImageProcessor", picture, min_pixels=1024, max_pixels=6000, **qwen)
        out["Pixtral, " + n] = one("PixtralImageProcessor", picture, size={"longest_edge": 90}, patch_size=size(4, 4))
    out["Qwen2VL, size"] = one("Qwen2VLImageProcessor", WIDE, size={"shortest_edge": 300, "longest_edge": 2500}, **qwen)
    out["Pixtral, box"] = one("PixtralImageProcessor", LARGE, size=size(50, 120), patch_size=8)
    out |= both("Blip", "BlipImageProcessor", LARGE, size=size(32, 40))
    out |= both("ChineseCLIP", "ChineseCLIPImageProcessor", TALL, size=edge, **crop)
    out |= both("Flava", "FlavaImageProcessor", LARGE, size=size(40, 36), crop_size=size(32, 32))
    out |= both("GotOcr2", "GotOcr2ImageProcessor", TALL, size=size(32, 32), min_patches=1, max_patches=6)
    out |= both("Ovis2", "Ovis2ImageProcessor", LARGE, size=size(32, 40), use_covering_area_grid=True)
    out["Cohere2Vision"] = one("Cohere2VisionImageProcessor", TALL, size=size(32, 36), crop_to_patches=False)
    out["VideoLlava"] = one("VideoLlavaImageProcessor", LARGE, "pillow", size=edge, **crop)
    out |= both("Gemma3", "Gemma3ImageProcessor", LARGE, size=size(32, 32), do_pan_and_scan=False)
    out["Tipsv2"] = one("Tipsv2ImageProcessor", LARGE, size=size(32, 32))
    for n, picture in (("large", LARGE), ("small", SMALL), ("tall", TALL)):
        out["DINOv3, " + n] = one("DINOv3ViTImageProcessorFast", picture, size=size(32, 36))
        out["Owlv2, " + n] = one("Owlv2ImageProcessor", picture, size=size(32, 32))
        out["RfDetr, " + n] = one("RfDetrImageProcessor", picture, size=size(32, 40))
    out["DINOv3, bicubic, crop"] = one("DINOv3ViTImageProcessor", size=size(40, 40), resample=3, do_center_crop=True,
                                       crop_size=size(32, 32))
    out["Owlv2, not padded"] = one("Owlv2ImageProcessor", LARGE, size=size(32, 32), do_pad=False, resample=3)
    out["RfDetr, number"] = one("RfDetrImageProcessor", LARGE, size=32, max_size=40)
    out["RfDetr, most"] = one("RfDetrImageProcessor", LARGE, size={"max_height": 40, "max_width": 40})
    for number, filter_ in enumerate(("nearest", "Lanczos", "bilinear", "bicubic")):
        out |= both("filter " + filter_, v, LARGE, size=size(32, 24), resample=number)
        out |= both("filter %s, larger" % filter_, v, SMALL, size=size(32, 24), resample=number)
    fields = {
        "one mean": {"image_mean": 0.3, "image_std": 0.7},
        "not normalised": {"do_normalize": False},
        "not rescaled": {"do_rescale": False, "image_mean": [100, 110, 120], "image_std": [50, 60, 70]},
        "rescaled otherwise": {"rescale_factor": 1 / 127.5},
        "null": {"crop_size": None, "do_normalize": None, "size_divisor": None},
        "padded": {"do_pad": True, "pad_size": size(36, 40)},
        "both edges": {"size": {"shortest_edge": 32, "longest_edge": 44}},
        "most": {"size": {"max_height": 40, "max_width": 36}},
        "list": {"size": [32, 24]},
        "number": {"size": 32, "default_to_square": False},
        "square number": {"size": 32},
        "cropped": {"do_center_crop": True, "crop_size": 28},
        "forms": {"data_format": "channels_first", "input_data_format": None, "return_tensors": None,
                  "do_convert_rgb": None, "device": None, "disable_grouping": None},
    }
    for n, more in fields.items():
        out["field: " + n] = one(v, **{"size": size(32, 32), **more})
    out["field: use_square_size"] = one(clip, use_square_size=True, size=edge, do_center_crop=False)
    out["field: rescale"] = one("OwlViTImageProcessor", size=size(32, 32), rescale=False, do_normalize=False)
    for kind in ("rgba", "palette", "grey", "grey-alpha", "grey16"):
        out["CLIP, " + kind] = one(clip, WIDE, None, kind, size=edge, crop_size=size(32, 32))
        out["CLIP, %s, not converted" % kind] = dict(
            one(clip, WIDE, None, kind, size=edge, crop_size=size(32, 32), do_convert_rgb=False), by="rgb")
    plain = dict(one(v, size=size(32, 32)), by="transformers")
    nested = {"image_processor_type": clip, "size": edge, **crop}
    other = {"preprocessor_config.json": {"image_processor_type": v, "size": 40}}
    out["nested"] = dict(plain, files={"processor_config.json": {"image_processor": nested, "image_seq_len": 9}})
    out["nested, both files"] = dict(plain, files={"processor_config.json": {
        "image_processor": nested, "video_processor": {"size": 9}, "processor_class": "CLIPProcessor"}, **other})
    out["nested, nothing in it"] = dict(plain, files={"processor_config.json": {"processor_class": "X"}, **other})
    out["class of the model's type"] = dict(plain, files={"preprocessor_config.json": {"size": 32}})
    out["old name"] = dict(plain, files={"preprocessor_config.json": {
        "feature_extractor_type": "CLIPFeatureExtractor", "size": 32, "crop_size": 32}})
    out["Pil in the name"] = one("CLIPImageProcessorPil", size=edge, **crop)
    square = {"input_size": [3, 32, 32], "mean": [.5] * 3, "std": [.5] * 3, "interpolation": "bicubic"}
    for part in (0.875, 0.9, 0.95, 1.0):
        out["timm, %g" % part] = timm(LARGE, **square, crop_pct=part)
    out["timm, tall"] = timm(TALL, **square, crop_pct=0.9)
    out["timm, usual"] = timm(WIDE, input_size=[3, 32, 32])
    out["timm, bilinear"] = timm(WIDE, **{**square, "interpolation": "bilinear"}, crop_pct=0.6)
    out["timm, high"] = timm(WIDE, **{**square, "input_size": [3, 40, 24]}, crop_pct=0.9)
    out["timm, wide"] = timm(TALL, **{**square, "input_size": [3, 24, 40]}, crop_pct=0.85)
    out["timm, squash"] = timm(WIDE, **{**square, "input_size": [3, 40, 24]}, crop_pct=0.9, crop_mode="squash")
    out["timm, sizes of tests"] = timm(WIDE, **square, crop_pct=0.9, test_input_size=[3, 40, 40], test_crop_pct=1.0)
    out["timm, old file"] = dict(timm(), files={"config.json": {
        "architecture": pixel_model.TIMM["architecture"], "mean": [.4] * 3, "std": [.3] * 3, "crop_pct": 0.9,
        "input_size": [3, 32, 32], "interpolation": "bilinear"}})
    out["timm before a file of transformers"] = dict(timm(WIDE, **square), files={
        **timm(WIDE, **square)["files"], **other})
    for mode in ("shortest", "longest", "squash"):
        out["OpenCLIP, " + mode] = open_clip(LARGE, resize_mode=mode, mean=[.5] * 3, std=[.25] * 3)
        out["OpenCLIP, %s, tall" % mode] = open_clip(TALL, resize_mode=mode, interpolation="bilinear")
    out["OpenCLIP, not square"] = open_clip(LARGE, [40, 24], interpolation="bilinear")
    return out


def by_timm(case, image):
    import timm as library
    config = case["files"]["config.json"]
    cfg = config.get("pretrained_cfg") or {k: v for k, v in config.items() if k != "architecture"}
    transform = library.data.create_transform(**library.data.resolve_data_config({}, pretrained_cfg=cfg))
    return transform(image.convert("RGB"))


def by_open_clip(case, image):
    from open_clip.transform import PreprocessCfg, image_transform_v2
    file = case["files"]["open_clip_config.json"]
    cfg = PreprocessCfg(**{"size": file["model_cfg"]["vision_cfg"]["image_size"], **file["preprocess_cfg"]})
    return image_transform_v2(cfg, is_train=False)(image)


def by_transformers(case, image, folder):
    from transformers import AutoImageProcessor, logging
    logging.set_verbosity_error()
    for name, value in {"config.json": {"model_type": "vit"}, **case["files"]}.items():
        with open(os.path.join(folder, name), "w", encoding="utf-8") as f:
            json.dump(value, f)
    backend = {"backend": "pil"} if case.get("backend") == "pillow" else {}
    found = AutoImageProcessor.from_pretrained(folder, **backend)(image, return_tensors="pt")
    values = found["pixel_values_images" if "pixel_values_images" in found else "pixel_values"]  # Video-LLaVA
    if "spatial_shapes" in found:  # SigLIP 2: patches, the last of which may be padding
        (rows, columns), side = found["spatial_shapes"][0].tolist(), 4
        values = values[0, :rows * columns].reshape(rows, columns, side, side, 3).permute(4, 0, 2, 1, 3)
        return values.reshape(3, rows * side, columns * side)
    if "image_grid_thw" in found:  # Qwen2-VL: patches in squares of 2 x 2, each in two equal frames
        _, rows, columns = found["image_grid_thw"][0].tolist()
        values = values.reshape(rows // 2, columns // 2, 2, 2, 3, 2, 4, 4)[:, :, :, :, :, 0]
        return values.permute(4, 0, 2, 5, 1, 3, 6).reshape(3, rows * 4, columns * 4)
    while values.ndim > 4:  # tiles; the whole picture is the last one, LLaVA's the first one
        values = values[0]
    name = case["files"].get("preprocessor_config.json", {}).get("image_processor_type", "")
    return values[-1 if "Idefics" in name or "SmolVLM" in name else 0]


def main():
    wanted = sys.argv[1:]
    path = os.path.join(HERE, "preprocessing.json")
    out = {}
    if wanted and os.path.exists(path):
        with open(path, encoding="utf-8") as f:
            out = json.load(f)
    for name, case in cases().items():
        if wanted and not any(name.startswith(w) for w in wanted):
            continue
        with tempfile.TemporaryDirectory() as folder:
            picture = os.path.join(folder, "p.png")
            pixel_model.picture(picture, *case["picture"])
            image = Image.open(picture)
            by = case.pop("by", "transformers")
            if by == "rgb":  # transformers fails on other modes; Fovea converts them as Pillow's convert("RGB") does
                image = image.convert("RGB")
            planes = by_timm(case, image) if by == "timm" else by_open_clip(case, image) if by == "open_clip" else \
                by_transformers(case, image, folder)
        planes = np.asarray(planes, np.float64)
        height, width = (n // pixel_model.PATCH * pixel_model.PATCH for n in planes.shape[1:])
        planes = planes[:, :height, :width]
        case |= {"width": width, "height": height,
                 "values": [round(float(v), 7) for v in planes.reshape(-1)[::STEP]],
                 "sums": [round(float(v), 4) for v in planes.sum((1, 2))],
                 "squares": [round(float(v), 4) for v in (planes ** 2).sum((1, 2))]}
        out[name] = {k: v for k, v in case.items() if v is not None}
    with open(path, "w", encoding="utf-8") as f:
        f.write("{\n" + ",\n".join("%s: %s" % (json.dumps(k), json.dumps(v)) for k, v in out.items()) + "\n}\n")
    print(len(out), "cases,", os.path.getsize(path), "bytes")


if __name__ == "__main__":
    main()
