#!/usr/bin/env python3
"""test_compute.py: `--compute` of every command: plans, results and tables name the requested type, and
`verify` checks it; golden models stay near float32.

    test_compute.py path/to/fovea [--brief]

--brief: without the golden models, which sanitizers already cover by test_golden.py.
Standard library only.
"""
import collections
import json
import math
import os
import random
import struct
import subprocess
import sys
import tempfile

import expected
from expected import Failed, expect

HERE = os.path.dirname(os.path.abspath(__file__))
GOLDEN = os.path.join(HERE, "..", "data", "golden", "models")
MODEL, SIZE = "synthetic:vit-ti16", ("--size", "64")
NEAR = {"bf16": 0.9999, "int8": 0.998}  # cosine with float32 of models with random weights
# The cosine of only ten logits varies more than that of rows: PyTorch's bfloat16 gives this model 0.99981 to 0.99999
# on thirty pictures, and half of them are below 0.99992.
OWN_NEAR = {"timm-pe-core-01": {"bf16": 0.9998}}
# A rounding error may move a key across the border of a query's mask. PyTorch's bfloat16 gives the tiny models over
# DINOv2 and Swin means of 0.92 to 0.99999 on thirty pictures each, with medians from 0.9990 to 0.9998.
MASKED_NEAR = {"bf16": 0.995, "int8": 0.99}


class Program:
    def __init__(self, exe, folder):
        self.exe, self.wisdom = exe, os.path.join(folder, "wisdom")

    def call(self, *arguments, code=0):
        env = dict(os.environ, FOVEA_WISDOM=self.wisdom)
        p = subprocess.run([self.exe, *arguments], capture_output=True, text=True, env=env)
        if p.returncode != code:
            raise Failed("%s: exit %d, wanted %d: %s" % (" ".join(arguments), p.returncode, code,
                                                         p.stderr))
        return p

    def run(self, *arguments, code=0):
        p = self.call(*arguments, code=code)
        return p.stdout if code == 0 else p.stderr

    def said(self, *arguments):
        return self.call(*arguments).stderr

    def json(self, *arguments, **how):
        return json.loads(self.run(*arguments, "--json", **how))


def device_says(p):
    cpu = p.json("info", "--isa", "scalar")["devices"][0]
    expect("a scalar processor has instructions", not cpu["bf16"] and not cpu["int8"])
    expect("and it is not said", "products of bfloat16 and int8 by wider instructions" in
           p.run("info", "--isa", "scalar"))
    best = p.json("info")["devices"][0]
    level = best["features"]
    expect("what %s has: %s" % (level, best),
           best["int8"] == any(w in level for w in ("vnni", "bf16", "sdot", "dot", "i8mm")) and
           best["bf16"] == any(w in level for w in ("bf16", "neon-dot", "i8mm")))


def plan_says(p):
    for attention in ("softmax", "linear"):
        plain = p.json("plan", MODEL, *SIZE, "--attention", attention, "--compute", "f32")
        seen = p.json("plan", MODEL, *SIZE, "--attention", attention, "--compute", "bf16")
        for plan, compute in (plain, "f32"), (seen, "bf16"):
            expect("params say %s" % compute, plan["params"]["compute"] == compute)
            count = collections.Counter(s["products"] for s in plan["steps"] if s["products"])
            expect("products are counted: %s" % count,
                   {k: n for k, n in plan["products"].items() if n} == count)
        expect("float32 alone", set(k for k, n in plain["products"].items() if n) == {"f32"})
        for compute in "bf16", "int8":
            label = {s["label"]: s["products"] for s in p.json(
                "plan", MODEL, *SIZE, "--attention", attention, "--compute", compute)["steps"]}
            attended = "int8" if (compute, attention) == ("int8", "softmax") else "bf16"
            fast = p.json("info")["devices"][0]["bf16"]
            expect("the MLP is %s, the embedding no narrower than what is fast: %s" % (compute, label),
                   label["block 3 fc1"] == compute and label["embed"] == ("bf16" if fast else "f32") and
                   label["block 3 attention"] == attended and label["block 3 mlp norm"] is None)
        text = p.run("plan", MODEL, *SIZE, "--attention", attention, "--compute", "bf16")
        line = next(x for x in text.split("\n") if x.startswith("products"))
        expect("in a line: %s" % line, "of bf16: " in line and "fc1; fc2" in line)
    rows = {c: p.json("plan", "synthetic:dinov2-b", "--size", "1036", "--compute", c)["bytes"]["residual"]
            for c in ("f32", "bf16")}
    expect("rows of q, k, v at half the bytes: %s" % rows, rows["bf16"] <= 0.61 * rows["f32"])
    p.run("plan", MODEL, "--compute", "int4", code=1)
    expect("types are settled", "leave their types" in
           p.run("plan", MODEL, "--compute", "bf16", "--dtype", "f16", code=7))


