#!/usr/bin/env python3
"""test_eval_coco.py: compares all twelve numbers of `fovea eval --annotations` with those of pycocotools.

    test_eval_coco.py path/to/fovea

The true boxes are made from those of `fovea run --boxes` for random pictures: shifted a little or far, omitted,
duplicated, with another class, of all sizes, some of them crowds.
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

QUERIES = os.path.join(HERE, "..", "data", "golden", "models", "rf-detr-02")
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
        p = subprocess.run([EXE, *args], capture_output=True, text=True, cwd=self.folder)
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

    def theirs(self, truth, boxes, ids):
        results = [{"image_id": 1000 - b["image_id"], "category_id": int(ids[b["category_id"]]), "bbox": b["bbox"],
                    "score": b["score"]} for b in boxes]
        with contextlib.redirect_stdout(io.StringIO()):
            whole = coco.COCO()
            whole.dataset = truth
            whole.createIndex()
            e = cocoeval.COCOeval(whole, whole.loadRes(results), "bbox")
            e.evaluate()
            e.accumulate()
            e.summarize()
        return e.stats

    def compare(self, model, size, side, classes, rounds):
        rng = np.random.default_rng(3)
        seen = np.zeros(len(KEYS), bool)
        for i in range(PICTURES):
            w, h = rng.integers(side // 2, side, 2)
            with open(self.path("data/%02d.ppm" % i), "wb") as f:
                f.write(b"P6 %d %d 255\n" % (w, h) + rng.integers(0, 256, (h, w, 3), np.uint8).tobytes())
        self.fovea("run", model, "data", "--size", size, "--boxes", "boxes.json")
        with open(self.path("boxes.json")) as f:
            boxes = json.load(f)
        for _ in range(rounds):
            truth, ids = self.truth(rng, boxes, classes)
            with open(self.path("truth.json"), "w") as f:
                json.dump(truth, f)
            want = self.theirs(truth, boxes, ids)
            got = json.loads(self.fovea("eval", model, "--data", "data", "--size", size, "--annotations", "truth.json",
                                        "--json"))["metrics"]
            for key, value in zip(KEYS, want):
                self.assertAlmostEqual(got[key], value, delta=1e-9, msg=key)
            seen |= (want > 0.01) & (want < 0.99)
        return seen

    def test_queries(self):
        self.assertTrue(self.compare(QUERIES, "28", 700, 4, 10).sum() >= 9)

    def test_anchors(self):
        self.assertTrue(self.compare("synthetic:mavit-t-retinanet", "96", 400, 80, 3).all())


if __name__ == "__main__":
    EXE = os.path.abspath(sys.argv.pop(1))
    counted.main()
