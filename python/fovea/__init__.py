"""fovea: Fovea's attention and models on numpy arrays. ctypes and numpy, no build step.

Checking an attention written in PyTorch takes five lines:

    import fovea
    q, k, v = torch.randn(3, 2, 8, 1000, 64)                   # (B, H, N, d) each
    want = my_linear_attention(q, k, v)                        # (B, H, N, dv)
    got = fovea.attention(q.numpy(), k.numpy(), v.numpy(), "linear:elu1")
    print(abs(got - want.numpy()).max() / abs(want.numpy()).max())

Features of a picture, with any of the model's attentions:

    model = fovea.Model("dinov2-base")
    out = model.run(image, attention="linear:elu1")            # (H, W, 3) bytes -> {name: rows}
    out = model.run("photo.jpg", preprocess=True)              # with Pillow

Every object may be used by several threads. Only one at a time is inside a Plan or a State, the
others wait; threads that are to compute side by side have a Plan each (Model.plan).

The library is FOVEA_LIBRARY of the environment, else what the loader finds, else build/src of the
repository that this package lies in. What fails raises fovea.Error with the library's own message. Names, defaults and formulas
are those of fovea/fovea.h.
"""
import collections
import ctypes as C
import ctypes.util
import os
import threading
import weakref

import numpy as np

# ---- the library ----


def _load():
    root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
    name = os.environ.get("FOVEA_LIBRARY") or ctypes.util.find_library("fovea")
    try:
        return C.CDLL(name or os.path.join(root, "build", "src", "libfovea.so"))
    except OSError as e:
        raise ImportError("libfovea.so: %s; build it, or set FOVEA_LIBRARY to its path" % e) from None


class Error(RuntimeError):
    """A call failed: `status` is the fovea_status, the text is fovea_error()."""

    def __init__(self, status):
        super().__init__(_lib.fovea_error().decode(errors="replace"))
        self.status = status


def _checked(status):
    if status:
        raise Error(status)


# ---- structures of fovea.h; tests/packages/test_python.py compares them with the header ----

_Float = C.POINTER(C.c_float)


class _Sized(C.Structure):
    """A struct that begins with its size, as the _INIT macros of fovea.h make it."""

    def __init__(self, **fields):
        super().__init__(struct_size=C.sizeof(self), **fields)

    def _values(self):
        return {name: _text(getattr(self, name)) for name, _ in self._fields_[1:]}


def _each(kind, names):
    return [(name, kind) for name in names.split()]


_SIZE = _each(C.c_size_t, "struct_size")
_EFFORT = _each(C.c_int, "rigor") + _each(C.c_double, "tune_seconds")
_MEMORY = (_each(C.c_int, "schedule") + _each(C.c_uint32, "chunk") +
           _each(C.c_uint64, "memory_limit"))


class DeviceInfo(_Sized):
    _c_name_ = "fovea_device_info"
    _fields_ = [*_SIZE, ("id", C.c_char * 32), ("name", C.c_char * 128), ("features", C.c_char * 64),
                *_each(C.c_uint32, "units clusters big"), *_each(C.c_uint64, "memory max_buffer"),
                ("driver", C.c_char * 128), ("local_memory", C.c_uint64),
                ("group_limit", C.c_uint32), ("quirks", C.c_char * 256),
                *_each(C.c_int, "bf16 int8")]


class DeviceOptions(_Sized):
    _c_name_ = "fovea_device_options"
    _fields_ = [*_SIZE, ("threads", C.c_uint32), *_each(C.c_char_p, "isa cores"),
                *_each(C.c_void_p, "parallel_for parallel_ctx"), ("max_dispatch_seconds", C.c_double),
                ("cache", C.c_char_p), ("lock_memory", C.c_int), ("priority", C.c_uint32),
                ("thread_name", C.c_char_p), ("context", C.c_void_p)]


class Preprocess(_Sized):
    _c_name_ = "fovea_preprocess"
    _fields_ = [*_SIZE, *_each(C.c_int, "resize filter"),
                *_each(C.c_uint32, "short_edge resize_width resize_height crop_width crop_height"),
                ("rescale", C.c_float), *_each(C.c_float * 3, "mean std"),
                *_each(C.c_uint32, "patch most_patches")]


class LinearForm(C.Structure):
    _c_name_ = "fovea_linear_form"
    _fields_ = [*_each(C.c_float, "nala_lambda pola_alpha q_scale"), ("heads", C.c_uint32)]


class ModelOptions(_Sized):
    _c_name_ = "fovea_model_options"
    _fields_ = [*_SIZE, ("prefix", C.c_char_p), ("linear", LinearForm)]


class ModelInfo(_Sized):
    _c_name_ = "fovea_model_info"
    _fields_ = [*_SIZE, ("type", C.c_char * 32), ("attention", C.c_char_p),
                *_each(C.c_uint32, "width depth heads patch prefix native_width native_height classes "
                                   "segments"),
                *_each(C.c_uint64, "parameters mapped_bytes"),
                *_each(C.c_uint32, "boxes keypoints masks metric vocabulary sequence"),
                ("linear", LinearForm)]


class FrameShape(C.Structure):
    _fields_ = [("format", C.c_int), *_each(C.c_uint32, "width height")]


class PlanOptions(_Sized):
    _c_name_ = "fovea_plan_options"
    _fields_ = [*_SIZE, ("frame", FrameShape), ("preprocess", C.POINTER(Preprocess)),
                ("attention", C.c_char_p), ("outputs", C.POINTER(C.c_char_p)),
                ("n_outputs", C.c_size_t), *_MEMORY, *_each(C.c_int, "dry weights activations"),
                *_EFFORT, ("on_device_lost", C.c_int), ("fallback", C.c_void_p),
                ("lost_seconds", C.c_double), *_each(C.c_int, "yuv reserved compute")]


class PlanInfo(_Sized):
    _c_name_ = "fovea_plan_info"
    _fields_ = [*_SIZE, *_each(C.c_uint32, "width height ignored_right ignored_bottom grid_width "
                                           "grid_height tokens sweeps steps dispatches threads"),
                *_each(C.c_uint64, "weights residual states chunks scratch staging largest"),
                *_each(C.c_double, "flops seconds"), ("fallback", C.c_uint64), ("compute", C.c_int),
                ("compute_source", C.c_char_p), *_each(C.c_double, "left top scale_x scale_y")]


class StepInfo(_Sized):
    _c_name_ = "fovea_step_info"
    _fields_ = [*_SIZE, *_each(C.c_char_p, "label problem op mechanism activation"),
                *_each(C.c_int, "dtype weight_dtype"),
                *_each(C.c_uint32, "m n k heads head_dim value_dim"),
                *_each(C.c_double, "flops bytes seconds"), *_each(C.c_char_p, "kernel source"),
                ("sweep", C.c_uint32), ("schedule", C.c_int), ("chunk", C.c_uint32),
                *_each(C.c_char_p, "sweep_source products")]


class TuneOptions(_Sized):
    _c_name_ = "fovea_tune_options"
    _fields_ = [*_SIZE, ("rigor", C.c_int), ("seconds", C.c_double), ("journal", C.c_char_p),
                *_each(C.c_void_p, "progress payload")]


