#!/usr/bin/env python3
"""test_eval_data.py: `fovea eval` on data as users have it: ids of any type, annotations of unlisted
pictures, nested folders, class folders with numbers as names, masks in which 0 is not a class.

    test_eval_data.py path/to/fovea
"""
import copy
import json
import os
import shutil
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path += [os.path.join(HERE, ".."), os.path.join(HERE, "..", "models")]
import counted

np = counted.need("numpy")

import test_eval
from test_eval import CLASSES, DETECTOR, DIGITS, VIT, grey_png, ppm
from test_segmentation import read_png


class Case(test_eval.Case):
    def evaluate(self, model, *args):
        """Runs `fovea eval`; returns its result and messages."""
        p = self.fovea("eval", model, *args, "--json")
        return json.loads(p.stdout), p.stderr

    def edited(self, model, **fields):
        """A copy of a model whose config.json has these fields."""
        path = self.path("edited%d" % len(os.listdir(self.folder)))
        shutil.copytree(model, path)
        with open(os.path.join(path, "config.json")) as f:
            config = json.load(f)
        with open(os.path.join(path, "config.json"), "w") as f:
            json.dump(dict(config, **fields), f)
        return path


class Detection(Case):
    def setUp(self):
        super().setUp()
        for i in range(3):
            self.write("data/%d.ppm" % i, ppm(self.noise(40 + 8 * i, 64)))
        self.fovea("run", DETECTOR, "data", "--boxes", "boxes.json")
        with open(self.path("boxes.json")) as f:
            boxes = json.load(f)
        ids = {"data/%d.ppm" % i: 139 + 7 * i for i in range(3)}
        self.truth = {
            "images": [{"id": i, "file_name": os.path.basename(name)} for name, i in ids.items()],
            "categories": [{"id": k + 1, "name": "LABEL_%d" % k} for k in range(4)],
            "annotations": [{"id": n, "image_id": ids[b["file_name"]], "category_id": b["category_id"] + 1,
                             "bbox": b["bbox"]} for n, b in enumerate(boxes)]}

    def changed(self, change):
        truth = copy.deepcopy(self.truth)
        change(truth)
        return truth

    def score(self, truth, data="data", encode=json.dumps):
        self.write("truth.json", encode(truth).encode())
        result, said = self.evaluate(DETECTOR, "--data", data, "--annotations", "truth.json")
        self.said = said
        self.assertIn("matched by name", result["mapping"])
        return result["metrics"]["ap"]

    def refuses(self, truth, words, data="data"):
        self.write("truth.json", json.dumps(truth).encode())
        self.refused("--data", data, "--annotations", "truth.json", model=DETECTOR, code=7, words=words)

    def with_ids(self, image, category=lambda i: i, refer_image=None):
        def change(truth):
            for one in truth["images"]:
                one["id"] = image(one["id"])
            for one in truth["categories"]:
                one["id"] = category(one["id"])
            for one in truth["annotations"]:
                one["image_id"] = (refer_image or image)(one["image_id"])
                one["category_id"] = category(one["category_id"])
        return self.changed(change)

    def test_ids_of_any_type(self):
        self.assertAlmostEqual(self.score(self.truth), 1, delta=1e-12)
        for change in (self.with_ids(str), self.with_ids(float), self.with_ids("%012d".__mod__),
                       self.with_ids("frame_%d_a".__mod__), self.with_ids(lambda i: i + 2 ** 63),
                       self.with_ids(lambda i: i, refer_image=float), self.with_ids(lambda i: i, refer_image=str),
                       self.with_ids(float, refer_image=str), self.with_ids(str, str), self.with_ids(int, float),
                       self.with_ids(lambda i: -i)):
            self.assertAlmostEqual(self.score(change), 1, delta=1e-12)

    def test_booleans_and_what_nobody_reads(self):
        def change(truth):
            for n, one in enumerate(truth["annotations"]):
                one.update(iscrowd=[False, 0, None][n % 3], segmentation=[float("nan")], score=float("inf"))
            truth["info"] = {"year": float("-inf"), "size": 10 ** 30}
        self.assertAlmostEqual(self.score(self.changed(change)), 1, delta=1e-12)

        def crowd(truth):
            truth["annotations"][0].update(iscrowd=True)
        as_number = self.changed(crowd)
        as_number["annotations"][0]["iscrowd"] = 1
        self.assertEqual(self.score(self.changed(crowd)), self.score(as_number))
        twice = lambda truth: json.dumps(truth).replace("{", '{"info": 3, "info": {"a": 1, "a": 2}, ', 1)
        self.assertAlmostEqual(self.score(self.truth, encode=twice), 1, delta=1e-12)

    def test_annotations_of_what_is_not_listed(self):
        for key, refers in (("images", "image_id"), ("categories", "category_id")):
            gone = self.truth["annotations"][0][refers]
            place = [one["id"] for one in self.truth[key]].index(gone)
            clean = self.changed(lambda t: t[key].pop(place))
            clean["annotations"] = [a for a in clean["annotations"] if a[refers] != gone]
            want = self.score(clean)
            self.assertEqual(self.score(self.changed(lambda t: t[key].pop(place))), want)
            left = len(self.truth["annotations"]) - len(clean["annotations"])
            self.assertIn("%d of its %d annotations are left out" % (left, len(self.truth["annotations"])), self.said)
        broken = self.changed(lambda t: t["annotations"].append({"image_id": 7, "category_id": 1, "bbox": None}))
        self.assertAlmostEqual(self.score(broken), 1, delta=1e-12)
        self.refuses(self.with_ids(str, refer_image="x{}".format), "none of its")

    def test_no_annotations(self):
        self.assertEqual(self.score(dict(self.truth, annotations=[])), -1)
        self.assertAlmostEqual(self.score(self.changed(lambda t: t["images"].append(
            {"id": 1, "file_name": "not_there.ppm"}))), 1, delta=1e-12)
        self.assertIn("the first is not_there.ppm", self.said)

    def moved(self, *names):
        """Copies pictures to these names in `tree`; returns annotations with the new names."""
        shutil.rmtree(self.path("tree"), ignore_errors=True)
        for i, name in enumerate(names):
            os.makedirs(os.path.dirname(self.path("tree", name)), exist_ok=True)
            shutil.copy(self.path("data/%d.ppm" % i), self.path("tree", name))
        return self.called(*names)

    def called(self, *names):
        def change(truth):
            for one, name in zip(truth["images"], names):
                one["file_name"] = name
        return self.changed(change)

    def test_equal_names_in_folders(self):
        names = ["cam%d/000025.ppm" % i for i in range(3)]
        truth = self.moved(*names)
        self.assertAlmostEqual(self.score(truth, "tree"), 1, delta=1e-12)
        self.assertAlmostEqual(self.score(truth, "tree/"), 1, delta=1e-12)
        for form in ("val/%s", "/home/somebody/set/val/%s", "./%s"):
            self.assertAlmostEqual(self.score(self.called(*[form % n for n in names]), "tree"), 1, delta=1e-12)
        windows = self.called(*["C:\\set\\" + n.replace("/", "\\") for n in names])
        self.assertAlmostEqual(self.score(windows, "tree"), 1, delta=1e-12)
        deep = self.moved(*["a/b/" + n for n in names])
        self.assertAlmostEqual(self.score(deep, "tree"), 1, delta=1e-12)
        self.assertAlmostEqual(self.score(self.called(*names), "tree"), 1, delta=1e-12)
        # A single camera: its own pictures, without the objects of the others.
        self.score(self.called(*names), "tree/a/b/cam1")
        self.assertIn("2 of its 3 pictures are not in", self.said)
        urls = self.changed(lambda t: [one.update(coco_url="http://somewhere/" + one.pop("file_name"))
                                       for one in t["images"]])  # as LVIS has them
        self.assertAlmostEqual(self.score(urls), 1, delta=1e-12)
        self.refuses(self.called("0.ppm", "1.ppm", "000025.ppm"), "could both be the same picture of", "tree")
        self.refuses(self.called("x/000025.ppm", "y/000025.ppm", "z/000025.ppm"), "could both be the same", "tree/a/b/cam1")

    def test_pictures_of_other_folders(self):
        truth = self.moved("cam0/0.ppm", "cam1/1.ppm", "cam2/2.ppm")
        os.makedirs(self.path("tree/other"))
        shutil.copy(self.path("data/2.ppm"), self.path("tree/other/0.ppm"))
        self.assertAlmostEqual(self.score(truth, "tree"), 1, delta=1e-12)
        self.assertIn("1 of its 4 pictures are not in", self.said)
        os.remove(self.path("tree/cam0/0.ppm"))  # then the other one is not taken for it
        self.score(truth, "tree")
        self.assertIn("1 of its 3 pictures are not in tree and are left out; the first is cam0/0.ppm", self.said)
        truth = self.moved("pictures/0.ppm", "pictures/1.ppm", "pictures/2.ppm")
        renamed = self.called("images/0.ppm", "images/1.ppm", "images/2.ppm")
        self.assertAlmostEqual(self.score(renamed, "tree"), 1, delta=1e-12)
        self.assertIn("only by file name", self.said)

    def test_pictures_next_to_masks(self):
        truth = self.moved("images/0.ppm", "images/1.ppm", "images/2.ppm")
        for i in range(3):
            self.write("tree/masks/%d.ppm" % i, ppm(self.noise()))
        self.assertAlmostEqual(self.score(self.called("0.ppm", "1.ppm", "2.ppm"), "tree"), 1, delta=1e-12)
        self.assertAlmostEqual(self.score(truth, "tree"), 1, delta=1e-12)

    def test_names_of_classes_written_otherwise(self):
        model = self.edited(DETECTOR, id2label={"0": "potted plant", "1": "tv", "2": "T-shirt", "3": "dog"})
        truth = self.changed(lambda t: [c.update(name=n) for c, n in
                                        zip(t["categories"], ("pottedplant", "TV", "t_shirt", "Dog"))])
        self.write("truth.json", json.dumps(truth).encode())
        one, said = self.evaluate(model, "--data", "data", "--annotations", "truth.json")
        self.assertAlmostEqual(one["metrics"]["ap"], 1, delta=1e-12)
        self.assertIn("classes are matched by name: 4 of 4 categories", said)

    def test_classes_without_names(self):
        """transformers writes LABEL_0, ... for classes without names."""
        truth = self.changed(lambda t: [c.update(name="thing %d" % c["id"]) for c in t["categories"]])
        self.write("truth.json", json.dumps(truth).encode())
        one, said = self.evaluate(DETECTOR, "--data", "data", "--annotations", "truth.json")
        self.assertAlmostEqual(one["metrics"]["ap"], 1, delta=1e-12)
        self.assertIn("in the order of their ids", said)
        self.assertEqual(one["mapping"], said.strip()[len("fovea: "):])
        model = self.edited(DETECTOR, id2label={str(i): "class %d" % i for i in range(4)})
        self.refused("--data", "data", "--annotations", "truth.json", model=model, code=7,
                     words="none of its 4 categories is named")


