#!/usr/bin/env python3
"""test_dense.py: Depth Anything and ViTPose: refused configurations, other sizes and attentions, and the effect
of their options. The golden cases test their results.

    test_dense.py path/to/fovea

Standard library only.
"""
import array
import copy
import json
import math
import os
import random
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

FOVEA = os.path.abspath(sys.argv.pop(1)) if len(sys.argv) > 1 else "fovea"
WIDTH, HEADS, PATCH, SIDE, FUSION, HEAD, POINTS = 8, 2, 4, 16, 6, 5, 3
CHANNELS = (4, 5, 6, 7)


def write(path, tensors):
    """Writes tensors, given as (values, shape) by name."""
    head, data = {}, b""
    for name, (values, shape) in tensors.items():
        blob = array.array("f", values).tobytes()
        head[name] = {"dtype": "F32", "shape": list(shape), "data_offsets": [len(data), len(data) + len(blob)]}
        data += blob
    text = json.dumps(head).encode()
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + data)


def read(path, name):
    """Reads a tensor; returns its shape and values."""
    with open(path, "rb") as f:
        head = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
        a, z = head[name]["data_offsets"]
        values = array.array("f")
        values.frombytes(f.read()[a:z])
    return head[name]["shape"], values


class Maker:
    def __init__(self):
        self.random = random.Random(7)
        self.tensors = {}

    def add(self, name, *shape, mean=0.0):
        spread = 1 / math.sqrt(math.prod(shape[1:])) if len(shape) > 1 else 0.1
        self.tensors[name] = ([mean + self.random.uniform(-spread, spread) for _ in range(math.prod(shape))], shape)

    def linear(self, name, *shape, bias=True):
        self.add(name + ".weight", *shape)
        if bias:
            self.add(name + ".bias", shape[0])

    def norm(self, name, n=WIDTH):
        self.add(name + ".weight", n, mean=1)
        self.add(name + ".bias", n)

    def backbone(self, blocks, dinov2):
        p = "backbone.embeddings."
        self.add(p + "position_embeddings", 1, 1 + (SIDE // PATCH) ** 2, WIDTH)
        self.linear(p + "patch_embeddings.projection", WIDTH, 3, PATCH, PATCH)
        if dinov2:
            self.add(p + "cls_token", 1, 1, WIDTH)
            self.add(p + "mask_token", 1, WIDTH)
        for i in range(blocks):
            p = "backbone.encoder.layer.%d." % i
            for norm in ("norm1", "norm2") if dinov2 else ("layernorm_before", "layernorm_after"):
                self.norm(p + norm)
            for part in ("attention.query", "attention.key", "attention.value", "output.dense"):
                self.linear(p + "attention." + part, WIDTH, WIDTH)
            self.linear(p + "mlp.fc1", 2 * WIDTH, WIDTH)
            self.linear(p + "mlp.fc2", WIDTH, 2 * WIDTH)
            for k in (1, 2) if dinov2 else ():
                self.add(p + "layer_scale%d.lambda1" % k, WIDTH, mean=1)
        self.norm("backbone.layernorm")

    def depth_anything(self):
        self.backbone(4, True)
        for i, n in enumerate(CHANNELS):
            p = "neck.reassemble_stage.layers.%d." % i
            self.linear(p + "projection", n, WIDTH, 1, 1)
            if i != 2:
                self.linear(p + "resize", n, n, *[(4, 2, 0, 3)[i]] * 2)
            self.linear("neck.convs.%d" % i, FUSION, n, 3, 3, bias=False)
            p = "neck.fusion_stage.layers.%d." % i
            self.linear(p + "projection", FUSION, FUSION, 1, 1)
            for unit in ("residual_layer1", "residual_layer2"):
                for k in (1, 2):
                    self.linear("%s%s.convolution%d" % (p, unit, k), FUSION, FUSION, 3, 3)
        self.linear("head.conv1", FUSION // 2, FUSION, 3, 3)
        self.linear("head.conv2", HEAD, FUSION // 2, 3, 3)
        self.linear("head.conv3", 1, HEAD, 1, 1)
        return self.tensors

    def vitpose(self, simple):
        self.backbone(2, False)
        if simple:
            self.linear("head.conv", POINTS, WIDTH, 3, 3)
            return self.tensors
        for i, n in ((1, WIDTH), (2, 6)):
            self.add("head.deconv%d.weight" % i, n, 6, 4, 4)
            self.norm("head.batchnorm%d" % i, 6)
            self.add("head.batchnorm%d.running_mean" % i, 6)
            self.add("head.batchnorm%d.running_var" % i, 6, mean=1)
        self.linear("head.conv", POINTS, 6, 1, 1)
        return self.tensors


BACKBONE = {"hidden_size": WIDTH, "num_attention_heads": HEADS, "patch_size": PATCH, "image_size": SIDE}
DEPTH = {"model_type": "depth_anything", "fusion_hidden_size": FUSION, "head_hidden_size": HEAD,
         "reassemble_hidden_size": WIDTH, "neck_hidden_sizes": list(CHANNELS), "patch_size": PATCH,
         "backbone_config": dict(BACKBONE, model_type="dinov2", num_hidden_layers=4, out_indices=[1, 2, 3, 4])}
POSE = {"model_type": "vitpose", "backbone_config": dict(BACKBONE, model_type="vitpose_backbone", num_hidden_layers=2)}


class Dense(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)

    def make(self, config, tensors, backbone=None, **fields):
        """Writes a model's folder; None omits a field or a tensor."""
        config = copy.deepcopy(dict(config, **fields))
        if isinstance(config["backbone_config"], dict):
            config["backbone_config"].update(backbone or {})
        model = os.path.join(self.folder, "model")
        os.makedirs(model, exist_ok=True)
        with open(os.path.join(model, "config.json"), "w", encoding="utf-8") as f:
            json.dump(config, f)
        write(os.path.join(model, "model.safetensors"), tensors)
        return model

    def command(self, *words):
        return subprocess.run([FOVEA, *words], capture_output=True, text=True)

    def output(self, model, name, width, height, *options):
        """The output for a synthetic picture of float planes."""
        picture, out = os.path.join(self.folder, "in.safetensors"), os.path.join(self.folder, "out.safetensors")
        values = [math.sin(0.37 * i) for i in range(3 * width * height)]
        write(picture, {"input": (values, (1, 3, height, width))})
        p = self.command("run", model, picture, "--compute", "f32", "-o", out, *options)
        self.assertEqual(p.returncode, 0, p.stderr)
        shape, values = read(out, name)
        self.assertTrue(all(math.isfinite(x) for x in values))
        return shape, values

    def refused(self, says, config, tensors, **changes):
        p = self.command("plan", self.make(config, tensors, **changes))
        self.assertEqual(p.returncode, 7, p.stdout + p.stderr)
        self.assertIn(says, p.stderr)

    def test_depth(self):
        model = self.make(DEPTH, Maker().depth_anything())
        for width, height in ((16, 16), (24, 12), (4, 4), (36, 20)):
            shape, near = self.output(model, "predicted_depth", width, height)
            self.assertEqual(shape, [1, height, width])
            self.assertGreaterEqual(min(near), 0)
        near = self.output(model, "predicted_depth", 16, 16)[1]
        far = self.output(self.make(DEPTH, Maker().depth_anything(), max_depth=20), "predicted_depth", 16, 16)[1]
        self.assertGreater(max(near), 0)
        for a, b in zip(near, far):
            self.assertAlmostEqual(20 * a, b, delta=1e-4)
        metric = self.make(DEPTH, Maker().depth_anything(), max_depth=80, depth_estimation_type="metric")
        depth = self.output(metric, "predicted_depth", 16, 16)[1]
        self.assertTrue(0 < min(depth) and max(depth) < 80)
        for a, b in zip(near, depth):  # relu(x) and 80 sigmoid(x)
            self.assertAlmostEqual(a, max(0, math.log(b / (80 - b))), delta=1e-4)

    def test_taps(self):
        """Taps by names of stages; taps without a norm; another choice of taps."""
        tensors = Maker().depth_anything()
        base = self.output(self.make(DEPTH, tensors), "predicted_depth", 16, 16)[1]
        named = {"out_indices": None, "out_features": ["stage1", "stage2", "stage3", "stage4"]}
        for same, fields in ((True, named), (False, {"out_indices": [0, 1, 2, 4]}), (False, {"apply_layernorm": False})):
            model = self.make(DEPTH, tensors, backbone=fields)
            self.assertEqual(base == self.output(model, "predicted_depth", 16, 16)[1], same, fields)

    def test_poses(self):
        for simple in (True, False):
            model = self.make(POSE, Maker().vitpose(simple), use_simple_decoder=simple)
            self.assertEqual(self.output(model, "heatmaps", 16, 16)[0], [1, POINTS, 16, 16])
            self.assertEqual(self.output(model, "heatmaps", 24, 8)[0], [1, POINTS, 8, 24])
        model = self.make(POSE, Maker().vitpose(True), scale_factor=2)
        self.assertEqual(self.output(model, "heatmaps", 16, 16)[0], [1, POINTS, 8, 8])

    def test_attention(self):
        for config, tensors, name in ((DEPTH, Maker().depth_anything(), "predicted_depth"),
                                      (POSE, Maker().vitpose(True), "heatmaps")):
            model = self.make(config, tensors)
            base = self.output(model, name, 24, 24)[1]
            for attention in ("linear:elu1", "mala+softmax@0", "foveated"):
                other = self.output(model, name, 24, 24, "--attention", attention)[1]
                self.assertEqual(len(base), len(other))
                if attention != "foveated":  # which sees so few tokens as softmax does
                    self.assertNotEqual(base, other)

    def test_depth_refusals(self):
        def refused(says, **changes):
            self.refused(says, DEPTH, Maker().depth_anything(), **changes)
        refused('"backbone_config" must be', backbone_config=None)
        refused('"backbone_config" must be', backbone_config="dinov2")
        refused('with a backbone of type "swin" is not supported; mask2former and upernet are', backbone={"model_type": "swin"})
        refused('_config.model_type" is "dinov2_with_registers"', backbone={"model_type": "dinov2_with_registers"})
        refused('"depth_estimation_type" must be', depth_estimation_type="inverse")
        refused('"max_depth" must be', max_depth=-1)
        refused('"max_depth" must be', max_depth="far")
        refused('"head_in_index" is not -1', head_in_index=0)
        refused('"head_in_index" is not -1', head_in_index="-1")
        refused('"fusion_hidden_size" is 7', fusion_hidden_size=7)
        refused('"head_hidden_size" is 6', head_hidden_size=6)
        refused('"reassemble_hidden_size" is 9', reassemble_hidden_size=9)
        refused('"patch_size" is 14', patch_size=14)
        refused('"neck_hidden_sizes" is 4 at index 1', neck_hidden_sizes=[4, 4, 6, 7])
        refused('"neck_hidden_sizes" must be', neck_hidden_sizes=[4, 4, 6])
        refused('"reassemble_factors" must be', reassemble_factors=[4, 2, 1])
        refused('"reassemble_factors" must be', reassemble_factors=[4, 2, 1, 0.7])
        refused('"reassemble_factors[3]" must be', reassemble_factors=[4, 2, 1, -2])
        refused("resize.weight", reassemble_factors=[4, 2, 2, 0.5])
        refused("resize.", reassemble_factors=[4, 2, 1, 1])
        refused('"backbone_config.out_indices" has 3 stages', backbone={"out_indices": [1, 2, 4]})
        refused('"backbone_config.out_indices[3]" must be', backbone={"out_indices": [1, 2, 3, 5]})
        refused("stages must ascend", backbone={"out_indices": [1, 3, 2, 4]})
        refused('"backbone_config.out_features" must be the same stages',
                backbone={"out_features": ["stage1", "stage2", "stage3", "stage3"]})
        refused('"backbone_config.out_features" must be', backbone={"out_indices": None, "out_features": ["stage"] * 4})
        refused('"backbone_config.reshape_hidden_states" must be', backbone={"reshape_hidden_states": True})
        refused('"backbone_config.use_rope" is not known', backbone={"use_rope": True})
        refused('"use_bias_in_fusion" is not known', use_bias_in_fusion=True)
        refused('"use_timm_backbone" has a value', use_timm_backbone=True)
        tensors = Maker().depth_anything()
        del tensors["neck.fusion_stage.layers.1.residual_layer1.convolution2.weight"]
        self.refused("neck.fusion_stage.layers.1.residual_layer1.convolution2.weight", DEPTH, tensors)
        tensors = Maker().depth_anything()
        tensors["neck.convs.3.gamma"] = ([1.0], (1,))
        self.refused("neck.convs.3.gamma", DEPTH, tensors)

    def test_pose_refusals(self):
        def refused(says, **changes):
            self.refused(says, POSE, Maker().vitpose(True), **changes)
        refused('"backbone_config.num_experts" is 6', backbone={"num_experts": 6})
        refused('"backbone_config.num_experts" must be', backbone={"num_experts": 0})
        refused('"scale_factor" must be', scale_factor=0)
        refused('"scale_factor" must be', scale_factor=2.5)
        refused('"use_simple_decoder" must be', use_simple_decoder=2)
        refused("head.deconv1.weight", use_simple_decoder=False)
        refused('"image_size" in', backbone={"image_size": [16, 32]})
        refused('_config.model_type" is "vit"', backbone={"model_type": "vit"})
        refused('"decoder" is not known', decoder="udp")
        self.refused("head.conv.weight", POSE, Maker().vitpose(False))
        tensors = Maker().vitpose(False)
        tensors["head.batchnorm2.running_var"] = ([-1.0] * 6, (6,))
        self.refused("has a variance of -1", POSE, tensors, use_simple_decoder=False)


if __name__ == "__main__":
    result = unittest.main(exit=False).result
    bad = len(result.failures) + len(result.errors)
    print("%d passed, %d failed, %d skipped" % (result.testsRun - bad - len(result.skipped), bad, len(result.skipped)))
    sys.exit(bad > 0)
