#!/usr/bin/env python3
"""test_eval.py: compares `fovea eval` with numpy on the outputs of `fovea run`, and checks that a killed run
can be continued.

    test_eval.py path/to/fovea
"""
import csv
import io
import json
import os
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest
import zlib

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path += [os.path.join(HERE, ".."), os.path.join(HERE, "..", "models")]
import counted

np = counted.need("numpy")

import test_linearised as vit
from test_segmentation import read_png, resized

DETECTOR = os.path.join(HERE, "..", "data", "golden", "models", "rf-detr-02")
VIT = os.path.join(HERE, "..", "data", "golden", "models", "vit-01")
DIGITS = os.path.join(HERE, "..", "..", "bench", "digits", "softmax")
CLASSES = 11  # classes of the digit scenes: the background and ten digits


def ppm(pixels):
    return b"P6 %d %d 255\n" % (pixels.shape[1], pixels.shape[0]) + pixels.astype(np.uint8).tobytes()


def grey_png(values, depth=8):
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    rows = np.ascontiguousarray(values, ">u2" if depth == 16 else np.uint8)
    data = b"".join(b"\0" + row.tobytes() for row in rows)
    head = struct.pack(">IIBBBBB", values.shape[1], values.shape[0], depth, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(data)) + chunk(b"IEND", b"")


