"""changed_model.py: copies of golden models with other fields and tensors, for tests of what a reader refuses."""
import json
import os
import shutil
import subprocess
import tempfile
import unittest

import numpy as np

from test_eomt import FOVEA, load, save

GOLDEN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data", "golden", "models")


class ChangedModel(unittest.TestCase):
    golden = None  # the model that is copied unless a test names another
    size = (35, 28)  # of the pictures

    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)

    def model(self, name=None, backbone=None, without=(), more=None, rename=lambda name: name, **fields):
        """Copies a golden model with other fields, also of the section backbone_config, and tensors. A field that is
        None is left out."""
        source = os.path.join(GOLDEN, name or self.golden)
        with open(os.path.join(source, "config.json"), encoding="utf-8") as f:
            config = json.load(f)
        config.update(fields)
        if backbone:
            config["backbone_config"].update(backbone)
        weights = {rename(n): t for n, t in load(os.path.join(source, "model.safetensors")).items()
                   if t.dtype != np.int64 and not any(part in n for part in without)}
        weights.update(more or {})
        with open(os.path.join(self.folder, "config.json"), "w", encoding="utf-8") as f:
            json.dump({k: v for k, v in config.items() if v is not None}, f)
        save(os.path.join(self.folder, "model.safetensors"), weights)

    def run_model(self, picture=None, *options):
        """The process, and its outputs unless it failed."""
        given, out = os.path.join(self.folder, "in.safetensors"), os.path.join(self.folder, "out.safetensors")
        if picture is None:
            picture = np.random.default_rng(5).normal(0, 1, (1, 3, *self.size))
        save(given, {"input": picture})
        done = subprocess.run([FOVEA, "run", self.folder, given, "-o", out, "--compute", "f32", *options],
                              capture_output=True, text=True, check=False)
        return done, load(out) if done.returncode == 0 else None

    def refused(self, *texts):
        """The model must be refused with a message that has all texts."""
        done, _ = self.run_model()
        self.assertIn(done.returncode, (2, 3, 5, 6, 7), done.stderr)
        for text in texts:
            self.assertIn(text, done.stderr)