class Accuracy(C.Structure):
    _c_name_ = "fovea_accuracy"
    _fields_ = [("tried", C.c_int), *_each(C.c_double, "cosine worst seconds")]


class AccuracyReport(_Sized):
    _c_name_ = "fovea_accuracy_report"
    _fields_ = [*_SIZE, *_each(C.c_int, "found complete compute"), ("products", C.c_uint32),
                *_each(Accuracy, "f32 bf16 int8 mix"), ("kept", C.c_uint32),
                ("step", C.c_uint32 * 384)]


class OutputInfo(_Sized):
    _c_name_ = "fovea_output_info"
    _fields_ = [*_SIZE, ("name", C.c_char_p),
                *_each(C.c_uint32, "rows columns prefix grid_width grid_height stride"),
                ("kind", C.c_int)]


class Frame(C.Structure):
    _c_name_ = "fovea_frame"
    _fields_ = [("pixels", C.c_void_p * 3), ("stride", C.c_size_t * 3)]


class Output(C.Structure):
    _c_name_ = "fovea_output"
    _fields_ = [("data", C.c_void_p), ("size", C.c_size_t)]


class _PicturePlane(C.Structure):
    _c_name_ = "fovea_picture_plane"
    _fields_ = [("memory", C.c_void_p), *_each(C.c_int, "fd reserved"),
                *_each(C.c_size_t, "size offset stride")]


class _PictureOptions(_Sized):
    _c_name_ = "fovea_picture_options"
    _fields_ = [*_SIZE, *_each(C.c_int, "kind format"), *_each(C.c_uint32, "width height"),
                ("modifier", C.c_uint64), ("plane", _PicturePlane * 3)]


class _PictureInfo(_Sized):
    _c_name_ = "fovea_picture_info"
    _fields_ = [*_SIZE, *_each(C.c_int, "transfer reserved"), *_each(C.c_char_p, "method reason")]


class _Ready(C.Structure):
    _c_name_ = "fovea_ready"
    _fields_ = [("fd", C.c_int), ("event", C.c_void_p)]


class _Detection(C.Structure):
    _c_name_ = "fovea_detection"
    _fields_ = [*_each(C.c_float, "x1 y1 x2 y2 score"), ("label", C.c_uint32)]


class _MaskOptions(_Sized):
    _c_name_ = "fovea_mask_options"
    _fields_ = [*_SIZE, ("rule", C.c_int),
                *_each(C.c_float, "threshold mask_threshold overlap_threshold"),
                ("stuff", C.POINTER(C.c_uint32)), ("n_stuff", C.c_size_t)]


class _Mask(C.Structure):
    _c_name_ = "fovea_mask"
    _fields_ = [("label", C.c_uint32), ("score", C.c_float), ("query", C.c_uint32),
                *_each(C.c_float, "x1 y1 x2 y2"), ("area", C.c_uint64)]


class _Keypoint(C.Structure):
    _c_name_ = "fovea_keypoint"
    _fields_ = [*_each(C.c_float, "x y score")]


class Matrix(C.Structure):
    _c_name_ = "fovea_matrix"
    _fields_ = [("data", C.c_void_p), ("stride", C.c_size_t)]


class AttentionOptions(_Sized):
    _c_name_ = "fovea_attention_options"
    _fields_ = [*_SIZE, ("attention", C.c_char_p),
                *_each(C.c_uint32, "rows keys heads head_dim value_dim"),
                *_each(C.c_double, "scale eps"),
                *_each(C.c_int, "normalise causal storage out_storage form l2norm"),
                ("alpha", C.c_double),
                *_each(_Float, "power channel_scale log_decay rope_cos rope_sin"),
                *_each(C.c_uint32, "rope_width rope_height"), ("gates", C.c_int),
                *_each(_Float, "gate_q gate_k"),
                *_each(C.c_uint32, "gate_width grid_width grid_height local_size"),
                ("local_shared", C.c_int),
                *_each(_Float, "local_weight local_bias norm_weight norm_bias"),
                ("norm_eps", C.c_double), ("out_gate", C.c_int), *_MEMORY, *_EFFORT,
                ("compute", C.c_int), *_each(_Float, "map_q map_k")]


class GemmOptions(_Sized):
    _c_name_ = "fovea_gemm_options"
    _fields_ = [*_SIZE, *_each(C.c_uint32, "rows in out"), *_each(C.c_int, "storage out_storage"),
                *_each(_Float, "weight bias"), ("activation", C.c_char_p), *_MEMORY, *_EFFORT,
                ("compute", C.c_int)]


class SequenceOptions(_Sized):
    _c_name_ = "fovea_sequence_options"
    _fields_ = [*_SIZE, *_each(C.c_uint32, "rows context"),
                *_each(C.c_int, "all_logits form schedule weights compute"),
                ("memory_limit", C.c_uint64)]


class SequenceInfo(_Sized):
    _c_name_ = "fovea_sequence_info"
    _fields_ = [*_SIZE, *_each(C.c_uint32, "rows context vocabulary width"),
                *_each(C.c_uint64, "tokens weights states activations"), ("flops", C.c_double)]


FORMATS = {"rgb8": 0, "bgr8": 1, "gray8": 2, "planes_f32": 3, "nv12": 4, "yuyv": 5}
PICTURES = {"host": 0, "dmabuf": 1, "opencl": 2, "cuda": 3, "egl": 4, "nvmm": 5}
TRANSFERS = ("none", "device", "host")
YUVS = {"601": 0, "601-full": 1, "709": 2, "709-full": 3}
STORAGE = {"f32": 0, "f16": 1, "bf16": 2}
WEIGHTS = dict(STORAGE, int8=3)
COMPUTE = {"f32": 0, "bf16": 1, "int8": 2, "auto": 3}
FORMS = {"auto": 0, "recurrent": 1, "chunk": 2}
GATES = {"ready": 0, "logits": 1, "x-dense": 2, "q-dense": 3, "q-blockdiag": 4}
OUT_GATES = {"plain": 0, "linear": 1, "silu": 2}
KINDS = ("features", "logits", "depth", "class_map", "masks", "mask_classes", "boxes", "box_classes",
         "keypoints")
MASK_RULES = {"panoptic": 0, "instance": 1}
EXTENT_FRAME, NO_CLASS = 0, 0xffff
SCHEDULES = {"auto": 0, "streamed": 1, "stepwise": 2}

