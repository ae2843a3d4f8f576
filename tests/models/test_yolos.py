#!/usr/bin/env python3
"""test_yolos.py: YOLOS: its boxes, and what its reader refuses.

    test_yolos.py path/to/fovea

The outputs themselves are golden: test_golden.py.
"""
import json
import math
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import counted

MODELS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data", "golden", "models")
EXE = os.path.abspath(sys.argv.pop(1))


def load(path):
    """{name: (shape, floats)}."""
    with open(path, "rb") as f:
        blob = f.read()
    n = struct.unpack("<Q", blob[:8])[0]
    head = json.loads(blob[8:8 + n])
    head.pop("__metadata__", None)
    out = {}
    for name, t in head.items():
        raw = blob[8 + n + t["data_offsets"][0]:8 + n + t["data_offsets"][1]]
        out[name] = (t["shape"], struct.unpack("<%df" % (len(raw) // 4), raw))
    return out


def expected(out, width, height):
    """Boxes as YolosImageProcessor finds them, by descending score: (score, class, x1, y1, x2, y2)."""
    (_, queries, classes), logits = out["logits"]
    boxes = []
    for q in range(queries):
        row = logits[q * classes:(q + 1) * classes]
        total = sum(math.exp(x) for x in row)
        best = max(range(classes - 1), key=lambda k: row[k])
        x, y, w, h = out["pred_boxes"][1][4 * q:4 * q + 4]
        boxes.append((math.exp(row[best]) / total, best, (x - w / 2) * width, (y - h / 2) * height,
                      (x + w / 2) * width, (y + h / 2) * height))
    return sorted(boxes, reverse=True)


class Yolos(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)

    def changed(self, **fields):
        """A copy of yolos-01 with other fields of its configuration."""
        folder = os.path.join(self.folder, "changed")
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(os.path.join(MODELS, "yolos-01"), folder)
        path = os.path.join(folder, "config.json")
        with open(path, encoding="utf-8") as f:
            config = json.load(f)
        config.update(fields)
        with open(path, "w", encoding="utf-8") as f:
            json.dump(config, f)
        return folder

    def found(self, model, *options):
        out = os.path.join(self.folder, "out.safetensors")
        p = subprocess.run([EXE, "run", model, os.path.join(MODELS, "yolos-01", "io.safetensors"), "--device", "cpu",
                            "--compute", "f32", "-o", out, *options], capture_output=True, text=True, errors="replace")
        self.assertEqual(p.returncode, 0, p.stderr)
        return load(out)

    def test_one_box_per_detection_token(self):
        for options in ((), ("--attention", "linear:elu1"), ("--dtype", "f16")):
            out = self.found(os.path.join(MODELS, "yolos-01"), *options)
            want = expected(out, 28, 32)
            self.assertEqual(len(want), 5)
            self.assertEqual(out["detections.scores"][0], [5])
            for i, box in enumerate(want):
                self.assertAlmostEqual(out["detections.scores"][1][i], box[0], 5)
                self.assertEqual(out["detections.labels"][1][i], box[1])
                for k in range(4):
                    self.assertAlmostEqual(out["detections.boxes"][1][4 * i + k], box[2 + k], 3)

    def test_limits(self):
        want = expected(self.found(os.path.join(MODELS, "yolos-01")), 28, 32)
        some = self.found(self.changed(fovea={"max_per_img": 2}))
        self.assertEqual(some["detections.scores"][0], [2])
        self.assertAlmostEqual(some["detections.scores"][1][1], want[1][0], 5)
        threshold = (want[2][0] + want[3][0]) / 2
        some = self.found(self.changed(fovea={"score_thr": threshold}))
        self.assertEqual(some["detections.scores"][0], [3])

    def test_what_is_refused(self):
        for fields, says in (({"num_detection_tokens": 4}, "num_detection_tokens"),
                             ({"image_size": [24, 44]}, "image_size"),
                             ({"image_size": [4, 4]}, "image_size"),
                             ({"num_hidden_layers": 3}, "encoder.layer.2."),
                             ({"num_attention_heads": 3}, "3 heads"),
                             ({"fovea": {"max_per_img": 6}}, "max_per_img"),
                             ({"use_mid_position_embeddings": "x"}, "use_mid_position_embeddings"),
                             ({"use_mid_position_embeddings": False}, "mid_position_embeddings"),
                             ({"unknown_field": 1}, "unknown_field")):
            p = subprocess.run([EXE, "plan", self.changed(**fields)], capture_output=True, text=True, errors="replace")
            self.assertEqual(p.returncode, 7, (fields, p.stderr))
            self.assertIn(says, p.stderr, fields)


if __name__ == "__main__":
    counted.main()
