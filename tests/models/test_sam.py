#!/usr/bin/env python3
"""test_sam.py: SAM's encoder: refused configurations, other attentions and sizes.

    test_sam.py path/to/fovea

Standard library only.
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

GOLDEN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data", "golden", "models", "timm-samvit-01")
FOVEA = os.path.abspath(sys.argv.pop(1)) if len(sys.argv) > 1 else "fovea"


class Sam(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)
        with open(os.path.join(GOLDEN, "config.json"), encoding="utf-8") as f:
            self.config = json.load(f)

    def plan(self, *options, arguments=None, **fields):
        """Runs `fovea plan` on the golden model with changed fields of config.json."""
        config = dict(self.config, **fields)
        config["model_args"] = dict(config["model_args"], **(arguments or {}))
        folder = os.path.join(self.folder, "model")
        os.makedirs(folder, exist_ok=True)
        shutil.copy(os.path.join(GOLDEN, "model.safetensors"), folder)
        with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as f:
            json.dump(config, f)
        return subprocess.run([FOVEA, "plan", folder, *options], capture_output=True, text=True)

    def refused(self, says, **changes):
        p = self.plan(**changes)
        self.assertEqual(p.returncode, 7, p.stdout + p.stderr)
        self.assertIn(says, p.stderr)

    def test_refusals(self):
        self.refused('"model_args.num_heads" must be', arguments={"num_heads": 0})
        self.refused("5 heads do not divide", arguments={"num_heads": 5})
        self.refused('"model_args.window_size" must be', arguments={"window_size": -1})
        self.refused('"model_args.window_size" must be', arguments={"window_size": 1 << 20})
        self.refused('"model_args.window_size" must be', arguments={"window_size": "4"})
        self.refused("attn.rel_pos_h", arguments={"window_size": 5})
        self.refused('"model_args.global_attn_indexes[0]" must be', arguments={"global_attn_indexes": [4096]})
        self.refused('"model_args.global_attn_indexes[1]" must be', arguments={"global_attn_indexes": [1, -1]})
        self.refused('"model_args.global_attn_indexes[0]" must be', arguments={"global_attn_indexes": ["2"]})
        self.refused('"model_args.global_attn_indexes" must be', arguments={"global_attn_indexes": "2"})
        self.refused('"embed_dim" is 96', arguments={"embed_dim": 96})
        self.refused('"depth" is 12', arguments={"depth": 12})
        self.refused('"in_chans" is 1', arguments={"in_chans": 1})
        self.refused('"model_args.use_rope" is not known', arguments={"use_rope": True})
        self.refused('"model_args.qk_norm" is not known', arguments={"qk_norm": True})

    def test_processor(self):
        """A picture is padded to a square, as in transformers, unless config.json has timm's rule."""
        self.config.pop("pretrained_cfg", None)
        with open(os.path.join(self.folder, "preprocessor_config.json"), "w", encoding="utf-8") as f:
            json.dump({"image_processor_type": "SamImageProcessor", "size": {"longest_edge": 96}, "do_pad": True,
                       "pad_size": {"height": 96, "width": 96}, "resample": 2}, f)
        self.plan()
        shutil.move(os.path.join(self.folder, "preprocessor_config.json"), os.path.join(self.folder, "model"))
        picture = os.path.join(self.folder, "picture.ppm")
        with open(picture, "wb") as f:
            f.write(b"P6 40 90 255\n" + bytes(range(240)) * 45)
        p = subprocess.run([FOVEA, "run", os.path.join(self.folder, "model"), picture], capture_output=True, text=True)
        self.assertEqual(p.returncode, 0, p.stderr)
        self.assertIn("40x90 seen as 96x96, 36 tokens", p.stderr)

    def test_attention(self):
        for attention in ("linear:elu1", "mala", "foveated"):
            p = self.plan("--attention", attention, "--size", "160x112")
            self.assertEqual(p.returncode, 0, p.stderr)
            self.assertRegex(p.stdout, "block 0-1 relative positions +x 2")  # blocks with windows
            self.assertNotRegex(p.stdout, "block 2 relative positions")
        p = self.plan("--attention", "sla-linear")
        self.assertEqual(p.returncode, 2, p.stderr)
        self.assertIn("without the prefix sla-", p.stderr)


if __name__ == "__main__":
    result = unittest.main(exit=False).result
    bad = len(result.failures) + len(result.errors)
    print("%d passed, %d failed, %d skipped" % (result.testsRun - bad - len(result.skipped), bad, len(result.skipped)))
    sys.exit(bad > 0)
