"""Objects of the library, which are freed with their Python objects."""
from __future__ import annotations

import ctypes as C
import threading
import weakref
from types import TracebackType
from typing import Any, Callable, Optional, Type, TypeVar

from ._library import checked

Self = TypeVar("Self", bound="Handle")


class Handle:
    """An object of the library. It is freed with this object, by close(), or at the end of a `with`, and before
    the objects that it `needs`: until then its finalizer holds them, in whatever order the garbage
    collector finds all of them. At the end of the interpreter nothing is freed: threads may still be
    computing."""

    _as_parameter_: C.c_void_p  # what ctypes passes

    def __init__(self, free: Callable[..., None], needs: Any, create: Callable[..., int],
                 *arguments: Any) -> None:
        handle = C.c_void_p()
        checked(create(C.byref(handle), *[a._as_parameter_ if isinstance(a, Handle) else a
                                          for a in arguments]))
        self._as_parameter_ = handle
        self._lock = threading.Lock()
        self._finalizer = weakref.finalize(self, _free, free, handle, needs)
        self._finalizer.atexit = False

    def __getattr__(self, name: str) -> Any:
        if name == "_as_parameter_":
            raise ValueError("this %s was closed, by close() or the end of its `with`; create another one"
                             % type(self).__name__)
        raise AttributeError("%s has no attribute %r" % (type(self).__name__, name))

    def _call(self, function: Callable[..., int], *arguments: Any) -> None:
        """Calls function(self, *arguments), in one thread at a time; other threads run Python meanwhile."""
        with self._lock:
            checked(function(self._as_parameter_, *arguments))

    def close(self) -> None:
        """Frees the object now. Objects that were made from it keep what they need and go on working. A frame
        that is running ends first. Closing twice is not an error."""
        with self._lock:
            self._finalizer()
            self.__dict__.pop("_as_parameter_", None)

    def __enter__(self: Self) -> Self:
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        self.close()


def _free(free: Callable[..., None], handle: C.c_void_p, _needs: Any) -> None:
    free(handle)
