"""vit_ncnn.py: writes a DINOv2 checkpoint as ncnn's two files: a list of layers, and their weights in that order.

Shapes are ncnn's: w is the fastest axis, so rows of tokens are (w = width, h = tokens). Attention by ncnn's
SDPA, or linear: phi(q) (phi(k)^T v) / (phi(q) sum phi(k) + eps), phi = ELU + 1.
"""
import os
import struct

import numpy as np

import vit_checkpoint

ADD, MULTIPLY, DIVIDE = 0, 2, 3  # BinaryOp
TRANSPOSE, HEADS_OUTSIDE = 1, 2  # Permute: (h, w, ..), (w, c, h)
TAG = struct.pack("<I", 0)       # precedes weights that could have other types: they are float32


class Network:
    """Layers in order; a call adds one and returns the name of its result."""

    def __init__(self, checkpoint):
        self.checkpoint, self.layers, self.weights = checkpoint, [], []

    def __call__(self, op, *inputs, weights=(), **parameters):
        name = "%s_%d" % (op.lower(), len(self.layers))
        self.layers.append((op, inputs, name, ["%s=%s" % (k.lstrip("_"), v) for k, v in parameters.items()]))
        self.weights += weights
        return name

    def values(self, array):
        """A constant of one or two axes."""
        array = np.atleast_2d(np.asarray(array, np.float32))
        return self("MemoryData", _0=array.shape[1], _1=array.shape[0], weights=[array])

    def scalar(self, op, x, value):
        return self("BinaryOp", x, _0=op, _1=1, _2=repr(float(value)))

    def linear(self, x, name):
        weight, bias = (self.checkpoint[name + part] for part in (".weight", ".bias"))
        return self("Gemm", x, _3=1, _5=1, _6=1, _8=weight.shape[0], _9=weight.shape[1], _10=4,
                    weights=[TAG, weight, TAG, bias])

    def norm(self, x, name):
        return self("LayerNorm", x, _0=self.checkpoint.width, _1=self.checkpoint.eps,
                    weights=[self.checkpoint[name + part] for part in (".weight", ".bias")])

    def write(self, stem):
        """stem.param and stem.bin. A result with several readers goes through a Split."""
        left = {}
        for _, inputs, _, _ in self.layers:
            for x in inputs:
                left[x] = left.get(x, 0) + 1
        readers = dict(left)

        def read(x):
            left[x] -= 1
            return x if readers[x] == 1 else "%s_%d" % (x, left[x])

        lines, blobs = [], 0
        for op, inputs, name, parameters in self.layers:
            lines.append(" ".join([op, name, str(len(inputs)), "1", *map(read, inputs), name, *parameters]))
            blobs += 1
            if readers.get(name, 0) > 1:
                copies = ["%s_%d" % (name, i) for i in range(readers[name])]
                lines.append(" ".join(["Split", "split_" + name, "1", str(len(copies)), name, *copies]))
                blobs += len(copies)
        with open(stem + ".param", "w") as f:
            f.write("7767517\n%d %d\n%s\n" % (len(lines), blobs, "\n".join(lines)))
        with open(stem + ".bin", "wb") as f:
            for part in self.weights:
                f.write(part if isinstance(part, bytes) else np.ascontiguousarray(part, "<f4").data)


def _heads(n, x):
    """(width, tokens) -> (head width, tokens, heads)"""
    c = n.checkpoint
    return n("Permute", n("Reshape", x, _0=c.head_width, _1=c.heads, _2=-1), _0=HEADS_OUTSIDE)


def _softmax(n, q, k, v, tokens):
    return n("SDPA", q, k, v)


def _linear(n, q, k, v, tokens):
    q, k = (n.scalar(ADD, n("ELU", x, _0=1.0), 1) for x in (q, k))
    state = n("MatMul", n("Permute", k, _0=TRANSPOSE), v)
    total = n("Reduction", k, _1=0, **{"_-23303": "1,1"}, _4=1, _5=1)
    divisor = n.scalar(ADD, n("MatMul", q, total, _0=1), vit_checkpoint.EPS * tokens)
    return n("BinaryOp", n("MatMul", q, state), divisor, _0=DIVIDE)


def build(checkpoint, size, attention):
    """The network; its input is `pixels`, its output what `out` names."""
    n = Network(checkpoint)
    attend = {"softmax": _softmax, "linear": _linear}[attention]
    tokens, patch, width = checkpoint.tokens(size), checkpoint.patch, checkpoint.width
    n.layers.append(("Input", (), "pixels", []))
    weight, bias = (checkpoint["embeddings.patch_embeddings.projection" + part] for part in (".weight", ".bias"))
    x = n("Convolution", "pixels", _0=width, _1=patch, _3=patch, _5=1, _6=weight.size, weights=[TAG, weight, bias])
    x = n("Permute", n("Reshape", x, _0=tokens - 1, _1=width), _0=TRANSPOSE)
    x = n("BinaryOp", x, n.values(checkpoint.positions(size)), _0=ADD)
    x = n("Concat", n.values(checkpoint.class_row()), x, _0=0)
    for i in range(checkpoint.depth):
        name = vit_checkpoint.block_names(i)
        y = n.norm(x, name["norm1"])
        y = attend(n, *(_heads(n, n.linear(y, name[part])) for part in "qkv"), tokens)
        y = n("Reshape", n("Permute", y, _0=HEADS_OUTSIDE), _0=width, _1=tokens)
        y = n("BinaryOp", n.linear(y, name["proj"]), n.values(checkpoint[name["scale1"]]), _0=MULTIPLY)
        x = n("BinaryOp", x, y, _0=ADD)
        y = n("GELU", n.linear(n.norm(x, name["norm2"]), name["fc1"]))
        y = n("BinaryOp", n.linear(y, name["fc2"]), n.values(checkpoint[name["scale2"]]), _0=MULTIPLY)
        x = n("BinaryOp", x, y, _0=ADD)
    n.out = n.norm(x, "layernorm")
    return n


def export(checkpoint, size, attention, folder):
    """Writes the two files; returns their common path, and the name of the output."""
    stem = os.path.join(folder, "%s-%d" % (attention, size))
    network = build(checkpoint, size, attention)
    network.write(stem)
    return stem, network.out
