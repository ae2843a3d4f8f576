#!/usr/bin/env python3
"""test_run.py: `fovea run`: pictures turned upright, names and safety of its output files, its messages.

    test_run.py path/to/fovea

Standard library only.
"""
import base64
import json
import os
import random
import re
import resource
import select
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest
import zlib

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import counted

from terminals import terminal

MODELS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data", "golden", "models")
VIT = os.path.join(MODELS, "vit-01")

# 24 x 16 pixels in six uniform squares of grey, which every decoder decodes exactly.
GREYS = [[20, 60, 100], [140, 180, 220]]
JPEG = zlib.decompress(base64.b64decode(
    "eNr7f+P/AwYBLzdPNwZGRgYGRiBk+H+bwRnIowz8P8DAzcEgwCDByCjI8P8IgzzQcFaIFAMUMDIxs7CysXNwcnEDFWwVYGBiZGZm"
    "YmFmZWVhAcrWAuUZWARZhRQNHdmEAxPZlQpFjBonLuRQdtp4UDTo4gcV46SiJk4uMXEJSSlVNXUNTS0TUzNzC0srZxdXN3cPT6/g"
    "kNCw8IjIqOSU1LT0jMys4pLSsvKKyqrmlta29o7OrkmTp0ydNn3GzFmLFi9Zumz5ipWrNm3esnXb9h07dx06fOToseMnTp66dPnK"
    "1WvXb9y89fDR4ydPnz1/8fLVx0+fv3z99v3Hz1//bzFwgPxjz/BP/fVXpv0B2jDi/00AMTJqMA=="))


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(rows, more=b""):
    """`rows` of R, G, B triples."""
    data = b"".join(b"\0" + bytes(v for pixel in row for v in pixel) for row in rows)
    head = struct.pack(">IIBBBBB", len(rows[0]), len(rows), 8, 2, 0, 0, 0)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + more + chunk(b"IDAT", zlib.compress(data)) +
            chunk(b"IEND", b""))


def ppm(rows):
    return b"P6 %d %d 255\n" % (len(rows[0]), len(rows)) + bytes(v for r in rows for p in r for v in p)


def exif(orientation, order="<", kind=3, entries=None):
    """TIFF data with a tag before the orientation's."""
    value = struct.pack(order + "HH", orientation, 0) if kind == 3 else struct.pack(order + "I", orientation)
    return ((b"II*\0" if order == "<" else b"MM\0*") + struct.pack(order + "I", 8) +
            struct.pack(order + "H", 2 if entries is None else entries) +
            struct.pack(order + "HHII", 0x0100, 4, 1, 24) +
            struct.pack(order + "HHI", 0x0112, kind, 1) + value + bytes(4))


def with_exif(jpeg, data):
    return jpeg[:2] + b"\xff\xe1" + struct.pack(">H", 8 + len(data)) + b"Exif\0\0" + data + jpeg[2:]


# Pillow's exif_transpose in terms of rows.
def mirrored(rows):
    return [row[::-1] for row in rows]


def transposed(rows):
    return [list(column) for column in zip(*rows)]


UPRIGHT = {
    1: lambda r: r, 2: mirrored, 3: lambda r: mirrored(r[::-1]), 4: lambda r: r[::-1], 5: transposed,
    6: lambda r: mirrored(transposed(r)), 7: lambda r: mirrored(transposed(r)[::-1]),
    8: lambda r: transposed(r)[::-1],
}


def load(path):
    """The bytes of a file's tensors by name."""
    blob = open(path, "rb").read()
    n = struct.unpack("<Q", blob[:8])[0]
    head = json.loads(blob[8:8 + n])
    head.pop("__metadata__", None)
    return {k: (t["shape"], blob[8 + n + t["data_offsets"][0]:8 + n + t["data_offsets"][1]])
            for k, t in head.items()}


def save(path, tensors):
    head, data = {}, b""
    for name, (shape, raw) in tensors.items():
        head[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(head).encode()
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + data)


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def write(self, name, data):
        os.makedirs(os.path.dirname(self.path(name)), exist_ok=True)
        with open(self.path(name), "wb") as f:
            f.write(data)
        return name

    def read(self, name):
        with open(self.path(name), "rb") as f:
            return f.read()

    def run_on(self, *args, model=VIT, code=0, **more):
        p = subprocess.run([EXE, "run", model, *args], capture_output=True, cwd=self.folder, **more)
        if code is not None:
            self.assertEqual(p.returncode, code, p.stderr)
        p.out, p.err = p.stdout.decode(errors="replace"), p.stderr.decode(errors="replace")
        return p

    def copy_of_vit(self, name="model"):
        shutil.copytree(VIT, self.path(name))
        return self.path(name)

    def noise(self, width=24, height=16, seed=0):
        r = random.Random(seed)
        return [[tuple(r.randrange(256) for _ in range(3)) for _ in range(width)] for _ in range(height)]