def decoders_say(p):
    """Decoders use int8 convolutions if the processor has int8 instructions; a convolutional trunk does not."""
    decoders = {"mavit-t-fpn": "head", "depth-anything-s": "level", "vitpose-s": "head deconv", "rf-detr-n": "projector",
                "sam-b16": "convolution of the neck"}
    for isa in (), ("--isa", "scalar"):
        dots = p.json("info", *isa)["devices"][0]["int8"]
        for model, decoder in decoders.items():
            size = ("--size", "224") if model.startswith("mavit") else ()
            steps = p.json("plan", "synthetic:" + model, *size, *isa, "--compute", "int8")["steps"]
            of = {s["label"]: s["products"] for s in steps if s["kernel"].startswith("conv_")
                  and (s["label"].startswith(decoder) or s["label"].startswith(("stem", "down")))}
            wanted = {label: label.startswith(decoder) and dots for label in of}
            expect("%s %s: %s" % (model, isa, of), any(label.startswith(decoder) for label in of) and
                   {label: kind == "int8" for label, kind in of.items()} == wanted)


def windows_say(p):
    """Attention in windows is int8 where a window is large: 12 x 12 tokens, but not 9 x 9."""
    for model, size, wanted in (("sam-b16", "512", "int8"), ("rf-detr-n", "384", "int8"), ("rf-detr-n", "288", "bf16")):
        steps = p.json("plan", "synthetic:" + model, "--size", size, "--compute", "int8")["steps"]
        windows = {s["products"] for s in steps if s["kernel"].startswith("wsoftmax_")}
        expect("%s %s: %s" % (model, size, windows), windows == {wanted})


def chosen(p):
    """Without --compute, products use the types that the device has instructions for."""
    def params(*options):
        told = p.json("plan", MODEL, *SIZE, *options)["params"]
        return told["compute"], told["compute_source"]
    for isa in (), ("--isa", "scalar"):
        fast = "bf16" if p.json("info", *isa)["devices"][0]["bf16"] else "f32"
        for asked in (), ("--compute", "auto"):
            expect("%s %s" % (isa, asked), params(*isa, *asked) == (fast, "device"))
        for compute in "f32", "bf16", "int8":
            expect("as asked for", params(*isa, "--compute", compute) == (compute, "forced"))
        own, same = (p.json("plan", MODEL, *SIZE, *isa, *o)["steps"] for o in ((), ("--compute", fast)))
        expect("the plan is that of %s" % fast, own == same)
        line = [x for x in p.run("plan", MODEL, *SIZE, *isa).split("\n") if x.startswith("compute ")]
        expect("a line: %s" % line, len(line) == 1 and "instructions for" in line[0] and
               ("--compute f32" in line[0]) == (fast == "bf16"))
    for dtype in "f32", "f16", "bf16", "int8":
        expect("types of storage go with float32", params("--dtype", dtype) == ("f32", "forced"))
    expect("also with auto", params("--dtype", "f16", "--compute", "auto") == ("f32", "storage"))
    expect("nothing was chosen", "\ncompute " not in p.run("plan", MODEL, *SIZE, "--compute", "f32"))