_lib = _load()
_HANDLE, _OUT = C.c_void_p, C.POINTER(C.c_void_p)
_RAN = [_HANDLE, C.POINTER(Output), C.c_size_t]  # a plan, and the outputs of a frame
for _name, _result, _arguments in [
        ("fovea_error", C.c_char_p, []),
        ("fovea_version", C.c_char_p, []),
        ("fovea_device_open", C.c_int, [_OUT, C.c_char_p, C.POINTER(DeviceOptions)]),
        ("fovea_device_close", None, [_HANDLE]),
        ("fovea_device_describe", C.c_int, [_HANDLE, C.POINTER(DeviceInfo)]),
        ("fovea_model_load", C.c_int, [_OUT, C.c_char_p]),
        ("fovea_model_load_with", C.c_int, [_OUT, C.c_char_p, C.POINTER(ModelOptions)]),
        ("fovea_model_free", None, [_HANDLE]),
        ("fovea_model_describe", C.c_int, [_HANDLE, C.POINTER(ModelInfo)]),
        ("fovea_model_preprocess", C.c_int, [_HANDLE, C.POINTER(Preprocess)]),
        ("fovea_model_label", C.c_char_p, [_HANDLE, C.c_uint32]),
        ("fovea_model_output", C.c_char_p, [_HANDLE, C.c_size_t]),
        ("fovea_plan_create", C.c_int, [_OUT, _HANDLE, _HANDLE, C.POINTER(PlanOptions)]),
        ("fovea_plan_free", None, [_HANDLE]),
        ("fovea_plan_query", C.c_int, [_HANDLE, C.POINTER(PlanInfo)]),
        ("fovea_plan_step", C.c_int, [_HANDLE, C.c_size_t, C.POINTER(StepInfo)]),
        ("fovea_tune_accuracy", C.c_int,
         [C.POINTER(AccuracyReport), _HANDLE, _HANDLE, C.POINTER(PlanOptions), C.POINTER(Frame),
          C.c_size_t, C.c_double, C.POINTER(TuneOptions)]),
        ("fovea_wisdom_save", C.c_int, [C.c_char_p]),
        ("fovea_plan_output", C.c_int, [_HANDLE, C.c_size_t, C.POINTER(OutputInfo)]),
        ("fovea_run", C.c_int, [_HANDLE, C.POINTER(Frame), C.POINTER(Output), C.c_size_t]),
        ("fovea_picture_import", C.c_int, [_OUT, _HANDLE, C.POINTER(_PictureOptions)]),
        ("fovea_picture_free", None, [_HANDLE]),
        ("fovea_picture_query", C.c_int, [_HANDLE, C.POINTER(_PictureInfo)]),
        ("fovea_run_picture", C.c_int,
         [_HANDLE, _HANDLE, C.POINTER(_Ready), C.POINTER(Output), C.c_size_t]),
        ("fovea_detections", C.c_int, [*_RAN, C.POINTER(_Detection), C.c_size_t,
                                       C.POINTER(C.c_size_t)]),
        ("fovea_depth_map", C.c_int, [*_RAN, C.c_int, C.c_void_p, C.c_size_t]),
        ("fovea_depth_map_u16", C.c_int, [*_RAN, C.c_int, C.c_double, C.c_void_p, C.c_size_t]),
        ("fovea_class_map", C.c_int, [*_RAN, C.c_int, C.c_void_p, C.c_size_t]),
        ("fovea_masks", C.c_int, [*_RAN, C.POINTER(_MaskOptions), C.POINTER(_Mask), C.c_size_t,
                                  C.POINTER(C.c_size_t), C.c_void_p, C.c_size_t]),
        ("fovea_mask_pixels", C.c_int, [*_RAN, C.c_uint32, C.c_void_p, C.c_size_t]),
        ("fovea_keypoints", C.c_int, [*_RAN, C.POINTER(_Keypoint), C.c_size_t,
                                      C.POINTER(C.c_size_t)]),
        ("fovea_model_keypoint", C.c_char_p, [_HANDLE, C.c_uint32]),
        ("fovea_attention_plan_create", C.c_int, [_OUT, _HANDLE, C.POINTER(AttentionOptions)]),
        ("fovea_gemm_plan_create", C.c_int, [_OUT, _HANDLE, C.POINTER(GemmOptions)]),
        ("fovea_op_input", C.c_char_p, [_HANDLE, C.c_size_t]),
        ("fovea_op_run", C.c_int, [_HANDLE, C.POINTER(Matrix), C.c_size_t, Matrix]),
        ("fovea_state_create", C.c_int, [_OUT, _HANDLE, C.POINTER(AttentionOptions)]),
        ("fovea_state_free", None, [_HANDLE]),
        ("fovea_state_input", C.c_char_p, [_HANDLE, C.c_size_t]),
        ("fovea_state_step", C.c_int, [_HANDLE, C.POINTER(Matrix), C.c_size_t, Matrix]),
        ("fovea_state_feed", C.c_int, [_HANDLE, C.c_uint32, C.POINTER(Matrix), C.c_size_t, Matrix]),
        ("fovea_state_reset", C.c_int, [_HANDLE]),
        ("fovea_state_size", C.c_size_t, [_HANDLE]),
        ("fovea_state_save", C.c_int, [_HANDLE, _Float, C.c_size_t]),
        ("fovea_state_restore", C.c_int, [_HANDLE, _Float, C.c_size_t]),
        ("fovea_sequence_create", C.c_int, [_OUT, _HANDLE, _HANDLE, C.POINTER(SequenceOptions)]),
        ("fovea_sequence_free", None, [_HANDLE]),
        ("fovea_sequence_query", C.c_int, [_HANDLE, C.POINTER(SequenceInfo)]),
        ("fovea_sequence_feed", C.c_int,
         [_HANDLE, C.POINTER(C.c_uint32), C.c_size_t, _Float, C.c_size_t]),
        ("fovea_sequence_mix", C.c_int, [_HANDLE, Matrix, C.c_size_t, Matrix]),
        ("fovea_sequence_seek", C.c_int, [_HANDLE, C.c_uint64]),
        ("fovea_sequence_reset", C.c_int, [_HANDLE]),
        ("fovea_sequence_size", C.c_size_t, [_HANDLE]),
        ("fovea_sequence_save", C.c_int, [_HANDLE, C.c_void_p, C.c_size_t]),
        ("fovea_sequence_restore", C.c_int, [_HANDLE, C.c_void_p, C.c_size_t]),
        ("fovea_sequence_fork", C.c_int, [_OUT, _HANDLE])]:
    getattr(_lib, _name).restype = _result
    getattr(_lib, _name).argtypes = _arguments


def version():
    return _lib.fovea_version().decode()


def save_wisdom(path=None):
    """Adds what was tuned to the file `path`, None: to the one that later processes read."""
    _checked(_lib.fovea_wisdom_save(None if path is None else os.fspath(path).encode()))


class _Handle:
    """An object of the library, freed with this one, and before the objects that it `needs`: until
    then its finalizer holds them, in whatever order the garbage collector finds all of them. At
    the end of the interpreter nothing is freed: threads may still be computing."""

    def __init__(self, free, needs, create, *arguments):
        handle = C.c_void_p()
        _checked(create(C.byref(handle), *arguments))
        self._as_parameter_ = handle
        self._lock = threading.Lock()
        weakref.finalize(self, _free, free, handle, needs).atexit = False

    def _call(self, function, *arguments):
        """function(self, *arguments), by one thread at a time."""
        with self._lock:
            _checked(function(self, *arguments))


def _free(free, handle, _needs):
    free(handle)


