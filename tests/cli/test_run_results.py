#!/usr/bin/env python3
"""test_run_results.py: `fovea run` on models for depth, masks, boxes and key points: files, drawings, JSON.

    test_run_results.py path/to/fovea
"""
import json
import os
import struct
import subprocess
import sys
import tempfile
import unittest
import zlib

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.join(HERE, ".."))
import counted
import run_lengths

np = counted.need("numpy")

MODELS = os.path.join(HERE, "..", "data", "golden", "models")
DEPTH, POSE = "synthetic:depth-anything-s", "synthetic:vitpose-s-simple"
MASKS, BOXES = os.path.join(MODELS, "eomt-masked-01"), os.path.join(MODELS, "rf-detr-02")
MANY_MASKS = "synthetic:rf-detr-seg-xl"  # has 300 queries
WIDE, HIGH = 90, 64


def read_png(path):
    """(samples (H, W, C) as they are stored, palette or None)."""
    with open(path, "rb") as f:
        data = f.read()
    parts, at = {}, 8
    while at < len(data):
        n, kind = struct.unpack(">I4s", data[at:at + 8])
        parts[kind] = parts.get(kind, b"") + data[at + 8:at + 8 + n]
        at += 12 + n
    width, height, bits, colour = struct.unpack(">IIBB", parts[b"IHDR"][:10])
    channels = {0: 1, 2: 3, 3: 1}[colour]
    row = (width * bits * channels + 7) // 8
    step = max(1, bits * channels // 8)
    lines, raw, before = [], zlib.decompress(parts[b"IDAT"]), np.zeros(row, int)
    for y in range(height):
        kind, line = raw[y * (row + 1)], np.frombuffer(raw[y * (row + 1) + 1:(y + 1) * (row + 1)], np.uint8)
        out = line.astype(int)
        for x in range(row if kind else 0):
            left = out[x - step] if x >= step else 0
            corner = before[x - step] if x >= step else 0
            paeth = min((abs(before[x] - corner), 0, left), (abs(left - corner), 1, before[x]),
                        (abs(left + before[x] - 2 * corner), 2, corner))[2]
            out[x] = (out[x] + (0, left, before[x], (left + before[x]) // 2, paeth)[kind]) % 256
        lines.append(out)
        before = out
    rows = np.array(lines, np.uint8)
    if bits == 16:
        rows = rows.reshape(height, -1).view(">u2").astype(np.uint16)
    elif bits < 8:
        rows = np.unpackbits(rows, axis=1).reshape(height, -1, bits)
        rows = (rows * (1 << np.arange(bits)[::-1])).sum(2)[:, :width]
    palette = parts.get(b"PLTE")
    return (rows.reshape(height, width, channels),
            np.frombuffer(palette, np.uint8).reshape(-1, 3) if palette else None)


class Results(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        y, x = np.mgrid[:HIGH, :WIDE]
        self.photo = np.stack([(x * 7) % 256, (y * 5 + x) % 256, (x * y) % 256], 2).astype(np.uint8)
        for name in ("a.ppm", "b.ppm"):
            with open(self.path(name), "wb") as f:
                f.write(b"P6 %d %d 255\n" % (WIDE, HIGH) + self.photo.tobytes())
            self.photo = self.photo[::-1]

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def fovea(self, *arguments, status=0):
        p = subprocess.run([EXE, "run", *arguments], cwd=self.folder.name, capture_output=True, text=True)
        self.assertEqual(p.returncode, status, p.stderr)
        self.told = p.stderr
        return p.stdout if status == 0 else p.stderr

    def saved(self, name):
        with open(self.path(name)) as f:
            return json.load(f)

    def test_depth(self):
        told = json.loads(self.fovea(DEPTH, "a.ppm", "--size", "70", "--json"))["depth"]
        self.assertEqual(told["unit"], "relative")
        self.assertTrue(told["least"] <= told["median"] <= told["greatest"])
        self.fovea(DEPTH, "a.ppm", "--size", "70", "--depth", "d.png", "--overlay", "o.png")
        steps, _ = read_png(self.path("d.png"))
        self.assertEqual((steps.shape, steps.dtype), ((HIGH, WIDE, 1), np.uint16))
        self.assertEqual((steps.min(), steps.max()), (1, 65535))
        over, _ = read_png(self.path("o.png"))
        self.assertEqual(over.shape, (HIGH, WIDE, 3))
        self.assertTrue((over != self.photo).any())
        # As a picture of colours: with --colormap gray they are proportional to the steps.
        self.fovea(DEPTH, "a.ppm", "--size", "70", "--depth", "g.png", "--colormap", "gray")
        gray, _ = read_png(self.path("g.png"))
        np.testing.assert_allclose(gray[:, :, 0], (steps[:, :, 0] - 1.0) / 65534 * 255, atol=0.6)
        self.assertTrue((gray[:, :, 0] == gray[:, :, 2]).all())
        self.fovea(DEPTH, "a.ppm", "--size", "70", "--depth", "t.png", "--colormap", "turbo")
        turbo, _ = read_png(self.path("t.png"))
        at = np.unravel_index(steps[:, :, 0].argmax(), (HIGH, WIDE))
        np.testing.assert_array_equal(turbo[at], [122, 4, 3])

    def test_depth_of_several_pictures(self):
        self.fovea(DEPTH, "a.ppm", "b.ppm", "--size", "56", "--depth", "d.png")
        first, second = (read_png(self.path("d-%s.png" % n))[0] for n in "ab")
        self.assertTrue((first != second).any())

    def masks(self, rule, *more):
        self.fovea(MASKS, "a.ppm", "--mask-rule", rule, "--score", "0.02", "--masks", "m.json", *more)
        return self.saved("m.json")

    def test_masks(self):
        for rule in ("panoptic", "instance"):
            records = self.masks(rule)
            self.assertGreater(len(records), 0)
            for m in records:
                runs = run_lengths.unpacked(m["segmentation"]["counts"])
                self.assertEqual(m["segmentation"]["size"], [HIGH, WIDE])
                self.assertEqual(sum(runs), HIGH * WIDE)
                inside = np.repeat(np.arange(len(runs)) % 2, runs).reshape(WIDE, HIGH).T
                self.assertEqual(inside.sum(), m["area"])
                y, x = np.nonzero(inside)
                self.assertEqual(m["bbox"], [x.min(), y.min(), x.max() + 1 - x.min(), y.max() + 1 - y.min()])
                self.assertEqual((m["image_id"], m["file_name"]), (0, "a.ppm"))
            self.fovea(MASKS, "a.ppm", "--mask-rule", rule, "--score", "0.02", "--masks", "m.png")
            index, palette = read_png(self.path("m.png"))
            self.assertEqual((index.shape, len(palette)), ((HIGH, WIDE, 1), len(records) + 1))
            if rule == "panoptic":
                self.assertEqual([int((index == k + 1).sum()) for k in range(len(records))],
                                 [m["area"] for m in records])

    def test_masks_are_drawn(self):
        records = self.masks("panoptic", "--overlay", "o.png")
        over, _ = read_png(self.path("o.png"))
        self.fovea(MASKS, "a.ppm", "--mask-rule", "panoptic", "--score", "0.02", "--masks", "m.png")
        index, palette = read_png(self.path("m.png"))
        changed = (over != self.photo).any(2)
        self.assertGreater(changed[index[:, :, 0] > 0].mean(), 0.9)
        told = json.loads(self.fovea(MASKS, "a.ppm", "--score", "0.02", "--json"))["masks"]
        self.assertEqual([m["area"] for m in told], [m["area"] for m in records])
        self.assertIn("no mask", self.fovea(MASKS, "a.ppm", "--score", "1"))

    def test_many_masks(self):
        """A .json holds all masks of a picture, a .png the first 255 of them."""
        model = MANY_MASKS, "a.ppm", "--size", "216", "--score", "1e-6"
        self.fovea(*model, "--masks", "m.json", "--boxes", "b.json")
        records = self.saved("m.json")
        self.assertGreater(len(records), 255)
        self.assertEqual([m["score"] for m in records], sorted((m["score"] for m in records), reverse=True))
        scores = [b["score"] for b in self.saved("b.json")]
        self.assertTrue(set(m["score"] for m in records) <= set(scores))
        self.fovea(*model, "--masks", "m.png")
        self.assertIn("255 masks; %d more" % (len(records) - 255), self.told)
        index, palette = read_png(self.path("m.png"))
        self.assertEqual(len(palette), 256)
        first = np.full(HIGH * WIDE, 0)  # of the records that have a number, the first is on top
        for k in range(255, 0, -1):
            runs = run_lengths.unpacked(records[k - 1]["segmentation"]["counts"])
            first[np.repeat(np.arange(len(runs)) % 2, runs).reshape(WIDE, HIGH).T.ravel() == 1] = k
        np.testing.assert_array_equal(index[:, :, 0].ravel(), first)
        self.assertEqual(len(json.loads(self.fovea(*model, "--masks", "m.png", "--json"))["masks"]), len(records))

    def test_poses(self):
        self.fovea(POSE, "a.ppm", "b.ppm", "--pose", "p.json", "--overlay", "o.png")
        records = self.saved("p.json")
        self.assertEqual([(p["image_id"], p["file_name"]) for p in records], [(0, "a.ppm"), (1, "b.ppm")])
        points = np.array(records[0]["keypoints"]).reshape(-1, 3)
        self.assertEqual((len(points), records[0]["num_keypoints"]), (17, 17))
        self.assertAlmostEqual(points[:, 2].mean(), records[0]["score"], places=5)
        told = json.loads(self.fovea(POSE, "a.ppm", "--json"))["keypoints"]
        self.assertEqual([p["name"] for p in told][:2], ["nose", "left eye"])
        np.testing.assert_allclose([[p["x"], p["y"]] for p in told], points[:, :2], atol=1e-4)
        over, _ = read_png(self.path("o-b.png"))
        self.assertEqual(over.shape, (HIGH, WIDE, 3))

    def test_points_are_drawn(self):
        """The pixels around every key point change."""
        self.fovea(POSE, "a.ppm", "--pose", "p.json", "--overlay", "o.png", "--score", "1e-9")
        over, _ = read_png(self.path("o.png"))
        for x, y, score in np.array(self.saved("p.json")[0]["keypoints"]).reshape(-1, 3):
            if score > 0 and 2 < x < WIDE - 2 and 2 < y < HIGH - 2:
                near = over[int(y) - 2:int(y) + 3, int(x) - 2:int(x) + 3]
                self.assertTrue((near != self.photo[int(y) - 2:int(y) + 3, int(x) - 2:int(x) + 3]).any())

    def test_boxes_are_drawn(self):
        self.fovea(BOXES, "a.ppm", "--boxes", "b.json", "--overlay", "o.png", "--score", "0.3")
        drawn = [b["bbox"] for b in self.saved("b.json") if b["score"] >= 0.3 and min(b["bbox"][2:]) > 2]
        over, _ = read_png(self.path("o.png"))
        self.assertGreater(len(drawn), 0)
        for x, y, w, h in drawn:
            middle = int(min(max(y + h / 2, 0), HIGH - 1))
            left = int(min(max(x + 0.5, 0), WIDE - 1))  # the first pixel whose centre is inside
            self.assertTrue((over[middle, left] != self.photo[middle, left]).any())
        self.fovea(BOXES, "a.ppm", "--overlay", "n.png", "--score", "1")
        np.testing.assert_array_equal(read_png(self.path("n.png"))[0], self.photo)

    def test_refusals(self):
        for model, option, name, text in (
                (POSE, "--depth", "d.png", "predicts no depth"), (DEPTH, "--pose", "p.json", "no key points"),
                (DEPTH, "--masks", "m.png", "finds no masks"), (DEPTH, "--boxes", "b.json", "finds no boxes")):
            self.assertIn(text, self.fovea(model, "a.ppm", option, name, status=2))
        for option, name, text in (("--depth", "d.jpg", "must end with .png"), ("--pose", "p.png", "must end with .json"),
                                   ("--masks", "m.jpg", ".png or .json"), ("--mask-rule", "x", "instance"),
                                   ("--score", "2", "0 to 1"), ("--colormap", "jet", "turbo")):
            self.assertIn(text, self.fovea(MASKS, "a.ppm", option, name, status=1))
        self.assertIn("--colormap needs", self.fovea(DEPTH, "a.ppm", "--colormap", "turbo", status=1))
        self.assertIn("would be written to the same file", self.fovea(MASKS, "a.ppm", "--overlay", "o.png", "--masks",
                                                           "o.png", status=1))
        self.assertIn("no segmentation head",
                      self.fovea("synthetic:dinov2-s", "a.ppm", "--overlay", "o.png", status=2))


if __name__ == "__main__":
    EXE = os.path.abspath(sys.argv.pop(1))
    counted.main()
