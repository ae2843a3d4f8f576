#!/usr/bin/env python3
"""test_bench.py: `fovea bench`: its output formats, its checks of results, and its exit codes for wrong,
unstable and slower results.

    test_bench.py path/to/fovea path/to/fovea_planted [--long]

With --long those tests that take longer, and no others.
"""
import csv
import io
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import counted

from terminals import terminal

MODEL = "synthetic:vit-ti16"
SMALL = ["model", MODEL, "--size", "32", "--runs", "2"]


def run(*args, exe=None, fails=0, env=None):
    p = subprocess.run([exe or EXE, "bench", *args], capture_output=True, text=True,
                       env=dict(os.environ, **(env or {})))
    assert p.returncode == fails, "exit %d, wanted %d: %s" % (p.returncode, fails, p.stderr)
    return p.stderr if fails else p.stdout


def results(*args, **how):
    return [json.loads(line) for line in run(*args, "-o", "jsonl", **how).splitlines()]


def result(attention, tokens, ms, **params):
    """As the program would tell it."""
    own = {"what": "attention", "attention": attention, "tokens": tokens, "threads": 2, "heads": 4}
    return {"schema": "fovea.bench/1", "title": attention, "p50_ms": ms, "params": {**own, **params},
            "env": {"device": "cpu"}, "peak_bytes": {"resident": 1 << 20, "promised": 1 << 20}}


