"""Models that are not in a folder: bytes, open files, and dictionaries of both by name."""
from __future__ import annotations

import ctypes as C
import io
import itertools
import json
import os
import threading
from typing import IO, Any, Dict, List, Mapping, Optional, Tuple, Union

import numpy as np

from . import _structures as c

Bytes = Union[bytes, bytearray, memoryview, "np.ndarray[Any, Any]"]
File = Union[Bytes, IO[bytes]]
Config = Union[Mapping[str, Any], str, bytes]

_EMPTY = C.create_string_buffer(1)


class Source:
    """The argument for fovea_model_load_from, made from files by name. Bytes are kept until the library
    releases them, when the model and all of its plans are gone."""

    def __init__(self, files: Mapping[str, File]) -> None:
        self.bytes: Dict[str, "np.ndarray[Any, Any]"] = {}
        parts: List[c.ModelFile] = []
        for name, file in files.items():
            part = _part(file)
            if part:
                parts.append(c.ModelFile(name=name.encode(), descriptor=part[0], offset=part[1]))
            else:
                self.bytes[name] = _array(file if not hasattr(file, "read") else file.read())
        self.token = next(_tokens)
        self._list = (c.ModelFile * len(parts))(*parts)
        self.struct = c.ModelSource(name=b"memory", files=self._list, n_files=len(parts), open=_OPEN,
                               release=_RELEASE, user=self.token)
        with _lock:
            _sources[self.token] = self

    def loaded(self) -> None:
        """Called when loading has returned, successfully or not: the library opens no more files."""
        with _lock:
            _sources.pop(self.token, None)


def of(name: Any, config: Optional[Config]) -> Optional[Source]:
    """A source for bytes and open files; None: `name` is a path, or a model's name."""
    if isinstance(name, (str, os.PathLike)):
        if config is not None:
            raise TypeError("config= describes bytes and open files; a folder has config.json")
        return None
    if isinstance(name, Mapping):
        if config is not None:
            raise TypeError("config= describes bytes and open files; put config.json into the dictionary")
        return Source(name)
    if config is None:
        raise TypeError("weights do not name the architecture; pass config=, the content of config.json, or "
                        "a dictionary of all files by name")
    text = config if isinstance(config, (str, bytes)) else json.dumps(config)
    return Source({"model.safetensors": name, "config.json": text.encode() if isinstance(text, str) else text})


def _part(file: Any) -> Optional[Tuple[int, int]]:
    """Descriptor and position of a file on the disk, which the library maps; None: its content must be read
    here."""
    raw = getattr(getattr(file, "file", file), "raw", file)
    return (raw.fileno(), file.tell()) if isinstance(raw, io.FileIO) else None


def _array(data: Any) -> "np.ndarray[Any, Any]":
    view = memoryview(data)
    if not view.contiguous:
        raise ValueError("a file's bytes must be contiguous")
    return np.frombuffer(view, np.uint8) if view.nbytes else np.frombuffer(_EMPTY, np.uint8)[:0]


_lock = threading.Lock()
_tokens = itertools.count(1)
_sources: Dict[int, Source] = {}  # sources of models that are being loaded, by token
_held: Dict[Tuple[int, int], List["np.ndarray[Any, Any]"]] = {}  # by token and address


def _open(user: Optional[int], name: bytes, data: Any, size: Any) -> int:
    token = user or 0
    with _lock:
        array = _sources[token].bytes.get(name.decode())
        if array is not None:
            address = array.ctypes.data
            _held.setdefault((token, address), []).append(array)
            data[0], size[0] = address, array.nbytes
    return 0


def _release(user: Optional[int], data: int, _size: int) -> None:
    with _lock:
        arrays = _held[user or 0, data]
        arrays.pop()
        if not arrays:
            del _held[user or 0, data]


_OPEN, _RELEASE = c.OPEN_FILE(_open), c.RELEASE_FILE(_release)
