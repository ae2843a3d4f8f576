#!/usr/bin/env python3
"""picture_time.py: times decoding and resizing a JPEG of 12 megapixels to 518 x 518 pixels, alternating with Pillow.

    ninja -C build bench/picture_time
    python3 bench/picture_time.py [build/bench/picture_time [PICTURE [SIDE]]]

Pillow's time is that of open, convert("RGB") and resize (bicubic). Fovea's time is that of reading the file and
of a frame, which resizes and normalises the pixels and runs a block of 64 channels. Both decoders must give the same
pixels, which is checked.
"""
import os
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np
from PIL import Image

ROUNDS = 15


def photo(path):
    """A photograph as a phone stores it: 4032x3024, 4:2:0, some noise."""
    scene = Image.open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "scene.jpg"))
    pixels = np.asarray(scene.convert("RGB").resize((4032, 3024), Image.BICUBIC)).astype(np.float32)
    pixels += np.random.default_rng(1).normal(0, 4, pixels.shape[:2] + (1,)).astype(np.float32)
    Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(path, quality=90)


def main():
    program = sys.argv[1] if len(sys.argv) > 1 else "build/bench/picture_time"
    side = int(sys.argv[3]) if len(sys.argv) > 3 else 518
    with tempfile.TemporaryDirectory() as folder:
        path, decoded = os.path.join(folder, "photo.jpg"), os.path.join(folder, "pixels")
        if len(sys.argv) > 2:
            path = sys.argv[2]
        else:
            photo(path)
        fovea = subprocess.Popen([program, path, str(side), decoded], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                 text=True)
        times = []
        for _ in range(ROUNDS + 1):  # the first run fills the caches
            fovea.stdin.write("\n")
            fovea.stdin.flush()
            read, run = map(float, fovea.stdout.readline().split())
            begin = time.perf_counter()
            picture = Image.open(path).convert("RGB")
            middle = time.perf_counter()
            picture.resize((side, side), Image.BICUBIC)
            end = time.perf_counter()
            times.append((read, run, 1e3 * (middle - begin), 1e3 * (end - middle)))
        fovea.stdin.close()
        fovea.wait()
        same = np.array_equal(np.fromfile(decoded, np.uint8), np.asarray(picture).reshape(-1))
        print("%dx%d, %d bytes; pixels %s" % (*picture.size, os.path.getsize(path), "the same" if same else "DIFFER"))
        for name, both in (("least", min), ("median", statistics.median)):
            read, run, decode, resize = (both(t) for t in zip(*times[1:]))
            print("%-6s  Fovea: decoded %6.1f ms, frame %6.1f ms; Pillow: decoded %6.1f ms, resized %6.1f ms: "
                  "%.2f x as fast" % (name, read, run, decode, resize, (decode + resize) / (read + run)))
        return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
