#!/usr/bin/env python3
"""test_segmentation.py: linear segmentation heads: the tensors that they are read from, logits, pictures of classes.

    test_segmentation.py path/to/fovea

A model whose features are the colours of its patches must label coloured stripes pixel by pixel. Heads of every
form on golden models must give the product of their weights and the program's own token features. A head that is not
a linear function of the model's features must be refused with a message that names it.
"""
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import zlib

import numpy as np

import test_linearised as vit

SHARED = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../shared/golden/models")
MODELS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data", "golden", "models")
CLASSES = 5
COLOURS = np.array([[200, 20, 30], [10, 210, 40], [25, 35, 220]], np.uint8)


def run(exe, folder, *options):
    return subprocess.run([exe, "run", "--compute", "f32", *options], capture_output=True, text=True, cwd=folder)


# ---- pictures ----

def write_ppm(path, pixels):
    with open(path, "wb") as f:
        f.write(b"P6 %d %d 255\n" % (pixels.shape[1], pixels.shape[0]) + pixels.tobytes())


def read_png(path):
    """(values, palette): RGB rows, or indices and their colours."""
    blob, at, data, palette = open(path, "rb").read(), 8, b"", None
    while at < len(blob):
        size, kind = struct.unpack(">I4s", blob[at:at + 8])
        chunk = blob[at + 8:at + 8 + size]
        if kind == b"IHDR":
            width, height, depth, colour = struct.unpack(">IIBB", chunk[:10])
        if kind == b"PLTE":
            palette = np.frombuffer(chunk, np.uint8).reshape(-1, 3)
        data += chunk if kind == b"IDAT" else b""
        at += size + 12
    unit = 3 if colour == 2 else 1
    row = (width * unit * depth + 7) // 8
    lines = np.frombuffer(zlib.decompress(data), np.uint8).reshape(height, row + 1)
    out = np.zeros((height, row), np.int64)
    for y, line in enumerate(lines):
        for x in range(row):
            left = out[y, x - unit] if x >= unit else 0
            up = out[y - 1, x] if y else 0
            corner = out[y - 1, x - unit] if y and x >= unit else 0
            p = left + up - corner
            paeth = min((abs(p - left), 0, left), (abs(p - up), 1, up), (abs(p - corner), 2, corner))
            add = [0, left, up, (left + up) // 2, paeth[2]][line[0]]
            out[y, x] = (int(line[1 + x]) + int(add)) % 256
    if colour == 2:
        return out.reshape(height, width, 3), None
    bits = np.unpackbits(out.astype(np.uint8), axis=1)[:, :width * depth].reshape(height, width, depth)
    return bits @ (1 << np.arange(depth)[::-1]), palette


def resized(logits, width, height):
    """Resizes (h, w, classes) to (height, width, classes) like torch's bilinear, align_corners False."""
    def axis(values, n):
        at = np.maximum(0, (np.arange(n) + 0.5) * len(values) / n - 0.5)
        low = np.minimum(at.astype(int), len(values) - 1)
        high = np.minimum(low + 1, len(values) - 1)
        part = (at - low)[:, None, None]
        return values[low] * (1 - part) + values[high] * part
    rows = axis(logits.astype(np.float64), height)
    return axis(rows.transpose(1, 0, 2), width).transpose(1, 0, 2)


def voc(i):
    bits = [(i >> b) & 1 for b in range(9)]
    return [sum(bits[3 * k + c] << (7 - k) for k in range(3)) for c in range(3)]


# ---- a model that sees colours ----

def colour_model(folder):
    rng = np.random.default_rng(3)
    t = {name: np.zeros_like(a) for name, a in vit.checkpoint(rng).items()}
    w = t["embeddings.patch_embeddings.projection.weight"]
    for c in range(3):
        w[c, c] = 1 / w[0, 0].size
    t["layernorm.weight"] += 1
    vit.save(folder + "/model.safetensors", t)
    head = np.zeros((3, vit.WIDTH), np.float32)
    head[[0, 1, 2], [0, 1, 2]] = 1
    vit.save(folder + "/segmentation.safetensors", {"segmentation_head.weight": head})
    json.dump(dict(vit.CONFIG, id2label={"0": "red", "1": "green", "2": "blue"}),
              open(folder + "/config.json", "w"))
    json.dump({"do_resize": False, "do_center_crop": False, "image_mean": [0.5] * 3,
               "image_std": [0.5] * 3}, open(folder + "/preprocessor_config.json", "w"))


def stripes(order, width, height):
    out = np.zeros((height, width, 3), np.uint8)
    want = np.zeros((height, width), int)
    for i, c in enumerate(order):
        span = slice(i * width // len(order), (i + 1) * width // len(order))
        out[:, span], want[:, span] = COLOURS[c], c
    return out, want


def known_answer(exe, folder):
    colour_model(folder)
    pictures = {"a": stripes([0, 1, 2], 36, 20), "b": stripes([2, 0, 1, 0], 64, 12)}
    for name, (pixels, _) in pictures.items():
        write_ppm(folder + "/%s.ppm" % name, pixels)
    p = run(exe, folder, folder, "a.ppm", "b.ppm", "--labels", "l.png", "--overlay", "o.png", "--json")
    if p.returncode:
        return p.stderr
    told = {os.path.basename(r["input"])[0]: r for r in map(json.loads, p.stdout.splitlines())}
    for name, (pixels, want) in pictures.items():
        got, palette = read_png(folder + "/l-%s.png" % name)
        if got.shape != want.shape or (got != want).any():
            return "picture %s: %d pixels have another class" % (name, (got != want).sum())
        if [list(c) for c in palette[:3]] != [voc(i) for i in range(3)]:
            return "palette %s" % palette
        over, _ = read_png(folder + "/o-%s.png" % name)
        mixed = (pixels.astype(int) + np.array([voc(i) for i in range(3)])[want] + 1) // 2
        if (over != mixed).any():
            return "picture %s: overlay off by %d" % (name, abs(over - mixed).max())
        shares = {s["class"]: s["share"] for s in told[name]["segmentation"]}
        for c in range(3):
            if abs(shares.get(c, 0) - (want == c).mean()) > 1e-6:
                return "shares %s" % shares
        if any(s["label"] != ("red", "green", "blue")[s["class"]] for s in told[name]["segmentation"]):
            return "labels %s" % told[name]["segmentation"]
    p = run(exe, folder, folder, "a.ppm", "--size", "72x40", "--labels", "big.png", "--overlay",
            "bigo.png")
    if p.returncode:
        return p.stderr
    for name in ("big.png", "bigo.png"):
        got, _ = read_png(folder + "/" + name)
        if got.shape[:2] != (40, 72):
            return "%s is %s" % (name, got.shape)
    if "red" not in p.stdout:
        return "no labels in %r" % p.stdout
    return None


def known_tensor(exe, folder):
    """Normalised planes, two in one file."""
    colour_model(folder)
    pixels, want = stripes([1, 0], 16, 8)
    planes = (pixels.transpose(2, 0, 1) / 255.0 - 0.5) / 0.5
    vit.save(folder + "/in.safetensors", {"input": np.stack([planes, planes[:, :, ::-1]])})
    p = run(exe, folder, folder, "in.safetensors", "--labels", "l.png", "--overlay", "o.png")
    if p.returncode:
        return p.stderr
    for i, wanted in enumerate((want, want[:, ::-1])):
        if (read_png(folder + "/l-in-%d.png" % i)[0] != wanted).any():
            return "picture %d has other classes" % i
    over, _ = read_png(folder + "/o-in-0.png")
    mixed = (pixels.astype(int) + np.array([voc(i) for i in range(3)])[want] + 1) // 2
    return None if abs(over - mixed).max() == 0 else "overlay off by %d" % abs(over - mixed).max()


# ---- heads of every form ----

def head(rng, width, form):
    """(tensors, weight, bias): the last two are those of the equivalent linear layer."""
    w = rng.standard_normal((CLASSES, width)).astype(np.float32)
    b = rng.standard_normal(CLASSES).astype(np.float32)
    stem = "segmentation_head." if form == "plain" else "decode_head.conv_seg."
    t = {stem + "weight": w if form == "plain" else w[:, :, None, None], stem + "bias": b}
    if form in ("bn", "norm"):
        g, shift, mean = (rng.standard_normal(width).astype(np.float32) for _ in range(3))
        var = rng.uniform(0.1, 3, width).astype(np.float32)
        for part, values in (("weight", g), ("bias", shift), ("running_mean", mean),
                             ("running_var", var)):
            t["decode_head.%s.%s" % (form, part)] = values
        factor = g / np.sqrt(var.astype(np.float64) + 1e-5)
        return t, w * factor, b + w.astype(np.float64) @ (shift - mean * factor)
    return t, w.astype(np.float64), b.astype(np.float64)


def on_golden(exe, folder, name, form, separate):
    """Tests a head on a golden model's features."""
    rng = np.random.default_rng(5)
    source = os.path.join(MODELS, name)
    shutil.copy(source + "/config.json", folder)
    io = vit.load(source + "/io.safetensors")
    own = vit.load(source + "/model.safetensors")
    width = [a for n, a in own.items() if n.endswith("norm.bias") or n.endswith("norm2.bias")][0].size
    tensors, w, b = head(rng, width, form)
    if separate:
        shutil.copy(source + "/model.safetensors", folder)
        vit.save(folder + "/segmentation.safetensors", tensors)
    else:
        vit.save(folder + "/model.safetensors", dict(own, **tensors))
    vit.save(folder + "/in.safetensors", {"input": io["input"][:1]})
    for schedule in ("streamed", "stepwise"):
        p = run(exe, folder, folder, "in.safetensors", "-o", "out.safetensors", "--features", "f.npy",
                "--labels", "l.png", "--schedule", schedule)
        if p.returncode:
            return p.stderr
        out = vit.load(folder + "/out.safetensors")
        patches = np.load(folder + "/f.npy")[0].astype(np.float64)
        want = patches @ w.T + b
        got = out["segmentation"][0].reshape(want.shape)
        error = abs(got - want).max() / abs(want).max()
        if not error <= 1e-5:
            return "%s: error %.2e" % (schedule, error)
        height, wide = io["input"].shape[2:]
        big = resized(got, wide, height)
        ordered = np.sort(big, -1)
        labels, _ = read_png(folder + "/l.png")
        clear = ordered[..., -1] - ordered[..., -2] > 1e-5
        if (labels != big.argmax(-1))[clear].any():
            return "the picture's classes are others"
    return None


def on_stage(exe, folder, name, stage, wrapped):
    """Tests a head on a stage of a pyramid, with every stage as a feature; `wrapped`: as mmsegmentation saves a
    whole segmentor."""
    source = os.path.join(SHARED, name)
    shutil.copy(source + "/config.json", folder)
    io = vit.load(source + "/io.safetensors")
    own = vit.load(source + "/model.safetensors")
    # if several stages have the head's width, it belongs to the last of them
    width = io["feat.stage%d" % stage].shape[1 if name < "pola" else 2]
    tensors, w, b = head(np.random.default_rng(5), width, "bn")
    if wrapped:
        own = {"backbone." + n: a for n, a in own.items() if not n.startswith("head.")}
        own["auxiliary_head.convs.0.weight"] = np.ones((4, 4), np.float32)
        config = json.load(open(folder + "/config.json"))
        json.dump(dict(config, num_classes=0), open(folder + "/config.json", "w"))
    vit.save(folder + "/model.safetensors", dict(own, **tensors))
    vit.save(folder + "/in.safetensors", {"input": io["input"]})
    p = run(exe, folder, folder, "in.safetensors", "-o", "out.safetensors", "--hidden", "--features",
            "f.safetensors")
    if p.returncode:
        return p.stderr
    out, features = vit.load(folder + "/out.safetensors"), vit.load(folder + "/f.safetensors")
    x = features["stage%d" % stage].astype(np.float64)
    want = x @ w.T + b
    got = out["segmentation"].reshape(want.shape)
    if not abs(got - want).max() <= 1e-5 * abs(want).max():
        return "error %.2e" % (abs(got - want).max() / abs(want).max())
    blob = open(folder + "/f.safetensors", "rb").read()
    told = json.loads(blob[8:8 + struct.unpack("<Q", blob[:8])[0]])["__metadata__"]
    stages = [n for n in io if n.startswith("feat.stage")]
    for i in range(1, len(stages) + 1):
        feature = features.pop("stage%d" % i)
        saved = out["feat.stage%d" % i]
        if saved.ndim == 4:
            saved = saved.transpose(0, 2, 3, 1)
        if (feature.ravel() != saved.ravel()).any() or told["stage%d.stride" % i] != str(2 << i):
            return "stage %d differs from --hidden's, or its stride is %s" % (i, told)
    if list(features) != ["features"] or (features["features"] != feature).any():
        return "the features are not the last stage's"
    return None


def without_it(exe, folder):
    """A head is not run if its output is not requested."""
    rng = np.random.default_rng(6)
    t = dict(vit.checkpoint(rng), **head(rng, vit.WIDTH, "plain")[0])
    vit.save(folder + "/model.safetensors", t)
    json.dump(vit.CONFIG, open(folder + "/config.json", "w"))
    vit.save(folder + "/in.safetensors", {"input": rng.standard_normal((1, 3, 20, 28))})
    p = run(exe, folder, folder, "in.safetensors", "--json")
    told = json.loads(p.stdout)
    return None if p.returncode == 0 and "segmentation" not in told else p.stderr or str(told)


# ---- refusals ----

def refusals(exe):
    rng = np.random.default_rng(7)
    plain, bn = head(rng, vit.WIDTH, "plain")[0], head(rng, vit.WIDTH, "bn")[0]
    wide = head(rng, 2 * vit.WIDTH, "conv")[0]
    no_mean = {k: v for k, v in bn.items() if "running_mean" not in k}
    many = {"segmentation_head.weight": rng.standard_normal((300, vit.WIDTH))}
    for what, code, tensors, words in (
            ("a head for several stages", 7, wide, ["decode_head.conv_seg.weight", "96", "48"]),
            ("a bias of another length", 7, dict(plain, **{"segmentation_head.bias": np.zeros(4)}),
             ["segmentation_head.bias"]),
            ("half a batch normalisation", 7, no_mean, ["running_mean"]),
            ("a negative variance", 7, dict(bn, **{"decode_head.bn.running_var": -np.ones(vit.WIDTH)}),
             ["running_var", "variance"]),
            ("a variance that is no number", 7,
             dict(bn, **{"decode_head.bn.running_var": np.full(vit.WIDTH, np.nan)}), ["running_var"]),
            ("a deeper head", 7, dict(bn, **{"decode_head.convs.0.conv.weight": np.zeros((4, 4))}),
             ["decode_head.convs.0.conv.weight", "not supported"]),
            ("no head", 7, {"something.weight": np.zeros(3)}, ["segmentation_head.weight"]),
            ("a head of no classes", 7, {"segmentation_head.weight": np.zeros((0, vit.WIDTH))},
             ["segmentation_head.weight"]),
            ("a kernel of 3 x 3", 7,
             {"decode_head.conv_seg.weight": np.zeros((2, vit.WIDTH, 3, 3))}, ["conv_seg.weight"]),
            ("too many classes for a picture", 2, many, ["300", "256"])):
        with tempfile.TemporaryDirectory() as folder:
            colour_model(folder)
            vit.save(folder + "/segmentation.safetensors", tensors)
            write_ppm(folder + "/a.ppm", stripes([0, 1], 16, 8)[0])
            p = run(exe, folder, folder, "a.ppm", "--labels", "l.png")
        if p.returncode != code or not all(w in p.stderr for w in words):
            yield what, "exit %d: %s" % (p.returncode, p.stderr.strip())
        else:
            yield what, None
    with tempfile.TemporaryDirectory() as folder:
        colour_model(folder)
        os.remove(folder + "/segmentation.safetensors")
        write_ppm(folder + "/a.ppm", stripes([0, 1], 16, 8)[0])
        p = run(exe, folder, folder, "a.ppm", "--overlay", "l.png")
    yield "a model without a head", None if p.returncode == 2 and "segmentation.safetensors" in \
        p.stderr else "exit %d: %s" % (p.returncode, p.stderr)


def main(argv):
    exe = os.path.abspath(argv[0])
    failed, total = [], 0

    def check(what, wrong):
        nonlocal total
        total += 1
        if wrong:
            failed.append("%s: %s" % (what, wrong.strip()))

    for what, trial in (("known answer", known_answer), ("known answer of planes", known_tensor),
                        ("not asked for", without_it)):
        with tempfile.TemporaryDirectory() as folder:
            check(what, trial(exe, folder))
    for name in ("dinov2-with-registers-03", "clip-vision-02", "siglip-02"):
        for form, separate in (("plain", False), ("conv", True), ("bn", False), ("norm", True)):
            with tempfile.TemporaryDirectory() as folder:
                check("%s on %s" % (form, name), on_golden(exe, folder, name, form, separate))
    skipped = 0
    for name in ("mavit-02", "nalaformer-03", "pola-pvt-01", "pola-swin-02"):
        for stage, wrapped in ((3, False), (2, False), (3, name == "mavit-02")):
            if not os.path.isdir(os.path.join(SHARED, name)):
                skipped += 1
                continue
            with tempfile.TemporaryDirectory() as folder:
                check("stage %d of %s" % (stage, name), on_stage(exe, folder, name, stage, wrapped))
    if skipped:
        print("stages of pyramids: skipped, there is no %s" % os.path.normpath(SHARED))
    for what, wrong in refusals(exe):
        check(what, wrong)
    for line in failed:
        print("FAIL " + line)
    print("%d passed, %d failed, %d skipped" % (total - len(failed), len(failed), skipped))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
