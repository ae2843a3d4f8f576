"""newborn.py: the initial weights of the tiny vision transformer for the digit scenes.

A plain ViT in Hugging Face's format, of less than 1 MB as float16. Its weights are random, with two
exceptions that shorten training: position embeddings start as sines and cosines, and the key weights of a
block start equal to its query weights, so that every token first attends to its neighbourhood.
"""
import array
import itertools
import json
import math
import os
import struct

WIDTH, DEPTH, HEADS, RATIO, PATCH, IMAGE = 64, 4, 2, 4, 28, 336
SIDE = IMAGE // PATCH
FOCUS = 1.5  # factor of the weights of queries and keys: scores then spread over +-9

CONFIG = {"architectures": ["ViTModel"], "model_type": "vit", "hidden_size": WIDTH, "num_hidden_layers": DEPTH,
          "num_attention_heads": HEADS, "intermediate_size": RATIO * WIDTH, "hidden_act": "gelu",
          "layer_norm_eps": 1e-6, "image_size": IMAGE, "patch_size": PATCH, "num_channels": 3, "qkv_bias": True}
PREPROCESSOR = {"image_processor_type": "ViTImageProcessor", "do_resize": True,
                "size": {"height": IMAGE, "width": IMAGE}, "resample": 2, "do_rescale": True,
                "rescale_factor": 1 / 255, "do_normalize": True, "image_mean": [0.5] * 3, "image_std": [0.5] * 3}


def normals(state):
    """Normally distributed numbers, each the sum of twelve uniform ones minus six: the same on every machine."""
    low = (1 << 64) - 1
    while True:
        total = -6.0
        for _ in range(12):
            x = state = state + 0x9e3779b97f4a7c15 & low
            x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9 & low
            x = (x ^ x >> 27) * 0x94d049bb133111eb & low
            total += ((x ^ x >> 31) >> 11) * 2.0 ** -53
        yield total


def waves():
    """Positions of patches as rows: sines and cosines of y, then of x. The longest waves exceed the picture;
    the shortest turn by 0.7 pi from token to token."""
    count = WIDTH // 4
    for y, x in itertools.product(range(SIDE), repeat=2):
        for along, wave in itertools.product((y, x), (math.sin, math.cos)):
            for i in range(count):
                yield wave((along + 0.5) * 0.7 * math.pi * (0.5 * SIDE) ** (-i / (count - 1)))


def invent(seed):
    """{name: (shape, numbers)}"""
    chance, tensors = normals(seed), {}

    def add(name, shape, numbers):
        tensors[name] = shape, array.array("f", numbers)

    def linear(stem, shape, gain=1.0):
        """Random weights that keep the deviation of their input, times `gain`; biases are 0."""
        inputs = math.prod(shape[1:])
        numbers = itertools.islice(chance, shape[0] * inputs)
        add(stem + ".weight", shape, (gain / math.sqrt(inputs) * x for x in numbers))
        add(stem + ".bias", shape[:1], [0] * shape[0])

    def norm(stem):
        add(stem + ".weight", [WIDTH], [1] * WIDTH)
        add(stem + ".bias", [WIDTH], [0] * WIDTH)

    add("vit.embeddings.cls_token", [1, 1, WIDTH], [0] * WIDTH)
    add("vit.embeddings.position_embeddings", [1, 1 + SIDE * SIDE, WIDTH], itertools.chain([0] * WIDTH, waves()))
    linear("vit.embeddings.patch_embeddings.projection", [WIDTH, 3, PATCH, PATCH])
    for i in range(DEPTH):
        block = "vit.encoder.layer.%d." % i
        query, key = (block + "attention.attention." + part for part in ("query", "key"))
        norm(block + "layernorm_before")
        linear(query, [WIDTH, WIDTH], FOCUS)
        linear(key, [WIDTH, WIDTH], FOCUS)
        tensors[key + ".weight"] = tensors[query + ".weight"]
        linear(block + "attention.attention.value", [WIDTH, WIDTH])
        linear(block + "attention.output.dense", [WIDTH, WIDTH])
        norm(block + "layernorm_after")
        linear(block + "intermediate.dense", [RATIO * WIDTH, WIDTH])
        linear(block + "output.dense", [WIDTH, RATIO * WIDTH])
    norm("vit.layernorm")
    return tensors


def write(seed, folder):
    """Writes FOLDER/model.safetensors, config.json and preprocessor_config.json."""
    head, data = {}, b""
    for name, (shape, numbers) in invent(seed).items():
        begin = len(data)
        data += numbers.tobytes()
        head[name] = {"dtype": "F32", "shape": shape, "data_offsets": [begin, len(data)]}
    text = json.dumps(head).encode()
    text += b" " * (-len(text) % 8)
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "model.safetensors"), "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + data)
    for name, values in (("config.json", CONFIG), ("preprocessor_config.json", PREPROCESSOR)):
        with open(os.path.join(folder, name), "w") as f:
            json.dump(values, f, indent=1)
