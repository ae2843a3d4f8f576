#!/usr/bin/env python3
"""test_convert.py: python/convert.py, with PyTorch where it is there and a stand-in for it where not.

    test_convert.py path/to/fovea

Weights wrapped as training programs wrap them must come out as the folder of the same weights, bit by bit,
and run; constructors that it knows must make checkpoints of the published sizes.
"""
import json
import math
import os
import subprocess
import sys
import tempfile

import numpy as np

import test_polaformer as pola
import test_pyramid

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
sys.path.insert(0, os.path.join(ROOT, "python"))
import convert  # noqa: E402: it lies in another folder

# What convert.py uses of PyTorch, over numpy. Files are pickles, of these tensors only.
STAND_IN = '''
import pickle, types
import numpy as np
uint8 = "torch.uint8"
serialization = types.SimpleNamespace()

class Tensor:
    def __init__(self, values):
        self.values = np.asarray(values)
        self.dtype = "torch." + self.values.dtype.name
        self.shape = self.values.shape
    detach = cpu = contiguous = lambda self: self
    def reshape(self, *shape):
        return Tensor(self.values.reshape(*shape))
    def view(self, kind):
        assert kind == uint8 and self.values.ndim == 1
        return Tensor(self.values.view(np.uint8))
    def numpy(self):
        return self.values
    def numel(self):
        return self.values.size

def save(x, path):
    pickle.dump(x, open(path, "wb"))

def load(path, map_location, weights_only):
    assert map_location == "cpu" and weights_only is True
    return pickle.load(open(path, "rb"))

def from_numpy(values):
    return Tensor(values)
'''

PUBLISHED = {"mavit-t": 16.45, "mavit-s": 27.14, "nalaformer-xt": 6.14, "nalaformer-t": 15.91, "nalaformer-s": 25.65,
             "pola-swin-t": 29.29, "pola-swin-s": 50.60, "pola-swin-b": 89.14, "pola-pvt-t": 12.92,
             "pola-pvt-s": 23.16, "pola-pvt-m": 39.97, "pola-pvt-l": 54.37}


class Counter:
    """A random generator that only counts."""

    def standard_normal(self, shape):
        return np.broadcast_to(np.float32(0), shape)

    def uniform(self, low, high, shape):
        return np.broadcast_to(np.float32(0), shape)


def torch_of(folder):
    """PyTorch, or the stand-in, and the environment that finds it."""
    env = dict(os.environ)
    try:
        import torch
        return torch, env
    except ImportError:
        with open(os.path.join(folder, "torch.py"), "w") as f:
            f.write(STAND_IN)
        sys.path.insert(0, folder)
        import torch
        env["PYTHONPATH"] = folder
        return torch, env


BUFFERS = ("attn_mask", "_index", "running_mean", "running_var", "RoPE.angle")


def published(note):
    """Trained numbers of a checkpoint with 1000 classes."""
    makers = {"pola_pvt": pola.make_pvt, "pola_swin": pola.make_swin}
    for name, millions in PUBLISHED.items():
        config = dict(convert.MODELS[name], num_classes=1000, layerscales=[True] * 4)
        tensors = makers.get(config["model_type"], test_pyramid.checkpoint)(Counter(), config)
        got = sum(math.prod(v.shape) for k, v in tensors.items() if not k.endswith(BUFFERS)) / 1e6
        note("size of " + name, None if abs(got - millions) < 0.005 else "%.3fM, not %.2fM" % (got, millions))


def main(argv):
    exe = os.path.abspath(argv[0])
    counts = [0, 0]

    def note(what, bad):
        counts[bool(bad)] += 1
        if bad:
            print("FAIL %s: %s" % (what, bad), flush=True)

    published(note)
    with tempfile.TemporaryDirectory() as folder:
        torch, env = torch_of(folder)

        def path(*names):
            return os.path.join(folder, *names)

        def run(*arguments):
            return subprocess.run([sys.executable, os.path.join(ROOT, "python", "convert.py"), *arguments],
                                  capture_output=True, text=True, env=env)

        rng = np.random.default_rng(3)
        config = pola.swin_config()
        weights = pola.make_swin(rng, config)
        other = {k: v + 1 for k, v in weights.items()}
        json.dump(config, open(path("own.json"), "w"))

        def tensors(of, prefix=""):
            return {prefix + k: torch.from_numpy(np.ascontiguousarray(v)) for k, v in of.items()}

        forms = {"bare": (tensors(weights), []),
                 "model": ({"model": tensors(weights), "epoch": 3, "optimizer": {"state": {}}}, []),
                 "averaged": ({"model": tensors(other), "model_ema": tensors(weights)}, []),
                 "parallel": ({"state_dict": tensors(weights, "module.")}, []),
                 "nested": ({"model_ema": {"module": tensors(weights), "decay": 0.9}}, []),
                 "chosen": ({"model": tensors(weights), "model_ema": tensors(other)}, ["--weights", "model"])}
        image = rng.standard_normal((1, 3, 32, 32)).astype(np.float32)
        pola.save(path("io.safetensors"), {"input": image})
        want = pola.define(config, weights, image[0])["logits"]
        for name, (saved, options) in forms.items():
            torch.save(saved, path("x.pth"))
            p = run(path("x.pth"), path("own.json"), path(name), *options)
            if p.returncode:
                note(name, p.stderr)
                continue
            got = pola.load(path(name, "model.safetensors"))
            same = set(got) == set(weights) and all((got[k] == weights[k]).all() for k in got)
            note(name, None if same else "other tensors")
            p = subprocess.run([exe, "run", path(name), path("io.safetensors"), "-o", path("out.safetensors")],
                               capture_output=True, text=True)
            e = pola.error(pola.load(path("out.safetensors"))["logits"][0], want) if p.returncode == 0 else p.stderr
            note("run of " + name, None if p.returncode == 0 and e <= pola.TOLERANCE else e)

        torch.save({"args": {"lr": 1}}, path("x.pth"))
        for what, arguments, says in (("no weights", [path("x.pth"), "pola-swin-t", path("no")], "no weights"),
                                      ("an unknown model", [path("x.pth"), "pola-x", path("no")], "pola-pvt-t"),
                                      ("no arguments", [], "convert.py CHECKPOINT")):
            p = run(*arguments)
            good = p.returncode and says in p.stderr and "Traceback" not in p.stderr and not os.path.exists(path("no"))
            note(what, None if good else p.stderr or "accepted")
    print("%d passed, %d failed" % (counts[0], counts[1]))
    return 1 if counts[1] else 0


if __name__ == "__main__":
    if len(sys.argv) < 2:
        raise SystemExit(__doc__)
    sys.exit(main(sys.argv[1:]))
