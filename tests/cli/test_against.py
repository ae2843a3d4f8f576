#!/usr/bin/env python3
"""test_against.py: `fovea run --against` and `--pca-basis` against numpy on what `fovea run` gives.

    test_against.py path/to/fovea
"""
import json
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
VIT = os.path.join(HERE, "..", "data", "golden", "models", "vit-01")
SIDE, PATCH = 224, 28


class Case(unittest.TestCase):
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

    def outputs(self, *args):
        self.run_on(*args, "-o", "o.safetensors", "--hidden")
        return vit.load(self.path("o.safetensors"))

    def refused(self, *args, code, words):
        p = self.run_on(*args, code=code)
        self.assertIn(words, p.stderr)


def cosines(a, b):
    a, b = a.astype(np.float64), b.astype(np.float64)
    return (a * b).sum(-1) / np.sqrt((a * a).sum(-1) * (b * b).sum(-1))


class Against(Case):
    def check(self, model, against, other, *more):
        """`other`: the arguments of the run that --against stands for."""
        size = ["a.ppm", "--size", SIDE]
        a, b = self.outputs(model, *size, *more), self.outputs(*other, *size)
        p = self.run_on(model, *size, *more, "--against", against, "--against-picture", "heat.png", "--json",
                        "--top", 3)
        told = json.loads(p.stdout)["against"]
        rows = {k.split(".")[-1]: cosines(a[k], b[k])[0] for k in a if "hidden" in k}
        names = [o["output"] for o in told["outputs"]]
        self.assertEqual(names, ["hidden%d" % i for i in range(5)] + ["last_hidden_state"])
        for o in told["outputs"]:
            patches = rows[o["output"]][1:]
            self.assertAlmostEqual(o["mean"], patches.mean(), delta=1e-6)
            self.assertAlmostEqual(o["worst"], patches.min(), delta=1e-6)
        patches = rows["last_hidden_state"][1:]
        for place, i in zip(told["worst"], patches.argsort()):
            at = (place["y"] // PATCH) * (SIDE // PATCH) + place["x"] // PATCH
            self.assertAlmostEqual(place["cosine"], patches[at], delta=1e-6)
            self.assertAlmostEqual(place["cosine"], patches[i], delta=1e-6)
        return told, patches

    def test_another_model(self):
        told, patches = self.check(SOFTMAX, LINEAR, [LINEAR])
        usual = json.loads(self.run_on(LINEAR, "a.ppm", "--json").stdout)["compute"]
        self.assertEqual((told["attention"], told["compute"], told["device"]), ("foveated", usual, "cpu"))
        self.assertLess(patches.min(), 0.99)

    def test_other_options(self):
        told, _ = self.check(SOFTMAX, "attention=linear:elu1,compute=int8",
                             [SOFTMAX, "--attention", "linear:elu1", "--compute", "int8"])
        self.assertEqual((told["attention"], told["compute"]), ("linear:elu1", "int8"))
        told, _ = self.check(LINEAR, "model=%s,attention=linear:elu1" % SOFTMAX,
                             [SOFTMAX, "--attention", "linear:elu1", "--compute", "bf16"], "--compute", "bf16")
        self.assertEqual(told["compute"], "bf16")  # what is not named is as in the run itself

    def test_heat(self):
        _, patches = self.check(SOFTMAX, LINEAR, [LINEAR])
        got, _ = read_png(self.path("heat.png"))
        self.assertEqual(got.shape, (320 + 24 + 16, 2 * (320 + 8) + 8, 3))
        panel = got[32:32 + 320, 8 + 328:8 + 328 + 320].astype(float).sum(-1)
        whole = resized((1 - patches).reshape(SIDE // PATCH, -1, 1), 320, 320)[..., 0]
        order = np.corrcoef(whole.ravel(), panel.ravel())[0, 1]
        self.assertGreater(order, 0.6)  # over the picture's own grey
        top = np.unravel_index(whole.argmax(), whole.shape)
        self.assertGreater(panel[top], np.quantile(panel, 0.97))

    def test_scores(self):
        p = self.run_on(VIT, "a.ppm", "--size", 64, "--against", "attention=linear:elu1", "--json")
        a = self.outputs(VIT, "a.ppm", "--size", 64)["logits"]
        b = self.outputs(VIT, "a.ppm", "--size", 64, "--attention", "linear:elu1")["logits"]
        last = json.loads(p.stdout)["against"]["outputs"][-1]
        self.assertEqual(last["output"], "logits")
        self.assertAlmostEqual(last["mean"], cosines(a, b)[0], delta=1e-6)

    def test_itself_in_words(self):
        p = self.run_on(SOFTMAX, "a.ppm", "b.ppm", "--against", SOFTMAX)
        self.assertEqual(p.stdout.count("1.000000  1.000000"), 12)
        self.assertEqual(p.stdout.count("least alike at"), 2)

    def test_a_tensor(self):
        rng = np.random.default_rng(1)
        vit.save(self.path("in.safetensors"), {"input": rng.standard_normal((2, 3, 112, 84))})
        p = self.run_on(SOFTMAX, "in.safetensors", "--against", LINEAR, "--against-picture", "h.png", "--json")
        one, two = [json.loads(line) for line in p.stdout.splitlines()]
        self.assertNotEqual(one["against"]["outputs"], two["against"]["outputs"])
        self.assertTrue(os.path.exists(self.path("h-in-1.png")))

    def test_what_cannot_be_compared(self):
        for args, code, words in ((["--against", VIT], 2, "cannot be compared"),
                                  (["--against", "nowhere"], 7, "nowhere"),
                                  (["--against", "synthetic:mavit-t"], 2, "no features in common"),
                                  (["--against", "compte=f32"], 1, "did you mean compute"),
                                  (["--against", "compute=f32,fast"], 1, "wanted options"),
                                  (["--against", "compute=f8"], 1, "f8"),
                                  (["--against-picture", "x.png"], 1, "--against, which is not given"),
                                  (["--against", LINEAR, "--against-picture", "x.jpg"], 1, "is a .png"),
                                  (["--against", LINEAR, "--against-picture", "x.png", "--pca", "x.png"], 1,
                                   "share the output")):
            with self.subTest(args=args):
                self.refused(SOFTMAX, "a.ppm", *args, code=code, words=words)


class Basis(Case):
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
        self.refused(*args, os.path.join(SOFTMAX, "model.safetensors"), code=7, words="is no basis")
        self.refused(*args, "no/b.safetensors", code=7, words="cannot be written")
        self.run_on(*args, "b.safetensors")
        self.refused("synthetic:dinov2-s", "a.ppm", "--size", 28, *args[2:], "b.safetensors", code=2,
                     words="64 channels")
        self.refused(*args, "b.safetensors", "-o", "b.safetensors", code=1, words="would overwrite")


if __name__ == "__main__":
    EXE = os.path.abspath(sys.argv.pop(1))
    counted.main()
