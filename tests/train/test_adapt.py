#!/usr/bin/env python3
"""test_adapt.py: `fovea adapt`: its messages, all forms of data, the log, checkpoints, several processes.

    test_adapt.py path/to/fovea [--long | --brief]

Trains checkpoints of tests/data for a few steps on pictures of noise. The losses must be the same for pictures
as files or packed, for classes as folders or labels, and for masks as grey values, palettes or packed. A training
that is killed at random moments and resumed, or interrupted and resumed, must end with the same bits as one that
was never stopped. Two processes of mpirun must give the losses of one process with twice the batch. With --long,
the training is killed fifty times; with --brief, for sanitizers, the longest trainings are omitted. Standard library
only.
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
VIT, DINO, SWIN = (os.path.join(DATA, name) for name in ("vit-01", "dinov2-03", "swin-01"))
SIDE, PICTURES, CLASSES = 48, 6, 3
FEW = ["--size", "32", "--batch", "2", "--steps", "3", "--threads", "1"]


# ---- files ----

def png(path, width, height, kind, rows, palette=b"", bits=8):
    """Writes a PNG; kind 2 is RGB, 0 grey, 3 a palette."""
    def chunk(name, data):
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
    lines = b"".join(b"\0" + row for row in rows)
    with open(path, "wb") as f:
        f.write(b"\x89PNG\r\n\x1a\n" +
                chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, bits, kind, 0, 0, 0)) +
                (chunk(b"PLTE", palette) if palette else b"") +
                chunk(b"IDAT", zlib.compress(lines)) + chunk(b"IEND", b""))


def save(path, tensors, metadata=None):
    """{name: (type, shape, bytes)}"""
    head, data = {"__metadata__": metadata} if metadata else {}, b""
    for name, (kind, shape, raw) in tensors.items():
        head[name] = {"dtype": kind, "shape": shape, "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(head).encode()
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + data)


def load(path):
    """{name: bytes}"""
    blob = open(path, "rb").read()
    n = struct.unpack("<Q", blob[:8])[0]
    return {name: blob[8 + n + t["data_offsets"][0]:8 + n + t["data_offsets"][1]]
            for name, t in json.loads(blob[8:8 + n]).items() if name != "__metadata__"}


def rows(raw, width):
    return [raw[i:i + width] for i in range(0, len(raw), width)]


def make_data(folder):
    """Writes the same pictures in every form; their names sort in the order of the packed file."""
    rng = random.Random(1)
    pixels = [rng.randbytes(3 * SIDE * SIDE) for _ in range(PICTURES)]
    masks = [bytes(rng.choice([0, 1, 2, 255]) for _ in range(SIDE * SIDE)) for _ in range(PICTURES)]
    labels = [i * CLASSES // PICTURES for i in range(PICTURES)]
    for name in ("plain", "empty", "beside", "apart/images", "apart/masks", "broken",
                 *("classes/" + c for c in "abc")):
        os.makedirs(os.path.join(folder, name))
    palette = bytes(range(256)) * 3
    for i in range(PICTURES):
        for where in ("plain", "beside", "apart/images", "broken", "classes/" + "abc"[labels[i]]):
            png("%s/%s/%d.png" % (folder, where, i), SIDE, SIDE, 2, rows(pixels[i], 3 * SIDE))
        png("%s/beside/%d_mask.png" % (folder, i), SIDE, SIDE, 0, rows(masks[i], SIDE))
        png("%s/apart/masks/%d.png" % (folder, i), SIDE, SIDE, 3, rows(masks[i], SIDE), palette)
    open(folder + "/broken/3.png", "wb").write(b"\x89PNG\r\n\x1a\n nothing more")
    shutil.copytree(folder + "/beside", folder + "/torn")
    os.remove(folder + "/torn/2_mask.png")
    images = ("U8", [PICTURES, SIDE, SIDE, 3], b"".join(pixels))
    save(folder + "/packed.safetensors", {
        "images": images, "masks": ("U8", [PICTURES, SIDE, SIDE], b"".join(masks)),
        "labels": ("I64", [PICTURES], struct.pack("<%dq" % PICTURES, *labels))}, {"classes": "3"})
    save(folder + "/labelled.safetensors", {
        "images": images, "labels": ("I32", [PICTURES], struct.pack("<%di" % PICTURES, *labels))})
    save(folder + "/bare.safetensors", {"images": images})
    save(folder + "/flat.safetensors", {"images": ("U8", [PICTURES * SIDE, SIDE, 3], images[2])})
    with open(folder + "/texts.json", "w") as f:
        json.dump({"stages": {"s": {"stage": 2, "attention": "linear:elu1", "trainable": [], "decay": [],
                                    "lr": {"base": "1e-4"}}}}, f)
    save(folder + "/short.safetensors", {"images": images, "labels": ("I32", [1], bytes(4))})
    shutil.copytree(VIT, folder + "/segmenter")
    os.chmod(folder + "/segmenter", 0o755)
    width = json.load(open(VIT + "/config.json"))["hidden_size"]
    save(folder + "/segmenter/segmentation.safetensors", {
        "segmentation_head.weight": ("F32", [CLASSES, width], struct.pack(
            "<%df" % (CLASSES * width), *(rng.gauss(0, 0.02) for _ in range(CLASSES * width)))),
        "segmentation_head.bias": ("F32", [CLASSES], bytes(4 * CLASSES))})
    floats = [rng.uniform(-1, 1) for _ in range(2 * 3 * 32 * 32)]
    batch = ("F32", [2, 3, 32, 32], struct.pack("<%df" % len(floats), *floats))
    save(folder + "/batches.safetensors", {
        "input.0": batch, "input.1": batch, "labels.0": ("I64", [2], struct.pack("<2q", 1, 4)),
        "labels.1": ("I64", [2], struct.pack("<2q", 0, 2))})


# ---- runs ----

class Failed(Exception):
    pass


def adapt(exe, folder, *args, code=0, launch=(), env=None):
    try:
        p = subprocess.run([*launch, exe, "adapt", *args], cwd=folder, capture_output=True, text=True,
                           env=dict(os.environ, **env) if env else None, timeout=120)
    except subprocess.TimeoutExpired:
        raise Failed("adapt %s: does not end" % " ".join(args))
    if p.returncode != code:
        raise Failed("adapt %s: exit %d, wanted %d: %s" %
                     (" ".join(args), p.returncode, code, p.stderr.strip()[-300:]))
    return p


def log(folder, name="out"):
    return [json.loads(line) for line in open(os.path.join(folder, name, "log.jsonl"))]


def losses(exe, folder, *args):
    shutil.rmtree(os.path.join(folder, "out"), ignore_errors=True)
    adapt(exe, folder, *args, "-o", "out")
    return [line["loss"] for line in log(folder)]


def want(right, what):
    if not right:
        raise Failed(what)


# ---- tests ----

def check_refusals(exe, folder):
    out = ["-o", "refused"]
    two = [VIT, "--stage", "2", *out]
    three = [VIT, "--stage", "3", *out]
    usual = ["--data", "plain", "--steps", "1", "--size", "32"]
    cases = [
        (1, [], "MODEL"), (1, [VIT, *out], "--stage"), (1, [VIT, "--stage", "4", *out], "4"),
        (1, [VIT, "--stage", "2", *usual], "-o"), (1, [*two, "--steps", "1"], "--data"),
        (1, [*two, "--data", "plain", "--epochs", "0"], "--epochs"),
        (1, [*two, *usual, "--crop", "random:2..3"], "--crop"),
        (1, [*two, *usual, "--crop", "left"], "--crop"), (1, [*two, *usual, "--flip", "2"], "--flip"),
        (1, [*two, *usual, "--lr-schedule", "steep"], "--lr-schedule"),
        (1, [*two, *usual, "--trainable", "none"], "--trainable"), (1, [*two, *usual, "--loss", "cubed"], "--loss"),
        (2, [VIT, "--stage", "1", *out, *usual, "--attention", "linear:silu"], "negative"),
        (1, [*two, *usual, "--tensors", "batches.safetensors"], "--tensors"),
        (1, [*two, "--tensors", "batches.safetensors", "--batch", "3"], "--batch"),
        (1, [*two, *usual, "--compute", "f8"], "--compute"), (2, [*two, *usual, "--compute", "int8"], "int8"),
        (1, [*two, *usual, "--teacher-memory", "x"], "--teacher-memory"),
        (1, [*two, *usual, "--teacher-memory", "9"], "--jitter 0"),
        (1, [VIT, "--stage", "1", *out, *usual, "--teacher-memory", "9"], "needs --stage 2"),
        (7, [*two, *usual[2:], "--data", "nowhere"], "nowhere"),
        (7, [*two, *usual[2:], "--data", "empty"], "pictures"),
        (7, [*two, *usual[2:], "--data", "torn"], "2.png"),
        (7, [*two, *usual[2:], "--data", "flat.safetensors"], "images"),
        (7, [*two, *usual[2:], "--data", "short.safetensors"], "labels"),
        (7, [*two, *usual, "--crop", "none"], "48x48"),
        (7, [*two, *usual, "--log", "/dev/full", "-o", "full"], "full"), (7, [*three, *usual], "classes"),
        (7, [*two, "--tensors", "bare.safetensors"], "input.0"),
        (7, [*three, *usual[2:], "--data", "labelled.safetensors", "--task", "segmentation"], "masks"),
        (1, [*three, *usual[2:], "--data", "beside"], "--classes"),
        (7, [VIT, "--stage", "1", *out, *usual, "--teacher", DINO], "teacher"),
        (7, [VIT, "--stage", "s", *out, "--hyper", "plain/0.png", "--tensors", "batches.safetensors"],
         "plain/0.png"),
        (7, [VIT, "--stage", "s", *out, "--hyper", "texts.json", "--tensors", "batches.safetensors"],
         'texts.json: "base" is "1e-4"; it must be a number'),
        (7, [*two, *usual, "--strict", "--data", "broken", "--batch", "6"], "broken/3.png"),
    ]
    for code, args, word in cases:
        p = adapt(exe, folder, *args, code=code)
        said = [line for line in p.stderr.splitlines() if "fovea: memory " not in line and "GFLOP" not in line]
        want(len(said) == 1 and said[0].startswith("fovea: ") and word in said[0],
             "adapt %s: wanted one line with %s, got %r" % (" ".join(args), word, p.stderr))
    return len(cases)


def check_failing_log(exe, folder):
    """Data that cannot be flushed to the disk are not a failure; a failing log is reported once, and the model is still
    saved."""
    usual = [VIT, "--stage", "2", "--data", "plain", *FEW, "--every", "1"]
    os.mkfifo(folder + "/fifo")
    for name, path, code in (("null", "/dev/null", 0), ("fifo", "fifo", 0), ("full", "/dev/full", 7),
                             ("gone", "fifo", 7)):
        reader = subprocess.Popen(["head", "-n", "1" if name == "gone" else "3", "fifo"], cwd=folder,
                                  stdout=subprocess.DEVNULL) if path == "fifo" else None
        p = adapt(exe, folder, *usual, "-o", "log_" + name, "--log", path, code=code)
        if reader:
            want(reader.wait() == 0, "nobody wrote to the fifo")
        want(p.stderr.count("cannot be written") == (code == 7), "--log %s: %s" % (path, p.stderr))
        for part in ("model.safetensors", "checkpoint"):
            want(os.path.exists("%s/log_%s/%s" % (folder, name, part)), "--log %s: no %s" % (path, part))
    # A checkpoint is kept even if its log cannot be read.
    adapt(exe, folder, *usual, "--steps", "4", "-o", "log_null", "--resume", "--log", "/dev/null", code=7)
    p = adapt(exe, folder, *usual, "-o", "log_null", "--resume", code=7)
    want("--log /dev/null" in p.stderr, p.stderr)
    adapt(exe, folder, *usual, "-o", "log_null", "--resume", "--log", "/dev/null")
    return 8


def check_overwriting(exe, folder):
    """Only the model of an earlier training is overwritten."""
    shutil.copytree(VIT, folder + "/mine", copy_function=shutil.copyfile)
    os.symlink("mine", folder + "/alias")
    usual = ["--data", "plain", *FEW]
    before = open(folder + "/mine/model.safetensors", "rb").read()
    for model, args, out, word in (
            ("mine", [], "mine", "MODEL"), ("mine", [], "alias", "MODEL"),
            ("mine/model.safetensors", [], "mine", "MODEL"), (VIT, ["--teacher", "mine"], "alias", "--teacher"),
            (VIT, [], "mine", "another folder")):
        p = adapt(exe, folder, model, "--stage", "2", *usual, *args, "-o", out, code=1)
        want(word in p.stderr, p.stderr)
    open(folder + "/mine/log.jsonl", "w").write('{"step": "mine"}\n')
    adapt(exe, folder, VIT, "--stage", "2", *usual, "-o", "mine", code=1)
    want(before == open(folder + "/mine/model.safetensors", "rb").read(), "-o: the model has changed")
    adapt(exe, folder, VIT, "--stage", "2", *usual, "-o", "own")
    os.remove(folder + "/own/checkpoint")  # as the message says
    adapt(exe, folder, VIT, "--stage", "2", *usual, "-o", "own")
    return 7


def check_defaults(exe, folder):
    """The first step does not ruin a checkpoint; a loss that grows is reported; a training without trainable
    parameters is refused."""
    for stage, rate in (("1", 1e-3), ("2", 1e-4)):
        shutil.rmtree(folder + "/out", ignore_errors=True)
        p = adapt(exe, folder, VIT, "--stage", stage, "--data", "plain", *FEW, "-o", "out")
        rates = [line["lr"] for line in log(folder)]
        want(rates[0] <= rate / 10 and rates == sorted(rates) and rates[2] < rate, "rates " + str(rates))
        want("rose" not in p.stderr, p.stderr)
    p = adapt(exe, folder, DINO, "--stage", "1", "--data", "plain", "--size", "28", "--batch", "6", "--crop",
              "centre", "--threads", "1", "--steps", "4", "--lr", "0.5", "--warmup", "0", "-o", "worse")
    lines = [line for line in p.stderr.splitlines() if "rose" in line]
    want(len(lines) == 1 and "--lr" in lines[0], "a rate of 0.5: " + p.stderr)
    for attention in ("softmax", "linear+softmax@0-"):
        p = adapt(exe, folder, VIT, "--stage", "1", "--data", "plain", *FEW, "--attention", attention, "-o",
                  "same", code=7)
        want("softmax" in p.stderr and not os.path.exists(folder + "/same"), p.stderr)
    adapt(exe, folder, VIT, "--stage", "1", "--data", "plain", *FEW, "--attention", "softmax+linear@1", "-o", "same")
    p = adapt(exe, folder, VIT, "--stage", "2", "--data", "plain", *FEW, "--batch", "9", "-o", "large")
    want("--batch 9" in p.stderr and "1.5 times" in p.stderr, p.stderr)
    return 7


def check_losses(exe, folder):
    """Losses are relative in stages 1 and 2; with "squared" they are the squares of the papers."""
    weight = "vit.encoder.layer.0.attention.attention.query.weight"
    with open(folder + "/hyper.json", "w") as f:
        json.dump({"stages": {"s": {"stage": 2, "attention": "linear:elu1", "trainable": [weight], "decay": [],
                                    "lr": {"base": 1e-4}}}}, f)
    hyper = ["--stage", "s", "--hyper", "hyper.json", "--tensors", "batches.safetensors", "--threads", "1"]
    for args, usual, other in ((["--stage", "1", "--data", "plain", *FEW], "relative", "squared"),
                               (["--stage", "2", "--data", "plain", *FEW], "relative", "squared"),
                               (hyper, "squared", "relative")):
        first = losses(exe, folder, VIT, *args)
        want(first == losses(exe, folder, VIT, *args, "--loss", usual), "%s: not %s" % (args, usual))
        want(first[0] != losses(exe, folder, VIT, *args, "--loss", other)[0], "%s: --loss does nothing" % args)
    return 3


def check_compute(exe, folder):
    """Products in bfloat16 learn like float32, and resume to the same bits; auto is one of the two."""
    for stage in "1", "2":
        args = [DINO, "--stage", stage, "--data", "plain", "--size", "28", "--batch", "6", "--threads", "2", "--crop",
                "centre", "--jitter", "0", "--warmup", "0", "--lr-schedule", "constant", "--lr", "1e-3"]
        runs = {}
        for compute in "f32", "bf16", "auto":
            runs[compute] = json.loads(
                adapt(exe, folder, *args, "--steps", "12", "--compute", compute, "-o", compute, "--json").stdout)
            want(runs[compute]["loss"] < runs[compute]["first_loss"], "stage %s %s: %s" % (stage, compute, runs))
        f32, bf16 = (runs[c]["loss"] for c in ("f32", "bf16"))
        want(f32 != bf16 and abs(bf16 - f32) < 0.02 * f32, "stage %s: losses %s" % (stage, (f32, bf16)))
        want([runs[c]["compute"] for c in ("f32", "bf16")] == ["f32", "bf16"], "compute is not told")
        want(runs["auto"]["loss"] == runs[runs["auto"]["compute"]]["loss"], "auto is neither")
        adapt(exe, folder, *args, "--steps", "5", "--compute", "bf16", "-o", "cut")
        args += ["--steps", "12", "--resume", "-o", "cut"]
        said = adapt(exe, folder, *args, code=7).stderr
        want('another compute: "bf16", but it is "f32"' in said, said)
        adapt(exe, folder, *args, "--compute", "bf16")
        same_result(folder, "cut", "bf16")
        for out in "cut", *runs:
            shutil.rmtree(os.path.join(folder, out))
    return 2


def check_teacher_memory(exe, folder):
    """The softmax model runs only once for repeated pixels, without an effect on the result."""
    args = [VIT, "--stage", "2", "--data", "plain", "--size", "32", "--batch", "3", "--epochs", "3", "--threads", "1",
            "--crop", "centre", "--jitter", "0", "-o", "out", "--json"]
    runs = []
    for more in ([], ["--teacher-memory", "0"], ["--flip", "0.5"], ["--flip", "0.5", "--teacher-memory", "0"],
                 ["--jitter", "0.1"], ["--memory-limit", "900"], ["--memory-limit", "900", "--teacher-memory", "1"]):
        shutil.rmtree(folder + "/out", ignore_errors=True)
        runs.append(json.loads(adapt(exe, folder, *args, *more).stdout))
        runs[-1]["lines"] = [{k: v for k, v in line.items() if k != "pictures_per_second"} for line in log(folder)]
    recalled = [run["recalled"] for run in runs]
    want(recalled[0] == recalled[6] == 2 * PICTURES and 0 < recalled[2] < 2 * PICTURES and
         recalled[1] == recalled[3] == recalled[4] == recalled[5] == 0, "recalled: %s" % recalled)
    want([run["promised_bytes"]["teacher"] > 0 for run in runs] == [bool(n) for n in recalled], "bytes are not told")
    want(runs[0]["lines"] == runs[1]["lines"] and runs[2]["lines"] == runs[3]["lines"], "kept features show")
    return 7


def check_foveated(exe, folder):
    """Foveated attention, alone and with other attentions, learns in every stage, and the saved model has it."""
    for stage, attention in (("1", "foveated:1+softmax@0"), ("2", "foveated:1+linear@2"), ("3", "foveated:1")):
        shutil.rmtree(folder + "/out", ignore_errors=True)
        p = adapt(exe, folder, DINO, "--stage", stage, "--data", "classes", "--size", "182x28", "--batch", "6",
                  "--crop", "centre", "--jitter", "0", "--threads", "2", "--steps", "6", "--warmup", "0",
                  "--attention", attention, "-o", "out", "--json")
        losses = [line["loss"] for line in log(folder)]
        want(losses[-1] < 0.95 * losses[0], "stage %s, %s: losses %s" % (stage, attention, losses))
        want(json.loads(p.stdout)["attention"] == attention, p.stdout)
    return 3


def check_whole(exe, folder):
    """Branch and gate are added, learn in stages 1 and 2, and later stages keep them without the option."""
    parts = ("attn.dwc.weight", "attn.dwc.bias", "attn.gate.weight", "attn.gate.bias")
    shutil.rmtree(folder + "/branched", ignore_errors=True)
    few = ["--data", "plain", *FEW, "--crop", "centre", "--jitter", "0", "--warmup", "0"]
    adapt(exe, folder, VIT, "--stage", "1", "--attention", "pola+focused@1", "--whole", *few, "-o", "branched")
    first = load(folder + "/branched/model.safetensors")
    for block, n in ((0, 4), (1, 2), (2, 4)):
        have = [p for p in parts if "vit.encoder.layer.%d.%s" % (block, p) in first]
        want(have == list(parts[:n]), "block %d has %s" % (block, have))
    want(any(first["vit.encoder.layer.0.attn.dwc.weight"]), "filters have not learned")
    shutil.rmtree(folder + "/out", ignore_errors=True)
    adapt(exe, folder, "branched", "--stage", "2", "--teacher", VIT, *few, "-o", "out")
    second = load(folder + "/out/model.safetensors")
    want(set(second) == set(first), "stage 2 has other tensors")
    want(all(second[n] != first[n] for n in first if ".attn." in n), "stage 2 does not train all of them")
    p = adapt(exe, folder, VIT, "--stage", "1", "--attention", "mala", "--whole", *few, "-o", "refused", code=7)
    want("full module" in p.stderr, p.stderr)
    return 2


def check_form(exe, folder):
    """Maps, constants and heads of linear attention are learned, written, and kept by later stages; a stopped
    training resumes to the same bits, and only with the same form."""
    few = ["--data", "plain", *FEW[:4], "--threads", "1", "--crop", "centre", "--jitter", "0", "--warmup", "0"]
    form = ["--nala-lambda", "2.5", "--q-scale", "0.5", "--linear-heads", "4"]
    first = ["--stage", "1", "--attention", "hedgehog+nala@1", *form, *few]
    for name in ("formed", "stopped", "out"):
        shutil.rmtree(os.path.join(folder, name), ignore_errors=True)
    adapt(exe, folder, VIT, *first, "--steps", "4", "-o", "formed")
    adapt(exe, folder, VIT, *first, "--steps", "2", "-o", "stopped")
    p = adapt(exe, folder, VIT, *first, "--steps", "4", "-o", "stopped", "--resume", "--nala-lambda", "3", code=7)
    for value in ("2.5", "3.0"):
        whole = '{"linear_heads": 4, "nala_lambda": %s, "q_scale": 0.5}' % value
        want(whole in p.stderr, p.stderr)
    adapt(exe, folder, VIT, *first, "--steps", "4", "-o", "stopped", "--resume")
    tensors = load(folder + "/formed/model.safetensors")
    want(load(folder + "/stopped/model.safetensors") == tensors, "a stop shows")
    own = json.load(open(folder + "/formed/config.json"))["fovea"]
    want(own == {"attention": "hedgehog+nala@1", "nala_lambda": 2.5, "q_scale": 0.5, "linear_heads": 4}, own)
    maps = [n for n in tensors if ".attn.map_" in n]
    want(len(maps) == 4, maps)
    for name in maps:
        values = struct.unpack("<%df" % (len(tensors[name]) // 4), tensors[name])
        side = int((len(values) / 4) ** 0.5)
        unit = [float(i % (side * side) % (side + 1) == 0) for i in range(len(values))]
        moved = max(abs(x - y) for x, y in zip(values, unit))
        want(0 < moved < 0.1, "%s: %g from where it began" % (name, moved))
    adapt(exe, folder, "formed", "--stage", "2", "--teacher", VIT, *few, "--steps", "2", "-o", "out")
    second = load(folder + "/out/model.safetensors")
    want(all(second[n] != tensors[n] for n in maps), "stage 2 does not train the maps")
    want(json.load(open(folder + "/out/config.json"))["fovea"] == own, "stage 2 changes the form")
    for wrong, code in (["--nala-lambda", "1"], 1), (["--pola-alpha", "17"], 1), (["--linear-heads", "7"], 7), \
            (["--q-scale", "-1"], 1):
        p = adapt(exe, folder, VIT, "--stage", "1", "--attention", "nala", *few, "--steps", "1", *wrong, "-o",
                  "refused", code=code)
        want(wrong[0][2:6] in p.stderr, p.stderr)
    return 4


def check_outputs(exe, folder):
    """The files in OUT after each stage; the model runs."""
    stages = [("1", [VIT, "--data", "plain"]), ("2", [VIT, "--data", "classes", "--lr-schedule", "cosine"]),
              ("3", [VIT, "--tensors", "batches.safetensors", "--attention", "mala"]),
              ("3", ["segmenter", "--data", "beside", "--ema", "0.9", "--clip", "1"])]
    for stage, args in stages:
        shutil.rmtree(folder + "/out", ignore_errors=True)
        few = FEW[-4:] if "--tensors" in args else FEW
        p = adapt(exe, folder, *args, "--stage", stage, *few, "-o", "out", "--save-grad", "--json")
        result, lines, what = json.loads(p.stdout), log(folder), "stage %s %s" % (stage, args)
        want("memory" in p.stderr and result["promised_bytes"]["total"] > 0, what + ": no promise")
        want([line["step"] for line in lines] == [1, 2, 3], what + ": steps " + str(lines))
        want(all(line["loss"] > 0 and line["grad_norm"] > 0 and line["lr"] > 0 and
                 line["pictures"] == 2 and line["pictures_per_second"] > 0 for line in lines),
             what + ": log " + str(lines))
        if stage == "1":
            want(all(abs(sum(line["loss_layers"]) - line["loss"]) < 1e-6 * line["loss"] and
                     len(line["loss_layers"]) == 3 for line in lines), what + ": losses of layers")
        gradient, weights = load(folder + "/out/grad.safetensors"), load(folder + "/out/model.safetensors")
        want(gradient and all(name[:5] == "grad." and len(g) == len(weights[name[5:]])
                              for name, g in gradient.items()), what + ": gradients")
        if result["attention"] != "softmax":
            for after, word in (("1", "stage 1"), ("2", "--teacher")):
                p = adapt(exe, folder, "out", "--stage", after, "--data", "plain", *FEW, "-o", "more", code=1)
                want(word in p.stderr, what + ": " + p.stderr)
            shutil.rmtree(folder + "/more", ignore_errors=True)
            adapt(exe, folder, "out", "--stage", "2", "--teacher", VIT, "--data", "plain", *FEW, "-o", "more")
        config = json.load(open(folder + "/out/config.json"))
        want(config["fovea"]["attention"] == result["attention"], what + ": config.json")
        p = subprocess.run([exe, "run", "out", "plain/0.png", "--threads", "1"], cwd=folder,
                           capture_output=True, text=True)
        want(p.returncode == 0, what + ": fovea run: " + p.stderr)
    return len(stages)


def check_heads(exe, folder):
    """A head is added to a model without one: its classes have the folders' names, or the masks' numbers."""
    cases = [(VIT, "classes", []), (DINO, "classes", []), (DINO, "packed.safetensors", []),
             (DINO, "beside", ["--classes", "5"])]
    for model, data, args in cases:
        shutil.rmtree(folder + "/out", ignore_errors=True)
        adapt(exe, folder, model, "--stage", "3", "--data", data, *FEW, *args, "-o", "out", "--trainable",
              "head", "--dtype", "f16")
        p = subprocess.run([exe, "run", "out", "plain/0.png", "--threads", "1", "--json",
                            *([] if data == "classes" else ["--labels", "x.png"])],
                           cwd=folder, capture_output=True, text=True)
        want(p.returncode == 0, "%s on %s: fovea run: %s" % (model, data, p.stderr))
        result = json.loads(p.stdout)
        if data == "classes":
            names = sorted(c["label"] for c in result["top"])
            want(names == ["a", "b", "c"], "%s: labels %s" % (model, names))
        before, after = load(model + "/model.safetensors"), load(folder + "/out/model.safetensors")
        want(any(name not in before for name in after) or model == VIT, model + ": no new tensor")
    # Names that the model's head knows keep their numbers.
    shutil.copytree(folder + "/classes", folder + "/known")
    for old, new in zip("abc", (7, 2, 5)):
        os.rename("%s/known/%s" % (folder, old), "%s/known/LABEL_%d" % (folder, new))
    with_names = losses(exe, folder, VIT, "--stage", "3", *FEW, "--data", "known")
    config = json.load(open(folder + "/out/config.json"))
    want(len(config["id2label"]) == 10, "a head of 10 became " + str(config["id2label"]))
    # The folders sort as 2, 5, 7; packed in that order the labels are the same numbers.
    order = [2, 3, 4, 5, 0, 1]
    raw = load(folder + "/bare.safetensors")["images"]
    size = 3 * SIDE * SIDE
    save(folder + "/known.safetensors", {
        "images": ("U8", [PICTURES, SIDE, SIDE, 3], b"".join(raw[i * size:(i + 1) * size] for i in order)),
        "labels": ("I64", [PICTURES], struct.pack("<6q", 2, 2, 5, 5, 7, 7))})
    packed = losses(exe, folder, VIT, "--stage", "3", *FEW, "--data", "known.safetensors", "--classes", "10")
    want(with_names == packed, "by name %s, by number %s" % (with_names, packed))
    return len(cases) + 1


def check_frozen(exe, folder):
    """A head on features of families without gradients learns to distinguish two kinds of pictures, or of pixels,
    and the written model runs."""
    rng = random.Random(2)
    for where in ("kinds/dark", "kinds/light", "halves"):
        os.makedirs(folder + "/" + where)
    for i in range(8):
        dark, light = ([bytes(rng.randrange(40) + way for _ in range(3 * SIDE)) for _ in range(SIDE)]
                       for way in (0, 200))
        png("%s/kinds/dark/%d.png" % (folder, i), SIDE, SIDE, 2, dark)
        png("%s/kinds/light/%d.png" % (folder, i), SIDE, SIDE, 2, light)
        png("%s/halves/%d.png" % (folder, i), SIDE, SIDE, 2, [*dark[:SIDE // 2], *light[SIDE // 2:]])
        png("%s/halves/%d_mask.png" % (folder, i), SIDE, SIDE, 0,
            [bytes([y >= SIDE // 2]) * SIDE for y in range(SIDE)])
    usual = ["--stage", "3", "--trainable", "head", "--size", "64", "--crop", "centre", "--batch", "4",
             "--steps", "16", "--lr", "0.03"]
    cases = [("synthetic:nalaformer-xt", "kinds", None), ("synthetic:nalaformer-xt", "halves", None),
             ("synthetic:mavit-t", "kinds", None), ("synthetic:pola-pvt-t", "halves", "linear"),
             ("synthetic:pola-swin-t", "kinds", None), (SWIN, "kinds", None), (SWIN, "halves", "fpn"),
             ("synthetic:mavit-t", "halves", "fpn"),
             (DINO, "halves", "dpt-lite")]
    for name, data, head in cases:
        masked = data == "halves"
        args = ["--classes", "2"] if masked else []
        if head:
            args += ["--head", head]
        if head not in (None, "linear"):
            args += ["--lr", "0.003"]
        curve = losses(exe, folder, name, *usual, "--data", data, *args)
        want(curve[-1] < 0.5 * curve[0], "%s on %s: losses %s" % (name, data, curve))
        p = subprocess.run([exe, "run", "out", "kinds/light/0.png", "--size", "64", "--json",
                            *(["--labels", "x.png"] if masked else [])],
                           cwd=folder, capture_output=True, text=True)
        want(p.returncode == 0, "%s on %s: fovea run: %s" % (name, data, p.stderr))
        top = "light" if masked else json.loads(p.stdout)["top"][0]["label"]
        want(top == "light", "%s takes a light picture for %s" % (name, top))
    return len(cases)


def check_held_out(exe, folder):
    """Stage 3 with held-out labelled pictures: the metrics are those of `eval`, the best step is kept, also after a
    stop."""
    usual = ["synthetic:nalaformer-xt", "--stage", "3", "--trainable", "head", "--size", "64", "--batch", "4",
             "--lr", "0.03", "--val-every", "3", "--json"]
    segments = ["miou", "pixel_accuracy"]
    for data, args, keys, task in (("kinds", [], ["top1"], "classification"),
                                   ("halves", ["--classes", "2"], segments, "segmentation"),
                                   ("halves", ["--classes", "2", "--head", "fpn", "--lr", "0.003"], segments,
                                    "segmentation")):
        shutil.copytree("%s/%s" % (folder, data), folder + "/held")
        for path, _, names in os.walk(folder + "/held"):  # copies would be omitted from the training
            for name in names:
                open(os.path.join(path, name), "ab").write(b"x")
        cut = [*usual, *args, "--data", data, "--val", "held"]
        shutil.rmtree(folder + "/out", ignore_errors=True)
        p = adapt(exe, folder, *cut, "--steps", "10", "-o", "out", "--threads", "1")
        lines = [json.loads(line) for line in open(folder + "/out/validation.jsonl")]
        want([line["step"] for line in lines] == [0, 3, 6, 9, 10], "judged at %s" % lines)
        best = max(lines, key=lambda line: (line["rank"], line["step"]))
        told = json.loads(p.stdout)["validation"]
        want(told.keys() == best.keys() and all(abs(told[k] - best[k]) < 1e-6 for k in best),
             "best is %s, told %s" % (best, told))
        want(all(0 <= line[key] <= 1 for line in lines for key in keys), str(lines))
        want(lines[-1]["rank"] > max(0.8, lines[0]["rank"]), "nothing learned: %s" % lines)
        e = subprocess.run([exe, "eval", "out", "--data", "held", "--size", "64", "--json"], cwd=folder,
                           capture_output=True, text=True)
        want(e.returncode == 0, "eval: " + e.stderr)
        result = json.loads(e.stdout)["metrics"]
        # Here masks are compared at the size of the training, there at their own size.
        want(abs(result[keys[0]] - best["rank"]) < (1e-9 if task == "classification" else 0.05),
             "%s: eval %s, adapt %s" % (task, result, best))
        adapt(exe, folder, *cut, "--steps", "10", "-o", "three", "--threads", "3")
        same_result(folder, "out", "three")
        adapt(exe, folder, *cut, "--steps", "10", "--lr-schedule", "constant", "-o", "whole")
        adapt(exe, folder, *cut, "--steps", "4", "--lr-schedule", "constant", "-o", "parts", "--every", "1")
        adapt(exe, folder, *cut, "--steps", "10", "--lr-schedule", "constant", "-o", "parts", "--resume")
        steps = {name: [json.loads(line)["rank"] for line in open("%s/%s/validation.jsonl" % (folder, name))
                        if json.loads(line)["step"] != 4] for name in ("whole", "parts")}
        want(steps["whole"] == steps["parts"], "a stop shows: %s" % steps)
        for name in ("held", "three", "whole", "parts"):
            shutil.rmtree("%s/%s" % (folder, name))
    os.makedirs(folder + "/held/grey")
    shutil.copy(folder + "/kinds/dark/0.png", folder + "/held/grey")
    for args, word in ((["--data", "kinds", "--val", "held"], "grey"),
                       (["--data", "kinds", "--val", "plain"], "no classes"),
                       (["--data", "halves", "--classes", "2", "--val", "kinds"], "no masks")):
        p = adapt(exe, folder, *usual, *args, "--steps", "1", "-o", "refused", code=7)
        want(word in p.stderr, "wanted %s, got %s" % (word, p.stderr))
    return 12


def check_depth(exe, folder):
    """Dark pixels are far: a head learns this, held-out pictures confirm it, `eval` agrees, and the model runs."""
    rng = random.Random(5)
    for where, n in (("rooms", 8), ("others", 2)):
        for kind in ("images", "depth"):
            os.makedirs("%s/%s/%s" % (folder, where, kind))
        for i in range(n):
            edge = rng.randrange(10, SIDE - 10)
            rows = [bytes((rng.randrange(40) + (200 if x >= edge else 0)) for x in range(SIDE) for _ in range(3))
                    for _ in range(SIDE)]
            far = [b"".join(struct.pack(">H", 0 if y < 2 else 1000 if x >= edge else 4000) for x in range(SIDE))
                   for y in range(SIDE)]
            png("%s/%s/images/%d.png" % (folder, where, i), SIDE, SIDE, 2, rows)
            png("%s/%s/depth/%d.png" % (folder, where, i), SIDE, SIDE, 0, far, bits=16)
    usual = [DINO, "--stage", "3", "--data", "rooms", "--trainable", "head", "--size", "56", "--batch", "4", "--lr",
             "0.0003", "--max-depth", "8", "--json"]
    p = adapt(exe, folder, *usual, "--steps", "24", "--val", "others", "--val-every", "8", "-o", "deep", "--flip",
              "0.5")
    lines = [json.loads(line) for line in open(folder + "/deep/validation.jsonl")]
    want(lines[-1]["abs_rel"] < 0.6 * lines[0]["abs_rel"], "nothing learned: %s" % lines)
    want(all(line["rank"] == -line["abs_rel"] and 0 <= line["delta1"] <= 1 for line in lines), str(lines))
    best = json.loads(p.stdout)["validation"]
    want(abs(best["abs_rel"] - min(line["abs_rel"] for line in lines)) < 1e-6, "best is not kept: %s" % best)
    e = subprocess.run([exe, "eval", "deep", "--data", "others", "--size", "56", "--json"], cwd=folder,
                       capture_output=True, text=True)
    want(e.returncode == 0, "eval: " + e.stderr)
    result = json.loads(e.stdout)["metrics"]
    want(abs(result["abs_rel"] - best["abs_rel"]) < 0.05, "eval %s, adapt %s" % (result, best))
    r = subprocess.run([exe, "run", "deep", "others/images/0.png", "--size", "56", "--depth", "d.png"], cwd=folder,
                       capture_output=True, text=True)
    want(r.returncode == 0, "fovea run --depth: " + r.stderr)
    config = json.load(open(folder + "/deep/config.json"))["fovea"]["dpt_head"]
    want(config["max_depth"] == 8 and config["out_indices"][-1] > config["out_indices"][0], str(config))
    cases = (([VIT, "--stage", "3", "--data", "kinds", "--task", "depth"], 7, "no depths"),
             ([DINO, "--stage", "3", "--data", "rooms", "--head", "linear"], 7, "DPT-lite"),
             ([DINO, "--stage", "3", "--data", "kinds", "--max-depth", "3"], 1, "--task depth"),
             ([*usual, "--val", "kinds"], 7, "no depths"))
    for args, code, word in cases:
        p = adapt(exe, folder, *args, "--steps", "1", "-o", "refused", code=code)
        want(word in p.stderr, "wanted %s, got %s" % (word, p.stderr))
    return 5 + len(cases)


def check_forms(exe, folder):
    """The losses do not depend on the form of the pictures."""
    three = ["--stage", "3", *FEW, "--flip", "0.5", "--jitter", "0.3"]
    forms = [(["beside", "apart", "packed.safetensors"], ["segmenter"]),
             (["classes", "labelled.safetensors"], [VIT, "--classes", "10"])]
    for names, args in forms:
        first = losses(exe, folder, *three, *args, "--data", names[0])
        want(len(set(first)) == len(first), "the same loss at every step")
        for name in names[1:]:
            other = losses(exe, folder, *three, *args, "--data", name)
            want(first == other, "%s gives %s, %s gives %s" % (names[0], first, name, other))
        other = losses(exe, folder, *three, *args, "--data", names[0], "--seed", "7", "--crop", "centre")
        want(first != other, "--seed and --crop change nothing")
    few = losses(exe, folder, VIT, "--stage", "2", "--data", "plain", "--size", "32", "--batch", "4")
    want(len(few) == 2, "an epoch of 6 pictures, 4 at a time: %d steps" % len(few))
    one = losses(exe, folder, VIT, "--stage", "3", "--tensors", "batches.safetensors")
    want(len(one) == 2 and one[0] != one[1], "batches give " + str(one))
    return 4


def check_patience(exe, folder):
    """A tiny learning rate does not change the loss, which ends the run; a resumed run does no further steps."""
    args = [VIT, "--stage", "2", "--data", "plain", *FEW, "--steps", "50", "--batch", "6", "--lr", "1e-12",
            "--crop", "centre", "--jitter", "0", "--patience", "4", "--every", "1", "--json", "-o", "flat"]
    for more in ([], ["--resume"]):
        result = json.loads(adapt(exe, folder, *args, *more).stdout)
        want(result["flat"] and result["steps"] < 50, "--patience 4: " + str(result))
        want(result["steps"] == len(log(folder, "flat")), "the log has %d lines" % len(log(folder, "flat")))
        steps = result["steps"] if not more else steps
    want(steps == result["steps"], "%d steps, resumed %d" % (steps, result["steps"]))
    return 1


def check_broken(exe, folder):
    """A broken picture is reported and replaced by another one, which is the same in every run."""
    args = [VIT, "--stage", "2", *FEW, "--batch", "6", "--data", "broken", "-o"]
    runs = []
    for name in ("broken1", "broken2"):
        p = adapt(exe, folder, *args, name)
        want("broken/3.png" in p.stderr and "broken/4.png is used instead" in p.stderr, p.stderr)
        runs.append([line["loss"] for line in log(folder, name)])
    want(runs[0] == runs[1], "broken pictures: %s and %s" % tuple(runs))
    return 1


def long_run(steps):
    return [DINO, "--stage", "2", "--data", "plain", "--size", "28", "--batch", "2", "--threads", "1",
            "--steps", str(steps), "--every", "3", "--jitter", "0.2", "--flip", "0.5", "--ema", "0.9"]


def same_result(folder, one, other):
    for name in ("model.safetensors", "checkpoint"):
        a, b = (open(os.path.join(folder, d, name), "rb").read() for d in (one, other))
        want(a == b, "%s/%s is not %s/%s" % (one, name, other, name))
    a, b = ([{k: v for k, v in line.items() if k != "pictures_per_second"} for line in log(folder, d)]
            for d in (one, other))
    want(a == b, "the logs of %s and %s differ" % (one, other))
    return 1


def check_resume(exe, folder):
    """An interrupted run ends after its step; it cannot be resumed with options that change the result."""
    args = long_run(12)
    adapt(exe, folder, *args, "-o", "whole")
    p = subprocess.Popen([exe, "adapt", *long_run(100000), "-o", "cut"], cwd=folder,
                         stderr=subprocess.PIPE, text=True)
    while p.poll() is None and not (os.path.exists(folder + "/cut/log.jsonl") and log(folder, "cut")):
        time.sleep(0.01)
    p.send_signal(signal.SIGINT)
    said = p.communicate()[1]
    want(p.returncode == 130 and "--resume" in said, "SIGINT: exit %d: %s" % (p.returncode, said))
    want("finishing this step; interrupt again to stop at once" in said, "SIGINT: " + said)
    want("--resume" in adapt(exe, folder, *args, "-o", "cut", code=1).stderr, "overwrites a checkpoint")
    for change in (["--batch", "3"], ["--flip", "0.25"], ["--seed", "4"],
                   ["--data", "packed.safetensors", "--crop", "centre"]):
        said = adapt(exe, folder, *long_run(100000), *change, "-o", "cut", "--resume", code=7).stderr
        want("checkpoint" in said, said)
    adapt(exe, folder, *long_run(100000), "--lr", "0.5", "-o", "cut", "--resume", code=7)
    said = adapt(exe, folder, *long_run(100000), "--loss", "squared", "-o", "cut", "--resume", code=7).stderr
    want("another loss" in said, said)
    shutil.rmtree(folder + "/cut")
    return 6


def check_kills(exe, folder, kills):
    """The training is killed at random moments, the last of which may be after its end."""
    rng = random.Random(2)
    args = long_run(60)
    begin = time.monotonic()
    adapt(exe, folder, *args, "-o", "never")
    whole = time.monotonic() - begin
    done = early = 0
    while done < kills:
        shutil.rmtree(folder + "/often", ignore_errors=True)
        while done < kills:
            p = subprocess.Popen([exe, "adapt", *args, "-o", "often", "--resume"], cwd=folder,
                                 stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
            time.sleep(rng.uniform(0, 0.6 * whole))
            p.kill()
            said = p.communicate()[1]
            if p.returncode == 0:
                break
            want(p.returncode == -signal.SIGKILL, "a resumed run: exit %d: %s" % (p.returncode, said))
            done += 1
            early += not os.path.exists(folder + "/often/checkpoint")
        adapt(exe, folder, *args, "-o", "often", "--resume")
        same_result(folder, "never", "often")
        want(sorted(os.listdir(folder + "/often")) == sorted(os.listdir(folder + "/never")),
             "kills leave " + " ".join(os.listdir(folder + "/often")))
    print("%d kills of a run of %.1f s, %d before its first checkpoint" % (done, whole, early))
    return 1


def check_processes(exe, folder, steps):
    """Two processes with half of the batch each."""
    mpirun = shutil.which("mpirun")
    library = os.path.join(os.path.dirname(os.path.realpath(exe)), "fovea_mpi.so")
    if not mpirun or not os.path.exists(library):
        return 0
    launch = [mpirun, "--oversubscribe", "--bind-to", "none", "-np"]
    env = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    args = [VIT, "--stage", "2", "--data", "plain", "--size", "32", "--steps", str(steps), "--threads", "1",
            "--lr", "1e-3", "--lr-schedule", "constant"]
    adapt(exe, folder, *args, "--batch", "4", "-o", "one")
    adapt(exe, folder, *args, "--batch", "2", "-o", "two", launch=[*launch, "2"], env=env)
    adapt(exe, folder, *args, "--batch", "4", "-o", "alone", launch=[*launch, "1"], env=env)
    one, two, alone = ([line["loss"] for line in log(folder, d)] for d in ("one", "two", "alone"))
    worst = max(abs(a - b) / a for a, b in zip(one, two))
    print("two processes and one: losses differ by %.1e at most" % worst)
    want(len(one) == len(two) == steps and worst <= 1e-5, "losses %s of one, %s of two" % (one, two))
    want(one == alone and open(folder + "/one/model.safetensors", "rb").read() ==
         open(folder + "/alone/model.safetensors", "rb").read(), "mpirun -np 1 is not as without")
    # Both end after some steps and are resumed together.
    for count in ("4", str(steps)):
        adapt(exe, folder, *args, "--batch", "2", "--steps", count, "-o", "again", "--resume",
              launch=[*launch, "2"], env=env)
    same_result(folder, "two", "again")
    # A failing process ends the others.
    p = adapt(exe, folder, *args, "--batch", "2", "-o", "two", launch=[*launch, "2"], env=env, code=1)
    want("--resume" in p.stderr, p.stderr)
    return 4


def main(argv):
    exe, long = os.path.abspath(argv[0]), "--long" in argv
    trains_long = () if "--brief" in argv else ((check_frozen,), (check_held_out,), (check_depth,))
    passed = failed = skipped = 0
    with tempfile.TemporaryDirectory() as folder:
        make_data(folder)
        checks = [(check_kills, 50), (check_processes, 10)] if long else [
            (check_refusals,), (check_failing_log,), (check_overwriting,), (check_defaults,), (check_losses,),
            (check_compute,), (check_teacher_memory,), (check_foveated,), (check_whole,), (check_form,),
            (check_outputs,), (check_heads,), *trains_long, (check_forms,),
            (check_broken,), (check_patience,), (check_resume,), (check_kills, 3)]
        for check, *args in checks:
            try:
                n = check(exe, folder, *args)
                passed += n
                if n == 0:
                    skipped += 1
                    print("SKIP %s: no mpirun, or built without MPI" % check.__name__)
            except Failed as e:
                failed += 1
                print("FAIL %s: %s" % (check.__name__, e), flush=True)
    print("%d passed, %d failed, %d skipped" % (passed, failed, skipped))
    return 1 if failed else 77 if passed == 0 else 0


if __name__ == "__main__":
    if len(sys.argv) < 2:
        raise SystemExit(__doc__)
    sys.exit(main(sys.argv[1:]))
