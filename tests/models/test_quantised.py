#!/usr/bin/env python3
"""test_quantised.py: `fovea convert` on quantised checkpoints, and which of them it refuses.

    test_quantised.py path/to/fovea

quantised.json has layers and values that the packages themselves computed (tests/data/make_quantised.py).
"""
import base64
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, ".."))
import counted  # noqa: E402

np = counted.need("numpy")
import torch_archives as archives  # noqa: E402: it needs numpy
FOVEA = os.path.abspath(sys.argv.pop(1)) if len(sys.argv) > 1 else "fovea"
DATA = os.path.join(HERE, "..", "data")
MODEL = os.path.join(DATA, "golden", "models", "vit-01")
with open(os.path.join(DATA, "quantised.json"), encoding="utf-8") as listed:
    CASES = json.load(listed)


def write(path, tensors):
    """{name: (type, shape, bytes)}"""
    head, data = {}, b""
    for name, (dtype, shape, values) in tensors.items():
        head[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [len(data), len(data) + len(values)]}
        data += values
    text = json.dumps(head).encode()
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + data)


def read(path):
    with open(path, "rb") as f:
        whole = f.read()
    n, = struct.unpack("<Q", whole[:8])
    data, found = whole[8 + n:], {}
    for name, entry in json.loads(whole[8:8 + n]).items():
        if name != "__metadata__":
            begin, end = entry["data_offsets"]
            found[name] = entry["dtype"], tuple(entry["shape"]), data[begin:end]
    return found


def floats(entry):
    return np.frombuffer(base64.b64decode(entry["data"]), "<f4").reshape(entry["shape"])


def stored(case):
    return {name: (t["dtype"], t["shape"], base64.b64decode(t["data"])) for name, t in case["tensors"].items()}


