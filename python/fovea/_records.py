"""Records of what models find in a picture."""
from __future__ import annotations

import ctypes as C
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

import numpy as np
import numpy.typing as npt

from ._library import checked, lib


class Features(NamedTuple):
    """A grid of features: `values` is float32 (h, w, C), with one cell for every `stride` pixels of the picture
    that was run."""
    values: npt.NDArray[np.float32]
    stride: int


class Label(NamedTuple):
    """A class of the picture: its name or None, index, and score: between 0 and 1, or a regression's value."""
    name: Optional[str]
    label: int
    score: float


class Detection(NamedTuple):
    """A box in pixels of the frame, from its upper left corner; score between 0 and 1; class."""
    x1: float
    y1: float
    x2: float
    y2: float
    score: float
    label: int
    name: Optional[str] = None

    @property
    def box(self) -> Tuple[float, float, float, float]:
        """The box as x, y, width, height, which Model.people takes."""
        return self.x1, self.y1, self.x2 - self.x1, self.y2 - self.y1


class Mask(NamedTuple):
    """A mask: class, score between 0 and 1, its query, the box around it in pixels of the frame, and how
    many pixels it has."""
    label: int
    score: float
    query: int
    x1: float
    y1: float
    x2: float
    y2: float
    area: int
    name: Optional[str] = None


class Masks:
    """Masks in the order of their queries, or of a detector's scores: their records `found`, and for each pixel of
    the frame `pixels`, uint16 (H, W), 1 + the index of its mask, or 0."""

    def __init__(self, found: List[Mask], pixels: npt.NDArray[np.uint16],
                 instance: Optional[Callable[[int], npt.NDArray[np.uint8]]] = None) -> None:
        self.found, self.pixels = found, pixels
        self._instance = instance  # computes the pixels of a query's mask, of which others may cover some

    def of(self, i: int) -> npt.NDArray[np.bool_]:
        """Mask i: bool (H, W). An instance has all of its pixels, also those that another one covers in `pixels`."""
        inside: npt.NDArray[np.bool_] = (self.pixels == i + 1 if self._instance is None
                                         else self._instance(self.found[i].query).astype(bool))
        return inside

    def runs(self, i: int) -> npt.NDArray[np.uint32]:
        """Mask i as run lengths in the order of COCO's tools: down each column, alternately outside and inside. They
        are the list `counts` of COCO's files."""
        inside, count = np.ascontiguousarray(self.of(i), np.uint8), C.c_size_t()
        mask = inside.ctypes.data, *inside.shape[::-1]
        checked(lib.fovea_mask_runs(*mask, None, 0, C.byref(count)))
        runs = np.empty(count.value, np.uint32)
        checked(lib.fovea_mask_runs(*mask, runs.ctypes.data, runs.size, C.byref(count)))
        return runs


class Keypoint(NamedTuple):
    """A point in pixels of the frame, the score from its heat map, and its name."""
    x: float
    y: float
    score: float
    name: Optional[str] = None


class Tuned(NamedTuple):
    """The result of tune_accuracy, which explains it."""
    compute: Optional[str]
    tried: Dict[str, Dict[str, Any]]
    bf16: List[str]
