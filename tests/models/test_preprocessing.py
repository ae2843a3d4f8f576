#!/usr/bin/env python3
"""test_preprocessing.py: compares preprocessed pixels with those of the image processors of transformers, timm and
OpenCLIP (tests/data/preprocessing.json); tests which file's settings apply, and which are refused.

    test_preprocessing.py path/to/fovea

Standard library only.
"""
import json
import os
import shutil
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import pixel_model  # noqa: E402

FOVEA = os.path.abspath(sys.argv.pop(1)) if len(sys.argv) > 1 else "fovea"
CASES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data", "preprocessing.json")
STEP = 149
NEAR = 4e-6  # for values up to 3: float32 computed in another order
VIT = {"image_processor_type": "ViTImageProcessor", "size": {"height": 32, "width": 32}}


class Folder(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, files=None, picture=(24, 20, "rgb")):
        pixel_model.folder(self.path("model"), files)
        pixel_model.picture(self.path("p.png"), *picture)

    def run_(self, *options):
        return pixel_model.run(FOVEA, self.path("model"), self.path("p.png"), *options)

    def pixels(self, *options):
        return pixel_model.pixels(FOVEA, self.path("model"), self.path("p.png"), *options)

    def refused(self, text, *options):
        """Checks for exit status 7 and a message with all words of `text`."""
        r = self.run_(*options)
        self.assertEqual(r.returncode, 7, r.stderr)
        for word in text if isinstance(text, tuple) else (text,):
            self.assertIn(word, r.stderr)


class Expected(Folder):
    """Has a test method for each case of the file."""

    def compare(self, case, *options):
        self.write(case["files"], case["picture"])
        width, height, rows, _ = self.pixels(*options)
        self.assertEqual((width, height), (case["width"], case["height"]))
        planes = [[p[c] for row in rows for p in row] for c in range(3)]
        flat = [v for plane in planes for v in plane][::STEP]
        worst = max(abs(a - b) for a, b in zip(flat, case["values"]))
        self.assertLess(worst, NEAR)
        for c, plane in enumerate(planes):
            self.assertAlmostEqual(sum(plane), case["sums"][c], delta=NEAR * len(plane))
            self.assertAlmostEqual(sum(v * v for v in plane), case["squares"][c], delta=6 * NEAR * len(plane))


def add_cases():
    with open(CASES, encoding="utf-8") as f:
        cases = json.load(f)
    for name, case in cases.items():
        backend = ["--backend", case["backend"]] if "backend" in case else []

        def method(self, case=case, backend=backend):
            self.compare(case, *backend)
        setattr(Expected, "test_" + name.replace(" ", "_").replace(",", ""), method)


class Backends(Folder):
    """Pillow's arithmetic is selected by the option, a file, or "fovea", in this order of precedence."""

    def test_all_say_the_same(self):
        file = {**VIT, "size": {"height": 16, "width": 12}}
        ways = [({"preprocessor_config.json": file}, ["--backend", "pillow"]),
                ({"preprocessor_config.json": {**file, "backend": "pil"}}, []),
                ({"preprocessor_config.json": file, "config.json": {"fovea": {"backend": "pillow"}}}, []),
                ({"preprocessor_config.json": file, "config.json": {"fovea": {"preprocess": {"backend": "pil"}}}}, [])]
        seen = []
        for files, options in ways:
            self.write(files, (97, 61, "rgb"))
            *_, rows, text = self.pixels(*options)
            self.assertIn("bytes as Pillow", text)
            seen.append(rows)
        self.assertEqual([rows == seen[0] for rows in seen], [True] * len(ways))
        self.write({"preprocessor_config.json": {**file, "backend": "pil"}}, (97, 61, "rgb"))
        *_, text = self.pixels("--backend", "torchvision")
        self.assertIn("bytes as torchvision", text)

    def test_unknown_ones(self):
        self.write({"preprocessor_config.json": {**VIT, "backend": "cv2"}})
        self.refused(("preprocessor_config.json", '"backend"', "torchvision, pil or pillow"))
        os.remove(self.path("model/preprocessor_config.json"))
        self.write({"config.json": {"fovea": {"backend": "cv2"}}})
        self.refused('"fovea.backend" must be')