class Folder(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def path(self, name, lines=None):
        name = os.path.join(self.folder.name, name)
        if lines is not None:
            with open(name, "w") as f:
                f.writelines(json.dumps(r) + "\n" for r in lines)
        return name


class Formats(Folder):
    def test_same_numbers_in_all(self):
        """Every format is written from one file of results, so that they must agree."""
        kept = self.path("kept.jsonl")
        self.assertEqual(run(*SMALL, "--attention", "softmax,linear", "-o", "jsonl", "-O", kept,
                             "--note", "a, \"b\""), "")
        cases = [json.loads(line) for line in open(kept)]
        timed = [r for r in cases if r["schema"] == "fovea.bench/1"]
        self.assertEqual([r["params"]["attention"] for r in timed], ["softmax", "linear"])
        for r in timed:
            self.assertEqual(r["note"], "a, \"b\"")
            self.assertEqual(len(r["samples_ns"]), 2)
            self.assertLessEqual(r["p50_ms"], r["p95_ms"])
            self.assertLessEqual(r["p99_ms"], r["max_ms"])
            self.assertTrue(r["verify"]["ok"])
            self.assertEqual(r["allocations"], 0)
            for key in ("open_ms", "plan_ms", "first_ms", "device_p50_ms"):
                self.assertGreater(r[key], 0)
            for key in ("fraction", "fma_gflops", "gemm_gflops", "read_gbs", "copy_gbs"):
                self.assertGreater(r["roofline"][key], 0)
        self.assertEqual(json.loads(run("--from", kept, "-o", "json")), cases)
        again = [json.loads(line) for line in run("--from", kept, "-o", "jsonl").splitlines()]
        self.assertEqual(again, cases)
        rows = list(csv.DictReader(io.StringIO(run("--from", kept, "-o", "csv"))))
        self.assertEqual(len(rows), len(timed))
        for row, r in zip(rows, timed):
            self.assertAlmostEqual(float(row["p50_ms"]), r["p50_ms"], 6)
            self.assertEqual(row["note"], r["note"])
            self.assertEqual(row["params_attention"], r["params"]["attention"])
        for form in ("text", "md"):
            shown = run("--from", kept, "-o", form)
            for r in timed:
                self.assertIn("%.3f" % r["p50_ms"], shown)
            self.assertNotIn("baseline", shown)
        table = [line for line in run("--from", kept, "-o", "md").splitlines() if line[:1] == "|"]
        self.assertEqual(len({line.count("|") for line in table[:2 + len(timed)]}), 1)

    def test_what_is_no_result(self):
        for text in ("", "{}", "[1]", "{\"schema\": \"fovea.bench/1\"}", "no"):
            with open(self.path("bad"), "w") as f:
                f.write(text)
            run("--from", self.path("bad"), fails=7)
        run("--from", self.path("missing"), fails=7)
        run(*SMALL, "-o", "xml", fails=1)
        run(*SMALL, "-O", self.path("no/where"), fails=7)


class Wrong(Folder):
    """A kernel with a planted error is reported by every check that can find it."""

    planted = {"FOVEA_PLANT": "wrong,chosen"}

    def found(self, *args, plant="wrong,chosen"):
        said = run(*args, "--runs", "2", fails=3, exe=PLANTED, env={"FOVEA_PLANT": plant})
        self.assertRegex(said, "verification.* failed")

    def test_product_and_model(self):
        self.found("gemm", "--shape", "32x64x48")
        self.found(*SMALL)

    def test_one_value(self):
        """The first value of the output is not a number."""
        self.found("gemm", "--shape", "32x64x48", plant="hole")
        self.found("attention", "--attention", "softmax", "--tokens", "50", "--heads", "2", "--dim", "16",
                   plant="hole")

    def long_others(self):
        self.found("block", "--tokens", "16", "--dim", "64", "--heads", "2")
        self.found("kernel", "planted_wrong", "--model", MODEL, "--size", "32")
        r = results(*SMALL, "--verify", "off", exe=PLANTED, env=self.planted)[0]
        self.assertEqual((r["verify"], r["status"] == "ok"), (None, False))
        self.assertTrue(results(*SMALL, "--verify", "every", exe=PLANTED)[0]["verify"]["ok"])


class Unstable(Folder):
    """Unstable measurements are not presented as reliable ones."""

    def heat(self, path, stop):
        """Simulates a processor whose clock the system lowers step by step."""
        count = 0
        while not stop.is_set():
            count += 1
            with open(path + ".new", "w") as f:
                f.write("%d\n" % count)
            os.rename(path + ".new", path)
            time.sleep(0.01)

    def test_throttled(self):
        zone = self.path("sys/devices/system/cpu/cpu0/thermal_throttle")
        os.makedirs(zone)
        thermal = self.path("sys/class/thermal/thermal_zone0")
        os.makedirs(thermal)
        with open(thermal + "/temp", "w") as f:
            f.write("71500\n")
        stop = threading.Event()
        heater = threading.Thread(target=self.heat, args=(zone + "/core_throttle_count", stop))
        heater.start()
        root = {"FOVEA_ROOT": self.folder.name}
        args = ["gemm", "--shape", "64x64x64", "--time", "0.3"]
        kept = self.path("kept")
        try:
            said = run(*args, "--strict", "-o", "jsonl", "-O", kept, fails=5, env=root)
        finally:
            stop.set()
            heater.join()
        self.assertIn("throttled", said)
        r = json.loads(open(kept).read())
        self.assertEqual((r["status"], r["machine"]["throttled"]), ("throttled", True))
        self.assertEqual(r["machine"]["celsius"], [71.5, 71.5])

    def long_too_few_runs(self):
        run("gemm", "--shape", "8x8x8", "--runs", "2", "--strict", fails=5)


class Baseline(Folder):
    def test_slower(self):
        self.assertEqual(run(*SMALL, "-o", "jsonl", "-O", self.path("now")), "")
        now = [json.loads(line) for line in open(self.path("now"))]
        for r in now:
            r["p50_ms"] /= 100
        old = self.path("old", now)
        self.assertIn("the baseline has", run(*SMALL, "--baseline", old, fails=6))
        run(*SMALL, "--baseline", self.path("other", [result("softmax", 4, 1)]), fails=7)

    def compared(self, *args, fails=0):
        """The files and messages of a comparison of cases of 0.004, 0.004, 4 and 4 ms with a baseline."""
        new = self.path("new", [result("softmax", n, ms) for n, ms in ((1, 4e-3), (2, 4e-3), (3, 4), (4, 4))])
        old = self.path("old", [result("softmax", n, ms) for n, ms in ((1, 3e-3), (2, 5e-3), (3, 4.1))])
        p = subprocess.run([EXE, "bench", "--from", new, "--baseline", old, *args], capture_output=True,
                           text=True)
        self.assertEqual(p.returncode, fails, p.stderr)
        return p.stdout, p.stderr.splitlines()

    def test_of_files(self):
        """Every format has the baseline and the change. Large changes are reported with significant digits."""
        shown, said = self.compared(fails=6)
        self.assertEqual(len(said), 2, said)
        self.assertIn("0.00400 ms, but the baseline has 0.00300 ms: 33.3 % slower", said[0])
        self.assertIn("0.00400 ms, but the baseline has 0.00500 ms: 20.0 % faster", said[1])
        head, *rows = [line.split() for line in shown.splitlines() if line.startswith(("case", "softmax"))][:5]
        self.assertEqual(head[-3:], ["baseline", "ms", "change"])
        self.assertEqual([row[-2:] for row in rows], [["0.00300", "+33.3%"], ["0.00500", "-20.0%"],
                                                      ["4.100", "-2.4%"], ["-", "-"]])
        cases = json.loads(self.compared("-o", "json", fails=6)[0])
        self.assertEqual([r.get("baseline", {}).get("p50_ms") for r in cases], [0.003, 0.005, 4.1, None])
        self.assertAlmostEqual(cases[1]["baseline"]["change_percent"], -20)
        rows = list(csv.DictReader(io.StringIO(self.compared("-o", "csv", fails=6)[0])))
        self.assertEqual([row["baseline_p50_ms"] for row in rows], ["0.003", "0.005", "4.1", ""])
        self.assertAlmostEqual(float(rows[0]["baseline_change_percent"]), 100 / 3, 5)
        self.assertEqual(self.compared("--fail-above", "40")[1], [])
        p = subprocess.run([EXE, "bench", "--from", self.path("new"), "--baseline",
                            self.path("other", [result("softmax", 9, 1)])], capture_output=True, text=True)
        self.assertEqual(p.returncode, 7)
        self.assertIn("0.00400", p.stdout)  # the measurements are kept nevertheless
        run("--from", self.path("new"), "--baseline", self.path("none"), fails=7)
        self.assertIn("--baseline", run("--from", self.path("new"), "--fail-above", "4", fails=1))

    def long_faster(self):
        now = results(*SMALL)
        now[0]["p50_ms"] *= 100
        with open(self.path("array"), "w") as f:
            json.dump(now, f)
        p = subprocess.run([EXE, "bench", *SMALL, "--baseline", self.path("array")],
                           capture_output=True, text=True)
        self.assertIn(p.returncode, (0, 5))  # two runs need not be stable
        run(*SMALL, "--baseline", self.path("nothing"), fails=7)


class Pace(Folder):
    def test_a_rate_that_is_kept(self):
        r = results(*SMALL[:-2], "--rate", "20", "--time", "0.5")[0]
        pace = r["pace"]
        due = pace["frames"] + pace["dropped"] # until the last one was done, which may have been late
        self.assertGreaterEqual(due, 10)
        self.assertLessEqual(due, 20 * pace["seconds"] + 1)
        self.assertAlmostEqual(pace["rate_fps"], 20)
        self.assertEqual(len(r["samples_ns"]), pace["frames"])
        self.assertGreater(pace["seconds"], 0.4)

    def long_a_rate_beyond_reach(self):
        r = results(*SMALL[:-2], "--rate", "100000", "--time", "0.2")[0]
        self.assertGreaterEqual(r["pace"]["missed"], r["pace"]["frames"])
        self.assertGreater(r["pace"]["dropped"], r["pace"]["frames"])
        self.assertLess(r["pace"]["achieved_fps"], 50000)

    def long_a_series(self):
        r = results(*SMALL[:-2], "--sustain", "0.04")[0]
        series = r["pace"]["series"]
        self.assertGreaterEqual(len(series), 2)
        self.assertEqual(sum(w["frames"] for w in series), len(r["samples_ns"]))
        self.assertEqual(sorted(w["at_s"] for w in series), [w["at_s"] for w in series])
        self.assertTrue(all(w["spin_us"] > 0 for w in series))


class Interrupted(Folder):
    """Measurements made before Ctrl-C are kept."""

    def interrupt(self, *args, code=130):
        """The results and terminal output of a run that is interrupted once its progress bar is shown."""
        own, child = terminal(self)
        kept = self.path("kept")
        p = subprocess.Popen([EXE, "bench", "gemm", "--shape", "64x64x64,32x32x32", *args, "-o", "jsonl",
                              "-O", kept], stderr=child)
        os.close(child)
        said, sent = b"", False
        try:
            while True:
                said += os.read(own, 4096)
                if b"bench [" in said and not sent:
                    sent = True
                    p.send_signal(signal.SIGINT)
        except OSError:  # it has ended
            os.close(own)
        self.assertEqual((p.wait(), sent), (code, True), said)
        self.assertIn(b"finishing this run; interrupt again to stop at once", said)
        cases = [json.loads(line) for line in open(kept)]
        self.assertIn(b"interrupted; %d of the 2 cases that were begun were timed, and their results are in" % len(cases), said)
        return cases

    def test_rounds(self):
        cases = self.interrupt("--time", "30")
        self.assertIn([r["params"]["M"] for r in cases], ([64], [64, 32]))  # as far as it came
        for r in cases:
            self.assertGreater(r["p50_ms"], 0)
            self.assertGreater(len(r["samples_ns"]), 0)

    def test_series(self):
        """The second case was not begun. Also checks that a progress bar is shown."""
        r, = self.interrupt("--sustain", "0.1")
        self.assertEqual(r["params"]["M"], 64)
        self.assertLess(r["pace"]["seconds"], 5)
        self.assertEqual(sum(w["frames"] for w in r["pace"]["series"]), len(r["samples_ns"]))


class Memory(unittest.TestCase):
    def test_of_each_case(self):
        """The memory reported for a case is what its plan announced, also after a case that needed more."""
        cases = [r for r in results("model", MODEL, "--size", "224,96", "--attention", "softmax,linear", "--runs",
                                    "1") if "p50_ms" in r]
        self.assertEqual(len(cases), 4)
        for r in cases:
            peak = r["peak_bytes"]
            promised = peak["promised"] - peak["weights"]
            self.assertGreater(peak["resident"], 0.7 * promised, r["title"])
            self.assertLess(peak["resident"], promised + (4 << 20), r["title"])


class Options(Folder):
    def test_of_another_kind(self):
        for what, option, value in (
                ("gemm", "tokens", "8"), ("gemm", "size", "32"), ("gemm", "attention", "linear"),
                ("attention", "op", "gemm"), ("attention", "shape", "8x8x8"), ("attention", "mlp", "2"),
                ("attention", "size", "32"), ("block", "value-dim", "8"), ("block", "model", MODEL),
                ("model " + MODEL, "tokens", "64"), ("model " + MODEL, "causal", None),
                ("kernel gemm", "activation", "gelu"), ("kernel gemm", "per-layer", None),
                ("kernel gemm", "trace", self.path("t")), ("floors " + MODEL, "sustain", "1"),
                ("floors " + MODEL, "rate", "1")):
            said = run(*what.split(), "--" + option, *([value] if value else []), fails=1)
            self.assertIn("bench %s has no --%s;" % (what.split()[0], option), said)
        run("gemm", "--from", self.path("r", [result("softmax", 4, 1)]), fails=1)

    def test_empty_range(self):
        p = subprocess.run([EXE, "bench", "gemm", "--threads", "5..1+1"], capture_output=True, text=True)
        self.assertIn(p.returncode, (1, 2))
        self.assertIn("--threads 5..1+1", p.stderr)


class Profile(Folder):
    def test_layers_and_trace(self):
        trace = self.path("t.json")
        r = results("block", "--tokens", "64", "--dim", "64", "--heads", "2", "--attention", "linear",
                    "--runs", "2", "--per-layer", "--trace", trace)[0]
        profile, steps = r["profile"], set()
        self.assertEqual(r["params"]["tokens"], 64)
        for layer in profile["layers"]:
            self.assertGreaterEqual(layer["calls"], 1)
            self.assertGreater(layer["ms"], 0)
            steps.add(layer["label"])
        self.assertIn("block 0 fc1", steps)
        self.assertEqual(sum(s["steps"] for s in profile["sweeps"]), len(profile["layers"]))
        self.assertLess(sum(l["ms"] for l in profile["layers"]), 1.05 * profile["traced_ms"])
        events = [e for e in json.load(open(trace))["traceEvents"] if e["ph"] == "X"]
        self.assertEqual({e["name"] for e in events}, steps)
        self.assertEqual(sum(l["calls"] for l in profile["layers"]), len(events))

    def long_kernels(self):
        out = results("kernel", "--op", "softmax", "--model", MODEL, "--size", "32", "--runs", "2")
        names = [r["params"]["kernel"] for r in out]
        self.assertIn("softmax_f32_ref", names)
        self.assertGreaterEqual(sum(r["params"]["chosen"] for r in out), 1)
        run("kernel", fails=1)
        run("kernel", "no_such_kernel", fails=2)


class Devices(unittest.TestCase):
    def long_every_device(self):
        info = json.loads(subprocess.run([EXE, "info", "--json"], capture_output=True, text=True,
                                         check=True).stdout)
        ids = [d["id"] for d in info["devices"]]
        out = results("attention", "--attention", "softmax,linear", "--tokens", "64", "--heads", "1",
                      "--runs", "2", "--device", "all")
        timed = [r["env"]["device"] for r in out if r["schema"] == "fovea.bench/1"]
        self.assertEqual(sorted(timed), sorted(2 * ids))


if __name__ == "__main__":
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    os.environ.setdefault("FOVEA_CACHE", "")  # the test does not use compiled kernels of the user
    os.environ.setdefault("FOVEA_WISDOM", "")
    EXE, PLANTED = map(os.path.abspath, sys.argv[1:3])
    unittest.defaultTestLoader.testMethodPrefix = "long" if "--long" in sys.argv else "test"
    counted.main()