class Device(_Handle):
    """Where things run: Device("cpu", threads=4, isa="avx2"), Device("cl:0"),
    Device("cuda:0"). `cache`: directory of compiled kernels of the latter two, "" for none.
    `lock_memory`, `priority`, `thread_name`: of the CPU's workers, for real time. `context`: the
    address of a cl_context of the caller's, for its buffers and events."""

    def __init__(self, id="cpu", threads=0, isa=None, cores=None, max_dispatch_seconds=0, cache=None,
                 lock_memory=False, priority=0, thread_name=None, context=None):
        options = DeviceOptions(threads=threads, isa=isa and isa.encode(),
                                cores=cores and cores.encode(),
                                max_dispatch_seconds=max_dispatch_seconds,
                                cache=None if cache is None else os.fspath(cache).encode(),
                                lock_memory=lock_memory, priority=priority,
                                thread_name=thread_name and thread_name.encode(), context=context)
        super().__init__(_lib.fovea_device_close, None, _lib.fovea_device_open, id.encode(),
                         C.byref(options))

    @property
    def info(self):
        info = DeviceInfo()
        _checked(_lib.fovea_device_describe(self, C.byref(info)))
        return info._values()


class Picture(_Handle):
    """A picture in memory that a camera, a decoder or another library has, imported once, for any number
    of frames of Plan.run, which read what it has then:

        picture = fovea.Picture(device, "nv12", 1920, 1080, fd=fd, offsets=(0, 1920 * 1080))
        plan = model.plan(picture, preprocess=True)
        out = plan.run(picture)

    `fd`: of a dma-buf, or one for each plane. `memory`: an address, or one for each plane, of `kind` "host",
    "opencl" (a cl_mem), "cuda" (a tensor's data_ptr()), "egl" or "nvmm". `offsets`, `strides`: bytes of each
    plane; 0: from the begin, rows packed. `size`: bytes of the memory. `owner`: an object that is kept as
    long as the picture. The device is that of the model whose plans read it."""

    def __init__(self, device, format, width, height, fd=None, memory=None, kind=None, offsets=(),
                 strides=(), size=0, modifier=0, owner=None):
        if (fd is None) == (memory is None):
            raise ValueError("give a picture's fd, or its memory and kind")
        self.frame = format, width, height
        self._owner = owner
        options = _PictureOptions(kind=PICTURES[kind or ("dmabuf" if memory is None else "host")],
                                  format=FORMATS[format], width=width, height=height,
                                  modifier=modifier)
        for i, plane in enumerate(options.plane):
            plane.fd = -1 if fd is None else fd[min(i, len(fd) - 1)] if hasattr(fd, "__len__") else fd
            plane.memory = memory[min(i, len(memory) - 1)] if hasattr(memory, "__len__") else memory
            plane.size = size
            plane.offset = offsets[i] if i < len(offsets) else 0
            plane.stride = strides[i] if i < len(strides) else 0
        super().__init__(_lib.fovea_picture_free, (device, owner), _lib.fovea_picture_import,
                         _device(device), C.byref(options))

    @property
    def info(self):
        """transfer: "none" where frames read the memory in place, "device" or "host": which one copies
        it, for what `reason`; `method`: how the device has it."""
        info = _PictureInfo()
        self._call(_lib.fovea_picture_query, C.byref(info))
        values = info._values()
        return {"transfer": TRANSFERS[values["transfer"]], "method": values["method"],
                "reason": values["reason"]}


_default, _default_lock = [], threading.Lock()


def _device(device):
    if device is not None:
        return device
    with _default_lock:
        if not _default:
            _default.append(Device())
    return _default[0]


def _op_plan(device, create, options):
    device = _device(device)
    return _Handle(_lib.fovea_plan_free, device, create, device, C.byref(options))


def _text(value):
    return value.decode(errors="replace") if isinstance(value, bytes) else value


# ---- attention ----

_NUMPY = {0: np.float32, 1: np.float16, 2: np.uint16}


def _storage(array):
    """The library's type of an array: float32, float16, or bfloat16 in uint16."""
    for code, dtype in _NUMPY.items():
        if array.dtype == dtype:
            return code
    raise TypeError("%s: give float32, float16, or bfloat16 as uint16" % array.dtype)


def _floats(array):
    return np.ascontiguousarray(array, np.float32)


class _Options:
    """fovea_attention_options, the arrays that it points to by name, and what was given but is an input."""

    ENUMS = {"storage": STORAGE, "out_storage": STORAGE, "form": FORMS, "gates": GATES,
             "out_gate": OUT_GATES, "schedule": SCHEDULES, "compute": COMPUTE}

    def __init__(self, attention, given):
        self.c = AttentionOptions(scale=1.0, eps=1e-6, normalise=1,
                                  attention=attention.encode())
        self.arrays, self.inputs = {}, {}
        # Weights when the gates are made of x or q, else the gates or their logits; a decay per
        # head is retention's, one per token is an input.
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
        if self.c.gates == GATES["x-dense"] and "gate_q" in self.arrays:
            self.c.gate_width = self.arrays["gate_q"].shape[-1]

    def _set(self, name, value):
        kinds = dict(AttentionOptions._fields_[1:])
        if name not in kinds:
            raise TypeError("attention has no option %r" % name)
        if kinds[name] is _Float:
            self.arrays[name] = _floats(value)
            value = self.arrays[name].ctypes.data_as(_Float)
        elif name in self.ENUMS and not isinstance(value, int):
            if value not in self.ENUMS[name]:
                raise ValueError("%s %r: one of %s" % (name, value, ", ".join(self.ENUMS[name])))
            value = self.ENUMS[name][value]
        setattr(self.c, name, value)

    def _rope(self, value):
        """(height, width) of a grid, or the tables cos and sin, (N, d) each."""
        if np.ndim(value[0]):
            self._set("rope_cos", value[0])
            self._set("rope_sin", value[1])
        else:
            self.c.rope_height, self.c.rope_width = value


def _input(name, array, batch):
    """Rows of tokens of sequence `batch`; of None the array itself."""
    array = np.asarray(array)
    if batch is None:
        return array
    array = array[batch]
    if array.ndim == 3:  # (H, N, d)
        return array.transpose(1, 0, 2).reshape(array.shape[1], -1)
    return array if name in ("x", "out_gate") else array.T  # (N, C); (H, N)


def _matrices(names, c, arrays):
    """The operation's inputs in its order. The library sees pointers only: shapes are checked here."""
    wide, out, keys = c.heads * c.head_dim, c.heads * c.value_dim, c.keys or c.rows
    gla = c.attention.decode().split(":")[0] in ("gla", "sla-gla")
    shapes = {"q": (c.rows, wide), "k": (keys, wide), "v": (keys, out), "beta": (c.rows, c.heads),
              "log_decay": (c.rows, wide if gla else c.heads), "gate_q": (c.rows, c.heads),
              "gate_k": (keys, c.heads), "x": (c.rows, c.gate_width), "out_gate": (c.rows, out)}
    unknown, missing = set(arrays) - set(names), set(names) - set(arrays)
    if unknown or missing:
        raise TypeError("; ".join("%s input %s" % (what, ", ".join(sorted(which))) for what, which
                                  in (("missing", missing), ("needless", unknown)) if which))
    packed = []
    for name in names:
        a = arrays[name]
        if np.shape(a) != shapes[name]:
            raise ValueError("%s has shape %s, expected %s" % (name, np.shape(a), shapes[name]))
        packed.append(np.ascontiguousarray(a) if name in ("q", "k", "v") else _floats(a))
    return packed, (Matrix * len(packed))(*[Matrix(a.ctypes.data, 0) for a in packed])


def _names(get, handle):
    names = []
    while (name := get(handle, len(names))) is not None:
        names.append(name.decode())
    return names