def packed(tensors):
    """A safetensors file of bytes."""
    head, data = {}, b""
    for name, values in tensors.items():
        raw = np.ascontiguousarray(values, np.uint8).tobytes()
        head[name] = {"dtype": "U8", "shape": list(values.shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(head).encode()
    return struct.pack("<Q", len(text)) + text + data


def segment_scores(truth, found):
    """(mIoU, pixel accuracy) of pairs of arrays; 255 is not a class."""
    both, either, right, all_ = np.zeros(256), np.zeros(256), 0, 0
    for t, f in zip(truth, found):
        t, f = t[t != 255], f[t != 255]
        right, all_ = right + (t == f).sum(), all_ + t.size
        for k in range(256):
            both[k] += ((t == k) & (f == k)).sum()
            either[k] += ((t == k) | (f == k)).sum()
    return (both[either > 0] / either[either > 0]).mean(), right / all_


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.rng = np.random.default_rng(7)

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def write(self, name, data):
        os.makedirs(os.path.dirname(self.path(name)), exist_ok=True)
        with open(self.path(name), "wb") as f:
            f.write(data)

    def noise(self, width=40, height=24):
        """Smooth noise, so that features of neighbouring patches are similar but not equal."""
        coarse = self.rng.integers(0, 256, (height // 8, width // 8, 3))
        return np.kron(coarse, np.ones((8, 8, 1), int)) // 2 + self.rng.integers(0, 128, (height, width, 3))

    def fovea(self, *args, code=0):
        p = subprocess.run([EXE, *map(str, args)], capture_output=True, text=True, cwd=self.folder)
        if code is not None:
            self.assertEqual(p.returncode, code, p.stderr)
        return p

    def results(self, *args, model=DIGITS):
        return [json.loads(line) for line in self.fovea("eval", model, *args, "--json").stdout.splitlines()]

    def refused(self, *args, code, model=DIGITS, words):
        p = self.fovea("eval", model, *args, code=code)
        self.assertIn(words, p.stderr)
        self.assertEqual(p.stdout, "")


class Classification(Case):
    def classes(self, names, each=3):
        for name in names:
            for i in range(each):
                self.write("data/%s/%d.ppm" % (name, i), ppm(self.noise()))

    def logits(self, names, each=3):
        pictures = ["data/%s/%d.ppm" % (name, i) for name in names for i in range(each)]
        self.fovea("run", VIT, *pictures, "--size", 64, "-o", "o.safetensors")
        return vit.load(self.path("o.safetensors"))["logits"]

    def check(self, names, true):
        logits = self.logits(names)
        order = (-logits).argsort(1, kind="stable")
        place = [list(order[i]).index(true[i // 3]) for i in range(len(order))]
        one, = self.results("--data", "data", "--size", 64, model=VIT)
        self.assertEqual(one["params"]["task"], "classification")
        self.assertEqual((one["pictures"], one["skipped"]), (len(order), 0))
        self.assertAlmostEqual(one["metrics"]["top1"], np.mean([p < 1 for p in place]), delta=1e-12)
        self.assertAlmostEqual(one["metrics"]["top5"], np.mean([p < 5 for p in place]), delta=1e-12)
        return one["metrics"]

    def test_folders_in_the_order_of_their_names(self):
        names = ["class-%c" % c for c in "abcdefghij"]
        self.classes(names)
        self.check(names, range(10))

    def test_folders_with_names_of_classes(self):
        model = self.path("named")
        shutil.copytree(VIT, model)
        with open(os.path.join(VIT, "config.json")) as f:
            config = json.load(f)
        labels = ["tench, Tinca", "Great White", "gamma", "delta", "eps", "zeta", "eta", "theta", "iota", "kappa"]
        config["id2label"] = {str(i): text for i, text in enumerate(labels)}
        with open(os.path.join(model, "config.json"), "w") as f:
            json.dump(config, f)
        names = ["kappa", "great_white", "tench"]
        self.classes(names)
        logits = self.logits(sorted(names))
        true = [1, 9, 0]  # of great_white, kappa, tench
        one, = self.results("--data", "data", "--size", 64, model=model)
        want = np.mean([logits[i].argmax() == true[i // 3] for i in range(9)])
        self.assertAlmostEqual(one["metrics"]["top1"], want, delta=1e-12)
        self.classes(["unheard"])
        self.refused("--data", "data", "--size", 64, model=model, code=7, words="unheard")

    def test_packed_pictures(self):
        images, labels = np.stack([self.noise() for _ in range(6)]), np.array([3, 0, 9, 2, 2, 7])
        for i, picture in enumerate(images):
            self.write("data/x/%d.ppm" % i, ppm(picture))
        right = self.logits(["x"], each=6).argmax(1) == labels
        self.write("p.safetensors", packed({"images": images, "labels": labels}))
        one, = self.results("--data", "p.safetensors", "--size", 64, model=VIT)
        self.assertAlmostEqual(one["metrics"]["top1"], right.mean(), delta=1e-12)
        self.write("p.safetensors", packed({"images": images, "labels": labels + 1}))
        self.refused("--data", "p.safetensors", model=VIT, code=7, words="has class 10, but the model has only 10 classes")

    def test_folders_that_are_no_classes(self):
        self.classes(["a", "b", "c"], each=1)
        self.refused("--data", "data", model=VIT, code=7, words="3 folders")
        self.refused("--data", "data", code=2, words="no classification head")

    def test_true_class_first(self):
        """If pictures are sorted into folders by the model's own top class, the accuracy is 1."""
        self.classes(["x"], each=12)
        logits = self.logits(["x"], each=12)
        os.makedirs(self.path("own"))
        for k in range(10):
            self.write("own/%d/odd.ppm" % k, ppm(self.noise()))  # there for the number of folders
        for i, row in enumerate(logits):
            shutil.copy(self.path("data/x/%d.ppm" % i), self.path("own/%d/%d.ppm" % (row.argmax(), i)))
        for k in range(10):
            os.remove(self.path("own/%d/odd.ppm" % k))
            self.write("own/%d/odd.txt" % k, b"no picture")
            if len(os.listdir(self.path("own", str(k)))) == 1:  # no picture is of this class
                self.write("own/%d/0.ppm" % k, b"broken")
        one, = self.results("--data", "own", "--size", 64, model=VIT)
        self.assertEqual((one["pictures"], one["metrics"]["top1"], one["metrics"]["top5"]), (12, 1, 1))


class Segmentation(Case):
    def masked(self, name, width, height):
        picture = self.noise(width, height)
        mask = self.rng.integers(0, CLASSES, (height // 8, width // 8)).repeat(8, 0).repeat(8, 1)
        mask[:5] = 255
        self.write(name % "ppm", ppm(picture))
        self.write(name.replace("images", "masks") % "png", grey_png(mask))
        return mask

    def test_at_the_size_that_is_seen(self):
        masks = [self.masked("data/images/%d.%%s" % i, 336, 336) for i in range(3)]
        self.fovea("run", DIGITS, "data/images", "--labels", "l.png")
        found = [read_png(self.path("l-%d.png" % i))[0] for i in range(3)]
        want = segment_scores(masks, found)
        one, = self.results("--data", "data")
        got = one["metrics"]
        self.assertAlmostEqual(got["miou"], want[0], delta=1e-12)
        self.assertAlmostEqual(got["pixel_accuracy"], want[1], delta=1e-12)
        self.assertEqual(got["seen"], 1)
        self.assertEqual(sum(k["pixels"] for k in got["classes"]), sum((m != 255).sum() for m in masks))

    def grids(self, model, names, *more):
        self.fovea("run", model, *names, "-o", "o.safetensors", *more)
        rows = vit.load(self.path("o.safetensors"))["segmentation"]
        side = int(rows.shape[1] ** 0.5)
        return rows.reshape(len(names), side, side, -1)

    def test_masks_of_other_sizes(self):
        sizes = [(200, 120), (120, 400), (448, 448)]
        masks = [self.masked("data/%d.%%s" % i, *size) for i, size in enumerate(sizes)]
        for i in range(3):
            os.rename(self.path("data/%d.png" % i), self.path("data/%d_mask.png" % i))
        grids = self.grids(DIGITS, ["data/%d.ppm" % i for i in range(3)])
        found = [resized(g, *size).argmax(-1) for g, size in zip(grids, sizes)]
        want = segment_scores(masks, found)
        got = self.results("--data", "data")[0]["metrics"]
        self.assertAlmostEqual(got["miou"], want[0], delta=2e-4)  # scores that are nearly equal
        self.assertAlmostEqual(got["pixel_accuracy"], want[1], delta=2e-4)

    def test_what_the_crop_leaves(self):
        model = self.path("cropping")
        shutil.copytree(DIGITS, model)
        with open(os.path.join(model, "preprocessor_config.json"), "w") as f:
            json.dump({"do_resize": True, "size": {"shortest_edge": 400}, "resample": 2, "do_center_crop": True,
                       "crop_size": {"height": 336, "width": 336}, "do_rescale": True,
                       "rescale_factor": 1 / 255, "do_normalize": True, "image_mean": [0.5] * 3,
                       "image_std": [0.5] * 3}, f)
        mask = self.masked("data/images/0.%s", 400, 200)  # becomes 800 x 400, 336 x 336 of which are seen
        grid, = self.grids(model, ["data/images/0.ppm"])
        left, top, side = (800 - 336) // 4, (400 - 336) // 4, 336 // 2
        seen = mask[top:top + side, left:left + side]
        want = segment_scores([seen], [resized(grid, side, side).argmax(-1)])
        got = self.results("--data", "data", model=model)[0]["metrics"]
        self.assertAlmostEqual(got["miou"], want[0], delta=5e-4)
        self.assertAlmostEqual(got["pixel_accuracy"], want[1], delta=5e-4)
        self.assertAlmostEqual(got["seen"], (seen != 255).sum() / (mask != 255).sum(), delta=1e-12)

    def test_masks_with_unknown_classes(self):
        self.masked("data/images/0.%s", 56, 56)
        self.masked("data/images/1.%s", 56, 56)
        self.write("data/masks/1.png", grey_png(np.full((56, 56), CLASSES)))
        p = self.fovea("eval", DIGITS, "--data", "data", "--json")
        self.assertIn("images/1.ppm: the mask has class %d, but the head has only %d classes" % (CLASSES, CLASSES), p.stderr)
        one = json.loads(p.stdout)
        self.assertEqual((one["pictures"], one["skipped"]), (1, 1))

    def test_no_head(self):
        self.masked("data/images/0.%s", 56, 56)
        self.refused("--data", "data", model=VIT, code=2, words="no segmentation head")


class Agreement(Case):
    def features(self, model, *more):
        self.fovea("run", model, "data", "--features", "f.npy", *more)
        return np.load(self.path("f.npy")).astype(np.float64)

    def test_cosines(self):
        for i in range(3):
            self.write("data/%d.ppm" % i, ppm(self.noise(64, 48)))
        a = self.features(DIGITS, "--size", 224, "--compute", "f32")
        for attention, compute in (("linear:elu1", "bf16"), ("foveated", "f32")):
            b = self.features(DIGITS, "--size", 224, "--attention", attention, "--compute", compute)
            cosine = (a * b).sum(-1) / np.sqrt((a * a).sum(-1) * (b * b).sum(-1))
            one, = self.results("--data", "data", "--against", DIGITS, "--size", 224, "--attention", attention,
                                "--compute", compute)
            got = one["metrics"]
            self.assertAlmostEqual(got["cosine"], cosine.mean(), delta=1e-6)
            self.assertAlmostEqual(got["worst_picture"], cosine.mean((1, 2)).min(), delta=1e-6)
            self.assertAlmostEqual(got["worst_patch"], cosine.min(), delta=1e-6)
            self.assertEqual(one["params"]["task"], "agreement")

    def test_itself(self):
        self.write("data/0.ppm", ppm(self.noise()))
        got = self.results("--data", "data", "--against", DIGITS, "--compute", "f32")[0]["metrics"]
        self.assertTrue(all(abs(v - 1) < 1e-9 for v in got.values()), got)

    def test_models_of_other_patches(self):
        self.write("data/0.ppm", ppm(self.noise()))
        self.refused("--data", "data", "--against", VIT, code=2, words="use --size to give both")
        self.refused("--data", "data", "--against", VIT, "--size", 112, code=2, words="cannot be compared")
        self.refused("--data", "data", "--against", "nowhere", code=7, words="nowhere")

    def test_pictures_without_answers(self):
        self.write("data/0.ppm", ppm(self.noise()))
        self.refused("--data", "data", code=7, words="--against MODEL2")


class Depth(Case):
    def test_models_without_depth(self):
        self.write("data/images/0.ppm", ppm(self.noise()))
        self.write("data/depth/0.png", grey_png(np.full((24, 40), 1500), 16))
        self.refused("--data", "data", code=2, words="predicts no depth")
        self.assertTrue(self.results("--data", "data/images", "--against", DIGITS))


def average_precision(found, counted):
    """AP of one category. found: (score, correct) of each detection; counted: the number of objects."""
    right = np.array([r for _, r in sorted(found, key=lambda f: -f[0])], float)
    precision = np.maximum.accumulate((right.cumsum() / np.arange(1, len(right) + 1))[::-1])[::-1]
    at = np.searchsorted(right.cumsum() / counted, np.linspace(0, 1, 101))
    return np.append(precision, 0)[at].mean()


class Detection(Case):
    """Compares with the boxes of `fovea run --boxes`. The annotations number pictures and classes differently."""
    LABELS = ["LABEL_%d" % k for k in range(4)]

    def pictures(self, n=6):
        for i in range(n):
            self.write("data/%d.ppm" % i, ppm(self.noise(40 + 8 * i, 64 - 8 * (i % 3))))

    def boxes(self, model=DETECTOR, *more):
        self.fovea("run", model, "data", "--boxes", "boxes.json", *more)
        with open(self.path("boxes.json")) as f:
            return json.load(f)

    def coco(self, boxes, names, ids=None):
        """COCO annotations of boxes, in which later pictures have smaller ids; names: of the classes."""
        files = sorted({b["file_name"] for b in boxes})
        ids = ids or [7 * k + 3 for k in range(len(names))]
        return {"images": [{"id": 100 - 7 * i, "file_name": "elsewhere/" + os.path.basename(f)}
                           for i, f in enumerate(files)],
                "categories": [{"id": i, "name": name} for i, name in zip(ids, names)][::-1],
                "annotations": [{"id": i, "image_id": 100 - 7 * files.index(b["file_name"]), "bbox": list(b["bbox"]),
                                 "category_id": ids[b["category_id"]], "iscrowd": 0, "area": b["bbox"][2] * b["bbox"][3]}
                                for i, b in enumerate(boxes)]}

    def truth(self, coco):
        self.write("truth.json", json.dumps(coco).encode())
        return ["--data", "data", "--annotations", "truth.json"]

    def test_itself(self):
        self.pictures()
        one, = self.results(*self.truth(self.coco(self.boxes(), self.LABELS)), model=DETECTOR)
        self.assertEqual((one["params"]["task"], one["params"]["annotations"]), ("detection", "truth.json"))
        self.assertEqual((one["pictures"], one["skipped"]), (6, 0))
        got = one["metrics"]
        for key in ("ap", "ap50", "ap75", "ap_small", "ar10", "ar100", "ar_small"):
            self.assertAlmostEqual(got[key], 1, delta=1e-12)
        self.assertLess(got["ar1"], 1)
        self.assertEqual([got[k] for k in ("ap_medium", "ap_large", "ar_medium", "ar_large")], [-1] * 4)

    def test_half_of_it_elsewhere(self):
        """In every second picture the true boxes do not overlap the detected ones."""
        self.pictures()
        boxes = self.boxes()
        coco = self.coco(boxes, self.LABELS)
        for b, o in zip(boxes, coco["annotations"]):
            o["bbox"][0] += 1000 * (b["image_id"] % 2)
        classes = sorted({b["category_id"] for b in boxes})
        want = [average_precision([(b["score"], b["image_id"] % 2 == 0) for b in boxes if b["category_id"] == k],
                                  sum(b["category_id"] == k for b in boxes)) for k in classes]
        recall = [np.mean([b["image_id"] % 2 == 0 for b in boxes if b["category_id"] == k]) for k in classes]
        got = self.results(*self.truth(coco), model=DETECTOR)[0]["metrics"]
        self.assertTrue(0.1 < np.mean(want) < 0.9)
        self.assertAlmostEqual(got["ap"], np.mean(want), delta=1e-9)
        self.assertAlmostEqual(got["ap75"], np.mean(want), delta=1e-9)
        self.assertAlmostEqual(got["ar100"], np.mean(recall), delta=1e-9)

    def test_anchors(self):
        """Another detector; its classes have no names and are assigned to the categories in the order of their ids."""
        self.pictures(2)
        model = ("synthetic:mavit-t-retinanet", "--size", "64")
        boxes = [b for b in self.boxes(*model) if min(b["bbox"][2:]) > 1]
        coco = self.coco(boxes, ["class %d" % k for k in range(80)])
        one, = self.results(*self.truth(coco), *model[1:], model=model[0])
        self.assertGreater(one["metrics"]["ap"], 0.99)
        self.assertAlmostEqual(one["metrics"]["ar100"], 1, delta=1e-12)
        self.assertEqual((one["params"]["width"], one["params"]["height"]), (64, 64))

    def test_categories(self):
        """Categories are matched by name, ignoring case; objects of categories that the model lacks count as missed."""
        self.pictures()
        boxes = self.boxes()
        kinds = len({b["category_id"] for b in boxes})
        names = ["label 0", "LABEL_1", "Label_2", "label_3", "unicorn"]
        coco = self.coco(boxes, names)
        self.assertAlmostEqual(self.results(*self.truth(coco), model=DETECTOR)[0]["metrics"]["ap"], 1, delta=1e-12)
        coco["annotations"].append(dict(coco["annotations"][0], category_id=coco["categories"][0]["id"]))
        p = self.fovea("eval", DETECTOR, *self.truth(coco), "--json")
        self.assertIn("classes are matched by name: 4 of 5 categories; objects of the other", p.stderr)
        self.assertAlmostEqual(json.loads(p.stdout)["metrics"]["ap"], kinds / (kinds + 1), delta=1e-12)

    def test_categories_by_number(self):
        """A model whose classes have no names; if it has more classes than categories, ids are class numbers."""
        model = self.path("unnamed")
        shutil.copytree(DETECTOR, model)
        with open(os.path.join(model, "config.json")) as f:
            config = json.load(f)
        del config["id2label"], config["label2id"]
        with open(os.path.join(model, "config.json"), "w") as f:
            json.dump(config, f)
        self.pictures()
        boxes = self.boxes(model)
        coco = self.coco(boxes, self.LABELS)
        self.assertAlmostEqual(self.results(*self.truth(coco), model=model)[0]["metrics"]["ap"], 1, delta=1e-12)
        coco = self.coco([b for b in boxes if b["category_id"] != 0], self.LABELS, list(range(4)))
        del coco["categories"][-1]  # class 0
        self.assertAlmostEqual(self.results(*self.truth(coco), model=model)[0]["metrics"]["ap"], 1, delta=1e-12)
        coco["categories"][0]["id"] = 90
        coco["annotations"] = [o for o in coco["annotations"] if o["category_id"] != 3]
        self.refused(*self.truth(coco), model=model, code=7, words="category 90 is not one of the model's 4 classes")

    def test_pictures_that_are_not_there(self):
        self.pictures()
        args = self.truth(self.coco(self.boxes(), self.LABELS))
        want = self.results(*args, model=DETECTOR)[0]["metrics"]["ap"]
        os.remove(self.path("data/4.ppm"))
        self.write("data/more.ppm", ppm(self.noise()))
        p = self.fovea("eval", DETECTOR, *args, "--json")
        self.assertIn("1 of its 6 pictures are not in data and are left out; the first is elsewhere/4.ppm", p.stderr)
        self.assertIn("data: 1 of its 6 pictures are not in truth.json and are left out", p.stderr)
        one = json.loads(p.stdout)
        self.assertEqual((one["pictures"], one["skipped"]), (5, 0))
        self.assertAlmostEqual(one["metrics"]["ap"], want, delta=1e-12)
        self.refused(*args, "--strict", model=DETECTOR, code=7, words="lists elsewhere/4.ppm, which is not in data")
        for i in range(6):
            if i != 4:
                os.remove(self.path("data/%d.ppm" % i))
        self.refused(*args, model=DETECTOR, code=7, words="contains none of the pictures that truth.json lists")

    def test_goes_on(self):
        """Goes on after a broken picture, which ends a run with --strict; refuses to with other annotations."""
        self.pictures()
        coco = self.coco(self.boxes(), self.LABELS)
        args = [*self.truth(coco), "-o", "o.json"]
        self.fovea("eval", DETECTOR, *args)
        with open(self.path("o.json")) as f:
            want = json.load(f)[0]["metrics"]
        os.rename(self.path("data/3.ppm"), self.path("3.ppm"))
        self.write("data/3.ppm", b"P6 64 48 255\n short")
        one, = self.results(*args[:4], model=DETECTOR)
        self.assertEqual((one["pictures"], one["skipped"]), (5, 1))
        self.assertAlmostEqual(one["metrics"]["ap"], 1, delta=1e-12)  # its objects do not count
        self.refused(*args, "--strict", model=DETECTOR, code=7, words="3.ppm")
        with open(self.path("o.json.journal")) as f:
            self.assertEqual(len(f.read().splitlines()), 1 + 3)
        os.rename(self.path("3.ppm"), self.path("data/3.ppm"))
        changed = json.loads(json.dumps(coco))
        changed["annotations"][0]["bbox"][0] += 1
        self.truth(changed)
        self.refused(*args, "--resume", model=DETECTOR, code=7, words="another objects")
        self.truth(coco)
        self.fovea("eval", DETECTOR, *args, "--resume")
        with open(self.path("o.json")) as f:
            self.assertEqual(json.load(f)[0]["metrics"], want)
        self.assertFalse(os.path.exists(self.path("o.json.journal")))

    def test_what_is_no_truth(self):
        self.pictures(2)
        coco = self.coco(self.boxes(), self.LABELS)
        args = self.truth(coco)

        def changed(**lists):
            return json.dumps(dict(coco, **lists)).encode()

        box, image = coco["annotations"][0], coco["images"][0]
        for text, words in (
                (b'{"images": [', "truth.json: line 1"), (b"[]", "is a list, like a file of results"), (b"{}", "has no images"),
                (changed(annotations=None), "annotations is null; it must be a list"),
                (changed(categories=[]), "has no categories"),
                (changed(images=[image, dict(image, id=5)]), "could both be the same picture of data"),
                (changed(images=[image, dict(image, file_name="other")]), "images[0] and images[1] have the same id"),
                (changed(images=[{"id": 1}]), "images[0].file_name is missing"),
                (changed(images=[dict(image, id=True)]), "images[0].id is true; it must be a number or a string"),
                (changed(annotations=[box, dict(box, image_id=None)]), "annotations[1].image_id is missing"),
                (changed(annotations=[dict(box, category_id=1)]), "category_id of annotations[0] is 1, which no"),
                (changed(annotations=[dict(box, bbox=[1, 2, 3])]), "annotations[0].bbox is a list; it must be [x, y, width"),
                (changed(annotations=[dict(box, bbox=[1, 2, -3, 4])]), "annotations[0].bbox[2] is -3; it must be a number"),
                (changed(annotations=[box, dict(box, bbox=[1, 2, "3", 4])]), 'annotations[1].bbox[2] is "3"; it must be a number'),
                (changed(annotations=[dict(box, bbox=[1, float("nan"), 3, 4])]), "annotations[0].bbox[1] is NaN"),
                (changed(annotations=[dict(box, area="9")]), 'annotations[0].area is "9"; it must be a number'),
                (changed(annotations=[dict(box, iscrowd=2)]), "annotations[0].iscrowd is 2; it must be 0 or 1"),
                (changed(annotations=[3]), "annotations[0].image_id is missing")):
            with self.subTest(words=words):
                self.write("truth.json", text)
                self.refused(*args, model=DETECTOR, code=7, words=words)
        os.remove(self.path("truth.json"))
        self.refused(*args, model=DETECTOR, code=7, words="truth.json")
        self.truth(coco)
        self.refused(*args, model=VIT, code=2, words="finds neither boxes nor masks")
        self.write("classes/a/0.ppm", ppm(self.noise()))
        self.refused("--data", "classes", model=DETECTOR, code=2, words="no classification head")
        self.refused(*args, "--against", VIT, model=DETECTOR, code=1, words="one of them at a time")
        self.refused(*args, "--align", "median", model=DETECTOR, code=1, words="for depth")
        self.write("p.safetensors", packed({"images": np.stack([self.noise()])}))
        self.refused("--data", "p.safetensors", *args[2:], model=DETECTOR, code=7, words="is not a folder of pictures")
        for folder in "ab":
            self.write("twice/%s/0.ppm" % folder, ppm(self.noise()))
        self.refused("--data", "twice", *args[2:], model=DETECTOR, code=7, words="a/0.ppm and twice/b/0.ppm could both be")


class Batches(Case):
    """Batches give the same results and records as single pictures."""
    SIZES = [(40, 24)] * 4 + [(64, 48)] * 2 + [(40, 24)] + [(64, 48)] * 5  # the tenth is broken

    def setUp(self):
        super().setUp()
        for i, size in enumerate(self.SIZES):
            self.write("data/%02d.ppm" % i, ppm(self.noise(*size)))
        os.rename(self.path("data/09.ppm"), self.path("09.ppm"))
        self.write("data/09.ppm", b"P6 64 48 255\n short")
        self.args = ["--data", "data", "--against", DIGITS, "--size", 112, "--attention", "linear:elu1"]

    def records(self):
        """The journal's records without their times, each of which must exist."""
        with open(self.path("o.json.journal")) as f:
            lines = [json.loads(line) for line in f][1:]
        for line in lines:
            self.assertTrue(line.get("broken") or line.pop("ms") > 0)
        return lines

    def stopped(self, *more):
        """The records up to the broken picture."""
        self.refused(*self.args, "-o", "o.json", "--strict", *more, code=7, words="09.ppm")
        lines = self.records()
        os.remove(self.path("o.json.journal"))
        return lines

    def test_results(self):
        want, = self.results(*self.args)
        got, = self.results(*self.args, "--batch", 3)
        self.assertEqual((want["pictures"], want["skipped"]), (11, 1))
        self.assertEqual((got["pictures"], got["skipped"], got["metrics"]), (11, 1, want["metrics"]))
        self.assertEqual((got["params"].pop("batch"), got["params"]), (3, want["params"]))

    def test_records(self):
        want = self.stopped()
        self.assertEqual(len(want), 9)
        self.assertEqual(len({r["cosine"] for r in want}), 9)  # that two changed places would be seen
        self.assertEqual(self.stopped("--batch", 3), want)
        self.assertEqual(self.stopped("--batch", 256), want)

    def test_goes_on(self):
        """A run may go on with another batch size."""
        self.refused(*self.args, "-o", "o.json", "--strict", "--batch", 4, code=7, words="09.ppm")
        os.rename(self.path("09.ppm"), self.path("data/09.ppm"))
        self.fovea("eval", DIGITS, *self.args, "-o", "o.json", "--resume", "--batch", 2)
        with open(self.path("o.json")) as f:
            got, = json.load(f)
        want, = self.results(*self.args)
        self.assertEqual((got["pictures"], got["skipped"], got["metrics"]), (12, 0, want["metrics"]))

    def test_boxes(self):
        """Batches of a model with several outputs."""
        self.fovea("run", DETECTOR, *("data/%02d.ppm" % i for i in range(9)), "--boxes", "boxes.json")
        with open(self.path("boxes.json")) as f:
            boxes = json.load(f)
        names = sorted(os.listdir(self.path("data")))
        truth = {"images": [{"id": i, "file_name": name} for i, name in enumerate(names)],
                 "categories": [{"id": k, "name": "LABEL_%d" % k} for k in range(4)],
                 "annotations": [{"id": i, "image_id": names.index(os.path.basename(b["file_name"])), "iscrowd": 0,
                                  "bbox": b["bbox"], "category_id": b["category_id"], "area": 9}
                                 for i, b in enumerate(boxes)]}
        self.write("truth.json", json.dumps(truth).encode())
        args = ["--data", "data", "--annotations", "truth.json"]
        got = [self.results(*args, "--batch", n, model=DETECTOR)[0]["metrics"] for n in (1, 3)]
        self.assertEqual(got[0], got[1])
        self.assertGreater(got[0]["ar100"], 0.5)

    def test_what_is_no_number(self):
        for text in ("0", "257", "x"):
            self.refused(*self.args, "--batch", text, code=1, words="--batch")


class Tables(Case):
    def setUp(self):
        super().setUp()
        for i in range(2):
            self.write("data/%d.ppm" % i, ppm(self.noise()))
        self.lists = ["--data", "data", "--against", DIGITS, "--attention", "softmax,linear:elu1", "--compute",
                      "f32,int8", "--size", "112,168x112"]

    def test_every_combination_once(self):
        found = [(r["params"]["attention"], r["params"]["compute"], r["params"]["width"], r["params"]["height"])
                 for r in self.results(*self.lists)]
        self.assertEqual(found, [(a, c, w, 112) for w in (112, 168) for a in ("softmax", "linear:elu1")
                                 for c in ("f32", "int8")])

    def test_forms(self):
        forms = {}
        for name in ("text", "md", "csv", "json", "jsonl"):
            forms[name] = self.fovea("eval", DIGITS, *self.lists, "--format", name).stdout
            self.fovea("eval", DIGITS, *self.lists, "-o", "o." + name)
            with open(self.path("o." + name)) as f:
                self.assertEqual(len(f.read().splitlines()), len(forms[name].splitlines()))
        self.assertEqual(len(forms["text"].splitlines()), 1 + 8 + 1)
        self.assertEqual(len(forms["md"].splitlines()), 2 + 8 + 1)
        table = list(csv.DictReader(io.StringIO(forms["csv"])))
        whole, lines = json.loads(forms["json"]), [json.loads(t) for t in forms["jsonl"].splitlines()]
        self.assertEqual([len(x) for x in (table, whole, lines)], [8, 8, 8])
        for row, a, b in zip(table, whole, lines):
            self.assertEqual(a["schema"], "fovea.eval/1")
            self.assertEqual(a["metrics"], b["metrics"])
            self.assertAlmostEqual(float(row["metrics_cosine"]), a["metrics"]["cosine"], delta=1e-8)
            self.assertEqual(row["params_attention"], a["params"]["attention"])
        for cell in ("%.4f" % whole[3]["metrics"]["worst_patch"], "168x112"):
            self.assertIn(cell, forms["md"])
            self.assertIn(cell, forms["text"])

    def test_what_cannot_be_asked(self):
        data = ["--data", "data", "--against", DIGITS]
        for args, code, words in (
                ([], 1, "--data DIR"), (["--data", "data", "--align", "middle"], 1, "none, median, affine"),
                ([*data, "--align", "median"], 1, "for depth"), ([*data, "--depth-scale", "0"], 1, "depth-scale"),
                ([*data, "--compute", "f32,f8"], 1, "f8"), ([*data, "--size", "112,"], 1, "--size"),
                ([*data, "--attention", "softmax,quadratic"], 2, "quadratic"), ([*data, "--resume"], 1, "-o"),
                ([*data, "-o", "no/where.md"], 7, "no/where.md"), ([*data, "--format", "xml"], 1, "xml"),
                (["--data", "nowhere"], 7, "nowhere"), ([*data, "more"], 1, "one MODEL")):
            with self.subTest(args=args):
                self.refused(*args, code=code, words=words)
        os.makedirs(self.path("empty"))
        self.refused("--data", "empty", code=7, words="contains no pictures")


class Going(Case):
    """Broken input, interrupted runs, and runs that are continued."""

    def data(self, n):
        for i in range(n):
            self.write("data/%02d.ppm" % i, ppm(self.noise(64, 48)))

    def test_broken_pictures(self):
        self.data(3)
        want = self.results("--data", "data", "--against", DIGITS, "--attention", "linear:elu1")[0]
        self.write("data/01a.ppm", b"P6 64 48 255\n short")
        self.write("data/00.png", b"no picture")
        args = ["--data", "data", "--against", DIGITS, "--attention", "linear:elu1"]
        p = self.fovea("eval", DIGITS, *args, "--json")
        one = json.loads(p.stdout)
        self.assertIn("01a.ppm", p.stderr)
        self.assertIn("00.png", p.stderr)
        self.assertEqual((one["pictures"], one["skipped"]), (3, 2))
        self.assertEqual(one["metrics"], want["metrics"])
        self.refused(*args, "--strict", code=7, words="00.png")
        for name in ("00", "01", "02"):
            os.remove(self.path("data/%s.ppm" % name))
        self.refused(*args, code=7, words="none of its 2 pictures")

    def start(self, *args):
        return subprocess.Popen([EXE, "eval", DIGITS, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                cwd=self.folder)

    def journal(self):
        try:
            with open(self.path("o.json.journal"), "rb") as f:
                return f.read().splitlines(True)
        except FileNotFoundError:
            return []

    def stop(self, args, lines, how):
        p = self.start(*args)
        limit = time.monotonic() + 60
        while len(self.journal()) < lines and time.monotonic() < limit and p.poll() is None:
            time.sleep(0.002)
        p.send_signal(how)
        p.communicate()
        return p.returncode

    def whole(self, args):
        with open(self.path("o.json")) as f:
            return [(r["params"], r["pictures"], r["skipped"], r["metrics"]) for r in json.load(f)]

    def test_resumed_is_the_whole(self):
        self.data(8)
        self.write("data/03a.ppm", b"broken")
        args = ["--data", "data", "--against", DIGITS, "--attention", "softmax,linear:elu1", "--size", "784",
                "-o", "o.json"]
        self.fovea("eval", DIGITS, *args)
        want = self.whole(args)
        self.assertEqual(self.journal(), [])
        os.remove(self.path("o.json"))
        for lines, how in ((3, signal.SIGKILL), (9, signal.SIGTERM), (13, signal.SIGKILL)):
            code = self.stop(args if lines == 3 else [*args, "--resume"], lines, how)
            self.assertEqual(code, -9 if how == signal.SIGKILL else 128 + 15)
            self.assertFalse(os.path.exists(self.path("o.json")))
        self.assertGreaterEqual(len(self.journal()), 13)
        self.assertLess(len(self.journal()), 1 + 18)
        before = self.journal()
        with open(self.path("o.json.journal"), "ab") as f:
            f.write(b'{"ms":12.5,"cosi')  # as if the machine had crashed here
        self.refused(*args, code=1, words="continue it with --resume")
        self.refused(*args[:-2], "-o", "o.json", "--resume", "--compute", "int8", code=7, words="another cases")
        self.assertEqual(self.journal()[:len(before)], before)
        self.fovea("eval", DIGITS, *args, "--resume")
        self.assertEqual(self.whole(args), want)
        self.assertEqual(self.journal(), [])

    def test_other_pictures(self):
        self.data(4)
        args = ["--data", "data", "--against", DIGITS, "--size", "1120", "-o", "o.json"]
        self.assertEqual(self.stop(args, 2, signal.SIGKILL), -9)
        os.rename(self.path("data/03.ppm"), self.path("data/04.ppm"))
        self.refused(*args, "--resume", code=7, words="another names")
        self.write("o.json.journal", b"my notes\n")
        self.refused(*args, "--resume", code=7, words="is not a journal")
        self.assertEqual(self.journal(), [b"my notes\n"])


if __name__ == "__main__":
    EXE = os.path.abspath(sys.argv.pop(1))
    counted.main()
