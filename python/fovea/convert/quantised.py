"""quantised.py: converts quantised weights to float32: w = (q - zero point) * scale.

The format is recognised by the names of the tensors that accompany a weight q of int8 or FP8:
    torchao              _weight_qdata, _weight_scale, _weight_zero_point
    bitsandbytes         weight, SCB (a row's largest value, which is 127 steps)
    compressed-tensors   weight, weight_scale, weight_zero_point; or weight_packed: 4 or 8 bits in 32-bit words
    transformers' FP8    weight, weight_scale_inv
A scale applies to the whole tensor, a row, or a block of rows and columns. Scales of activations are ignored.
"""
import functools
import json
import re

from . import Refused

METHODS = ("torchao", "bitsandbytes", "compressed-tensors", "fp8", "fbgemm_fp8", "modelopt")
FORMS = ("int8 of torchao, bitsandbytes and compressed-tensors (4 bits of the last as well), and FP8 with a scale for "
         "each tensor, channel or block")
SMALL = ("I8", "F8_E4M3", "F8_E5M2")
# Tensors of a quantised layer that are not needed once its weight is float32.
LEFT = re.compile(r"weight_format|weight_shape|"
                  r"(input|output|activation|input_activation)_(scale|zero_point|global_scale)")
QDATA = re.compile(r"(?P<layer>(.*\.)?)_(?P<name>\w+)_qdata")
UNREAD = {"weight_g_idx": "columns in another order (actorder)", "qzeros": "weights of GPTQ or AWQ",
          "quant_state.bitsandbytes__nf4": "4 bits of bitsandbytes",
          "quant_state.bitsandbytes__fp4": "4 bits of bitsandbytes", "absmax": "4 bits of bitsandbytes",
          "weight_global_scale": "scales of scales (NVFP4)"}


def numpy():
    try:
        import numpy as np
    except ImportError:
        raise Refused("quantised weights need numpy: pip install numpy, or apt install python3-numpy") from None
    return np


def described(config):
    """The section of config.json that says how a model was quantised, or {}."""
    for section in (config, *(v for v in config.values() if isinstance(v, dict))):
        told = section.get("quantization_config") or section.get("compression_config")
        if isinstance(told, dict):
            return told
    return {}


def without(config):
    """The config.json of the float32 model."""
    kept = {k: without(v) if isinstance(v, dict) else v for k, v in config.items()
            if k not in ("quantization_config", "compression_config")}
    return {k: "float32" if k in ("dtype", "torch_dtype") else v for k, v in kept.items()}


# ---- numbers ----

@functools.lru_cache(maxsize=None)
def table(dtype):
    """The values of the 256 codes of an 8-bit type."""
    np = numpy()
    codes = np.arange(256)
    if dtype == "F8_E8M0":
        return np.where(codes == 255, np.nan, np.exp2(codes - 127.0)).astype(np.float32)
    bits, bias = (3, 7) if dtype == "F8_E4M3" else (2, 15)
    exponent, fraction = codes >> bits & (1 << 7 - bits) - 1, (codes & (1 << bits) - 1) / (1 << bits)
    size = np.where(exponent == 0, fraction * 2.0 ** (1 - bias), (1 + fraction) * np.exp2(exponent - float(bias)))
    if dtype == "F8_E4M3":
        size[codes & 127 == 127] = np.nan
    else:
        top = exponent == 31
        size[top] = np.where(fraction[top] == 0, np.inf, np.nan)
    return np.where(codes & 128, -size, size).astype(np.float32)


def floats(t, codes=None):
    """The values of a tensor as float32; `codes`: the 8-bit type of its bytes, if they are not whole numbers."""
    np = numpy()
    data = t.read()
    if codes or t.dtype.startswith("F8_"):
        out = table(codes or t.dtype)[np.frombuffer(data, np.uint8)]
    elif t.dtype == "BF16":
        out = (np.frombuffer(data, "<u2").astype(np.uint32) << 16).view(np.float32)
    else:
        kind = {"F": "f", "I": "i", "U": "u", "B": "u"}[t.dtype[0]]
        width = 1 if t.dtype == "BOOL" else int(t.dtype[1:]) // 8
        out = np.frombuffer(data, "<%s%d" % (kind, width)).astype(np.float32)
    return out.reshape(t.shape)