def _check_options(c, arrays):
    """The sizes of the arrays that options point to."""
    wide, out = c.heads * c.head_dim, c.heads * c.value_dim
    filters = c.value_dim if c.local_shared else out
    gate = c.heads * {2: c.gate_width, 3: wide, 4: c.head_dim}.get(c.gates, 0)
    sizes = {"power": wide, "channel_scale": wide, "log_decay": c.heads, "gate_q": gate,
             "gate_k": gate, "rope_cos": c.rows * c.head_dim, "rope_sin": c.rows * c.head_dim,
             "local_weight": filters * c.local_size ** 2, "local_bias": filters,
             "norm_weight": out, "norm_bias": out, "map_q": wide * c.head_dim, "map_k": wide * c.head_dim}
    for name, a in arrays.items():
        if a.size != sizes[name]:
            raise ValueError("%s has %d values, expected %d" % (name, a.size, sizes[name]))


def _shape(options, q, k, v, heads):
    """Fills in rows, keys, heads and dims of (B, H, N, d) or (N, H d) arrays."""
    c = options.c
    if q.ndim == 4:
        c.heads, c.rows, c.head_dim, c.value_dim = q.shape[1], q.shape[2], q.shape[3], v.shape[3]
        c.keys = k.shape[2]
    elif q.ndim == 2 and heads:
        c.heads, c.rows, c.keys = heads, q.shape[0], k.shape[0]
        c.head_dim, c.value_dim = q.shape[1] // heads, v.shape[1] // heads
    else:
        raise ValueError("q has shape %s: give (B, H, N, d), or (N, H*d) and heads" % (q.shape,))
    c.storage = _storage(q)
    if not q.dtype == k.dtype == v.dtype:
        raise TypeError("q, k and v of one type expected, not %s, %s, %s" % (q.dtype, k.dtype, v.dtype))


def attention(q, k, v, attention="linear", *, heads=None, device=None, state=None,
              return_state=False, **options):
    """Attention of (B, H, N, d) arrays, or of (N, H*d) rows with `heads`. Returns the output alike,
    float32 unless out_storage says "f16" or "bf16" (in uint16).

    `attention` is a name of attention.h: "softmax", "linear:elu1", "mala", "pola", "nala", "sla-...",
    and with causal=True "retention", "gla", "delta-rule", "gated-delta-rule". `options` are the
    fields of fovea_attention_options (scale, eps, normalise, form, l2norm, alpha, power, channel_scale,
    local_weight, norm_weight, ...), enums by name, and

      rope=(cos, sin) or (height, width)   grid=(height, width)
      log_decay, beta                      gla: (B, H, N, d); else (B, H, N); retention: (H)
      gate_q, gate_k                       (B, H, N); weights with gates="x-dense", "q-dense", ...
      x, g                                 (B, N, C)

    With rows of tokens (2-D q) these are rows, too: (N, H), (N, H*d), (N, C). A causal attention
    begins with `state` (None: zeros), and with return_state=True the result is (out, state):
    (S, Z) with S (B, H, d', dv) and Z (B, H, d'), None without a denominator.
    """
    q, k, v = (np.asarray(a) for a in (q, k, v))
    o = _Options(attention, options)
    _shape(o, q, k, v, heads)
    _check_options(o.c, o.arrays)
    batches = [None] if q.ndim == 2 else range(q.shape[0])
    stateful = return_state or state is not None
    engine = State._of(o, device) if stateful else _op_plan(
        device, _lib.fovea_attention_plan_create, o.c)
    outs, states = [], []
    for b in batches:
        arrays = {name: _input(name, a, b) for name, a in dict(o.inputs, q=q, k=k, v=v).items()}
        if stateful:
            engine.reset()
            if state is not None:
                engine.restore(*[a if a is None or b is None else a[b] for a in state])
            outs.append(engine._advance(arrays))
            states.append(engine.save())
        else:
            _alive, inputs = _matrices(_names(_lib.fovea_op_input, engine), o.c, arrays)
            out = np.empty((o.c.rows, o.c.heads * o.c.value_dim), _NUMPY[o.c.out_storage])
            engine._call(_lib.fovea_op_run, inputs, len(inputs), Matrix(out.ctypes.data, 0))
            outs.append(out)
    if q.ndim == 4:
        out = np.stack([a.reshape(o.c.rows, o.c.heads, -1).transpose(1, 0, 2) for a in outs])
        states = [None if parts[0] is None else np.stack(parts) for parts in zip(*states)]
    else:
        out = outs[0]
        states = states[0] if states else None
    return (out, tuple(states)) if return_state else out


class State(_Handle):
    """A causal attention with memory: one sequence, fed as it comes.

        state = fovea.State("gla", heads=4, head_dim=64, value_dim=64, rows=256)
        out = state.feed(q, k, v, log_decay=a)     # rows of tokens, at most 256
        out = state.step(q, k, v, log_decay=a)     # one token
    """

    def __init__(self, attention="linear", *, heads, head_dim, value_dim=None, rows=256,
                 device=None, **options):
        o = _Options(attention, options)
        o.c.heads, o.c.head_dim, o.c.value_dim = heads, head_dim, value_dim or head_dim
        o.c.rows = rows
        _check_options(o.c, o.arrays)
        self._open(o, device)

    @classmethod
    def _of(cls, options, device):
        self = cls.__new__(cls)
        self._open(options, device)
        return self

    def _open(self, options, device):
        options.c.causal = 1
        self._options = options
        device = _device(device)
        super().__init__(_lib.fovea_state_free, device, _lib.fovea_state_create, device,
                         C.byref(options.c))

    def _advance(self, arrays, step=False):
        c = AttentionOptions.from_buffer_copy(self._options.c)
        c.rows, c.keys = len(arrays["q"]), 0
        _alive, inputs = _matrices(_names(_lib.fovea_state_input, self), c, arrays)
        out = np.empty((c.rows, c.heads * c.value_dim), _NUMPY[c.out_storage])
        to = Matrix(out.ctypes.data, 0)
        if step:
            self._call(_lib.fovea_state_step, inputs, len(inputs), to)
        else:
            self._call(_lib.fovea_state_feed, c.rows, inputs, len(inputs), to)
        return out

    def _arrays(self, q, k, v, inputs):
        arrays = dict(inputs, q=np.asarray(q), k=np.asarray(k), v=np.asarray(v))
        if "g" in arrays:
            arrays["out_gate"] = arrays.pop("g")
        if any(_storage(arrays[n]) != self._options.c.storage for n in ("q", "k", "v")):
            raise TypeError("q, k and v must have the state's storage")
        return arrays

    def feed(self, q, k, v, **inputs):
        """The next tokens, rows of (H*d), at most `rows` of them."""
        return self._advance(self._arrays(q, k, v, inputs))

    def step(self, q, k, v, **inputs):
        """The next token, in recurrent form; every array is one row."""
        inputs = {n: np.atleast_2d(a) for n, a in inputs.items()}
        arrays = self._arrays(*(np.atleast_2d(a) for a in (q, k, v)), inputs)
        if len(arrays["q"]) != 1:
            raise ValueError("one token at a time, not %d" % len(arrays["q"]))
        return self._advance(arrays, step=True)[0]

    def reset(self):
        self._call(_lib.fovea_state_reset)

    def save(self):
        """S (H, d', dv) and Z (H, d') or None."""
        c = self._options.c
        flat = np.empty(_lib.fovea_state_size(self), np.float32)
        self._call(_lib.fovea_state_save, flat.ctypes.data_as(_Float), flat.size)
        width = c.head_dim * (2 if b":nala" in c.attention else 1)
        s, z = np.split(flat, [c.heads * width * c.value_dim])
        return s.reshape(c.heads, width, c.value_dim), z.reshape(c.heads, width) if z.size else None

    def restore(self, s, z=None):
        flat = np.concatenate([_floats(a).ravel() for a in (s, z) if a is not None])
        self._call(_lib.fovea_state_restore, flat.ctypes.data_as(_Float), flat.size)