class Classification(Case):
    def setUp(self):
        super().setUp()
        for i in range(10):
            self.write("all/%d.ppm" % i, ppm(self.noise()))
        p = self.fovea("run", VIT, "all", "--size", 64, "--json")
        self.first = []  # the class that each picture gets
        for line in p.stdout.splitlines():
            self.first.append(json.loads(line)["top"][0]["class"])

    def folders(self, name_of, classes=range(10), inner=""):
        """A folder for each class with the pictures that the model assigns to it; other folders get a picture that
        the model assigns to another class."""
        shutil.rmtree(self.path("data"), ignore_errors=True)
        right = n = 0
        for k in classes:
            own = [i for i in range(10) if self.first[i] == k]
            for i in own or [0]:
                path = self.path("data", name_of(k), inner, "%d.ppm" % i)
                os.makedirs(os.path.dirname(path), exist_ok=True)
                shutil.copy(self.path("all/%d.ppm" % i), path)
                n += 1
                right += bool(own)
        return right / n

    def top1(self, *args, model=VIT):
        one, self.said = self.evaluate(model, "--data", "data", "--size", 64, *args)
        return one["metrics"]["top1"]

    def names(self):
        return {str(i): "thing %d" % i for i in range(10)}

    def test_folders_that_are_numbers(self):
        """In text order 10 precedes 9, which is reported; in numerical order it follows."""
        for form in ("%d", "class_%d", "%d_thing", "v2_%d"):
            want = self.folders(lambda k: form % (k + 1))
            self.assertAlmostEqual(self.top1("--class-order", "number"), want, delta=1e-12)
            self.assertIn("is class 0", self.said)
            self.top1()
            self.assertIn("--class-order number sorts 10 after 9", self.said)
        want = self.folders(lambda k: "%02d" % (k + 1))
        self.assertAlmostEqual(self.top1(), want, delta=1e-12)
        self.assertNotIn("--class-order", self.said)
        self.assertIn("in the order of the folders' names as text", self.said)

    def test_some_folders_by_their_numbers(self):
        some = sorted(set(self.first))[:3]
        want = self.folders(str, some)
        self.assertAlmostEqual(self.top1("--class-order", "number"), want, delta=1e-12)
        self.refused("--data", "data", model=VIT, code=7, words="--class-order number")
        os.rename(self.path("data", str(some[0])), self.path("data", "10"))
        self.refused("--data", "data", "--class-order", "number", model=VIT, code=7, words="the model's classes")
        os.rename(self.path("data", "10"), self.path("data", "0%d" % some[1]))
        self.refused("--data", "data", "--class-order", "number", model=VIT, code=7, words="the same number")
        os.rename(self.path("data", "0%d" % some[1]), self.path("data", "none"))
        self.refused("--data", "data", "--class-order", "number", model=VIT, code=7, words="none has no number")

    def test_names_come_first(self):
        model = self.edited(VIT, id2label=self.names(), label2id={})
        want = self.folders(lambda k: "Thing_%d" % k)
        self.assertAlmostEqual(self.top1(model=model), want, delta=1e-12)
        self.assertIn("classes are matched by name: 10 of 10", self.said)
        model = self.edited(VIT, id2label={str(i): str(i) for i in range(10)}, label2id={})
        for form in ("%d", "%03d"):
            want = self.folders(form.__mod__, sorted(set(self.first)))
            self.assertAlmostEqual(self.top1(model=model), want, delta=1e-12)
            self.assertIn("matched by name", self.said)
        self.fovea("eval", model, "--data", "data", "--size", 64, "-o", "o.md")
        with open(self.path("o.md")) as f:
            self.assertIn("\nclasses are matched by name: ", f.read())

    def test_names_of_several_classes(self):
        """A name may belong to two classes, as "crane" does in ImageNet."""
        model = self.edited(VIT, id2label=dict(self.names(), **{"7": "thing 3"}), label2id={})
        self.folders("thing_%d".__mod__, [3, 4])
        self.top1(model=model)
        self.assertIn("1 folder is named like several classes, of which the first is used: thing_3 is 3 and 7", self.said)

    def test_the_order_of_a_file(self):
        names = ["n%04d" % (7919 * k % 1000) for k in range(10)]
        want = self.folders(names.__getitem__, sorted(set(self.first)))
        lines = "".join("%s a thing, the %d.\r\n" % (n, k) for k, n in enumerate(names))
        index = {str(k): [n, "a thing"] for k, n in enumerate(names)}
        for name, text in (("o.txt", "\n".join(names)), ("o.txt", lines), ("o.json", json.dumps(names)),
                           ("o.json", json.dumps(index)), ("o.json", json.dumps(dict(enumerate(names)))),
                           ("o.json", json.dumps({n: k for k, n in enumerate(names)}))):
            self.write(name, text.encode())
            self.assertAlmostEqual(self.top1("--class-order", name), want, delta=1e-12)
        for text, words in (("\n".join(names[:1]), "has no folder"),
                            ("\n".join(["x"] * 10 + names), "the model has only 10")):
            self.write("o.txt", text.encode())
            self.refused("--data", "data", "--class-order", "o.txt", model=VIT, code=7, words=words)
        self.refused("--data", "data", "--class-order", "size", model=VIT, code=7,
                     words="name, number or the path of an existing file")

    def test_folders_in_class_folders(self):
        want = self.folders("class_%d".__mod__, inner="more/deep")
        self.refused("--data", "data", model=VIT, code=7, words="contain folders of pictures")
        one, = os.listdir(self.path("data/class_%d/more/deep" % min(set(range(10)) - set(self.first))))
        folder = self.path("data/class_%d" % min(set(range(10)) - set(self.first)))
        os.rename(os.path.join(folder, "more/deep", one), os.path.join(folder, one))
        self.write("data/class_0/notes.txt", b"no picture")
        self.assertAlmostEqual(self.top1(), want, delta=1e-12)
        self.assertIn("notes.txt", self.said)
        os.rename(os.path.join(folder, one), os.path.join(folder, "more/deep", one))
        os.makedirs(self.path("data/empty"))
        model = self.edited(VIT, id2label={str(i): "class %d" % i for i in range(10)}, label2id={})
        self.assertAlmostEqual(self.top1(model=model), want, delta=1e-12)
        self.assertIn("data/empty contains no picture, so it is not a class", self.said)

    def test_pictures_next_to_folders(self):
        """Pictures next to folders: there are no classes, which is reported; --against uses all pictures."""
        self.folders(str)
        self.write("data/sheet.ppm", ppm(self.noise()))
        p = self.fovea("eval", VIT, "--data", "data", code=7)
        self.assertIn("contains pictures itself; its 10 folders, 0 and others, are left out", p.stderr)
        n = sum(len(files) for _, _, files in os.walk(self.path("data")))
        one, _ = self.evaluate(VIT, "--data", "data", "--size", 64, "--against", VIT)
        self.assertEqual(one["pictures"], n)

    def test_options_for_other_data(self):
        self.refused("--data", "all", "--against", VIT, "--class-order", "name", model=VIT, code=1,
                     words="needs folders of classes")
        self.folders(str)
        self.refused("--data", "data", "--reduce-labels", "yes", model=VIT, code=1, words="needs masks")

    def test_goes_on_with_the_same_order_alone(self):
        self.folders(lambda k: str(k + 1))
        os.rename(self.path("data/5"), self.path("5"))
        self.write("data/5/0.ppm", b"P6 64 48 255\n short")
        args = ["--data", "data", "--size", 64, "-o", "o.json"]
        self.refused(*args, "--strict", model=VIT, code=7, words="0.ppm")
        self.refused(*args, "--resume", "--class-order", "number", model=VIT, code=7, words="another class order")
        self.fovea("eval", VIT, *args, "--resume")


