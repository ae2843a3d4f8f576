"""The structures of fovea.h, and names for its values; tests/packages/test_python.py compares them with the
header."""
from __future__ import annotations

import ctypes as C
from typing import Any, Dict

Float = C.POINTER(C.c_float)


class Sized(C.Structure):
    """A structure that begins with its size, initialised like the _INIT macros of fovea.h."""

    def __init__(self, **fields: Any) -> None:
        super().__init__(struct_size=C.sizeof(self), **fields)

    def values(self) -> Dict[str, Any]:
        return {field[0]: text(getattr(self, field[0])) for field in self._fields_[1:]}


def text(value: Any) -> Any:
    return value.decode(errors="replace") if isinstance(value, bytes) else value


def _each(kind: Any, names: str) -> list[tuple[str, Any]]:
    return [(name, kind) for name in names.split()]


_SIZE = _each(C.c_size_t, "struct_size")
_EFFORT = _each(C.c_int, "rigor") + _each(C.c_double, "tune_seconds")
_MEMORY = (_each(C.c_int, "schedule") + _each(C.c_uint32, "chunk") +
           _each(C.c_uint64, "memory_limit"))


class DeviceInfo(Sized):
    _c_name_ = "fovea_device_info"
    _fields_ = [*_SIZE, ("id", C.c_char * 32), ("name", C.c_char * 128), ("features", C.c_char * 64),
                *_each(C.c_uint32, "units core_kinds performance_cores"), *_each(C.c_uint64, "memory max_buffer"),
                ("driver", C.c_char * 128), ("local_memory", C.c_uint64),
                ("group_limit", C.c_uint32), ("quirks", C.c_char * 256),
                *_each(C.c_int, "bf16 int8 reserved"), ("imports", C.c_char * 256),
                ("compiler", C.c_char * 256), ("skipped", C.c_char * 256)]


class DeviceOptions(Sized):
    _c_name_ = "fovea_device_options"
    _fields_ = [*_SIZE, ("threads", C.c_uint32), *_each(C.c_char_p, "isa cores"),
                *_each(C.c_void_p, "parallel_for parallel_ctx"), ("max_dispatch_seconds", C.c_double),
                ("cache", C.c_char_p), ("lock_memory", C.c_int), ("priority", C.c_uint32),
                ("thread_name", C.c_char_p), ("context", C.c_void_p),
                ("max_compile_seconds", C.c_double)]


class Preprocess(Sized):
    _c_name_ = "fovea_preprocess"
    _fields_ = [*_SIZE, *_each(C.c_int, "resize filter"),
                *_each(C.c_uint32, "short_edge resize_width resize_height crop_width crop_height"),
                ("rescale", C.c_float), *_each(C.c_float * 3, "mean std"),
                *_each(C.c_uint32, "patch most_patches"), ("resample", C.c_int),
                *_each(C.c_uint32, "no_antialias blur long_edge"), *_each(C.c_int, "crop pad"),
                *_each(C.c_uint32, "pad_width pad_height first_long_edge first_multiple"),
                ("alpha", C.c_int), *_each(C.c_uint32, "split least_area most_area")]


class LinearAttentionParams(C.Structure):
    _c_name_ = "fovea_linear_attention_params"
    _fields_ = [*_each(C.c_float, "nala_lambda pola_alpha q_scale"), ("heads", C.c_uint32)]


class ModelOptions(Sized):
    _c_name_ = "fovea_model_options"
    _fields_ = [*_SIZE, ("prefix", C.c_char_p), ("linear", LinearAttentionParams), ("weights_cache", C.c_char_p)]


class ModelFile(C.Structure):
    _c_name_ = "fovea_model_file"
    _fields_ = [("name", C.c_char_p), ("data", C.c_void_p), ("size", C.c_uint64), ("descriptor", C.c_int),
                ("offset", C.c_uint64)]


OPEN_FILE = C.CFUNCTYPE(C.c_int, C.c_void_p, C.c_char_p, C.POINTER(C.c_void_p), C.POINTER(C.c_uint64))
RELEASE_FILE = C.CFUNCTYPE(None, C.c_void_p, C.c_void_p, C.c_uint64)