def chosen_by_commands(p, folder):
    """Every command that runs a model chooses the same type, and reports it."""
    picture = os.path.join(folder, "chosen.ppm")
    with open(picture, "wb") as f:
        f.write(b"P6 64 64 255\n" + bytes(i * 37 % 251 for i in range(3 * 64 * 64)))
    fast = p.json("plan", MODEL, *SIZE)["params"]["compute"]
    features = {}
    for options in (), ("--compute", fast), ("--compute", "f32"):
        out = os.path.join(folder, "chosen.npy")
        said = p.said("run", MODEL, picture, *SIZE, "--features", out, *options)
        with open(out, "rb") as f:
            features[options] = f.read()
        expect("a line for whoever did not ask: %s" % said, ("fovea: products are" in said) == (not options))
    expect("the bits of %s" % fast, features[()] == features["--compute", fast])
    expect("f32 is f32", (features[()] == features["--compute", "f32"]) == (fast == "f32"))
    run = p.json("run", MODEL, picture, *SIZE)
    expect("run: %s" % run, (run["compute"], run["compute_source"]) == (fast, "device"))
    golden = os.path.join(GOLDEN, "vit-01")
    run = json.loads(p.run("run", golden, os.path.join(golden, "io.safetensors"), "--json").split("\n")[0])
    expect("tensors are no exception", (run["compute"], run["compute_source"]) == (fast, "device"))
    for command in (("verify", MODEL, *SIZE), ("bench", "model", MODEL, *SIZE, "--runs", "1")):
        expect(command[0], p.json(*command)["params"]["compute"] == fast)
    told = p.json("tune", MODEL, "--size", "32", "--time", "0.001")
    expect("tune", told["compute"] == fast)
    os.mkdir(os.path.join(folder, "data"))
    os.rename(picture, os.path.join(folder, "data", "chosen.ppm"))
    told = p.json("eval", MODEL, "--data", os.path.join(folder, "data"), "--against", MODEL, *SIZE)
    expect("eval", told["params"]["compute"] == fast and (told["metrics"]["cosine"] == 1) == (fast == "f32"))
    for case in (("gemm", "--shape", "8x8x8"), ("block", "--tokens", "20", "--dim", "64", "--heads", "2")):
        expect("operations are float32", p.json("bench", *case, "--runs", "1")["params"]["compute"] == "f32")


def verified(p):
    model = os.path.join(GOLDEN, "vit-01")
    for attention, compute in (("softmax", "bf16"), ("linear", "bf16"), ("pola", "int8")):
        seen = p.json("verify", model, "--compute", compute, "--attention", attention,
                      "--accuracy", str(NEAR[compute]))
        expect("nothing is wrong with %s" % attention, seen["wrong"] == 0)
        expect("compute is in params", seen["params"]["compute"] == compute)
        rounded = [s for s in seen["steps"] if s["products"] in NEAR]
        expect("some are of the type", any(s["products"] == compute for s in rounded))
        expect("the type's error is measured", all(1e-5 < s["rounding"] < 0.02 for s in rounded))
        expect("of such steps alone", all(s["rounding"] == 0 for s in seen["steps"]
                                          if s["products"] not in NEAR))
        worst = sorted((s["rounding"] for s in rounded), reverse=True)[:5]
        expect("the worst are named", [s["rounding"] for s in seen["costly"]] == worst)
        a = seen["accuracy"]
        expect("cosines: %s" % a, 0.99 < a["worst"] <= a["mean"] < 1 and a["floor"] == NEAR[compute])
    plain = p.json("verify", model, "--compute", "f32")
    expect("float32 has no such error", plain["accuracy"] is None and plain["costly"] == [])


def near_float32(p):
    """All golden models. With their few random weights, rounding errors hardly average out."""
    models = sorted(os.listdir(GOLDEN))
    expect("there are some", len(models) > 3)
    for model in models:
        for compute, floor in NEAR.items():
            own = MASKED_NEAR if model.startswith("mask2former") else OWN_NEAR.get(model, {})
            floor = own.get(compute, floor)
            p.run("verify", os.path.join(GOLDEN, model), "--compute", compute, "--accuracy", str(floor))


