#!/usr/bin/env python3
"""test_eval_masks.py: `fovea eval --annotations` for models that find masks: average precision of instances, and
panoptic quality compared with a plain computation of COCO's definition and, where it is installed, panopticapi.

    test_eval_masks.py path/to/fovea

test_eval_coco.py compares average precision with pycocotools.
"""
import copy
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import zlib

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path += [os.path.join(HERE, ".."), HERE]
import counted

np = counted.need("numpy")
import test_eval
from test_eval import ppm, vit

MODELS = os.path.join(HERE, "..", "data", "golden", "models")
BOXES_AND_MASKS, MASKS = (os.path.join(MODELS, name) for name in ("rf-detr-seg-01", "mask2former-01"))
EOMT = os.path.join(MODELS, "eomt-masked-01")
CLASSES = {MASKS: 5, EOMT: 3, BOXES_AND_MASKS: 4}


def colour_png(numbers):
    """A PNG whose colours are the numbers, as in COCO's panoptic format."""
    rgb = np.stack([numbers & 255, numbers >> 8 & 255, numbers >> 16], -1).astype(np.uint8)
    rows = b"".join(b"\0" + row.tobytes() for row in rgb)

    def chunk(kind, data):
        return len(data).to_bytes(4, "big") + kind + data + zlib.crc32(kind + data).to_bytes(4, "big")

    size = numbers.shape[1].to_bytes(4, "big") + numbers.shape[0].to_bytes(4, "big")
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", size + b"\x08\x02\0\0\0") + chunk(b"IDAT", zlib.compress(rows)) +
            chunk(b"IEND", b""))


def quality(pictures, things):
    """Panoptic quality by its definition. pictures: true map, true segments {number: (category, crowd)}, found map,
    found segments {number: category}. Returns (pq, sq, rq) of all categories, of things and of stuff."""
    right, wrong, missed, overlap = {}, {}, {}, {}

    def add(to, category, value=1):
        to[category] = to.get(category, 0) + value

    for true_map, true, found_map, found in pictures:
        matched, used = set(), set()
        for t, (category, crowd) in true.items():
            for f, kind in found.items():
                both = ((true_map == t) & (found_map == f)).sum()
                either = ((true_map == t) | ((found_map == f) & (true_map != 0))).sum()
                if not crowd and kind == category and both / either > 0.5:
                    add(right, category)
                    add(overlap, category, both / either)
                    matched.add(t)
                    used.add(f)
        for t, (category, crowd) in true.items():
            if t not in matched and not crowd:
                add(missed, category)
        for f, kind in found.items():
            crowds = [t for t, (category, crowd) in true.items() if crowd and category == kind]
            inside = found_map == f
            excused = (inside & ((true_map == 0) | np.isin(true_map, crowds[-1:]))).sum()
            if f not in used and excused / inside.sum() <= 0.5:
                add(wrong, kind)

    def scores(among):
        rows = []
        for c in sorted(among & (set(right) | set(wrong) | set(missed))):
            n = right.get(c, 0)
            all_of_it = n + 0.5 * wrong.get(c, 0) + 0.5 * missed.get(c, 0)
            rows.append((overlap.get(c, 0) / all_of_it, overlap.get(c, 0) / n if n else 0, n / all_of_it))
        return np.mean(rows, 0) if rows else np.full(3, -1.0)

    return [scores(set(things)), scores({c for c, thing in things.items() if thing}),
            scores({c for c, thing in things.items() if not thing})]