class Segmentation(Case):
    def setUp(self):
        """Makes masks from the model's own prediction, and a copy in which 0 means no class."""
        super().setUp()
        for i in range(2):
            self.write("data/%d.ppm" % i, ppm(self.noise(336, 336)))
            self.fovea("run", DIGITS, "data/%d.ppm" % i, "--labels", "l.png")
            mask = read_png(self.path("l.png"))[0].reshape(336, 336).astype(int)
            self.write("own/%d.ppm" % i, open(self.path("data/%d.ppm" % i), "rb").read())
            self.write("ade/%d.ppm" % i, open(self.path("data/%d.ppm" % i), "rb").read())
            mask[:4] = 255
            self.write("own/%d_mask.png" % i, grey_png(mask))
            self.write("ade/%d_mask.png" % i, grey_png(np.where(mask == 255, 0, mask + 1)))

    def reducing(self, key="do_reduce_labels", value=True):
        path = self.edited(DIGITS)
        name = os.path.join(path, "preprocessor_config.json")
        pre = {}
        if os.path.exists(name):
            with open(name) as f:
                pre = json.load(f)
        with open(name, "w") as f:
            json.dump(dict(pre, **{key: value}), f)
        return path

    def test_reduced_labels(self):
        for model, data, more in ((DIGITS, "own", []), (DIGITS, "ade", ["--reduce-labels", "yes"]),
                                  (self.reducing(), "ade", []), (self.reducing("reduce_labels", 1), "ade", []),
                                  (self.reducing(), "own", ["--reduce-labels", "no"]),
                                  (self.reducing(value=False), "own", [])):
            one, said = self.evaluate(model, "--data", data, *more)
            self.assertEqual((one["pictures"], one["skipped"]), (2, 0))
            self.assertAlmostEqual(one["metrics"]["miou"], 1, delta=1e-12)
            self.assertEqual("k means class k - 1" in said, data == "ade")
            self.assertIn(one["mapping"], said)
        self.refused("--data", "ade", "--reduce-labels", "maybe", code=1, words="no, yes")

    def test_folders_of_images_and_masks(self):
        """Equal names in two folders; a picture whose mask is not in the same folder has none."""
        for i in range(2):
            for kind, name in (("images", "%d.ppm" % i), ("masks", "%d_mask.png" % i)):
                os.makedirs(self.path("deep", kind, "city%d" % i))
                shutil.copy(self.path("own", name), self.path("deep", kind, "city%d" % i, "0" + name[-4:]))
        one, _ = self.evaluate(DIGITS, "--data", "deep")
        self.assertEqual((one["pictures"], one["skipped"]), (2, 0))
        self.assertAlmostEqual(one["metrics"]["miou"], 1, delta=1e-12)
        os.rename(self.path("deep/masks/city1"), self.path("deep/masks/town1"))
        self.refused("--data", "deep", code=7, words="city1/0.ppm has no mask")

    def test_masks_that_need_it_say_so(self):
        mask = np.full((336, 336), CLASSES)
        mask[:4] = 0
        self.write("ade/0_mask.png", grey_png(mask))
        p = self.fovea("eval", DIGITS, "--data", "ade", "--json")
        self.assertIn("--reduce-labels yes", p.stderr)


