#!/usr/bin/env python3
"""test_report.py: what bench/report.py draws and prints for results of `fovea bench` and `eval`, and for a log.

    test_report.py path/to/fovea
"""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree as xml

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import counted

REPORT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "bench", "report.py")


def result(attention, tokens, ms, **params):
    """A result as the program would print it."""
    own = {"what": "attention", "attention": attention, "tokens": tokens, "threads": 2, "heads": 4}
    return {"schema": "fovea.bench/1", "p50_ms": ms, "params": {**own, **params},
            "env": {"name": "cpu", "isa": "none"}, "peak_bytes": {"resident": 2 << 20, "promised": 1 << 20}}


class Report(unittest.TestCase):
    SVG = "{http://www.w3.org/2000/svg}"

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def path(self, name, lines=None):
        name = os.path.join(self.folder.name, name)
        if lines is not None:
            with open(name, "w") as f:
                f.writelines(json.dumps(r) + "\n" for r in lines)
        return name

    def report(self, path, picture="a.svg", code=0, **more):
        p = subprocess.run([sys.executable, REPORT, path, self.path(picture)], capture_output=True, text=True, **more)
        self.assertEqual(p.returncode, code, p.stderr)
        self.assertNotIn("Traceback", p.stderr)
        return p.stderr if code else p.stdout.splitlines()

    def said(self, *cases):
        return self.report(self.path("r", cases))

    def series(self, path):
        """Reads a picture. Returns points by panel ("a" or "b"), colour and whether the line is dashed; the colour
        of every name in the left panel's legend; all text."""
        root = xml.parse(path).getroot()
        self.assertEqual(root.tag, self.SVG + "svg")
        width, height = map(float, root.get("viewBox").split()[2:])
        lines, colours = {}, {}
        for group in root.iter(self.SVG + "g"):
            number = re.fullmatch("gnuplot_plot_[0-9]+([ab])", group.get("id") or "")
            path = group.find(".//" + self.SVG + "path") if number else None
            if path is None:
                continue
            colour = path.get("stroke")
            data = path.get("d").split("M")[-1]  # the legend's sample precedes it
            points = [tuple(map(float, p.lstrip("L").split(","))) for p in data.split()]
            for x, y in points:
                self.assertTrue(0 < x < width and 0 < y < height)
            lines[number[1], colour, path.get("stroke-dasharray") is not None] = points
            if number[1] == "a":
                colours[group.find(".//" + self.SVG + "text").text] = colour
        return lines, colours, [t.text for t in root.iter(self.SVG + "text")]

    def test_models_over_pixels(self):
        text = subprocess.run([EXE, "bench", "model", "synthetic:vit-ti16", "--attention", "softmax,linear:elu1",
                               "--runs", "1", "--json", "--size", "32,48x64,96"], capture_output=True, text=True,
                              check=True).stdout
        results = [json.loads(line) for line in text.splitlines()]
        self.report(self.path("r.jsonl", results))
        lines, colours, words = self.series(self.path("a.svg"))
        self.assertEqual(sorted(set(colours) - {"promised by the plan"}), ["linear:elu1", "softmax"])
        for name in ("linear:elu1", "softmax"):
            colour = colours[name]
            time, promised = lines["a", colour, False], lines["b", colour, True]
            self.assertEqual((len(time), len(promised)), (3, 3))
            ms = [r["p50_ms"] for r in results if r["params"]["attention"] == name]
            self.assertEqual(sorted(range(3), key=lambda i: -ms[i]),  # y is downwards
                             sorted(range(3), key=lambda i: time[i][1]))
        for tick in ("32\u00b2", "48\u00d764", "96\u00b2", "pixels"):
            self.assertIn(tick, words)
        for r in results:  # without the weights, which are packed before the measurement
            peak = r["peak_bytes"]
            self.assertLess(peak["resident"], peak["promised"] - peak["weights"] + (4 << 20))
        # The same from one array, in another order.
        with open(self.path("r.json"), "w") as f:
            json.dump(results[::-1], f)
        self.report(self.path("r.json"), "b.svg")
        again, other, _ = self.series(self.path("b.svg"))
        self.assertEqual(lines["a", colours["softmax"], False], again["a", other["softmax"], False])

    def test_attentions_over_tokens(self):
        self.said(*[result(a, n, ms, heads=h) for a in ("softmax", "mala") for h in (2, 4)
                    for n, ms in ((16, 1), (64, 2), (256, 3))])
        lines, colours, words = self.series(self.path("a.svg"))
        self.assertEqual(len(colours), 4)
        self.assertEqual(len(lines["a", colours["mala, heads 4"], False]), 3)
        self.assertIn("tokens", words)

    def test_evaluations_and_losses(self):
        self.report(self.path("e", [
            {"schema": "fovea.eval/1", "pictures": 3, "ms": 2.0 * n, "metrics": {"miou": 1 / n},
             "params": {"model": "m", "data": "d", "attention": a, "width": 16 * n, "height": 16 * n}}
            for a in ("softmax", "mala") for n in (1, 2, 3)]))
        lines, colours, words = self.series(self.path("a.svg"))
        self.assertEqual(len(lines["a", colours["mala"], False]), 3)
        self.assertIn("miou", words)
        self.report(self.path("l", [{"step": i + 1, "loss": 1 / (i + 1), "lr": 1e-3} for i in range(20)]))
        self.assertIn("mean of 5 steps", self.series(self.path("a.svg"))[2])

    def test_where_it_crosses(self):
        softmax = [result("softmax", n, n * n / 4096) for n in (16, 256, 4096)]
        linear = [result("linear", n, n / 16) for n in (16, 256, 4096)]  # equal at 256

        def times(factor):
            return [dict(r, p50_ms=r["p50_ms"] * factor) for r in linear]
        for cases, words in ((linear, "from about 256 tokens (between 16 and 256)"),
                             (times(2), "from about 512 tokens (between 256 and 4096)"),
                             (times(100), "slower than softmax up to 4096 tokens"),
                             (times(0.01), "faster than softmax from 16 tokens or fewer")):
            line, = self.said(*softmax, *cases)
            self.assertTrue(line.startswith("linear: ") and line.endswith(words), line)

    def test_like_is_compared_with_like(self):
        """Only results with equal settings are compared; a lead that is lost at a larger size does not count."""
        one = [result(a, n, ms, threads=t) for t in (1, 2) for a, n, ms in (
            ("softmax", 16, 1), ("softmax", 64, 16), ("linear", 16, 1 + t), ("linear", 64, 2))]
        self.assertEqual([line.split(":")[0] for line in self.said(*one)], ["linear, threads 1", "linear, threads 2"])
        lost = [result("softmax", n, 2) for n in (1, 2, 3)]
        lost += [result("linear", n, ms) for n, ms in ((1, 1), (2, 3), (3, 1))]
        self.assertIn("(between 2 and 3)", self.said(*lost)[0])
        self.assertEqual(self.said(result("linear", 16, 1)), [])

    def test_what_is_wrong_is_said(self):
        for text in ("", "[1]", "{} {", '{"schema": "fovea.bench/1"}'):
            with open(self.path("r"), "w") as f:
                f.write(text)
            self.report(self.path("r"), code=1)
        gemm = dict(result("", 0, 1), params={"what": "gemm", "attention": ""})
        self.assertIn("of given sizes", self.report(self.path("r", [gemm]), code=1))
        some = self.path("r", [result("softmax", 16, 1)])
        self.assertIn("gnuplot-nox", self.report(some, code=1, env={"PATH": "/nowhere"}))
        self.report(self.path("r", [result('"`touch x`\n!touch x\n', 16, 1)]), cwd=self.folder.name)
        self.assertFalse(os.path.exists(self.path("x")))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    EXE = os.path.abspath(sys.argv.pop(1))
    if not shutil.which("gnuplot"):
        print("no gnuplot; sh platform/setup-debian.sh test installs it\n0 passed, 0 failed, 1 skipped")
        sys.exit(77)
    counted.main()
