#!/usr/bin/env python3
"""test_results_peers.py: compares masks, classes and key points of given outputs with transformers'
post-processing.

    test_results_peers.py path/to/libfovea.so
"""
import ctypes as C
import os
import sys
import types
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.join(HERE, ".."))
sys.path.append(os.path.join(HERE, "..", "..", "python"))
import counted

np = counted.need("numpy")
torch = counted.need("torch", "it is for comparison alone")
transformers = counted.need("transformers", "it is for comparison alone")
counted.need("scipy", "transformers needs it for key points")

MODELS = os.path.join(HERE, "..", "data", "golden", "models")
SEGMENTER, DETECTOR = os.path.join(MODELS, "eomt-masked-01"), os.path.join(MODELS, "rf-detr-seg-01")


def given(plan, arrays):
    """The plan's outputs as the library expects them, and the arrays that they point to."""
    kept = [np.ascontiguousarray(arrays[o.name.decode()].reshape(o.rows, o.columns), np.float32)
            for o in plan._outputs()]
    return (fovea.Output * len(kept))(*[fovea.Output(a.ctypes.data, a.nbytes) for a in kept]), kept


class Results(unittest.TestCase):
    def test_key_points(self):
        model = fovea.Model("synthetic:vitpose-s")
        plan = model.plan(np.zeros((256, 192, 3), np.uint8))
        out = plan._outputs()[0]
        high, wide, n = out.grid_height, out.grid_width, out.columns
        rng = np.random.default_rng(1)
        y, x = np.mgrid[:high, :wide]
        maps = np.empty((n, high, wide), np.float32)
        for k in range(n):
            at_x, at_y = rng.uniform(-0.4, wide - 0.6), rng.uniform(-0.4, high - 0.6)
            maps[k] = (rng.uniform(0.2, 1) * np.exp(-((x - at_x) ** 2 + (y - at_y) ** 2) / 4.5)
                       + rng.normal(0, 0.01, (high, wide)))
        outs, _ = given(plan, {"heatmaps": maps.transpose(1, 2, 0)})
        points, count = (fovea._structures.Keypoint * n)(), C.c_size_t()
        plan._call(fovea._lib.fovea_keypoints, outs, len(outs), points, n, C.byref(count))
        processor = transformers.VitPoseImageProcessor()
        want, scores = processor.keypoints_from_heatmaps(
            maps[None], np.array([[96.0, 128.0]]), np.array([[192 / 200, 256 / 200]]))
        np.testing.assert_allclose([[p.x, p.y] for p in points], want[0], atol=1e-4)
        np.testing.assert_array_equal([p.score for p in points], scores[0, :, 0])

    def masks_of(self, side, seed):
        """A plan, its outputs, and the same outputs in transformers' form."""
        model = fovea.Model(SEGMENTER)
        plan = model.plan(np.zeros((side, side, 3), np.uint8),
                          outputs=["masks_queries_logits", "class_queries_logits"])
        masks, classes = plan._outputs()
        rng = np.random.default_rng(seed)
        low = torch.tensor(rng.normal(0, 6, (1, classes.rows, 5, 5)), dtype=torch.float32)
        logits = torch.nn.functional.interpolate(low, size=(masks.grid_height, masks.grid_width),
                                                 mode="bicubic") - 2
        of_class = torch.tensor(rng.normal(0, 1, (1, classes.rows, classes.columns)),
                                dtype=torch.float32)
        for q in range(1, classes.rows):
            of_class[0, q, rng.integers(0, classes.columns - 1)] += 9
        outs = given(plan, {"masks_queries_logits": logits[0].permute(1, 2, 0).numpy(),
                            "class_queries_logits": of_class[0].numpy()})
        return plan, outs, types.SimpleNamespace(masks_queries_logits=logits, patch_offsets=None,
                                                 class_queries_logits=of_class)

    def test_masks(self):
        found = 0
        for seed, side in enumerate((48, 96, 120)):
            plan, (outs, _), theirs = self.masks_of(side, seed)
            size = {"shortest_edge": side, "longest_edge": side}
            processor = transformers.EomtImageProcessor(size=size)
            process = {"panoptic": processor.post_process_panoptic_segmentation,
                       "instance": processor.post_process_instance_segmentation}
            for rule, stuff in (("panoptic", ()), ("panoptic", (0, 1)), ("instance", ())):
                more = {"stuff_classes": list(stuff)} if stuff else {}
                want = process[rule](theirs, [(side, side)], threshold=0.5, size=size, **more)[0]
                options = fovea._structures.MaskOptions(
                    rule=fovea.MASK_RULES[rule], threshold=0.5, n_stuff=len(stuff),
                    stuff=(C.c_uint32 * len(stuff))(*stuff) if stuff else None)
                masks, count = (fovea._structures.Mask * 100)(), C.c_size_t()
                pixels = np.empty((side, side), np.uint16)
                plan._call(fovea._lib.fovea_masks, outs, len(outs), C.byref(options), masks, 100,
                           C.byref(count), pixels.ctypes.data, pixels.size)
                mine = masks[:count.value]
                self.assertEqual([m.label for m in mine],
                                 [s["label_id"] for s in want["segments_info"]])
                np.testing.assert_allclose([m.score for m in mine],
                                           [s["score"] for s in want["segments_info"]], atol=1e-6)
                differ = pixels != want["segmentation"].numpy() + 1
                self.assertLessEqual(differ.mean(), 1e-4)  # on the border of a mask
                found += len(mine)
        self.assertGreater(found, 10)

    def test_masks_of_boxes(self):
        """RF-DETR's masks: as overlapping instances, and with each pixel in one mask."""
        found = 0
        for seed, (wide, high) in enumerate(((56, 56), (84, 42), (28, 140))):
            plan = fovea.Model(DETECTOR).plan(np.zeros((high, wide, 3), np.uint8),
                                              outputs=["logits", "pred_boxes", "pred_masks"])
            logits, boxes, masks = plan._outputs()
            rng = np.random.default_rng(seed)
            low = torch.tensor(rng.normal(0, 6, (1, logits.rows, 5, 5)), dtype=torch.float32)
            theirs = types.SimpleNamespace(
                logits=torch.tensor(rng.normal(0, 1, (1, logits.rows, logits.columns)), dtype=torch.float32),
                pred_masks=torch.nn.functional.interpolate(low, size=(masks.grid_height, masks.grid_width),
                                                           mode="bicubic") - 1)
            outs, _ = given(plan, {"logits": theirs.logits[0].numpy(),
                                   "pred_boxes": rng.uniform(0.2, 0.8, (boxes.rows, 4)),
                                   "pred_masks": theirs.pred_masks[0].permute(1, 2, 0).numpy()})
            for rule, threshold, binary in (("instance", 0, True), ("instance", 0.3, True), ("panoptic", 0.3, False)):
                want = transformers.RfDetrImageProcessor().post_process_instance_segmentation(
                    theirs, target_sizes=[(high, wide)], return_binary_maps=binary,
                    **({"threshold": threshold} if threshold else {}))[0]
                options = fovea._structures.MaskOptions(rule=fovea.MASK_RULES[rule], threshold=threshold)
                mine, count = (fovea._structures.Mask * 100)(), C.c_size_t()
                pixels, inside = np.empty((high, wide), np.uint16), np.empty((high, wide), np.uint8)
                plan._call(fovea._lib.fovea_masks, outs, len(outs), C.byref(options), mine, 100, C.byref(count),
                           pixels.ctypes.data, pixels.size)
                self.assertEqual([m.label for m in mine[:count.value]],
                                 [s["label_id"] for s in want["segments_info"]])
                np.testing.assert_allclose([m.score for m in mine[:count.value]],
                                           [s["score"] for s in want["segments_info"]], atol=1e-6)
                found += count.value
                if not binary:
                    self.assertLessEqual((pixels != np.maximum(want["segmentation"].numpy(), 0)).mean(), 1e-4)
                for m, mask in zip(mine[:count.value], want["segmentation"].numpy() if binary else ()):
                    plan._call(fovea._lib.fovea_mask_pixels, outs, len(outs), m.query, inside.ctypes.data, inside.size)
                    self.assertLessEqual((inside != mask).mean(), 1e-4)
                    self.assertEqual(m.area, inside.sum())
        self.assertGreater(found, 20)

    def test_classes(self):
        for seed, side in enumerate((48, 120)):
            plan, (outs, _), theirs = self.masks_of(side, seed)
            size = {"shortest_edge": side, "longest_edge": side}
            want = transformers.EomtImageProcessor(size=size).post_process_semantic_segmentation(
                theirs, [(side, side)], size=size)[0].numpy()
            classes = np.empty((side, side), np.uint16)
            plan._call(fovea._lib.fovea_class_map, outs, len(outs), fovea.EXTENT_FRAME,
                       classes.ctypes.data, classes.size)
            self.assertLessEqual((classes != want).mean(), 1e-4)


if __name__ == "__main__":
    os.environ["FOVEA_LIBRARY"] = os.path.abspath(sys.argv.pop(1))
    import fovea
    counted.main()