class Case(test_eval.Case):
    def pictures(self, n, low, high):
        for i in range(n):
            w, h = 8 * self.rng.integers(low // 8, high // 8, 2)
            self.write("data/%02d.ppm" % i, ppm(self.noise(w, h)))

    def masks(self, model, *more):
        self.fovea("run", model, "data", "--masks", "masks.json", *more)
        with open(self.path("masks.json")) as f:
            return json.load(f)

    def annotate(self, truth, name="truth.json"):
        self.write(name, json.dumps(truth).encode())
        return ["--data", "data", "--annotations", name]


class Instances(Case):
    def truth(self, model, *more):
        """Every mask that the model finds, as an object."""
        masks = self.masks(model, "--mask-rule", "instance", *more)
        sizes = {(m["image_id"], m["file_name"], *m["segmentation"]["size"]) for m in masks}
        return {"images": [{"id": i, "file_name": os.path.basename(name), "height": h, "width": w}
                           for i, name, h, w in sorted(sizes)],
                "categories": [{"id": k, "name": "LABEL_%d" % k} for k in sorted({m["category_id"] for m in masks})],
                "annotations": [dict(m, iscrowd=0) for m in masks]}

    def test_itself(self):
        self.pictures(4, 40, 70)
        one, = self.results(*self.annotate(self.truth(MASKS, "--score", 1e-6)), model=MASKS)
        self.assertEqual(one["params"]["task"], "instance segmentation")
        self.assertAlmostEqual(one["metrics"]["mask_ap"], 1, delta=1e-12)
        self.assertAlmostEqual(one["metrics"]["mask_ar100"], 1, delta=1e-12)
        self.assertNotIn("ap", one["metrics"])

    def test_boxes_and_masks(self):
        self.pictures(4, 60, 100)
        truth = self.truth(BOXES_AND_MASKS, "--score", 1e-6)
        one, = self.results(*self.annotate(truth), model=BOXES_AND_MASKS)
        self.assertEqual(one["params"]["task"], "detection and instance segmentation")
        self.assertAlmostEqual(one["metrics"]["mask_ap"], 1, delta=1e-12)
        self.assertLess(one["metrics"]["ap"], 1)  # the boxes are not those around the masks
        for a in truth["annotations"]:
            del a["segmentation"]
        one, = self.results(*self.annotate(truth), model=BOXES_AND_MASKS)
        self.assertEqual(one["params"]["task"], "detection")
        self.assertNotIn("mask_ap", one["metrics"])

    def test_an_interrupted_run_goes_on(self):
        self.pictures(5, 40, 70)
        args = self.annotate(self.truth(MASKS, "--score", 1e-6))
        whole, = self.results(*args, model=MASKS)
        os.rename(self.path("data/03.ppm"), self.path("kept"))
        self.write("data/03.ppm", b"P6 no picture")
        self.fovea("eval", MASKS, *args, "-o", "o.json", "--strict", code=7)
        os.rename(self.path("kept"), self.path("data/03.ppm"))
        self.fovea("eval", MASKS, *args, "-o", "o.json", "--strict", "--resume")
        with open(self.path("o.json")) as f:
            self.assertEqual(json.load(f)[0]["metrics"], whole["metrics"])

    def test_what_is_no_mask(self):
        self.pictures(2, 40, 70)
        truth = self.truth(MASKS, "--score", 1e-6)
        counts = {"size": [4, 5], "counts": [3, 18]}
        for value, words in ((counts, "segmentation.counts is a list; it must be run lengths whose sum"),
                             (dict(counts, counts=[3, -1, 18]), "sum is the number of pixels"),
                             (dict(counts, counts=[20.5]), "sum is the number of pixels"),
                             (dict(counts, counts="3"), "sum is the number of pixels"),
                             (dict(counts, counts="d0\u007f"), "sum is the number of pixels"),
                             (dict(counts, counts="oooooooooo"), "sum is the number of pixels"),
                             (dict(counts, size=[20]), "segmentation.size is a list; it must be [height, width]"),
                             (dict(counts, size=[0, 5]), "[height, width] in pixels"),
                             (dict(counts, size=[70000, 5]), "[height, width] in pixels"),
                             ([[1, 2, 3, 4]], "segmentation[0] is a list; it must be a polygon"),
                             ([[1, 2, 3, 4, 5, 6], [1, 2, 3, 4, 5, 6, 7]], "segmentation[1] is a list"),
                             ([[1, 2, 3, 4, 5, "x"]], 'segmentation[0][5] is "x"; it must be a coordinate'),
                             ([[1, 2, 3, 4, 5, 1e9]], "must be a coordinate in pixels"),
                             ([1, 2, 3, 4, 5, 6], "segmentation[0] is 1; it must be a polygon")):
            wrong = copy.deepcopy(truth)
            wrong["annotations"][1]["segmentation"] = value
            self.refused(*self.annotate(wrong), model=MASKS, code=7, words=words)
        wrong = copy.deepcopy(truth)
        del wrong["annotations"][0]["segmentation"]
        self.refused(*self.annotate(wrong), model=MASKS, code=7, words="1 of %d objects have no segmentation" %
                     len(wrong["annotations"]))
        wrong["annotations"][0]["segmentation"] = [[1, 2, 30, 4, 5, 60]]
        del wrong["images"][0]["width"]
        self.refused(*self.annotate(wrong), model=MASKS, code=7, words="images[0].width is missing")
        wrong["images"][0]["width"] = 17
        p = self.fovea("eval", MASKS, *self.annotate(wrong))
        self.assertIn("but the mask of annotations[0] has 17 x", p.stderr)
        self.refused(*self.annotate(truth), model="synthetic:vit-s16", code=2, words="neither boxes nor masks")


class Panoptic(Case):
    def setUp(self):
        super().setUp()
        self.pictures(5, 60, 100)
        self.names = sorted(os.listdir(self.path("data")))

    def found(self, model, stuff):
        """The segments that the model finds, and their pixels: [(map, {number: class})]. Stuff of a class is one."""
        masks = self.masks(model, "--mask-rule", "panoptic", "--score", 1e-6)
        out = []
        for i, name in enumerate(self.names):
            with open(self.path("data", name), "rb") as f:
                width, height = (int(v) for v in f.read().split(maxsplit=3)[1:3])
            here, numbers = np.zeros((height, width), int), {}
            for m in (m for m in masks if os.path.basename(m["file_name"]) == name):
                kind = m["category_id"]
                number = next((n for n, k in numbers.items() if k == kind and kind in stuff), len(numbers) + 1)
                numbers[number] = kind
                here[self.pixels(m["segmentation"])] = number
            out.append((here, numbers))
        return out

    def pixels(self, segmentation):
        """Unpacks run lengths."""
        height, width = segmentation["size"]
        runs, value, shift = [], 0, 0
        for letter in segmentation["counts"].encode():
            bits = letter - 48
            value |= (bits & 31) << shift
            shift += 5
            if not bits & 32:
                value -= (1 << shift) if bits & 16 else 0
                runs.append(value + (runs[-2] if len(runs) > 2 else 0))
                value = shift = 0
        flat = np.concatenate([np.full(n, i % 2 == 1) for i, n in enumerate(runs)])
        return flat.reshape(width, height).T

    def changed(self, maps, classes):
        """True segments that resemble those that were found: shifted, in part, with another class, absent, crowds."""
        out = []
        for here, numbers in maps:
            true, segments = np.zeros_like(here), {}
            for n, kind in numbers.items():
                what = self.rng.random()
                number = int(self.rng.integers(1, 1 << 24))
                if what < 0.15:
                    continue
                inside = np.roll(here == n, self.rng.integers(-3, 4, 2), (0, 1))
                if what < 0.3:
                    inside &= self.rng.random(inside.shape) < 0.6
                true[inside] = number
                segments[number] = (kind if what < 0.85 else int(self.rng.integers(classes)), what > 0.9)
            segments = {n: s for n, s in segments.items() if (true == n).any()}
            out.append((np.where(np.isin(true, list(segments)), true, 0), segments))
        return out

    def write_truth(self, maps, things):
        truth = {"images": [{"id": 10 + i, "file_name": name} for i, name in enumerate(self.names)],
                 "categories": [{"id": 100 + k, "name": "LABEL_%d" % k, "isthing": int(v)} for k, v in things.items()],
                 "annotations": []}
        for i, (here, segments) in enumerate(maps):
            name = self.names[i].replace("ppm", "png")
            self.write("truth/" + name, colour_png(here))
            truth["annotations"].append(
                {"image_id": 10 + i, "file_name": name,
                 "segments_info": [{"id": n, "category_id": 100 + kind, "iscrowd": int(crowd),
                                    "area": int((here == n).sum())} for n, (kind, crowd) in segments.items()]})
        return truth

    def theirs(self, truth, found):
        """panopticapi's results, if it is installed."""
        if not importlib.util.find_spec("panopticapi"):
            return None
        annotations = []
        for i, (here, numbers) in enumerate(found):
            name = self.names[i].replace("ppm", "png")
            self.write("found/" + name, colour_png(here))
            annotations.append({"image_id": 10 + i, "file_name": name,
                                "segments_info": [{"id": n, "category_id": 100 + k} for n, k in numbers.items()]})
        self.write("found.json", json.dumps(dict(truth, annotations=annotations)).encode())
        code = ("import json; from panopticapi.evaluation import pq_compute_single_core\n"
                "truth, found = (json.load(open(n + '.json')) for n in ('truth', 'found'))\n"
                "categories = {c['id']: c for c in truth['categories']}\n"
                "sums = pq_compute_single_core(0, list(zip(truth['annotations'], found['annotations'])), 'truth', "
                "'found', categories)\n"
                "def scores(among):\n"
                "    try: mean = sums.pq_average(categories, isthing=among)[0]\n"
                "    except ZeroDivisionError: return [-1] * 3\n"
                "    return [mean[k] for k in ('pq', 'sq', 'rq')]\n"
                "json.dump([scores(k) for k in (None, True, False)], open('theirs.json', 'w'))\n")
        subprocess.run([sys.executable, "-c", code], check=True, cwd=self.path(), stdout=subprocess.DEVNULL)
        with open(self.path("theirs.json")) as f:
            return json.load(f)

    def check(self, model, classes):
        things = {k: k % 2 == 0 for k in range(classes)}
        found = self.found(model, [k for k, thing in things.items() if not thing])
        seen = []
        for _ in range(3):
            true = self.changed(found, classes)
            truth = self.write_truth(true, things)
            one, = self.results(*self.annotate(truth), "--score", 1e-6, model=model)
            self.assertEqual(one["params"]["task"], "panoptic segmentation")
            want = quality([(*t, *f) for t, f in zip(true, found)], things)
            theirs = self.theirs(truth, found)
            for i, part in enumerate(("", "_things", "_stuff")):
                for j, key in enumerate(("pq", "sq", "rq")):
                    self.assertAlmostEqual(one["metrics"][key + part], want[i][j], delta=1e-12, msg=key + part)
                    if theirs:
                        self.assertAlmostEqual(want[i][j], theirs[i][j], delta=1e-12, msg=key + part)
                    seen.append(0.01 < want[i][j] < 0.99)
        self.assertTrue(np.mean(seen) > 0.5, seen)

    def sure(self):
        """A Mask2Former that does not take all queries for nothing."""
        weights = vit.load(os.path.join(MASKS, "model.safetensors"))
        weights["class_predictor.weight"] = 20 * weights["class_predictor.weight"]
        nothing = np.arange(CLASSES[MASKS] + 1) == CLASSES[MASKS]
        weights["class_predictor.bias"] = weights["class_predictor.bias"] - 10 * nothing
        os.mkdir(self.path("model"))
        vit.save(self.path("model", "model.safetensors"), weights)
        for name in os.listdir(MASKS):
            if name.endswith(".json"):
                shutil.copy(os.path.join(MASKS, name), self.path("model"))
        return self.path("model")

    def test_mask2former(self):
        self.check(self.sure(), CLASSES[MASKS])

    def test_eomt(self):
        self.check(EOMT, CLASSES[EOMT])

    def test_a_detector(self):
        self.check(BOXES_AND_MASKS, CLASSES[BOXES_AND_MASKS])

    def test_itself(self):
        things = {k: k % 2 == 0 for k in range(CLASSES[EOMT])}
        found = self.found(EOMT, [1])
        truth = self.write_truth([(here, {n: (k, False) for n, k in numbers.items()}) for here, numbers in found],
                                 things)
        args = self.annotate(truth)
        os.rename(self.path("truth"), self.path("elsewhere"))
        self.refused(*args, model=EOMT, code=7, words="are not in the folder truth; use --panoptic DIR")
        one, = self.results(*args, "--panoptic", "elsewhere", "--score", 1e-6, model=EOMT)
        self.assertEqual([one["metrics"][k] for k in ("pq", "sq", "rq")], [1, 1, 1])
        for c in one["metrics"]["classes"]:
            self.assertEqual((c["pq"], c["wrong"], c["missed"]), (1, 0, 0))

    def test_what_is_wrong(self):
        found = [(here, {n: (k, False) for n, k in numbers.items()}) for here, numbers in
                 self.found(EOMT, [])]
        truth = self.write_truth(found, {k: True for k in range(CLASSES[EOMT])})
        segment = truth["annotations"][0]["segments_info"][0]
        for key, value, words in (("id", 0, "annotations[0].segments_info[0].id is 0; it must be a colour"),
                                  ("id", 1 << 24, "it must be a colour"), ("id", "x", 'is "x"'),
                                  ("category_id", 7, "it must be the id of a listed category"),
                                  ("iscrowd", 2, "it must be 0 or 1")):
            kept = segment[key]
            segment[key] = value
            self.refused(*self.annotate(truth), model=EOMT, code=7, words=words)
            segment[key] = kept
        truth["annotations"].append(truth["annotations"][0])
        self.refused(*self.annotate(truth), model=EOMT, code=7, words="image 10 has two lists of segments")
        truth["annotations"].pop()
        del truth["annotations"][4]
        segment["id"] = 4711
        p = self.fovea("eval", EOMT, *self.annotate(truth))
        self.assertIn("which is not a segment of the annotations", p.stderr)
        self.assertIn("04.ppm: the annotations have no segments of this picture", p.stderr)
        self.refused(*self.annotate(truth), model="synthetic:vit-s16", code=2, words="finds no masks")
        self.refused("--data", "data", "--against", EOMT, "--score", "0.1", model=EOMT, code=1,
                     words="--score is only for panoptic segmentation")


if __name__ == "__main__":
    test_eval.EXE = os.path.abspath(sys.argv.pop(1))
    counted.main()
