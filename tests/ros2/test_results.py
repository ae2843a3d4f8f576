#!/usr/bin/env python3
"""test_results.py: the ROS 2 component publishes the results that `fovea run` gives for the same picture.

    test_results.py path/to/probe path/to/fovea
"""
import json
import os
import struct
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, ".."), os.path.join(HERE, "..", "cli")]
import counted

np = counted.need("numpy")
from test_run_results import read_png

MODELS = os.path.join(HERE, "..", "data", "golden", "models")
DEPTH, POSE = "synthetic:depth-anything-s", "synthetic:vitpose-s-simple"
MASKS, BOXES = os.path.join(MODELS, "eomt-masked-01"), os.path.join(MODELS, "rf-detr-02")
BOXES_AND_MASKS = os.path.join(MODELS, "rf-detr-seg-01")
LABELS, FEATURES = os.path.join(MODELS, "vit-01"), os.path.join(MODELS, "dinov2-03")
WIDE, HIGH = 90, 64


def tensors(path):
    with open(path, "rb") as f:
        head = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
        data = f.read()
    head.pop("__metadata__", None)
    return {name: np.frombuffer(data[t["data_offsets"][0]:t["data_offsets"][1]], np.float32).reshape(t["shape"])
            for name, t in head.items() if t["dtype"] == "F32"}


def pixels(message, kind):
    return np.array(message["data"], np.uint8).view(kind).reshape(message["height"], message["width"])


