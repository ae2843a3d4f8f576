#!/usr/bin/env python3
"""test_swin.py: Swin: other sizes and schedules, names of tensors, and refused configurations.

    test_swin.py path/to/fovea

Results of whole models are in tests/data/golden.
"""
import unittest

import numpy as np

from changed_model import ChangedModel

BLOCK, TABLE = "swin.encoder.layers.1.blocks.2.", "attention.self.relative_position_bias_table"


class Swin(ChangedModel):
    golden = "swin-01"

    def test_sizes(self):
        """Pictures of any size, also smaller than a patch, a window or a grid that merges."""
        for name in ("swin-01", "swin-02"):
            self.model(name)
            patch = 4 if name == "swin-01" else 2
            for height, width in ((1, 1), (3, 9), (12, 5), (70, 49), (96, 97)):
                with self.subTest(name=name, height=height, width=width):
                    picture = np.random.default_rng(1).normal(0, 1, (1, 3, height, width))
                    done, found = self.run_model(picture, "--hidden", "--schedule", "stepwise")
                    self.assertEqual(done.returncode, 0, done.stderr)
                    self.assertEqual(found["feat.patch_embed"].shape[1], -(-height // patch) * -(-width // patch))
                    _, other = self.run_model(picture, "--hidden", "--schedule", "streamed")
                    for key, want in found.items():
                        np.testing.assert_array_equal(other[key], want)

    def test_pictures_are_padded_with_zeros(self):
        """A picture equals the same picture with zeros up to whole patches."""
        self.model()
        picture = np.random.default_rng(2).normal(0, 1, (1, 3, 22, 31))
        wide = np.pad(picture, ((0, 0), (0, 0), (0, 2), (0, 1)))
        np.testing.assert_array_equal(self.run_model(picture)[1]["logits"], self.run_model(wide)[1]["logits"])

    def test_names(self):
        """Prefixes, and names that transformers' modules have."""
        self.model()
        _, want = self.run_model()
        new = (("attention.self.query", "attention.q_proj"), ("attention.self.key", "attention.k_proj"),
               ("attention.self.value", "attention.v_proj"), ("attention.output.dense", "attention.o_proj"),
               (TABLE, "attention.relative_position_bias.relative_position_bias_table"),
               ("intermediate.dense", "mlp.fc1"), ("output.dense", "mlp.fc2"))

        def renamed(name):
            for old, now in new:
                name = name.replace(old, now)
            return name

        for rename in (renamed, lambda name: name.replace("swin.", ""), lambda name: "model." + name,
                       lambda name: "module." + renamed(name)):
            self.model(rename=rename)
            done, found = self.run_model()
            self.assertEqual(done.returncode, 0, done.stderr)
            np.testing.assert_array_equal(found["logits"], want["logits"])

    def test_absent_fields(self):
        """Fields that equal defaults, or that the tensors determine, may be absent."""
        self.model()
        _, want = self.run_model()
        self.model(depths=None, num_heads=None, embed_dim=None, window_size=None, mlp_ratio=None, patch_size=None,
                   qkv_bias=None, hidden_act=None, use_absolute_embeddings=None, image_size=None)
        _, found = self.run_model()
        np.testing.assert_array_equal(found["logits"], want["logits"])

    def test_parts_of_the_whole(self):
        """Without a head, the main output is the last norm. Weights that are used only in training are left out."""
        self.model(without=("classifier",), more={"swin.embeddings.mask_token": np.ones((1, 1, 8))})
        done, found = self.run_model()
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("feat.norm", found)
        mean = found["feat.norm"].mean(1)
        np.testing.assert_allclose(self.run_model(None, "--hidden")[1]["pooler_output"], mean, rtol=1e-5, atol=1e-5)

    def test_attentions(self):
        self.model()
        self.assertEqual(self.run_model(None, "--attention", "softmax")[0].returncode, 0)
        done, _ = self.run_model(None, "--attention", "linear")
        self.assertIn("use softmax", done.stderr)

    def test_refused_values(self):
        huge = 2 ** 40
        for name, values in {
                "depths": ([2, 3], [2, 3, 3], [2, 3, 2, 1], [], "x", [2, 3, 0], 3),
                "num_heads": ([1, 2], [1, 2, 8], "x"), "embed_dim": (16, 0, -8, huge),
                "window_size": (4, 0, huge), "patch_size": (2, huge),
                "qkv_bias": (False, "x"), "hidden_act": ("relu", "tanh"), "use_absolute_embeddings": (True,),
                "layer_norm_eps": ("x", -1), "num_channels": (1, 4), "path_norm": (False,), "some_field": (1,),
                "image_size": ("x", 0, huge)}.items():
            for value in values:
                with self.subTest(name=name, value=value):
                    self.model(**{name: value})
                    self.refused("position_embeddings" if name == "use_absolute_embeddings" else
                                 "bias" if value is False and name == "qkv_bias" else name)

    def test_refused_tensors(self):
        for part in ("embeddings.patch_embeddings.projection.bias", "embeddings.norm.weight",
                     "encoder.layers.0.downsample.norm.bias", "encoder.layers.1.downsample.reduction.weight",
                     "layers.1.blocks.2.attention.self.value.weight", "layers.1.blocks.2.layernorm_before.bias",
                     "layers.0.blocks.1." + TABLE, "layers.2.blocks.0.output.dense.bias", "swin.layernorm.weight",
                     "classifier.bias"):
            with self.subTest(without=part):
                self.model(without=(part,))
                self.refused(part)
        for name, tensor in ((BLOCK + TABLE, np.ones((24, 2))), (BLOCK + TABLE, np.ones((9, 2))),
                             (BLOCK + TABLE, np.ones((25, 4))), (BLOCK + TABLE, np.ones((127 * 127 + 1, 2))),
                             (BLOCK + "attention.self.query.weight", np.ones((16, 8))),
                             ("swin.other.weight", np.ones((2, 2)))):
            with self.subTest(tensor=name, shape=tensor.shape):
                self.model(more={name: tensor})
                self.refused(name)
        tables = {"swin.encoder.layers.1.blocks.%d.%s" % (i, TABLE): np.ones((127 * 127, 16)) for i in range(3)}
        self.model(more=tables, window_size=None, num_heads=None)  # 3 times 1 GiB of biases
        self.refused("2.0 GiB", "64 x 64")
        self.model("swin-02", more={"swin.embeddings.position_embeddings": np.ones((1, 250, 12))})
        self.refused("square")
        self.model(model_type="swinv2")
        self.refused("names of a swin")


if __name__ == "__main__":
    unittest.main(verbosity=0)
