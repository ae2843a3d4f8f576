"""libfovea.so: finds it, declares its functions, and turns its failures into exceptions."""
from __future__ import annotations

import ctypes as C
import ctypes.util
import os
from typing import Any, Callable, Iterator, List, Optional, Union

from . import _structures as c

PACKAGE = os.path.dirname(os.path.abspath(__file__))
# The system's library, with the version of the interface that _structures.py describes, whatever
# other versions are installed.
SONAME = "libfovea.so.0.1"
# The build folder of the repository that contains this package.
BUILD = os.path.join(PACKAGE, "..", "..", "build", "src")


def _places() -> Iterator[str]:
    """Paths where the library may be, the most likely first."""
    inside = os.path.join(PACKAGE, "libfovea.so")
    named = os.environ.get("FOVEA_LIBRARY") or (inside if os.path.exists(inside) else None)
    if named:
        yield named
        return
    yield SONAME
    found = ctypes.util.find_library("fovea")  # systems that name libraries otherwise
    if found:
        yield found
    yield os.path.join(BUILD, "libfovea.so")


def _load() -> C.CDLL:
    failure: Optional[OSError] = None
    for place in _places():
        try:
            return C.CDLL(place)
        except OSError as e:
            failure = e
    raise ImportError("libfovea.so: %s; install a wheel of fovea, build the library, or set "
                      "FOVEA_LIBRARY to its path" % failure)


class Error(RuntimeError):
    """A call of the library failed. The text says what is wrong, and the remedy."""

    __module__ = "fovea"
    status: int  # fovea_status of errors.h
    name: str    # the same in words: "EINVAL", "ENOMEM", "EIO", ...

    def __init__(self, status: int, text: Optional[str] = None) -> None:
        super().__init__(text or lib.fovea_error().decode(errors="replace"))
        self.status, self.name = status, c.STATUSES.get(status, str(status))


def checked(status: int) -> None:
    if status:
        raise Error(status)


def names(get: Callable[..., Optional[bytes]], handle: Any) -> List[str]:
    """The values of get(0), get(1), .. until it returns nothing."""
    found: List[str] = []
    while (name := get(handle, len(found))) is not None:
        found.append(name.decode())
    return found


