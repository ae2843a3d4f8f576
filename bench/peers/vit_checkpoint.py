"""vit_checkpoint.py: DINOv2 in Hugging Face's form, written with random weights and read back. NumPy only.

All engines share one folder: Fovea loads it, the ONNX graphs refer to the bytes of its safetensors file,
PyTorch and ncnn get the arrays.
"""
import dataclasses
import json
import math
import os
import struct

import numpy as np

# name: width, blocks, heads. `tiny` is for tests.
SIZES = {"dinov2-s": (384, 12, 6), "dinov2-b": (768, 12, 12), "dinov2-l": (1024, 24, 16), "tiny": (64, 2, 2)}
PATCH, IMAGE = 14, 518
EPS = 1e-6  # of linear attention, multiplied by the number of tokens; attention.h


@dataclasses.dataclass
class Tensor:
    values: np.ndarray  # mapped, not read
    offset: int         # of its bytes in the file


class Checkpoint:
    """config.json and model.safetensors of `folder`; weights by the names of Hugging Face."""

    def __init__(self, folder):
        self.folder = folder
        self.weights_file = os.path.join(folder, "model.safetensors")
        with open(os.path.join(folder, "config.json")) as f:
            config = json.load(f)
        if config["model_type"] != "dinov2" or config["use_swiglu_ffn"]:
            raise ValueError("%s: only DINOv2 with a plain MLP is known here" % folder)
        self.width, self.depth = config["hidden_size"], config["num_hidden_layers"]
        self.heads, self.patch = config["num_attention_heads"], config["patch_size"]
        self.eps = config["layer_norm_eps"]
        self.head_width = self.width // self.heads
        self.tensors = _tensors(self.weights_file)
        self.bytes = sum(t.values.nbytes for t in self.tensors.values())

    def __getitem__(self, name):
        return self.tensors[name].values

    def tokens(self, size):
        """Number of tokens for a picture of size x size pixels."""
        return 1 + (size // self.patch) ** 2

    def positions(self, size):
        """The positions that are added to the patches of such a picture: the table, resized as transformers
        does."""
        table = self["embeddings.position_embeddings"][0, 1:]
        side = math.isqrt(len(table))
        weights = _bicubic(side, size // self.patch)
        resized = np.einsum("yi,xj,ijc->yxc", weights, weights, table.reshape(side, side, -1), optimize=True)
        return resized.reshape(-1, self.width).astype(np.float32)

    def class_row(self):
        """The class token with its position, (1, width)."""
        return self["embeddings.cls_token"][0] + self["embeddings.position_embeddings"][0, :1]


def _tensors(path):
    """{name: Tensor} of a safetensors file of float32."""
    with open(path, "rb") as f:
        size, = struct.unpack("<Q", f.read(8))
        head = json.loads(f.read(size))
    tensors = {}
    for name, entry in head.items():
        if name != "__metadata__":
            assert entry["dtype"] == "F32", "%s: float32 is expected" % name
            offset = 8 + size + entry["data_offsets"][0]
            values = np.memmap(path, np.float32, "r", offset, tuple(entry["shape"]))
            tensors[name] = Tensor(values, offset)
    return tensors


def _bicubic(n, out):
    """Weights (out, n) of PyTorch's bicubic interpolation: a = -0.75, pixel centres, edges repeated."""
    a = -0.75
    weights = np.zeros((out, n))
    for o in range(out):
        at = (o + 0.5) * n / out - 0.5
        for i in range(math.floor(at) - 1, math.floor(at) + 3):
            x = abs(at - i)
            w = ((a + 2) * x - (a + 3)) * x * x + 1 if x <= 1 else ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
            weights[o, min(max(i, 0), n - 1)] += w
    return weights


def block_names(i):
    """The prefix of block i, and its tensors by short names."""
    names = {"norm1": "norm1", "norm2": "norm2", "q": "attention.attention.query",
             "k": "attention.attention.key", "v": "attention.attention.value",
             "proj": "attention.output.dense", "fc1": "mlp.fc1", "fc2": "mlp.fc2",
             "scale1": "layer_scale1.lambda1", "scale2": "layer_scale2.lambda1"}
    return {short: "encoder.layer.%d.%s" % (i, name) for short, name in names.items()}


# ---- random weights and pictures ----

def picture(size, seed):
    """(1, 3, size, size), normalised."""
    return np.random.default_rng(seed).standard_normal((1, 3, size, size), np.float32)


def write(folder, name, seed=0):
    """Writes a checkpoint of the size `name`. Activations stay near 1 at any depth: products are averaged, and
    values that are added to the residual stream are smaller by 1/sqrt(2 depth)."""
    width, depth, heads = SIZES[name]
    random = np.random.default_rng(seed)
    tensors = {}

    def vector(name, mean, *shape):
        tensors[name] = mean + 0.02 * random.standard_normal(shape, np.float32)

    def linear(name, rows, columns, gain=1.0):
        tensors[name + ".weight"] = random.standard_normal((rows, columns), np.float32) * np.float32(
            gain / math.sqrt(columns))
        vector(name + ".bias", 0, rows)

    def norm(name):
        vector(name + ".weight", 1, width)
        vector(name + ".bias", 0, width)

    linear("embeddings.patch_embeddings.projection", width, 3 * PATCH * PATCH)
    patches = "embeddings.patch_embeddings.projection.weight"
    tensors[patches] = tensors[patches].reshape(width, 3, PATCH, PATCH)
    vector("embeddings.cls_token", 0, 1, 1, width)
    vector("embeddings.mask_token", 0, 1, width)
    vector("embeddings.position_embeddings", 0, 1, 1 + (IMAGE // PATCH) ** 2, width)
    for i in range(depth):
        names = block_names(i)
        for part in ("norm1", "norm2"):
            norm(names[part])
        for part in ("q", "k", "v"):
            linear(names[part], width, width)
        linear(names["proj"], width, width, 1 / math.sqrt(2 * depth))
        linear(names["fc1"], 4 * width, width)
        linear(names["fc2"], width, 4 * width, 1 / math.sqrt(2 * depth))
        for part in ("scale1", "scale2"):
            vector(names[part], 1, width)
    norm("layernorm")

    os.makedirs(folder, exist_ok=True)
    _save(os.path.join(folder, "model.safetensors"), tensors)
    config = {"architectures": ["Dinov2Model"], "model_type": "dinov2", "hidden_size": width,
              "num_hidden_layers": depth, "num_attention_heads": heads, "mlp_ratio": 4, "hidden_act": "gelu",
              "layer_norm_eps": 1e-6, "patch_size": PATCH, "image_size": IMAGE, "num_channels": 3,
              "qkv_bias": True, "layerscale_value": 1.0, "use_swiglu_ffn": False, "torch_dtype": "float32"}
    with open(os.path.join(folder, "config.json"), "w") as f:
        json.dump(config, f, indent=1)


def _save(path, tensors):
    head, at = {"__metadata__": {"format": "pt"}}, 0
    for name, values in tensors.items():
        head[name] = {"dtype": "F32", "shape": values.shape, "data_offsets": [at, at + values.nbytes]}
        at += values.nbytes
    text = json.dumps(head).encode()
    text += b" " * (-(8 + len(text)) % 4096)  # padding, so that the tensors can be mapped
    with open(path + ".part", "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for values in tensors.values():
            f.write(values.astype("<f4", copy=False).data)
    os.replace(path + ".part", path)
