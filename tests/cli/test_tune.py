#!/usr/bin/env python3
"""test_tune.py: `fovea tune` and the wisdom that the other commands take from it.

    test_tune.py path/to/fovea path/to/fovea_planted

Of the kernels planted by planted_cpu.c, a wrong one is never chosen, and one that crashes is skipped at the
next start. In a checkpoint with one layer that int8 makes inaccurate, `fovea tune` finds that layer. Standard
library only.
"""
import array
import json
import math
import os
import random
import signal
import subprocess
import sys
import tempfile
import time

import expected
from expected import Failed, expect

MODEL, SIZE = "synthetic:vit-ti16", "32"
# The planted kernels multiply float32, which is not the default of every processor.
TUNED = (MODEL, "--size", SIZE, "--threads", "1", "--compute", "f32")


class Program:
    """Runs the program with its own wisdom file."""

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
        return self.json("tune", *TUNED, *more, **how)

    def steps(self, *more, **how):
        return self.json("plan", *TUNED, *more, **how)["steps"]

    def lines(self):
        with open(self.wisdom) as f:
            return f.read().split("\n")[:-1]


def next_process_knows(exe, planted, folder):
    p = Program(exe, folder)
    expect("a plan without wisdom asks the cost model", {s["source"] for s in p.steps()} == {"cost"})
    result = p.tune()
    expect("nothing found: %s" % result, result["facts"] > 0 and result["complete"])
    before = p.lines()
    facts = [line for line in before if not line.startswith(("fovea wisdom", "skip\t"))]
    expect("%d facts found, %d in the file" % (result["facts"], len(facts)), result["facts"] == len(facts))
    steps = p.steps()
    expect("a step without wisdom", {s["source"] for s in steps} == {"wisdom"})
    expect("a sweep without wisdom", {s["sweep_source"] for s in steps} <= {"wisdom", "cost"})
    expect("planning changed the file", p.lines() == before)
    again = p.tune()
    expect("something was measured twice: %s" % again, again["candidates"] == 0 and again["facts"] == 0)
    expect("the table does not say where choices come from",
           "wisdom" in p.run("plan", *TUNED).stdout)


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
        while p.run("tune", *TUNED, plant=plant, code=None).returncode:
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
    while time.time() - begin < 200 and not (os.path.exists(p.wisdom) and len(p.lines()) > 2):
        time.sleep(0.02)
    run.send_signal(signal.SIGINT)
    out, err = run.communicate(timeout=60)
    expect("exit %d: %s" % (run.returncode, err), run.returncode == 130)
    expect("it does not say so: %s" % err,
           "finishing this measurement; interrupt again to stop at once" in err and
           "interrupted; " in err and "not finished" in out)
    expect("nothing was kept", len(p.lines()) > 2)
    expect("a journal is left", not os.path.exists(p.wisdom + ".journal"))
    sources = {s["source"] for s in p.json("plan", "synthetic:dinov2-s", "--size", "448", "--threads",
                                           "1")["steps"]}
    expect("what was kept is not used: %s" % sources, "wisdom" in sources)


def time_is_limited(exe, planted, folder):
    p = Program(exe, folder)
    what = ("tune", "synthetic:dinov2-s", "--size", "448")  # half a minute, on any machine
    result = p.json(*what, "--time", "1")
    expect("it was not stopped: %s" % result, not result["complete"])
    stopped = p.run(*what, "--time", "0.001", "-o", os.path.join(folder, "other"))
    expect("it does not say so: " + stopped.stdout, "not finished" in stopped.stdout)


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


WIDTH, DEPTH, PATCH = 64, 2, 14


