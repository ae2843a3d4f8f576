#!/usr/bin/env python3
"""test_scores.py: class scores by "problem_type", and class names of any kind.

    test_scores.py path/to/fovea

The expected scores are computed from the program's own logits, as in transformers' image-classification pipeline.
"""
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.join(HERE, ".."))
sys.path.append(os.path.join(HERE, "..", "models"))
import counted
import test_heads as files

MODEL = os.path.join(HERE, "..", "data", "golden", "models", "vit-01")
FOVEA = os.path.abspath(sys.argv.pop(1))


def softmax(logits):
    top = max(logits)
    shares = [math.exp(x - top) for x in logits]
    return [s / sum(shares) for s in shares]


class Scores(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)

    def run_model(self, expect=0, classes=10, **fields):
        """Runs vit-01 with changed fields on one picture. Returns the JSON object and the logits, or messages."""
        model, out = os.path.join(self.folder, "model"), os.path.join(self.folder, "o.safetensors")
        shutil.copytree(MODEL, model, dirs_exist_ok=True)
        tensors = files.load(os.path.join(MODEL, "model.safetensors"))
        for name in ("classifier.weight", "classifier.bias"):
            shape, values = tensors[name]
            tensors[name] = [classes, *shape[1:]], values[:classes * len(values) // shape[0]]
        files.save(os.path.join(model, "model.safetensors"), tensors)
        with open(os.path.join(model, "config.json")) as f:
            config = json.load(f)
        config.pop("label2id")
        config.update(fields)
        with open(os.path.join(model, "config.json"), "w") as f:
            json.dump(config, f)
        p = subprocess.run([FOVEA, "run", model, os.path.join(model, "io.safetensors"), "--json", "--top", "20", "-o", out],
                           capture_output=True, text=True)
        self.assertEqual(p.returncode, expect, p.stderr)
        if expect:
            return p.stderr
        return json.loads(p.stdout.splitlines()[0]), files.load(out)["logits"][1][:classes].tolist()

    def check(self, kind, function, **fields):
        said, logits = self.run_model(**fields)
        want = sorted(((x, -i) for i, x in enumerate(function(logits))), reverse=True)
        self.assertEqual(said["scores"], kind)
        self.assertEqual([t["class"] for t in said["top"]], [-i for _, i in want])
        for t, (score, _) in zip(said["top"], want):
            self.assertAlmostEqual(t["p"], score, delta=1e-6 * max(1, abs(score)))

    def test_kinds(self):
        def sigmoid(logits):
            return [1 / (1 + math.exp(-x)) for x in logits]
        self.check("softmax", softmax)
        self.check("softmax", softmax, problem_type=None)
        self.check("softmax", softmax, problem_type="single_label_classification")
        self.check("sigmoid", sigmoid, problem_type="multi_label_classification")
        self.check("values", list, problem_type="regression")
        self.check("sigmoid", sigmoid, classes=1, id2label={"0": "a"})
        self.check("values", list, classes=1, id2label={"0": "a"}, problem_type="regression")
        self.assertIn("problem_type", self.run_model(7, problem_type="ranking"))

    def names(self, labels):
        said, _ = self.run_model(id2label=labels)
        named = {t["class"]: t["label"] for t in said["top"]}
        return [named[i] for i in range(10)]

    def test_names(self):
        def texts(values):
            return {str(i): v for i, v in enumerate(values)}
        words = list("abcdefghij")
        self.assertEqual(self.names(texts(words)), words)
        self.assertEqual(self.names(dict(reversed(texts(words).items()))), words)
        self.assertEqual(self.names(words), words)
        self.assertEqual(self.names(dict(texts(words), **{"10": "k", "4000000000": "l", "-1": "m"})), words)
        self.assertEqual(self.names(texts(words[:4])), words[:4] + [""] * 6)
        self.assertEqual(self.names({"7": "h"}), [""] * 7 + ["h", "", ""])
        self.assertEqual(self.names({"03": "d"}), ["", "", "", "d"] + [""] * 6)
        self.assertEqual(self.names(texts([0, 10, -2, 0.5, 1e3, True, None, ["x", 1], {"y": "z"}, "\u00e9"])),
                         ["0", "10", "-2", "0.5", "1000.0", "true", "", '["x",1]', '{"y":"z"}', "\u00e9"])
        self.assertIn('"cat"', self.run_model(7, id2label={"cat": 0}))
        self.assertIn("id2label", self.run_model(7, id2label="cats"))


if __name__ == "__main__":
    counted.main()
