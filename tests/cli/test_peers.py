#!/usr/bin/env python3
"""test_peers.py: bench/peers/peers.py without any peer: its arguments, the checkpoint that all share, its report.

    test_peers.py path/to/fovea path/to/libfovea.so path/to/bench/peers
"""
import json
import os
import subprocess
import sys
import tempfile
import unittest

import numpy as np


def peers(*args, fails=0, library=None):
    environment = dict(os.environ, FOVEA_LIBRARY=library or LIBRARY, FOVEA_WISDOM="")
    p = subprocess.run([sys.executable, os.path.join(BENCH, "peers.py"), *args], env=environment,
                       capture_output=True, text=True)
    assert p.returncode == fails, "exit %d: %s" % (p.returncode, p.stderr)
    return p.stderr if fails else p.stdout


class Peers(unittest.TestCase):
    def test_arguments(self):
        self.assertIn("--rounds", peers("--help"))
        self.assertIn("fovea", peers("--list"))
        self.assertIn("choose from fovea", peers("--peers", "nobody", fails=2))
        self.assertIn("softmax, linear", peers("--attention", "mala", fails=2))
        with tempfile.TemporaryDirectory() as folder:
            self.assertIn("15 is no multiple of 14",
                          peers("--model", "tiny", "--size", "15", "--folder", folder, fails=1))

    def test_alone(self):
        """Fovea by itself: measured once, shown in every form."""
        with tempfile.TemporaryDirectory() as folder:
            measured = os.path.join(folder, "r.json")
            peers("--model", "tiny", "--size", "28", "--peers", "fovea", "--rounds", "1", "--folder", folder,
                  "-o", "json", "-O", measured)
            with open(measured) as f:
                result = json.load(f)
            self.assertEqual([(c["peer"], c["attention"]) for c in result["cases"]],
                             [("fovea", "softmax"), ("fovea", "linear")])
            self.assertEqual(result["tokens"], {"28": 5})
            self.assertIn("Fovea", peers("--from", measured))
            self.assertIn("| Fovea |", peers("--from", measured, "-o", "md"))
            # A peer that is twice as slow, and one whose results are others.
            for case in list(result["cases"]):
                slower = [[2 * s for s in turn] for turn in case["seconds"]]
                result["cases"].append(dict(case, peer="ncnn", seconds=slower))
            with open(measured, "w") as f:
                json.dump(result, f)
            self.assertIn("softmax against their softmax: 2.00 (ncnn)", peers("--from", measured))
            result["cases"][-1]["difference"] = 0.01
            with open(measured, "w") as f:
                json.dump(result, f)
            peers("--from", measured, fails=3)

    def test_failure(self):
        """An engine that does not open is named with its last words, also where it is the only one."""
        with tempfile.TemporaryDirectory() as folder:
            said = peers("--model", "tiny", "--size", "28", "--peers", "fovea", "--rounds", "1", "--folder", folder,
                         fails=1, library=os.path.join(folder, "none.so"))
        self.assertIn("fovea, softmax: ImportError", said)
        self.assertNotIn("Traceback", said)

    def test_checkpoint(self):
        """What is written is read by Fovea and by bench/peers/vit_checkpoint.py; positions keep constants."""
        import vit_checkpoint
        import vit_ncnn
        with tempfile.TemporaryDirectory() as folder:
            vit_checkpoint.write(folder, "tiny", seed=1)
            checkpoint = vit_checkpoint.Checkpoint(folder)
            info = json.loads(subprocess.run([EXE, "plan", folder, "--size", "28", "--json"], check=True,
                                             capture_output=True, text=True).stdout)
            self.assertEqual(info["params"]["tokens"], checkpoint.tokens(28))
            table = checkpoint["embeddings.position_embeddings"]
            np.testing.assert_allclose(checkpoint.positions(518), table[0, 1:], atol=1e-7)
            for weights in (vit_checkpoint._bicubic(37, 74), vit_checkpoint._bicubic(37, 16)):
                np.testing.assert_allclose(weights.sum(1), 1, atol=1e-12)
            # Every result that ncnn's layers read was written before, and is read once.
            stem, out = vit_ncnn.export(checkpoint, 28, "linear", folder)
            with open(stem + ".param") as f:
                lines = [line.split() for line in f.read().splitlines()[2:]]
            made = []
            for op, name, inputs, outputs, *rest in lines:
                reads = rest[:int(inputs)]
                for x in reads:
                    made.remove(x)
                made += rest[int(inputs):int(inputs) + int(outputs)]
            self.assertEqual(made, [out])


if __name__ == "__main__":
    EXE, LIBRARY, BENCH = sys.argv[1:4]
    sys.path.append(BENCH)
    unittest.main(argv=sys.argv[:1])