def unpacked(words, bits, columns):
    """Unpacks whole numbers of `bits` bits from 32-bit words, row by row, the lowest bits first."""
    np = numpy()
    steps = np.arange(0, 32, bits, dtype=np.uint32)
    values = (words[..., None] >> steps & np.uint32((1 << bits) - 1)).reshape(words.shape[0], -1)[:, :columns]
    return values.astype(np.float32) - (1 << bits - 1)


# ---- scales ----

def blocks_of(told):
    """The sizes (rows, columns) of blocks with one scale that the configuration names."""
    found = [told["weight_block_size"]] if told.get("weight_block_size") else []
    for group in (told.get("config_groups") or {}).values():
        weights = (group or {}).get("weights") or {}
        if weights.get("block_structure"):
            found.append(weights["block_structure"])
        if weights.get("group_size") and weights["group_size"] > 0:
            found.append([1, weights["group_size"]])
    return [tuple(b) for b in found if isinstance(b, (list, tuple)) and len(b) == 2 and
            all(isinstance(n, int) and n > 0 for n in b)]


def blocks_for(name, shape, scales, told):
    """Rows and columns of a block: a size that the configuration names, else one that divides the weight
    evenly."""
    fits = [b for b in blocks_of(told) if tuple(-(-n // k) for n, k in zip(shape, b)) == scales]
    if fits:
        return fits[0]
    if blocks_of(told) or any(n % k for n, k in zip(shape, scales)):
        raise Refused("tensor %.80s of shape %s has scales of shape %s, which no block of config.json makes" %
                      (name, shape, scales))
    return tuple(n // k for n, k in zip(shape, scales))


def spread(name, scales, shape, told):
    """A function that expands scales (or zero points) of shape `scales` so that they broadcast to a weight of
    shape `shape`."""
    count = functools.reduce(int.__mul__, scales, 1)
    if count == 1:
        return lambda values: values.reshape(())
    if len(scales) == 1 and shape and scales[0] == shape[0]:
        return lambda values: values.reshape(scales + (1,) * (len(shape) - 1))
    if len(scales) == len(shape) and all(k in (1, n) for k, n in zip(scales, shape)):
        return lambda values: values
    if len(scales) != 2 or len(shape) != 2 or not count:
        raise Refused("tensor %.80s of shape %s has scales of shape %s, which is not supported" % (name, shape, scales))
    rows, columns = blocks_for(name, shape, scales, told)
    return lambda values: values.repeat(rows, 0).repeat(columns, 1)[:shape[0], :shape[1]]


# ---- weights ----

class Float:
    """A float32 tensor, computed when it is written."""
    dtype = "F32"

    def __init__(self, name, shape, make):
        self.name, self.shape, self.make = name, tuple(shape), make
        self.count = functools.reduce(int.__mul__, self.shape, 1)
        self.size = 4 * self.count

    def read(self):
        values = numpy().ascontiguousarray(self.make(), dtype="<f4")
        if values.shape != self.shape:
            raise Refused("tensor %.80s has no values of shape %s" % (self.name, self.shape))
        return values.tobytes()


def plain(name, q, scale, zero, told, factor=1):
    """(q - zero) * scale, for tensors."""
    codes = "F8_E8M0" if scale.dtype == "U8" else None
    scales = spread(name, scale.shape, q.shape, told)
    zeros = spread(name, zero.shape, q.shape, told) if zero else None

    def make():
        values = floats(q) - zeros(floats(zero)) if zero else floats(q)
        return values * scales(floats(scale, codes) * factor)

    return Float(name, q.shape, make)


def bits_of(told, columns, words):
    """The number of bits, 4 or 8, that the configuration and the number of words allow."""
    groups = (told.get("config_groups") or {}).values()
    said = {((g or {}).get("weights") or {}).get("num_bits") for g in groups} - {None}
    fits = [b for b in (4, 8) if -(-columns * b // 32) == words and (not said or b in said)]
    return fits[0] if len(fits) == 1 else None


def packed(name, q, shape, scale, zero, told):
    np = numpy()
    shape = tuple(int(n) for n in np.frombuffer(shape.read(), "<i8"))
    bits = bits_of(told, shape[1], q.shape[1]) if len(shape) == len(q.shape) == 2 else None
    if not bits or q.dtype != "I32" or q.shape[0] != shape[0] or min(shape) < 0:
        raise Refused("tensor %.80s is packed in a way that is not supported; only 4 and 8 bits in 32 are" % name)

    scales, zeros = spread(name, scale.shape, shape, told), None
    words = zero is not None and zero.dtype == "I32"
    if zero is not None:
        zeros = spread(name, (shape[0], *zero.shape[1:]) if words else zero.shape, shape, told)

    def make():
        values = unpacked(np.frombuffer(q.read(), "<u4").reshape(q.shape), bits, shape[1])
        if words:  # stacked vertically, so that they are arranged like the weight's words
            columns = np.ascontiguousarray(np.frombuffer(zero.read(), "<u4").reshape(zero.shape).T)
            values = values - zeros(unpacked(columns, bits, shape[0]).T)
        elif zeros:
            values = values - zeros(floats(zero))
        return values * scales(floats(scale))

    return Float(name, shape, make)


def layer_of(name):
    return name[:name.rfind(".") + 1]


class Reader:
    """Converts the tensors of a checkpoint, and records which of them were used for others."""

    def __init__(self, tensors, told):
        self.tensors, self.told, self.made, self.used = tensors, told, {}, set()

    def related(self, *names):
        """The first of these tensors that exists; it counts as used."""
        for name in names:
            if name in self.tensors:
                self.used.add(name)
                return self.tensors[name]
        return None

    def of_torchao(self, name, t):
        match = QDATA.fullmatch(name)
        if not match or t.dtype not in SMALL:
            return False
        stem, layer = name[:-len("qdata")], match["layer"]
        scale, zero = self.related(stem + "scale"), self.related(stem + "zero_point")
        if scale is None:
            return False
        self.made[layer + match["name"]] = plain(layer + match["name"], t, scale, zero, self.told)
        return True

    def of_words(self, name):
        if not name.endswith("weight_packed"):
            return False
        stem = name[:-len("_packed")]
        shape, scale = self.related(stem + "_shape"), self.related(stem + "_scale")
        if shape is None or scale is None:
            return False
        self.made[stem] = packed(stem, self.tensors[name], shape, scale, self.related(stem + "_zero_point"), self.told)
        return True

    def of_scales(self, name, t):
        layer = layer_of(name)
        rows = self.related(layer + "SCB") if name == layer + "weight" and t.dtype == "I8" else None
        form = self.tensors.get(layer + "weight_format")
        if rows is not None:
            if form is not None and any(bytes(form.read())):
                raise Refused("tensor %.80s of bitsandbytes is not in rows; save the model on a CPU" % name)
            self.made[name] = plain(name, t, rows, None, self.told, 1 / 127)
            return True
        scale = self.related(name + "_scale", name + "_scale_inv")
        if scale is not None:
            self.made[name] = plain(name, t, scale, self.related(name + "_zero_point"), self.told)
        elif t.dtype != "I8" and not self.told:  # without scales FP8 is a storage type like others
            self.made[name] = Float(name, t.shape, lambda: floats(t))
        return name in self.made

    def read(self):
        for name, t in self.tensors.items():
            end = name[len(layer_of(name)):]
            for part, what in UNREAD.items():
                if self.told and (end == part or name.endswith("." + part)):
                    raise Refused("tensor %.80s: %s; supported are %s" % (name, what, FORMS))
            if self.of_torchao(name, t) or self.of_words(name) or (t.dtype in SMALL and self.of_scales(name, t)):
                self.used.add(name)
        layers = {layer_of(name) for name in self.made}
        out = dict(self.made)
        for name, t in self.tensors.items():
            if name in self.used or (layer_of(name) in layers and LEFT.fullmatch(name[len(layer_of(name)):])):
                continue
            if t.dtype in SMALL and self.told:
                raise Refused("tensor %.80s of type %s has no scale in the file; supported are %s" %
                              (name, t.dtype, FORMS))
            out[name] = t
        return out if self.made else None


def dequantised(tensors, config):
    """{name: tensor} in float32 for a file, or None if nothing is quantised."""
    told = described(config)
    method = told.get("quant_method", "compressed-tensors" if told else None)
    if method and method not in METHODS:
        raise Refused("the model was quantised by %.40s, which is not supported; supported are %s" % (method, FORMS))
    return Reader(tensors, told).read()


def config_of(data, path):
    try:
        config = json.loads(data)
    except (ValueError, RecursionError) as e:
        raise Refused("%s is not valid JSON: %s" % (path, e)) from None
    if not isinstance(config, dict):
        raise Refused("%s must contain a JSON object" % path)
    return config