# ---- matrix products ----


def gemm(a, weight, bias=None, activation=None, *, device=None):
    """activation(a weight^T + bias) for a (rows, in) and weight (out, in), all float32; activation
    None, "gelu", "gelu_tanh", "gelu_quick", "silu", "relu", "tanh", "sigmoid" or "softplus"."""
    a, weight = _floats(a), _floats(weight)
    if a.ndim != 2 or weight.ndim != 2 or a.shape[1] != weight.shape[1]:
        raise ValueError("a %s, weight %s: (rows, in) and (out, in)" % (a.shape, weight.shape))
    bias = None if bias is None else _floats(bias)
    if bias is not None and bias.shape != weight.shape[:1]:
        raise ValueError("bias has shape %s, expected %s" % (bias.shape, weight.shape[:1]))
    options = GemmOptions(rows=a.shape[0], out=weight.shape[0],
                          weight=weight.ctypes.data_as(_Float),
                          activation=activation and activation.encode())
    setattr(options, "in", a.shape[1])
    if bias is not None:
        options.bias = bias.ctypes.data_as(_Float)
    out = np.empty((a.shape[0], weight.shape[0]), np.float32)
    plan = _op_plan(device, _lib.fovea_gemm_plan_create, options)
    plan._call(_lib.fovea_op_run, C.byref(Matrix(a.ctypes.data, 0)), 1,
               Matrix(out.ctypes.data, 0))
    return out


# ---- models ----


Features = collections.namedtuple("Features", "values stride")
Detection = collections.namedtuple("Detection", "x1 y1 x2 y2 score label")
Mask = collections.namedtuple("Mask", "label score query x1 y1 x2 y2 area")
Keypoint = collections.namedtuple("Keypoint", "x y score")
Tuned = collections.namedtuple("Tuned", "compute tried bf16")


def _pixels(picture):
    """The array of a picture: itself, or what Pillow reads, turned as its EXIF says; a Picture stays
    what it is."""
    if isinstance(picture, Picture):
        return picture
    if isinstance(picture, (str, os.PathLike)):
        try:
            from PIL import Image
        except ImportError:
            raise ImportError("%s: Pillow reads files of pictures (pip install pillow); or give the "
                              "pixels themselves, (H, W, 3) of uint8" % os.fspath(picture)) from None
        with Image.open(picture) as opened:
            return _pixels(opened)
    if hasattr(picture, "getexif"):
        from PIL import ImageOps
        picture = ImageOps.exif_transpose(picture).convert("RGB")
    return np.ascontiguousarray(picture)


def _frame_of(pixels, format):
    """(kind, width, height) of an array of pixels, or of a Picture."""
    if isinstance(pixels, Picture):
        return pixels.frame
    shape, is_float = pixels.shape, pixels.dtype == np.float32
    if not is_float and pixels.dtype != np.uint8:
        raise TypeError("pixels of type %s: give uint8, or float32 planes that are normalised"
                        % pixels.dtype)
    if format is not None:
        if format == "nv12" and not is_float and len(shape) == 2 and shape[0] % 3 == 0:
            height, width = shape[0] // 3 * 2, shape[1]
        elif format == "yuyv" and not is_float and len(shape) == 3 and shape[2] == 2:
            height, width = shape[:2]
        else:
            raise ValueError("format %r, %s of shape %s: nv12 is uint8 (3 H / 2, W), yuyv (H, W, 2)"
                             % (format, pixels.dtype, shape))
        if width % 2:
            raise ValueError("%s with %d columns: give an even number" % (format, width))
        return format, width, height
    if is_float:
        if len(shape) != 3 or shape[0] != 3:
            raise ValueError("float32 pixels of shape %s: give planes that are normalised, (3, H, W), "
                             "or uint8 pixels, (H, W, 3)" % (shape,))
        return "planes_f32", shape[2], shape[1]
    if len(shape) == 2:
        return "gray8", shape[1], shape[0]
    if len(shape) != 3 or shape[2] != 3:
        raise ValueError("uint8 pixels of shape %s: give (H, W, 3), R, G and B, or (H, W)" % (shape,))
    return "rgb8", shape[1], shape[0]


def _plan_options(model, frame, attention=None, outputs=None, preprocess=False, schedule="auto",
                  weights="f32", activations="f32", yuv="601", compute="f32", dry=False):
    kind, width, height = frame
    names = [name.encode() for name in outputs or ()]
    array = (C.c_char_p * len(names))(*names)
    return PlanOptions(frame=FrameShape(FORMATS[kind], width, height),
                       preprocess=C.pointer(model._preprocess()) if preprocess else None,
                       attention=attention and attention.encode(),
                       outputs=C.cast(array, C.POINTER(C.c_char_p)) if names else None,
                       n_outputs=len(names), schedule=SCHEDULES[schedule], weights=WEIGHTS[weights],
                       activations=STORAGE[activations], yuv=YUVS[yuv], compute=COMPUTE[compute],
                       dry=dry)


def _planes(pixels, kind, width, height):
    chroma = pixels.ctypes.data + height * width if kind == "nv12" else None
    return Frame((C.c_void_p * 3)(pixels.ctypes.data, chroma), (C.c_size_t * 3)())