def hostile_model(folder, seed=1):
    """Writes a ViT whose first MLP gets a channel that is large in every token and has weights of 0. After rotation
    it dominates the scale of int8, so that the other channels keep few steps."""
    rng = random.Random(seed)

    def noise(rows, columns):
        return [rng.gauss(0, columns ** -0.5) for _ in range(rows * columns)]

    tensors = {"embeddings.cls_token": ([1, 1, WIDTH], noise(1, WIDTH)),
               "embeddings.mask_token": ([1, WIDTH], noise(1, WIDTH)),
               "embeddings.position_embeddings": ([1, 17, WIDTH], noise(17, WIDTH)),
               "embeddings.patch_embeddings.projection.weight":
                   ([WIDTH, 3, PATCH, PATCH], noise(WIDTH, 3 * PATCH * PATCH)),
               "embeddings.patch_embeddings.projection.bias": ([WIDTH], [0.0] * WIDTH)}

    def linear(name, rows, columns):
        tensors[name + ".weight"] = ([rows, columns], noise(rows, columns))
        tensors[name + ".bias"] = ([rows], [0.0] * rows)

    def norm(name):
        tensors[name + ".weight"] = ([WIDTH], [1.0] * WIDTH)
        tensors[name + ".bias"] = ([WIDTH], [0.0] * WIDTH)

    for i in range(DEPTH):
        block = "encoder.layer.%d." % i
        for name in ("query", "key", "value"):
            linear(block + "attention.attention." + name, WIDTH, WIDTH)
        linear(block + "attention.output.dense", WIDTH, WIDTH)
        linear(block + "mlp.fc1", 4 * WIDTH, WIDTH)
        linear(block + "mlp.fc2", WIDTH, 4 * WIDTH)
        for k in (1, 2):
            norm(block + "norm%d" % k)
            tensors[block + "layer_scale%d.lambda1" % k] = ([WIDTH], [1.0] * WIDTH)
    norm("layernorm")
    # Between the attention and the MLP of block 0 a channel of the residual stream is so large that the norm makes
    # all others tiny; the norm's weights undo that. No weight shows that the channel is large there.
    large, mean = 2000.0, 2000.0 / WIDTH
    scale = math.sqrt(large * mean - mean * mean)
    tensors["encoder.layer.0.attention.output.dense.bias"][1][5] = large
    tensors["encoder.layer.0.mlp.fc2.bias"][1][5] = -large
    tensors["encoder.layer.0.norm2.weight"][1][:] = [scale] * WIDTH
    tensors["encoder.layer.0.norm2.bias"][1][:] = [mean] * WIDTH
    tensors["encoder.layer.0.mlp.fc1.weight"][1][5::WIDTH] = [0.0] * (4 * WIDTH)

    header, data = {}, b""
    for name, (shape, values) in sorted(tensors.items()):
        packed = array.array("f", values).tobytes()
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + len(packed)]}
        data += packed
    text = json.dumps(header).encode()
    with open(os.path.join(folder, "model.safetensors"), "wb") as f:
        f.write(len(text).to_bytes(8, "little") + text + data)
    with open(os.path.join(folder, "config.json"), "w") as f:
        json.dump({"model_type": "dinov2", "hidden_size": WIDTH, "num_hidden_layers": DEPTH,
                   "num_attention_heads": 1, "mlp_ratio": 4, "hidden_act": "gelu", "layer_norm_eps": 1e-6,
                   "image_size": 56, "patch_size": PATCH, "num_channels": 3, "qkv_bias": True}, f)


def picture(folder, seed):
    rng = random.Random(seed)
    path = os.path.join(folder, "picture%d.ppm" % seed)
    with open(path, "wb") as f:
        f.write(b"P6 40 30 255\n" + bytes(rng.randrange(256) for _ in range(3 * 40 * 30)))
    return path


