#!/usr/bin/env python3
"""test_rf_detr.py: RF-DETR and LW-DETR: refused configurations, other attentions and sizes, its boxes and its masks.

    test_rf_detr.py path/to/fovea

Standard library only.
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

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import run_lengths

MODELS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data", "golden", "models")
GOLDEN, MASKS = os.path.join(MODELS, "rf-detr-02"), os.path.join(MODELS, "rf-detr-seg-01")
LW = os.path.join(MODELS, "lw-detr-01")
FOVEA = os.path.abspath(sys.argv.pop(1)) if len(sys.argv) > 1 else "fovea"


def enlarged(grid, columns, rows, x, width, y, height):
    """A value of a grid that is resized to width x height, bilinear and without align_corners."""
    def between(at, pixels, places):
        at = min(max((at + 0.5) * places / pixels - 0.5, 0), places - 1)
        return int(at), min(int(at) + 1, places - 1), at - int(at)

    left, right, u = between(x, width, columns)
    above, below, v = between(y, height, rows)
    high, low = (grid[r * columns + left] * (1 - u) + grid[r * columns + right] * u for r in (above, below))
    return high * (1 - v) + low * v


def unrolled(counts):
    """Whether each pixel is in the mask, column by column."""
    return [i % 2 for i, n in enumerate(run_lengths.unpacked(counts)) for _ in range(n)]


class RfDetr(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)
        self.golden = GOLDEN

    def write(self, backbone=None, without=(), **fields):
        """Writes the golden model with changed fields of config.json."""
        with open(os.path.join(self.golden, "config.json"), encoding="utf-8") as f:
            config = dict(json.load(f), **fields)
        config["backbone_config"] = dict(config["backbone_config"], **(backbone or {}))
        for name in without:
            config["backbone_config"].pop(name)
        folder = os.path.join(self.folder, "model")
        os.makedirs(folder, exist_ok=True)
        shutil.copy(os.path.join(self.golden, "model.safetensors"), folder)
        with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as f:
            json.dump(config, f)
        return folder

    def plan(self, *options, **changes):
        return subprocess.run([FOVEA, "plan", self.write(**changes), *options], capture_output=True, text=True)

    def refused(self, *says, **changes):
        p = self.plan(**changes)
        self.assertEqual(p.returncode, 7, p.stdout + p.stderr)
        for text in says:
            self.assertIn(text, p.stderr)
        self.assertIn("config.json", p.stderr)

    def test_queries(self):
        self.refused('"num_queries" must be', num_queries=0)
        self.refused('"num_queries" must be', num_queries=1 << 30)
        self.refused('"num_queries" is 17', "16 candidate positions", num_queries=17)
        self.refused('"num_queries" is 11', '"query_feat.weight"', num_queries=11)

    def test_decoder(self):
        self.refused('"decoder_layers" is 1000000', decoder_layers=1000000)
        self.refused('"decoder_layers" is 0', decoder_layers=0)
        self.refused('"num_feature_levels" must be', num_feature_levels=2)
        self.refused('"decoder_self_attention_heads" is 5', decoder_self_attention_heads=5)
        self.refused('"decoder_cross_attention_heads" is 3', decoder_cross_attention_heads=3)
        self.refused("sampling_offsets", decoder_n_points=4)
        self.refused('"decoder_n_points" must be', decoder_n_points=1 << 20)
        self.refused('"decoder_ffn_dim" is 25', decoder_ffn_dim=25)
        self.refused('"d_model" is 32', d_model=32)
        self.refused('"c2f_num_blocks" is 3', c2f_num_blocks=3)
        self.refused('"activation_function" is "mish"', activation_function="mish")
        self.refused('"decoder_activation_function" must be', decoder_activation_function=1)
        self.refused('"two_stage" is not known', two_stage=False)

    def test_keypoints(self):
        """Models for key points are refused; otherwise they would silently run as detectors."""
        p = self.add_tensors(("keypoint_embed.layers.0.bias", (1, 1)))
        self.assertEqual(p.returncode, 7, p.stdout + p.stderr)
        self.assertIn('predicts key points (tensor "keypoint_embed.layers.0.bias")', p.stderr)

    def test_mask_head(self):
        """A head for masks must be complete, and must be read if config.json or the tensors have it."""
        p = self.plan(architectures=["RfDetrForInstanceSegmentation"])
        self.assertEqual(p.returncode, 7, p.stdout + p.stderr)
        self.assertIn("the head for masks has 0 blocks, but the decoder has 2 layers", p.stderr)
        p = self.add_tensors(("segmentation_head.bias", (1, 1)))
        self.assertEqual(p.returncode, 7, p.stdout + p.stderr)
        self.assertIn("the head for masks has 0 blocks", p.stderr)
        self.golden = MASKS
        for name in ("segmentation_head.blocks.0.gamma", "segmentation_head.blocks.1.pwconv2.weight"):
            p = self.add_tensors((name, (16, 1)))
            self.assertEqual(p.returncode, 7, p.stdout + p.stderr)
            self.assertIn(name, p.stderr)
        p = self.add_tensors(("segmentation_head.blocks.2.norm.weight", (16, 1)))
        self.assertIn("the head for masks has 3 blocks", p.stderr)
        for value in (0, -1, 1.5, float("nan"), 65, 1 << 40, "4"):
            self.refused('"mask_downsample_ratio" must be', mask_downsample_ratio=value)
        self.refused('"intermediate_size" is 25', intermediate_size=25)
        self.refused('"segmentation_head_activation_function" is "mish"', segmentation_head_activation_function="mish")
        p = self.plan("--size", "28", mask_downsample_ratio=29)
        self.assertNotEqual(p.returncode, 0)
        self.assertIn("too small for masks", p.stderr)
        for size in ("42x28", "28x84", "140"):
            p = self.plan("--size", size, architectures=["RfDetrForObjectDetection"], mask_downsample_ratio=3)
            self.assertEqual(p.returncode, 0, p.stderr)

    def test_masks(self):
        """Masks of the outputs, resized to the photograph, are those of the boxes with a score above 0.5 or --score."""
        self.golden = MASKS
        picture = os.path.join(self.folder, "picture.ppm")
        with open(picture, "wb") as f:
            f.write(b"P6 60 90 255\n" + bytes(i * 37 % 251 for i in range(180 * 90)))
        for options, threshold in (([], 0.5), (["--score", "0.3"], 0.3), (["--score", "0.3", "--attention", "mala"], 0.3)):
            outputs, _, shown, masks = self.masks(self.write(), picture, "--size", "42x28", *options)
            (_, queries, rows, columns), logits = outputs["pred_masks"]
            self.assertEqual((queries, rows, columns), (5, 7, 10))
            want = []
            for score, label, box in self.best(outputs, threshold):
                query = outputs["pred_boxes"][1].index(box[0]) // 4
                grid = logits[query * rows * columns:][:rows * columns]
                inside = [enlarged(grid, columns, rows, x, 60, y, 90) for y in range(90) for x in range(60)]
                if max(inside) > 0:
                    want.append((score, label, inside))
            self.assertGreater(len(want), 1 if threshold < 0.5 else 0)
            self.assertEqual([len(want)] * 2, [len(masks), len(shown["masks"])])
            for entry, told, (score, label, inside) in zip(masks, shown["masks"], want):
                self.assertAlmostEqual(entry["score"], score, delta=1e-6)
                self.assertEqual((entry["category_id"], told["category_id"]), (label, label))
                pixels = unrolled(entry["segmentation"]["counts"])
                self.assertEqual(len(pixels), 60 * 90)
                differ = [i for i, v in enumerate(inside) if (v > 0) != pixels[i % 60 * 90 + i // 60] and abs(v) > 1e-4]
                self.assertEqual(differ, [])
                self.assertEqual(entry["area"], sum(pixels))

    def masks(self, folder, picture, *options):
        """As boxes(), and the file of --masks."""
        file = os.path.join(self.folder, "masks.json")
        found = self.boxes(folder, picture, "--masks", file, *options)
        with open(file, encoding="utf-8") as f:
            return (*found, json.load(f))

    def test_backbone(self):
        self.refused('"backbone_config.num_windows" must be', backbone={"num_windows": 0})
        self.refused('"backbone_config.out_indices[1]" must be', backbone={"out_indices": [1, 4]})
        self.refused('"backbone_config.out_indices"', backbone={"out_indices": [3, 1], "out_features": None})
        self.refused('"backbone_config.out_features"', backbone={"out_features": ["stage1", "stage2"]})
        self.refused('"backbone_config.out_features"', backbone={"out_features": ["stage1"]})
        self.refused('"backbone_config.window_block_indexes[0]" must be', backbone={"window_block_indexes": [9]})
        self.refused("rf_detr_vit", backbone={"model_type": "rf_detr_vit"})
        self.refused("reshape_hidden_states", backbone={"reshape_hidden_states": False})
        self.refused('"backbone_config.rope" is not known', backbone={"rope": True})
        self.refused('"image_size"', backbone={"image_size": 40})

    def test_taps(self):
        """Either list selects the blocks that are read. Without the list of windows, the blocks with a tap's number
        have global attention."""
        same = self.plan().stdout
        self.assertEqual(same, self.plan(without=["out_features"]).stdout)
        self.assertEqual(same, self.plan(without=["out_indices"]).stdout)
        self.assertEqual(same, self.plan(backbone={"window_block_indexes": [0, 2]}).stdout)
        self.assertNotEqual(same, self.plan(backbone={"window_block_indexes": [0, 1]}).stdout)

    def add_tensors(self, *tensors):
        """Writes the golden model with additional tensors of zeros: (name, shape)."""
        folder = self.write()
        path = os.path.join(folder, "model.safetensors")
        with open(path, "rb") as f:
            blob = f.read()
        n = struct.unpack("<Q", blob[:8])[0]
        head, data = json.loads(blob[8:8 + n]), blob[8 + n:]
        for name, (rows, columns) in tensors:
            head[name] = {"dtype": "F32", "shape": [rows, columns], "data_offsets": [len(data), len(data) + 4 * rows * columns]}
            data += bytes(4 * rows * columns)
        text = json.dumps(head).encode()
        with open(path, "wb") as f:
            f.write(struct.pack("<Q", len(text)) + text + data)
        return subprocess.run([FOVEA, "plan", folder], capture_output=True, text=True)

    def test_tensors(self):
        """Tensors that a ViT may have and RF-DETR has not are refused, and so are unknown ones."""
        block = "backbone.0.encoder.encoder.encoder.layer.1."
        p = self.add_tensors((block + "attn.sla_q.weight", (8, 2)), (block + "attn.sla_k.weight", (8, 2)))
        self.assertEqual(p.returncode, 7, p.stdout + p.stderr)
        self.assertIn("block 1 has gated heads", p.stderr)
        for name in ("transformer.decoder.layers.0.gate.weight", "backbone.0.projector.stages.1.0.cv1.conv.weight",
                     block + "attention.rope.weight"):
            p = self.add_tensors((name, (4, 4)))
            self.assertEqual(p.returncode, 7, p.stdout + p.stderr)
            self.assertIn(name, p.stderr)

    def test_sizes(self):
        for size in ("28", "42x28", "84x140"):
            p = self.plan("--size", size)
            self.assertEqual(p.returncode, 0, p.stderr)
        p = self.plan("--size", "35x28")
        self.assertNotEqual(p.returncode, 0)
        self.assertIn("multiples of 14 pixels", p.stderr)
        p = self.plan("--size", "14")
        self.assertNotEqual(p.returncode, 0)
        self.assertIn("4 patches, of which RF-DETR chooses 5", p.stderr)

    def test_native(self):
        """If the position table does not fit the windows, the model's declared size is used, which they divide."""
        p = self.plan(backbone={"num_windows": 3})
        self.assertEqual(p.returncode, 0, p.stderr)
        self.assertIn("42x42", p.stdout + p.stderr)

    def test_picture(self):
        """Features belong to the grid; logits of queries are not used as classes of the picture."""
        picture, features = (os.path.join(self.folder, name) for name in ("picture.ppm", "features.npy"))
        with open(picture, "wb") as f:
            f.write(b"P6 60 90 255\n" + bytes(range(180)) * 90)
        p = subprocess.run([FOVEA, "run", self.write(), picture, "--size", "42x28", "--features", features, "--json"],
                           capture_output=True, text=True)
        self.assertEqual(p.returncode, 0, p.stderr)
        self.assertEqual(json.loads(p.stdout)["top"], [])
        with open(features, "rb") as f:
            self.assertIn(b"(1, 4, 6, 16, )", f.read(128))

    def tensors(self, path):
        """{name: (shape, values)} of a file of float32."""
        with open(path, "rb") as f:
            blob = f.read()
        n = struct.unpack("<Q", blob[:8])[0]
        head = json.loads(blob[8:8 + n])
        head.pop("__metadata__", None)
        return {name: (t["shape"], struct.unpack("<%df" % math.prod(t["shape"]), blob[8 + n:][slice(*t["data_offsets"])]))
                for name, t in head.items()}

    def boxes(self, folder, picture, *options):
        """Runs one picture; returns its outputs, the file of --boxes, and stdout."""
        out, boxes = (os.path.join(self.folder, name) for name in ("out.safetensors", "boxes.json"))
        p = subprocess.run([FOVEA, "run", folder, picture, "-o", out, "--boxes", boxes, "--json", *options],
                           capture_output=True, text=True)
        self.assertEqual(p.returncode, 0, p.stderr)
        with open(boxes, encoding="utf-8") as f:
            return self.tensors(out), json.load(f), json.loads(p.stdout)

    def best(self, outputs, threshold):
        """(score, class, relative box) of the best pairs of a query and a class, as many pairs as queries."""
        (_, queries, classes), logits = outputs["logits"]
        found = sorted((-1 / (1 + math.exp(-x)), i) for i, x in enumerate(logits))[:queries]
        return [(-s, i % classes, outputs["pred_boxes"][1][i // classes * 4:][:4]) for s, i in found if -s > threshold]

    def test_boxes(self):
        """Boxes come from all pairs of a query and a class, are in pixels of the photograph, and equal the outputs."""
        picture = os.path.join(self.folder, "picture.ppm")
        with open(picture, "wb") as f:
            f.write(b"P6 60 90 255\n" + bytes(i * 37 % 251 for i in range(180 * 90)))
        for threshold in (0, 0.53):
            folder = self.write(**({"fovea": {"score_thr": threshold}} if threshold else {}))
            outputs, coco, shown = self.boxes(folder, picture, "--size", "42x28")
            want = self.best(outputs, threshold)
            self.assertEqual(len(want) < 5, threshold > 0)
            self.assertEqual([len(want)] * 3, [len(coco), len(shown["boxes"]), outputs["detections.boxes"][0][0]])
            for i, (score, label, (x, y, w, h)) in enumerate(want):
                left, right, top, below = ((x - w / 2) * 60, (x + w / 2) * 60, (y - h / 2) * 90, (y + h / 2) * 90)
                left, right, top, below = (min(max(v, 0), end) for v, end in ((left, 60), (right, 60), (top, 90), (below, 90)))
                for entry in (coco[i], shown["boxes"][i]):
                    self.assertAlmostEqual(entry["score"], score, delta=1e-6)
                    self.assertEqual(entry["category_id"], label)
                    for got, value in zip(entry["bbox"], (left, top, right - left, below - top)):
                        self.assertAlmostEqual(got, value, delta=1e-3)
                self.assertEqual(shown["boxes"][i]["label"], "LABEL_%d" % label)
                self.assertEqual((coco[i]["image_id"], coco[i]["file_name"]), (0, picture))
                run = outputs["detections.boxes"][1][4 * i:][:4]
                for got, value in zip(run, ((x - w / 2) * 42, (y - h / 2) * 28, (x + w / 2) * 42, (y + h / 2) * 28)):
                    self.assertAlmostEqual(got, value, delta=1e-3)

    def test_one_query(self):
        """The logits of a single query are not used as classes of the picture either."""
        picture = os.path.join(self.folder, "picture.ppm")
        with open(picture, "wb") as f:
            f.write(b"P6 28 28 255\n" + bytes(28 * 28 * 3))
        outputs, coco, shown = self.boxes(self.write(num_queries=1), picture)
        self.assertEqual((len(coco), shown["top"]), (1, []))
        self.assertEqual((outputs["logits"][0], outputs["pred_boxes"][0]), ([1, 1, 4], [1, 1, 4]))

    def test_lw_detr(self):
        """LW-DETR's own fields are checked, and parts of RF-DETR are refused."""
        self.golden = LW
        for value in (0, -4, 3, 8, 1 << 40, "4"):
            self.refused('"backbone_config.num_windows" must be', backbone={"num_windows": value})
        for scales in ([], [2.0, 0.5], [0.5], ["1"], 1.0, None):
            self.refused('"projector_scale_factors" must be [1.0]', **{"projector_scale_factors": scales})
        self.refused('"backbone_config.window_block_indices[0]" must be', backbone={"window_block_indices": [9]})
        self.refused('"pretrain_image_size"', backbone={"pretrain_image_size": 40})
        self.refused('only "lw_detr_vit"', backbone={"model_type": "rf_detr_dinov2"})
        self.refused("use_absolute_position_embeddings", backbone={"use_absolute_position_embeddings": False})
        p = self.add_tensors(("model.decoder.layers.0.gate.weight", (4, 4)))
        self.assertEqual(p.returncode, 7, p.stdout + p.stderr)
        self.assertIn("model.decoder.layers.0.gate.weight", p.stderr)
        same = self.plan().stdout
        self.assertEqual(same, self.plan(backbone={"num_windows_side": 2}).stdout)
        self.assertNotEqual(same, self.plan(backbone={"window_block_indices": []}).stdout)
        for options in (("--size", "28x56"), ("--attention", "mala"), ("--compute", "bf16")):
            p = self.plan(*options)
            self.assertEqual(p.returncode, 0, p.stderr)
        p = self.plan("--size", "35x56")
        self.assertIn("LW-DETR splits its 5 x 8 patches into 2 x 2 windows; use sides that are multiples of 14", p.stderr)

    def test_lw_detr_boxes(self):
        picture = os.path.join(self.folder, "picture.ppm")
        with open(picture, "wb") as f:
            f.write(b"P6 60 90 255\n" + bytes(i * 37 % 251 for i in range(180 * 90)))
        self.golden = LW
        outputs, coco, _ = self.boxes(self.write(), picture, "--size", "42x56")
        want = self.best(outputs, 0)
        self.assertEqual([b["category_id"] for b in coco], [label for _, label, _ in want])
        for entry, (score, _, _) in zip(coco, want):
            self.assertAlmostEqual(entry["score"], score, delta=1e-6)

    def test_products_of_bfloat16(self):
        """Queries may change their order, so the test compares the scores from which they are chosen."""
        folder = self.write()
        for command in (["verify", folder, "--accuracy", "0.999"], ["bench", "model", folder, "--runs", "1"]):
            p = subprocess.run([FOVEA, *command, "--compute", "bf16"], capture_output=True, text=True)
            self.assertEqual(p.returncode, 0, p.stderr)
        p = subprocess.run([FOVEA, "verify", folder, "--compute", "bf16"], capture_output=True, text=True)
        self.assertIn("cosine of the features with float32", p.stdout)

    def test_golden_boxes(self):
        golden = os.path.join(GOLDEN, "io.safetensors")
        outputs, coco, _ = self.boxes(GOLDEN, golden, "--compute", "f32")
        want = self.best(self.tensors(golden), 0)
        self.assertEqual(len(coco), len(want))
        for entry, (score, label, _) in zip(coco, want):
            self.assertAlmostEqual(entry["score"], score, delta=1e-4)
            self.assertEqual(entry["category_id"], label)
        self.assertEqual(outputs["detections.labels"][1], tuple(label for _, label, _ in want))
        p = subprocess.run([FOVEA, "run", GOLDEN, golden, "--top", "2"], capture_output=True, text=True)
        self.assertEqual(p.returncode, 0, p.stderr)
        self.assertIn("LABEL_%d" % want[0][1], p.stdout)
        self.assertIn("3 more boxes", p.stdout)
        p = subprocess.run([FOVEA, "run", self.write(fovea={"score_thr": 2}), golden], capture_output=True, text=True)
        self.assertEqual(p.returncode, 7)
        self.assertIn('"fovea.score_thr" must be', p.stderr)

    def test_fewer_boxes(self):
        golden = os.path.join(GOLDEN, "io.safetensors")
        _, all_boxes, _ = self.boxes(GOLDEN, golden)
        outputs, coco, _ = self.boxes(self.write(fovea={"max_per_img": 2}), golden)
        self.assertEqual(coco, all_boxes[:2])
        self.assertEqual(outputs["logits"][0], [1, 5, 4])
        p = subprocess.run([FOVEA, "run", self.write(fovea={"max_per_img": 6}), golden], capture_output=True, text=True)
        self.assertEqual(p.returncode, 7)
        self.assertIn('"fovea.max_per_img" must be', p.stderr)

    def test_attention(self):
        for attention in ("linear:elu1", "mala"):
            p = self.plan("--attention", attention)
            self.assertEqual(p.returncode, 0, p.stderr)
        for attention in ("sla-linear", "foveated"):
            p = self.plan("--attention", attention)
            self.assertEqual(p.returncode, 2, p.stderr)
            self.assertIn("RF-DETR", p.stderr)


if __name__ == "__main__":
    result = unittest.main(exit=False).result
    bad = len(result.failures) + len(result.errors)
    print("%d passed, %d failed, %d skipped" % (result.testsRun - bad - len(result.skipped), bad, len(result.skipped)))
    sys.exit(bad > 0)
