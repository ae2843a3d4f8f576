#!/usr/bin/env python3
"""test_eval_coco.py: compares the numbers of `fovea eval --annotations` with those of pycocotools and panopticapi.

    test_eval_coco.py path/to/fovea

The true boxes, masks and segments are made from those that `fovea run` finds in random pictures: shifted a little or
far, omitted, duplicated, with another class, of all sizes, some of them crowds. Masks are polygons or run lengths,
packed or not.
"""
import contextlib
import io
import json
import os
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.join(HERE, ".."))
import counted

np = counted.need("numpy")
coco = counted.need("pycocotools.coco", "it is for comparison alone")
cocoeval = counted.need("pycocotools.cocoeval", "it is for comparison alone")
rle = counted.need("pycocotools.mask", "it is for comparison alone")

MODELS = os.path.join(HERE, "..", "data", "golden", "models")
QUERIES = os.path.join(MODELS, "rf-detr-02")
BOXES_AND_MASKS = os.path.join(MODELS, "rf-detr-seg-01")
MASKS = os.path.join(MODELS, "mask2former-01")
KEYS = ("ap", "ap50", "ap75", "ap_small", "ap_medium", "ap_large", "ar1", "ar10", "ar100", "ar_small", "ar_medium",
        "ar_large")
PICTURES = 12


