#!/usr/bin/env python3
"""test_video.py: `fovea run`: standard input, Y4M and raw video.

    test_video.py path/to/fovea

The logits of every frame are compared with those of the same pixels as a picture, or as raw video with
another layout.
"""
import json
import os
import signal
import struct
import subprocess
import sys
import tempfile
import unittest

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import counted

np = counted.need("numpy")

VIT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data", "golden", "models", "vit-01")


def ppm(rgb):
    return b"P6 %d %d 255\n" % (rgb.shape[1], rgb.shape[0]) + rgb.tobytes()


def colours(n, width=24, height=16):
    return np.random.default_rng(1).integers(0, 256, (n, height, width, 3), np.uint8)


def rgb_of(y, u, v):
    """Converts Y, U, V to R, G, B by BT.601 in limited range, rounded."""
    y, u, v = (p.astype(float) for p in (y, u, v))
    luma = 255 / 219 * (y - 16)
    red, blue = luma + 255 / 224 * 1.402 * (v - 128), luma + 255 / 224 * 1.772 * (u - 128)
    green = (luma - .299 * red - .114 * blue) / .587
    return np.clip(np.floor(np.stack([red, green, blue], -1) + .5), 0, 255).astype(np.uint8)


class Planes:
    """Frames of 4:2:0: y (n, H, W), u and v (n, (H + 1) / 2, (W + 1) / 2)."""

    def __init__(self, n, width=24, height=16, grey=False):
        r = np.random.default_rng(2)
        half = n, (height + 1) // 2, (width + 1) // 2
        self.width, self.height, self.n = width, height, n
        self.y = r.integers(0, 256, (n, height, width), np.uint8)
        self.u = r.integers(0, 256, half, np.uint8)
        self.v = r.integers(0, 256, half, np.uint8)
        if grey:
            self.u[:] = self.v[:] = 128

    def yuv420p(self, i):
        return self.y[i].tobytes() + self.u[i].tobytes() + self.v[i].tobytes()

    def nv12(self, i):
        return self.y[i].tobytes() + np.stack([self.u[i], self.v[i]], -1).tobytes()

    def y4m(self, words=b"F30000:1001 Ip A1:1 C420jpeg", frame=b"FRAME\n", mono=False):
        head = b"YUV4MPEG2 W%d H%d " % (self.width, self.height) + words + b"\n"
        return head + b"".join(frame + (self.y[i].tobytes() if mono else self.yuv420p(i)) for i in range(self.n))

    def raw(self, layout):
        return b"".join(getattr(self, layout)(i) for i in range(self.n))

    def size(self):
        return "%dx%d" % (self.width, self.height)


