#!/usr/bin/env python3
"""test_results_data.py: compares the results made from given outputs, and crops of people, with those of transformers'
processors in tests/data/results.json.

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
MASKS = ["masks_queries_logits", "class_queries_logits"]
SEGMENTER = os.path.join(DATA, "golden", "models", "eomt-masked-01")
MASK2FORMER = os.path.join(DATA, "golden", "models", "mask2former-01")


def dry(model, frame, **options):
    return fovea.load(model).plan(np.zeros((frame[1], frame[0], 3), np.uint8), dry=True, **options)


def as_rows(maps):
    """(n, high, wide) in the library's layout: a row for each position."""
    return np.ascontiguousarray(maps.transpose(1, 2, 0).reshape(-1, len(maps)))


def unrolled(runs):
    return np.repeat([v for v, _ in runs], [n for _, n in runs])


def planned(model, frame, rule):
    """A plan for masks; with a rule, a dry plan that preprocesses by this rule."""
    names = (C.c_char_p * 2)(b"masks_queries_logits", b"class_queries_logits")
    plan = model.plan(np.zeros((frame[1], frame[0], 3), np.uint8), outputs=MASKS)
    if rule is None:
        return plan
    options = c.PlanOptions(frame=c.FrameShape(0, *frame, 1), preprocess=C.pointer(rule), dry=True,
                            outputs=C.cast(names, C.POINTER(C.c_char_p)), n_outputs=2)
    other = object.__new__(type(plan))
    other.frame, other._format = ("rgb8", *frame), None
    Handle.__init__(other, lib.fovea_plan_free, model, lib.fovea_plan_create, model, model._device,
                    C.byref(options))
    return other


def cut(parts, picture, info):
    """The pixels of each part."""
    frames, picture = (c.Frame * info.count)(), np.ascontiguousarray(picture)
    given = c.Frame((C.c_void_p * 3)(picture.ctypes.data))
    parts._call(lib.fovea_parts_cut, C.byref(given), frames, info.count)
    for frame in frames:
        rows = [C.string_at(frame.pixels[0] + y * frame.stride[0], info.width * 3) for y in range(info.height)]
        yield np.frombuffer(b"".join(rows), np.uint8)


class Results(unittest.TestCase):
    def test_depth(self):
        for i, (frame, size) in enumerate(cases.DEPTHS):
            with self.subTest(frame=frame, size=size):
                plan = dry("synthetic:depth-anything-s", frame, preprocess=True, size=size)
                found = plan._depth([cases.depth(i).reshape(-1, 1)])
                self.assertEqual(found.shape, frame[::-1])
                np.testing.assert_allclose(found.reshape(-1)[::cases.STEP], WANT["depth"][i], atol=1e-5)

    def test_masks(self):
        shape, model = WANT["segmenter"], fovea.load(SEGMENTER)
        for i, frame in enumerate(cases.FRAMES):
            rule = rule_of(model)
            rule.resize, rule.resize_width, rule.resize_height = 2, shape["side"], shape["side"]  # FOVEA_RESIZE_EXACT
            rule.pad = 0
            plan = planned(model, frame, rule)
            masks, classes = cases.masks(i, shape["queries"], *shape["grid"], shape["classes"])
            outputs, want = [as_rows(masks), classes], WANT["masks"][i]
            self.check_rules(plan, outputs, want)

    def test_masks_of_mask2former(self):
        shape, model = WANT["mask2former"], fovea.load(MASK2FORMER)
        for i, frame in enumerate(cases.FRAMES):
            rule = rule_of(model)
            rule.resize, (rule.resize_width, rule.resize_height) = 2, shape["size"]  # FOVEA_RESIZE_EXACT
            plan = planned(model, frame, rule)
            masks, classes = cases.masks_of_mask2former(i, shape["queries"], *shape["grid"], shape["classes"])
            self.check_rules(plan, [as_rows(masks), classes], WANT["masks_of_mask2former"][i])

    def check_rules(self, plan, outputs, want):
        found = plan._class_map(outputs).reshape(-1)
        self.assertLess(np.mean(found != unrolled(want["semantic"])), 1e-3)
        for rule in ("panoptic", "instance"):
            for k, thresholds in enumerate(cases.THRESHOLDS):
                with self.subTest(frame=plan.frame, rule=rule, threshold=thresholds[0]):
                    self.check_masks(plan, outputs, rule, thresholds, want[rule][k])

    def check_masks(self, plan, outputs, rule, thresholds, want):
        masks = plan._masks(outputs, rule, *thresholds, cases.STUFF, 100)
        self.assertEqual([m.label for m in masks.found], [m[0] for m in want["masks"]])
        np.testing.assert_allclose([m.score for m in masks.found], [m[1] for m in want["masks"]], atol=2e-6)
        self.assertLess(np.mean(masks.pixels.reshape(-1) != unrolled(want["map"])), 1e-3)

    def test_what_fills_up_is_cut_off(self):
        shape = WANT["segmenter"]
        model = fovea.load(SEGMENTER)
        for i, frame in enumerate(cases.PADDED):
            rule = rule_of(model)
            rule.resize, rule.long_edge = 5, shape["side"]  # FOVEA_RESIZE_LONG
            rule.pad, rule.pad_width, rule.pad_height = 2, shape["side"], shape["side"]  # FOVEA_PAD_BLACK
            plan = planned(model, frame, rule)
            self.assertEqual((plan.info["width"], plan.info["height"]), (shape["side"], shape["side"]))
            masks, classes = cases.masks(10 + i, shape["queries"], *shape["grid"], shape["classes"])
            for kind in ("panoptic", "instance"):
                with self.subTest(frame=frame, rule=kind):
                    self.check_masks(plan, [as_rows(masks), classes], kind, cases.THRESHOLDS[1],
                                     WANT["padded"][i][kind])

    def test_parts(self):
        shape, model = WANT["segmenter"], fovea.load(SEGMENTER)
        for i, (wide, high) in enumerate(cases.PARTS):
            with self.subTest(width=wide, height=high):
                want, rule = WANT["parts"][i], rule_of(model)
                rule.resize, rule.filter, rule.short_edge, rule.split = 1, 0, cases.SIDE, 1  # FOVEA_RESIZE_SHORT
                rule.pad = rule.crop_width = rule.crop_height = 0
                info = parts_of(rule, wide, high)
                self.assertEqual(([info.width, info.height], info.count), (want["size"], len(want["crc32"])))
                parts = Parts(planned(model, (info.width, info.height), None), rule, wide, high)
                self.assertEqual([zlib.crc32(one.tobytes()) for one in cut(parts, cases.picture(wide, high), info)],
                                 want["crc32"])
                outputs = []
                for k in range(info.count):
                    masks, classes = cases.masks(20 + 10 * i + k, shape["queries"], *shape["grid"], shape["classes"])
                    outputs += [as_rows(masks), classes]
                found = parts.class_map(outputs).reshape(-1)
                self.assertLess(np.mean(found != unrolled(want["classes"])), 1e-3)

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
    from fovea import _structures as c
    from fovea._handle import Handle
    from fovea._library import lib
    from fovea._parts import Parts, parts_of
    from fovea._plan import rule_of
    with open(os.path.join(DATA, "results.json")) as f:
        WANT = json.load(f)
    counted.main()
