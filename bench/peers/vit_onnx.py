"""vit_onnx.py: a DINOv2 checkpoint as an ONNX graph for one picture size, with softmax or linear attention.

The file is small: weights are external data, which refer to the bytes of FOLDER/model.safetensors.
Input `pixels` (1, 3, size, size), normalised; output `last_hidden_state` (tokens, width). `softmax` is
written as PyTorch's exporter writes it, MatMul, Softmax, MatMul; `fused` uses ONNX Runtime's
MultiHeadAttention in its place; `linear` is phi(q) (phi(k)^T v) / (phi(q) sum phi(k) + eps), phi = ELU + 1.
Needs NumPy and onnx.
"""
import os

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import vit_checkpoint

OPSET = [helper.make_opsetid("", 20), helper.make_opsetid("com.microsoft", 1)]


class Graph:
    """Nodes in order; every method adds one and returns the name of its result."""

    def __init__(self, checkpoint):
        self.checkpoint, self.nodes, self.constants = checkpoint, [], {}

    def __call__(self, op, *inputs, domain="", **attributes):
        out = "%s_%d" % (op.lower(), len(self.nodes))
        self.nodes.append(helper.make_node(op, inputs, [out], name=out, domain=domain, **attributes))
        return out

    def constant(self, values, dtype=np.float32):
        """A constant in the file itself; equal constants are stored once."""
        values = np.asarray(values, dtype)
        name = "constant_%s" % (values.tolist() if values.size < 8 else len(self.constants))
        self.constants[name] = numpy_helper.from_array(values, name)
        return name

    def weight(self, name):
        """A tensor of the checkpoint, by reference."""
        if name not in self.constants:
            tensor = self.checkpoint.tensors[name]
            proto = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=tensor.values.shape,
                                data_location=TensorProto.EXTERNAL)
            for key, value in (("location", os.path.basename(self.checkpoint.weights_file)),
                               ("offset", tensor.offset), ("length", tensor.values.nbytes)):
                proto.external_data.add(key=key, value=str(value))
            self.constants[name] = proto
        return name

    def reshape(self, x, *shape):
        return self("Reshape", x, self.constant(shape, np.int64))

    def linear(self, x, name):
        return self("Gemm", x, self.weight(name + ".weight"), self.weight(name + ".bias"), transB=1)

    def norm(self, x, name):
        return self("LayerNormalization", x, self.weight(name + ".weight"), self.weight(name + ".bias"),
                    axis=-1, epsilon=self.checkpoint.eps)


def _heads(g, x):
    """(tokens, width) -> (1, heads, tokens, head width)"""
    c = g.checkpoint
    return g("Transpose", g.reshape(x, 1, -1, c.heads, c.head_width), perm=[0, 2, 1, 3])


def _rows(g, x):
    return g.reshape(g("Transpose", x, perm=[0, 2, 1, 3]), -1, g.checkpoint.width)


def _softmax(g, q, k, v, tokens):
    q, k, v = (_heads(g, x) for x in (q, k, v))
    scores = g("MatMul", q, g("Transpose", k, perm=[0, 1, 3, 2]))
    scores = g("Mul", scores, g.constant(g.checkpoint.head_width ** -0.5))
    return _rows(g, g("MatMul", g("Softmax", scores, axis=-1), v))


def _fused(g, q, k, v, tokens):
    q, k, v = (g.reshape(x, 1, -1, g.checkpoint.width) for x in (q, k, v))
    out = g("MultiHeadAttention", q, k, v, domain="com.microsoft", num_heads=g.checkpoint.heads)
    return g.reshape(out, -1, g.checkpoint.width)


def _linear(g, q, k, v, tokens):
    q, k, v = (_heads(g, x) for x in (q, k, v))
    q, k = (g("Add", g("Elu", x), g.constant(1)) for x in (q, k))
    state = g("MatMul", g("Transpose", k, perm=[0, 1, 3, 2]), v)
    total = g("ReduceSum", k, g.constant([2], np.int64), keepdims=1)
    divisor = g("MatMul", q, g("Transpose", total, perm=[0, 1, 3, 2]))
    divisor = g("Add", divisor, g.constant(vit_checkpoint.EPS * tokens))
    return _rows(g, g("Div", g("MatMul", q, state), divisor))


def build(checkpoint, size, attention):
    """The ModelProto. It finds its weights only from the checkpoint's folder."""
    g = Graph(checkpoint)
    attend = {"softmax": _softmax, "fused": _fused, "linear": _linear}[attention]
    tokens, patch = checkpoint.tokens(size), checkpoint.patch
    embed = "embeddings.patch_embeddings.projection"
    x = g("Conv", "pixels", g.weight(embed + ".weight"), g.weight(embed + ".bias"),
          kernel_shape=[patch, patch], strides=[patch, patch])
    x = g("Transpose", g.reshape(x, checkpoint.width, -1), perm=[1, 0])
    x = g("Add", x, g.constant(checkpoint.positions(size)))
    x = g("Concat", g.constant(checkpoint.class_row()), x, axis=0)
    for i in range(checkpoint.depth):
        name = vit_checkpoint.block_names(i)
        y = g.norm(x, name["norm1"])
        y = attend(g, *(g.linear(y, name[part]) for part in "qkv"), tokens)
        y = g.linear(y, name["proj"])
        x = g("Add", x, g("Mul", y, g.weight(name["scale1"])))
        y = g("Gelu", g.linear(g.norm(x, name["norm2"]), name["fc1"]))
        y = g.linear(y, name["fc2"])
        x = g("Add", x, g("Mul", y, g.weight(name["scale2"])))
    g.norm(x, "layernorm")
    g.nodes[-1].output[0] = "last_hidden_state"
    return helper.make_model(
        helper.make_graph(
            g.nodes, "dinov2-%s" % attention,
            [helper.make_tensor_value_info("pixels", TensorProto.FLOAT, [1, 3, size, size])],
            [helper.make_tensor_value_info("last_hidden_state", TensorProto.FLOAT, [tokens, checkpoint.width])],
            list(g.constants.values())),
        opset_imports=OPSET, ir_version=9, producer_name="fovea")


def export(checkpoint, size, attention):
    """Writes the graph to the folder of its weights; returns its path."""
    path = os.path.join(checkpoint.folder, "%s-%d.onnx" % (attention, size))
    onnx.save_model(build(checkpoint, size, attention), path)
    return path
