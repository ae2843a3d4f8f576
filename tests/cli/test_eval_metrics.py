#!/usr/bin/env python3
"""test_eval_metrics.py: compares `fovea eval` with torchmetrics on the outputs of `fovea run` for the same pictures.

    test_eval_metrics.py path/to/fovea
"""
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path += [os.path.join(HERE, ".."), HERE]
import counted

np = counted.need("numpy")
torch = counted.need("torch", "it is for comparison alone")
counted.need("torchmetrics", "it is for comparison alone")
from torchmetrics.functional import mean_absolute_percentage_error
from torchmetrics.functional.classification import multiclass_accuracy, multiclass_jaccard_index

import test_eval
from test_eval import CLASSES, DIGITS, VIT, grey_png, ppm, read_png, vit

DEPTH = "synthetic:depth-anything-s"


class Metrics(test_eval.Case):
    def test_accuracy(self):
        names = ["class-%c" % c for c in "abcdefghij"]
        pictures = ["data/%s/%d.ppm" % (name, i) for name in names for i in range(4)]
        for picture in pictures:
            self.write(picture, ppm(self.noise()))
        self.fovea("run", VIT, *pictures, "--size", 64, "-o", "o.safetensors")
        logits = torch.tensor(vit.load(self.path("o.safetensors"))["logits"])
        truth = torch.arange(10).repeat_interleave(4)
        got = self.results("--data", "data", "--size", 64, model=VIT)[0]["metrics"]
        for key, k in (("top1", 1), ("top5", 5)):
            want = multiclass_accuracy(logits, truth, num_classes=10, average="micro", top_k=k)
            self.assertAlmostEqual(got[key], float(want), delta=1e-6)

    def test_segmentation(self):
        truth = []
        for i in range(4):
            mask = self.rng.integers(0, CLASSES - 1, (42, 42)).repeat(8, 0).repeat(8, 1)
            mask[:9] = 255
            truth.append(mask)
            self.write("data/images/%d.ppm" % i, ppm(self.noise(336, 336)))
            self.write("data/masks/%d.png" % i, grey_png(mask))
        self.fovea("run", DIGITS, "data/images", "--labels", "l.png")
        found = torch.tensor(np.stack([read_png(self.path("l-%d.png" % i))[0] for i in range(4)]).astype(np.int64))
        truth = torch.tensor(np.stack(truth))
        got = self.results("--data", "data")[0]["metrics"]
        iou = multiclass_jaccard_index(found, truth, num_classes=CLASSES, ignore_index=255, average=None)
        seen = truth != 255
        there = [k for k in range(CLASSES) if ((truth == k) | (found == k))[seen].any()]
        for k in got["classes"]:
            self.assertAlmostEqual(k["iou"], float(iou[k["class"]]), delta=1e-6)
        self.assertEqual([k["class"] for k in got["classes"]], there)
        self.assertAlmostEqual(got["miou"], float(iou[there].mean()), delta=1e-6)
        right = multiclass_accuracy(found, truth, num_classes=CLASSES, ignore_index=255, average="micro")
        self.assertAlmostEqual(got["pixel_accuracy"], float(right), delta=1e-6)

    def test_depth(self):
        errors, close = [], []
        for i in range(3):
            self.write("data/images/%d.ppm" % i, ppm(self.noise(112, 56)))
            steps = self.rng.integers(200, 9000, (56, 112))
            steps[:3] = 0  # unknown
            self.write("data/depth/%d.png" % i, grey_png(steps, 16))
            self.fovea("run", DEPTH, "data/images/%d.ppm" % i, "--size", "112x56", "-o", "o.safetensors")
            found = torch.tensor(vit.load(self.path("o.safetensors"))["predicted_depth"][0].astype(np.float64))
            known = torch.tensor(steps > 0)
            truth = torch.tensor(steps / 1000)
            errors.append(float(mean_absolute_percentage_error(found[known], truth[known])))
            ratio = found[known] / truth[known]
            close.append(float((torch.maximum(ratio, 1 / ratio) < 1.25).double().mean()))
        got = self.results("--data", "data", "--size", "112x56", model=DEPTH)[0]["metrics"]
        self.assertAlmostEqual(got["abs_rel"], np.mean(errors), delta=1e-6)
        self.assertAlmostEqual(got["delta1"], np.mean(close), delta=1e-6)


if __name__ == "__main__":
    test_eval.EXE = os.path.abspath(sys.argv.pop(1))
    counted.main()
