#!/usr/bin/env python3
"""test_people.py: people in boxes: --box, --people, the assignment of results to people; boxes and points that are
not drawn.

    test_people.py path/to/fovea

That crops and points are transformers' is in tests/plan/test_results_data.py.
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import counted

FOVEA = os.path.abspath(sys.argv.pop(1))
ONE, TWO = [10, 5, 30, 40.5], [-4, 20, 25, 25]


class People(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)
        for name, seed in (("a.ppm", 1), ("b.ppm", 5)):
            with open(self.path(name), "wb") as f:
                f.write(b"P6 60 50 255\n" + bytes(i * seed * 7 % 256 for i in range(60 * 50 * 3)))

    def path(self, name):
        return os.path.join(self.folder, name)

    def run_model(self, *options, expect=0, model="synthetic:vitpose-s", pictures=("a.ppm",), size="48x64"):
        p = subprocess.run([FOVEA, "run", model, *map(self.path, pictures), "--size", size, "--json", *options],
                           capture_output=True, text=True)
        self.assertEqual(p.returncode, expect, p.stderr)
        return p.stderr if expect else ([json.loads(line) for line in p.stdout.splitlines()], p.stderr)

    def people(self, *options, **more):
        said, _ = self.run_model(*options, **more)
        return [line["people"] for line in said]

    def file(self, content, name="p.json"):
        with open(self.path(name), "w") as f:
            json.dump(content, f)
        return self.path(name)

    def boxes(self, records, *options, **more):
        """The boxes of each picture's people in a file."""
        return [[p["box"] for p in people]
                for people in self.people("--people", self.file(records), *options, **more)]

    def test_several(self):
        text = [",".join(map(str, box)) for box in (ONE, TWO)]
        (both,) = self.people("--box", text[0], "--box", text[1])
        self.assertEqual([p["box"] for p in both], [ONE, TWO])
        self.assertEqual([len(p["keypoints"]) for p in both], [17, 17])
        for batch in ("2", "3"):
            self.assertEqual(self.people("--box", text[0], "--box", text[1], "--batch", batch), [both])
        for i in range(2):
            self.assertEqual(self.people("--box", text[i]), [[both[i]]])
        self.assertNotEqual(both[0]["keypoints"], both[1]["keypoints"])

    def test_whole(self):
        said, told = self.run_model()
        self.assertIn("box of one person", told)
        self.assertEqual(said[0]["people"], self.people("--box", "0,0,60,50")[0])
        self.assertEqual(said[0]["keypoints"], said[0]["people"][0]["keypoints"])

    def test_files(self):
        def record(box, **more):
            return dict(bbox=box, **more)
        both = ("a.ppm", "b.ppm")
        named = [record(ONE, file_name="b.ppm", label="person", category_id=7, score=0.9),
                 record(ONE, file_name="b.ppm", label="dog", category_id=1, score=0.9),
                 record(TWO, file_name="x/a.ppm", label="Person", category_id=7, score=0.5),
                 record(TWO, file_name="a.ppm", label="person", category_id=7, score=0.2)]
        self.assertEqual(self.boxes(named, pictures=both), [[TWO], [ONE]])
        self.assertEqual(self.boxes(named, "--score", "0.1", pictures=both), [[TWO, TWO], [ONE]])
        self.assertEqual(self.boxes(named, "--person", "dog", pictures=both), [[], [ONE]])
        self.assertEqual(self.boxes(named, "--person", "7", pictures=both), [[TWO], [ONE]])
        self.assertEqual(self.boxes([record(ONE, image_id=1), record(TWO, image_id=0)], pictures=both), [[TWO], [ONE]])
        self.assertEqual(self.boxes([record(ONE, category_id=1), record(TWO, category_id=2)]), [[ONE]])
        self.assertEqual(self.boxes([]), [[]])
        coco = {"images": [{"id": "07", "file_name": "b.ppm"}, {"id": 8, "file_name": "a.ppm"}],
                "categories": [{"id": 3, "name": "person"}, {"id": 1, "name": "cat"}],
                "annotations": [record(ONE, image_id=8, category_id=3), record(TWO, image_id=7, category_id=3.0),
                                record(TWO, image_id=8, category_id=1)]}
        self.assertEqual(self.boxes(coco, pictures=both), [[ONE], [TWO]])
        os.rename(self.path("b.ppm"), self.path("000000012.ppm"))
        self.assertEqual(self.boxes([record(ONE, image_id=12)], pictures=("000000012.ppm",)), [[ONE]])

    def test_written(self):
        self.run_model("--people", self.file([{"bbox": ONE}, {"bbox": TWO}]), "--pose", self.path("pose.json"),
                       "--overlay", self.path("o.png"), "-o", self.path("o.safetensors"))
        with open(self.path("pose.json")) as f:
            poses = json.load(f)
        self.assertEqual([(p["image_id"], p["bbox"], len(p["keypoints"])) for p in poses], [(0, ONE, 51), (0, TWO, 51)])
        with open(self.path("o.safetensors"), "rb") as f:
            self.assertIn(b'"shape":[2,17,16,12]', f.read(2000).replace(b" ", b""))

    def test_refused(self):
        for box in ("1,2,3", "1,2,0,4", "1,2,3,4,5", "a,b,c,d", "1,2,inf,3"):
            self.assertIn("--box", self.run_model("--box", box, expect=1))
        self.assertIn("[1].bbox", self.run_model("--people", self.file([{"bbox": ONE}, {"bbox": [1, 2]}]), expect=7))
        self.assertIn("[0].score", self.run_model("--people", self.file([{"bbox": ONE, "score": "x"}]), expect=7))
        self.assertIn("annotations", self.run_model("--people", self.file({"boxes": []}), expect=7))
        self.assertIn("pose", self.run_model("--box", "1,2,3,4", model="synthetic:dinov2-s", size="28", expect=2))
        self.assertIn("--person", self.run_model("--person", "dog", expect=1))
        self.assertIn("--pose", self.run_model("--box", "1,2,3,4", "--attention-map", "5,5," + self.path("map.png"), expect=1))

    def test_nothing_drawn(self):
        _, told = self.run_model("--overlay", self.path("o.png"), "--score", "1", model="synthetic:rf-detr-n", size="384")
        self.assertRegex(told, r"0 of \d+ boxes are drawn, which have a score of at least 1")


if __name__ == "__main__":
    counted.main()
