#!/usr/bin/env python3
"""test_batches.py: in a batch of pictures, `run` and `eval` print and write the same for each picture as when it
runs alone, bit for bit.

    test_batches.py path/to/fovea [--device ID]

With a device, the models run there, and fewer tests are run. Standard library only.
"""
import json
import os
import random
import struct
import subprocess
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.join(HERE, ".."))
import counted
import test_run

MODELS = os.path.join(HERE, "..", "data", "golden", "models")
VIT, BOXES, MASKS, DINO = (os.path.join(MODELS, m) for m in ("vit-01", "rf-detr-02", "eomt-masked-01", "dinov2-03"))
SIZES = [(24, 16)] * 3 + [(40, 24)] * 2 + [(24, 16)] * 2  # a last batch is smaller
DEVICE = []
FEW = "the same on every device"


class Case(test_run.Case):
    def setUp(self):
        super().setUp()
        self.random = random.Random(5)

    def bytes(self, n):
        return bytes(self.random.randrange(256) for _ in range(n))

    def pictures(self, sizes=SIZES):
        for i, (width, height) in enumerate(sizes):
            self.write("in/%02d.ppm" % i, b"P6 %d %d 255\n" % (width, height) + self.bytes(3 * width * height))

    def fovea(self, command, model, *args, data=b"", code=0):
        p = subprocess.run([EXE, command, model, *map(str, args), *DEVICE], input=data, capture_output=True,
                           cwd=self.folder)
        self.assertEqual(p.returncode, code, p.stderr.decode())
        return p

    def results(self, model, *args, batch, **more):
        """Runs `fovea run`. Returns its records without their times, and the bytes of the files that it has written."""
        before = set(os.listdir(self.folder))
        p = self.fovea("run", model, *args, "--json", "--batch", batch, **more)
        records, files = [json.loads(line) for line in p.stdout.splitlines()], {}
        for r in records:
            self.assertGreater(r.pop("ms"), 0)
        for name in set(os.listdir(self.folder)) - before:
            files[name] = self.read(name)
            os.remove(self.path(name))
        return records, files

    def same(self, model, *args, batches=(3, 256), records, files, **more):
        """Checks that batches of these sizes give the same as one picture at a time: the given numbers of records and
        of files, no two of which are the same."""
        want = self.results(model, *args, batch=1, **more)
        self.assertEqual((len(want[0]), len(want[1])), (records, files))
        self.assertEqual(len(set(want[1].values())), files)
        for n in batches:
            got = self.results(model, *args, batch=n, **more)
            self.assertEqual(got[0], want[0], n)
            self.assertTrue(got[1] == want[1], n)
        return want


class Pictures(Case):
    def test_of_several_sizes(self):
        self.pictures()
        found, _ = self.same(VIT, "in", batches=[2, 256], records=7, files=0)
        self.assertEqual(len({json.dumps(r["top"]) for r in found}), 7)

    def test_in_one_file(self):
        self.pictures([(24, 16)] * 7)
        self.same(VIT, "in", "-o", "o.safetensors", "--hidden", batches=[3], records=7, files=1)
        self.same(DINO, "in", "--features", "f.npy", "--size", 56, batches=[4], records=7, files=1)

    @unittest.skipIf(len(sys.argv) > 2, FEW)
    def test_boxes(self):
        self.pictures()
        found, _ = self.same(BOXES, "in", "--boxes", "b.json", "-o", "o.safetensors", batches=[3], records=7, files=2)
        self.assertGreater(len({json.dumps(r["boxes"]) for r in found}), 1)

    @unittest.skipIf(len(sys.argv) > 2, FEW)
    def test_files_of_each(self):
        self.pictures()
        self.same(MASKS, "in", "--masks", "m.json", "--overlay", "o.png", batches=[2], records=7, files=8)
        self.same(DINO, "in", "--attention-map", "3,3,a.png", "--pca", "p.png", batches=[3], records=7, files=14)

    @unittest.skipIf(len(sys.argv) > 2, FEW)
    def test_tensors(self):
        shape = [5, 3, 28, 42]
        values = struct.pack("<17640f", *(self.random.uniform(-1, 1) for _ in range(5 * 3 * 28 * 42)))
        head = json.dumps({"input": {"dtype": "F32", "shape": shape, "data_offsets": [0, len(values)]}}).encode()
        self.write("t.safetensors", struct.pack("<Q", len(head)) + head + values)
        self.same(DINO, "t.safetensors", "-o", "o.safetensors", batches=[2, 5], records=5, files=1)