lib = _load()
_HANDLE, _OUT = C.c_void_p, C.POINTER(C.c_void_p)
# first arguments of functions that interpret outputs: a plan, and the outputs of a frame
_RAN = [_HANDLE, C.POINTER(c.Output), C.c_size_t]
for _name, _result, _arguments in [
        ("fovea_error", C.c_char_p, []),
        ("fovea_version", C.c_char_p, []),
        ("fovea_device_open", C.c_int, [_OUT, C.c_char_p, C.POINTER(c.DeviceOptions)]),
        ("fovea_device_close", None, [_HANDLE]),
        ("fovea_device_describe", C.c_int, [_HANDLE, C.POINTER(c.DeviceInfo)]),
        ("fovea_model_load", C.c_int, [_OUT, C.c_char_p]),
        ("fovea_model_load_with", C.c_int, [_OUT, C.c_char_p, C.POINTER(c.ModelOptions)]),
        ("fovea_model_load_from", C.c_int, [_OUT, C.POINTER(c.ModelSource), C.POINTER(c.ModelOptions)]),
        ("fovea_model_free", None, [_HANDLE]),
        ("fovea_model_describe", C.c_int, [_HANDLE, C.POINTER(c.ModelInfo)]),
        ("fovea_model_preprocess", C.c_int, [_HANDLE, C.POINTER(c.Preprocess)]),
        ("fovea_preprocess_resize", C.c_int, [C.POINTER(c.Preprocess), C.c_uint32, C.c_uint32]),
        ("fovea_preprocess_resample", C.c_int, [C.POINTER(c.Preprocess), C.c_int]),
        ("fovea_preprocess_text", C.c_int, [C.POINTER(c.Preprocess), C.c_char_p, C.c_size_t]),
        ("fovea_model_label", C.c_char_p, [_HANDLE, C.c_uint32]),
        ("fovea_model_output", C.c_char_p, [_HANDLE, C.c_size_t]),
        ("fovea_plan_create", C.c_int, [_OUT, _HANDLE, _HANDLE, C.POINTER(c.PlanOptions)]),
        ("fovea_plan_free", None, [_HANDLE]),
        ("fovea_plan_query", C.c_int, [_HANDLE, C.POINTER(c.PlanInfo)]),
        ("fovea_plan_step", C.c_int, [_HANDLE, C.c_size_t, C.POINTER(c.StepInfo)]),
        ("fovea_tune_accuracy", C.c_int,
         [C.POINTER(c.AccuracyReport), _HANDLE, _HANDLE, C.POINTER(c.PlanOptions), C.POINTER(c.Frame),
          C.c_size_t, C.c_double, C.POINTER(c.TuneOptions)]),
        ("fovea_wisdom_save", C.c_int, [C.c_char_p]),
        ("fovea_plan_output", C.c_int, [_HANDLE, C.c_size_t, C.POINTER(c.OutputInfo)]),
        ("fovea_run", C.c_int, [_HANDLE, C.POINTER(c.Frame), C.POINTER(c.Output), C.c_size_t]),
        ("fovea_external_image_import", C.c_int, [_OUT, _HANDLE, C.POINTER(c.ExternalImageOptions)]),
        ("fovea_external_image_free", None, [_HANDLE]),
        ("fovea_external_image_query", C.c_int, [_HANDLE, C.POINTER(c.ExternalImageInfo)]),
        ("fovea_run_external_image", C.c_int,
         [_HANDLE, _HANDLE, C.POINTER(c.AcquireFence), C.POINTER(c.Output), C.c_size_t]),
        ("fovea_detections", C.c_int, [*_RAN, C.POINTER(c.Detection), C.c_size_t,
                                       C.POINTER(C.c_size_t)]),
        ("fovea_class_scores", C.c_int, [_HANDLE, c.Float, C.c_size_t, c.Float]),
        ("fovea_depth_map", C.c_int, [*_RAN, C.c_int, C.c_void_p, C.c_size_t]),
        ("fovea_depth_map_u16", C.c_int, [*_RAN, C.c_int, C.c_double, C.c_void_p, C.c_size_t]),
        ("fovea_class_map", C.c_int, [*_RAN, C.c_int, C.c_void_p, C.c_size_t]),
        ("fovea_masks", C.c_int, [*_RAN, C.POINTER(c.MaskOptions), C.POINTER(c.Mask), C.c_size_t,
                                  C.POINTER(C.c_size_t), C.c_void_p, C.c_size_t]),
        ("fovea_mask_pixels", C.c_int, [*_RAN, C.c_uint32, C.c_void_p, C.c_size_t]),
        ("fovea_mask_runs", C.c_int, [C.c_void_p, C.c_uint32, C.c_uint32, C.c_void_p, C.c_size_t,
                                      C.POINTER(C.c_size_t)]),
        ("fovea_keypoints", C.c_int, [*_RAN, C.POINTER(c.Keypoint), C.c_size_t,
                                      C.POINTER(C.c_size_t)]),
        ("fovea_box_keypoints", C.c_int, [*_RAN, C.POINTER(c.Box), C.POINTER(c.Keypoint), C.c_size_t,
                                          C.POINTER(C.c_size_t)]),
        ("fovea_box_crop", C.c_int, [C.POINTER(c.Frame), C.c_int, C.c_int, C.c_uint32, C.c_uint32,
                                     C.POINTER(c.Box), C.c_void_p, C.c_uint32, C.c_uint32]),
        ("fovea_yuv_matrix_choose", C.c_int, [C.POINTER(C.c_int), C.POINTER(c.Colours)]),
        ("fovea_layout_name", C.c_char_p, [C.c_size_t]),
        ("fovea_layout_query", C.c_int, [C.c_int, C.c_uint32, C.c_uint32, C.c_int, C.POINTER(c.LayoutInfo)]),
        ("fovea_layout_convert", C.c_int, [C.POINTER(c.Frame), C.POINTER(c.Frame), C.c_int, C.c_uint32, C.c_uint32,
                                           C.c_int, C.c_void_p, C.c_size_t]),
        ("fovea_parts_describe", C.c_int, [C.POINTER(c.Preprocess), C.c_uint32, C.c_uint32,
                                           C.POINTER(c.PartsInfo)]),
        ("fovea_parts_create", C.c_int, [_OUT, _HANDLE, C.POINTER(c.Preprocess), C.c_uint32, C.c_uint32]),
        ("fovea_parts_free", None, [_HANDLE]),
        ("fovea_parts_cut", C.c_int, [_HANDLE, C.POINTER(c.Frame), C.POINTER(c.Frame), C.c_size_t]),
        ("fovea_parts_class_map", C.c_int, [_HANDLE, C.POINTER(c.Output), C.c_size_t, C.c_void_p,
                                            C.c_size_t]),
        ("fovea_model_keypoint", C.c_char_p, [_HANDLE, C.c_uint32]),
        ("fovea_attention_plan_create", C.c_int, [_OUT, _HANDLE, C.POINTER(c.AttentionOptions)]),
        ("fovea_gemm_plan_create", C.c_int, [_OUT, _HANDLE, C.POINTER(c.GemmOptions)]),
        ("fovea_op_input", C.c_char_p, [_HANDLE, C.c_size_t]),
        ("fovea_op_run", C.c_int, [_HANDLE, C.POINTER(c.Matrix), C.c_size_t, c.Matrix]),
        ("fovea_state_create", C.c_int, [_OUT, _HANDLE, C.POINTER(c.AttentionOptions)]),
        ("fovea_state_free", None, [_HANDLE]),
        ("fovea_state_input", C.c_char_p, [_HANDLE, C.c_size_t]),
        ("fovea_state_step", C.c_int, [_HANDLE, C.POINTER(c.Matrix), C.c_size_t, c.Matrix]),
        ("fovea_state_feed", C.c_int, [_HANDLE, C.c_uint32, C.POINTER(c.Matrix), C.c_size_t, c.Matrix]),
        ("fovea_state_reset", C.c_int, [_HANDLE]),
        ("fovea_state_size", C.c_size_t, [_HANDLE]),
        ("fovea_state_save", C.c_int, [_HANDLE, c.Float, C.c_size_t]),
        ("fovea_state_restore", C.c_int, [_HANDLE, c.Float, C.c_size_t]),
        ("fovea_segmenter_create", C.c_int, [_OUT, _HANDLE, C.POINTER(c.SegmenterOptions)]),
        ("fovea_segmenter_free", None, [_HANDLE]),
        ("fovea_segmenter_plan", _HANDLE, [_HANDLE]),
        ("fovea_segmenter_begin", C.c_int, _RAN),
        ("fovea_segmenter_run", C.c_int, [_HANDLE, C.POINTER(c.Prompt), C.POINTER(c.Output), C.c_size_t]),
        ("fovea_segmenter_choose", C.c_int, [*_RAN, C.c_int, C.POINTER(C.c_uint32)]),
        ("fovea_model_prompt_output", C.c_char_p, [_HANDLE, C.c_size_t]),
        ("fovea_segmenter_mask", C.c_int, [*_RAN, C.c_uint32, C.POINTER(c.Mask), C.c_void_p, C.c_size_t]),
        ("fovea_sequence_create", C.c_int, [_OUT, _HANDLE, _HANDLE, C.POINTER(c.SequenceOptions)]),
        ("fovea_sequence_free", None, [_HANDLE]),
        ("fovea_sequence_query", C.c_int, [_HANDLE, C.POINTER(c.SequenceInfo)]),
        ("fovea_sequence_feed", C.c_int,
         [_HANDLE, C.POINTER(C.c_uint32), C.c_size_t, c.Float, C.c_size_t]),
        ("fovea_sequence_forward", C.c_int, [_HANDLE, c.Matrix, C.c_size_t, c.Matrix]),
        ("fovea_sequence_seek", C.c_int, [_HANDLE, C.c_uint64]),
        ("fovea_sequence_reset", C.c_int, [_HANDLE]),
        ("fovea_sequence_size", C.c_size_t, [_HANDLE]),
        ("fovea_sequence_save", C.c_int, [_HANDLE, C.c_void_p, C.c_size_t]),
        ("fovea_sequence_restore", C.c_int, [_HANDLE, C.c_void_p, C.c_size_t]),
        ("fovea_sequence_fork", C.c_int, [_OUT, _HANDLE])]:
    getattr(lib, _name).restype = _result
    getattr(lib, _name).argtypes = _arguments


def version() -> str:
    """The version of the library: "0.1.0"."""
    return str(lib.fovea_version().decode())


def save_wisdom(path: Union[str, "os.PathLike[str]", None] = None) -> None:
    """Adds the results of tuning to the file `path`; None: to the file that later processes read."""
    checked(lib.fovea_wisdom_save(None if path is None else os.fspath(path).encode()))
