#!/usr/bin/env python3
"""test_modules.py: runs whole attention modules and blocks of the official models with the library.

    test_modules.py path/to/libfovea.so

The library, by python/fovea, runs attention with the operations that follow it, and all linear layers; norms,
windows, strided convolutions and sums are computed by numpy in float64. Every golden module runs at every level of
this machine. The modules are read from ../shared/golden/modules if that exists, else from
tests/data/golden/modules.
"""
import glob
import json
import os
import struct
import sys
import types
import unittest

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import counted

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
np = counted.need("numpy")
if len(sys.argv) < 2:
    raise SystemExit(__doc__)
os.environ["FOVEA_LIBRARY"] = os.path.abspath(sys.argv[1])
sys.path.insert(0, os.path.join(ROOT, "python"))
import fovea  # noqa: E402

LEVELS = ["scalar", "avx2", "avx512", "neon"]
TYPES = {"F32": "<f4", "F64": "<f8", "I64": "<i8"}


def folder():
    shared = os.path.join(os.path.dirname(ROOT), "shared", "golden", "modules")
    return shared if os.path.isdir(shared) else os.path.join(ROOT, "tests", "data", "golden", "modules")


def load(path):
    """{name: array}, metadata."""
    blob = open(path, "rb").read()
    n = struct.unpack("<Q", blob[:8])[0]
    head = json.loads(blob[8:8 + n])
    meta = head.pop("__metadata__")
    out = {}
    for name, t in head.items():
        begin, end = (8 + n + o for o in t["data_offsets"])
        out[name] = np.frombuffer(blob[begin:end], TYPES[t["dtype"]]).reshape(t["shape"])
    return out, meta


