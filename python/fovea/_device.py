"""Devices, and pictures in memory that cameras, decoders or other libraries own."""
from __future__ import annotations

import ctypes as C
import os
import threading
from contextvars import ContextVar, Token
from types import TracebackType
from typing import Any, Dict, List, Optional, Sequence, Type, Union

from . import _structures as c
from ._handle import Handle, Self
from ._library import checked, lib

Path = Union[str, "os.PathLike[str]"]


class Device(Handle):
    """Where things run: Device("cpu", threads=4, isa="avx2"), Device("cl:0"), Device("cuda:0").

    In a `with` statement it is the default device of all objects made inside, and is closed at the end:

        with fovea.Device("cpu", threads=4):
            out = fovea.load("dinov2-base")("photo.jpg")

    Plans that were made on it keep working after that; new plans need an open device.

    `threads`: number of workers; 0: one per core. `cores`: the cores that they run on, such as "0-3,6".
    `max_dispatch_seconds`: longest time of one call of a GPU. `cache`: directory for compiled kernels of a GPU,
    "" for none. `lock_memory`, `priority` and `thread_name` set up the CPU's workers for real-time use. `context`:
    the address of the caller's cl_context, so that its buffers and events can be used. `max_compile_seconds`: time
    after which a compilation that has not ended is given up; 0: FOVEA_COMPILE_SECONDS, else 120."""

    _token: "Optional[Token[Optional[Device]]]" = None

    def __init__(self, id: str = "cpu", threads: int = 0, isa: Optional[str] = None,
                 cores: Optional[str] = None, max_dispatch_seconds: float = 0, cache: Optional[Path] = None,
                 lock_memory: bool = False, priority: int = 0, thread_name: Optional[str] = None,
                 context: Optional[int] = None, max_compile_seconds: float = 0) -> None:
        options = c.DeviceOptions(threads=threads, isa=isa and isa.encode(),
                                  cores=cores and cores.encode(),
                                  max_dispatch_seconds=max_dispatch_seconds,
                                  cache=None if cache is None else os.fspath(cache).encode(),
                                  lock_memory=lock_memory, priority=priority,
                                  thread_name=thread_name and thread_name.encode(), context=context,
                                  max_compile_seconds=max_compile_seconds)
        super().__init__(lib.fovea_device_close, None, lib.fovea_device_open, id.encode(),
                         C.byref(options))

    def __enter__(self: "Device") -> "Device":
        self._token = _current.set(self)
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        if self._token is not None:
            _current.reset(self._token)
        super().__exit__(kind, error, trace)

    @property
    def info(self) -> Dict[str, Any]:
        """The fields of fovea_device_info: id, name, features, units, memory (bytes), driver, quirks, ..."""
        info = c.DeviceInfo()
        checked(lib.fovea_device_describe(self._as_parameter_, C.byref(info)))
        return info.values()


_current: "ContextVar[Optional[Device]]" = ContextVar("fovea_device", default=None)
_default: List[Device] = []
_default_lock = threading.Lock()


def device_of(device: "Union[Device, str, None]") -> Device:
    """The given device; the one with the given name; the one of the enclosing `with`; or the CPU."""
    if isinstance(device, str):
        return Device(device)
    device = device or _current.get()
    if device is not None:
        device._as_parameter_  # raises if the device is closed
        return device
    with _default_lock:
        if not _default:
            _default.append(Device())
    return _default[0]


class ExternalImage(Handle):
    """Pixels in the memory of a camera, a decoder or another library. It is imported once; every
    Plan.run reads the pixels that the memory holds at that time:

        image = fovea.ExternalImage(device, "nv12", 1920, 1080, fd=fd, offsets=(0, 1920 * 1080))
        plan = model.plan(image, preprocess=True)
        out = plan.run(image)

    `fd`: the dma-buf's file descriptor, or a list of one for each plane. `memory`: an address, or a list
    of one for each plane, of `kind` "host", "opencl" (a cl_mem), "cuda" (a tensor's data_ptr()), "egl" or
    "nvmm". `offsets`, `strides`: in bytes, one for each plane; an offset of 0 is the beginning of the memory, a
    stride of 0 means packed rows. `size`: bytes of the memory. `owner`: an object that is kept alive as long as the
    image. `device`: the device of the model whose plans read the image."""

    def __init__(self, device: Optional[Device], format: str, width: int, height: int,
                 fd: Union[int, Sequence[int], None] = None,
                 memory: Union[int, Sequence[int], None] = None, kind: Optional[str] = None,
                 offsets: Sequence[int] = (), strides: Sequence[int] = (), size: int = 0,
                 modifier: int = 0, owner: object = None) -> None:
        if (fd is None) == (memory is None):
            raise ValueError("an external image needs either fd, or memory and kind")
        self.frame = format, width, height
        self._owner = owner
        kind = kind or ("dmabuf" if memory is None else "host")
        options = c.ExternalImageOptions(kind=c.code(c.EXTERNAL_KINDS, "kind", kind),
                                         format=c.code(c.FORMATS, "format", format), width=width,
                                         height=height, modifier=modifier)
        for i, plane in enumerate(options.plane):
            plane.fd = -1 if fd is None else _of_plane(fd, i)
            plane.memory = None if memory is None else _of_plane(memory, i)
            plane.size = size
            plane.offset = offsets[i] if i < len(offsets) else 0
            plane.stride = strides[i] if i < len(strides) else 0
        super().__init__(lib.fovea_external_image_free, (device, owner), lib.fovea_external_image_import,
                         device_of(device), C.byref(options))

    @property
    def info(self) -> Dict[str, str]:
        """`transfer`: "none" if frames read the memory in place; "device" or "host" if that one copies the
        pixels, and then `reason` says why. `method`: how the device accesses the memory."""
        info = c.ExternalImageInfo()
        self._call(lib.fovea_external_image_query, C.byref(info))
        values = info.values()
        return {"transfer": c.TRANSFERS[values["transfer"]], "method": values["method"],
                "reason": values["reason"]}


def _of_plane(given: Union[int, Sequence[int]], i: int) -> int:
    """The value for plane i; a list that is too short repeats its last value."""
    return given if isinstance(given, int) else given[min(i, len(given) - 1)]


def op_plan(device: Union[Device, str, None], create: Any, options: C.Structure) -> Handle:
    on = device_of(device)
    return Handle(lib.fovea_plan_free, on, create, on, C.byref(options))
