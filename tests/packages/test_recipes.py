#!/usr/bin/env python3
"""test_recipes.py: runs the ten recipes of docs/python.md unchanged.

    test_recipes.py path/to/libfovea.so

The models of the hub are replaced by small or random ones. Needs numpy and Pillow; the recipe about PyTorch is
skipped without it.
"""
import importlib.util
import os
import re
import shutil
import sys
import tempfile
import unittest

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import counted

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
np = counted.need("numpy")
counted.need("PIL")
from PIL import Image  # noqa: E402

if len(sys.argv) < 2:
    raise SystemExit(__doc__)
os.environ["FOVEA_LIBRARY"] = os.path.abspath(sys.argv[1])
sys.path.insert(0, os.path.join(ROOT, "python"))

GOLDEN = os.path.join(ROOT, "tests", "data", "golden", "models")
CACHED = {"facebook/dinov2-base": "dinov2-03", "google/vit-base-patch16-224": "vit-01",
          "Roboflow/rf-detr-small": "rf-detr-02", "tue-mps/coco_panoptic_eomt_small_640_2x": "eomt-masked-01"}
RANDOM = {"depth-anything/Depth-Anything-V2-Small-hf": "synthetic:depth-anything-s"}
SEED = 1


def recipes():
    """The recipes of the page: {number: program}."""
    with open(os.path.join(ROOT, "docs", "python.md")) as file:
        page = file.read()
    found = re.findall(r"^### (\d+)\. [^\n]*\n\n```python\n(.*?)^```$", page, re.M | re.S)
    return {int(number): program for number, program in found}


def random_picture(path, width, height):
    pixels = np.random.default_rng(SEED).integers(0, 256, (height, width, 3), np.uint8)
    Image.fromarray(pixels).save(path)


class Recipes(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        os.chdir(cls.folder.name)
        os.environ["HF_HOME"] = os.path.join(cls.folder.name, "hf")
        for name, golden in CACHED.items():
            snapshot = os.path.join("hf", "hub", "models--" + name.replace("/", "--"), "snapshots", "1")
            shutil.copytree(os.path.join(GOLDEN, golden), snapshot)
        random_picture("photo.jpg", 400, 300)
        random_picture("other.jpg", 300, 400)

    @classmethod
    def tearDownClass(cls):
        os.chdir(ROOT)
        cls.folder.cleanup()

    def run_recipe(self, number):
        program = recipes()[number]
        for name, synthetic in RANDOM.items():
            program = program.replace(name, synthetic)
        made = {}
        exec(compile(program, "recipe %d" % number, "exec"), made)
        return made

    def test_there_are_ten(self):
        self.assertEqual(sorted(recipes()), list(range(1, 11)))

    def test_1_features(self):
        made = self.run_recipe(1)
        self.assertEqual((made["tokens"].shape, made["features"].shape), ((257, 64), (16, 16, 64)))
        np.testing.assert_array_equal(made["features"].reshape(256, 64), made["tokens"][1:])
        self.assertEqual(made["pooled"].shape, (1, 64))

    def test_2_high_resolution(self):
        made = self.run_recipe(2)
        self.assertEqual(made["fine"].features.shape, (37, 74, 64))
        self.assertEqual(made["mixed"].features.shape, (37, 37, 64))

    def test_3_numpy_and_opencv(self):
        made = self.run_recipe(3)
        self.assertEqual(made["raw"].features.shape, (34, 45, 64))
        self.assertEqual(made["whole"].features.shape, made["left"].features.shape)

    @unittest.skipUnless(importlib.util.find_spec("torch"), "no PyTorch for this Python")
    def test_4_pytorch(self):
        made = self.run_recipe(4)
        self.assertEqual(tuple(made["features"].shape), (16, 16, 64))
        self.assertEqual(tuple(made["tokens"].shape), (257, 64))
        want = made["model"](made["picture"].permute(1, 2, 0).numpy().copy())
        np.testing.assert_array_equal(made["features"].numpy(), want.features)

    def test_5_many(self):
        made = self.run_recipe(5)
        self.assertEqual(made["pooled"].shape, (8, 1, 64))
        singles = [made["model"](name) for name in ("photo.jpg", "other.jpg")]
        for got, want in zip(made["batch"], singles):
            np.testing.assert_array_equal(got.features, want.features)
        self.assertTrue(any(np.array_equal(made["out"].features, s.features) for s in singles))

    def test_6_classes(self):
        made = self.run_recipe(6)
        labels = made["model"]("photo.jpg").labels
        self.assertEqual(len(labels), 10)
        self.assertAlmostEqual(sum(label.score for label in labels), 1, 5)
        self.assertEqual(labels, sorted(labels, key=lambda label: -label.score))
        self.assertEqual(labels[0].name, "LABEL_%d" % labels[0].label)

    def test_7_depth(self):
        made = self.run_recipe(7)
        self.assertEqual(made["depth"].shape, (300, 400))
        self.assertEqual(made["depth"][made["nearest"]], np.nanmax(made["depth"]))

    def test_8_boxes(self):
        made = self.run_recipe(8)
        self.assertGreater(len(made["boxes"]), 0)
        for box in made["boxes"]:
            self.assertEqual(box.name, "LABEL_%d" % box.label)
            self.assertTrue(-400 < box.x1 <= box.x2 < 800 and -300 < box.y1 <= box.y2 < 600)

    def test_9_masks(self):
        made = self.run_recipe(9)
        self.assertEqual((made["classes"].shape, made["masks"].pixels.shape), ((300, 400), (300, 400)))

    def test_10_threads(self):
        made = self.run_recipe(10)
        first = made["done"][0][0]["last_hidden_state"]
        for frames in made["done"]:
            for out in frames:
                np.testing.assert_array_equal(out["last_hidden_state"], first)
        self.assertGreater(made["bytes_of_one"], first.nbytes)


if __name__ == "__main__":
    counted.main()