class Coco(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        os.mkdir(self.path("data"))

    def path(self, name):
        return os.path.join(self.folder, name)

    def fovea(self, *args):
        p = subprocess.run([EXE, *map(str, args)], capture_output=True, text=True, cwd=self.folder)
        self.assertEqual(p.returncode, 0, p.stderr)
        return p.stdout

    def truth(self, rng, boxes, classes):
        """Not every class has an object; ids are not in order."""
        ids = rng.permutation(200)[:classes]
        ids.sort()
        objects = []
        for b in boxes:
            for _ in range(rng.choice([0, 1, 1, 1, 2])):
                x, y, w, h = b["bbox"]
                shift = rng.choice([0, 0.02, 0.1, 0.3, 3])
                x, y = x + shift * w * rng.standard_normal(), y + shift * h * rng.standard_normal()
                w, h = w * np.exp(shift * 0.3 * rng.standard_normal()), h * np.exp(shift * 0.3 * rng.standard_normal())
                kind = b["category_id"] if rng.random() < 0.9 else rng.integers(classes)
                objects.append({"id": len(objects) + 1, "image_id": int(1000 - b["image_id"]),
                                "category_id": int(ids[kind]), "bbox": [float(v) for v in (x, y, w, h)],
                                "area": float(w * h * rng.uniform(0.5, 1)), "iscrowd": int(rng.random() < 0.1)})
        for key in "image_id", "category_id":  # annotations of unlisted pictures or categories, which are ignored
            objects.append(dict(objects[0], id=len(objects) + 1, **{key: 7777}))
        names = sorted({(b["image_id"], b["file_name"]) for b in boxes})
        return {"images": [{"id": 1000 - i, "file_name": os.path.basename(name)} for i, name in names],
                "categories": [{"id": int(i), "name": "LABEL_%d" % k} for k, i in enumerate(ids)],
                "annotations": objects}, ids

    def theirs(self, truth, boxes, ids, kind="bbox", key="bbox"):
        results = [{"image_id": 1000 - b["image_id"], "category_id": int(ids[b["category_id"]]), key: b[key],
                    "score": b["score"]} for b in boxes]
        with contextlib.redirect_stdout(io.StringIO()):
            whole = coco.COCO()
            whole.dataset = truth
            whole.createIndex()
            e = cocoeval.COCOeval(whole, whole.loadRes(results), kind)
            e.evaluate()
            e.accumulate()
            e.summarize()
        return e.stats

    def pictures(self, rng, side):
        for i in range(PICTURES):
            w, h = rng.integers(side // 2, side, 2)
            with open(self.path("data/%02d.ppm" % i), "wb") as f:
                f.write(b"P6 %d %d 255\n" % (w, h) + rng.integers(0, 256, (h, w, 3), np.uint8).tobytes())

    def found(self, model, option, *more):
        self.fovea("run", model, "data", option, "found.json", *more)
        with open(self.path("found.json")) as f:
            return json.load(f)

    def ours(self, model, truth, *more):
        with open(self.path("truth.json"), "w") as f:
            json.dump(truth, f)
        return json.loads(self.fovea("eval", model, "--data", "data", "--annotations", "truth.json", "--json",
                                     *more))["metrics"]

    def equal(self, got, want, prefix=""):
        for key, value in zip(KEYS, want):
            self.assertAlmostEqual(got[prefix + key], value, delta=1e-9, msg=prefix + key)
        return (want > 0.01) & (want < 0.99)

    def compare(self, model, size, side, classes, rounds):
        rng = np.random.default_rng(3)
        seen = np.zeros(len(KEYS), bool)
        self.pictures(rng, side)
        boxes = self.found(model, "--boxes", "--size", size)
        for _ in range(rounds):
            truth, ids = self.truth(rng, boxes, classes)
            seen |= self.equal(self.ours(model, truth, "--size", size), self.theirs(truth, boxes, ids))
        return seen

    def test_queries(self):
        self.assertTrue(self.compare(QUERIES, "28", 700, 4, 10).sum() >= 9)

    def test_anchors(self):
        self.assertTrue(self.compare("synthetic:mavit-t-retinanet", "96", 400, 80, 3).all())

    def outline(self, rng, x, y, w, h):
        """A star around the box, which may leave the picture, and sometimes a second polygon that overlaps it."""
        polygons = []
        for _ in range(rng.integers(1, 3)):
            n = rng.integers(3, 30)
            turn = np.sort(rng.uniform(0, 2 * np.pi, n))
            far = rng.uniform(0.5, 1.3, n)
            corners = np.stack([x + w / 2 + w / 2 * far * np.cos(turn), y + h / 2 + h / 2 * far * np.sin(turn)], 1)
            polygons.append([float(v) for v in np.round(corners, rng.integers(0, 3)).reshape(-1)])
            x, y = x + w * rng.uniform(-0.5, 0.5), y + h * rng.uniform(-0.5, 0.5)
        return polygons

    def shifted(self, rng, mask, limit):
        """The pixels of a mask, some steps away and with a corner cut off."""
        x, y, w, h = (int(v) for v in rle.toBbox(mask))
        pixels = np.roll(rle.decode(mask), rng.integers(-limit, limit + 1, 2), (0, 1))
        if rng.random() < 0.5:
            pixels[y:y + h // 3, x:x + w // 2] = 0
        packed = rle.encode(np.asfortranarray(pixels))
        return {"size": packed["size"], "counts": packed["counts"].decode()}

    def with_masks(self, rng, truth, masks):
        """Gives every object of a picture the mask of one that was found there, or polygons around its box."""
        sizes = {m["image_id"]: m["segmentation"]["size"] for m in masks}
        for image in truth["images"]:
            image["height"], image["width"] = sizes[1000 - image["id"]]
        for a in truth["annotations"]:
            there = [m for m in masks if m["image_id"] == 1000 - a["image_id"]]
            if not there or rng.random() < 0.3:
                a["segmentation"] = self.outline(rng, *a["bbox"])
                continue
            mask = there[rng.integers(len(there))]["segmentation"]
            a["segmentation"] = self.shifted(rng, mask, int(rng.choice([0, 1, 3])))
            a["area"] = float(rle.area(a["segmentation"]))
            if rng.random() < 0.3:
                a["segmentation"]["counts"] = self.counts(rle.decode(a["segmentation"]))
        return truth

    def counts(self, pixels):
        flat = pixels.reshape(-1, order="F").astype(np.int8)
        edges = np.flatnonzero(np.diff(np.concatenate([[0], flat])))
        return [int(v) for v in np.diff(np.concatenate([[0], edges, [len(flat)]]))]

    def test_masks_of_boxes(self):
        rng = np.random.default_rng(4)
        self.pictures(rng, 120)
        boxes = self.found(BOXES_AND_MASKS, "--boxes")
        masks = self.found(BOXES_AND_MASKS, "--masks", "--score", 1e-6)
        seen = np.zeros(len(KEYS), bool)
        for _ in range(4):
            truth, ids = self.truth(rng, boxes, 1 + max(b["category_id"] for b in boxes))
            truth["annotations"] = [a for a in truth["annotations"] if 7777 not in a.values()]
            truth = self.with_masks(rng, truth, masks)
            got = self.ours(BOXES_AND_MASKS, truth)
            self.equal(got, self.theirs(truth, boxes, ids))
            seen |= self.equal(got, self.theirs(truth, masks, ids, "segm", "segmentation"), "mask_")
        self.assertTrue(seen.sum() >= 6, seen)

    def test_masks_alone(self):
        rng = np.random.default_rng(5)
        self.pictures(rng, 90)
        masks = self.found(MASKS, "--masks", "--mask-rule", "instance", "--score", 1e-6)
        seen = np.zeros(len(KEYS), bool)
        for _ in range(4):
            truth, ids = self.truth(rng, masks, 1 + max(m["category_id"] for m in masks))
            truth["annotations"] = [a for a in truth["annotations"] if 7777 not in a.values()]
            truth = self.with_masks(rng, truth, masks)
            got = self.ours(MASKS, truth)
            self.assertNotIn("ap", got)
            seen |= self.equal(got, self.theirs(truth, masks, ids, "segm", "segmentation"), "mask_")
        self.assertTrue(seen.sum() >= 6, seen)


if __name__ == "__main__":
    EXE = os.path.abspath(sys.argv.pop(1))
    counted.main()
