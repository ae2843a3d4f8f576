"""torch_files.py: reads files of torch.save and torch.jit.save as tensors by name.

Three forms are read. The first is the zip archive of today's torch.save. The second is that of torch.jit.save:
a tree of modules, whose tensors are read and whose code is ignored. The third is the sequence of pickles that
torch.save wrote before version 1.6. Storages are read when their tensors are written, one at a time.
"""
import contextlib
import functools
import io
import mmap
import os
import struct
import zipfile

from . import Refused, pickles

# The names of torch's types in safetensors, and their sizes in bytes.
BYTES = {"F64": 8, "I64": 8, "U64": 8, "F32": 4, "I32": 4, "U32": 4, "F16": 2, "BF16": 2, "I16": 2, "U16": 2,
         "F8_E4M3": 1, "F8_E5M2": 1, "F8_E8M0": 1, "I8": 1, "U8": 1, "BOOL": 1}
DTYPES = {"float64": "F64", "double": "F64", "float32": "F32", "float": "F32", "float16": "F16", "half": "F16",
          "bfloat16": "BF16", "int64": "I64", "long": "I64", "int32": "I32", "int": "I32", "int16": "I16",
          "short": "I16", "int8": "I8", "uint8": "U8", "bool": "BOOL", "uint16": "U16", "uint32": "U32",
          "uint64": "U64", "float8_e4m3fn": "F8_E4M3", "float8_e5m2": "F8_E5M2"}
STORAGES = {"DoubleStorage": "F64", "FloatStorage": "F32", "HalfStorage": "F16", "BFloat16Storage": "BF16",
            "LongStorage": "I64", "IntStorage": "I32", "ShortStorage": "I16", "CharStorage": "I8",
            "ByteStorage": "U8", "BoolStorage": "BOOL", "UntypedStorage": "U8"}
RANK = 8  # as Fovea reads
PLACES, LEVELS = 1 << 20, 64  # of a TorchScript archive's tree of modules
LEGACY_MAGIC = 0x1950A86A20F9469CFC6C
LEGACY_VERSION = 1001


# ---- tensors ----

def natural(x):
    return isinstance(x, int) and not isinstance(x, bool) and 0 <= x < 1 << 63


@contextlib.contextmanager
def about(path):
    """Errors while reading the content are reported as refusals that name the file."""
    try:
        yield
    except Refused as e:
        raise Refused("%s: %s" % (path, e)) from None
    except OSError as e:
        raise Refused("%s: %s" % (path, e.strerror or e)) from None
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, ValueError, EOFError, MemoryError) as e:
        raise Refused("%s: cannot be read: %s (a truncated download?)" % (path, e or type(e).__name__)) from None


class Storage:
    """`count` values of `dtype`, which `source` reads when needed, by `key`."""

    def __init__(self, source, dtype, key, count):
        self.source, self.dtype, self.key, self.count = source, dtype, key, count
        self.size = count * BYTES[dtype]

    def read(self):
        with about(self.source.path):
            data = self.source.storage(self.key)
            if len(data) < self.size:
                raise Refused("its storage %.60s has %d bytes instead of %d (a truncated download?)" %
                              (self.key, len(data), self.size))
            return data


def strided(values, at, shape, strides):
    """The bytes of a strided view, a row at a time."""
    if not shape:
        yield values[at:at + 1].tobytes()
    elif len(shape) > 1:
        for i in range(shape[0]):
            yield from strided(values, at + i * strides[0], shape[1:], strides[1:])
    elif strides[0]:
        yield values[at:at + (shape[0] - 1) * strides[0] + 1:strides[0]].tobytes()
    else:
        yield values[at:at + 1].tobytes() * shape[0]


