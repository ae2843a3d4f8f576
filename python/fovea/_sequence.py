"""Language models, and token mixers by themselves."""
from __future__ import annotations

import ctypes as C
from typing import Any, Dict, Union

import numpy as np
import numpy.typing as npt

from . import _structures as c
from ._attention import floats
from ._device import Device, device_of
from ._handle import Handle
from ._library import lib
from ._model import Model


class Sequence(Handle):
    """A language model that is fed token by token, or a prompt at once; or a token mixer by itself.

        model = fovea.load("gla-340m")
        sequence = fovea.Sequence(model)
        logits = sequence.feed([1, 523, 17])     # for the token after the last one
        logits = sequence.feed([int(logits.argmax())])

    Ids come from your tokenizer, for example of the package tokenizers. `rows`: how many tokens of a prompt are
    run at a time. `context`: capacity of softmax attention's cache, in tokens; linear mixers need none.
    `all_logits`: return logits for every token that is fed, one row each. `weights`, `compute` and `form` are names
    of types and forms. `memory_limit`: bytes.
    """

    def __init__(self, model: Model, rows: int = 0, context: int = 0, all_logits: bool = False,
                 form: str = "auto", weights: str = "f32", compute: str = "f32", memory_limit: int = 0,
                 device: Union[Device, str, None] = None) -> None:
        on = model._device if device is None else device_of(device)
        options = c.SequenceOptions(rows=rows, context=context, all_logits=all_logits,
                                    form=c.code(c.FORMS, "form", form),
                                    weights=c.code(c.WEIGHTS, "weights", weights),
                                    compute=c.code(c.COMPUTE, "compute", compute),
                                    memory_limit=memory_limit)
        self._all = all_logits
        super().__init__(lib.fovea_sequence_free, (model, on), lib.fovea_sequence_create, model, on,
                         C.byref(options))
        self._needs, self._shape = (model, on), self.info

    @property
    def info(self) -> Dict[str, Any]:
        """rows, context, vocabulary, width; tokens so far; bytes: weights, states, activations; flops."""
        info = c.SequenceInfo()
        self._call(lib.fovea_sequence_query, C.byref(info))
        return info.values()

    def feed(self, ids: npt.ArrayLike) -> npt.NDArray[np.float32]:
        """Logits (vocabulary) for the token after the last of `ids`; with all_logits rows of them, one for the
        token after each."""
        ids = np.ascontiguousarray(ids, np.uint32).ravel()
        logits = np.empty((len(ids) if self._all else 1, self._shape["vocabulary"]), np.float32)
        self._call(lib.fovea_sequence_feed, ids.ctypes.data_as(C.POINTER(C.c_uint32)), len(ids),
                   logits.ctypes.data_as(c.Float), logits.size)
        return logits if self._all else logits.reshape(-1)

    def forward(self, x: npt.ArrayLike) -> npt.NDArray[np.float32]:
        """The output of a token mixer, (N, width), for N rows of input (N, width). The mixer's state advances
        by N tokens."""
        x = floats(x)
        if x.ndim != 2 or x.shape[1] != self._shape["width"]:
            raise ValueError("rows must have %d values, but x has shape %s" % (self._shape["width"], x.shape))
        out = np.empty_like(x)
        self._call(lib.fovea_sequence_forward, c.Matrix(x.ctypes.data, 0), len(x),
                   c.Matrix(out.ctypes.data, 0))
        return out

    def seek(self, tokens: int) -> None:
        """Truncates the cache of keys and values to `tokens` tokens."""
        self._call(lib.fovea_sequence_seek, tokens)

    def reset(self) -> None:
        """Forgets all tokens."""
        self._call(lib.fovea_sequence_reset)

    def save(self) -> bytes:
        """The state of the sequence, as bytes from which another process can continue."""
        out = C.create_string_buffer(lib.fovea_sequence_size(self._as_parameter_))
        self._call(lib.fovea_sequence_save, out, len(out))
        return out.raw

    def restore(self, saved: bytes) -> None:
        self._call(lib.fovea_sequence_restore, bytes(saved), len(saved))

    def fork(self) -> Sequence:
        """A second sequence in the same state."""
        copy = Sequence.__new__(Sequence)
        copy._all, copy._shape, copy._needs = self._all, self._shape, self._needs
        with self._lock:
            Handle.__init__(copy, lib.fovea_sequence_free, self._needs, lib.fovea_sequence_fork, self)
        return copy
