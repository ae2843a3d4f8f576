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
    """A box given as x, y, width, height, in the library's structure."""
    if len(box) != 4:
        raise ValueError("box %r must be (x, y, width, height) in pixels" % (box,))
    return c.Box(*[float(number) for number in box])


def crop(picture: Any, box: Sequence[float], width: int, height: int, format: Optional[str] = None,
         yuv: str = "601") -> npt.NDArray[np.uint8]:
    """Cuts out what a pose model for pictures of width x height pixels sees of a box (x, y, width, height in
    pixels of the picture). Returns uint8 (height, width, 3), the same bytes as transformers'
    VitPoseImageProcessor. `picture` may be any that Model.run takes as bytes; `format` and `yuv` are those of
    Model.run."""
    pixels = read(picture)
    if isinstance(pixels, ExternalImage):
        raise TypeError("boxes cannot be cropped from an ExternalImage; pass an array")
    kind, wide, high = frame_of(pixels, format)
    out = np.empty((height, width, 3), np.uint8)
    frame = planes(pixels, kind, high)
    checked(lib.fovea_box_crop(C.byref(frame), c.code(c.FORMATS, "format", kind), c.code(c.YUVS, "yuv", yuv),
                               wide, high, C.byref(box_of(box)), out.ctypes.data, width, height))
    return out