class ModelSource(Sized):
    _c_name_ = "fovea_model_source"
    _fields_ = [*_SIZE, ("name", C.c_char_p), ("files", C.POINTER(ModelFile)), ("n_files", C.c_size_t),
                ("open", OPEN_FILE), ("release", RELEASE_FILE), ("user", C.c_void_p)]


class ModelInfo(Sized):
    _c_name_ = "fovea_model_info"
    _fields_ = [*_SIZE, ("type", C.c_char * 32), ("attention", C.c_char_p),
                *_each(C.c_uint32, "width depth heads patch prefix native_width native_height classes "
                                   "segments"),
                *_each(C.c_uint64, "parameters mapped_bytes"),
                *_each(C.c_uint32, "boxes keypoints masks metric vocabulary sequence"),
                ("linear", LinearAttentionParams), ("reduced_labels", C.c_uint32),
                ("preprocess_source", C.c_char_p), ("preprocess_assumed", C.c_uint32), ("scores", C.c_int),
                ("prompt_masks", C.c_uint32)]


class FrameShape(C.Structure):
    _fields_ = [("format", C.c_int), *_each(C.c_uint32, "width height count")]


class PlanOptions(Sized):
    _c_name_ = "fovea_plan_options"
    _fields_ = [*_SIZE, ("frame", FrameShape), ("preprocess", C.POINTER(Preprocess)),
                ("attention", C.c_char_p), ("outputs", C.POINTER(C.c_char_p)),
                ("n_outputs", C.c_size_t), *_MEMORY, *_each(C.c_int, "dry weights activations"),
                *_EFFORT, ("on_device_lost", C.c_int), ("fallback", C.c_void_p),
                ("device_timeout_seconds", C.c_double), *_each(C.c_int, "yuv reserved compute")]


class PlanInfo(Sized):
    _c_name_ = "fovea_plan_info"
    _fields_ = [*_SIZE, *_each(C.c_uint32, "width height ignored_right ignored_bottom grid_width "
                                           "grid_height tokens sweeps steps dispatches threads"),
                *_each(C.c_uint64, "weights residual states chunks scratch staging largest"),
                *_each(C.c_double, "flops seconds"), ("fallback", C.c_uint64), ("compute", C.c_int),
                ("compute_source", C.c_char_p), *_each(C.c_double, "left top scale_x scale_y"),
                ("count", C.c_uint32), ("untrained", C.c_char_p),
                ("reference_seconds", C.c_double)]


class StepInfo(Sized):
    _c_name_ = "fovea_step_info"
    _fields_ = [*_SIZE, *_each(C.c_char_p, "label problem op mechanism activation"),
                *_each(C.c_int, "dtype weight_dtype"),
                *_each(C.c_uint32, "m n k heads head_dim value_dim"),
                *_each(C.c_double, "flops bytes seconds"), *_each(C.c_char_p, "kernel source"),
                ("sweep", C.c_uint32), ("schedule", C.c_int), ("chunk", C.c_uint32),
                *_each(C.c_char_p, "sweep_source products"), ("reference", C.c_int)]


class TuneOptions(Sized):
    _c_name_ = "fovea_tune_options"
    _fields_ = [*_SIZE, ("rigor", C.c_int), ("seconds", C.c_double), ("journal", C.c_char_p),
                *_each(C.c_void_p, "progress payload")]


class Accuracy(C.Structure):
    _c_name_ = "fovea_accuracy"
    _fields_ = [("tried", C.c_int), *_each(C.c_double, "cosine worst seconds")]


class AccuracyReport(Sized):
    _c_name_ = "fovea_accuracy_report"
    _fields_ = [*_SIZE, *_each(C.c_int, "found complete compute"), ("products", C.c_uint32),
                *_each(Accuracy, "f32 bf16 int8 mixed"), ("bf16_count", C.c_uint32),
                ("bf16_steps", C.c_uint32 * 384)]


class OutputInfo(Sized):
    _c_name_ = "fovea_output_info"
    _fields_ = [*_SIZE, ("name", C.c_char_p),
                *_each(C.c_uint32, "rows columns prefix grid_width grid_height stride"),
                *_each(C.c_int, "kind layout")]


