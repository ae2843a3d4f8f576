#!/usr/bin/env python3
"""census_pictures.py: compares every class of image processors, on every kind of picture, by torchvision and by
Pillow, with transformers: the normalised pixels, and the output of a tiny random model.

    census_pictures.py path/to/fovea [--only NAME,..] [--table]

Needs torch 2.15, torchvision 0.29.2, transformers 5.24 and Pillow up to 12.3, which FOVEA_REFERENCE_PYTHON names an
interpreter with; without it the test is skipped. A virtual environment with them is made by

    python3 -m venv reference && reference/bin/pip install torch==2.15.0 torchvision==0.29.2 transformers==5.24.0 \\
        "pillow<13" scipy

--table prints the table of docs/models.md.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
SKIPPED = 77
PIXELS = 2e-6  # for values up to 3: differences by another order of normalising
OUTPUT, EQUAL = 1e-3, 1e-5  # of the largest value; EQUAL where bytes were resized

# Class, its way of resizing, its model, sizes other than the class's own.
CLASSES = {
    "ViT": ("bytes", "vit", {}), "DeiT": ("bytes", "deit", {}), "Bit": ("bytes", "dinov2", {}),
    "CLIP": ("bytes", "clip", {}), "DINOv3ViT": ("floats", "dinov3", {}), "OwlViT": ("bytes", "owlvit", {}),
    "Owlv2": ("floats", "owlv2", {}), "Siglip": ("bytes", "siglip", {}), "Siglip2": ("bytes", "siglip2", {}),
    "Beit": ("bytes", "beit", {}), "Idefics3": ("bytes", None, {}), "SmolVLM": ("bytes", None, {}),
    "Sam": ("bytes", "sam", {}), "DPT": ("bytes", "dinov2", {}),
    "DPT as of Depth Anything": ("bytes", "depth", {
        "size": {"height": 518, "width": 518}, "keep_aspect_ratio": True, "ensure_multiple_of": 14,
        "image_mean": [.485, .456, .406], "image_std": [.229, .224, .225]}),
    "VitPose": ("bytes", None, {}), "Eomt": ("bytes", None, {"do_pad": True}),
    "RfDetr": ("floats", None, {"size": {"height": 512, "width": 512}}), "Llava": ("bytes", "clip", {}),
    "LlavaNext": ("bytes", "clip", {}), "LlavaOnevision": ("bytes", None, {}),
}
PICTURES = ("640x427", "427x640", "227x300", "1000x872", "64x64", "grey", "grey16", "palette", "rgba", "cmyk", "exif6")


def skip(why):
    print("skipped: " + why)
    sys.exit(SKIPPED)


def begin():
    """Restarts in the interpreter that has the reference packages."""
    python = os.environ.get("FOVEA_REFERENCE_PYTHON")
    if not python:
        skip("FOVEA_REFERENCE_PYTHON names no interpreter with transformers; see the top of census_pictures.py")
    if not os.environ.get("FOVEA_CENSUS_INSIDE"):
        os.environ["FOVEA_CENSUS_INSIDE"] = "1"
        os.execv(python, [python, os.path.abspath(__file__), *sys.argv[1:]])


begin()

import warnings  # noqa: E402

warnings.filterwarnings("ignore")
os.environ.update(HF_HUB_OFFLINE="1", HF_HUB_DISABLE_PROGRESS_BARS="1", TRANSFORMERS_VERBOSITY="error")
sys.path.insert(0, HERE)
try:
    import numpy as np  # noqa: E402
    import PIL  # noqa: E402
    import torch  # noqa: E402
    import transformers  # noqa: E402
    from PIL import Image, ImageOps  # noqa: E402
except ImportError as e:
    skip("FOVEA_REFERENCE_PYTHON: %s" % e)
import pixel_model  # noqa: E402

PATCH = 16
torch.set_num_threads(max(2, torch.get_num_threads()))  # with one thread torchvision rounds floats otherwise


# ---- pictures ----


def picture(path, kind):
    """Writes a file of that kind; its name is `path` and an extension."""
    if kind in ("grey", "grey16", "palette", "rgba"):
        pixel_model.picture(path + ".png", 301, 223, kind)
        return path + ".png"
    width, height = (int(n) for n in kind.split("x")) if kind[0].isdigit() else (320, 214)
    small = np.random.default_rng(width + height).integers(0, 256, (height // 9 + 2, width // 9 + 2, 3), np.uint8)
    image = Image.fromarray(small).resize((width, height), Image.Resampling.BICUBIC)
    if kind == "cmyk":
        image.convert("CMYK").save(path + ".jpg", quality=95)
        return path + ".jpg"
    if kind == "exif6":
        exif = Image.Exif()
        exif[0x112] = 6
        image.save(path + ".jpg", quality=95, exif=exif)
        return path + ".jpg"
    image.save(path + ".png")
    return path + ".png"


def opened(path, converts):
    image = ImageOps.exif_transpose(Image.open(path))
    return image if converts or image.mode == "RGB" else image.convert("RGB")


# ---- models ----


def model(kind):
    """A tiny random model, and the part of its output that is compared."""
    t, small = transformers, {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2,
                              "intermediate_size": 64}
    made = {
        "vit": lambda: t.ViTModel(t.ViTConfig(**small, image_size=224, patch_size=16)),
        "deit": lambda: t.DeiTModel(t.DeiTConfig(**small, image_size=224, patch_size=16)),
        "dinov2": lambda: t.Dinov2Model(t.Dinov2Config(hidden_size=32, num_hidden_layers=2, num_attention_heads=2,
                                                       image_size=224, patch_size=14)),
        "clip": lambda: t.CLIPVisionModel(t.CLIPVisionConfig(**small, image_size=224, patch_size=32)),
        "dinov3": lambda: t.DINOv3ViTModel(t.DINOv3ViTConfig(**small, image_size=224, patch_size=16)),
        "owlvit": lambda: t.OwlViTVisionModel(t.OwlViTVisionConfig(**small, image_size=768, patch_size=32)),
        "owlv2": lambda: t.Owlv2VisionModel(t.Owlv2VisionConfig(**small, image_size=960, patch_size=32)),
        "siglip": lambda: t.SiglipVisionModel(t.SiglipVisionConfig(**small, image_size=224, patch_size=16)),
        "siglip2": lambda: t.Siglip2VisionModel(t.Siglip2VisionConfig(**small, patch_size=16, num_patches=256)),
        "beit": lambda: t.BeitModel(t.BeitConfig(**small, image_size=224, patch_size=16)),
        "sam": lambda: t.SamVisionModel(t.SamVisionConfig(hidden_size=32, num_hidden_layers=2, num_attention_heads=2,
                                                          output_channels=16, image_size=1024, patch_size=16,
                                                          global_attn_indexes=[1], num_pos_feats=8)),
        "depth": lambda: t.DepthAnythingForDepthEstimation(t.DepthAnythingConfig(
            backbone_config=t.Dinov2Config(hidden_size=32, num_hidden_layers=4, num_attention_heads=2, image_size=518,
                                           patch_size=14, out_indices=[1, 2, 3, 4], apply_layernorm=True,
                                           reshape_hidden_states=False),
            reassemble_hidden_size=32, neck_hidden_sizes=[8, 8, 16, 16], fusion_hidden_size=8, head_hidden_size=8)),
    }[kind]()
    noise = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for p in made.parameters():
            p.normal_(0, (1.5 / p.shape[-1]) ** .5 if p.ndim == 2 else .05, generator=noise) if p.ndim > 1 else \
                p.add_(.1 * torch.randn(p.shape, generator=noise))
    return made.eval(), "predicted_depth" if kind == "depth" else "last_hidden_state"


# ---- one class ----


def planes_of(found, name):
    values = found["pixel_values"]
    if "spatial_shapes" in found:
        (rows, columns) = found["spatial_shapes"][0].tolist()
        values = values[0, :rows * columns].reshape(rows, columns, PATCH, PATCH, 3).permute(4, 0, 2, 1, 3)
        return values.reshape(3, rows * PATCH, columns * PATCH)
    while values.ndim > 4:
        values = values[0]
    return values[-1 if name in ("Idefics3", "SmolVLM") else 0]


class Class:
    def __init__(self, fovea, folder, label):
        self.fovea, self.folder, self.label = fovea, folder, label
        self.arithmetic, kind, fields = CLASSES[label]
        self.name = label.split()[0]
        self.file = {**fields, "image_processor_type": self.name + "ImageProcessor"}
        self.pixels = os.path.join(folder, "pixels")
        pixel_model.folder(self.pixels, {"preprocessor_config.json": self.file}, PATCH)
        self.model = None
        if kind:
            self.model, self.output = model(kind)
            self.whole = os.path.join(folder, "model")
            self.model.save_pretrained(self.whole)
            with open(os.path.join(self.whole, "preprocessor_config.json"), "w", encoding="utf-8") as f:
                json.dump(self.file, f)

    def processor(self, pillow):
        return transformers.AutoImageProcessor.from_pretrained(self.pixels, backend="pil" if pillow else "torchvision")

    def backends(self):
        """Owlv2's class for Pillow resizes with SciPy; DINOv3 and RF-DETR have none."""
        return (False, True) if self.arithmetic == "bytes" else (False,)

    def compare(self, path, pillow):
        """The largest differences: of the pixels, and of the output relative to its largest value."""
        options = ["--backend", "pillow"] if pillow else []
        processor = self.processor(pillow)
        image = opened(path, getattr(processor, "do_convert_rgb", False))
        more = {"boxes": [[[0, 0, *image.size]]]} if self.name == "VitPose" else {}
        found = processor(images=image, return_tensors="pt", **more)
        want = np.asarray(planes_of(found, self.name), np.float64)
        width, height, rows, _ = pixel_model.pixels(self.fovea, self.pixels, path, *options, patch=PATCH)
        got = np.asarray(rows, np.float64).transpose(2, 0, 1)
        high, wide = (n // PATCH * PATCH for n in want.shape[1:])
        if (high, wide) != (height, width):
            return "%dx%d, not %dx%d" % (width, height, wide, high), None
        pixels = float(abs(got - want[:, :high, :wide]).max())
        return pixels, self.compare_output(path, found, options) if self.model else None

    def compare_output(self, path, found, options):
        from safetensors.numpy import load_file
        values = found if "spatial_shapes" in found else {"pixel_values": planes_of(found, self.name)[None]}
        with torch.no_grad():
            want = getattr(self.model(**values), self.output).numpy().astype(np.float64)
        out = os.path.join(self.folder, "o.safetensors")
        r = pixel_model.run(self.fovea, self.whole, path, "-o", out, *options)
        if r.returncode:
            return r.stderr
        got = load_file(out)[self.output].reshape(-1)
        want = want.reshape(-1)[:got.size] if "spatial_shapes" in found else want.reshape(-1)
        if got.size != want.size:
            return "%d values, not %d" % (got.size, want.size)
        return float(abs(got - want).max() / abs(want).max())


def verdict(c, pixels, output):
    if isinstance(pixels, str) or isinstance(output, str):
        return "%s %s" % (pixels, output)
    limit = EQUAL if c.arithmetic == "bytes" else OUTPUT
    if pixels > PIXELS * 2 or (output is not None and output > limit):
        return "pixels %.1e, output %s" % (pixels, output)
    return None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("fovea")
    parser.add_argument("--only", default="")
    parser.add_argument("--table", action="store_true")
    a = parser.parse_args()
    if int(PIL.__version__.split(".")[0]) > 12:
        skip("Pillow %s resizes in another order than Pillow 12.3" % PIL.__version__)
    wrong, lines = 0, []
    with tempfile.TemporaryDirectory() as folder:
        pictures = {kind: picture(os.path.join(folder, kind), kind) for kind in PICTURES}
        for label in CLASSES:
            if a.only and label not in a.only.split(","):
                continue
            c = Class(os.path.abspath(a.fovea), os.path.join(folder, label.replace(" ", "")), label)
            for pillow in c.backends():
                worst = [0.0, None]
                for kind, path in pictures.items():
                    try:
                        pixels, output = c.compare(path, pillow)
                    except (RuntimeError, subprocess.SubprocessError) as e:
                        pixels, output = str(e), None
                    bad = verdict(c, pixels, output)
                    wrong += bool(bad)
                    if bad:
                        print("%s, %s%s: %s" % (label, kind, ", Pillow" if pillow else "", bad), flush=True)
                        continue
                    worst[0] = max(worst[0], pixels)
                    worst[1] = output if worst[1] is None else max(worst[1], output or 0)
                lines.append((label, "Pillow" if pillow else "torchvision", *worst))
                print("%-24s %-12s pixels %.1e, output %s" % (*lines[-1][:3], worst[1]), flush=True)
    if a.table:
        print("\n| class | backend | pixels | output |\n|---|---|---:|---:|")
        for label, backend, pixels, output in lines:
            print("| %s | %s | %.0e | %s |" % (label, backend, pixels, "–" if output is None else "%.0e" % output))
    print("%d of %d wrong" % (wrong, len(lines) * len(PICTURES)))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
