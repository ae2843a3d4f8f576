"""torch_archives.py: files as torch.save and torch.jit.save write them, made without PyTorch."""
import contextlib
import io
import pickle
import struct
import sys
import types
import zipfile

import numpy as np

# numpy's types by torch's storages; bfloat16 is given as uint16.
STORAGES = {"<f4": "FloatStorage", "<f8": "DoubleStorage", "<f2": "HalfStorage", "<u2": "BFloat16Storage",
            "<i8": "LongStorage", "<i4": "IntStorage", "<i2": "ShortStorage", "|i1": "CharStorage",
            "|u1": "ByteStorage", "|b1": "BoolStorage"}


def stub(module, name, kind):
    """An object that a pickle names module.name."""
    thing = type(name, (), {}) if kind is type else lambda *a: None
    thing.__module__, thing.__name__, thing.__qualname__ = module, name, name
    return thing


REBUILD = stub("torch._utils", "_rebuild_tensor_v2", None)
PARAMETER = stub("torch._utils", "_rebuild_parameter", None)
TYPES = {name: stub("torch", name, type) for name in STORAGES.values()}
Module = stub("__torch__.clip.model", "VisionTransformer", type)  # a class of a TorchScript archive


@contextlib.contextmanager
def named():
    """Defines the names while pickle looks them up."""
    modules = {"torch": TYPES, "torch._utils": {"_rebuild_tensor_v2": REBUILD, "_rebuild_parameter": PARAMETER},
               "__torch__": {}, "__torch__.clip": {}, "__torch__.clip.model": {"VisionTransformer": Module}}
    before = {name: sys.modules.get(name) for name in modules}
    for name, things in modules.items():
        sys.modules[name] = types.ModuleType(name)
        vars(sys.modules[name]).update(things)
    try:
        yield
    finally:
        for name, module in before.items():
            if module is None:
                del sys.modules[name]
            else:
                sys.modules[name] = module


class Storage:
    """Consecutive values of one type. A view has the key of another storage."""

    def __init__(self, values):
        self.values = np.ascontiguousarray(values).reshape(-1)


class Tensor:
    """A view of a storage, by default of its own storage."""

    def __init__(self, values, offset=0, shape=None, strides=None, parameter=False):
        self.storage = values if isinstance(values, Storage) else Storage(values)
        self.shape = tuple(np.shape(values)) if shape is None else shape
        if strides is None:
            strides = [int(np.prod(self.shape[i + 1:], dtype=np.int64)) for i in range(len(self.shape))]
        self.offset, self.strides, self.parameter = offset, tuple(strides), parameter


class Pickler(pickle.Pickler):
    def __init__(self, file, legacy):
        super().__init__(file, 2)
        self.legacy, self.storages = legacy, []

    def key(self, storage):
        if storage not in self.storages:
            self.storages.append(storage)
        return str(self.storages.index(storage))

    def persistent_id(self, x):
        if not isinstance(x, Storage):
            return None
        ident = ("storage", TYPES[STORAGES[x.values.dtype.str]], self.key(x), "cpu", x.values.size)
        return ident + (None,) if self.legacy else ident

    def reducer_override(self, x):
        if not isinstance(x, Tensor):
            return NotImplemented
        if x.parameter:
            return PARAMETER, (Tensor(x.storage, x.offset, x.shape, x.strides), True, {})
        return REBUILD, (x.storage, x.offset, x.shape, x.strides, False, {})


def pickled(saved, legacy=False):
    """Returns the bytes of the pickle, and its storages."""
    file = io.BytesIO()
    with named():
        pickler = Pickler(file, legacy)
        pickler.dump(saved)
    return file.getvalue(), pickler.storages


def write_zip(path, data, storages=(), more=(), method=zipfile.ZIP_STORED):
    with zipfile.ZipFile(path, "w", method) as z:
        z.writestr("archive/data.pkl", data)
        z.writestr("archive/byteorder", "little")
        for name in more:
            z.writestr("archive/" + name, b"")
        for i, storage in enumerate(storages):
            z.writestr("archive/data/%d" % i, storage.values.tobytes())
        z.writestr("archive/version", "3\n")


def save(path, saved):
    """The current format of torch.save."""
    write_zip(path, *pickled(saved))


def save_script(path, saved):
    """The format of torch.jit.save: a tree of Modules, with code in separate files."""
    write_zip(path, *pickled(saved), more=["constants.pkl", "code/__torch__/clip/model.py"])


def script_of(tensors):
    """The tree of Modules for tensors of these names."""
    root = Module()
    for name, tensor in tensors.items():
        *path, last = name.split(".")
        at = root
        for part in path:
            at = vars(at).setdefault(part, Module())
        vars(at).update({last: tensor, "training": False})
    return root


def legacy_head(magic=0x1950A86A20F9469CFC6C, version=1001, little=True):
    facts = {"protocol_version": version, "little_endian": little, "type_sizes": {"short": 2, "int": 4, "long": 4}}
    return b"".join(pickle.dumps(x, 2) for x in (magic, version, facts))


def save_legacy(path, saved):
    """The format of torch.save before version 1.6."""
    data, storages = pickled(saved, legacy=True)
    with open(path, "wb") as f:
        f.write(legacy_head() + data + pickle.dumps([str(i) for i in range(len(storages))], 2))
        for storage in storages:
            f.write(struct.pack("<q", storage.values.size) + storage.values.tobytes())
