"""pixel_model.py: a ViT whose first block outputs its pixels, so that `fovea run` shows the result of
preprocessing. Standard library only.

    folder(path, files)      writes the model and `files`, {name: object}
    pixels(fovea, path, picture, *options, patch=4)
                             (width, height, rows, text): rows[y][x] is (r, g, b), normalised; `text` is the
                             program's stderr
    picture(path, width, height, kind)
                             writes a picture of waves, edges and noise
"""
import array
import json
import math
import os
import random
import struct
import subprocess
import tempfile
import zlib

PATCH, SIDE = 4, 32
TIMM = {"architecture": "vit_tiny_patch4_32", "num_classes": 0, "global_pool": "token",
        "model_args": {"img_size": SIDE, "num_heads": 4}}


def _config(patch):
    width = 3 * patch * patch
    return {"architectures": ["ViTModel"], "model_type": "vit", "hidden_size": width, "num_hidden_layers": 1,
            "num_attention_heads": 4, "intermediate_size": width, "image_size": 8 * patch, "patch_size": patch,
            "num_channels": 3, "hidden_act": "gelu", "layer_norm_eps": 1e-12, "qkv_bias": True}


def _zeros(*shape):
    return [0.0] * math.prod(shape), shape


def _ones(n):
    return [1.0] * n, (n,)


def _tensors(timm, patch):
    width, side = 3 * patch * patch, 8
    eye = [0.0] * (width * width)
    eye[::width + 1] = [1.0] * width
    if timm:
        first, norm, block = ("patch_embed.proj", "cls_token", "pos_embed"), "norm", "blocks.0."
        dense = {"attn.qkv": 3 * width, "attn.proj": width, "mlp.fc1": width, "mlp.fc2": width}
        norms = "norm1", "norm2"
    else:
        first = "embeddings.patch_embeddings.projection", "embeddings.cls_token", "embeddings.position_embeddings"
        norm, block = "layernorm", "encoder.layer.0."
        dense = dict.fromkeys(("attention.attention.query", "attention.attention.key", "attention.attention.value",
                               "attention.output.dense", "intermediate.dense", "output.dense"), width)
        norms = "layernorm_before", "layernorm_after"
    out = {first[0] + ".weight": (eye, (width, 3, patch, patch)), first[0] + ".bias": _zeros(width),
           first[1]: _zeros(1, 1, width), first[2]: _zeros(1, side * side + 1, width),
           norm + ".weight": _ones(width), norm + ".bias": _zeros(width)}
    for name, rows in dense.items():
        out[block + name + ".weight"] = _zeros(rows, width)
        out[block + name + ".bias"] = _zeros(rows)
    for name in norms:
        out[block + name + ".weight"] = _ones(width)
        out[block + name + ".bias"] = _zeros(width)
    return out


def folder(path, files=None, patch=PATCH):
    """Writes a model with patches of `patch` pixels. `files` may have timm's config.json, in which case tensors have
    timm's names, or the section "fovea" of config.json."""
    files = dict(files or {})
    config = files.pop("config.json", {})
    config = {**(TIMM if "architecture" in config else _config(patch)), **config}
    head, data = {}, b""
    os.makedirs(path, exist_ok=True)
    for name, (values, shape) in _tensors("architecture" in config, patch).items():
        blob = array.array("f", values).tobytes()
        head[name] = {"dtype": "F32", "shape": list(shape), "data_offsets": [len(data), len(data) + len(blob)]}
        data += blob
    text = json.dumps(head).encode()
    with open(os.path.join(path, "model.safetensors"), "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + data)
    for name, value in {"config.json": config, **files}.items():
        with open(os.path.join(path, name), "w", encoding="utf-8") as f:
            json.dump(value, f)


def _read(path, name):
    with open(path, "rb") as f:
        (size,) = struct.unpack("<Q", f.read(8))
        entry = json.loads(f.read(size))[name]
        begin, end = entry["data_offsets"]
        f.seek(8 + size + begin)
        values = array.array("f")
        values.frombytes(f.read(end - begin))
    return values


def run(fovea, path, image, *options):
    return subprocess.run([fovea, "run", path, image, "--compute", "f32", *options], capture_output=True, text=True,
                          env=dict(os.environ, FOVEA_WISDOM=""), timeout=120, check=False)


def pixels(fovea, path, image, *options, patch=PATCH):
    with tempfile.TemporaryDirectory() as d:
        out = os.path.join(d, "o.safetensors")
        r = run(fovea, path, image, "-o", out, "--hidden", "--json", *options)
        if r.returncode:
            raise RuntimeError(r.stderr)
        shown = json.loads(r.stdout)
        values = _read(out, "feat.hidden1")
    columns, rows, area = shown["width"] // patch, shown["height"] // patch, patch * patch

    def at(x, y):
        token = 1 + (y // patch) * columns + x // patch
        first = token * 3 * area + (y % patch) * patch + x % patch
        return tuple(values[first + c * area] for c in range(3))
    width, height = columns * patch, rows * patch
    return width, height, [[at(x, y) for x in range(width)] for y in range(height)], r.stderr


def _colour(x, y, width, height, noise):
    if x > width * 0.6 and y > height * 0.3 and x < width * 0.8:
        return 255, 0, 255
    return tuple(max(0, min(255, round(128 + 120 * math.sin(x / (2 + c) + y / (5 - c)) + noise.gauss(0, 12))))
                 for c in range(3))


def _chunk(name, body):
    return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))


def _png(path, width, height, depth, kind, rows, more=b""):
    body = b"".join(b"\0" + row for row in rows)
    with open(path, "wb") as f:
        f.write(b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, kind, 0, 0, 0))
                + more + _chunk(b"IDAT", zlib.compress(body)) + _chunk(b"IEND", b""))


def picture(path, width, height, kind="rgb"):
    """Writes a PNG of a kind: rgb, rgba, grey, grey-alpha, grey16, or palette, which has transparent entries."""
    noise = random.Random(width * 1000 + height)
    rgb = [[_colour(x, y, width, height, noise) for x in range(width)] for y in range(height)]
    alpha = [[(x * 7 + y * 5) % 256 if x * 2 < width else 255 * (y % 3 > 0) for x in range(width)]
             for y in range(height)]
    if kind == "rgb":
        _png(path, width, height, 8, 2, [bytes(v for p in row for v in p) for row in rgb])
    elif kind == "rgba":
        _png(path, width, height, 8, 6, [bytes(v for p, a in zip(row, line) for v in (*p, a))
                                         for row, line in zip(rgb, alpha)])
    elif kind == "grey":
        _png(path, width, height, 8, 0, [bytes(p[0] for p in row) for row in rgb])
    elif kind == "grey-alpha":
        _png(path, width, height, 8, 4, [bytes(v for p, a in zip(row, line) for v in (p[0], a))
                                         for row, line in zip(rgb, alpha)])
    elif kind == "grey16":
        _png(path, width, height, 16, 0, [b"".join(struct.pack(">H", p[0] * 256 + p[1]) for p in row)
                                          for row in rgb])
    else:
        colours = [(i, 255 - i, i * 3 % 256) for i in range(0, 256, 4)]
        plte = bytes(v for p in colours for v in p)
        trns = bytes((i * 40) % 256 for i in range(48))
        _png(path, width, height, 8, 3, [bytes(p[0] // 4 for p in row) for row in rgb],
             _chunk(b"PLTE", plte) + _chunk(b"tRNS", trns))
