"""safetensors.py: writes tensors as a safetensors file.

8 bytes: n; n bytes of JSON: name -> dtype, shape, data_offsets; the data.
"""
import json
import os
import struct

from .torch_files import BYTES


def write(path, tensors):
    """The file takes its place when it is whole. Wider types come first, so that all values are aligned."""
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
