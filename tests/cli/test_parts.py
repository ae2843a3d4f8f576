#!/usr/bin/env python3
"""test_parts.py: a model whose image processor splits pictures into overlapping parts. All parts are run, and the
result has the classes of the whole picture.

    test_parts.py path/to/fovea

That bytes and classes are transformers' is in tests/plan/test_results_data.py.
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import counted

MODEL = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data", "golden", "models", "eomt-masked-01")
FOVEA = os.path.abspath(sys.argv.pop(1))
PROCESSOR = {"image_processor_type": "EomtImageProcessor", "do_split_image": True,
             "size": {"shortest_edge": 48, "longest_edge": None}}


class Parts(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)
        shutil.copytree(MODEL, self.path("model"))
        with open(self.path("model/preprocessor_config.json"), "w") as f:
            json.dump(PROCESSOR, f)
        with open(self.path("a.ppm"), "wb") as f:
            f.write(b"P6 100 60 255\n" + bytes(i * 7 % 256 for i in range(100 * 60 * 3)))

    def path(self, name):
        return os.path.join(self.folder, name)

    def run_model(self, *options, expect=0):
        p = subprocess.run([FOVEA, "run", self.path("model"), self.path("a.ppm"), "--json", *options],
                           capture_output=True, text=True)
        self.assertEqual(p.returncode, expect, p.stderr)
        return p.stderr if expect else json.loads(p.stdout.splitlines()[0])

    def test_classes(self):
        said = self.run_model("--labels", self.path("l.png"), "-o", self.path("o.safetensors"))
        self.assertEqual((said["width"], said["height"]), (48, 48))
        self.assertAlmostEqual(sum(s["share"] for s in said["segmentation"]), 1, places=6)
        with open(self.path("l.png"), "rb") as f:  # of the picture, not of the parts
            self.assertEqual(f.read(24)[16:], (100).to_bytes(4, "big") + (60).to_bytes(4, "big"))
        with open(self.path("o.safetensors"), "rb") as f:  # two parts
            self.assertIn(b'"shape":[2,5,24,24]', f.read(2000).replace(b" ", b""))
        for batch in ("2", "3"):
            again = self.run_model("--batch", batch)
            self.assertEqual(again["segmentation"], said["segmentation"])

    def test_otherwise(self):
        self.assertEqual(self.run_model("--size", "48")["width"], 48)
        self.assertIn("--labels", self.run_model("--masks", self.path("m.png"), expect=2))
        self.assertIn("--size", self.run_model("--pca", self.path("p.png"), expect=2))


if __name__ == "__main__":
    counted.main()