class Results(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.draw(WIDE)

    def draw(self, wide):
        y, x = np.mgrid[:HIGH, :wide]
        self.photo = np.stack([(x * 7) % 256, (y * 5 + x) % 256, (x * y) % 256], 2).astype(np.uint8)
        with open(self.path("a.ppm"), "wb") as f:
            f.write(b"P6 %d %d 255\n" % (wide, HIGH) + self.photo.tobytes())

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def fovea(self, *arguments):
        p = subprocess.run([FOVEA, "run", *arguments], cwd=self.folder.name, capture_output=True, text=True)
        self.assertEqual(p.returncode, 0, p.stderr)
        return json.loads(p.stdout) if "--json" in arguments else None

    def probe(self, model, *parameters, encoding="rgb8", rows=None):
        """{topic: message} of one frame."""
        rows = self.photo.reshape(HIGH, -1) if rows is None else rows
        p = subprocess.run([PROBE, encoding, str(self.photo.shape[1]), str(HIGH), str(rows.shape[1]), "model=" + model,
                            *parameters], input=rows.tobytes(), capture_output=True)
        self.assertEqual((p.returncode, p.stderr), (0, b""))
        messages = [json.loads(line) for line in p.stdout.splitlines()]
        for m in messages:
            self.assertEqual((m["frame_id"], m["sec"]), ("camera", 42))
        out = {m["topic"]: m for m in messages}
        self.assertEqual(len(out), len(messages))
        return out

    def close(self, a, b):
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-6)

    def test_features(self):
        got = self.probe(FEATURES)
        self.assertEqual(list(got), ["features"])
        self.fovea(FEATURES, "a.ppm", "-o", "o.safetensors")
        want = tensors(self.path("o.safetensors"))["last_hidden_state"]
        self.assertEqual(got["features"]["name"], "last_hidden_state")
        np.testing.assert_array_equal(np.array(got["features"]["data"], np.float32), want.ravel())

    def test_frames_as_they_come(self):
        got = self.probe(FEATURES, "size=frame")["features"]
        self.assertNotEqual(got["rows"], self.probe(FEATURES)["features"]["rows"])
        sized = self.probe(FEATURES, "size=56x28", "attention=foveated")["features"]
        self.fovea(FEATURES, "a.ppm", "--size", "56x28", "--attention", "foveated", "-o", "o.safetensors")
        want = tensors(self.path("o.safetensors"))["last_hidden_state"]
        np.testing.assert_array_equal(np.array(sized["data"], np.float32), want.ravel())

    def test_video(self):
        """Video with 4 bytes per two pixels in both orders of Y, U, V, and 4 bytes of padding per row."""
        rows = np.random.default_rng(1).integers(0, 256, (HIGH, WIDE * 2), np.uint8)
        with open(self.path("v.yuyv"), "wb") as f:
            f.write(rows.tobytes())
        self.fovea(FEATURES, "v.yuyv", "--raw", "yuyv422:%dx%d" % (WIDE, HIGH), "--yuv", "709-full",
                   "-o", "o.safetensors")
        want = tensors(self.path("o.safetensors"))["last_hidden_state"].ravel()
        swapped = rows.reshape(HIGH, -1, 2)[:, :, ::-1].reshape(HIGH, -1)
        for encoding, these in (("yuyv", rows), ("uyvy", swapped)):
            got = self.probe(FEATURES, "yuv=709-full", encoding=encoding, rows=np.pad(these, ((0, 0), (0, 4))))
            np.testing.assert_array_equal(np.array(got["features"]["data"], np.float32), want)

    def test_labels(self):
        got = self.probe(LABELS, "top_k=3")
        self.assertEqual(list(got), ["labels"])
        want = self.fovea(LABELS, "a.ppm", "--top", "3", "--json")["top"]
        self.assertEqual([r["class"] for r in got["labels"]["results"]], [t["label"] for t in want])
        self.close([r["score"] for r in got["labels"]["results"]], [t["p"] for t in want])
        with open(self.path("names"), "w") as f:
            f.write("".join("name %d\n" % i for i in range(2)))
        got = self.probe(LABELS, "top_k=3", "labels=" + self.path("names"))["labels"]["results"]
        self.assertEqual([r["class"] for r in got],
                         ["name %d" % t["class"] if t["class"] < 2 else str(t["class"]) for t in want])

    def test_boxes(self):
        self.assert_boxes(self.probe(BOXES, "score=0.0"), 0)
        scores = [b["score"] for b in self.fovea(BOXES, "a.ppm", "--json")["boxes"]]
        middle = (min(scores) + max(scores)) / 2
        self.assertTrue(0 < sum(s < middle for s in scores) < len(scores))
        self.assert_boxes(self.probe(BOXES, "score=%r" % middle), middle)

    def assert_boxes(self, got, least):
        self.assertEqual(list(got), ["boxes"])
        want = [b for b in self.fovea(BOXES, "a.ppm", "--json")["boxes"] if b["score"] >= least]
        boxes = got["boxes"]["detections"]
        self.assertGreater(len(want), 0)
        self.assertEqual([b["class"] for b in boxes], [b["label"] for b in want])
        self.close([b["score"] for b in boxes], [b["score"] for b in want])
        self.close([[b["x"] - b["width"] / 2, b["y"] - b["height"] / 2, b["width"], b["height"]] for b in boxes],
                   [b["bbox"] for b in want])

    def test_depth(self):
        got = self.probe(DEPTH, "size=70")
        self.assertEqual(list(got), ["depth"])
        depth = pixels(got["depth"], np.float32)
        self.assertEqual((got["depth"]["encoding"], depth.shape), ("32FC1", (HIGH, WIDE)))
        told = self.fovea(DEPTH, "a.ppm", "--size", "70", "--json")["depth"]
        self.close([depth.min(), np.sort(depth.ravel())[depth.size // 2], depth.max()],
                   [told["least"], told["median"], told["greatest"]])
        self.fovea(DEPTH, "a.ppm", "--size", "70", "--depth", "d.png")
        steps = read_png(self.path("d.png"))[0][:, :, 0]
        np.testing.assert_allclose(1 + (depth - depth.min()) / np.ptp(depth) * 65534, steps, atol=0.6)

    def test_masks(self):
        for rule in ("panoptic", "instance"):
            got = self.probe(MASKS, "mask_rule=" + rule, "mask_score=0.02")
            self.assertEqual(set(got), {"masks", "instances", "classes"})
            self.assertEqual(got["masks"]["encoding"], "mono8")
            self.fovea(MASKS, "a.ppm", "--mask-rule", rule, "--score", "0.02", "--masks", "m.png")
            np.testing.assert_array_equal(pixels(got["masks"], np.uint8), read_png(self.path("m.png"))[0][:, :, 0])
            want = self.fovea(MASKS, "a.ppm", "--mask-rule", rule, "--score", "0.02", "--json")["masks"]
            masks = got["instances"]["detections"]
            self.assertGreater(len(want), 0)
            self.assertEqual([(m["id"], m["class"]) for m in masks],
                             [(str(i + 1), w["label"] or str(w["category_id"])) for i, w in enumerate(want)])
            self.close([m["score"] for m in masks], [w["score"] for w in want])
            self.close([[m["x"] - m["width"] / 2, m["y"] - m["height"] / 2, m["width"], m["height"]] for m in masks],
                       [w["bbox"] for w in want])

    def test_masks_of_boxes(self):
        """A detector's masks, by the rule and with the limit that the program uses for it."""
        for limit in ((), ("mask_score=0.1",)):
            got = self.probe(BOXES_AND_MASKS, *limit)
            self.assertEqual(set(got), {"boxes", "masks", "instances"})
            score = ("--score", "0.1") if limit else ()
            self.fovea(BOXES_AND_MASKS, "a.ppm", *score, "--masks", "m.png")
            np.testing.assert_array_equal(pixels(got["masks"], np.uint8), read_png(self.path("m.png"))[0][:, :, 0])
            want = self.fovea(BOXES_AND_MASKS, "a.ppm", *score, "--json")["masks"]
            masks = got["instances"]["detections"]
            self.assertTrue(want or not limit)
            self.assertEqual([m["class"] for m in masks], [w["label"] or str(w["category_id"]) for w in want])
            self.close([[m["x"] - m["width"] / 2, m["y"] - m["height"] / 2, m["width"], m["height"], m["score"]]
                        for m in masks], [w["bbox"] + [w["score"]] for w in want])

    def test_classes(self):
        self.draw(96) # whole patches: the program's labels are those of the picture as it is run
        got = self.probe(MASKS, "size=96x64")
        self.fovea(MASKS, "a.ppm", "--size", "96x64", "--labels", "l.png")
        np.testing.assert_array_equal(pixels(got["classes"], np.uint8), read_png(self.path("l.png"))[0][:, :, 0])

    def test_key_points(self):
        got = self.probe(POSE)
        self.assertEqual(list(got), ["key_points"])
        want = self.fovea(POSE, "a.ppm", "--json")["keypoints"]
        points = got["key_points"]["points"]
        self.assertEqual([p["name"] for p in points], [w["name"] for w in want])
        self.close([[p["x"], p["y"], p["score"]] for p in points], [[w["x"], w["y"], w["score"]] for w in want])

    def test_several(self):
        """A model with labels also publishes features; outputs that are results are published as features, too."""
        got = self.probe(LABELS, "output=last_hidden_state")
        self.assertEqual(set(got), {"features", "labels"})
        got = self.probe(LABELS, "output=logits", "top_k=1")
        logits = got["features"]["data"]
        self.assertEqual(got["features"]["name"], "logits")
        self.close(got["labels"]["results"][0]["score"], np.exp(np.max(logits)) / np.exp(logits).sum())


if __name__ == "__main__":
    FOVEA = os.path.abspath(sys.argv.pop())
    PROBE = os.path.abspath(sys.argv.pop())
    counted.main()
