"""Attention by itself: on arrays, and causal ones with a state."""
from __future__ import annotations

import ctypes as C
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple, Union

import numpy as np
import numpy.typing as npt

from . import _structures as c
from ._device import Device, device_of, op_plan
from ._handle import Handle
from ._library import lib, names

Array = npt.NDArray[Any]
# S and Z of a causal attention; Z is None without a denominator.
Memory = Tuple[Array, Optional[Array]]

_NUMPY: Dict[int, Any] = {0: np.float32, 1: np.float16, 2: np.uint16}


def _storage(array: Array) -> int:
    """The library's type of an array: float32, float16, or bfloat16 in uint16."""
    for code, dtype in _NUMPY.items():
        if array.dtype == dtype:
            return code
    raise TypeError("the array has type %s; pass float32, float16, or bfloat16 as uint16" % array.dtype)


def floats(array: Any) -> npt.NDArray[np.float32]:
    return np.ascontiguousarray(array, np.float32)


class _Options:
    """fovea_attention_options, the arrays that it points to, by name, and the given values that are inputs
    instead of options."""

    ENUMS = {"storage": c.STORAGE, "out_storage": c.STORAGE, "form": c.FORMS, "gates": c.GATES,
             "out_gate": c.OUT_GATES, "schedule": c.SCHEDULES, "compute": c.COMPUTE}

    def __init__(self, attention: str, given: Mapping[str, Any]) -> None:
        self.c = c.AttentionOptions(scale=1.0, eps=1e-6, normalise=1, attention=attention.encode())
        self.arrays: Dict[str, Array] = {}
        self.inputs: Dict[str, Any] = {}
        # gate_q and gate_k are weights if the gates are computed from x or q; else they are the
        # gates or their logits, which are inputs. A log_decay per head is an option (retention),
        # one per token an input.
        weights = given.get("gates", "ready") not in ("ready", "logits")
        for name, value in given.items():
            if value is None:
                continue
            if name == "g":
                self.inputs["out_gate"] = value
            elif (name in ("beta", "x") or name in ("gate_q", "gate_k") and not weights or
                  name == "log_decay" and np.ndim(value) > 1):
                self.inputs[name] = value
            elif name == "rope":
                self._rope(value)
            elif name == "grid":
                self.c.grid_height, self.c.grid_width = value
            else:
                self._set(name, value)
        if self.c.gates == c.GATES["x-dense"] and "gate_q" in self.arrays:
            self.c.gate_width = self.arrays["gate_q"].shape[-1]

    def _set(self, name: str, value: Any) -> None:
        kinds = {field[0]: field[1] for field in c.AttentionOptions._fields_[1:]}
        if name not in kinds:
            raise TypeError("attention has no option %r" % name)
        if kinds[name] is c.Float:
            self.arrays[name] = floats(value)
            value = self.arrays[name].ctypes.data_as(c.Float)
        elif name in self.ENUMS and not isinstance(value, int):
            value = c.code(self.ENUMS[name], name, value)
        setattr(self.c, name, value)

    def _rope(self, value: Any) -> None:
        """A grid as (height, width), or the tables cos and sin, (N, d) each."""
        if np.ndim(value[0]):
            self._set("rope_cos", value[0])
            self._set("rope_sin", value[1])
        else:
            self.c.rope_height, self.c.rope_width = value


def _input(name: str, given: Any, batch: Optional[int]) -> Array:
    """The rows of tokens of sequence `batch`; if that is None, the array itself."""
    array = np.asarray(given)
    if batch is None:
        return array
    array = np.asarray(array[batch])
    if array.ndim == 3:  # (H, N, d)
        return array.transpose(1, 0, 2).reshape(array.shape[1], -1)
    return array if name in ("x", "out_gate") else array.T  # (N, C); (H, N)


def _matrices(expected: List[str], o: Any, arrays: Mapping[str, Any]) -> Tuple[List[Array], Any]:
    """The inputs in the operation's order. The library gets pointers only, so shapes are checked here."""
    wide, out, keys = o.heads * o.head_dim, o.heads * o.value_dim, o.keys or o.rows
    gla = o.attention.decode().split(":")[0] in ("gla", "sla-gla")
    shapes = {"q": (o.rows, wide), "k": (keys, wide), "v": (keys, out), "beta": (o.rows, o.heads),
              "log_decay": (o.rows, wide if gla else o.heads), "gate_q": (o.rows, o.heads),
              "gate_k": (keys, o.heads), "x": (o.rows, o.gate_width), "out_gate": (o.rows, out)}
    unknown, missing = set(arrays) - set(expected), set(expected) - set(arrays)
    if unknown or missing:
        raise TypeError("; ".join("%s input %s" % (what, ", ".join(sorted(which))) for what, which
                                  in (("missing", missing), ("unused", unknown)) if which))
    packed = []
    for name in expected:
        a = arrays[name]
        if np.shape(a) != shapes[name]:
            raise ValueError("%s has shape %s, but must have %s" % (name, np.shape(a), shapes[name]))
        packed.append(np.ascontiguousarray(a) if name in ("q", "k", "v") else floats(a))
    return packed, (c.Matrix * len(packed))(*[c.Matrix(a.ctypes.data, 0) for a in packed])