class Frame(C.Structure):
    _c_name_ = "fovea_frame"
    _fields_ = [("pixels", C.c_void_p * 3), ("stride", C.c_size_t * 3)]


class Output(C.Structure):
    _c_name_ = "fovea_output"
    _fields_ = [("data", C.c_void_p), ("size", C.c_size_t)]


class ExternalImagePlane(C.Structure):
    _c_name_ = "fovea_external_image_plane"
    _fields_ = [("memory", C.c_void_p), *_each(C.c_int, "fd reserved"),
                *_each(C.c_size_t, "size offset stride")]


class ExternalImageOptions(Sized):
    _c_name_ = "fovea_external_image_options"
    _fields_ = [*_SIZE, *_each(C.c_int, "kind format"), *_each(C.c_uint32, "width height"),
                ("modifier", C.c_uint64), ("plane", ExternalImagePlane * 3)]


class ExternalImageInfo(Sized):
    _c_name_ = "fovea_external_image_info"
    _fields_ = [*_SIZE, *_each(C.c_int, "transfer reserved"), *_each(C.c_char_p, "method reason")]


class AcquireFence(C.Structure):
    _c_name_ = "fovea_acquire_fence"
    _fields_ = [("fd", C.c_int), ("event", C.c_void_p)]


class Detection(C.Structure):
    _c_name_ = "fovea_detection"
    _fields_ = [*_each(C.c_float, "x1 y1 x2 y2 score"), ("label", C.c_uint32)]


class MaskOptions(Sized):
    _c_name_ = "fovea_mask_options"
    _fields_ = [*_SIZE, ("rule", C.c_int),
                *_each(C.c_float, "threshold mask_threshold overlap_threshold"),
                ("stuff", C.POINTER(C.c_uint32)), ("n_stuff", C.c_size_t)]


class Mask(C.Structure):
    _c_name_ = "fovea_mask"
    _fields_ = [("label", C.c_uint32), ("score", C.c_float), ("query", C.c_uint32),
                *_each(C.c_float, "x1 y1 x2 y2"), ("area", C.c_uint64)]


class Keypoint(C.Structure):
    _c_name_ = "fovea_keypoint"
    _fields_ = [*_each(C.c_float, "x y score")]


class Box(C.Structure):
    _c_name_ = "fovea_box"
    _fields_ = [*_each(C.c_double, "x y width height")]


class PartsInfo(Sized):
    _c_name_ = "fovea_parts_info"
    _fields_ = [*_SIZE, *_each(C.c_uint32, "count width height whole_width whole_height")]


class Matrix(C.Structure):
    _c_name_ = "fovea_matrix"
    _fields_ = [("data", C.c_void_p), ("stride", C.c_size_t)]


class AttentionOptions(Sized):
    _c_name_ = "fovea_attention_options"
    _fields_ = [*_SIZE, ("attention", C.c_char_p),
                *_each(C.c_uint32, "rows keys heads head_dim value_dim"),
                *_each(C.c_double, "scale eps"),
                *_each(C.c_int, "normalise causal storage out_storage form l2norm"),
                ("alpha", C.c_double),
                *_each(Float, "power channel_scale log_decay rope_cos rope_sin"),
                *_each(C.c_uint32, "rope_width rope_height"), ("gates", C.c_int),
                *_each(Float, "gate_q gate_k"),
                *_each(C.c_uint32, "gate_width grid_width grid_height local_size"),
                ("local_shared", C.c_int),
                *_each(Float, "local_weight local_bias norm_weight norm_bias"),
                ("norm_eps", C.c_double), ("out_gate", C.c_int), *_MEMORY, *_EFFORT,
                ("compute", C.c_int), *_each(Float, "map_q map_k")]


class GemmOptions(Sized):
    _c_name_ = "fovea_gemm_options"
    _fields_ = [*_SIZE, *_each(C.c_uint32, "rows in out"), *_each(C.c_int, "storage out_storage"),
                *_each(Float, "weight bias"), ("activation", C.c_char_p), *_MEMORY, *_EFFORT,
                ("compute", C.c_int)]


