#!/usr/bin/env python3
"""test_tune.py: `fovea tune` and the wisdom that the other commands take from it.

    test_tune.py path/to/fovea path/to/fovea_planted

Kernels planted by planted_cpu.c: a wrong one never wins, one that crashes is skipped at the next
start. Standard library only.
"""
import json
import os
import signal
import subprocess
import sys
import tempfile
import time

import expected
from expected import Failed, expect

MODEL, SIZE = "synthetic:vit-ti16", "32"


class Program:
    """The program with a wisdom file of its own."""

    def __init__(self, exe, folder, wisdom=None):
        self.exe = exe
        self.wisdom = os.path.join(folder, "wisdom") if wisdom is None else wisdom

    def run(self, *arguments, plant="", code=0, **settings):
        env = dict(os.environ, FOVEA_WISDOM=self.wisdom, FOVEA_PLANT=plant, **settings)
        p = subprocess.run([self.exe, *arguments], capture_output=True, text=True, env=env)
        if code is not None and p.returncode != code:
            raise Failed("%s: exit %d, wanted %d: %s" % (" ".join(arguments), p.returncode, code, p.stderr))
        return p

    def json(self, *arguments, **how):
        return json.loads(self.run(*arguments, "--json", **how).stdout)

    def tune(self, *more, **how):
        return self.json("tune", MODEL, "--size", SIZE, "--threads", "1", *more, **how)

    def steps(self, *more, **how):
        return self.json("plan", MODEL, "--size", SIZE, "--threads", "1", *more, **how)["steps"]

    def lines(self):
        with open(self.wisdom) as f:
            return f.read().split("\n")[:-1]


def next_process_knows(exe, planted, folder):
    p = Program(exe, folder)
    expect("a plan without wisdom asks the cost model", {s["source"] for s in p.steps()} == {"cost"})
    result = p.tune()
    expect("nothing found: %s" % result, result["facts"] > 0 and result["complete"])
    before = p.lines()
    begin = time.time()
    steps = p.steps()
    expect("planning took %.1f s" % (time.time() - begin), time.time() - begin < 1)
    expect("a step without wisdom", {s["source"] for s in steps} == {"wisdom"})
    expect("a sweep without wisdom", {s["sweep_source"] for s in steps} <= {"wisdom", "cost"})
    expect("planning changed the file", p.lines() == before)
    again = p.tune()
    expect("something was measured twice: %s" % again, again["candidates"] == 0 and again["facts"] == 0)
    expect("the table does not say where choices come from",
           "wisdom" in p.run("plan", MODEL, "--size", SIZE, "--threads", "1").stdout)


def wrong_never_wins(exe, planted, folder):
    for plant in ("wrong", "wrong,chosen"):
        p = Program(planted, folder, os.path.join(folder, plant))
        result = p.tune(plant=plant)
        expect("%s: it was not noticed" % plant, result["wrong"] > 0)
        steps = p.steps(plant=plant)
        expect("%s: it won" % plant, not any("planted" in s["kernel"] for s in steps))
        expect("%s: it is in the wisdom" % plant,
               not any("planted" in line for line in p.lines() if not line.startswith("skip")))


def crash_is_skipped(exe, planted, folder):
    for plant in ("crash", "crash,chosen"):
        p = Program(planted, folder, os.path.join(folder, plant))
        deaths = 0
        while p.run("tune", MODEL, "--size", SIZE, "--threads", "1", plant=plant, code=None).returncode:
            deaths += 1
            expect("%s: tuning never ends" % plant, deaths < 4)
        expect("%s: %d deaths, wanted 2: a kernel has two lives" % (plant, deaths), deaths == 2)
        steps = p.steps(plant=plant)
        expect("%s: it won" % plant, not any("planted" in s["kernel"] for s in steps))
        expect("%s: not tuned" % plant, {s["source"] for s in steps} == {"wisdom"})


