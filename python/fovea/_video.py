"""_video.py: the meaning of luma and chroma in frames, and frames in layouts that models do not read."""
import ctypes as C
from typing import Any, Dict, List, Sequence, Tuple

import numpy as np
import numpy.typing as npt

from . import _structures as c
from ._library import checked, lib, names


def layouts() -> List[str]:
    """Names of layouts, which are ffmpeg's names of pixel formats: "yuv420p", "uyvy422", "yuv422p10le", ..."""
    return names(lambda _, index: lib.fovea_layout_name(index), None)


def _layout(name: str) -> int:
    return c.code({known: i for i, known in enumerate(layouts())}, "layout", name)


def choose_yuv(layout: str, height: int, coefficients: str = "unknown", range: str = "unknown",
               siting: str = "unknown", origin: str = "video") -> str:
    """Chooses the `yuv` of a call from what the source of frames says about their colours; where it says
    nothing, by the same rule as the program and the GStreamer element. `coefficients`: "601", "709", "2020";
    `range`: "limited", "full"; `siting`: "centre", "left", "top-left"; `origin`: "video", "camera", "jpeg"."""
    colours = c.Colours(coefficients=c.code(c.COEFFICIENTS, "coefficients", coefficients),
                        range=c.code(c.RANGES, "range", range), siting=c.code(c.SITINGS, "siting", siting),
                        origin=c.code(c.ORIGINS, "origin", origin), layout=_layout(layout), height=height)
    out = C.c_int()
    checked(lib.fovea_yuv_matrix_choose(C.byref(out), C.byref(colours)))
    return list(c.YUVS)[out.value]


def convert(planes: Sequence[npt.NDArray[Any]], layout: str, width: int, height: int,
            yuv: str = "601") -> Tuple[npt.NDArray[np.uint8], Dict[str, str]]:
    """(pixels, options) for a call: model(pixels, **options). `planes`: an array for each plane of the
    frame, with rows of bytes or of 16-bit numbers, of any stride. The returned pixels are a copy. Width and
    height must be even if several pixels share U and V."""
    info = c.LayoutInfo()
    rule = c.code(c.YUVS, "yuv", yuv)
    checked(lib.fovea_layout_query(_layout(layout), width, height, rule, C.byref(info)))
    kept = [np.asarray(plane) for plane in planes]
    if len(kept) != info.planes:
        raise ValueError("there are %d planes, but %s has %d" % (len(kept), layout, info.planes))
    for i, plane in enumerate(kept):
        row = plane.nbytes // plane.shape[0] if plane.ndim == 2 and plane.shape[0] else 0
        if row < info.bytes[i] or len(plane) < info.rows[i] or plane.strides[1] != plane.itemsize:
            raise ValueError("plane %d has shape %s and type %s; it must have %d rows of %d bytes"
                             % (i, plane.shape, plane.dtype, info.rows[i], info.bytes[i]))
    frame, out = c.Frame(), c.Frame()
    for i, plane in enumerate(kept):
        frame.pixels[i], frame.stride[i] = plane.__array_interface__["data"][0], plane.strides[0]
    buffer = np.empty(info.buffer_size, np.uint8)
    checked(lib.fovea_layout_convert(C.byref(out), C.byref(frame), _layout(layout), width, height, rule,
                                     buffer.ctypes.data, info.buffer_size))
    kind = list(c.FORMATS)[info.format]
    return _pixels(out, kind, width, height), dict(format=kind, yuv=yuv)


def _rows(frame: c.Frame, plane: int, rows: int, row: int) -> npt.NDArray[np.uint8]:
    """A contiguous copy of the plane's rows."""
    stride = frame.stride[plane]
    size = stride * (rows - 1) + row
    held = np.ctypeslib.as_array(C.cast(frame.pixels[plane], C.POINTER(C.c_uint8)), (size,))
    return np.lib.stride_tricks.as_strided(held, (rows, row), (stride, 1)).copy()


def _pixels(frame: c.Frame, kind: str, width: int, height: int) -> npt.NDArray[np.uint8]:
    if kind in ("nv12", "yuyv") and width % 2 or kind == "nv12" and height % 2:
        raise ValueError("%s has %dx%d pixels; both numbers must be even" % (kind, width, height))
    if kind == "nv12":
        return np.concatenate([_rows(frame, 0, height, width), _rows(frame, 1, height // 2, width)])
    if kind == "gray8":
        return _rows(frame, 0, height, width)
    channels = 2 if kind == "yuyv" else 3
    return _rows(frame, 0, height, channels * width).reshape(height, width, channels)
