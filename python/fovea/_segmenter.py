"""Masks of the objects that points and boxes mark."""
from __future__ import annotations

import ctypes as C
from typing import List, Mapping, NamedTuple, Optional, Sequence, Tuple

import numpy as np
import numpy.typing as npt

from . import _structures as c
from ._crops import box_of
from ._handle import Handle
from ._library import lib
from ._plan import FloatArray, Plan, places

FIRST_ALTERNATIVE = 1  # masks from this one on are alternatives


class Segments(NamedTuple):
    """Masks of one prompt."""
    masks: npt.NDArray[np.bool_]  # (n, H, W): whether a pixel of the picture is inside
    scores: FloatArray            # (n,): estimates of the masks' overlap with the object
    logits: FloatArray            # (n, h, w): of the model's own positions


class Segmenter(Handle):
    """Segment Anything: the encoder runs once for a picture, then any number of prompts are answered.

        model = fovea.Model("sam-vit-base")
        plan = model.plan(image, preprocess=True, outputs=model.prompt_outputs)
        segmenter = fovea.Segmenter(plan)
        segmenter.begin(plan.run(image))
        found = segmenter(points=[(400, 650)])
        found.masks[found.scores.argmax()]          # (H, W)

    `points`: the maximum number of points of a prompt, without its box.
    """

    def __init__(self, plan: Plan, points: int = 0, memory_limit: int = 0) -> None:
        options = c.SegmenterOptions(points=points, memory_limit=memory_limit)
        super().__init__(lib.fovea_segmenter_free, plan, lib.fovea_segmenter_create, plan, C.byref(options))
        self._names, self._size = plan.names, plan.frame[:0:-1]
        made, info = lib.fovea_segmenter_plan(self._as_parameter_), c.OutputInfo()
        self._shapes: List[Tuple[int, int]] = []
        while lib.fovea_plan_output(made, len(self._shapes), C.byref(info)):
            self._shapes.append((info.rows, info.columns))
            if info.grid_width:
                self._grid = info.grid_height, info.grid_width

    def begin(self, outputs: Mapping[str, FloatArray]) -> None:
        """Begins a picture, whose outputs the plan has returned."""
        arrays = [np.ascontiguousarray(outputs[name], np.float32) for name in self._names]
        self._call(lib.fovea_segmenter_begin, places(arrays), len(arrays))

    def __call__(self, points: Sequence[Tuple[float, float]] = (), labels: Optional[Sequence[int]] = None,
                 box: Optional[Sequence[float]] = None, multimask: Optional[bool] = None) -> Segments:
        """The masks of an object. `points` are in pixels of the picture; `labels` say of each whether it is inside
        (1, the default) or outside (0). `box`: x, y, width, height. `multimask`: return the three alternatives
        instead of one mask, as in transformers; None: if the prompt is a single point."""
        labels = [1] * len(points) if labels is None else labels
        if len(labels) != len(points):
            raise ValueError("%d labels for %d points; every point needs one" % (len(labels), len(points)))
        if multimask is None:
            multimask = len(points) == 1 and box is None
        marks = (c.PromptPoint * len(points))(*[c.PromptPoint(x, y, label)
                                                for (x, y), label in zip(points, labels)])
        around = None if box is None else C.pointer(box_of(box))
        prompt = c.Prompt(C.cast(marks, C.POINTER(c.PromptPoint)), len(points), around)
        outputs = [np.empty(shape, np.float32) for shape in self._shapes]
        self._call(lib.fovea_segmenter_run, C.byref(prompt), places(outputs), len(outputs))
        return self._segments(outputs, multimask)

    def _segments(self, outputs: Sequence[FloatArray], multimask: bool) -> Segments:
        logits, scores = outputs
        index = C.c_uint32()
        self._call(lib.fovea_segmenter_choose, places(outputs), len(outputs), multimask, C.byref(index))
        chosen = list(range(FIRST_ALTERNATIVE, logits.shape[1])) if multimask else [index.value]
        masks = np.empty((len(chosen), *self._size), np.uint8)
        for mask, index in zip(masks, chosen):
            self._call(lib.fovea_segmenter_mask, places(outputs), len(outputs), index, None, mask.ctypes.data,
                       mask.size)
        planes = logits.T.reshape(-1, *self._grid)
        return Segments(masks.astype(bool), scores[0, chosen], np.ascontiguousarray(planes[chosen]))