class Plan(_Handle):
    """Frames of one kind and size through a model; made by Model.plan."""

    def __init__(self, model, frame, *arguments, **options):
        self.frame = frame  # kind, width, height
        options = _plan_options(model, frame, *arguments, **options)
        # The library's plan holds the model by itself.
        super().__init__(_lib.fovea_plan_free, model._device, _lib.fovea_plan_create, model,
                         model._device, C.byref(options))

    @property
    def info(self):
        info = PlanInfo()
        self._call(_lib.fovea_plan_query, C.byref(info))
        values = info._values()
        return dict(values, compute=list(COMPUTE)[values["compute"]])

    @property
    def kinds(self):
        """{name: what it is, of KINDS} of the plan's outputs."""
        return {info.name.decode(): KINDS[info.kind] for info in self._outputs()}

    def run(self, picture):
        """{name: float32 rows} of one picture, which may be a Picture."""
        return {name: rows for name, rows, _ in self._run(_pixels(picture))}

    def detections(self, picture, most=10000):
        """Boxes that a detector finds in one picture, best first, `most` of them: [Detection(x1, y1, x2,
        y2, score, label)] in pixels of `picture`. The plan's outputs are all of "cls.0", "box.0", ..., or
        "logits" and "pred_boxes"."""
        boxes, count, info = (_Detection * most)(), C.c_size_t(), self.info
        self._ran(picture, _lib.fovea_detections, boxes, most, C.byref(count))
        left, top, across, down = (info[k] for k in ("left", "top", "scale_x", "scale_y"))
        return [Detection(left + b.x1 * across, top + b.y1 * down, left + b.x2 * across,
                          top + b.y2 * down, b.score, b.label) for b in boxes[:count.value]]

    def depth(self, picture, unit=None):
        """Depth of every pixel of one picture, (H, W): float32, NaN outside of what the model sees; with a
        `unit` uint16 in steps of so many metres, as depth cameras have it (0.001), 0 outside; with unit=0
        the least of the picture becomes 1 and the greatest 65535. Output "predicted_depth"."""
        if unit is None:
            return self._map(picture, np.float32, _lib.fovea_depth_map)
        return self._map(picture, np.uint16, _lib.fovea_depth_map_u16, float(unit))

    def class_map(self, picture):
        """The class of every pixel of one picture, uint16 (H, W), NO_CLASS outside of what the model sees.
        Outputs "segmentation", "seg_logits", or "masks_queries_logits" and "class_queries_logits"."""
        return self._map(picture, np.uint16, _lib.fovea_class_map)

    def masks(self, picture, rule="panoptic", threshold=0, mask_threshold=0, overlap_threshold=0,
              stuff=(), most=1000):
        """Masks that a segmenter finds in one picture: [Mask(label, score, query, x1, y1, x2, y2, area)] in
        the order of their queries, and a uint16 (H, W) with 1 + a mask's index for each pixel, or 0.
        rule "panoptic" or "instance"; thresholds of 0 are transformers'. Outputs "masks_queries_logits"
        and "class_queries_logits"."""
        options = _MaskOptions(rule=MASK_RULES[rule], threshold=threshold, mask_threshold=mask_threshold,
                               overlap_threshold=overlap_threshold, n_stuff=len(stuff),
                               stuff=(C.c_uint32 * len(stuff))(*stuff) if stuff else None)
        found, count = (_Mask * most)(), C.c_size_t()
        of_pixel = np.empty(self.frame[:0:-1], np.uint16)
        self._ran(picture, _lib.fovea_masks, C.byref(options), found, most, C.byref(count),
                  of_pixel.ctypes.data, of_pixel.size)
        return [Mask(*(getattr(m, f) for f in Mask._fields)) for m in found[:count.value]], of_pixel

    def keypoints(self, picture, most=1000):
        """Key points of one picture, which is the crop of one person or thing: [Keypoint(x, y, score)] in
        pixels of `picture`. Output "heatmaps"."""
        points, count = (_Keypoint * most)(), C.c_size_t()
        self._ran(picture, _lib.fovea_keypoints, points, most, C.byref(count))
        return [Keypoint(p.x, p.y, p.score) for p in points[:count.value]]

    def _map(self, picture, dtype, function, *arguments):
        out = np.empty(self.frame[:0:-1], dtype)
        self._ran(picture, function, EXTENT_FRAME, *arguments, out.ctypes.data, out.size)
        return out

    def _ran(self, picture, function, *arguments):
        """Calls what reads a frame's outputs, of this picture."""
        results = self._run(_pixels(picture))
        outs = (Output * len(results))(*[Output(a.ctypes.data, a.nbytes) for _, a, _ in results])
        self._call(function, outs, len(outs), *arguments)

    def _outputs(self):
        """OutputInfo of every output."""
        found, info = [], OutputInfo()
        while _lib.fovea_plan_output(self, len(found), C.byref(info)):
            found.append(info)
            info = OutputInfo()
        return found

    def _run(self, pixels):
        """(name, rows, OutputInfo) of every output."""
        kind, width, height = self.frame
        frame = _frame_of(pixels, kind if kind in ("nv12", "yuyv") else None)
        if frame != self.frame:
            raise ValueError("the plan is for %s of %d x %d, not for %s of %d x %d"
                             % (self.frame + frame))
        results = [(info.name.decode(), np.empty((info.rows, info.columns), np.float32), info)
                   for info in self._outputs()]
        outs = (Output * len(results))(*[Output(a.ctypes.data, a.nbytes) for _, a, _ in results])
        if isinstance(pixels, Picture):
            self._call(_lib.fovea_run_picture, pixels, None, outs, len(outs))
        else:
            planes = _planes(pixels, kind, width, height)
            self._call(_lib.fovea_run, C.byref(planes), outs, len(outs))
        return results


