#!/usr/bin/env python3
"""test_linearise.py: `fovea linearise`, and `fovea adapt --val`, `--lr auto`.

    test_linearise.py path/to/fovea [--long]

Linearises a small checkpoint of tests/data on pictures of smooth noise. A held-out picture must not be used for
training under any name: a copy of it among the pictures must not change a bit of the weights. A run that is killed
at random moments and resumed must end with the same bits as one that was not. The result must never have a worse
score than the start. Empty, tiny and broken folders must give clear messages. Standard library only.
"""
import json
import os
import random
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import zlib

DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data", "golden", "models")
MODEL = os.path.join(DATA, "dinov2-03")  # 3 blocks, patches of 14
SIDE, PICTURES = 72, 12
FEW = ["--size", "56,112,140", "--batch", "2", "--steps", "6", "--threads", "1", "--keep-softmax", "1",
       "--attention", "foveated"]


class Failed(Exception):
    pass


def want(right, what):
    if not right:
        raise Failed(what)


# ---- pictures ----

def png(path, rng):
    """A coarse grid of colours, enlarged: pure noise would give all patches the same features."""
    def chunk(name, data):
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
    cells = [[rng.randbytes(3) for _ in range(6)] for _ in range(6)]
    lines = b"".join(b"\0" + b"".join(cells[y * 6 // SIDE][x * 6 // SIDE] for x in range(SIDE)) for y in range(SIDE))
    with open(path, "wb") as f:
        f.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", SIDE, SIDE, 8, 2, 0, 0, 0)) +
                chunk(b"IDAT", zlib.compress(lines)) + chunk(b"IEND", b""))


def make_data(folder):
    rng = random.Random(5)
    for name in ("photos", "others", "empty", "one", "same", "three", "broken", "half"):
        os.makedirs(os.path.join(folder, name))
    for i in range(PICTURES):
        png("%s/photos/%02d.png" % (folder, i), rng)
    for i in range(2):
        png("%s/others/%d.png" % (folder, i), rng)
    for i in range(3):
        png("%s/three/%d.png" % (folder, i), rng)
        open("%s/broken/%d.png" % (folder, i), "wb").write(b"\x89PNG\r\n\x1a\n nothing more %d" % i)
    png(folder + "/one/0.png", rng)
    for i in range(3):
        shutil.copy(folder + "/one/0.png", "%s/same/%d.png" % (folder, i))
    for i in range(PICTURES):
        shutil.copy("%s/photos/%02d.png" % (folder, i), folder + "/half")
        open("%s/half/broken%d.png" % (folder, i), "wb").write(b"\x89PNG\r\n\x1a\n nothing more %d" % i)


# ---- runs ----

def run(exe, folder, *args, code=0):
    try:
        p = subprocess.run([exe, *args], cwd=folder, capture_output=True, text=True, timeout=120)
    except subprocess.TimeoutExpired:
        raise Failed("%s: does not end" % " ".join(args))
    want(p.returncode == code, "%s: exit %d, wanted %d: %s" %
         (" ".join(args), p.returncode, code, p.stderr.strip()[-400:]))
    return p


def linearise(exe, folder, out, *args, data="photos", code=0):
    return run(exe, folder, "linearise", MODEL, "--data", data, "-o", out, *FEW, *args, code=code)


def weights(folder, out):
    return open(os.path.join(folder, out, "model.safetensors"), "rb").read()


def report(folder, out):
    return json.load(open(os.path.join(folder, out, "report.json")))


# ---- tests ----

def check_result(exe, folder):
    p = linearise(exe, folder, "whole", "--json")
    found = json.loads(p.stdout)
    want(found == report(folder, "whole"), "--json and report.json differ")
    want(found["schema"] == "fovea.linearise/1" and len(found["lost"]) == 3, "report.json: schema, blocks")
    want(found["attention"].count("softmax@") == 1, "one block keeps softmax, not %s" % found["attention"])
    most = max(range(3), key=lambda i: found["lost"][i])
    want(found["attention"] == "foveated+softmax@%d" % most, "not the block that loses most keeps softmax")
    want([s["width"] for s in found["scores"]] == [56, 112, 140], "sizes")
    ranks = [sum(s[a] + s[b] for s in found["scores"]) / 6
             for a, b in (("mean", "worst"), ("untrained_mean", "untrained_worst"))]
    want(ranks[0] >= ranks[1] > 0, "the result is below its start: %s" % ranks)
    for name in ("report.md", "features-1.png", "phase-1/validation.jsonl", "config.json"):
        want(os.path.getsize(os.path.join(folder, "whole", name)) > 0, name + " is empty")
    config = json.load(open(os.path.join(folder, "whole", "config.json")))
    want(config["fovea"]["attention"] == found["attention"], "config.json: attention")
    judged = []
    for phase in (1, 2, 3, 4):
        with open(os.path.join(folder, "whole/phase-%d/validation.jsonl" % phase)) as lines:
            judged.append([json.loads(line) for line in lines])
        want(judged[-1][0]["step"] == 0 and judged[-1][-1]["step"] == 6, "judged at the start and at the end")
    judged = sum(judged, [])
    want(abs(max(j["rank"] for j in judged) - ranks[0]) < 1e-7, "the best of the judgements is not kept")
    run(exe, folder, "run", "whole", "photos/00.png", "--size", "112")
    p = linearise(exe, folder, "whole", code=1)
    want("--resume" in p.stderr, "a second run into the same folder is not refused")
    p = linearise(exe, folder, "whole", "--resume", "--seed", "3", code=7)
    want("seed" in p.stderr, "--resume with another seed")
    before = weights(folder, "whole")
    linearise(exe, folder, "whole", "--resume")
    want(weights(folder, "whole") == before, "--resume of a finished run changes it")


def check_held_out(exe, folder):
    """Two of twelve pictures are held out; copies of them under other names must make no difference."""
    held = [os.path.basename(p) for p in report(folder, "whole")["held_out"]]
    want(len(held) == 2 and report(folder, "whole")["pictures"] == PICTURES - 2, "a tenth is held out")
    shutil.copytree(os.path.join(folder, "photos"), os.path.join(folder, "copies"))
    for i, name in enumerate(held):
        shutil.copy(os.path.join(folder, "photos", name), os.path.join(folder, "copies", "zz%d.png" % i))
    linearise(exe, folder, "copied", data="copies")
    want(weights(folder, "copied") == weights(folder, "whole"), "copies of held-out pictures are learned from")
    # The same with a separate folder of held-out pictures.
    linearise(exe, folder, "val", "--val", "others")
    shutil.copytree(os.path.join(folder, "photos"), os.path.join(folder, "mixed"))
    for name in os.listdir(os.path.join(folder, "others")):
        shutil.copy(os.path.join(folder, "others", name), os.path.join(folder, "mixed", "zz" + name))
    linearise(exe, folder, "mixed-out", "--val", "others", data="mixed")
    want(weights(folder, "mixed-out") == weights(folder, "val"), "pictures of --val are learned from")
    p = linearise(exe, folder, "all", "--val", "photos", code=7)
    want("none is left" in p.stderr, "--val with all pictures of --data")


def check_data(exe, folder):
    for data, word, code in (("empty", "pictures", 7), ("one", "two different", 7), ("same", "all identical", 7),
                             ("broken", "can be read", 7), ("nowhere", "nowhere", 7)):
        p = linearise(exe, folder, "no", data=data, code=code)
        want(word in p.stderr, "data %s: %s" % (data, p.stderr.strip()))
        want(not os.path.exists(os.path.join(folder, "no", "config.json")), "data %s: leaves a model" % data)
    linearise(exe, folder, "tiny", data="three")
    want(report(folder, "tiny")["pictures"] == 2, "three pictures: two to learn from")
    p = linearise(exe, folder, "halved", "--held-out", "6", data="half")
    want("broken" in p.stderr, "broken pictures are not named")


def check_options(exe, folder):
    for args, word in ((["--budget", "soon"], "--budget"), (["--keep-softmax", "3"], "keep-softmax"),
                       (["--target", "2"], "--target"), (["--size", "1,2,3,4"], "--size"),
                       (["--attention", "nothing"], "nothing")):
        p = run(exe, folder, "linearise", MODEL, "--data", "photos", "-o", "bad", "--steps", "1", "--threads", "1",
                *args, code=2 if "nothing" in args else 1)
        want(word in p.stderr, "%s: %s" % (args, p.stderr.strip()))
    run(exe, folder, "linearise", MODEL, "--data", "photos", code=1)
    linearise(exe, folder, "listed", "--keep-softmax", "0,2")
    want(report(folder, "listed")["attention"] == "foveated+softmax@0+softmax@2", "a list of blocks")
    linearise(exe, folder, "every", "--keep-softmax", "0", "--attention", "nala")
    want(report(folder, "every")["attention"] == "nala", "another form")
    # The first message appears at once, also without a terminal; the journal has all that a resumed run needs.
    p = run(exe, folder, "linearise", MODEL, "--data", "photos", "-o", "timed", "--budget", "4s", "--size",
            "56,112,140", "--threads", "1")
    said = [line for line in p.stderr.splitlines() if line.startswith("fovea: ")]
    want("training uses" in said[0] and "survey: 3 attentions, each in one of 3 blocks" in said[1], "progress: %s" % said[:3])
    journal = json.load(open(os.path.join(folder, "timed", "linearise.json")))
    want(journal["spent"] > 0 and all(n > 0 for n in journal["judged_by"]), "the journal of a budget")
    want(all(phase["steps"] > 0 and phase["ended"] for phase in journal["phases"]), "phases of a budget")
    p = run(exe, folder, "linearise", MODEL, "--data", "photos", "-o", "timed", "--budget", "4s", "--size",
            "56,112,140", "--threads", "1", "--resume")
    want("phase 1 of" not in p.stderr, "phases that are done are not trained again")
    # Without any time: one picture is held out, the blocks' results are assumed, and there is a result.
    run(exe, folder, "linearise", MODEL, "--data", "photos", "-o", "hasty", "--budget", "0.01s", "--size",
        "56,112,140", "--threads", "1")
    want(report(folder, "hasty")["scores"][0]["pictures"] == 1, "one picture judges")


def check_compute(exe, folder):
    """Products in bfloat16 give other losses; a resumed run keeps the type that it began with."""
    form = ["--keep-softmax", "0", "--attention", "nala"]  # as in "every"; all losses of foveated are 0 here
    linearise(exe, folder, "rounded", *form, "--compute", "bf16")
    first = []
    for out in "rounded", "every":  # results may be equal, because the best may be the start
        with open(os.path.join(folder, out, "phase-1/log.jsonl")) as lines:
            first.append(json.loads(next(lines))["loss"])
    want(first[0] != first[1] and abs(first[0] - first[1]) < 0.05 * first[1], "--compute bf16: losses %s" % first)
    p = linearise(exe, folder, "rounded", *form, "--resume", code=7)
    want("compute" in p.stderr, "--resume with another compute: " + p.stderr)
    for compute, code in ("int8", 2), ("f8", 1):
        p = linearise(exe, folder, "no", "--compute", compute, code=code)
        want("--compute " + compute in p.stderr, p.stderr)


def check_kills(exe, folder, times):
    rng = random.Random(7)
    args = [exe, "linearise", MODEL, "--data", "photos", "-o", "killed", *FEW, "--resume"]
    begin = time.monotonic()
    linearise(exe, folder, "timing")
    whole = time.monotonic() - begin
    for _ in range(times):
        p = subprocess.Popen(args, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(rng.uniform(0, whole))
        p.send_signal(signal.SIGKILL)
        p.wait()
    linearise(exe, folder, "killed", "--resume")
    want(weights(folder, "killed") == weights(folder, "whole"), "a run that was killed ends with other bits")
    want(not [n for n in os.listdir(os.path.join(folder, "killed")) if n.endswith(".tmp")], "left-over files")


def check_adapt(exe, folder):
    """--val keeps the best step, --lr auto finds a learning rate; both can be resumed."""
    few = ["adapt", MODEL, "--stage", "2", "--data", "photos", "--size", "56", "--batch", "2", "--threads", "1",
           "--attention", "foveated", "--val", "others", "--val-every", "2"]
    run(exe, folder, *few, "-o", "a", "--steps", "6", "--lr", "auto")
    judged = [json.loads(line) for line in open(os.path.join(folder, "a/validation.jsonl"))]
    want([j["step"] for j in judged] == [0, 2, 4, 6], "--val-every 2")
    rate = json.load(open(os.path.join(folder, "a/rate.json")))
    finite = [t for t in rate["tried"] if t["loss"] is not None]
    want(rate["lr"] == min(finite, key=lambda t: t["loss"])["lr"], "--lr auto takes another rate than the best")
    # A learning rate that ruins the weights: the start is the best, and is kept.
    run(exe, folder, *few, "-o", "b", "--steps", "6", "--lr", "1")
    run(exe, folder, *few, "-o", "c", "--steps", "1", "--lr", "1")
    want(weights(folder, "b") == weights(folder, "c"), "--val does not keep the best")
    judged = [json.loads(line) for line in open(os.path.join(folder, "b/validation.jsonl"))]
    want(judged[0]["rank"] > max(j["rank"] for j in judged[1:]), "a rate of 1 ruins nothing")


def main():
    exe = os.path.abspath(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        try:
            make_data(folder)
            check_result(exe, folder)
            check_held_out(exe, folder)
            check_data(exe, folder)
            check_options(exe, folder)
            check_compute(exe, folder)
            check_adapt(exe, folder)
            check_kills(exe, folder, 30 if "--long" in sys.argv else 4)
        except Failed as e:
            sys.exit("test_linearise.py: %s" % e)


main()
