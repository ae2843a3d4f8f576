#!/usr/bin/env python3
"""test_advise.py: `fovea plan --advise`: its figures are those of plans, and a budget leaves out what exceeds it.

    test_advise.py path/to/fovea
"""
import json
import os
import subprocess
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.join(HERE, ".."))
import counted

TRAINED = os.path.join(HERE, "..", "data", "golden", "models", "vit-01")
RANDOM = "synthetic:vit-ti16"


class Advise(unittest.TestCase):
    def fovea(self, *args, code=0):
        p = subprocess.run([EXE, "plan", *args], capture_output=True, text=True)
        self.assertEqual(p.returncode, code, p.stderr)
        return p

    def choices(self, *args):
        return json.loads(self.fovea(*args, "--advise", "--json").stdout)["choices"]

    def test_figures_are_those_of_plans(self):
        found = self.choices(RANDOM, "--size", "96,192x64", "--attention", "softmax,foveated", "--compute", "f32,int8")
        self.assertEqual(len(found), 8)
        for c in found:
            size = "%dx%d" % (c["width"], c["height"])
            plan = json.loads(self.fovea(RANDOM, "--size", size, "--attention", c["attention"], "--compute",
                                         c["compute"], "--json").stdout)
            self.assertEqual(c["bytes"], plan["bytes"])
            self.assertEqual((c["seconds"], c["tokens"]), (plan["seconds"], plan["params"]["tokens"]))
            self.assertTrue(c["fits"])

    def test_usual_choices(self):
        found = self.choices(RANDOM)
        self.assertEqual({c["width"] for c in found}, {112, 176, 224, 336, 448, 672, 896})
        self.assertEqual({c["attention"] for c in found}, {"softmax", "foveated", "linear:elu1"})
        self.assertEqual({c["compute"] for c in found}, {"f32", "bf16", "int8"})
        self.assertEqual({c["attention"] for c in self.choices("synthetic:mavit-t", "--size", "224")}, {"mala"})

    def test_what_needs_training(self):
        for c in self.choices(TRAINED):
            self.assertEqual(c["untrained"], c["attention"] == "linear:elu1")
        self.assertIn("needs training", self.fovea(TRAINED, "--advise").stdout)
        last = self.fovea(TRAINED, "--advise", "--budget", "1s").stdout.splitlines()[-1]
        self.assertIn("largest that fits: --size ", last)
        self.assertNotIn("linear", last)

    def test_budgets(self):
        every = self.choices(RANDOM)
        times, memory = sorted(c["seconds"] for c in every), sorted(c["memory"] for c in every)
        limits = times[len(every) // 2], memory[len(every) // 2]
        text = "%.9fms,%.6fMiB" % (limits[0] * 1e3 + 1e-6, limits[1] / (1 << 20) + 1e-5)
        found = self.choices(RANDOM, "--budget", text)
        fits = [c["seconds"] <= limits[0] * 1.000001 and c["memory"] <= limits[1] + 16 for c in every]
        self.assertEqual([c["fits"] for c in found], fits)
        self.assertTrue(any(fits) and not all(fits))
        lines = self.fovea(RANDOM, "--advise", "--budget", text).stdout.splitlines()
        self.assertEqual(len(lines), 1 + sum(fits) + 2)
        best = max(c["tokens"] for c in found if c["fits"])
        size = next("%dx%d" % (c["width"], c["height"]) for c in found if c["tokens"] == best)
        self.assertIn("largest that fits: --size %s " % size, lines[-1])
        self.assertIn("nothing fits", self.fovea(RANDOM, "--advise", "--budget", "1us").stdout)

    def test_what_is_refused(self):
        for text in ("30", "ms", "-1ms", "nanms", "infs", "30ms,200", "1e999s", "0ms"):
            self.assertIn("--budget", self.fovea(RANDOM, "--advise", "--budget", text, code=1).stderr)
        self.assertIn("only for --advise", self.fovea(RANDOM, "--budget", "1s", code=1).stderr)
        self.assertIn("reads sequences", self.fovea("synthetic:gla-340m", "--advise", code=2).stderr)
        self.assertIn("none of these can be planned", self.fovea(RANDOM, "--advise", "--attention", "gla",
                                                                 code=2).stderr)
        p = self.fovea("synthetic:rf-detr-n", "--advise", "--size", "64,384")
        self.assertIn("cannot be planned and are left out", p.stderr)


if __name__ == "__main__":
    EXE = os.path.abspath(sys.argv.pop(1))
    counted.main()