def without_warnings(said):
    """The messages without the warning that the model has no preprocessor_config.json."""
    return b"".join(line for line in said.splitlines(True) if not line.startswith(b"fovea: warning: "))


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, data):
        with open(self.path(name), "wb") as f:
            f.write(data)
        return name

    def run_on(self, *args, data=b"", code=0, words=None):
        p = subprocess.run([EXE, "run", VIT, *args], input=data, capture_output=True, cwd=self.folder)
        p.err = without_warnings(p.stderr).decode()
        self.assertEqual(p.returncode, code, p.err)
        if words:
            self.assertIn(words, p.err)
            self.assertEqual(len(p.err.splitlines()), 1, p.err)
        return p

    def frames(self, *args, data=b"", code=0, words=None):
        p = self.run_on(*args, "--json", data=data, code=code, words=words)
        return [json.loads(line) for line in p.stdout.splitlines()]

    def logits(self, *args, data=b"", code=0):
        self.run_on(*args, "-o", "o.safetensors", data=data, code=code)
        with open(self.path("o.safetensors"), "rb") as f:
            blob = f.read()
        n = struct.unpack("<Q", blob[:8])[0]
        t = json.loads(blob[8:8 + n])["logits"]
        begin, end = t["data_offsets"]
        return np.frombuffer(blob, "<f4", (end - begin) // 4, 8 + n + begin).reshape(t["shape"])


class StandardInput(Case):
    def test_a_picture(self):
        picture = ppm(colours(1)[0])
        self.write("a.ppm", picture)
        want = self.logits("a.ppm")
        self.assertTrue((self.logits("-", data=picture) == want).all())
        self.assertEqual(self.logits("a.ppm", "-", data=picture).tobytes(), 2 * want.tobytes())
        (one,) = self.frames("-", data=picture)
        self.assertEqual(one["input"], "-")
        self.assertNotIn("frame", one)

    def test_files_are_named(self):
        self.write("a.ppm", ppm(colours(1)[0]))
        self.run_on("a.ppm", "-", "--pca", "o.png", data=ppm(colours(1)[0]))
        self.assertEqual(sorted(n for n in os.listdir(self.folder) if n.endswith(".png")),
                         ["o-a.png", "o-stdin.png"])

    def test_words(self):
        self.run_on("-", code=7, words="- is empty")
        self.run_on("-", data=b"nothing that is known", code=7, words="- is not a ")
        self.run_on("-", data=ppm(colours(1)[0])[:-1], code=7, words="-: the file ends early")
        self.run_on("-", "-", data=ppm(colours(1)[0]), code=1, words="can be given only once")


class Y4M(Case):
    def test_frames(self):
        for width, height in ((24, 16), (23, 17)):
            p = Planes(3, width, height)
            want = self.logits("-", "--raw", "nv12:" + p.size(), data=p.raw("nv12"))
            self.assertEqual(len({row.tobytes() for row in want}), 3)
            for words in (b"F25:1 C420jpeg", b"F25:1", b"C420mpeg2 XYSCSS=420MPEG2", b"It C420paldv", b"C420"):
                self.assertTrue((self.logits("-", data=p.y4m(words)) == want).all(), words)
            self.assertTrue((self.logits("-", data=p.y4m(frame=b"FRAME Ip\n")) == want).all())
            self.write("a.y4m", p.y4m())
            self.assertTrue((self.logits("a.y4m") == want).all())
            self.assertTrue((self.logits("a.y4m", "--raw", "gray:4x4") == want).all())

    def test_grey(self):
        p = Planes(2, 23, 17, grey=True)
        limited, full = self.logits("-", data=p.y4m()), self.logits("-", data=p.y4m(b"XCOLORRANGE=FULL"))
        for words, want in ((b"Cmono", full), (b"Cmono XCOLORRANGE=FULL", full),
                            (b"Cmono XCOLORRANGE=LIMITED", limited)):
            self.assertLess(abs(self.logits("-", data=p.y4m(words, mono=True)) - want).max(), 1e-4, words)
        grey = p.y.tobytes()
        raw = "--raw", "gray:" + p.size()
        self.assertLess(abs(self.logits("-", *raw, data=grey) - full).max(), 1e-4)
        self.assertLess(abs(self.logits("-", *raw, "--yuv", "709", data=grey) - limited).max(), 1e-4)

    def test_json(self):
        p = Planes(3)
        found = self.frames("-", data=p.y4m())
        self.assertEqual([f["frame"] for f in found], [0, 1, 2])
        self.assertEqual([f["input"] for f in found], ["-[0]", "-[1]", "-[2]"])
        for i, f in enumerate(found):
            self.assertAlmostEqual(f["time"], i * 1001 / 30000, places=9)
        self.assertNotIn("time", self.frames("-", data=p.y4m(b"F0:0"))[0])
        self.assertNotIn("time", self.frames("-", data=p.y4m(b""))[0])
        for rate, second in (("25", 1 / 25), ("12.5", 1 / 12.5), ("30000/1001", 1001 / 30000)):
            found = self.frames("-", "--raw", "nv12:%s@%s" % (p.size(), rate), data=p.raw("nv12"))
            self.assertAlmostEqual(found[1]["time"], second, places=9)

    def test_rules_of_colour(self):
        p = Planes(1)
        names = "601", "601-full", "709", "709-full", "2020", "2020-full"
        rules = {r: self.logits("-", "--yuv", r, data=p.y4m()).tobytes() for r in names}
        self.assertEqual(len(set(rules.values())), 6)
        self.assertEqual(self.logits("-", data=p.y4m()).tobytes(), rules["601"])
        self.assertEqual(self.logits("-", data=p.y4m(b"XCOLORRANGE=LIMITED")).tobytes(), rules["601"])
        self.assertEqual(self.logits("-", data=p.y4m(b"XCOLORRANGE=FULL")).tobytes(), rules["601-full"])
        for words, raw, rule in ((b"", (), "709"), (b"C420mpeg2 XCOLORRANGE=LIMITED", (), "709"),
                                 (b"C420jpeg XCOLORRANGE=LIMITED", (), "709"),
                                 (b"C420jpeg XCOLORRANGE=FULL", (), "601-full"),  # how a JPEG is encoded
                                 (b"XCOLORRANGE=FULL", (), "601-full"),
                                 (b"C420mpeg2 XCOLORRANGE=FULL", (), "709-full"),
                                 (None, ("--raw", "nv12:32x720"), "709")):
            p = Planes(1, 32, 720)
            data = p.raw("nv12") if raw else p.y4m(words)
            self.assertTrue((self.logits("-", *raw, data=data) ==
                             self.logits("-", *raw, "--yuv", rule, data=data)).all(), (words, raw, rule))

    def test_layouts(self):
        """Every chroma format and depth equals R, G, B of the same samples; 16-bit formats equal 8-bit ones."""
        r = np.random.default_rng(5)
        for width, height in ((24, 16), (23, 17)):
            for chroma, across, down in (("420", 2, 2), ("422", 2, 1), ("444", 1, 1), ("411", 4, 1), ("mono", 0, 0)):
                planes = [r.integers(0, 256, (height, width), np.uint8)]
                if across:
                    planes += [r.integers(0, 256, (-(-height // down), -(-width // across)), np.uint8) for _ in "uv"]
                y, u, v = (np.full((height, width), 128, np.uint8) if i >= len(planes) else planes[i] if i == 0 else
                           np.repeat(np.repeat(planes[i], across, 1), down, 0)[:height, :width] for i in range(3))
                self.write("a.ppm", ppm(rgb_of(y, u, v)))
                want = self.logits("a.ppm")
                size = "%dx%d" % (width, height)
                head = "YUV4MPEG2 W%d H%d XCOLORRANGE=LIMITED C%s%%s\nFRAME\n" % (width, height, chroma)
                data = b"".join(p.tobytes() for p in planes)
                got = self.logits("-", data=(head % "").encode() + data)
                self.assertLess(abs(got - want).max(), 0.02, chroma)  # where a rounding differs by 1 of 255
                name = "gray" if chroma == "mono" else "yuv%sp" % chroma
                raw = self.logits("-", "--raw", "%s:%s" % (name, size), "--yuv", "601", data=data)
                self.assertTrue((raw == got).all(), name)
                for bits in (10, 12, 16) if chroma != "411" else ():
                    wide = b"".join((p.astype("<u2") << (bits - 8)).tobytes() for p in planes)
                    depth = str(bits) if chroma == "mono" else "p%d" % bits
                    data16 = (head % depth).encode() + wide
                    self.assertTrue((self.logits("-", data=data16) == got).all(), chroma + depth)
                    raw = "%s%d" % (name, bits) if chroma == "mono" else name + depth[1:]
                    for end in "", "le":
                        again = self.logits("-", "--raw", "%s%s:%s" % (raw, end, size), "--yuv", "601", data=wide)
                        self.assertTrue((again == got).all(), raw + end)

    def test_batches_of_layouts(self):
        p = Planes(5, 23, 17)
        want = self.logits("-", data=p.y4m())
        self.assertTrue((self.logits("-", "--batch", "3", data=p.y4m()) == want).all())

    def test_what_is_refused(self):
        p = Planes(2)
        for chroma in (b"C420p9", b"C444alpha", b"C410", b"Cmono9", b"C"):
            self.run_on("-", data=p.y4m(chroma), code=7, words="chroma " + chroma[1:].decode())
        self.run_on("-", data=p.y4m(b"C444alpha"), code=7, words="-pix_fmt yuv444p")
        whole = p.y4m()
        for data, words in [
                (b"YUV4MPEG2 W24\n", "0 pixels"), (b"YUV4MPEG2 W0 H9\n", "0x9 pixels"),
                (b"YUV4MPEG2 W-4 H9\n", "0x9 pixels"), (b"YUV4MPEG2 W4x H9\n", "0x9 pixels"),
                (b"YUV4MPEG2 W99999999999999999999 H99999999999\n", "1 to 2^28 pixels"),
                (b"YUV4MPEG2 W65536 H65536\n", "1 to 2^28 pixels"),
                (b"YUV4MPEG2 W65536 H1\n", "sides must be from 1 to 65535"),
                (b"YUV4MPEG2 W4 H4", "does not begin"), (b"YUV4MPEG2" + b" " * 5000, "does not begin"),
                (b"YUV4MPEG3 W4 H4\n", "does not begin"), (b"Y", "does not begin"),
                (whole[:whole.index(b"\n") + 1], "contains no frame"),
                (b"YUV4MPEG2 W16384 H16384\nFRAME\n12", "ends in frame 0, after 2 of its 402653184 bytes")]:
            self.run_on("-", data=data, code=7, words=words)
        self.write("a.y4m", b"")
        self.run_on("a.y4m", code=7, words="a.y4m is empty")
        self.run_on("no.y4m", code=7, words="no.y4m: No such file")

    def test_what_came_before_the_end_is_kept(self):
        p = Planes(3)
        whole = p.y4m()
        want = self.logits("-", data=whole)
        last = len(whole) - 24 * 16 * 3 // 2  # the pixels of frame 2
        for end, words in ((last + 7, "- ends in frame 2, after 7 of its 576 bytes"),
                           (last, "- ends in frame 2, after 0 of its 576 bytes"),
                           (last - 2, "-: frame 2 does not begin")):
            self.assertEqual(len(self.frames("-", data=whole[:end], code=7, words=words)), 2)
            self.assertTrue((self.logits("-", data=whole[:end], code=7) == want[:2]).all())
        wrong = whole[:last - 6] + b"FLAME\n" + whole[last:]
        self.assertEqual(len(self.frames("-", data=wrong, code=7, words="frame 2 does not begin")), 2)


class Raw(Case):
    def test_colours(self):
        rgb = colours(2, 23, 17)
        for i in range(2):
            self.write("%d.ppm" % i, ppm(rgb[i]))
        want = self.logits("0.ppm", "1.ppm")
        self.assertTrue((self.logits("-", "--raw", "rgb24:23x17", data=rgb.tobytes()) == want).all())
        bgr = np.ascontiguousarray(rgb[..., ::-1]).tobytes()
        self.assertTrue((self.logits("-", "--raw", "bgr24:23x17", data=bgr) == want).all())
        grey = np.ascontiguousarray(rgb[..., 0])
        for i in range(2):
            self.write("%d.ppm" % i, ppm(np.stack([grey[i]] * 3, -1)))
        self.assertTrue((self.logits("-", "--raw", "gray:23x17", data=grey.tobytes()) ==
                         self.logits("0.ppm", "1.ppm")).all())

    def test_luma_and_chroma(self):
        for width, height in ((24, 16), (23, 17)):
            p = Planes(2, width, height)
            want = self.logits("-", "--raw", "nv12:" + p.size(), data=p.raw("nv12"))
            self.assertTrue((self.logits("-", "--raw", "yuv420p:" + p.size(), data=p.raw("yuv420p")) == want).all())
            p.u, p.v = (np.repeat(c[:, :1], c.shape[1], 1) for c in (p.u, p.v))  # the same in every row
            want = self.logits("-", data=p.y4m())
            packed = np.zeros((2, height, (width + 1) // 2, 4), np.uint8)
            packed[..., 0], packed[:, :, :width // 2, 2] = p.y[:, :, ::2], p.y[:, :, 1::2]
            packed[..., 1], packed[..., 3] = p.u[:, :1], p.v[:, :1]
            got = self.logits("-", "--raw", "yuyv422:" + p.size(), data=packed.tobytes())
            self.assertTrue((got == want).all())

    def test_words(self):
        for raw in ("nv12", "nv12:", "nv12:0x4", "nv12:4x4@", "nv12:4x4@x", "nv12:4x4@0", "nv12:4x4@1/0", "nv12@3:4x4",
                    "nv12:4x4@nan", "yuv440p:4x4", ":4x4", "ppm:4x4", "ppm@x", "yuv420p1:4x4"):
            self.run_on("-", "--raw", raw, code=1, words="raw")
        self.run_on("-", "--yuv", "2100", "--raw", "nv12:4x4", code=1, words="yuv")
        self.run_on("-", "--raw", "rgb24:4x4", code=7, words="- contains no frame")
        self.run_on("-", "--raw", "rgb24:4x4", data=bytes(47), code=7, words="frame 0, after 47 of its 48 bytes")

    def test_frames_have_files(self):
        rgb = colours(2)
        raw = "--raw", "rgb24:24x16"
        self.run_on("-", *raw, "--pca", "p.png", "--attention-map", "3,3,m.png", "--size", "64", data=rgb.tobytes())
        self.assertEqual(sorted(n for n in os.listdir(self.folder) if n.endswith(".png")),
                         ["m-stdin-0.png", "m-stdin-1.png", "p-stdin-0.png", "p-stdin-1.png"])
        self.write("0.ppm", ppm(rgb[0]))
        self.run_on("0.ppm", "--attention-map", "3,3,one.png", "--size", "64")
        with open(self.path("one.png"), "rb") as one, open(self.path("m-stdin-0.png"), "rb") as two:
            self.assertEqual(one.read(), two.read())
        self.run_on("-", "--attention-map", "3,3,n.png", data=Planes(1).y4m(), code=2, words="--raw ppm")
        self.run_on("-", "0.ppm", "--pca", "q.png", data=Planes(1).y4m(), code=1, words="the only input")


    def test_ppm(self):
        rgb = colours(3, 23, 17)
        want = self.logits("-", "--raw", "rgb24:23x17", data=rgb.tobytes())
        data = b"".join(ppm(one) for one in rgb)
        self.assertTrue((self.logits("-", "--raw", "ppm", data=data) == want).all())
        wide = b"".join(b"P6\n# of 16 bits\n23 17\n65535\n" + (one.astype(">u2") * 257).tobytes() for one in rgb)
        self.assertTrue((self.logits("-", "--raw", "ppm", data=wide) == want).all())
        found = self.frames("-", "--raw", "ppm@25", data=data)
        self.assertEqual([(f["frame"], f["time"]) for f in found], [(0, 0), (1, 1 / 25), (2, 2 / 25)])
        other = colours(1, 31, 12)[0]
        self.assertEqual(len(self.frames("-", "--raw", "ppm", data=data + ppm(other) + data)), 7)
        for bad, words in ((data[:-1], "ends in frame 2, after 1172 of its 1173 bytes"),
                           (data + b"P5 1 1 255\n1", "frame 3 is not a binary PPM"), (data + b"P6 4", "frame 3 is not"),
                           (data + b"P6 4 4 100\n" + bytes(48), "frame 3 is not")):
            self.assertEqual(len(self.frames("-", "--raw", "ppm", data=bad, code=7, words=words)),
                             2 if "2," in words else 3)
        self.run_on("-", "--raw", "ppm", code=7, words="- contains no frame")
        self.run_on("-", "--raw", "ppm", data=b"P6 0 4 255\n", code=7, words="frame 0 is not a binary PPM")
        self.run_on("-", "--raw", "ppm", "--attention-map", "3,3,m.png", "--size", "64", data=data)
        self.assertEqual(len([n for n in os.listdir(self.folder) if n.endswith(".png")]), 3)


class Stream(Case):
    def begin(self, *args, **more):
        p = subprocess.Popen([EXE, "run", VIT, "-", "--json", *args], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, **more)
        self.addCleanup(p.wait)
        self.addCleanup(p.stderr.close)
        return p

    def test_each_frame_is_answered_before_the_next_one_comes(self):
        p, v = self.begin(), Planes(4)
        with p.stdin, p.stdout:
            p.stdin.write(b"YUV4MPEG2 W24 H16 F30:1\n")
            for i in range(v.n):
                p.stdin.write(b"FRAME\n" + v.yuv420p(i))
                p.stdin.flush()
                self.assertEqual(json.loads(p.stdout.readline())["frame"], i)
            p.stdin.close()
            self.assertEqual((p.stdout.read(), p.wait()), (b"", 0))

    def test_nobody_reads_any_longer(self):
        for ignores, code in ((False, -signal.SIGPIPE), (True, 7)):
            p = self.begin("--raw", "gray:24x16", restore_signals=not ignores)
            p.stdin.write(bytes(24 * 16))
            p.stdin.flush()
            p.stdout.readline()
            p.stdout.close()
            try:
                for _ in range(500):
                    p.stdin.write(bytes(24 * 16))
                    p.stdin.flush()
                self.fail("it reads on")
            except BrokenPipeError:
                pass
            try:
                p.stdin.close()
            except BrokenPipeError:
                pass
            self.assertEqual(p.wait(), code)
            self.assertEqual(without_warnings(p.stderr.read()), b"" if code < 0 else (
                b"fovea: cannot write to standard output; its reader may have ended, or the disk may be full\n"))

    def test_memory_does_not_grow(self):
        peaks = []
        # AddressSanitizer keeps freed memory, in total and per thread, to detect uses after free.
        given = os.environ.get("ASAN_OPTIONS")
        env = dict(os.environ, ASAN_OPTIONS=(given + ":" if given else "") +
                   "quarantine_size_mb=0:thread_local_quarantine_size_kb=0")
        for n in (20, 2000):
            done = subprocess.run(
                [sys.executable, "-c", "import resource, subprocess, sys\n"
                 "subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, check=True)\n"
                 "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)",
                 EXE, "run", VIT, "-", "--json", "--raw", "rgb24:24x16", "--threads", "1"],
                input=bytes(n * 24 * 16 * 3), stdout=subprocess.PIPE, check=True, env=env)
            peaks.append(int(done.stdout))
        self.assertLess(peaks[1], peaks[0] + 1024, "KiB")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    EXE = os.path.abspath(sys.argv[1])
    counted.main()
