#!/usr/bin/env python3
"""test_scenes.py: the generator of scenes with handwritten digits.

    test_scenes.py path/to/scenes path/to/digits.csv.gz
"""
import gzip
import json
import os
import struct
import subprocess
import sys
import tempfile
import unittest

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import counted

np = counted.need("numpy")


def draw(out, split="train", seed=1, first=0, count=4, size=84, fails=False):
    p = subprocess.run([SCENES, split, str(seed), str(first), str(count), str(size), out], input=DIGITS,
                       capture_output=True)
    assert (p.returncode != 0) == fails, p.stderr.decode()
    return p.stderr.decode()


def scenes(**more):
    """(images, masks) of a packed file."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "scenes.safetensors")
        draw(path, **more)
        with open(path, "rb") as f:
            header = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
            data = f.read()
    found = []
    for name in ("images", "masks"):
        begin, end = header[name]["data_offsets"]
        found.append(np.frombuffer(data[begin:end], np.uint8).reshape(header[name]["shape"]))
    return found


class Scenes(unittest.TestCase):
    def test_reproducible(self):
        """The same arguments give the same bytes; another seed, split or number gives different ones."""
        images, masks = scenes()
        self.assertEqual((images.shape, masks.shape), ((4, 84, 84, 3), (4, 84, 84)))
        for a, b in zip((images, masks), scenes()):
            np.testing.assert_array_equal(a, b)
        for a, b in zip((images, masks), scenes(first=2, count=2)):
            np.testing.assert_array_equal(a[2:], b)
        for other in ({"seed": 2}, {"split": "test"}, {"first": 4}):
            self.assertTrue((scenes(**other)[0] != images).mean() > 0.5, other)

    def test_content(self):
        """The scenes have the background and all digits, each in some of the scenes; digits are not of one colour."""
        images, masks = scenes(count=40)
        share = np.bincount(masks.ravel(), minlength=11) / masks.size
        self.assertEqual(len(share), 11)
        self.assertTrue(0.2 < share[0] < 0.9, share)
        self.assertTrue((share[1:] > 0.002).all(), share)
        self.assertTrue((images.std(axis=(1, 2, 3)) > 10).all())

    def test_sizes(self):
        """A scene is the same picture at every size."""
        (images, masks), (large, large_masks) = scenes(), scenes(size=252)
        middle = large_masks[:, 1::3, 1::3]
        self.assertTrue((middle == masks).mean() > 0.97)
        coarse = large.reshape(4, 84, 3, 84, 3, 3).mean(axis=(2, 4))
        self.assertTrue(np.abs(coarse - images).mean() < 8)

    def test_folder(self):
        """Pictures and masks of a folder are those of a packed file."""
        images, masks = scenes(first=3, count=1)
        with tempfile.TemporaryDirectory() as folder:
            draw(folder, first=3, count=1)
            for name, pixels in (("0003.ppm", images[0]), ("0003_mask.pgm", masks[0])):
                with open(os.path.join(folder, name), "rb") as f:
                    self.assertEqual(f.read()[-pixels.size:], pixels.tobytes())

    def test_refuses(self):
        with tempfile.TemporaryDirectory() as folder:
            out = os.path.join(folder, "x.safetensors")
            self.assertIn("pixels", draw(out, size=8, fails=True))
            self.assertIn("usage", draw(out, split="other", fails=True))
            self.assertTrue(draw(os.path.join(folder, "no", "x.safetensors"), fails=True))


if __name__ == "__main__":
    SCENES = sys.argv[1]
    with gzip.open(sys.argv[2]) as f:
        DIGITS = f.read()
    counted.main()
