"""Results of models for pictures."""
from __future__ import annotations

from functools import cached_property
from typing import Callable, Iterator, List, Mapping, Optional, Sequence

import numpy as np
import numpy.typing as npt

from ._plan import FloatArray, Plan
from ._records import Detection, Features, Keypoint, Label, Masks

Name = Callable[[int], Optional[str]]


class Result(Mapping[str, FloatArray]):
    """The result of a model for one picture: its outputs by name, and their interpretation.

        out = model(image)
        out["last_hidden_state"]     # float32 (tokens, C)
        out.features                 # the patches of it: (h, w, C)
        out.depth, out.boxes, ...    # if the model has them; else fovea.Error says what is missing

    Interpretations are computed when they are first requested. All sizes are in pixels of the picture that was
    given. A result keeps the memory of the plan that made it: keep arrays instead of results."""

    def __init__(self, plan: Plan, outputs: List[FloatArray], label: Name, keypoint: Name,
                 scores: Callable[[FloatArray], FloatArray], box: Optional[Sequence[float]] = None) -> None:
        self._plan, self._arrays, self._label, self._keypoint = plan, outputs, label, keypoint
        self._scores = scores
        self.box = box  # box of the person, if boxes were given: x, y, width, height

    def __getitem__(self, name: str) -> FloatArray:
        try:
            return self._arrays[self._plan.names.index(name)]
        except ValueError:
            raise KeyError("no output is called %s; there is %s. Plan with outputs=[...] for others"
                           % (name, ", ".join(self._plan.names))) from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._plan.names)

    def __len__(self) -> int:
        return len(self._arrays)

    def __repr__(self) -> str:
        return "Result(%s)" % ", ".join("%s %s" % (name, a.shape) for name, a in self.items())

    def dense(self, name: Optional[str] = None) -> Features:
        """Output `name`, or the first that is one, as a grid: a view with values (h, w, C), and the distance of
        its cells in pixels of the given picture."""
        for rows, info in zip(self._arrays, self._plan._infos):
            own = info.name.decode()
            if info.grid_width and name in (None, own):
                values = rows[info.prefix:].reshape(info.grid_height, info.grid_width, -1)
                return Features(values, info.stride)
        raise ValueError("%s is not a grid of features" % (name or ", ".join(self)))

    @property
    def features(self) -> FloatArray:
        """float32 (h, w, C): the first output that is a grid, without the prefix tokens (class token, registers)."""
        return self.dense().values

    @cached_property
    def labels(self) -> List[Label]:
        """All classes of a classifier, the likeliest first; Model.scores explains the scores."""
        logits = self["logits"]
        if len(logits) != 1:
            raise ValueError("logits of shape %s do not belong to one picture" % (logits.shape,))
        scores = self._scores(logits[0])
        return [Label(self._label(int(i)), int(i), float(scores[i]))
                for i in np.argsort(-scores, kind="stable")]

    @cached_property
    def depth(self) -> FloatArray:
        """float32 (H, W): metres, or for models of relative depth values that are larger where it is nearer;
        NaN outside of what the model sees."""
        return self._plan._depth(self._arrays)

    @cached_property
    def class_map(self) -> npt.NDArray[np.uint16]:
        """uint16 (H, W): the class of each pixel, NO_CLASS outside of what the model sees."""
        return self._plan._class_map(self._arrays)

    @cached_property
    def boxes(self) -> List[Detection]:
        """Boxes, the best first."""
        return [b._replace(name=self._label(b.label)) for b in self._plan._detections(self._arrays, 10000)]

    @cached_property
    def masks(self) -> Masks:
        """Masks with transformers' thresholds: those of a detector's boxes, else panoptic ones; masks_of() takes other
        rules."""
        return self.masks_of()

    def masks_of(self, rule: Optional[str] = None, threshold: float = 0, mask_threshold: float = 0,
                 overlap_threshold: float = 0, stuff: List[int] = []) -> Masks:
        """Masks by your rule and thresholds; Plan.masks explains them."""
        return self._plan._masks(self._arrays, rule, threshold, mask_threshold, overlap_threshold, stuff, 1000,
                                 self._label)

    @cached_property
    def keypoints(self) -> List[Keypoint]:
        """Key points of the person in `box`, or of the one person or thing that the picture shows."""
        found = (self._plan._keypoints(self._arrays, 1000) if self.box is None
                 else self._plan._box_keypoints(self._arrays, self.box, 1000))
        return [p._replace(name=self._keypoint(i)) for i, p in enumerate(found)]


class Batch(List[Result]):
    """Results of several pictures."""

    def stacked(self, name: Optional[str] = None) -> FloatArray:
        """One output of all pictures, or the first one: float32 (B, rows, columns). The pictures must have one
        size."""
        return np.stack([result[name or next(iter(result))] for result in self])