def _check_options(o: Any, arrays: Mapping[str, Array]) -> None:
    """Checks the sizes of the arrays that the options point to."""
    wide, out = o.heads * o.head_dim, o.heads * o.value_dim
    filters = o.value_dim if o.local_shared else out
    gate = o.heads * {2: o.gate_width, 3: wide, 4: o.head_dim}.get(o.gates, 0)
    sizes = {"power": wide, "channel_scale": wide, "log_decay": o.heads, "gate_q": gate,
             "gate_k": gate, "rope_cos": o.rows * o.head_dim, "rope_sin": o.rows * o.head_dim,
             "local_weight": filters * o.local_size ** 2, "local_bias": filters,
             "norm_weight": out, "norm_bias": out, "map_q": wide * o.head_dim, "map_k": wide * o.head_dim}
    for name, a in arrays.items():
        if a.size != sizes[name]:
            raise ValueError("%s has %d values, but must have %d" % (name, a.size, sizes[name]))


def _shape(o: Any, q: Array, k: Array, v: Array, heads: Optional[int]) -> None:
    """Sets rows, keys, heads and dims of the options from arrays (B, H, N, d) or (N, H d)."""
    if q.ndim == 4:
        o.heads, o.rows, o.head_dim, o.value_dim = q.shape[1], q.shape[2], q.shape[3], v.shape[3]
        o.keys = k.shape[2]
    elif q.ndim == 2 and heads:
        o.heads, o.rows, o.keys = heads, q.shape[0], k.shape[0]
        o.head_dim, o.value_dim = q.shape[1] // heads, v.shape[1] // heads
    else:
        raise ValueError("q has shape %s; it must be (B, H, N, d), or (N, H*d) with heads" % (q.shape,))
    o.storage = _storage(q)
    if not q.dtype == k.dtype == v.dtype:
        raise TypeError("q, k and v must have the same type, not %s, %s, %s" % (q.dtype, k.dtype, v.dtype))


def _output(o: Any) -> Array:
    return np.empty((o.rows, o.heads * o.value_dim), _NUMPY[o.out_storage])


def attention(q: npt.ArrayLike, k: npt.ArrayLike, v: npt.ArrayLike, attention: str = "linear", *,
              heads: Optional[int] = None, device: Union[Device, str, None] = None,
              state: Optional[Memory] = None, return_state: bool = False, **options: Any) -> Any:
    """Attention of (B, H, N, d) arrays, or of (N, H*d) rows with `heads`. The output has the same layout,
    float32 unless out_storage says "f16" or "bf16" (in uint16).

    `attention` is a name of operations.h: "softmax", "linear:elu1", "mala", "pola", "nala", "sla-...",
    and with causal=True "retention", "gla", "delta-rule", "gated-delta-rule". `options` are the
    fields of fovea_attention_options (scale, eps, normalise, form, l2norm, alpha, power, channel_scale,
    local_weight, norm_weight, ...), enums by name, and

      rope=(cos, sin) or (height, width)   grid=(height, width)
      log_decay, beta                      gla: (B, H, N, d); else (B, H, N); retention: (H)
      gate_q, gate_k                       (B, H, N); weights with gates="x-dense", "q-dense", ...
      x, g                                 (B, N, C)

    If q is 2-D (rows of tokens), these are rows too: (N, H), (N, H*d), (N, C). A causal attention
    begins with `state` (None: zeros), and with return_state=True the result is (out, state):
    (S, Z) with S (B, H, d', dv) and Z (B, H, d'), None without a denominator.
    """
    q, k, v = (np.asarray(a) for a in (q, k, v))
    o = _Options(attention, options)
    _shape(o.c, q, k, v, heads)
    _check_options(o.c, o.arrays)
    batches: Sequence[Optional[int]] = [None] if q.ndim == 2 else range(q.shape[0])
    run: Callable[[Optional[int], Dict[str, Array]], Tuple[Array, Optional[Memory]]]
    if return_state or state is not None:
        run = _stateful(State._of(o, device), state)
    else:
        run = _stateless(op_plan(device, lib.fovea_attention_plan_create, o.c), o.c)
    outs, states = [], []
    for b in batches:
        arrays = {name: _input(name, a, b) for name, a in dict(o.inputs, q=q, k=k, v=v).items()}
        out, after = run(b, arrays)
        outs.append(out)
        states.append(after)
    if q.ndim == 2:
        return (outs[0], states[0]) if return_state else outs[0]
    joined = np.stack([a.reshape(o.c.rows, o.c.heads, -1).transpose(1, 0, 2) for a in outs])
    return (joined, _joined([s for s in states if s is not None])) if return_state else joined


def _stateless(plan: Handle, o: Any) -> Callable[..., Tuple[Array, Optional[Memory]]]:
    def run(_batch: Optional[int], arrays: Dict[str, Array]) -> Tuple[Array, Optional[Memory]]:
        _alive, inputs = _matrices(names(lib.fovea_op_input, plan), o, arrays)
        out = _output(o)
        plan._call(lib.fovea_op_run, inputs, len(inputs), c.Matrix(out.ctypes.data, 0))
        return out, None
    return run


