#!/usr/bin/env python3
"""test_results_data.py: what is made of given outputs, and people cut out of a picture, against what transformers'
processors make of the same: tests/data/results.json.

    test_results_data.py path/to/libfovea.so
"""
import ctypes as C
import json
import os
import sys
import unittest
import zlib

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.join(HERE, ".."))
sys.path.append(os.path.join(HERE, "..", "..", "python"))
import counted

np = counted.need("numpy")
import results_cases as cases

DATA = os.path.join(HERE, "..", "data")
SEGMENTER = os.path.join(DATA, "golden", "models", "eomt-masked-01")


def dry(model, frame, **options):
    return fovea.load(model).plan(np.zeros((frame[1], frame[0], 3), np.uint8), dry=True, **options)


def as_rows(maps):
    """(n, high, wide) as the library has them: a row for each place."""
    return np.ascontiguousarray(maps.transpose(1, 2, 0).reshape(-1, len(maps)))


def unrolled(runs):
    return np.repeat([v for v, _ in runs], [n for _, n in runs])


class Results(unittest.TestCase):
    def test_depth(self):
        for i, (frame, size) in enumerate(cases.DEPTHS):
            with self.subTest(frame=frame, size=size):
                plan = dry("synthetic:depth-anything-s", frame, preprocess=True, size=size)
                found = plan._depth([cases.depth(i).reshape(-1, 1)])
                self.assertEqual(found.shape, frame[::-1])
                np.testing.assert_allclose(found.reshape(-1)[::cases.STEP], WANT["depth"][i], atol=1e-5)

    def test_masks(self):
        shape = WANT["segmenter"]
        for i, frame in enumerate(cases.FRAMES):
            plan = dry(SEGMENTER, frame, preprocess=True, size=shape["side"],
                       outputs=["masks_queries_logits", "class_queries_logits"])
            masks, classes = cases.masks(i, shape["queries"], *shape["grid"], shape["classes"])
            outputs, want = [as_rows(masks), classes], WANT["masks"][i]
            found = plan._class_map(outputs).reshape(-1)
            self.assertLess(np.mean(found != unrolled(want["semantic"])), 1e-3)
            for rule in ("panoptic", "instance"):
                for k, (score, inside, left) in enumerate(cases.THRESHOLDS):
                    with self.subTest(frame=frame, rule=rule, threshold=score):
                        records, pixels = plan._masks(outputs, rule, score, inside, left, cases.STUFF, 100)
                        self.assertEqual([m.label for m in records], [m[0] for m in want[rule][k]["masks"]])
                        np.testing.assert_allclose([m.score for m in records],
                                                   [m[1] for m in want[rule][k]["masks"]], atol=2e-6)
                        self.assertLess(np.mean(pixels.reshape(-1) != unrolled(want[rule][k]["map"])), 1e-3)

    def test_people(self):
        plan = dry("synthetic:vitpose-s", cases.POSE, outputs=["heatmaps"])
        for i, box in enumerate(cases.BOXES):
            with self.subTest(box=box):
                found = plan._box_keypoints([as_rows(cases.heat(i, 17, 64, 48))], box, 17)
                np.testing.assert_allclose([[p.x, p.y, p.score] for p in found], WANT["poses"][i], rtol=1e-5,
                                           atol=1e-3)

    def test_crops(self):
        picture = cases.picture()
        for i, box in enumerate(cases.BOXES):
            with self.subTest(box=box):
                found = fovea.crop(picture, box, *cases.POSE)
                self.assertEqual(found[::37, ::23, 1].reshape(-1).tolist(), WANT["crops"][i]["some"])
                self.assertEqual(zlib.crc32(found.tobytes()), WANT["crops"][i]["crc32"])

    def test_crops_of_cameras(self):
        """Every format gives what its R, G, B pixels give."""
        picture = cases.picture()
        for i, box in enumerate(cases.BOXES):
            mirrored = fovea.crop(np.ascontiguousarray(picture[:, :, ::-1]), box, *cases.POSE, format="bgr8")
            np.testing.assert_array_equal(mirrored, fovea.crop(picture, box, *cases.POSE))
            grey = fovea.crop(picture[:, :, 1], box, *cases.POSE)
            np.testing.assert_array_equal(grey, fovea.crop(np.repeat(picture[:, :, 1:2], 3, 2), box, *cases.POSE))

    def test_boxes_that_are_none(self):
        for box in ([0, 0, 0, 0], [0, 0, -1, 5], [float("nan"), 0, 5, 5], [0, 0, float("inf"), 5]):
            with self.assertRaisesRegex(fovea.Error, "box"):
                fovea.crop(cases.picture(), box, *cases.POSE)


if __name__ == "__main__":
    os.environ["FOVEA_LIBRARY"] = sys.argv.pop(1)
    import fovea
    with open(os.path.join(DATA, "results.json")) as f:
        WANT = json.load(f)
    counted.main()
