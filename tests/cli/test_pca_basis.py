#!/usr/bin/env python3
"""test_pca_basis.py: compares `fovea run --pca-basis` with numpy on the features of `fovea run`.

    test_pca_basis.py path/to/fovea
"""
import os
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path += [os.path.join(HERE, ".."), os.path.join(HERE, "..", "models")]
import counted

np = counted.need("numpy")

import test_linearised as vit
from test_segmentation import read_png, resized, write_ppm

DIGITS = os.path.join(HERE, "..", "..", "bench", "digits")
SOFTMAX, LINEAR = os.path.join(DIGITS, "softmax"), os.path.join(DIGITS, "linear")
SIDE = 224


class Basis(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        rng = np.random.default_rng(3)
        for name in "ab":
            coarse = rng.integers(0, 128, (12, 16, 3)).repeat(8, 0).repeat(8, 1)
            write_ppm(self.path(name + ".ppm"), (coarse + rng.integers(0, 128, coarse.shape)).astype(np.uint8))

    def path(self, name):
        return os.path.join(self.folder, name)

    def run_on(self, *args, code=0):
        p = subprocess.run([EXE, "run", *map(str, args)], capture_output=True, text=True, cwd=self.folder)
        self.assertEqual(p.returncode, code, p.stderr)
        return p

    def refused(self, *args, code, words):
        p = self.run_on(*args, code=code)
        self.assertIn(words, p.stderr)

    def picture(self, model, name, *more):
        self.run_on(model, name, "--size", SIDE, "--pca", "p.png", *more)
        return read_png(self.path("p.png"))[0]

    def test_pictures_of_one_basis(self):
        shared = ["--pca-basis", "b.safetensors"]
        own = self.picture(SOFTMAX, "a.ppm")
        first = self.picture(SOFTMAX, "a.ppm", *shared)
        with open(self.path("b.safetensors"), "rb") as f:
            made = f.read()
        self.assertLessEqual(abs(own - first).max(), 1)  # it has float32 numbers
        self.assertTrue((self.picture(SOFTMAX, "a.ppm", *shared) == first).all())
        alone, other = self.picture(LINEAR, "a.ppm"), self.picture(LINEAR, "a.ppm", *shared)
        self.assertGreater(abs(alone - other).max(), 8)
        basis = vit.load(self.path("b.safetensors"))
        self.run_on(LINEAR, "a.ppm", "--size", SIDE, "--features", "f.npy")
        plane = (np.load(self.path("f.npy"))[0].astype(np.float64) - basis["mean"]) @ basis["axes"].T
        low, high = basis["range"]
        want = np.clip((resized(plane, SIDE, SIDE) - low) * 255 / (high - low) + 0.5, 0, 255).astype(int)
        self.assertLessEqual(abs(want - other).max(), 1)
        with open(self.path("b.safetensors"), "rb") as f:
            self.assertEqual(f.read(), made)

    def test_several_pictures_of_one_run(self):
        self.run_on(SOFTMAX, "a.ppm", "b.ppm", "--size", SIDE, "--pca", "p.png", "--pca-basis", "b.safetensors")
        both = [read_png(self.path("p-%s.png" % name))[0] for name in "ab"]
        for name, got in zip("ab", both):
            again = self.picture(SOFTMAX, name + ".ppm", "--pca-basis", "b.safetensors")
            self.assertTrue((again == got).all())

    def test_what_is_no_basis(self):
        args = [SOFTMAX, "a.ppm", "--pca", "p.png", "--pca-basis"]
        self.refused(SOFTMAX, "a.ppm", "--pca-basis", "b.safetensors", code=1, words="--pca, which is not given")
        self.refused(*args, "a.ppm", code=7, words="a.ppm")
        self.refused(*args, os.path.join(SOFTMAX, "model.safetensors"), code=7, words="is not a basis")
        self.refused(*args, "no/b.safetensors", code=7, words="cannot be written")
        self.run_on(*args, "b.safetensors")
        self.refused("synthetic:dinov2-s", "a.ppm", "--size", 28, *args[2:], "b.safetensors", code=2,
                     words="64 channels")
        self.refused(*args, "b.safetensors", "-o", "b.safetensors", code=1, words="would overwrite")


if __name__ == "__main__":
    EXE = os.path.abspath(sys.argv.pop(1))
    counted.main()