def _stateful(engine: State, before: Optional[Memory]) -> Callable[..., Tuple[Array, Optional[Memory]]]:
    def run(batch: Optional[int], arrays: Dict[str, Array]) -> Tuple[Array, Optional[Memory]]:
        engine.reset()
        if before is not None:
            s, z = (a if a is None or batch is None else a[batch] for a in before)
            assert s is not None
            engine.restore(s, z)
        return engine._advance(arrays), engine.save()
    return run


def _joined(states: Sequence[Memory]) -> Memory:
    some = [z for _, z in states if z is not None]
    return np.stack([s for s, _ in states]), np.stack(some) if some else None


class State(Handle):
    """A causal attention with memory: one sequence, fed piece by piece.

        state = fovea.State("gla", heads=4, head_dim=64, value_dim=64, rows=256)
        out = state.feed(q, k, v, log_decay=a)     # rows of tokens, at most 256
        out = state.step(q, k, v, log_decay=a)     # one token
    """

    def __init__(self, attention: str = "linear", *, heads: int, head_dim: int,
                 value_dim: Optional[int] = None, rows: int = 256,
                 device: Union[Device, str, None] = None, **options: Any) -> None:
        o = _Options(attention, options)
        o.c.heads, o.c.head_dim, o.c.value_dim = heads, head_dim, value_dim or head_dim
        o.c.rows = rows
        _check_options(o.c, o.arrays)
        self._open(o, device)

    @classmethod
    def _of(cls, options: _Options, device: Union[Device, str, None]) -> State:
        self = cls.__new__(cls)
        self._open(options, device)
        return self

    def _open(self, options: _Options, given: Union[Device, str, None]) -> None:
        options.c.causal = 1
        self._options = options
        device = device_of(given)
        super().__init__(lib.fovea_state_free, device, lib.fovea_state_create, device, C.byref(options.c))

    def _advance(self, arrays: Mapping[str, Any], step: bool = False) -> Array:
        o = c.AttentionOptions.from_buffer_copy(self._options.c)
        o.rows, o.keys = len(arrays["q"]), 0
        _alive, inputs = _matrices(names(lib.fovea_state_input, self), o, arrays)
        out = _output(o)
        to = c.Matrix(out.ctypes.data, 0)
        if step:
            self._call(lib.fovea_state_step, inputs, len(inputs), to)
        else:
            self._call(lib.fovea_state_feed, o.rows, inputs, len(inputs), to)
        return out

    def _arrays(self, q: npt.ArrayLike, k: npt.ArrayLike, v: npt.ArrayLike,
                inputs: Mapping[str, Any]) -> Dict[str, Any]:
        arrays = dict(inputs, q=np.asarray(q), k=np.asarray(k), v=np.asarray(v))
        if "g" in arrays:
            arrays["out_gate"] = arrays.pop("g")
        if any(_storage(arrays[n]) != self._options.c.storage for n in ("q", "k", "v")):
            raise TypeError("q, k and v must have the type of the state's storage")
        return arrays

    def feed(self, q: npt.ArrayLike, k: npt.ArrayLike, v: npt.ArrayLike, **inputs: Any) -> Array:
        """Feeds the next tokens: rows of (H*d), at most as many as the state's `rows`. Returns rows of (H*dv)."""
        return self._advance(self._arrays(q, k, v, inputs))

    def step(self, q: npt.ArrayLike, k: npt.ArrayLike, v: npt.ArrayLike, **inputs: Any) -> Array:
        """Feeds the next token, in recurrent form. Every array is one row, and so is the result, (H*dv)."""
        inputs = {n: np.atleast_2d(a) for n, a in inputs.items()}
        q, k, v = (np.atleast_2d(np.asarray(a)) for a in (q, k, v))
        arrays = self._arrays(q, k, v, inputs)
        if len(arrays["q"]) != 1:
            raise ValueError("step() takes one token at a time, not %d" % len(arrays["q"]))
        first: Array = self._advance(arrays, step=True)[0]
        return first

    def reset(self) -> None:
        """Forgets all tokens."""
        self._call(lib.fovea_state_reset)

    def save(self) -> Memory:
        """S (H, d', dv) and Z (H, d') or None, float32."""
        o = self._options.c
        flat = np.empty(lib.fovea_state_size(self._as_parameter_), np.float32)
        self._call(lib.fovea_state_save, flat.ctypes.data_as(c.Float), flat.size)
        width = o.head_dim * (2 if b":nala" in o.attention else 1)
        s, z = np.split(flat, [o.heads * width * o.value_dim])
        return s.reshape(o.heads, width, o.value_dim), z.reshape(o.heads, width) if z.size else None

    def restore(self, s: npt.ArrayLike, z: Optional[npt.ArrayLike] = None) -> None:
        """Continues from what save() returned."""
        flat = np.concatenate([floats(a).ravel() for a in (s, z) if a is not None])
        self._call(lib.fovea_state_restore, flat.ctypes.data_as(c.Float), flat.size)