class Messages(Case):
    def test_each_is_said_once(self):
        """The message appears once, not for every picture size that is not a multiple of the patch."""
        model = self.edited(DIGITS)
        with open(os.path.join(model, "preprocessor_config.json"), "w") as f:
            json.dump({"do_resize": False, "do_normalize": False}, f)
        for i in range(4):
            self.write("data/%d.ppm" % i, ppm(self.noise(40 + 8 * i, 40)))
        _, said = self.evaluate(model, "--data", "data", "--against", model)
        self.assertEqual(said.count("are not multiples of the patch"), 1, said)


class Depth(Case):
    def test_folders_of_images_and_depths(self):
        for i in range(2):
            picture, depth = ppm(self.noise(56, 56)), grey_png(1000 + self.rng.integers(0, 3000, (56, 56)), 16)
            for form in ("flat/%%s/%d.%%s" % i, "deep/%%s/room%d/0.%%s" % i):
                self.write(form % ("images", "ppm"), picture)
                self.write(form % ("depth", "png"), depth)
        os.rename(self.path("deep/images/room1/0.ppm"), self.path("deep/images/room1/0"))  # the content is compared
        args = ["--size", 56, "--align", "affine"]
        want, _ = self.evaluate("synthetic:depth-anything-s", "--data", "flat", *args)
        got, _ = self.evaluate("synthetic:depth-anything-s", "--data", "deep/", *args)
        self.assertEqual((got["metrics"], got["pictures"]), (want["metrics"], 2))

    def test_relative_depth_is_no_metres(self):
        for i in range(2):
            self.write("data/images/%d.ppm" % i, ppm(self.noise(56, 56)))
            self.write("data/depth/%d.png" % i, grey_png(1000 + self.rng.integers(0, 3000, (56, 56)), 16))
        relative = "synthetic:depth-anything-s"
        args = ["--data", "data", "--size", 56]
        for more in ([], ["--align", "none"], ["--align", "median"]):
            self.refused(*args, *more, model=relative, code=1, words="use --align affine")
        one, _ = self.evaluate(relative, *args, "--align", "affine")
        self.assertEqual(one["params"]["align"], "affine")
        self.assertTrue(one["metrics"]["abs_rel"] < 1)


if __name__ == "__main__":
    test_eval.EXE = os.path.abspath(sys.argv.pop(1))
    counted.main()
