#!/usr/bin/env python3
"""test_picture_files.py: `fovea run` on WebP, TIFF and BMP files that Pillow writes gives the results of the
same pixels, upright; broken files are refused. test_picture_pixels.c checks the pixels of every kind of file.

    test_picture_files.py path/to/fovea [FORMAT...]

FORMAT: a format that the program was built with, apart from BMP: webp, tiff.
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
BUILT = {"BMP"}


def noise(width=23, height=17):
    return np.random.default_rng(3).integers(0, 256, (height, width, 3), np.uint8)


def file(rgb, kind, **more):
    out = io.BytesIO()
    (rgb if isinstance(rgb, Image.Image) else Image.fromarray(rgb)).save(out, kind, **more)
    return out.getvalue()


def bmp(rgb, bits=24, downwards=False, header=40, compression=0, width=None, height=None):
    rows = (rgb if downwards else rgb[::-1])[..., ::-1]
    if bits == 32:
        rows = np.concatenate([rows, np.full(rows.shape[:2] + (1,), 9, np.uint8)], -1)
    data = b"".join(r.tobytes() + bytes(-r.nbytes % 4) for r in rows)
    width = rgb.shape[1] if width is None else width
    height = (-1 if downwards else 1) * rgb.shape[0] if height is None else height
    info = struct.pack("<IiiHHIIiiII", header, width, height, 1, bits, compression, len(data), 0, 0, 0, 0)
    info += bytes(max(header - 40, 0))
    return b"BM" + struct.pack("<IHHI", 14 + len(info) + len(data), 0, 0, 14 + len(info)) + info + data


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
            self.refused(data[:n], "a.picture")

    def needs(self, kind):
        if kind not in BUILT:
            self.refused(file(noise(), kind), "built without lib%s (Debian: lib%s-dev)" % (kind.lower(), kind.lower()), 2)
            self.skipTest("built without " + kind)


class Bmp(Case):
    def test_pixels(self):
        for width in range(20, 24):
            rgb = noise(width)
            self.same(rgb, file(rgb, "BMP"), bmp(rgb), bmp(rgb, 32), bmp(rgb, downwards=True), bmp(rgb, header=124))

    def test_refused(self):
        rgb = noise()
        for compression, name in ((4, "JPEG"), (5, "PNG"), (99, "unknown compression")):
            self.refused(bmp(rgb, compression=compression), name)
        for sides, words in (((0, 3), "no pixels"), ((3, 0), "no pixels"), ((-3, 3), "pixels"), ((25, 17), "ends early"),
                             ((3, -2 ** 31), "at most 2^28"), ((30000, 30000), "at most 2^28"), ((2 ** 30, 4), "at most 2^28"),
                             ((9000, 9000), "broken")):
            self.refused(bmp(rgb, width=sides[0], height=sides[1]), words)
        for place, words in ((2 ** 31, "ends early"), (len(bmp(rgb)) + 1, "ends early"), (53, "inside the header")):
            data = bytearray(bmp(rgb))
            struct.pack_into("<I", data, 10, place)
            self.refused(bytes(data), words)
        data = bmp(rgb)
        for n in (20, 30, 53, 54, len(data) // 2, len(data) - 4):  # the last row need not be filled up
            self.refused(data[:n], "a.picture")


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


class Tiff(Case):
    def setUp(self):
        super().setUp()
        self.needs("TIFF")

    def test_pixels(self):
        rgb = noise()
        alpha = np.concatenate([rgb, noise()[..., :1]], -1)
        kinds = [{}, {"compression": "tiff_lzw"}, {"compression": "tiff_adobe_deflate"}, {"compression": "packbits"}]
        self.same(rgb, *[file(rgb, "TIFF", **more) for more in kinds], file(alpha, "TIFF"))
        grey = np.repeat(rgb[..., :1], 3, -1)
        self.same(grey, file(np.ascontiguousarray(rgb[..., 0]), "TIFF"))
        palette = Image.fromarray(rgb).quantize(16)
        self.same(np.asarray(palette.convert("RGB")), file(palette, "TIFF"))

    def test_orientation(self):
        for turned in range(1, 9):
            exif = Image.Exif()
            exif[0x0112] = turned
            want, got = self.logits(file(noise(), "PNG", exif=exif.tobytes()),
                                    file(noise(), "TIFF", tiffinfo={0x0112: turned}))
            self.assertEqual(want, got, turned)

    def test_refused(self):
        data = file(noise(), "TIFF")
        self.refused_where_cut(data)
        self.refused_where_cut(file(noise(), "TIFF", compression="tiff_lzw"))
        self.refused(file(Image.fromarray(noise()).convert("LAB"), "TIFF"), "LAB")
        for side in (0, 60000, 2 ** 32 - 1):
            made = bytearray(data)
            at = made.index(struct.pack("<HH", 0x0100, 4)) if struct.pack("<HH", 0x0100, 4) in made else \
                made.index(struct.pack("<HH", 0x0100, 3))
            struct.pack_into("<HII", made, at + 2, 4, 1, side)
            struct.pack_into("<HII", made, at + 14, 4, 1, side)
            self.refused(bytes(made), "a.picture")


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    EXE = os.path.abspath(sys.argv[1])
    BUILT.update(kind.upper() for kind in sys.argv[2:])
    del sys.argv[2:]
    counted.main()