def interrupted(exe, planted, folder):
    p = Program(exe, folder)
    env = dict(os.environ, FOVEA_WISDOM=p.wisdom)
    run = subprocess.Popen([exe, "tune", "synthetic:dinov2-s", "--size", "448", "--threads", "1"],
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env)
    begin = time.time()
    while time.time() - begin < 60 and not (os.path.exists(p.wisdom) and len(p.lines()) > 2):
        time.sleep(0.02)
    run.send_signal(signal.SIGINT)
    out, err = run.communicate(timeout=60)
    expect("exit %d: %s" % (run.returncode, err), run.returncode == 130)
    expect("it does not say so: %s" % err, "finishing this measurement; once more: at once" in err and
           "interrupted; " in err and "not finished" in out)
    expect("nothing was kept", len(p.lines()) > 2)
    expect("a journal is left", not os.path.exists(p.wisdom + ".journal"))
    sources = {s["source"] for s in p.json("plan", "synthetic:dinov2-s", "--size", "448", "--threads",
                                           "1")["steps"]}
    expect("what was kept is not used: %s" % sources, "wisdom" in sources)


def time_is_limited(exe, planted, folder):
    p = Program(exe, folder)
    what = ("synthetic:dinov2-s", "--size", "448")
    frame = p.json("bench", "model", *what, "--runs", "1", "--warmup", "0", "--verify",
                   "off")["p50_ms"] / 1e3
    begin = time.time()
    p.run("tune", *what, "--time", "1")
    took = time.time() - begin
    expect("it took %.1f s, a frame %.2f" % (took, frame), took < 12 + 8 * frame)


def files(exe, planted, folder):
    text = ("fovea wisdom 1\nplan\tcpu|a|b|1||\tmodel\t-\tmeasure\t1\t2\n"
            "step\tcpu|a|b|1||\tproblem\tkernel_of_tomorrow rev=1\tmeasure\t1\t2\n")
    good, bad = os.path.join(folder, "good"), os.path.join(folder, "bad")
    with open(good, "w") as f:
        f.write(text)
    with open(bad, "w") as f:
        f.write(text[:-5])
    p = Program(exe, folder)
    plan = ("plan", MODEL, "--size", SIZE)
    p.run(*plan, "--wisdom", os.path.join(folder, "nothing"), code=7)
    expect("the line is not named", "line 3" in p.run(*plan, "--wisdom", bad, code=7).stderr)
    expect("unknown kernels are not remarked upon",
           "1 line " in p.run(*plan, "--wisdom", good).stderr)
    broken = Program(exe, folder, bad)
    expect("a bad file is not remarked upon", "line 3" in broken.run(*plan).stderr)
    broken.run("tune", MODEL, "--size", SIZE, code=7)
    with open(bad) as f:
        expect("a bad file was overwritten", f.read() == text[:-5])
    none = Program(exe, folder, "")
    none.run("tune", MODEL, "--size", SIZE, code=1)
    out = os.path.join(folder, "out")
    none.run("tune", MODEL, "--size", SIZE, "--time", "0.5", "-o", out)
    expect("-o wrote nothing", os.path.exists(out))
    p.run("tune", MODEL, "--rigor", "estimate", code=1)
    p.run("plan", MODEL, "--rigor", "much", code=1)
    p.run("tune", MODEL, MODEL, code=1)


def device_is_chosen(exe, planted, folder):
    p = Program(exe, folder)
    devices = p.json("info")["devices"]
    plan = ("plan", MODEL, "--size", SIZE)
    expect("auto is not the CPU", p.json(*plan)["env"]["device"] == "cpu")
    for d in devices[1:2]:
        key = "|".join([d["id"].split(":")[0], d["features"], d["name"], "1", d["driver"], ""])
        p.run("tune", MODEL, "--size", SIZE, "--time", "0.5")
        subject = "vit width 192 depth 12 heads 3 patch 16, 32x32, softmax, f32"
        with open(p.wisdom, "a") as f:
            f.write("plan\t%s\t%s\t-\tmeasure\t1\t2\n" % (key, subject))
        expect("auto is not the one that wisdom prefers", p.json(*plan)["env"]["device"] == d["id"])
        expect("a size without wisdom", p.json("plan", MODEL, "--size", "64")["env"]["device"] == "cpu")


def main():
    exe, planted = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])

    def call(test):
        with tempfile.TemporaryDirectory() as folder:
            test(exe, planted, folder)

    return expected.run((next_process_knows, wrong_never_wins, crash_is_skipped, interrupted,
                         time_is_limited, files, device_is_chosen), call)


if __name__ == "__main__":
    sys.exit(main())
