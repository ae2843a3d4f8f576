"""Pictures in the forms that users have: which bytes the library reads, where they are, and what they mean."""
from __future__ import annotations

import ctypes as C
import os
from typing import Any, Optional, Tuple, Union

import numpy as np
import numpy.typing as npt

from . import _structures as c
from ._device import ExternalImage

Array = npt.NDArray[Any]
FrameKind = Tuple[str, int, int]  # format, width, height
# memory that the host can read: kDLCPU, and pinned or managed memory of CUDA and ROCm
_HOST = (1, 3, 11, 13)


def read(picture: Any, channels_first: bool = False, format: Optional[str] = None,
         white: bool = False) -> Union[Array, ExternalImage]:
    """The array of a picture: the array itself, a view of a tensor, or the pixels that Pillow reads, turned as
    EXIF says. An ExternalImage is returned unchanged. Bytes are copied only if frames cannot have their layout.

    `channels_first`: bytes (3, H, W) are accepted too. Shapes that could mean either are refused, unless `format`
    is given, which only rows of pixels have. `white`: transparent pixels that Pillow reads are blended with white, as
    transformers does if do_convert_rgb is true; else alpha is dropped."""
    if isinstance(picture, ExternalImage):
        return picture
    if isinstance(picture, np.ndarray):
        array = picture
    elif isinstance(picture, (str, os.PathLike)):
        return _opened(os.fspath(picture), white)
    elif hasattr(picture, "getexif"):
        array = _colours(picture, white)
    elif hasattr(picture, "__dlpack__"):
        array = _tensor(picture)
    else:
        array = np.asarray(picture)
    if channels_first and array.dtype == np.uint8 and array.ndim in (3, 4) and array.shape[-3] == 3:
        if array.shape[-1] not in (3, 4):
            array = np.moveaxis(array, -3, -1)
        elif format is None:
            raise ValueError("uint8 pixels of shape %s may be rows or planes; for rows pass pixels[..., :3] and "
                             "format=\"rgb8\", for planes np.moveaxis(pixels, -3, -1)" % (array.shape,))
    return array if _readable(array) else np.ascontiguousarray(array)