class Orientation(Case):
    def frames(self, names, *more):
        """The logits of each input."""
        self.run_on(*names, "-o", "o.safetensors", *more)
        (frames, classes), raw = load(self.path("o.safetensors"))["logits"]
        self.assertEqual(frames, len(names))
        return [raw[4 * classes * i:4 * classes * (i + 1)] for i in range(frames)]

    def test_pictures_are_turned_upright(self):
        rows, made = self.noise(), []
        square = [[(g,) * 3 for g in line for _ in range(8)] for line in GREYS for _ in range(8)]
        for o, upright in UPRIGHT.items():
            made += [
                (self.write("%d.ppm" % o, ppm(upright(rows))),
                 self.write("%d.png" % o, png(rows, chunk(b"eXIf", exif(o))))),
                (self.write("j%d.ppm" % o, ppm(upright(square))),
                 self.write("j%d.jpg" % o, with_exif(JPEG, exif(o, "><"[o % 2], 3 + o % 3 // 2)))),
            ]
        upright, turned = (self.frames([m[i] for m in made]) for i in (0, 1))
        for i, (_, name) in enumerate(made):
            self.assertEqual(upright[i], turned[i], name)
        self.assertEqual(len(set(upright)), 16)
        stored = self.frames([m[1] for m in made], "--no-exif")
        self.assertEqual(set(stored), {upright[0], upright[1]})

    def test_training_sees_them_upright(self):
        if b"adapt" not in subprocess.run([EXE, "help"], capture_output=True).stdout:
            self.skipTest("built without training")
        rows = self.noise()
        self.write("upright/1.ppm", ppm(UPRIGHT[8](rows)))
        self.write("turned/1.png", png(rows, chunk(b"eXIf", exif(8))))
        losses = []
        for data, *more in (["upright"], ["turned"], ["turned", "--no-exif"]):
            out = self.path("out%d" % len(losses))
            subprocess.run([EXE, "adapt", VIT, "--stage", "1", "--data", self.path(data), "-o", out, "--attention",
                            "linear:elu1", "--size", "64", "--steps", "1", "--batch", "1", *more],
                           capture_output=True, check=True)
            with open(os.path.join(out, "log.jsonl")) as f:
                losses.append([json.loads(line)["loss"] for line in f if '"loss"' in line])
        self.assertTrue(losses[0])
        self.assertEqual(losses[0], losses[1])
        self.assertNotEqual(losses[1], losses[2])

    def test_what_cannot_be_read_changes_nothing(self):
        rows = self.noise()
        wrong = [exif(0), exif(9), exif(65535), exif(6, entries=0), exif(6)[:20], exif(6)[:9], b"II*\0",
                 b"II*\0\xff\xff\xff\xff" + bytes(9), b"XX" + exif(6)[2:], b""]
        names = [self.write("plain.png", png(rows))]
        names += [self.write("%d.png" % i, png(rows, chunk(b"eXIf", w))) for i, w in enumerate(wrong)]
        self.assertEqual(len(set(self.frames(names))), 1)
        names = [self.write("plain.jpg", JPEG)]
        names += [self.write("%d.jpg" % i, with_exif(JPEG, w)) for i, w in enumerate(wrong)]
        self.assertEqual(len(set(self.frames(names))), 1)


class Names(Case):
    def test_names_end_at_the_last_dot(self):
        for name in ("a/frame.0001.png", "a/frame.0002.png", "a/.hidden.png"):
            self.write(name, png(self.noise()))
        self.run_on("a", "--pca", "o.png")
        self.assertEqual(sorted(n for n in os.listdir(self.folder) if n.endswith(".png")),
                         ["o-.hidden.png", "o-frame.0001.png", "o-frame.0002.png"])

    def test_pictures_are_known_by_what_is_in_them(self):
        pixels = png(self.noise())
        for name in ("a/1.Jpg", "a/2", "a/3.txt", "a/4.PNG"):
            self.write(name, pixels)
        self.write("a/notes.txt", b"seen on Monday")
        self.write("a/clip.mp4", b"\0\0\0\x18ftypmp42" + bytes(20))
        self.write("a/._1.Jpg", b"\0\5\x16\7")
        os.mkdir(self.path("a/more"))
        done = self.run_on("a", "--json")
        self.assertEqual(len(done.stdout.splitlines()), 4)
        self.assertIn(b"2 files are left out: clip.mp4 (a video (MP4)), notes.txt (not a picture)", done.stderr)

    def test_y4m_is_known_by_what_is_in_it(self):
        self.write("clip", b"YUV4MPEG2 W64 H64 F1:1 Cmono\nFRAME\n" + bytes(64 * 64))
        self.assertIn("clip[0]: 64x64", self.run_on("clip").err)

    def test_what_is_refused_is_named(self):
        for head, words in ((b"GIF89a", "a GIF; convert it"), (b"\0\0\0\x1cftypheic", "a HEIC; convert it"),
                            (b"\0\0\0\x1cftypavif", "an AVIF"), (b"\0\0\0\x18ftypmp42", "image2pipe -c:v ppm - | fovea run MODEL - --raw ppm"),
                            (b"version https://git-lfs.github.com/spec/v1", "git lfs pull"), (b"?", "is not a JPEG")):
            self.write("a.jpg", head + bytes(300))
            self.assertIn(words, self.run_on("a.jpg", code=7).err)

    def test_inputs_share_no_output(self):
        for name in ("a/x.png", "b/x.png", "c/x.png", "c/x.ppm"):
            self.write(name, png(self.noise()))
        self.write("d/x-0.png", png(self.noise()))
        shutil.copy(os.path.join(VIT, "io.safetensors"), self.path("x.safetensors"))
        for inputs in (["a", "b"], ["c"], ["a/x.png", "b/x.png"], ["x.safetensors", "d/x-0.png"]):
            for option, name in (("--pca", "o.png"), ("--attention-map", "0,0,o.png")):
                p = self.run_on(*inputs, option, name, code=1)
                self.assertIn("the same file", p.err)
                self.assertFalse([n for n in os.listdir(self.folder) if n.startswith("o")])
        self.assertIn("the same file", self.run_on("d/x-0.png", "--pca", "o.png", "--attention-map", "0,0,./o.png",
                                           code=1).err)

    def test_inputs_are_not_overwritten(self):
        model = self.copy_of_vit()
        for name in ("one.png", "two.png", "d/one.png"):
            self.write(name, png(self.noise()))
        os.link(self.path("one.png"), self.path("link.png"))
        weights = os.path.join(model, "model.safetensors")
        before = [self.read("one.png"), self.read("two.png"), self.read(weights)]
        for args in (["one.png", "--pca", "one.png"], ["one.png", "--pca", "link.png"],
                     ["one.png", "two.png", "one.png", "--pca", "./one.png", "-o", weights],
                     ["--attention-map", "3,3", "one.png", "two.png"],
                     ["one.png", "-o", weights], ["one.png", "--attention-map", "3,3,one.png"]):
            self.run_on(*args, model=model, code=1)
            self.assertEqual(before, [self.read("one.png"), self.read("two.png"), self.read(weights)], args)
        p = self.run_on("d", "--pca", "d/out.png", code=1)
        self.assertIn("in the folder of inputs", p.err)
        self.run_on("one.png", "--attention-map", "3,3", "three.png")
        self.assertTrue(self.read("three.png"))

    def test_problems_of_outputs_are_told_before_the_work(self):
        self.write("one.png", png(self.noise()))
        os.mkdir(self.path("folder.npy"))
        for option, name in (("-o", "none/x.safetensors"), ("--features", "none/x.npy"),
                             ("--pca", "none/x.png"), ("--attention-map", "0,0,none/x.png"),
                             ("--features", "folder.npy"), ("--pca", "n" * 252 + ".png")):
            p = self.run_on("one.png", option, name, code=7)
            self.assertEqual(p.out, "")
            self.assertIn("cannot be written", p.err)

    def test_long_names_are_fine(self):
        self.write("one.png", png(self.noise()))
        for option, end in (("-o", ".safetensors"), ("--pca", ".png"), ("--features", ".npy")):
            name = "n" * (255 - len(end)) + end
            self.run_on("one.png", option, name)
            self.assertTrue(self.read(name))

    def test_a_killed_run_leaves_nothing_behind(self):
        self.write("one.png", png(self.noise()))
        limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
        p = self.run_on("one.png", "--features", "f.npy", code=None, preexec_fn=limit)
        self.assertEqual(p.returncode, -signal.SIGXFSZ)
        self.assertEqual(os.listdir(self.folder), ["one.png"])

    def test_nobody_else_chooses_where_files_go(self):
        self.write("one.png", png(self.noise()))
        self.write("victim", b"precious")
        plant = lambda: os.symlink("victim", "p.png.%d.tmp" % os.getpid())
        self.run_on("one.png", "--pca", "p.png", preexec_fn=plant)
        self.assertEqual(self.read("victim"), b"precious")
        self.assertTrue(self.read("p.png").startswith(b"\x89PNG"))

    def test_a_broken_picture_ends_a_strict_run(self):
        self.write("a/1.png", b"broken")
        self.write("a/2.png", png(self.noise()))
        self.assertIn("2.png", self.run_on("a", code=7).out)
        self.assertEqual(self.run_on("a", "--strict", code=7).out, "")


class Words(Case):
    def test_it_says_what_it_wrote(self):
        names = [self.write(n, png(self.noise())) for n in ("one.png", "two.png")]
        p = self.run_on(*names, "--pca", "p.png", "--attention-map", "0,0,m.png", "--size", "64")
        lines = [line for line in p.err.splitlines() if "->" in line]
        self.assertEqual(len(lines), 2, p.err)
        for name, line in zip(("one", "two"), lines):
            for word in (name + ".png: 24x16", "64x64", "17 tokens", "softmax", "s ->",
                         "p-%s.png" % name, "m-%s.png" % name):
                self.assertIn(word, line)
        p = self.run_on(*names, "--features", "f.npy", "-o", "o.safetensors")
        self.assertIn("f.npy: features, 2 x 4 x 4 x 64", p.err)
        self.assertIn("o.safetensors: 2 tensors from 2 pictures", p.err)
        p = self.run_on(*names, "--pca", "p.png", "--json")
        self.assertEqual([line for line in p.err.splitlines() if "preprocessor_config.json" not in line], [])
        self.assertEqual([json.loads(line)["written"] for line in p.out.splitlines()],
                         [["p-one.png"], ["p-two.png"]])

    def test_classes_of_pixels_are_shown(self):
        model = self.copy_of_vit()
        r = random.Random(1)
        save(os.path.join(model, "segmentation.safetensors"),
             {"segmentation_head.weight": ([7, 64, 1, 1], struct.pack("<448f", *(r.gauss(0, 1) for _ in range(448)))),
              "segmentation_head.bias": ([7], bytes(28))})
        name = self.write("one.png", png(self.noise(64, 64)))
        out = self.run_on(name, model=model, code=0).out
        self.assertIn("share  class", out)
        self.assertNotIn("segmentation", json.loads(self.run_on(name, "--json", model=model).out))
        self.assertNotIn("the same file", self.run_on(name, "-o", "o.safetensors", model=model).out)

    def test_embeddings_are_shown(self):
        out = self.run_on(self.write("one.png", png(self.noise())),
                          model=os.path.join(MODELS, "clip-vision-02")).out
        self.assertIn("image_embeds", out)

    def test_labels_drive_no_terminal(self):
        model = self.copy_of_vit()
        with open(os.path.join(model, "config.json")) as f:
            config = json.load(f)
        config["id2label"] = {str(i): "\x1b]0;owned\x07\x9b31m red \u00e9" for i in range(10)}
        with open(os.path.join(model, "config.json"), "w") as f:
            json.dump(config, f)
        name = self.write("a\x1b[31m.png", png(self.noise()))
        p = self.run_on(name, model=model)
        for text in (p.out, p.err):
            self.assertFalse([c for c in text if c != "\n" and (c < " " or "\x7f" <= c < "\xa0")], text)
        self.assertIn("red \u00e9", p.out)

    def test_json_keeps_every_result(self):
        model = self.copy_of_vit()
        name = b"caf\xe9.png"
        with open(os.path.join(self.folder.encode(), name), "wb") as f:
            f.write(png(self.noise()))
        result = json.loads(self.run_on(name, "--json").stdout)
        self.assertEqual((result["input"], len(result["top"])), ("caf\ufffd.png", 5))
        weights = load(os.path.join(model, "model.safetensors"))
        shape, raw = weights["classifier.bias"]
        weights["classifier.bias"] = shape, struct.pack("<f", float("nan")) + raw[4:]
        save(os.path.join(model, "model.safetensors"), weights)
        p = self.run_on(name, "--json", model=model)
        self.assertEqual([t["p"] for t in json.loads(p.out)["top"]], [None] * 5)
        self.assertIn("scores are NaN", p.err)

    def said_on_terminal(self, until, *args):
        """Runs a command on a terminal. Returns its stderr up to a match of `until`, and how long that took."""
        main, end = terminal(self)
        p = subprocess.Popen([EXE, *args], stdout=subprocess.DEVNULL, stderr=end)
        os.close(end)
        said, begin = b"", time.time()
        while not re.search(until, said):
            if select.select([main], [], [], 0.1)[0]:
                try:
                    said += os.read(main, 4096)
                except OSError:  # the other end is closed
                    break
        p.kill()
        p.wait()
        os.close(main)
        return said, time.time() - begin

    def test_long_commands_show_that_they_live(self):
        picture = self.path(self.write("one.png", png(self.noise())))
        for command, *more in (["run", picture], ["verify"]):
            side, said, spent, sign = 500, b"", 0, command.encode() + rb", \d+ s"
            while spent < 60 and not re.search(sign, said):  # until progress is shown
                side = side * 3 // 2
                said, spent = self.said_on_terminal(sign, command, "synthetic:vit-ti16", *more, "--size",
                                                    str(side), "--threads", "1")
            self.assertRegex(said, sign)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    EXE = os.path.abspath(sys.argv[1])
    counted.main()
