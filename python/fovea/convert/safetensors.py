"""safetensors.py: reads and writes tensors as safetensors files.

8 bytes: n; n bytes of JSON: name -> dtype, shape, data_offsets; the data.
"""
import functools
import json
import mmap
import os
import struct

from . import Refused
from .torch_files import BYTES, natural

HEADER = 100_000_000  # bytes, as the reference implementation


class Stored:
    """A tensor of a file."""

    def __init__(self, name, dtype, shape, data):
        self.name, self.dtype, self.shape, self.data = name, dtype, tuple(shape), data
        self.count = functools.reduce(int.__mul__, self.shape, 1)
        self.size = len(data)

    def read(self):
        return self.data


def stored(name, entry, data):
    """A tensor from an entry of the header, after checking it against the file's size."""
    dtype, shape, place = entry["dtype"], entry["shape"], entry["data_offsets"]
    if dtype not in BYTES:
        raise Refused("tensor %.80s has type %.20s, which is not supported" % (name, dtype))
    begin, end = place
    if not all(map(natural, (*shape, begin, end))) or not begin <= end <= len(data):
        raise ValueError("tensor %.80s extends past the end of the file" % name)
    t = Stored(name, dtype, shape, data[begin:end])
    if t.count * BYTES[dtype] != t.size:
        raise ValueError("tensor %.80s: shape and data_offsets differ in size" % name)
    return t


def read(path):
    """{name: tensor} of a file, which stays mapped as long as the tensors exist."""
    try:
        with open(path, "rb") as f:
            data = memoryview(mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ))
        n, = struct.unpack("<Q", data[:8])
        if n > HEADER or n > len(data) - 8:
            raise ValueError("it is not a safetensors file")
        head = json.loads(bytes(data[8:8 + n]))
        return {name: stored(name, entry, data[8 + n:]) for name, entry in head.items() if name != "__metadata__"}
    except OSError as e:
        raise Refused("%s: %s" % (path, e.strerror or e)) from None
    except Refused as e:
        raise Refused("%s: %s" % (path, e)) from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, struct.error) as e:
        raise Refused("%s: cannot be read: %s (a truncated download?)" % (path, e or type(e).__name__)) from None


def write(path, tensors):
    """Writes a file, which appears when it is complete. Wider types come first, so that all values are aligned."""
    order = sorted(tensors.items(), key=lambda item: (-BYTES[item[1].dtype], item[0]))
    head, at = {"__metadata__": {"format": "pt"}}, 0
    for name, tensor in order:
        head[name] = {"dtype": tensor.dtype, "shape": tensor.shape, "data_offsets": [at, at + tensor.size]}
        at += tensor.size
    text = json.dumps(head).encode()
    text += b" " * (-len(text) % 8)
    part = path + ".part"
    try:
        with open(part, "wb") as f:
            f.write(struct.pack("<Q", len(text)) + text)
            for _, tensor in order:
                f.write(tensor.read())
        os.replace(part, path)
    finally:
        if os.path.exists(part):
            os.remove(part)
