"""Products of matrices."""
from __future__ import annotations

import ctypes as C
from typing import Optional, Union

import numpy as np
import numpy.typing as npt

from . import _structures as c
from ._attention import floats
from ._device import Device, op_plan
from ._library import lib


def gemm(a: npt.ArrayLike, weight: npt.ArrayLike, bias: Optional[npt.ArrayLike] = None,
         activation: Optional[str] = None, *,
         device: Union[Device, str, None] = None) -> npt.NDArray[np.float32]:
    """activation(a weight^T + bias), (rows, out), for a (rows, in), weight (out, in) and bias (out), all
    float32. `activation`: None or a name such as "gelu"; the error for an unknown name lists all."""
    a, weight = floats(a), floats(weight)
    if a.ndim != 2 or weight.ndim != 2 or a.shape[1] != weight.shape[1]:
        raise ValueError("a has shape %s and weight %s; they must be (rows, in) and (out, in)"
                         % (a.shape, weight.shape))
    options = c.GemmOptions(rows=a.shape[0], out=weight.shape[0],
                            weight=weight.ctypes.data_as(c.Float),
                            activation=activation and activation.encode())
    setattr(options, "in", a.shape[1])
    if bias is not None:
        bias = floats(bias)
        if bias.shape != weight.shape[:1]:
            raise ValueError("bias has shape %s, but must have %s" % (bias.shape, weight.shape[:1]))
        options.bias = bias.ctypes.data_as(c.Float)
    out = np.empty((a.shape[0], weight.shape[0]), np.float32)
    plan = op_plan(device, lib.fovea_gemm_plan_create, options)
    plan._call(lib.fovea_op_run, C.byref(c.Matrix(a.ctypes.data, 0)), 1, c.Matrix(out.ctypes.data, 0))
    return out
