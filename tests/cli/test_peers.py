#!/usr/bin/env python3
"""test_peers.py: bench/peers/peers.py without any peer: its arguments, the shared checkpoint, its report.

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
        self.assertIn("f32, default, bf16, int8", peers("--precision", "f16", fails=2))
        with tempfile.TemporaryDirectory() as folder:
            self.assertIn("15 is not a multiple of 14",
                          peers("--model", "tiny", "--size", "15", "--folder", folder, fails=1))

    def test_alone(self):
        """Fovea alone: measured once, reported in every format."""
        with tempfile.TemporaryDirectory() as folder:
            measured = os.path.join(folder, "r.json")
            peers("--model", "tiny", "--size", "28", "--peers", "fovea", "--rounds", "1", "--folder", folder,
                  "-o", "json", "-O", measured)
            with open(measured) as f:
                result, = json.load(f)
            self.assertEqual([(c["peer"], c["attention"], c["precision"]) for c in result["cases"]],
                             [("fovea", a, p) for a in ("softmax", "linear")
                              for p in ("f32", "default", "bf16", "int8")])
            fast = "bf16" if json.loads(subprocess.run([EXE, "info", "--json"], check=True, capture_output=True,
                                                       text=True).stdout)["devices"][0]["bf16"] else "f32"
            self.assertEqual({c["says"] for c in result["cases"] if c["precision"] == "default"}, {fast})
            self.assertEqual(result["tokens"], {"28": 5})
            for case in result["cases"]:
                if case["precision"] == "f32":
                    self.assertEqual(case["difference"], 0)
                elif case["says"] != "f32":
                    self.assertGreater(case["cosine"]["mean"], 0.999)
                    self.assertLessEqual(case["cosine"]["worst"], case["cosine"]["mean"])
            self.assertIn("softmax, int8 against float32: ", peers("--from", measured))
            shown = peers("--from", measured, "-o", "md")
            self.assertIn("### linear, 28 pixels, 5 tokens", shown)
            self.assertIn("| Fovea | float32 |", shown)
            self.assertIn("| Fovea | as it comes: %s |" % fast, shown)
            self.assertIn("| Fovea | bfloat16 |", shown)

    def test_compared(self):
        """Results are compared with those of other engines in similar precision; wrong results are found."""
        def case(peer, precision, seconds, **rest):
            memory = {"process": 2 ** 20, "run": 2 ** 20} if precision == "f32" else {"process": 2 ** 20}
            return dict(peer=peer, size=28, attention="softmax", precision=precision, seconds=[[seconds]],
                        memory=memory, says=None, **rest)

        close = {"mean": 0.99, "worst": 0.5}
        fast = case("openvino", "default", 0.5, cosine=close)
        fast["says"] = "bf16"
        mine = case("fovea", "default", 0.4, cosine=close)
        mine["says"] = "bf16"
        cases = [case("fovea", "f32", 1.0, difference=0), mine, case("fovea", "bf16", 0.4, cosine=close),
                 case("fovea", "int8", 0.25, cosine=close), case("openvino", "f32", 2.0, difference=0), fast,
                 case("openvino", "int8", 0.5, cosine=close), case("ncnn", "f32", 3.0, difference=0)]
        result = {"model": "tiny", "threads": 1, "sizes": [28], "tokens": {"28": 5}, "weights": 0, "missing": {},
                  "environment": {"cpu": "one", "versions": {}}, "amx": False, "cases": cases}
        with tempfile.TemporaryDirectory() as folder:
            measured = os.path.join(folder, "r.json")

            def shown(*args, fails=0):
                with open(measured, "w") as f:
                    json.dump([result], f)
                return peers("--from", measured, *args, fails=fails)

            text = shown()
            self.assertIn("1 threads on one, without AMX", text)
            for verdict in ("float32: 2.00 (OpenVINO)", "as it comes: 1.25 (OpenVINO)",
                            "bfloat16 against as it comes or bfloat16: 1.25 (OpenVINO)", "int8: 2.00 (OpenVINO)"):
                self.assertIn("softmax against their softmax, " + verdict, text)
            self.assertIn("softmax, bfloat16 against float32: 2.50 (Fovea's own)", text)
            self.assertIn("| OpenVINO | as it comes: bf16 | 500 ms | 1.25 | 0.99000 | 0.50000 |  | 1 |",
                          shown("-o", "md"))
            cases[-1]["difference"] = 0.01
            shown(fails=3)
            cases[-1]["difference"] = 0
            fast["cosine"] = {"mean": 0.5, "worst": 0.5}
            shown(fails=3)
            cases[6] = {"peer": "openvino", "size": 28, "attention": "softmax", "precision": "int8", "error": "no"}
            fast["cosine"] = close
            text = shown()
            self.assertIn("Fails: openvino, 28 pixels, softmax, int8: no", text)
            self.assertNotIn("softmax against their softmax, int8", text)

    def test_failure(self):
        """An engine that does not open is reported with the end of its output, even if it is the only one."""
        with tempfile.TemporaryDirectory() as folder:
            said = peers("--model", "tiny", "--size", "28", "--peers", "fovea", "--rounds", "1", "--folder", folder,
                         "--precision", "f32", fails=1, library=os.path.join(folder, "none.so"))
        self.assertIn("fovea, softmax, float32: ImportError", said)
        self.assertNotIn("Traceback", said)

    def test_checkpoint(self):
        """Fovea and bench/peers/vit_checkpoint.py read the written checkpoint; resizing keeps constant positions."""
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
            # Every input of an ncnn layer is the result of an earlier layer, and is read once.
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
