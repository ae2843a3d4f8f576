"""The part of a picture around a person, as a pose model sees it."""
from __future__ import annotations

import ctypes as C
from typing import Any, Optional, Sequence

import numpy as np
import numpy.typing as npt

from . import _structures as c
from ._device import ExternalImage
from ._library import checked, lib
from ._pixels import frame_of, planes, read


def box_of(box: Sequence[float]) -> c.Box:
    """x, y, width, height as the library has them."""
    if len(box) != 4:
        raise ValueError("box %r: give x, y, width, height in pixels" % (box,))
    return c.Box(*[float(number) for number in box])


def crop(picture: Any, box: Sequence[float], width: int, height: int, format: Optional[str] = None,
         yuv: str = "601") -> npt.NDArray[np.uint8]:
    """What a pose model of width x height pixels sees of a box (x, y, width, height in pixels of the picture):
    uint8 (height, width, 3), the bytes of transformers' VitPoseImageProcessor. Pictures are those of Model.run
    that are bytes; `format` and `yuv` as there."""
    pixels = read(picture)
    if isinstance(pixels, ExternalImage):
        raise TypeError("boxes are cut out of arrays, not of an ExternalImage")
    kind, wide, high = frame_of(pixels, format)
    out = np.empty((height, width, 3), np.uint8)
    frame = planes(pixels, kind, high)
    checked(lib.fovea_box_crop(C.byref(frame), c.code(c.FORMATS, "format", kind), c.code(c.YUVS, "yuv", yuv),
                               wide, high, C.byref(box_of(box)), out.ctypes.data, width, height))
    return out