class Said(Folder):
    def test_the_file_and_its_rule(self):
        self.write({"preprocessor_config.json": {"image_processor_type": "CLIPImageProcessor", "size": 40,
                                                 "crop_size": 32}})
        line = ("preprocessor_config.json: CLIPImageProcessor, short side to 40, bicubic, bytes as torchvision, "
                "centre 32x32, mean 0.481 0.458 0.408, std 0.269 0.261 0.276")
        r = self.run_("--json")
        self.assertEqual(r.stderr.count(line), 1)
        self.assertEqual(json.loads(r.stdout)["preprocess"], line)
        r = pixel_model.subprocess.run([FOVEA, "plan", self.path("model")], capture_output=True, text=True, check=True)
        self.assertIn("pixels   " + line, r.stdout)
        r = pixel_model.subprocess.run([FOVEA, "plan", self.path("model"), "--json"], capture_output=True, text=True,
                                       check=True)
        params = json.loads(r.stdout)["params"]
        self.assertEqual((params["preprocess"], params["preprocess_assumed"]), (line, False))

    def test_a_folder_without_one(self):
        self.write()
        r = self.run_()
        self.assertIn("warning: no preprocessor_config.json, so as usual for vit, to 32x32",
                      r.stderr)
        r = pixel_model.subprocess.run([FOVEA, "plan", self.path("model"), "--json"], capture_output=True, text=True,
                                       check=True)
        self.assertIs(json.loads(r.stdout)["params"]["preprocess_assumed"], True)

    def test_what_fovea_changes(self):
        self.write({"preprocessor_config.json": VIT, "config.json": {"fovea": {"preprocess": {
            "size": 16, "image_processor_type": "SiglipImageProcessor", "do_convert_rgb": False}}}})
        self.assertIn('preprocessor_config.json: SiglipImageProcessor, changed by "fovea" of config.json, short side '
                      "to 16, bicubic", self.run_().stderr)
        self.write({"config.json": {"fovea": {"preprocess": {"image_processor_type": "DeiTImageProcessor"}}}})
        os.remove(self.path("model/preprocessor_config.json"))
        self.assertIn('config.json ("fovea"): DeiTImageProcessor, to 256x256, bicubic', self.run_().stderr)


class Refused(Folder):
    def file(self, fields, **more):
        self.write({"preprocessor_config.json": fields, **more})

    def test_classes(self):
        for name, near in (("ViTImageProcesor", "ViTImageProcessor"), ("Siglip3ImageProcessor", "SiglipImageProcessor"),
                           ("CLIPImageProcessorSlow", "CLIPImageProcessor"), ("CLIP", "CLIPImageProcessor"),
                           ("ViTMAEImageProcessor", "ViTImageProcessor")):
            self.file({**VIT, "image_processor_type": name})
            self.refused(('"%s"' % name, near, '"fovea": {"preprocess"'))
        for name in ("ViTImageProcessor", "ViTImageProcessorFast", "ViTImageProcessorPil", "ViTFeatureExtractor"):
            self.file({**VIT, "image_processor_type": name})
            self.assertEqual(self.run_().returncode, 0)

    def test_unknown_fields(self):
        for name, value in (("do_thumbnail", True), ("crop_pct", 0.9), ("offset", True), ("max_size", 900),
                            ("do_flip_channel_order", True), ("size_divisor", 32), ("interpolation", "bilinear")):
            self.file({**VIT, name: value})
            self.refused(('preprocessor_config.json: "%s"' % name, '{"ignore": ["%s"]}' % name))
            self.file({**VIT, name: value}, **{"config.json": {"fovea": {"ignore": [name]}}})
            self.assertEqual(self.run_().returncode, 0)
            self.file({**VIT, name: None})
            self.assertEqual(self.run_().returncode, 0)
        self.write({"processor_config.json": {"image_processor": {**VIT, "foo": 1}}})
        os.remove(self.path("model/preprocessor_config.json"))
        self.refused('processor_config.json: "image_processor.foo" is not known')
        self.write({"open_clip_config.json": {"preprocess_cfg": {"foo": 1}}})
        os.remove(self.path("model/processor_config.json"))
        self.refused('open_clip_config.json: "preprocess_cfg.foo" is not known')

    def test_impossible_values(self):
        bad = {"size": ({"height": 5}, {"width": 5, "shortest_edge": 5}, {"longest_edge": 32}, {"depth": 4}, [5], 0,
                        {"min_pixels": 1, "max_pixels": 2}, None, "32", {"height": 0, "width": 5}),
               "resample": (6, -1, "spline", None), "image_std": (0, [1, 1], [1, 1, 0], None),
               "image_mean": ("a", [0, 0], None), "rescale_factor": (0, None, "x"), "do_resize": ("yes",),
               "crop_size": (None, {"shortest_edge": 32})}
        for name, values in bad.items():
            for value in values:
                with self.subTest(name=name, value=value):
                    self.file({**VIT, "do_center_crop": name == "crop_size", name: value})
                    self.refused(("preprocessor_config.json", '"%s' % name))
        self.file({**VIT, "do_pad": True, "pad_size": {"longest_edge": 40}})
        self.refused('"pad_size" must be')

    def test_sizes_that_a_class_has_not(self):
        short, both = {"shortest_edge": 32}, {"height": 32, "width": 32}
        for name, size in (("Yolos", short), ("Qwen2VL", short), ("Pixtral", short), ("RfDetr", short), ("Mask2Former", short), ("Sam", both), ("Owlv2", short), ("DPT", short), ("Idefics3", both)):
            self.file({"image_processor_type": name + "ImageProcessor", "size": size})
            self.refused((name + "ImageProcessor", '"size"'))

    def test_what_is_not_computed(self):
        self.file({"image_processor_type": "LlavaImageProcessor", "do_pad": True})
        self.refused(('"do_pad"', "mean colour"))
        self.write({"config.json": {"architecture": "vit_tiny_patch4_32", "pretrained_cfg": {"crop_mode": "border"}}})
        self.refused('"crop_mode": "border"')


if __name__ == "__main__":
    add_cases()
    unittest.main()
