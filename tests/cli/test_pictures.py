#!/usr/bin/env python3
"""test_pictures.py: compares attention maps with references in numpy.

    test_pictures.py path/to/fovea
"""
import json
import math
import os
import struct
import subprocess
import sys
import tempfile
import unittest
import zlib

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import counted

np = counted.need("numpy")

MODELS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data", "golden", "models")


def load(path):
    blob = open(path, "rb").read()
    n = struct.unpack("<Q", blob[:8])[0]
    out = {}
    for name, t in json.loads(blob[8:8 + n]).items():
        if name != "__metadata__" and t["dtype"] == "F32":
            begin, end = t["data_offsets"]
            data = np.frombuffer(blob, "<f4", (end - begin) // 4, 8 + n + begin)
            out[name] = data.reshape(t["shape"])
    return out


def save(path, tensors):
    head, data = {}, b""
    for name, values in tensors.items():
        raw = np.ascontiguousarray(values, "<f4").tobytes()
        head[name] = {"dtype": "F32", "shape": list(values.shape),
                      "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(head).encode()
    text += b" " * (-len(text) % 8)
    open(path, "wb").write(struct.pack("<Q", len(text)) + text + data)


def png(path):
    """Width, height and the number of different bytes of a picture's rows as they are stored."""
    blob = open(path, "rb").read()
    assert blob[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", blob[16:24])
    at, packed = 8, b""
    while at < len(blob):
        n, kind = struct.unpack(">I4s", blob[at:at + 8])
        packed += blob[at + 8:at + 8 + n] if kind == b"IDAT" else b""
        at += 12 + n
    rows = zlib.decompress(packed)
    assert len(rows) == height * (1 + 3 * width)
    return width, height, len(set(rows))


# ---- rows of attention: one query q (d) and all keys k (N, d) of one head, by the equations of attention.h ----

def softmax(q, k):
    s = k @ q / math.sqrt(len(q))
    e = np.exp(s - s.max())
    return e / e.sum()


def elu1(x):
    return np.where(x > 0, x + 1, np.exp(np.minimum(x, 0)))


def linear(q, k):
    w = elu1(k) @ elu1(q)
    return w / w.sum()


def mala(q, k):
    w = elu1(k) @ elu1(q) / math.sqrt(len(q))
    z = w.mean()
    return (1 + 1 / (z + 1e-6)) * w / len(k) - z / len(k)


def signs(x, p):
    return np.concatenate([np.maximum(x, 0) ** p, np.maximum(-x, 0) ** p], -1)


def pola(q, k):
    q, k = q / math.log(2), k / math.log(2)
    keys, queries = signs(k, 3), signs(q, 3)
    rows = []
    for query in (queries, np.roll(queries, len(q))):
        w = keys @ query
        rows.append(w / len(k) / (w.mean() + 1e-6))
    return (rows[0] + rows[1]) / 2


def nala(q, k):
    n = np.linalg.norm(q)
    w = signs(k, 3) @ signs(q / n, 3 * (0.5 + math.tanh(n)))
    return w / len(k) / (w.mean() + 1e-6)


REFERENCES = {"softmax": softmax, "linear:elu1": linear, "mala": mala, "pola": pola, "nala": nala}


def entropy(row):
    x = np.maximum(row, 0)
    x = x[x > 0] / x.sum()
    return float(-(x * np.log(x)).sum())


def norm(x, weight, bias, eps):
    x = x.astype(np.float64)
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + eps) * weight + bias


def run(*args, fails=None):
    p = subprocess.run([EXE, *args], capture_output=True, text=True)
    if fails is None:
        assert p.returncode == 0, p.stderr
        return p.stdout
    assert p.returncode == fails, "exit %d: %s" % (p.returncode, p.stderr)
    return p.stderr


class AttentionMap(unittest.TestCase):
    # folder, names of block and norm, heads, patch, block, eps, pixel, its token and all keys
    CASES = [
        ("vit-01", "vit.encoder.layer.2.", "layernorm_before.", 2, 2, 1e-12, (37, 20), 7, 17),
        ("dinov2-with-registers-03", "encoder.layer.0.", "norm1.", 2, 0, 1e-6, (83, 14), 13, 44),
    ]

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def attention(self, model, block, pixel, *more):
        at = "%d,%d,%s" % (*pixel, self.path("map.png"))
        out = run("run", model, os.path.join(MODELS, os.path.basename(model), "io.safetensors"),
                  "--attention-map", at, "--attention-block", str(block), "--compute", "f32", "--json", *more)
        return json.loads(out.splitlines()[0])["attention"]

    def test_rows_are_those_of_the_references(self):
        for folder, prefix, ln, heads, block, eps, pixel, token, keys in self.CASES:
            model = os.path.join(MODELS, folder)
            w = load(os.path.join(model, "model.safetensors"))
            x = load(os.path.join(model, "io.safetensors"))["feat.hidden%d" % block][0]
            normed = norm(x, w[prefix + ln + "weight"], w[prefix + ln + "bias"], eps)
            q, k = (normed @ w[prefix + "attention.attention.%s.weight" % name].T +
                    w[prefix + "attention.attention.%s.bias" % name] for name in ("query", "key"))
            got = self.attention(model, block, pixel)
            self.assertEqual((got["block"], got["token"], got["keys"]),
                             ("block%d" % block, token, keys))
            self.assertAlmostEqual(got["pse_uniform"], math.log(keys), 6)
            self.assertEqual([r["attention"] for r in got["rows"]], list(REFERENCES))
            self.assertEqual([r["own"] for r in got["rows"]], [True] + 4 * [False])
            d = q.shape[1] // heads
            for r in got["rows"]:
                row = np.mean([REFERENCES[r["attention"]](q[token, h * d:(h + 1) * d],
                                                           k[:, h * d:(h + 1) * d])
                               for h in range(heads)], 0)
                weights = np.array(r["weights"])
                with self.subTest(folder=folder, attention=r["attention"]):
                    self.assertLess(abs(weights - row).max(), 2e-5 * abs(row).max())
                    self.assertLess(abs(r["pse"] - entropy(row)), 1e-4)
                    lost = np.maximum(-row, 0).sum() / abs(row).sum()
                    self.assertLess(abs(r["negative"] - lost), 1e-5)
                    self.assertLess(abs(weights.sum() - 1), 1e-3)

    def test_equal_keys_have_the_entropy_of_all_keys(self):
        folder, prefix, _, _, block, _, pixel, _, keys = self.CASES[0]
        model = self.path(folder)
        os.mkdir(model)
        w = load(os.path.join(MODELS, folder, "model.safetensors"))
        for part in ("weight", "bias"):
            name = prefix + "attention.attention.key." + part
            w[name] = np.zeros_like(w[name])
        save(os.path.join(model, "model.safetensors"), w)
        with open(os.path.join(model, "config.json"), "w") as f:
            f.write(open(os.path.join(MODELS, folder, "config.json")).read())
        rows = {r["attention"]: r for r in self.attention(model, block, pixel)["rows"]}
        for name in ("softmax", "linear:elu1", "mala"):
            self.assertAlmostEqual(rows[name]["pse"], math.log(keys), 5)
        for name in ("pola", "nala"):  # all features are 0, so all weights are 0
            self.assertEqual(rows[name]["pse"], 0)

    def test_the_models_own_attention_has_a_panel(self):
        model = os.path.join(MODELS, "vit-01")
        got = self.attention(model, -1, (0, 0), "--attention", "linear")
        self.assertEqual([r["attention"] for r in got["rows"] if r["own"]], ["linear:elu1"])
        # three columns of 320 with gaps of 8, two rows of 320 under 24 of text
        width, height, kinds = png(self.path("map-io-0.png"))
        self.assertEqual((width, height), (3 * 328 + 8, 2 * 352 + 8))
        self.assertGreater(kinds, 100)
        got = self.attention(model, -1, (0, 0), "--attention", "focused")
        self.assertEqual([r["attention"] for r in got["rows"] if r["own"]], ["focused"])
        self.assertEqual(png(self.path("map-io-0.png"))[0], 4 * 328 + 8)

    def test_several_pictures_and_other_outputs(self):
        with open(self.path("a.ppm"), "wb") as f:
            f.write(b"P6 48 30 255\n" + bytes(range(240)) * 18)
        with open(self.path("b.ppm"), "wb") as f:
            f.write(b"P6 30 60 255\n" + bytes(range(240)) * 22 + bytes(120))
        text = run("run", "synthetic:vit-ti16", self.path("a.ppm"), self.path("b.ppm"), "--size",
                   "64", "-o", self.path("o.safetensors"), "--hidden", "--attention-map", "63,0",
                   self.path("m.png"))
        self.assertEqual(text.count("(the model's own)"), 2)
        self.assertGreater(png(self.path("m-a.png"))[2], 50)
        self.assertGreater(png(self.path("m-b.png"))[2], 50)
        self.assertFalse([n for n in load(self.path("o.safetensors")) if "block" in n])

    def test_what_is_wrong_is_said(self):
        picture = self.path("a.ppm")
        with open(picture, "wb") as f:
            f.write(b"P6 48 30 255\n" + bytes(range(240)) * 18)
        base = ["run", "synthetic:vit-ti16", picture, "--attention-map"]
        for wrong in ("-1,0,x.png", "1,2,x.jpg", "1,2", "1,x.png", "224,0,x.png"):
            self.assertIn("attention-map", run(*base, wrong, fails=1))
        self.assertIn("blocks are 0 to 11", run(*base, "0,0,x.png", "--attention-block", "12", fails=1))
        self.assertIn("whole", run(*base, "0,0,x.png", "--attention-block", "1.5", fails=1))
        run("run", "synthetic:vit-ti16", picture, "--attention-block", "1", fails=1)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    EXE = os.path.abspath(sys.argv[1])
    counted.main()