class Tensor:
    """A view into a storage, like torch's tensors."""

    def __init__(self, storage, offset, shape, strides, dtype=None):
        self.dtype = dtype or storage.dtype
        width = BYTES[self.dtype]
        if len(shape) > RANK:
            raise Refused("it has a tensor of %d dimensions; at most %d are supported" % (len(shape), RANK))
        if len(shape) != len(strides) or not all(map(natural, (offset, *shape, *strides))):
            raise ValueError("a tensor without a shape")
        self.storage, self.offset, self.shape, self.strides = storage, offset, tuple(shape), tuple(strides)
        self.count = functools.reduce(int.__mul__, shape, 1)
        end = offset + 1 + sum((n - 1) * s for n, s in zip(shape, strides))
        if self.count and end * width > storage.size:
            raise ValueError("a tensor of shape %s beyond the end of its storage" % (self.shape,))
        self.size = self.count * width

    def contiguous(self):
        step = 1
        for n, stride in zip(reversed(self.shape), reversed(self.strides)):
            if n != 1 and stride != step:
                return False
            step *= n
        return True

    def read(self):
        """The bytes of its values in row-major order, little-endian."""
        if self.count == 0:
            return b""
        width = BYTES[self.dtype]
        data = memoryview(self.storage.read())[:self.storage.size // width * width]
        if self.contiguous():
            return data[self.offset * width:self.offset * width + self.size]
        values = data.cast({1: "B", 2: "H", 4: "I", 8: "Q"}[width])
        return b"".join(strided(values, self.offset, self.shape, self.strides))


# ---- the names of torch ----

def rebuilt(storage, offset, shape, strides, *rest):
    """torch._utils._rebuild_tensor and _v2; _v3 has the type after requires_grad and the hooks."""
    if not isinstance(storage, Storage):
        raise ValueError("a tensor without a storage")
    return Tensor(storage, offset, shape, strides, rest[2] if len(rest) > 2 and rest[2] in BYTES else None)


def rebuilt_of_type(make, kind, arguments, state):
    """A tensor with attributes of its own, which are ignored."""
    if make not in (REBUILD, REBUILD_TYPED):
        raise ValueError("a tensor made by something else")
    return make.make(*arguments)


REBUILD = pickles.Known(lambda *a: rebuilt(*a[:4]))
REBUILD_TYPED = pickles.Known(rebuilt)
TORCH = {
    ("torch._utils", "_rebuild_tensor"): REBUILD,
    ("torch._utils", "_rebuild_tensor_v2"): REBUILD,
    ("torch._utils", "_rebuild_tensor_v3"): REBUILD_TYPED,
    ("torch._utils", "_rebuild_parameter"): pickles.Known(lambda data, *rest: data),
    ("torch._utils", "_rebuild_parameter_with_state"): pickles.Known(lambda data, *rest: data),
    ("torch._tensor", "_rebuild_from_type_v2"): pickles.Known(rebuilt_of_type),
    ("torch", "Tensor"): pickles.Known(lambda *a: None),
    ("torch.nn.parameter", "Parameter"): pickles.Known(lambda data, *rest: data),
    ("torch", "Size"): pickles.Known(tuple),
    ("torch", "device"): pickles.Known(lambda *a: None),
}
TORCH.update({("torch", name): code for name, code in DTYPES.items()})
TORCH.update({(module, name): code for name, code in STORAGES.items()
              for module in ("torch", "torch.storage", "torch.cuda")})
# How torch.jit.save writes lists of one type, and the types of empty lists.
SCRIPT = {("torch.jit._pickle", name): pickles.Known(lambda data, *rest: data)
          for name in ("build_intlist", "build_tensorlist", "build_doublelist", "build_boollist",
                       "restore_type_tag")}


def torch_name(module, name):
    if (module, name) == ("torch._utils", "_rebuild_wrapper_subclass"):
        raise Refused("its tensors have a special class, as torchao's quantised tensors do; save the model as "
                      "safetensors, with save_pretrained, or their dequantize()")
    return TORCH.get((module, name))


def script_name(module, name):
    """Classes of a TorchScript archive are modules; only their attributes are kept."""
    if module.startswith("__torch__"):
        return pickles.Known(lambda *a: pickles.Plain())
    return SCRIPT.get((module, name)) or torch_name(module, name)


def storage_of(source, ident):
    """The storage that a persistent id names; an element after the count describes a view, in old versions."""
    if not (isinstance(ident, tuple) and len(ident) >= 5 and ident[0] == "storage"):
        raise Refused("it contains a whole module; only weights are supported")
    _, dtype, key, _, count, *view = ident
    if not isinstance(dtype, str) or dtype not in BYTES or not isinstance(key, str) or not natural(count):
        raise ValueError("a storage without a type or size")
    if any(v is not None for v in view):
        raise Refused("its storage %.60s is a view of another, which is not supported; save the weights again" % key)
    return Storage(source, dtype, key, count)


# ---- zip archives ----

class Archive:
    """The zip archive of torch.save or torch.jit.save, whose records are stored without compression."""

    def __init__(self, path):
        self.path, self.size = path, os.path.getsize(path)
        self.zip = zipfile.ZipFile(path)
        names = self.zip.namelist()
        pickled = [n for n in names if n.count("/") == 1 and n.endswith("/data.pkl")]
        if len(pickled) != 1:
            raise Refused("it is a zip archive without data.pkl, so torch.save did not write it")
        self.root = pickled[0][:-len("data.pkl")]
        self.script = self.root + "constants.pkl" in names
        order = self.root + "byteorder"
        if order in names and self.record("byteorder") != b"little":
            raise Refused("its numbers are big-endian, which is not supported; save it on a little-endian machine")

    def record(self, name):
        try:
            info = self.zip.getinfo(self.root + name)
        except KeyError:
            raise Refused("its record %.60s is missing (a truncated download?)" % name) from None
        if info.compress_type != zipfile.ZIP_STORED or info.flag_bits & 1:
            raise Refused("its record %.60s is compressed or encrypted, which no torch.save writes" % name)
        size = max(info.file_size, info.compress_size)
        if info.header_offset + size > self.size:
            raise Refused("its record %.60s claims %d bytes, more than the file has" % (name, size))
        return self.zip.read(info)

    @functools.lru_cache(maxsize=1)
    def storage(self, key):
        return self.record("data/" + key)

    def load(self):
        find = script_name if self.script else torch_name
        saved = pickles.read(io.BytesIO(self.record("data.pkl")), find, lambda i: storage_of(self, i))
        return state_of(saved) if self.script else saved


def state_of(module):
    """{name: tensor} of a tree of TorchScript modules, with the names of its state_dict."""
    found, waiting, places = {}, [("", module)], 0
    while waiting:
        prefix, at = waiting.pop()
        for name, value in (at.state if isinstance(at.state, dict) else {}).items():
            places += 1
            if places > PLACES or prefix.count(".") > LEVELS:
                raise Refused("its modules contain one another")
            if isinstance(value, Tensor):
                found["%s%s" % (prefix, name)] = value
            elif isinstance(value, pickles.Plain):
                waiting.append(("%s%s." % (prefix, name), value))
    return found


# ---- the sequence of pickles of old versions ----

class Legacy:
    """Reads magic number, version, facts about the system, the saved object, the storages' keys, the storages."""

    def __init__(self, path):
        self.path = path
        with open(path, "rb") as f:
            self.bytes = mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ)
        self.storages, self.places = {}, {}

    def persistent(self, ident):
        storage = storage_of(self, ident)
        known = self.storages.setdefault(storage.key, storage)
        if (known.dtype, known.count) != (storage.dtype, storage.count):
            raise ValueError("storage %s has two sizes" % storage.key)
        return known

    def load(self):
        if pickles.read(self.bytes) != LEGACY_MAGIC:
            raise Refused("it is a pickle, but not from torch.save")
        if pickles.read(self.bytes) != LEGACY_VERSION:
            raise Refused("it was saved by a version of torch.save that is not supported")
        facts = pickles.read(self.bytes)
        if not isinstance(facts, dict) or facts.get("little_endian") is False:
            raise Refused("its numbers are big-endian, which is not supported; save it on a little-endian machine")
        saved = pickles.read(self.bytes, torch_name, self.persistent)
        keys = pickles.read(self.bytes)
        for key in keys if isinstance(keys, list) else ():
            self.place(key)
        return saved

    def place(self, key):
        storage = self.storages.get(pickles.key_of(key))
        count = self.bytes.read(8)
        if not storage or count != struct.pack("<q", storage.count):
            raise Refused("its storages are not those of its tensors (a truncated download?)")
        at = self.bytes.tell()
        if storage.size > len(self.bytes) - at:
            raise Refused("it ends inside storage %s (a truncated download?)" % key)
        self.places[key] = at
        self.bytes.seek(at + storage.size)

    def storage(self, key):
        at = self.places.get(key)
        return memoryview(self.bytes)[at:at + self.storages[key].size] if at is not None else b""


def load(path):
    """The object that was saved in a file: containers that contain Tensors."""
    with about(path):
        with open(path, "rb") as f:
            begin = f.read(32)
        if begin.startswith(b"version https://git-lfs"):
            raise Refused("it is a Git LFS pointer, not the file itself; fetch the file with \"git lfs pull\"")
        if begin.startswith(b"PK\3\4"):
            return Archive(path).load()
        if begin.startswith(b"\x80"):
            return Legacy(path).load()
        raise Refused("it is not a file of torch.save")