def products_within_a_bound(exe, planted, folder):
    hostile_model(folder)
    p = Program(exe, folder)
    pictures = [picture(folder, i) for i in range(2)]
    size = ("--size", "56", "--threads", "1")

    def tune(bound, *more, **how):
        return p.json("tune", folder, *size, "--accuracy", bound, *pictures, *more, **how)

    def planned(*more):
        params = p.json("plan", folder, *size, "--compute", "auto", *more)["params"]
        return params["compute"], params["compute_source"]

    fast = "bf16" if json.loads(p.run("info", "--json").stdout)["devices"][0]["bf16"] else "f32"
    expect("a plan before tuning", planned() == (fast, "device"))
    wide = tune("0.5")
    expect("the bound is met: %s" % wide["tried"], wide["found"] and wide["complete"] and
           wide["tried"]["mix"] is None and wide["tried"]["f32"]["cosine"] == 1)
    int8, bf16 = (wide["tried"][way]["cosine"] for way in ("int8", "bf16"))
    expect("the layer is not hostile: %f, %f" % (int8, bf16), int8 < 0.998 and bf16 > 0.9999)
    expect("it is not used: %s" % (planned(),), planned() == (wide["compute"], "wisdom"))

    mixed = tune("%.6f" % (0.4 * int8 + 0.6))
    expect("the wrong layers stay bfloat16: %s" % mixed["mix_bf16"], mixed["mix_bf16"] == ["block 0 fc1"])
    mix = mixed["tried"]["mix"]
    expect("the mix misses the bound: %s" % mix, mixed["bound"] <= mix["cosine"] < bf16 and
           mix["worst"] <= mix["cosine"])
    expect("int8 was chosen for speed alone", mixed["compute"] in ("f32", "bf16", "int8"))

    # The choice depends on speed, but every plan must follow it.
    key = [line.split("\t") for line in p.lines() if line.startswith("products")]
    expect("one fact: %s" % key, len(key) == 1 and mixed["compute"] == key[0][3].split()[0])
    for choice, compute, kept in (("int8", "int8", 0), ("int8 bf16=08", "int8", 1), ("bf16", "bf16", 0)):
        with open(p.wisdom, "w") as f:
            f.write("fovea wisdom 1\n" + "\t".join(key[0][:3] + [choice] + key[0][4:]) + "\n")
        expect("%s: %s" % (choice, planned()), planned() == (compute, "wisdom"))
        run = p.json("run", folder, *size, "--compute", "auto", pictures[0])
        expect("run: %s" % run, (run["compute"], run["compute_source"]) == (compute, "wisdom"))
        steps = p.json("plan", folder, *size, "--compute", "auto")["steps"]
        wider = [s["label"] for s in steps if s["label"].startswith("block") and
                 s["problem"].startswith("gemm") and "/i8/" not in s["problem"]]
        expect("%s: %s" % (choice, wider), len(wider) == (kept if compute == "int8" else 5 * DEPTH))
    expect("another size: %s" % (planned("--size", "70"),), planned("--size", "70") == ("bf16", "prior"))
    expect("plan says it", "bf16 products (as tuned)" in
           p.run("plan", folder, *size, "--compute", "auto").stdout)

    hostile_model(folder, 2)
    expect("other weights of the same shape: %s" % (planned(),), planned() == (fast, "device"))
    text = p.run("tune", folder, *size, "--accuracy", "0.9999999999", *pictures).stdout
    expect("text: %s" % text, "misses the bound" in text and "<- --compute auto" in text)
    expect("nothing is accurate enough: %s" % (planned(),), planned() == ("f32", "wisdom"))


def products_wrongly_asked_for(exe, planted, folder):
    p = Program(exe, folder)
    one = picture(folder, 1)
    for bound in ("0", "1", "-1", "nan", "much"):
        p.run("tune", MODEL, "--accuracy", bound, one, code=1)
    p.run("tune", "--accuracy", "0.9", code=1)
    p.run("tune", MODEL, "--accuracy", "0.9", code=1)
    p.run("tune", MODEL, one, code=1)
    p.run("tune", MODEL, "--accuracy", "0.9", "--compute", "int8", one, code=1)
    p.run("tune", MODEL, "--accuracy", "0.9", "--dtype", "bf16", one, code=1)
    p.run("tune", MODEL, "--accuracy", "0.9", os.path.join(folder, "none.ppm"), code=7)
    with open(os.path.join(folder, "bad.ppm"), "wb") as f:
        f.write(b"P6 40 30 255\n")
    p.run("tune", MODEL, "--accuracy", "0.9", one, os.path.join(folder, "bad.ppm"), code=7)
    expect("a failure left a fact", not any(line.startswith("products") for line in p.lines()))


def main():
    exe, planted = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])

    def call(test):
        with tempfile.TemporaryDirectory() as folder:
            test(exe, planted, folder)

    return expected.run((next_process_knows, wrong_never_wins, crash_is_skipped, interrupted,
                         time_is_limited, files, device_is_chosen, products_within_a_bound,
                         products_wrongly_asked_for), call)


if __name__ == "__main__":
    sys.exit(main())