@unittest.skipIf(len(sys.argv) > 2, FEW)
class Broken(Case):
    def test_the_others_are_run(self):
        self.pictures()
        self.write("in/01.ppm", b"P6 24 16 255\n short")
        self.same(VIT, "in", records=6, files=0, code=7)
        self.same(VIT, "in", "--strict", records=1, files=0, code=7)
        self.same(VIT, "in", "-o", "o.safetensors", records=1, files=0, code=7)

    def test_what_cannot_be_written(self):
        """A file that cannot be written ends its own input, and no other."""
        self.pictures()
        os.mkdir(self.path("p-02.png"))
        found, _ = self.same(VIT, "in", "--pca", "p.png", records=6, files=6, code=7)
        self.assertNotIn("in/02.ppm", [r["input"] for r in found])
        self.same(VIT, "in", "--pca", "p.png", "--strict", records=2, files=2, code=7)
        os.mkdir(self.path("v-stdin-1.png"))
        raw = "-", "--raw", "gray:24x16", "--pca", "v.png"
        self.same(VIT, *raw, data=self.bytes(5 * 24 * 16), records=1, files=1, code=7)

    def test_numbers(self):
        self.pictures()
        for text in ("0", "257", "x"):
            self.assertIn(b"--batch", self.fovea("run", VIT, "in", "--batch", text, code=1).stderr)


@unittest.skipIf(len(sys.argv) > 2, FEW)
class Videos(Case):
    def video(self, n, width=24, height=16):
        return b"YUV4MPEG2 W%d H%d F25:1\n" % (width, height) + b"".join(
            b"FRAME\n" + self.bytes(width * height + 2 * ((width + 1) // 2) * ((height + 1) // 2)) for _ in range(n))

    def test_frames(self):
        found, _ = self.same(VIT, "-", "-o", "o.safetensors", data=self.video(7), records=7, files=1)
        self.assertEqual([(r["input"], r["frame"], r["time"]) for r in found],
                         [("-[%d]" % i, i, i / 25) for i in range(7)])
        self.same(VIT, "-", "--raw", "nv12:23x17@25", data=self.bytes(5 * (23 * 17 + 2 * 12 * 9)), records=5, files=0)

    def test_next_to_pictures(self):
        """A batch may have frames of several inputs."""
        self.pictures()
        self.write("v.y4m", self.video(5))
        self.write("w.y4m", self.video(3))
        found, _ = self.same(VIT, "v.y4m", "w.y4m", "in", batches=[4, 256], records=15, files=0)
        self.assertEqual(["frame" in r for r in found], [True] * 8 + [False] * 7)

    def test_that_end_early(self):
        """Results of the frames before the end of the data are kept."""
        self.same(VIT, "-", "-o", "o.safetensors", data=self.video(6)[:-9], records=5, files=1, code=7)


class Evaluation(Case):
    def test_records(self):
        self.pictures(SIZES + [(40, 24)] * 4)
        args = "--data", "in", "--against", DINO, "--size", 56, "--attention", "linear:elu1"
        self.write("in/10.ppm", b"P6 40 24 255\n short")  # a failure keeps the journal, which has each picture's record
        want = None
        for batch in (1, 3, 256):
            self.fovea("eval", DINO, *args, "--strict", "-o", "o.json", "--batch", batch, code=7)
            with open(self.path("o.json.journal")) as f:
                got = [json.loads(line) for line in f][1:]
            os.remove(self.path("o.json.journal"))
            for r in got:
                self.assertGreater(r.pop("ms"), 0)
            want = want or got
            self.assertEqual(len(got), 10)
            self.assertEqual(got, want, batch)
        self.assertEqual(len({r["cosine"] for r in want}), 10)  # that two changed places would be seen


if __name__ == "__main__":
    if len(sys.argv) not in (2, 4):
        sys.exit(__doc__)
    EXE, DEVICE = os.path.abspath(sys.argv[1]), sys.argv[2:]
    counted.main()