class Model(_Handle):
    """A checkpoint: fovea.Model("path/to/dinov2-base"), or "synthetic:NAME". `prefix`: what stands before
    the names of its tensors, where it is a part of a larger checkpoint. `linear`: what differs in linear
    attentions of a ViT, fields of fovea_linear_form: dict(nala_lambda=4, heads=12)."""

    PLANS = 4  # of those that run() makes, one for every size and choice, the last ones are kept

    def __init__(self, path, device=None, prefix=None, linear=None):
        self._device = _device(device)
        options = ModelOptions(prefix=os.fspath(prefix).encode() if prefix else None,
                               linear=LinearForm(**(linear or {})))
        self._plans, self._plans_lock = collections.OrderedDict(), threading.Lock()
        super().__init__(_lib.fovea_model_free, self._device, _lib.fovea_model_load_with,
                         os.fspath(path).encode(), C.byref(options))

    @property
    def info(self):
        info = ModelInfo()
        _checked(_lib.fovea_model_describe(self, C.byref(info)))
        return info._values()

    def _preprocess(self):
        rule = Preprocess()
        _checked(_lib.fovea_model_preprocess(self, C.byref(rule)))
        return rule

    @property
    def outputs(self):
        """Names of all outputs that it can give."""
        return _names(_lib.fovea_model_output, self)

    def label(self, i):
        return _text(_lib.fovea_model_label(self, i))

    def keypoint(self, i):
        """Name of a key point, or None."""
        return _text(_lib.fovea_model_keypoint(self, i))

    def run(self, pixels, attention=None, outputs=None, preprocess=False, **options):
        """One picture: (H, W, 3) or (H, W) bytes, or float32 planes (3, H, W) that are already
        normalised; with another axis in front a batch of them. Where Pillow is installed also its
        images, and paths of files. Returns {name: float32 rows} for `outputs` (None: the model's
        main one). Bytes come in the size to be run, unless preprocess=True resizes and crops them
        as the model's own image processor does.

        `attention` is a name for all blocks, with exceptions if need be: "linear+softmax@0-3".
        `options` are

          schedule="streamed" or "stepwise"
          weights="f16", "bf16" or "int8"     in half the memory, of blocks in a quarter
          activations="f16" or "bf16"         likewise; not on the CPU
          compute="bf16", "int8" or "auto"    what products of matrices multiply; "auto" is what
                                              tune_accuracy has found, else "f32"
          format="yuyv" or "nv12"             a camera's frame: bytes (H, W, 2), or (3 H / 2, W) with
                                              rows of Y, then of U and V; H and W are even
          yuv="601", "709", "601-full", ...   what these mean

        Each kind and size of picture, and each choice, has a plan; the last `PLANS` (4) are kept,
        with the memory that they compute in."""
        pixels = _pixels(pixels)
        if not isinstance(pixels, Picture) and pixels.ndim == 4:
            runs = [self.run(p, attention, outputs, preprocess, **options) for p in pixels]
            return {name: np.stack([r[name] for r in runs]) for name in runs[0]}
        return {name: rows for name, rows, _ in
                self._run(pixels, attention, outputs, preprocess, **options)}

    def features(self, pixels, attention=None, outputs=None, preprocess=False, **options):
        """Dense features of one picture: {name: Features(values (h, w, C), stride in pixels)}; of
        `outputs`, else of last_hidden_state or every stage. "segmentation" gives logits. Picture
        and options are those of run()."""
        if outputs is None:
            outputs = [o for o in self.outputs if o == "last_hidden_state" or o.startswith("stage")]
        dense = {}
        for name, rows, info in self._run(_pixels(pixels), attention, outputs, preprocess, **options):
            if not info.grid_width:
                raise ValueError("%s is no grid of features" % name)
            values = rows[info.prefix:].reshape(info.grid_height, info.grid_width, -1)
            dense[name] = Features(values, info.stride)
        return dense

    def plan(self, like, attention=None, outputs=None, preprocess=False, format=None, **options):
        """A Plan of the caller's own, for pictures such as `like`; options are those of run(). What
        threads run with a plan each they compute side by side; weights are shared."""
        return Plan(self, _frame_of(_pixels(like), format), attention, outputs, preprocess, **options)

    def tune_accuracy(self, pictures, bound, attention=None, outputs=None, preprocess=False,
                      format=None, seconds=0, **options):
        """Finds the fastest types of products with which `outputs` for these pictures, which have one
        size, keep a cosine of `bound` with float32, such as 0.9995: what compute="auto" is from then
        on, in this process, and with save_wisdom() in later ones. Takes `seconds` at most, 0: as long
        as it takes. Returns Tuned(compute, tried, bf16): what "auto" is (None: nothing was found in
        time), {way: {"cosine", "worst", "seconds"}} of "f32", "bf16", "int8" and "mix" as far as they
        were tried, and which steps are bfloat16 in the mix, where others are int8."""
        pictures = [_pixels(p) for p in pictures]
        if not pictures:
            raise ValueError("no pictures to measure accuracy on")
        if any(isinstance(p, Picture) for p in pictures):
            raise TypeError("accuracy is measured on arrays of pixels or files; give those")
        frame = _frame_of(pictures[0], format)
        if any(_frame_of(p, format) != frame for p in pictures):
            raise ValueError("pictures of several sizes or kinds; give those of one, or tune for each")
        frames = (Frame * len(pictures))(*[_planes(p, *frame) for p in pictures])
        chosen = (attention, outputs, preprocess)
        report = AccuracyReport()
        _checked(_lib.fovea_tune_accuracy(
            C.byref(report), self, self._device,
            C.byref(_plan_options(self, frame, *chosen, **options)), frames, len(frames), bound,
            C.byref(TuneOptions(seconds=seconds))))
        tried = {way: {name: getattr(of, name) for name in ("cosine", "worst", "seconds")}
                 for way in ("f32", "bf16", "int8", "mix")
                 for of in (getattr(report, way),) if of.tried}
        labels = []
        if report.kept:
            plan = Plan(self, frame, *chosen, **dict(options, compute="int8", dry=True))
            step = StepInfo()
            for i in report.step[:report.kept]:
                _lib.fovea_plan_step(plan, i, C.byref(step))
                labels.append(step.label.decode())
        return Tuned(list(COMPUTE)[report.compute] if report.found else None, tried, labels)

    def _run(self, pixels, attention, outputs, preprocess, format=None, **options):
        frame = _frame_of(pixels, format)
        key = (frame, attention, tuple(outputs or ()), preprocess, *sorted(options.items()))
        with self._plans_lock:
            plan = self._plans.pop(key, None) or Plan(self, frame, attention, outputs, preprocess,
                                                      **options)
            self._plans[key] = plan
            if len(self._plans) > self.PLANS:
                self._plans.popitem(last=False)
        return plan._run(pixels)


class Sequence(_Handle):
    """A language model that is fed token by token, or a prompt at once; or a token mixer by itself.

        model = fovea.Model("gla-340m")
        sequence = fovea.Sequence(model)
        logits = sequence.feed([1, 523, 17])     # of what follows the last token
        logits = sequence.feed([int(logits.argmax())])

    Ids come from a tokenizer of yours: of the package tokenizers, say. `rows`: tokens of a prompt at a
    time. `context`: tokens that softmax attention has room for; linear mixers need none. `all_logits`:
    of every token that is fed, rows. `weights`, `compute`, `form` by name.
    """

    def __init__(self, model, rows=0, context=0, all_logits=False, form="auto", weights="f32",
                 compute="f32", memory_limit=0, device=None):
        device = model._device if device is None else _device(device)
        options = SequenceOptions(rows=rows, context=context, all_logits=all_logits, form=FORMS[form],
                                  weights=WEIGHTS[weights], compute=COMPUTE[compute],
                                  memory_limit=memory_limit)
        self._all = all_logits
        super().__init__(_lib.fovea_sequence_free, (model, device), _lib.fovea_sequence_create, model,
                         device, C.byref(options))
        self._needs, self._shape = (model, device), self.info

    @property
    def info(self):
        info = SequenceInfo()
        self._call(_lib.fovea_sequence_query, C.byref(info))
        return info._values()

    def feed(self, ids):
        """Logits of what follows the last of `ids`; with all_logits those after each, rows."""
        ids = np.ascontiguousarray(ids, np.uint32).ravel()
        logits = np.empty((len(ids) if self._all else 1, self._shape["vocabulary"]), np.float32)
        self._call(_lib.fovea_sequence_feed, ids.ctypes.data_as(C.POINTER(C.c_uint32)), len(ids),
                   logits.ctypes.data_as(_Float), logits.size)
        return logits if self._all else logits[0]

    def mix(self, x):
        """What a token mixer makes of (N, width) rows."""
        x = _floats(x)
        if x.ndim != 2 or x.shape[1] != self._shape["width"]:
            raise ValueError("rows of %d values expected, not %s" % (self._shape["width"], x.shape))
        out = np.empty_like(x)
        self._call(_lib.fovea_sequence_mix, Matrix(x.ctypes.data, 0), len(x),
                   Matrix(out.ctypes.data, 0))
        return out

    def seek(self, tokens):
        """Cuts a cache of keys and values to so many tokens."""
        self._call(_lib.fovea_sequence_seek, tokens)

    def reset(self):
        self._call(_lib.fovea_sequence_reset)

    def save(self):
        """What it remembers, as bytes that another process can go on with."""
        out = C.create_string_buffer(_lib.fovea_sequence_size(self))
        self._call(_lib.fovea_sequence_save, out, len(out))
        return out.raw

    def restore(self, saved):
        self._call(_lib.fovea_sequence_restore, bytes(saved), len(saved))

    def fork(self):
        """A second one that has seen the same tokens."""
        copy = Sequence.__new__(Sequence)
        copy._all, copy._shape, copy._needs = self._all, self._shape, self._needs
        with self._lock:
            _Handle.__init__(copy, _lib.fovea_sequence_free, self._needs, _lib.fovea_sequence_fork, self)
        return copy