class SegmenterOptions(Sized):
    _c_name_ = "fovea_segmenter_options"
    _fields_ = [*_SIZE, ("points", C.c_uint32), ("memory_limit", C.c_uint64), ("dry", C.c_int)]


class PromptPoint(C.Structure):
    _fields_ = [*_each(C.c_double, "x y"), ("label", C.c_int)]


class Prompt(C.Structure):
    _fields_ = [("points", C.POINTER(PromptPoint)), ("n_points", C.c_size_t), ("box", C.POINTER(Box))]


class SequenceOptions(Sized):
    _c_name_ = "fovea_sequence_options"
    _fields_ = [*_SIZE, *_each(C.c_uint32, "rows context"),
                *_each(C.c_int, "all_logits form schedule weights compute"),
                ("memory_limit", C.c_uint64), ("dry", C.c_int)]


class SequenceInfo(Sized):
    _c_name_ = "fovea_sequence_info"
    _fields_ = [*_SIZE, *_each(C.c_uint32, "rows context vocabulary width"),
                *_each(C.c_uint64, "tokens weights states activations"), ("flops", C.c_double)]


class Colours(Sized):
    _c_name_ = "fovea_colours"
    _fields_ = [*_SIZE, *_each(C.c_int, "coefficients range siting origin layout"), ("height", C.c_uint32)]


class LayoutInfo(Sized):
    _c_name_ = "fovea_layout_info"
    _fields_ = [*_SIZE, ("name", C.c_char_p), ("format", C.c_int), ("planes", C.c_uint32),
                ("rows", C.c_uint32 * 3), ("reserved", C.c_int), ("bytes", C.c_size_t * 3),
                ("buffer_size", C.c_size_t)]


FORMATS = {"rgb8": 0, "bgr8": 1, "gray8": 2, "planes_f32": 3, "nv12": 4, "yuyv": 5}
EXTERNAL_KINDS = {"host": 0, "dmabuf": 1, "opencl": 2, "cuda": 3, "egl": 4, "nvmm": 5}
TRANSFERS = ("none", "device", "host")
YUVS = {"601": 0, "601-full": 1, "709": 2, "709-full": 3, "2020": 4, "2020-full": 5}
COEFFICIENTS = {"unknown": 0, "601": 1, "709": 2, "2020": 3}
RANGES = {"unknown": 0, "limited": 1, "full": 2}
SITINGS = {"unknown": 0, "centre": 1, "left": 2, "top-left": 3}
ORIGINS = {"video": 0, "camera": 1, "jpeg": 2}
STORAGE = {"f32": 0, "f16": 1, "bf16": 2}
WEIGHTS = dict(STORAGE, int8=3)
COMPUTE = {"f32": 0, "bf16": 1, "int8": 2, "auto": 3}
FORMS = {"auto": 0, "recurrent": 1, "chunk": 2}
GATES = {"ready": 0, "logits": 1, "x-dense": 2, "q-dense": 3, "q-blockdiag": 4}
OUT_GATES = {"plain": 0, "linear": 1, "silu": 2}
KINDS = ("features", "logits", "depth", "class_map", "masks", "mask_classes", "boxes", "box_classes",
         "keypoints", "mask_scores")
OUTPUT_LAYOUTS = ("rows", "vector", "planes", "map")
SCORES = ("softmax", "sigmoid", "values")
MASK_RULES = {"panoptic": 0, "instance": 1}
EXTENT_FRAME, NO_CLASS = 0, 0xffff
BACKENDS = {"torchvision": 0, "pillow": 1}
SCHEDULES = {"auto": 0, "streamed": 1, "stepwise": 2}
STATUSES = {-1: "EINVAL", -2: "ENOMEM", -3: "EIO", -4: "EFORMAT", -5: "ENOTSUP", -6: "ENODEV", -7: "EDEVICE",
            -8: "EWISDOM", -9: "ETIMEOUT"}


class UnknownName(ValueError, KeyError):
    """A value of an option that does not exist."""

    __str__ = Exception.__str__


def code(table: Dict[str, int], option: str, value: str) -> int:
    """The library's number for a named value."""
    if value not in table:
        raise UnknownName("%s %r is unknown; choose one of %s" % (option, value, ", ".join(table)))
    return table[value]
