#!/usr/bin/env python3
"""test_floors.py: `fovea bench floors` counts every step, with its bytes and its shape.

    test_floors.py path/to/fovea
"""
import json
import os
import subprocess
import sys
import unittest

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import counted


def run(*args, fails=0):
    p = subprocess.run([EXE, *args], capture_output=True, text=True)
    assert p.returncode == fails, "exit %d: %s" % (p.returncode, p.stderr)
    return p.stderr if fails else p.stdout


def floors(*args):
    return json.loads(run("bench", "floors", *args, "--runs", "1", "--json"))


class Floors(unittest.TestCase):
    def whole(self, *args):
        """Checks the sums of a result; returns its kinds of steps by problem."""
        r = floors(*args)
        f = r["floors"]
        plan = json.loads(run("plan", *args, "--json"))
        self.assertEqual(sum(s["count"] for s in f["steps"]), len(plan["steps"]))
        self.assertAlmostEqual(f["sum_ms"] / sum(s["count"] * s["floor_ms"] for s in f["steps"]), 1, 6)
        self.assertAlmostEqual(f["ratio"] / (r["p50_ms"] / f["sum_ms"]), 1, 6)
        for s in f["steps"]:
            alone = s["problem"].split()[0] in ("gemm", "conv", "softmax", "wsoftmax")
            self.assertEqual(s["alone_ms"] is not None, alone, s["problem"])
            self.assertGreater(s["floor_ms"], 0)
            if not alone:
                expected = s["bytes"] / f["bandwidth_gbs"] * 1e-6
                self.assertAlmostEqual(s["floor_ms"] / expected, 1, 5)
        return {s["problem"]: s for s in f["steps"]}

    def test_vit(self):
        kinds = self.whole("synthetic:vit-ti16", "--size", "64")
        c, n = 192, 17
        self.assertEqual(kinds["gemm f32 17x768x192 bias+gelu"]["bytes"],
                         4 * (n * c + 4 * c * c + 4 * c + n * 4 * c))
        self.assertEqual(kinds["gemm f32 17x192x768 bias+residual"]["bytes"],
                         4 * (n * 4 * c + 4 * c * c + c + 2 * n * c))
        self.assertEqual(kinds["softmax f32 17x64x64x17 heads 3"]["bytes"], 4 * 4 * n * c)
        self.assertEqual(kinds["layernorm f32 17x192"]["bytes"], 4 * (2 * n * c + 2 * c))

    def test_linear(self):
        kinds = self.whole("synthetic:vit-ti16", "--size", "64", "--attention", "linear")
        state = 64 * 64 + 64
        apply = next(s for p, s in kinds.items() if p.startswith("lattn_apply f32 17x"))
        self.assertEqual(apply["bytes"], 4 * (2 * 17 * 192 + 3 * state))

    def test_convolutions_and_windows(self):
        self.whole("synthetic:mavit-t", "--size", "64")
        windows = self.whole("synthetic:pola-swin-t", "--size", "224")
        self.assertTrue([p for p in windows if p.startswith("wsoftmax")])

    def test_what_is_wrong_is_said(self):
        run("bench", "floors", fails=1)
        run("bench", "floors", "synthetic:vit-ti16", "--size", "32,64", fails=1)
        run("bench", "floors", "synthetic:vit-ti16", "--size", "32", "--dtype", "f16", fails=2)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    EXE = os.path.abspath(sys.argv[1])
    counted.main()
