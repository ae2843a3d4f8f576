#!/usr/bin/env python3
"""test_mask2former.py: Mask2Former: other sizes and attentions, masks of a photograph, and refused configurations.

    test_mask2former.py path/to/fovea

Results of the whole model are in tests/data/golden, those of the rules for masks in test_results_data.py.
"""
import json
import os
import subprocess
import unittest

import numpy as np

from changed_model import ChangedModel, GOLDEN
from test_eomt import FOVEA, load

PYRAMIDS = ("mask2former-swin-01", "mask2former-mavit-01", "mask2former-pola-swin-01")
PIXELS, QUERIES = "model.pixel_level_module.decoder.", "model.transformer_module."


class Mask2Former(ChangedModel):
    golden = "mask2former-01"

    def test_sizes(self):
        self.model()
        rng = np.random.default_rng(1)
        for height, width in ((7, 7), (21, 77), (70, 49)):
            with self.subTest(height=height, width=width):
                done, found = self.run_model(rng.normal(0, 1, (1, 3, height, width)))
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertEqual(found["masks_queries_logits"].shape, (1, 6, height // 7, width // 7))
                self.assertEqual(found["class_queries_logits"].shape, (1, 6, 6))

    def test_sizes_of_pyramids(self):
        """Masks have the grid of the finest stage, whatever the sizes of the others are."""
        for name in PYRAMIDS:
            self.model(name)
            for height, width in ((33, 47), (70, 130), (4, 9)):
                with self.subTest(name=name, height=height, width=width):
                    picture = np.random.default_rng(1).normal(0, 1, (1, 3, height, width))
                    whole = name == "mask2former-pola-swin-01"  # pixels outside of whole patches are ignored
                    grid = (height // 4, width // 4) if whole else (-(-height // 4), -(-width // 4))
                    done, found = self.run_model(picture)
                    self.assertEqual(done.returncode, 0, done.stderr)
                    self.assertEqual(found["masks_queries_logits"].shape, (1, 6, *grid))
                    self.assertTrue(np.isfinite(found["masks_queries_logits"]).all())

    def test_schedules(self):
        for model in ("mask2former-02", *PYRAMIDS):
            self.model(model)
            _, one = self.run_model(None, "--threads", "1", "--schedule", "stepwise")
            for options in (("--threads", "2"), ("--schedule", "streamed"), ("--chunk", "16")):
                _, other = self.run_model(None, *options)
                for name, want in one.items():
                    np.testing.assert_allclose(other[name], want, rtol=1e-4, atol=1e-4)

    def test_attentions(self):
        self.model()
        results = []
        for attention in ("softmax", "mala", "linear:elu1", "pola", "nala", "mala+foveated@0-1"):
            with self.subTest(attention=attention):
                done, found = self.run_model(None, "--attention", attention)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertTrue(np.isfinite(found["masks_queries_logits"]).all())
                results.append(found["masks_queries_logits"])
        for k, other in enumerate(results[1:]):
            self.assertGreater(np.abs(other - results[0]).max(), 1e-3, k)

    def test_attentions_of_pyramids(self):
        for name, own, other in (("mask2former-swin-01", "softmax", "mala"), ("mask2former-mavit-01", "mala", "pola"),
                                 ("mask2former-pola-swin-01", "pola", "softmax")):
            self.model(name)
            _, want = self.run_model()
            _, found = self.run_model(None, "--attention", own)
            np.testing.assert_array_equal(found["masks_queries_logits"], want["masks_queries_logits"])
            done, _ = self.run_model(None, "--attention", other)
            self.assertIn("attention " + other, done.stderr)

    def test_stages_of_a_pyramid(self):
        """The stages are outputs too, normalised as the decoders read them."""
        self.model("mask2former-swin-01")
        done, found = self.run_model(None, "--hidden")
        self.assertEqual(done.returncode, 0, done.stderr)
        for stage in range(1, 5):
            self.assertIn("feat.stage%d" % stage, found)

    def test_hidden_outputs_alone(self):
        self.model()
        done, found = self.run_model(None, "--hidden")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("feat.hidden4", found)

    def test_defaults_of_absent_fields(self):
        """Fields that equal transformers' defaults, or that the tensors determine, may be absent."""
        self.model()
        _, want = self.run_model()
        self.model(feature_size=None, mask_feature_size=None, hidden_dim=None, encoder_layers=None, decoder_layers=None,
                   num_queries=None, feature_strides=None, common_stride=None, pre_norm=None, dim_feedforward=None,
                   activation_function=None, enforce_input_projection=None)
        done, found = self.run_model()
        self.assertEqual(done.returncode, 0, done.stderr)
        np.testing.assert_array_equal(found["masks_queries_logits"], want["masks_queries_logits"])

    def test_empty_masks_see_everything(self):
        """With masks that are negative everywhere, queries attend to all keys; without, the result differs."""
        bias = PIXELS + "mask_projection.bias"
        own = load(os.path.join(GOLDEN, "mask2former-01", "model.safetensors"))
        mask = QUERIES + "decoder.mask_predictor.mask_embedder.2.0."
        results = []
        for size in (0, 1e-3, -1e-3, -1):
            self.model(more={mask + "weight": 0 * own[mask + "weight"],
                             mask + "bias": np.full_like(own[mask + "bias"], size),
                             PIXELS + "mask_projection.weight": 0 * own[PIXELS + "mask_projection.weight"],
                             bias: np.ones_like(own[bias])})
            results.append(self.run_model()[1]["class_queries_logits"])
        for other in results[1:]:  # masks of 0 are not negative
            np.testing.assert_array_equal(other, results[0])

    def test_masks_of_a_photograph(self):
        for name in ("mask2former-01", "mask2former-swin-01"):
            self.model(name)
            self.masks_of_a_photograph()

    def masks_of_a_photograph(self):
        picture, coco = os.path.join(self.folder, "p.ppm"), os.path.join(self.folder, "masks.json")
        with open(picture, "wb") as f:
            f.write(b"P6 40 30 255\n" + np.random.default_rng(3).integers(0, 256, 3600).astype(np.uint8).tobytes())
        for rule in ("panoptic", "instance"):
            subprocess.run([FOVEA, "run", self.folder, picture, "--masks", coco, "--mask-rule", rule, "--score", "0.05",
                            "--size", "56x42"], check=True, capture_output=True)
            with open(coco, encoding="utf-8") as f:
                self.assertIsInstance(json.load(f), list)
        done = subprocess.run([FOVEA, "run", self.folder, picture, "--score", "0.99"], check=True, capture_output=True,
                              text=True)
        self.assertIn("no mask", done.stdout)

    def test_refused_values(self):
        huge = 2 ** 40
        for name, values in {
                "num_attention_heads": (0, -1, huge, 5, 2.5, "x"), "common_stride": (0, 3, 64, -4, huge),
                "feature_strides": ([], [4, 8, 0], "x", [4, 8, 16, -32], [3, 5, 7]), "num_queries": (5, huge, -1),
                "feature_size": (64, 0, -32), "hidden_dim": (32, huge), "mask_feature_size": (256, -1),
                "encoder_layers": (0, 1, 7), "decoder_layers": (1, 3, huge), "dim_feedforward": (1, -1),
                "encoder_feedforward_dim": (3,), "activation_function": ("tanh", 3), "pre_norm": (2, "x"),
                "backbone_config": ("x", []), "some_field": (1,), "use_timm_backbone": (True,)}.items():
            for value in values:
                with self.subTest(name=name, value=value):
                    self.model()
                    path = os.path.join(self.folder, "config.json")
                    with open(path, encoding="utf-8") as f:
                        config = json.load(f)
                    config[name] = value
                    with open(path, "w", encoding="utf-8") as f:
                        json.dump(config, f)
                    self.refused(name)

    def test_refused_backbones(self):
        for fields, texts in (({"model_type": "deit"}, ("backbone_config.model_type", "deit", "dinov2")),
                              ({"model_type": None}, ("backbone_config.model_type",)),
                              ({"reshape_hidden_states": False}, ("reshape_hidden_states", "true")),
                              ({"out_features": ["stage1", "stage2"], "out_indices": [1, 2]}, ("2 stages", "3")),
                              ({"out_indices": [1, 2, 3, 9]}, ("out_indices",))):
            with self.subTest(**fields):
                self.model(backbone=fields)
                self.refused(*texts)

    def test_refused_pyramids(self):
        absent = {"out_features": None, "out_indices": None}
        for name, fields, texts in (
                ("swin", dict(absent), ("1 stages", "3")), ("mavit", dict(absent), ("1 stages", "3")),
                ("swin", dict(absent, out_features=["stem", "stage1", "stage2", "stage3"]), ("out_features", "stem")),
                ("swin", dict(absent, out_indices=[0, 1, 2, 3]), ("out_indices", "stem")),
                ("swin", dict(absent, out_features=["stage1", "stage2", "stage3", "stage5"]), ("out_features",)),
                ("swin", dict(absent, out_features=["stage2", "stage1", "stage3"]), ("ascend",)),
                ("swin", dict(absent, out_features=["stage2", "stage3", "stage4"]), ("input_projections", "adapter_1")),
                ("swin", {"window_size": 4}, ("window_size",)), ("mavit", {"embed_dims": [8, 12, 24]}, ("shape",)),
                ("swin", {"some_field": 1}, ("some_field",)), ("mavit", {"some_field": 1}, ("some_field",)),
                ("pola-swin", {"neck": {}, "some_field": 1}, ("some_field",))):
            with self.subTest(name=name, **fields):
                self.model("mask2former-%s-01" % name, backbone=fields)
                done, _ = self.run_model()
                self.assertIn(done.returncode, (2, 3, 5, 6, 7), done.stderr)
                self.assertTrue(any(text in done.stderr for text in texts), done.stderr)
        self.model("mask2former-swin-01", model_type="maskformer")
        self.refused("maskformer", "swin", "mask2former")
        self.model("mask2former-swin-01", model_type=None)
        self.refused("model_type")
        self.model("mask2former-mavit-01", some_field=1)
        self.refused("some_field")
        for name in ("encoder.hidden_states_norms.stage2.bias", "decoder.input_projections.2.0.weight"):
            self.model("mask2former-swin-01", without=(name,))
            self.refused(name.replace("encoder.hidden", "hidden"))
        self.model("mask2former-mavit-01", more={"model.other.weight": np.ones((2, 2))})
        self.refused("model.other.weight")

    def test_refused_tensors(self):
        for without in (PIXELS + "adapter_1.0.weight", PIXELS + "layer_1.1.bias", PIXELS + "level_embed",
                        PIXELS + "encoder.layers.1.fc2.bias", PIXELS + "mask_projection.weight",
                        QUERIES + "decoder.layers.0.cross_attn.in_proj_bias", QUERIES + "queries_embedder.weight",
                        QUERIES + "input_projections.2.weight", QUERIES + "level_embed.weight",
                        QUERIES + "decoder.layernorm.weight", "class_predictor.bias"):
            with self.subTest(without=without):
                self.model(without=(without,))
                self.refused(without)
        self.model(more={QUERIES + "other.weight": np.ones((2, 2))})
        self.refused(QUERIES + "other.weight")


if __name__ == "__main__":
    unittest.main(verbosity=0)