class Module:
    """A golden module: x -> out. Tensors are (B, N, C), N = height * width."""

    def __init__(self, tensors, meta, device):
        self.t, self.device = tensors, device
        self.config = types.SimpleNamespace(**json.loads(meta["config"]))
        self.kind = meta["case"]
        self.width = int(meta["W"])
        self.height = tensors["x"].shape[1] // self.width
        self.mask = tensors.get("mask")

    def p(self, name):
        return self.t["param." + name]

    def has(self, name):
        return "param." + name in self.t

    # ---- operations around the attention ----

    def linear(self, name, x, activation=None):
        """A linear layer; also a convolution of size 1, whose weights are (out, in, 1, 1)."""
        w = self.p(name + ".weight")
        bias = self.p(name + ".bias") if self.has(name + ".bias") else None
        y = fovea.gemm(x.reshape(-1, x.shape[-1]), w.reshape(w.shape[0], -1), bias, activation,
                       device=self.device)
        return y.reshape(x.shape[:-1] + (-1,))

    def norm(self, name, x, eps):
        x = x.astype(np.float64)
        x = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + eps)
        return x * self.p(name + ".weight") + self.p(name + ".bias")

    def depthwise(self, name, x):
        """Convolution of every channel with its own filter; filters repeat over the heads."""
        w, bias = self.p(name + ".weight").astype(np.float64), self.p(name + ".bias")
        heads, n = x.shape[-1] // w.shape[0], w.shape[-1]
        w, bias = np.tile(w[:, 0], (heads, 1, 1)), np.tile(bias, heads)
        image = np.zeros((x.shape[0], self.height + n - 1, self.width + n - 1, x.shape[-1]))
        image[:, n // 2:n // 2 + self.height, n // 2:n // 2 + self.width] = \
            x.reshape(x.shape[0], self.height, self.width, -1)
        out = sum(image[:, i:i + self.height, j:j + self.width] * w[:, i, j]
                  for i in range(n) for j in range(n))
        return (out + bias).reshape(x.shape)

    def reduced(self, x, prefix):
        """The tokens of a convolution with stride = size, normalised."""
        w, r = self.p(prefix + "sr.weight"), self.p(prefix + "sr.weight").shape[-1]
        patches = x.reshape(x.shape[0], self.height // r, r, self.width // r, r, -1)
        patches = patches.transpose(0, 1, 3, 5, 2, 4).reshape(x.shape[0], -1, x.shape[-1] * r * r)
        y = fovea.gemm(patches.reshape(-1, patches.shape[-1]), w.reshape(len(w), -1),
                       self.p(prefix + "sr.bias"), device=self.device)
        return self.norm(prefix + "norm", y.reshape(*patches.shape[:2], -1), 1e-5)

    def mlp(self, x):
        return self.linear("mlp.fc2", self.linear("mlp.fc1", x, "gelu"))

    def ffn(self, x):
        y = self.linear("ffn.fc1", x, "gelu")
        return self.linear("ffn.fc2", y + self.depthwise("ffn.dwconv", y))

    def gamma(self, name):
        return self.p(name).reshape(-1) if self.has(name) else 1.0

    # ---- the attention ----

    def attend(self, name, q, k, v, heads, **options):
        """Attention of the batch's sequences, one after the other."""
        g = options.pop("g", [None] * len(q))
        return np.stack([fovea.attention(np.float32(q[b]), np.float32(k[b]), np.float32(v[b]), name,
                                         heads=heads, device=self.device, g=g[b], **options)
                         for b in range(len(q))])

    def local(self, name, shared=False):
        w = self.p(name + ".weight")
        return dict(grid=(self.height, self.width), local_size=w.shape[-1], local_weight=w[:, 0],
                    local_bias=self.p(name + ".bias"), local_shared=shared)

    def rotated(self, x, heads):
        """Rotates q or k of the softmax blocks: pairs (2j, 2j + 1) of every head."""
        x = x.reshape(*x.shape[:2], heads, -1)
        cosine, sine = self.t["cos"][:, None], self.t["sin"][:, None]
        other = np.stack([-x[..., 1::2], x[..., ::2]], -1).reshape(x.shape)
        return (x * cosine + other * sine).reshape(*x.shape[:2], -1)

    def mavit(self, x, prefix, heads, flag):
        """MALA and the softmax attention of MAViT: lepe, and a gate without activation."""
        q, k, v, o = np.split(self.linear(prefix + "qkvo", x), 4, -1)
        return self.linear(prefix + "proj", self.hybrid(q, k, v, heads, flag, "mala", g=o,
                                                        out_gate="linear", **self.local(prefix + "lepe")))

    def nalaformer(self, x, prefix, heads, flag):
        q, k, v, g = np.split(self.linear(prefix + "qkvg", x), 4, -1)
        return self.linear(prefix + "out_proj", self.hybrid(
            q, k, v, heads, flag, "nala", g=g, out_gate="silu", norm_weight=self.p(prefix + "ln.weight"),
            norm_bias=self.p(prefix + "ln.bias"), **self.local(prefix + "lepe")))

    def hybrid(self, q, k, v, heads, flag, name, **options):
        scale = (q.shape[-1] / heads) ** -0.5
        if flag == "v":
            return self.attend("softmax", self.rotated(q, heads), self.rotated(k, heads), v, heads,
                               scale=scale, **options)
        return self.attend(name, q, k, v, heads, scale=scale, rope=(self.t["cos"], self.t["sin"]),
                           **options)

    def pola(self, x, prefix, heads):
        """PolaFormer's attention, of Swin (qkvg) or PVT (qg, kv)."""
        learned = dict(alpha=self.config.alpha, power=self.p(prefix + "power"),
                       channel_scale=self.p(prefix + "scale"))
        if self.has(prefix + "qkvg.weight"):
            q, k, v, g = np.split(self.linear(prefix + "qkvg", x), 4, -1)
        else:
            q, g = np.split(self.linear(prefix + "qg", x), 2, -1)
            source = self.reduced(x, prefix) if self.has(prefix + "sr.weight") else x
            k, v = np.split(self.linear(prefix + "kv", source), 2, -1)
        k = k + self.p(prefix + "positional_encoding")
        if k.shape == q.shape:
            y = self.attend("pola", q, k, v, heads, g=g, out_gate="linear",
                            **learned, **self.local(prefix + "dwc", shared=True))
        else:  # fewer keys than queries: v is interpolated for the convolution
            at = np.maximum((np.arange(q.shape[1]) + 0.5) * k.shape[1] / q.shape[1] - 0.5, 0)
            low = at.astype(int)
            high, part = np.minimum(low + 1, k.shape[1] - 1), (at - low)[:, None]
            wide = v[:, low] * (1 - part) + v[:, high] * part
            y = (self.attend("pola", q, k, v, heads, **learned) +
                 self.depthwise(prefix + "dwc", wide)) * g
        return self.linear(prefix + "proj", y)

    def pvt_softmax(self, x, prefix, heads):
        source = self.reduced(x, prefix) if self.has(prefix + "sr.weight") else x
        q = self.linear(prefix + "q", x)
        k, v = np.split(self.linear(prefix + "kv", source), 2, -1)
        y = self.attend("softmax", q, k, v, heads, scale=(q.shape[-1] / heads) ** -0.5)
        return self.linear(prefix + "proj", y)

    def swin_softmax(self, x, prefix, heads, mask):
        """Softmax with a bias for every pair. The bias is passed as additional channels: q_i gets the one-hot
        vector of i, k_j the column of biases of all queries."""
        windows, n, c = x.shape
        q, k, v = np.split(self.linear(prefix + "qkv", x), 3, -1)
        index = self.p(prefix + "relative_position_index")
        bias = self.p(prefix + "relative_position_bias_table")[index].transpose(2, 0, 1)  # (H, N, N)
        hot = np.broadcast_to(np.eye(n), (heads, n, n)).transpose(1, 0, 2)
        def longer(a, more):
            return np.concatenate([a.reshape(n, heads, -1), more], -1).reshape(n, -1)
        out = []
        for w in range(windows):
            pairs = bias if mask is None else bias + mask[w % len(mask)]
            out.append(self.attend("softmax", longer(q[w] * (c / heads) ** -0.5, hot)[None],
                                   longer(k[w], pairs.transpose(2, 0, 1))[None], v[w:w + 1], heads,
                                   scale=1.0)[0])
        return self.linear(prefix + "proj", np.stack(out))

    def swin_block(self, x):
        c, side = self.config, self.config.window_size
        height, width = c.input_resolution
        y = self.norm("norm1", x, 1e-5).reshape(len(x), height, width, -1)
        y = np.roll(y, (-c.shift_size, -c.shift_size), (1, 2))
        y = y.reshape(len(x), height // side, side, width // side, side, -1).transpose(0, 1, 3, 2, 4, 5)
        shape, y = y.shape, y.reshape(-1, side * side, y.shape[-1])
        self.height = self.width = side
        if c.attn_type == "L":  # the mask of shifted windows is ignored
            y = self.pola(y, "attn.", c.num_heads)
        else:
            y = self.swin_softmax(y, "attn.", c.num_heads, self.p("attn_mask"))
        y = y.reshape(shape).transpose(0, 1, 3, 2, 4, 5).reshape(len(x), height, width, -1)
        x = x + np.roll(y, (c.shift_size, c.shift_size), (1, 2)).reshape(x.shape)
        return x + self.mlp(self.norm("norm2", x, 1e-5))

    def pvt_block(self, x):
        attention = self.pola if self.config.attn_type == "L" else self.pvt_softmax
        x = x + attention(self.norm("norm1", x, 1e-6), "attn.", self.config.num_heads)
        return x + self.mlp(self.norm("norm2", x, 1e-6))

    def conv_block(self, x):
        """A convolutional block of MAViT and NaLaFormer."""
        nala = self.has("cpe1.weight")
        attention = self.nalaformer if nala else self.mavit
        x = x + self.depthwise("cpe1" if nala else "pos", x)
        x = x + self.gamma("gamma_1") * attention(self.norm("norm1.norm", x, 1e-6), "attn.",
                                                  self.config.num_heads, self.config.flag)
        if nala:
            x = x + self.depthwise("cpe2", x)
        return x + self.gamma("gamma_2") * self.ffn(self.norm("norm2.norm", x, 1e-6))

    def merging(self, x):
        """A merging of patches, without attention: the library runs only the linear layer."""
        image = x.reshape(len(x), self.height, self.width, -1)
        y = np.concatenate([image[:, i::2, j::2] for j in (0, 1) for i in (0, 1)], -1)
        return self.linear("reduction", self.norm("norm", y.reshape(len(x), -1, y.shape[-1]), 1e-5))

    def run(self):
        x, heads = self.t["x"], getattr(self.config, "num_heads", 0)
        if self.kind == "Block":
            return self.pvt_block(x) if self.has("mlp.fc1.weight") else self.conv_block(x)
        if self.kind == "VanillaSelfAttention":
            return (self.nalaformer if self.has("ln.weight") else self.mavit)(x, "", heads, "v")
        return {"AddLinearAttention": lambda: self.mavit(x, "", heads, "l"),
                "NormAwareLinearAttn": lambda: self.nalaformer(x, "", heads, "l"),
                "PolaLinearAttention": lambda: self.pola(x, "", heads),
                "SwinTransformerBlock": lambda: self.swin_block(x),
                "WindowAttention": lambda: self.swin_softmax(x, "", heads, self.mask),
                "Attention": lambda: self.pvt_softmax(x, "", heads),
                "PatchMerging": lambda: self.merging(x)}[self.kind]()


def devices():
    for level in LEVELS:
        try:
            yield level, fovea.Device("cpu", isa=level)
        except fovea.Error:
            pass


class Modules(unittest.TestCase):
    """One test per file and level."""

    def check(self, path, device):
        tensors, meta = load(path)
        got, want = Module(tensors, meta, device).run(), tensors["out"]
        self.assertEqual(got.shape, want.shape)
        error = abs(got - want).max() / abs(want).max()
        allowed = max(1e-5, 10 * json.loads(meta["fp32_rel_err"])["out"])
        self.assertTrue(error <= allowed, "error %.2e, allowed %.2e" % (error, allowed))


for _level, _device in devices():
    for _path in sorted(glob.glob(os.path.join(folder(), "*.safetensors"))):
        _name = os.path.basename(_path)[:-len(".safetensors")].replace("-", "_")
        setattr(Modules, "test_%s_%s" % (_name, _level),
                lambda self, path=_path, device=_device: self.check(path, device))


class Complete(unittest.TestCase):
    def test_there_are_modules(self):
        self.assertGreater(len(glob.glob(os.path.join(folder(), "*.safetensors"))), 3, folder())


if __name__ == "__main__":
    counted.main()