def _colours(picture: Any, white: bool = False) -> Array:
    """The R, G, B pixels of a Pillow image, turned upright, with the same result as when the program reads the
    file."""
    from PIL import Image, ImageOps
    upright = ImageOps.exif_transpose(picture)
    # grey of 16 bits, which convert would clip at 255
    if picture.mode == "I" and picture.format == "PPM":
        upright = Image.fromarray((np.asarray(upright) // 256).astype(np.uint8))
    if white and ("A" in picture.getbands() or picture.info.get("transparency") is not None):
        upright = upright.convert("RGBA")
        upright = Image.alpha_composite(Image.new("RGBA", upright.size, (255, 255, 255, 255)), upright)
    return np.asarray(upright.convert("RGB"))


def _opened(path: Any, white: bool) -> Union[Array, ExternalImage]:
    try:
        from PIL import Image
    except ImportError:
        raise ImportError("%s: Pillow is needed to read picture files (pip install pillow); or pass the pixels "
                          "themselves, (H, W, 3) in uint8" % path) from None
    with Image.open(path) as opened:
        return read(opened, white=white)


def _tensor(tensor: Any) -> Array:
    kind, index = tensor.__dlpack_device__()
    if int(kind) not in _HOST:
        raise TypeError("the tensor is in the memory of a device (DLPack's %d, %d); pass tensor.cpu(), or for "
                        "a model on that device fovea.ExternalImage(device, \"planes_f32\", width, height, "
                        "memory=tensor.data_ptr(), kind=\"cuda\", owner=tensor)" % (kind, index))
    array: Array = np.from_dlpack(tensor)
    return array


def _readable(array: Array) -> bool:
    """Whether rows can be read in place: contiguous pixels, with any row stride. For RGB also if the view is
    mirrored in its last axis: then the bytes are B, G, R."""
    if array.dtype != np.uint8 or array.ndim not in (2, 3):
        return bool(array.flags.c_contiguous)
    channels = array.shape[2] if array.ndim == 3 else 1
    row, steps = array.strides[0], array.strides[1:]
    packed = steps == (channels, 1)[-len(steps):] if array.ndim == 3 else steps == (1,)
    return (packed or is_mirrored(array)) and row >= array.shape[1] * channels


def is_mirrored(array: Array) -> bool:
    """The view [..., ::-1]: B, G, R seen as R, G, B, or the reverse."""
    return array.ndim == 3 and array.shape[2] == 3 and array.strides[1:] == (3, -1)


def mirrored(array: Array) -> Array:
    """A copy with the same colours whose bytes have the other order."""
    if is_mirrored(array):
        return np.ascontiguousarray(array)
    other: Array = np.ascontiguousarray(array[..., ::-1])[..., ::-1]
    return other


def frame_of(pixels: Union[Array, ExternalImage], format: Optional[str]) -> FrameKind:
    """(format, width, height) of an array of pixels, or of an ExternalImage."""
    if isinstance(pixels, ExternalImage):
        return pixels.frame
    shape = pixels.shape
    is_float = pixels.dtype == np.float32
    if not is_float and pixels.dtype != np.uint8:
        raise TypeError("pixels have type %s; pass uint8, or normalised float32 planes"
                        % pixels.dtype)
    if format in ("nv12", "yuyv"):
        return _camera_frame(pixels, format)
    if is_float:
        if len(shape) != 3 or shape[0] != 3:
            raise ValueError("float32 pixels have shape %s; pass normalised planes, (3, H, W), "
                             "or uint8 pixels, (H, W, 3)" % (shape,))
        kind = "planes_f32", shape[2], shape[1]
    elif len(shape) == 2:
        kind = "gray8", shape[1], shape[0]
    elif len(shape) == 3 and shape[2] == 3:
        kind = ("bgr8" if is_mirrored(pixels) != (format == "bgr8") else "rgb8"), shape[1], shape[0]
    else:
        raise ValueError("uint8 pixels have shape %s; pass RGB pixels (H, W, 3), or grey ones (H, W)%s"
                         % (shape, _remedy(shape)))
    if format not in (None, kind[0]) and {format, kind[0]} != {"rgb8", "bgr8"}:
        raise ValueError("format %r does not match %s pixels of shape %s, which are %s; leave format out, or "
                         "correct it"
                         % (format, pixels.dtype, shape, kind[0]))
    return kind


def _remedy(shape: Tuple[int, ...]) -> str:
    """A hint for the error message: how to make accepted pixels from these; empty if their meaning is unknown."""
    if len(shape) != 3:
        return ""
    if shape[2] == 4:
        return "; for RGBA pixels pass pixels[..., :3]"
    if shape[0] in (3, 4):
        return "; for planes pass np.moveaxis(pixels[:3], 0, -1)"
    return "; for one grey channel pass pixels[..., 0]" if shape[2] == 1 else ""


def _camera_frame(pixels: Array, format: str) -> FrameKind:
    shape, is_bytes = pixels.shape, pixels.dtype == np.uint8
    if format == "nv12" and is_bytes and len(shape) == 2 and shape[0] % 3 == 0:
        height, width = shape[0] // 3 * 2, shape[1]
    elif format == "yuyv" and is_bytes and len(shape) == 3 and shape[2] == 2:
        height, width = shape[:2]
    else:
        raise ValueError("format %r does not match %s of shape %s; nv12 is uint8 (3 H / 2, W), yuyv is uint8 (H, W, 2)"
                         % (format, pixels.dtype, shape))
    if width % 2:
        raise ValueError("%s has %d columns; their number must be even" % (format, width))
    return format, width, height


def planes(pixels: Array, kind: str, height: int) -> c.Frame:
    """The frame that fovea_run reads: it points to the array's own memory."""
    address = pixels.__array_interface__["data"][0]
    if kind == "planes_f32":
        return c.Frame((C.c_void_p * 3)(address))
    row = pixels.strides[0]
    if is_mirrored(pixels):
        address -= 2
    chroma = address + height * row if kind == "nv12" else None
    return c.Frame((C.c_void_p * 3)(address, chroma), (C.c_size_t * 3)(row, row))
