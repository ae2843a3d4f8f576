#!/usr/bin/env python3
"""test_dpt.py: DPT for depth: refused configurations, other sizes, and the depth of pictures.

    test_dpt.py path/to/fovea

Standard library only.
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

MODELS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data", "golden", "models")
DINOV2, OWN = "dpt-01", "dpt-02"
FOVEA = os.path.abspath(sys.argv.pop(1)) if len(sys.argv) > 1 else "fovea"


class Dpt(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)

    def plan(self, model, *options, backbone=None, **fields):
        """Plans a golden model with changed fields of config.json."""
        with open(os.path.join(MODELS, model, "config.json"), encoding="utf-8") as f:
            config = dict(json.load(f), **fields)
        if backbone:
            config["backbone_config"] = dict(config["backbone_config"], **backbone)
        shutil.copy(os.path.join(MODELS, model, "model.safetensors"), self.folder)
        with open(os.path.join(self.folder, "config.json"), "w", encoding="utf-8") as f:
            json.dump(config, f)
        return subprocess.run([FOVEA, "plan", self.folder, *options], capture_output=True, text=True)

    def refused(self, model, *says, **changes):
        p = self.plan(model, **changes)
        self.assertEqual(p.returncode, 7, p.stdout + p.stderr)
        for text in says:
            self.assertIn(text, p.stderr)

    def test_refused(self):
        for model in (DINOV2, OWN):
            self.refused(model, "DPTForSemanticSegmentation", architectures=["DPTForSemanticSegmentation"])
            self.refused(model, '"is_hybrid"', is_hybrid=True)
            self.refused(model, '"use_batch_norm_in_fusion_residual"', use_batch_norm_in_fusion_residual=True)
            self.refused(model, '"readout_type" must be', readout_type="sum")
            self.refused(model, '"readout_type" must be', readout_type=1)
            self.refused(model, "head.projection.weight", add_projection=True)
            self.refused(model, '"head_in_index" is not -1', head_in_index=0)
            self.refused(model, '"neck_hidden_sizes" is 5', neck_hidden_sizes=[4, 5, 8, 10])
            self.refused(model, '"reassemble_factors[3]" must be', reassemble_factors=[4, 2, 1, float("nan")])
            self.refused(model, '"fusion_hidden_size" is 13', fusion_hidden_size=13)
            self.refused(model, '"levels" is not known', levels=4)
        self.refused(DINOV2, '"hidden_act" is "relu"', hidden_act="relu")
        self.refused(DINOV2, "swinv2", backbone={"model_type": "swinv2"})
        self.refused(DINOV2, '"backbone_config.out_indices" has 3 stages',
                     backbone={"out_indices": [1, 2, 3], "out_features": None})
        self.refused(OWN, "readout_projects.0.0.weight", readout_type="project")
        for value in (None, [], [0, 1, 2, 4], [0, 1, 3, 2], [0, 1, 2, -1], [0, 1, 2, 1 << 40], "3", [0.5]):
            self.refused(OWN, '"backbone_out_indices', backbone_out_indices=value)

    def test_readouts(self):
        """Weights of a readout must be read."""
        self.refused(DINOV2, "readout_projects", readout_type="ignore")
        for model, readout in ((OWN, "ignore"), (OWN, "add"), (DINOV2, "project")):
            p = self.plan(model, readout_type=readout)
            self.assertEqual(p.returncode, 0, p.stderr)

    def test_sizes(self):
        for model, patch in ((DINOV2, 7), (OWN, 8)):
            for wide, high in ((1, 1), (2, 5), (9, 4)):
                p = self.plan(model, "--size", "%dx%d" % (wide * patch, high * patch))
                self.assertEqual(p.returncode, 0, p.stderr)

    def test_attentions(self):
        """Other attentions, and steps that stream or do not, as they are planned."""
        for model in (DINOV2, OWN):
            for attention in ("linear:elu1", "mala", "softmax"):
                p = self.plan(model, "--attention", attention)
                self.assertEqual(p.returncode, 0, p.stderr)

    def test_depth_of_a_picture(self):
        picture, depth = (os.path.join(self.folder, name) for name in ("picture.ppm", "depth.png"))
        with open(picture, "wb") as f:
            f.write(b"P6 60 90 255\n" + bytes(i * 37 % 251 for i in range(180 * 90)))
        for model in (DINOV2, OWN):
            p = subprocess.run([FOVEA, "run", os.path.join(MODELS, model), picture, "--depth", depth, "--json"],
                               capture_output=True, text=True)
            self.assertEqual(p.returncode, 0, p.stderr)
            self.assertTrue(os.path.exists(depth))


if __name__ == "__main__":
    result = unittest.main(exit=False).result
    bad = len(result.failures) + len(result.errors)
    print("%d passed, %d failed, %d skipped" % (result.testsRun - bad - len(result.skipped), bad, len(result.skipped)))
    sys.exit(bad > 0)
