#!/usr/bin/env python3
"""test_upernet.py: transformers' UperNet over a Swin: sizes, schedules, classes of a photograph, and refused
configurations.

    test_upernet.py path/to/fovea

Results of the whole model are in tests/data/golden; test_decoders.py tests the head of mmsegmentation.
"""
import os
import subprocess
import unittest

import numpy as np

from changed_model import ChangedModel
from test_eomt import FOVEA


class UperNet(ChangedModel):
    golden = "upernet-swin-01"

    def test_sizes_and_schedules(self):
        self.model()
        for height, width in ((1, 1), (33, 47), (70, 130)):
            with self.subTest(height=height, width=width):
                picture = np.random.default_rng(1).normal(0, 1, (1, 3, height, width))
                done, found = self.run_model(picture, "--schedule", "stepwise")
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertEqual(found["seg_logits"].shape, (1, 5, -(-height // 4), -(-width // 4)))
                _, other = self.run_model(picture, "--schedule", "streamed", "--threads", "2")
                np.testing.assert_array_equal(other["seg_logits"], found["seg_logits"])

    def test_classes_of_a_photograph(self):
        self.model()
        picture, labels = (os.path.join(self.folder, name) for name in ("p.ppm", "labels.png"))
        with open(picture, "wb") as f:
            f.write(b"P6 40 30 255\n" + np.random.default_rng(3).integers(0, 256, 3600).astype(np.uint8).tobytes())
        subprocess.run([FOVEA, "run", self.folder, picture, "--labels", labels], check=True, capture_output=True)
        self.assertTrue(os.path.getsize(labels))

    def test_auxiliary_head(self):
        """It is used only in training, and may be absent."""
        self.model()
        done, want = self.run_model()
        self.assertIn("auxiliary_head", done.stderr)
        self.model(without=("auxiliary_head",), use_auxiliary_head=False)
        done, found = self.run_model()
        self.assertNotIn("auxiliary_head", done.stderr)
        np.testing.assert_array_equal(found["seg_logits"], want["seg_logits"])

    def test_refused(self):
        huge = 2 ** 40
        for name, values in {"hidden_size": (8, 0, -1, huge, "x"),
                             "pool_scales": ([1], [], [1, 0], [1, huge], "x", [1] * 9), "some_field": (1,), "use_timm_backbone": (True,), "backbone_config": ("x", [])}.items():
            for value in values:
                with self.subTest(name=name, value=value):
                    self.model(**{name: value})
                    self.refused("shape" if value in (8, [1]) else name)
        for fields, texts in (({"model_type": "convnext"}, ("upernet",)),
                              ({"out_features": ["stage3"], "out_indices": [3]}, ("out_features", "2")),
                              ({"out_features": ["stage2", "stage3"], "out_indices": [2, 3]}, ("decode_head", "shape")),
                              ({"some_field": 1}, ("some_field",))):
            with self.subTest(**fields):
                self.model(backbone=fields)
                self.refused(*texts)
        for part in ("decode_head.classifier.bias", "decode_head.fpn_bottleneck.conv.weight",
                     "decode_head.lateral_convs.1.batch_norm.running_var", "hidden_states_norms.stage1"):
            with self.subTest(without=part):
                self.model(without=(part,))
                self.refused(part)
        self.model(more={"decode_head.other.weight": np.ones((2, 2))})
        self.refused("decode_head.other.weight")


if __name__ == "__main__":
    unittest.main(verbosity=0)