def write_model(folder, width, heads, hidden, patch=4, side=3, change=None):
    """Writes a DINOv2 of one block with random weights and transformers' tensor names. change(name, numbers) may
    change a tensor's numbers."""
    rng = random.Random(width)
    block = "encoder.layer.0."
    shapes = {"embeddings.cls_token": (1, 1, width),
              "embeddings.position_embeddings": (1, 1 + side * side, width),
              "embeddings.patch_embeddings.projection.weight": (width, 3, patch, patch),
              "embeddings.patch_embeddings.projection.bias": (width,),
              "layernorm.weight": (width,), "layernorm.bias": (width,),
              block + "mlp.fc1.weight": (hidden, width), block + "mlp.fc1.bias": (hidden,),
              block + "mlp.fc2.weight": (width, hidden), block + "mlp.fc2.bias": (width,),
              block + "layer_scale1.lambda1": (width,), block + "layer_scale2.lambda1": (width,)}
    for norm in "norm1", "norm2":
        shapes[block + norm + ".weight"] = shapes[block + norm + ".bias"] = (width,)
    for part in "attention.query", "attention.key", "attention.value", "output.dense":
        shapes[block + "attention." + part + ".weight"] = (width, width)
        shapes[block + "attention." + part + ".bias"] = (width,)
    head, data = {}, b""
    for name, shape in shapes.items():
        count = math.prod(shape)
        spread = 1.4 / (count / shape[0]) ** 0.5 if len(shape) in (2, 4) else 0.3
        numbers = [rng.gauss(0, spread) for _ in range(count)]
        if change:
            change(name, numbers)
        raw = struct.pack("<%df" % count, *numbers)
        head[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(head).encode()
    os.mkdir(folder)
    with open(os.path.join(folder, "model.safetensors"), "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + data)
    with open(os.path.join(folder, "config.json"), "w") as f:
        json.dump({"model_type": "dinov2", "hidden_size": width, "num_hidden_layers": 1,
                   "num_attention_heads": heads, "patch_size": patch, "hidden_act": "gelu",
                   "image_size": side * patch, "layer_norm_eps": 1e-6}, f)


def odd_models(p, folder):
    """Widths that no rotation divides, one head, one token; also with the instructions that all processors have."""
    prime, odd = os.path.join(folder, "prime"), os.path.join(folder, "odd")
    write_model(prime, 67, 1, 71)
    write_model(odd, 75, 3, 77)
    siglip = os.path.join(GOLDEN, "siglip-02")
    for model, size, tokens in (prime, "12", 10), (odd, "4", 2), (siglip, "14", 1):
        for compute, floor in NEAR.items():
            for isa in ("--isa", "scalar"), ():
                for attention in "softmax", "linear", "nala":
                    options = (model, "--size", size, "--compute", compute, "--attention", attention,
                               *isa)
                    plan = p.json("plan", *options)
                    kinds = {s["products"] for s in plan["steps"]}
                    expect("%s of %s at %s: %s" % (compute, model, size, kinds),
                           compute in kinds and plan["params"]["tokens"] == tokens)
                    seen = p.json("verify", *options, "--accuracy", str(floor - 0.001))
                    expect("nothing is wrong", seen["wrong"] == 0)


def outliers(p, folder):
    """Differences between channels that follow from the weights are balanced; others cause a warning."""
    width, hidden, channel = 128, 256, 77

    def after_norms(name, numbers):
        for norm, readers in ("norm1", ("query", "key", "value")), ("norm2", ("fc1",)):
            if norm in name:
                numbers[channel] *= 300
            if any(r + ".weight" in name for r in readers):
                numbers[channel::width] = [x / 300 for x in numbers[channel::width]]

    def hidden_channel(name, numbers):
        if name.endswith("fc1.bias"):
            numbers[channel] = 3000
        if name.endswith("fc2.weight"):
            numbers[channel::hidden] = [x / 3000 for x in numbers[channel::hidden]]

    for name, change, bad in (("even", after_norms, []), ("uneven", hidden_channel, ["block 0 fc2"])):
        model = os.path.join(folder, name)
        write_model(model, width, 2, hidden, change=change)
        options = ("verify", model, "--size", "12", "--compute", "int8", "--accuracy", "0")
        seen = p.json(*options)
        expect("nothing is wrong with %s" % name, seen["wrong"] == 0)
        expect("badly scaled: %s" % seen["badly_scaled"], seen["badly_scaled"] == bad)
        near = all(s["carried"]["cosine"] > 0.999 for s in seen["steps"] if s.get("carried"))
        expect("near float32, but for those: %s" % seen["accuracy"],
               near and seen["accuracy"]["worst"] > 0.995 or bad)
        said = p.said(*options)
        expect("a warning where there is something to say: %s" % said,
               ("worst" in said and "block 0 fc2" in said and "tune %s --accuracy" % model in said) == bool(bad))
    expect("float32 has none", p.json("verify", model, "--size", "12", "--compute", "f32")["badly_scaled"] == [])


def pictures_of_a_model(p, folder):
    paths = []
    for i, (w, h) in enumerate(((64, 64), (80, 48))):
        paths.append(os.path.join(folder, "%d.ppm" % i))
        with open(paths[-1], "wb") as f:
            f.write(b"P6 %d %d 255\n" % (w, h) + bytes((i * 91 + 37 * k) % 256 for k in range(3 * w * h)))
    seen = p.json("verify", os.path.join(GOLDEN, "vit-01"), *paths, "--compute", "bf16")["accuracy"]
    expect("each picture", [x["picture"] for x in seen["pictures"]] == paths)
    rows = sum(x["rows"] for x in seen["pictures"])
    mean = sum(x["mean"] * x["rows"] for x in seen["pictures"]) / rows
    expect("and all of them", abs(seen["mean"] - mean) < 1e-9 and
           seen["worst"] == min(x["worst"] for x in seen["pictures"]))
    said = p.run("verify", os.path.join(GOLDEN, "vit-01"), "--compute", "bf16", "--accuracy", "1",
                 code=3)
    expect("a floor that is not reached: %s" % said, "less than 1; --accuracy" in said)
    p.run("verify", "--accuracy", "0.9", code=1)
    run = p.json("run", MODEL, paths[0], *SIZE, "--compute", "bf16")
    expect("run says what it used", run["compute"] == "bf16")


def measured(p):
    types = {"f32": "fma_gflops", "bf16": "bf16_gflops", "int8": "int8_gops"}
    lines = p.run("bench", "gemm", "--shape", "33x70x45", "--compute", ",".join(types), "--runs", "2",
                  "--json").splitlines()
    expect("a case for each", len(lines) == len(types))
    for r, compute in zip(map(json.loads, lines), types):
        peak = r["roofline"]
        expect("%s: %s" % (compute, r["verify"]), r["verify"]["ok"] and r["params"]["compute"] == compute)
        expect("its own peak", peak["peak_gflops"] >= peak[types[compute]] > 0)
    for case in (("attention", "--attention", "softmax,linear", "--tokens", "40", "--heads", "2"),
                 ("block", "--tokens", "20", "--dim", "64", "--heads", "2"),
                 ("model", MODEL, "--size", "32"),
                 ("kernel", "--op", "gemm", "--model", MODEL, "--size", "32"),
                 ("floors", MODEL, "--size", "32")):
        compute = "int8" if case[0] in ("block", "floors") else "bf16"
        for line in p.run("bench", *case, "--compute", compute, "--runs", "1", "--json").splitlines():
            r = json.loads(line)
            if r["schema"] == "fovea.bench/1":
                expect("%s is in %s" % (r["title"], compute), r["params"]["compute"] == compute and
                       r["verify"]["ok"])


def tuned(p):
    """Tuning results for one type are not used for another."""
    options = ("--size", "32", "--threads", "1", "--compute")
    def of(compute, source):
        return {s["label"]: s[source] for s in p.json("plan", MODEL, *options, compute)["steps"]}
    result = p.json("tune", MODEL, *options, "bf16")
    expect("something is found: %s" % result, result["facts"] > 0 and result["compute"] == "bf16")
    expect("plans with it know all steps", set(of("bf16", "source").values()) == {"wisdom"})
    plain = of("f32", "source")
    expect("others do not: %s" % plain, plain["block 3 fc1"] == plain["block 3 q"] == "cost")
    again = p.json("tune", MODEL, *options, "bf16")
    expect("nothing is measured twice", again["candidates"] == 0)


def main():
    exe = os.path.abspath(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        p = Program(exe, folder)

        def pictures(p):
            pictures_of_a_model(p, folder)

        def odd(p):
            odd_models(p, folder)

        def uneven(p):
            outliers(p, folder)

        def commands(p):
            chosen_by_commands(p, folder)
        of_golden = () if "--brief" in sys.argv else (near_float32,)
        return expected.run((device_says, plan_says, decoders_say, windows_say, chosen, commands, verified, *of_golden,
                             odd, uneven, pictures, measured, tuned), lambda test: test(p))


if __name__ == "__main__":
    sys.exit(main())