class Quantised(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def put(self, tensors, config, name="in"):
        os.makedirs(self.path(name), exist_ok=True)
        write(self.path(name, "model.safetensors"), tensors)
        with open(self.path(name, "config.json"), "w", encoding="utf-8") as f:
            json.dump(config, f)

    def convert(self, *arguments):
        # This Python has numpy.
        env = dict(os.environ, PATH=self.python() + os.pathsep + os.environ["PATH"])
        return subprocess.run([FOVEA, "convert", *arguments], capture_output=True, text=True, cwd=self.folder, env=env)

    def python(self):
        os.makedirs(self.path("bin"), exist_ok=True)
        if not os.path.exists(self.path("bin", "python3")):
            os.symlink(sys.executable, self.path("bin", "python3"))
        return self.path("bin")

    def refused(self, says, *arguments):
        done = self.convert(*arguments)
        self.assertEqual((done.returncode, done.stdout), (7, ""), done.stderr)
        self.assertIn(says, done.stderr)
        self.assertFalse(os.path.exists(self.path("out")))

    def test_every_package(self):
        for name, case in CASES.items():
            with self.subTest(name):
                shutil.rmtree(self.path("out"), ignore_errors=True)
                self.put({**stored(case), "classifier.bias": ("F32", [3], bytes(12))},
                         {"model_type": "vit", "dtype": "bfloat16",
                          "quantization_config": case["quantization_config"]})
                done = self.convert("in", "out")
                self.assertEqual(done.returncode, 0, done.stderr)
                made = read(self.path("out", "model.safetensors"))
                self.assertEqual(set(made), set(case["values"]) | {"classifier.bias"})
                for weight, entry in case["values"].items():
                    want = floats(entry)
                    dtype, shape, data = made[weight]
                    self.assertEqual((dtype, shape), ("F32", want.shape))
                    got = np.frombuffer(data, "<f4").reshape(shape)
                    np.testing.assert_allclose(got, want, rtol=3e-7, atol=0, err_msg=weight)
                with open(self.path("out", "config.json"), encoding="utf-8") as f:
                    self.assertEqual(json.load(f), {"model_type": "vit", "dtype": "float32"})

    def test_a_model_runs_again(self):
        """A whole ViT in int8 is refused with the command that converts it, and then gives the results of the int8
        values."""
        tensors = read(os.path.join(MODEL, "model.safetensors"))
        with open(os.path.join(MODEL, "config.json"), encoding="utf-8") as f:
            config = json.load(f)
        small, rounded = {}, {}
        for name, (dtype, shape, data) in tensors.items():
            if not name.endswith("query.weight"):
                small[name] = rounded[name] = dtype, shape, data
                continue
            w = np.frombuffer(data, "<f4").reshape(shape)
            scale = (np.abs(w).max(1, keepdims=True) / 127).astype("<f4")
            q = np.rint(w / scale).astype(np.int8)
            small[name] = "I8", shape, q.tobytes()
            small[name + "_scale"] = "F32", scale.shape, scale.tobytes()
            rounded[name] = "F32", shape, (q * scale).astype("<f4").tobytes()
        self.put(small, {**config, "quantization_config": {"quant_method": "compressed-tensors"}})
        self.put(rounded, config, "rounded")
        done = subprocess.run([FOVEA, "plan", "in"], capture_output=True, text=True, cwd=self.folder)
        self.assertIn('"fovea convert in OUT" converts it to float32', done.stderr)
        self.assertEqual(self.convert("in", "out").returncode, 0)
        picture, results = os.path.join(DATA, "picture_wide.ppm"), []
        for model in ("out", "rounded"):
            done = subprocess.run([FOVEA, "run", model, picture, "-o", model + ".safetensors"], capture_output=True,
                                  text=True, cwd=self.folder)
            self.assertEqual(done.returncode, 0, done.stderr)
            results.append(read(self.path(model + ".safetensors")))
        self.assertEqual(*results)

    def test_shards(self):
        case = CASES["bitsandbytes"]
        tensors = stored(case)
        self.put({}, {"model_type": "vit", "quantization_config": case["quantization_config"]})
        os.remove(self.path("in", "model.safetensors"))
        names, places = sorted(tensors), {}
        for k, part in enumerate((names[::2], names[1::2])):
            write(self.path("in", "part%d.safetensors" % k), {n: tensors[n] for n in part})
            places.update({n: "part%d.safetensors" % k for n in part})
        with open(self.path("in", "model.safetensors.index.json"), "w", encoding="utf-8") as f:
            json.dump({"weight_map": places}, f)
        self.assertEqual(self.convert("in", "out").returncode, 0)
        self.assertEqual(set(read(self.path("out", "model.safetensors"))), set(case["values"]))

    def test_a_file_of_torch(self):
        """The same tensors in a file of torch.save."""
        case, kinds = CASES["bitsandbytes"], {"I8": "|i1", "U8": "|u1", "F32": "<f4"}
        self.put({}, {"model_type": "vit", "quantization_config": case["quantization_config"]})
        os.remove(self.path("in", "model.safetensors"))
        archives.save(self.path("in", "pytorch_model.bin"), {
            name: archives.Tensor(np.frombuffer(data, kinds[dtype]).reshape(shape))
            for name, (dtype, shape, data) in stored(case).items()})
        self.refused("choose another folder", "in", "in")
        self.assertEqual(self.convert("in", "out").returncode, 0)
        made = read(self.path("out", "model.safetensors"))
        self.assertEqual(set(made), set(case["values"]))
        for weight, entry in case["values"].items():
            np.testing.assert_allclose(np.frombuffer(made[weight][2], "<f4"), floats(entry).ravel(), rtol=3e-7)

    def test_plain_fp8(self):
        """FP8 without scales is converted like other types; tests every code of both types."""
        codes = bytes(range(256))
        self.put({"a.weight": ("F8_E4M3", [16, 16], codes), "b.weight": ("F8_E5M2", [16, 16], codes)},
                 {"model_type": "vit"})
        self.assertEqual(self.convert("in", "out").returncode, 0)
        made = read(self.path("out", "model.safetensors"))
        for name, bits, bias in (("a.weight", 3, 7), ("b.weight", 2, 15)):
            for code, got in enumerate(np.frombuffer(made[name][2], "<f4")):
                exponent, fraction = code >> bits & (127 >> bits), (code & (1 << bits) - 1) / (1 << bits)
                want = (1 + fraction) * 2.0 ** (exponent - bias) if exponent else fraction * 2.0 ** (1 - bias)
                if (code & 127) == 127 if bits == 3 else exponent == 31:
                    want = float("inf") if bits == 2 and fraction == 0 else float("nan")
                np.testing.assert_equal(got, np.float32(-want if code & 128 else want))

    def test_refused(self):
        case = CASES["compressed-tensors, FP8 of blocks"]
        config = {"model_type": "vit", "quantization_config": case["quantization_config"]}
        weight = "classifier.weight"
        whole = stored(case)
        for what, tensors, settings, says in (
                ("method", whole, {"quant_method": "gptq"}, "quantised by gptq"),
                ("scale", {k: v for k, v in whole.items() if k != weight + "_scale"}, None, weight),
                ("blocks", {**whole, weight + "_scale": ("F32", [2, 2], bytes(16))}, None, "no block of config.json"),
                ("type", {**whole, "x": ("F4", [2], bytes(1))}, None, "type F4"),
                ("4 bits", {**whole, "classifier.weight.absmax": ("F32", [1], bytes(4))}, None, "of bitsandbytes")):
            with self.subTest(what):
                self.put(tensors, {**config, "quantization_config": settings or case["quantization_config"]})
                self.refused(says, "in", "out")
        self.put(whole, config)
        self.refused("choose another folder", "in", "in")
        self.put({"a": ("F32", [1], bytes(4))}, {"model_type": "vit"})
        self.refused("it needs no conversion", "in", "out")
        write(self.path("in", "model.safetensors"), whole)
        with open(self.path("in", "model.safetensors"), "r+b") as f:
            f.truncate(400)
        self.refused("truncated", "in", "out")

    def test_types_of_files(self):
        """The message about an unsupported type names it and the remedy; an unused tensor may have any type."""
        tensors = read(os.path.join(MODEL, "model.safetensors"))
        shutil.copytree(MODEL, self.path("model"))
        weight = next(n for n in tensors if n.endswith("query.weight"))
        shape = tensors[weight][1]
        for dtype, says in (("F8_E8M0", "fovea convert"), ("F8_E4M3", "fovea convert"), ("F4", 'type "F4"')):
            with self.subTest(dtype):
                size = shape[0] * shape[1] // (2 if dtype == "F4" else 1)
                write(self.path("model", "model.safetensors"), {**tensors, weight: (dtype, shape, bytes(size))})
                done = subprocess.run([FOVEA, "plan", "model"], capture_output=True, text=True, cwd=self.folder)
                self.assertIn(says, done.stderr)
                self.assertIn(weight, done.stderr)
                self.assertNotIn("fetch the file again", done.stderr)
        write(self.path("model", "model.safetensors"), {**tensors, "scales": ("F8_E8M0", [2], bytes(2))})
        done = subprocess.run([FOVEA, "plan", "model"], capture_output=True, text=True, cwd=self.folder)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_command(self):
        done = self.convert()
        self.assertEqual(done.returncode, 1)
        self.assertIn("fovea convert --help", done.stderr)
        self.assertIn("--architecture", self.convert("--help").stdout)
        os.makedirs(self.path("empty"))
        done = subprocess.run([FOVEA, "convert", "in", "out"], capture_output=True, text=True, cwd=self.folder,
                              env=dict(os.environ, PATH=self.path("empty")))
        self.assertEqual(done.returncode, 2)
        self.assertIn("PATH has no python3", done.stderr)


if __name__ == "__main__":
    counted.main()
