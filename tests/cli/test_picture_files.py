#!/usr/bin/env python3
"""test_picture_files.py: `fovea run` on WebP: what Pillow writes of a picture is run as
the same pixels are, upright; broken files are refused. What pixels of every kind of file are is the
question of test_picture_pixels.c.

    test_picture_files.py path/to/fovea [FORMAT...]

FORMAT: webp, where the program was built with it.
"""
import io
import json
import os
import random
import struct
import subprocess
import sys
import tempfile
import unittest

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import counted

np = counted.need("numpy")
Image = counted.need("PIL.Image")

VIT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data", "golden", "models", "vit-01")
BUILT = set()


def noise(width=23, height=17):
    return np.random.default_rng(3).integers(0, 256, (height, width, 3), np.uint8)


def file(rgb, kind, **more):
    out = io.BytesIO()
    (rgb if isinstance(rgb, Image.Image) else Image.fromarray(rgb)).save(out, kind, **more)
    return out.getvalue()


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def run_on(self, *args, code=0, words=None):
        p = subprocess.run([EXE, "run", VIT, *args], capture_output=True, cwd=self.folder, text=True)
        self.assertEqual(p.returncode, code, p.stderr)
        if words is not None:
            self.assertIn(words, p.stderr)
            self.assertEqual(len(p.stderr.splitlines()), 1, p.stderr)

    def write(self, name, data):
        with open(os.path.join(self.folder, name), "wb") as f:
            f.write(data)
        return name

    def logits(self, *files):
        names = [self.write("%d.picture" % i, data) for i, data in enumerate(files)]
        self.run_on(*names, "-o", "o.safetensors")
        with open(os.path.join(self.folder, "o.safetensors"), "rb") as f:
            blob = f.read()
        n = struct.unpack("<Q", blob[:8])[0]
        begin, end = json.loads(blob[8:8 + n])["logits"]["data_offsets"]
        data = blob[8 + n + begin:8 + n + end]
        step = len(data) // len(files)
        return [data[i * step:(i + 1) * step] for i in range(len(files))]

    def same(self, rgb, *files):
        want, *got = self.logits(file(rgb, "PNG"), *files)
        for i, one in enumerate(got):
            self.assertEqual(one, want, i)

    def refused(self, data, words, code=7):
        self.run_on(self.write("a.picture", data), code=code, words=words)

    def refused_where_cut(self, data):
        r = random.Random(4)
        for n in [9, 13, 20, len(data) // 2, len(data) - 1] + [r.randrange(9, len(data)) for _ in range(10)]:
            self.refused(data[:n], "a.picture: ")

    def needs(self, kind):
        if kind not in BUILT:
            self.refused(file(noise(), kind), "built without lib%s (Debian: lib%s-dev)" % (kind.lower(), kind.lower()), 2)
            self.skipTest("built without " + kind)


class WebP(Case):
    def setUp(self):
        super().setUp()
        self.needs("WEBP")

    def test_pixels(self):
        rgb = noise()
        alpha = np.concatenate([rgb, noise()[..., :1] // 2 + 1], -1)
        self.same(rgb, file(rgb, "WEBP", lossless=True), file(alpha, "WEBP", lossless=True, exact=True))
        lossy = file(rgb, "WEBP", quality=60)
        self.same(np.asarray(Image.open(io.BytesIO(lossy)).convert("RGB")), lossy)

    def test_orientation(self):
        for turned in range(1, 9):
            exif = Image.Exif()
            exif[0x0112] = turned
            data = exif.tobytes()
            for exif in (data, data[6:] if data.startswith(b"Exif\0\0") else b"Exif\0\0" + data):
                made = file(noise(), "WEBP", lossless=True, exif=exif)
                png = file(noise(), "PNG", exif=data)
                want, got = self.logits(png, made)
                self.assertEqual(want, got, turned)

    def test_refused(self):
        data = file(noise(), "WEBP", lossless=True)
        self.refused_where_cut(data)
        self.refused_where_cut(file(noise(), "WEBP"))
        big = bytearray(data)  # 16384 x 16384 of few bytes
        at = big.index(b"\x2f", 12)
        big[at + 1:at + 5] = struct.pack("<I", 16383 | 16383 << 14)
        self.refused(bytes(big), "broken")


class Others(Case):
    def test_remedies(self):
        for kind in ("TIFF", "BMP"):
            self.refused(file(noise(), kind), "is a %s; convert it to PNG or JPEG" % kind)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    EXE = os.path.abspath(sys.argv[1])
    BUILT.update(kind.upper() for kind in sys.argv[2:])
    del sys.argv[2:]
    counted.main()
