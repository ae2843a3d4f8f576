#!/usr/bin/env python3
"""test_sam.py: SAM: refused configurations, other attentions and sizes; masks of points and boxes.

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

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

import run_lengths

MODELS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data", "golden", "models")
GOLDEN, WHOLE, SECOND = (os.path.join(MODELS, name) for name in ("timm-samvit-01", "sam-01", "sam2-01"))
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


class Prompts(unittest.TestCase):
    """test_prompts.c compares masks with those of transformers."""

    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)
        self.picture = os.path.join(self.folder, "picture.ppm")
        with open(self.picture, "wb") as f:
            f.write(b"P6 60 90 255\n" + bytes(i * 37 % 251 for i in range(180 * 90)))

    def run_model(self, *options, model=WHOLE, expect=0):
        p = subprocess.run([FOVEA, "run", model, self.picture, *options], capture_output=True, text=True)
        self.assertEqual(p.returncode, expect, p.stderr)
        return p.stderr if expect else p.stdout

    def masks(self, *options, model=WHOLE):
        return json.loads(self.run_model("--json", *options, model=model))["masks"]

    def test_objects(self):
        """Each object has the mask that it has alone."""
        for model in (WHOLE, SECOND):
            self.check_objects(model)

    def check_objects(self, model):
        marks = [["--point", "30,20"], ["--box", "5,5,40,60"], ["--box", "1,2,30,40", "--point", "9,9,0"],
                 ["--point", "9,9,1", "--point", "50,80,0", "--point", "3.5,4.25"]]
        alone = [self.masks(*options, model=model)[0] for options in marks]
        together = self.masks("--box", "5,5,40,60", "--box", "1,2,30,40", "--point", "30,20,1,3",
                              "--point", "9,9,0,2", "--point", "9,9,1,4", "--point", "50,80,0,4", "--point", "3.5,4.25,1,4",
                              model=model)
        self.assertEqual([m["object"] for m in together], [1, 2, 3, 4])
        for got, want in zip(together, (alone[1], alone[2], alone[0], alone[3])):
            self.assertEqual(dict(got, object=1), want)

    def test_files(self):
        coco, numbers, overlay = (os.path.join(self.folder, name) for name in ("m.json", "m.png", "o.png"))
        marks = ["--box", "5,5,40,60", "--point", "30,20,1,2"]
        self.run_model(*marks, "--masks", coco, "--overlay", overlay)
        with open(coco, encoding="utf-8") as f:
            records = json.load(f)
        self.assertEqual([m["object"] for m in records], [1, 2])
        for m in records:
            self.assertEqual(sum(run_lengths.unpacked(m["segmentation"]["counts"])[1::2]), m["area"])
        self.run_model(*marks, "--masks", numbers)
        for path in (numbers, overlay):
            self.assertTrue(os.path.getsize(path))
        high = max(m["score"] for m in records)
        self.assertLess(len(self.masks(*marks, "--score", str(min(1, high)))), 3)

    def test_wrong_marks(self):
        for mark in ("1", "1,", "1,2,2", "1,2,1,0", "1,2,1,256", "1,2,1,1,1", "x,2", "1,2 "):
            self.assertIn("--point", self.run_model("--point", mark, expect=1))
        for mark in ("1,2,3", "1,2,0,4", "1,2,3,-4"):
            self.assertIn("--box", self.run_model("--box", mark, expect=1))
        self.assertIn("object 1 has neither", self.run_model("--point", "1,2,1,2", expect=1))
        self.assertIn("--point X,Y", self.run_model("--masks", os.path.join(self.folder, "m.png"), expect=1))
        self.assertIn("prompts", self.run_model("--point", "1,2", model=GOLDEN, expect=2))
        self.assertIn("prompts", self.run_model("--point", "1,2", model="synthetic:vit-ti16", expect=2))

    def check_refused(self, whole, *changes):
        with open(os.path.join(whole, "config.json"), encoding="utf-8") as f:
            config = json.load(f)
        model = os.path.join(self.folder, "model")
        shutil.copytree(whole, model)
        for path, field, value, says in changes:
            changed = json.loads(json.dumps(config))
            section = changed
            for name in path.split("."):
                section = section[name]
            section[field] = value
            with open(os.path.join(model, "config.json"), "w", encoding="utf-8") as f:
                json.dump(changed, f)
            self.assertIn(says, self.run_model("--point", "1,2", model=model, expect=7))

    def test_refused_decoders(self):
        self.check_refused(WHOLE, *(
                ("mask_decoder_config", "num_attention_heads", 5, "5 heads must divide"),
                ("mask_decoder_config", "num_attention_heads", 0, "num_attention_heads"),
                ("mask_decoder_config", "hidden_act", "tanh", "hidden_act"),
                ("mask_decoder_config", "hidden_size", 64, '"hidden_size" is 64'),
                ("mask_decoder_config", "mlp_dim", 7, '"mlp_dim" is 7'),
                ("mask_decoder_config", "num_hidden_layers", 3, '"num_hidden_layers" is 3'),
                ("mask_decoder_config", "num_multimask_outputs", 4, '"num_multimask_outputs" is 4'),
                ("mask_decoder_config", "iou_head_depth", 4, '"iou_head_depth" is 4'),
                ("mask_decoder_config", "layer_norm_eps", -1, "layer_norm_eps"),
                ("mask_decoder_config", "use_high_resolution", True, "use_high_resolution"),
                ("prompt_encoder_config", "num_point_embeddings", 3, '"num_point_embeddings" is 3'),
                ("prompt_encoder_config", "memory", 3, "memory")))

    def test_refused_encoders_of_sam2(self):
        backbone = "vision_config.backbone_config"
        self.check_refused(SECOND, *(
            (backbone, "embed_dim_per_stage", [8, 16, 24], "embed_dim_per_stage"),
            (backbone, "embed_dim_per_stage", [8, 16, 36, 32], "blocks.3.attn.qkv.weight"),
            (backbone, "num_attention_heads_per_stage", [1, 3, 3, 4], "3 heads do not divide"),
            (backbone, "blocks_per_stage", [1, 2, 2, 0], "blocks_per_stage[3]"),
            (backbone, "blocks_per_stage", [1, 2, 3, 1], "blocks.5."),
            (backbone, "blocks_per_stage", [1, 2, 1, 1], "queries are pooled"),
            (backbone, "window_size_per_stage", [4, 5, 2, 3], "must be even"),
            (backbone, "window_size_per_stage", [6, 6, 2, 3], "pos_embed_window"),
            (backbone, "window_size_per_stage", "4", "window_size_per_stage"),
            (backbone, "window_positional_embedding_background_size", [3, 3], "pos_embed"),
            (backbone, "global_attention_blocks", [3], "queries are pooled"),
            (backbone, "global_attention_blocks", [-1], "global_attention_blocks[0]"),
            (backbone, "query_stride", [2, 3], '"query_stride" is 3'),
            (backbone, "num_query_pool_stages", 2, '"num_query_pool_stages" is 2'),
            (backbone, "patch_kernel_size", [5, 5], '"patch_kernel_size" is 5'),
            (backbone, "patch_stride", 2, '"patch_stride" is 2'),
            (backbone, "mlp_ratio", 3, "mlp.proj_in.weight"),
            (backbone, "mlp_ratio", 1e9, "mlp_ratio"),
            (backbone, "hidden_act", "relu", "gelu"),
            (backbone, "rope", True, "rope"),
            ("vision_config", "fpn_hidden_size", 64, '"fpn_hidden_size" is 64'),
            ("vision_config", "fpn_kernel_size", 3, '"fpn_kernel_size" is 3'),
            ("vision_config", "fpn_top_down_levels", [1, 2], "fpn_top_down_levels"),
            ("vision_config", "num_feature_levels", 2, '"num_feature_levels" is 2'),
            ("mask_decoder_config", "dynamic_multimask_stability_thresh", 2, "dynamic_multimask_stability_thresh"),
            ("mask_decoder_config", "num_hidden_layers", 3, '"num_hidden_layers" is 3')))

    def test_sizes_of_sam2(self):
        """Pixels that do not fill 32 are left out."""
        for size in ("32", "96x64", "160x288", "75x101"):
            self.assertEqual(len(json.loads(self.run_model("--point", "9,9", "--size", size, "--json", model=SECOND))["masks"]), 1)
        self.assertIn("at least 32 x 32", self.run_model("--point", "9,9", "--size", "80x31", model=SECOND, expect=7))
        for attention in ("linear:elu1", "mala", "foveated"):
            self.run_model("--point", "9,9", "--attention", attention, model=SECOND)
        self.assertIn("without the prefix sla-", self.run_model("--point", "9,9", "--attention", "sla-linear", model=SECOND, expect=2))


if __name__ == "__main__":
    result = unittest.main(exit=False).result
    bad = len(result.failures) + len(result.errors)
    print("%d passed, %d failed, %d skipped" % (result.testsRun - bad - len(result.skipped), bad, len(result.skipped)))
    sys.exit(bad > 0)
