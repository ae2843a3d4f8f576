"""Pictures that are run in overlapping parts."""
from __future__ import annotations

import ctypes as C
from typing import List, Sequence

import numpy as np
import numpy.typing as npt

from . import _structures as c
from ._handle import Handle
from ._library import checked, lib
from ._pixels import Array, planes
from ._plan import FloatArray, Plan, places


def parts_of(rule: c.Preprocess, width: int, height: int) -> c.PartsInfo:
    """The number of parts of a picture, and their size."""
    info = c.PartsInfo()
    checked(lib.fovea_parts_describe(C.byref(rule), width, height, C.byref(info)))
    return info


class Parts(Handle):
    """The parts of pictures of one size; `plan` runs each part."""

    def __init__(self, plan: Plan, rule: c.Preprocess, width: int, height: int) -> None:
        self._plan, self._shape = plan, (height, width)
        self._count = parts_of(rule, width, height).count
        super().__init__(lib.fovea_parts_free, plan, lib.fovea_parts_create, plan, C.byref(rule), width, height)

    def run(self, pixels: Array) -> List[FloatArray]:
        """Runs a picture of R, G, B pixels: the outputs of the first part, then those of the second, and so on."""
        frames = (c.Frame * self._count)()
        picture = planes(pixels, "rgb8", self._shape[0])
        self._call(lib.fovea_parts_cut, C.byref(picture), frames, self._count)
        return [one for i in range(self._count) for one in self._plan._run_there(frames[i])]

    def class_map(self, outputs: Sequence[FloatArray]) -> npt.NDArray[np.uint16]:
        """uint16 (H, W): the class of each pixel of the picture."""
        out = np.empty(self._shape, np.uint16)
        self._call(lib.fovea_parts_class_map, places(outputs), len(outputs), out.ctypes.data, out.size)
        return out
