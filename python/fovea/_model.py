"""Models: from pictures to outputs."""
from __future__ import annotations

import collections
import ctypes as C
import itertools
import os
import re
import threading
from typing import (Any, Dict, Iterable, Iterator, List, Mapping, Optional, Protocol, Sequence, Tuple, Union,
                    overload)

import numpy as np
import numpy.typing as npt

from . import _hub, _source
from . import _structures as c
from ._crops import crop
from ._device import Device, ExternalImage, device_of
from ._handle import Handle
from ._library import checked, lib, names
from ._parts import Parts, parts_of
from ._pixels import Array, FrameKind, frame_of, is_mirrored, planes, read
from ._plan import Choice, FloatArray, Plan, choice, on_white, options_of, rule_of, text_of
from ._records import Features, Tuned
from ._results import Batch, Result


class Tensor(Protocol):
    """An array of another library that supports DLPack: torch, jax, cupy, ..."""

    def __dlpack__(self, *, stream: Any = ...) -> Any: ...
    def __dlpack_device__(self) -> Tuple[Any, int]: ...


class PillowImage(Protocol):
    """PIL.Image.Image."""

    def getexif(self) -> Any: ...
    def convert(self, mode: str) -> Any: ...


Image = Union[npt.NDArray[np.uint8], npt.NDArray[np.float32], Tensor, PillowImage, str, "os.PathLike[str]",
              ExternalImage]


class Model(Handle):
    """A checkpoint: fovea.load("dinov2-base") finds it by name. `prefix`: the prefix of its
    tensors' names, if it is a part of a larger checkpoint. `device`: a Device or its name; None: that of the
    enclosing `with`. `linear`: parameters of linear attentions in a ViT that differ from the defaults, as fields of
    fovea_linear_attention_params: dict(nala_lambda=4, heads=12).

        model = fovea.load("dinov2-base")
        out = model(image)                           # resized and cropped as the model requires
        out = model(image, size=1036)                # at another size
        out = model(image, attention="foveated")

    Several threads may use a model; those that are to compute at the same time need a Plan each."""

    PLANS = 4  # one for each size and choice; only the last ones used are kept

    def __init__(self, path: Union[str, "os.PathLike[str]", _source.Source],
                 device: Union[Device, str, None] = None, prefix: Optional[str] = None,
                 linear: Optional[Mapping[str, float]] = None,
                 weights_cache: Union[str, "os.PathLike[str]", None] = None) -> None:
        self._device = device_of(device)
        options = c.ModelOptions(prefix=os.fspath(prefix).encode() if prefix else None,
                                 linear=c.LinearAttentionParams(**(linear or {})),
                                 weights_cache=None if weights_cache is None
                                 else os.fspath(weights_cache).encode())
        self._plans: "collections.OrderedDict[Tuple[FrameKind, Choice], Plan]" = collections.OrderedDict()
        self._plans_lock = threading.Lock()
        self._task_outputs: Optional[Tuple[str, ...]] = None
        if isinstance(path, _source.Source):
            try:
                super().__init__(lib.fovea_model_free, self._device, lib.fovea_model_load_from,
                                 C.byref(path.struct), C.byref(options))
            finally:
                path.loaded()
        else:
            super().__init__(lib.fovea_model_free, self._device, lib.fovea_model_load_with,
                             os.fspath(path).encode(), C.byref(options))

    def close(self) -> None:
        """Frees the model and the plans that it keeps, now. Plans and results that others hold go on working."""
        with self._plans_lock:
            self._plans.clear()
        super().close()

    @property
    def info(self) -> Dict[str, Any]:
        """The fields of fovea_model_info: type, attention, width (C), depth (blocks), heads, patch (pixels),
        prefix (tokens), classes, parameters, mapped_bytes, boxes, keypoints, masks, scores ("softmax", "sigmoid",
        "values"), ..."""
        info = c.ModelInfo()
        checked(lib.fovea_model_describe(self._as_parameter_, C.byref(info)))
        values = info.values()
        return dict(values, scores=c.SCORES[values["scores"]])

    @property
    def outputs(self) -> List[str]:
        """Names of all outputs of the model, the main one first."""
        return names(lib.fovea_model_output, self._as_parameter_)

    @property
    def prompt_outputs(self) -> List[str]:
        """Names of the outputs that a plan must have for a Segmenter; none for models without prompts."""
        return names(lib.fovea_model_prompt_output, self._as_parameter_)

    @property
    def preprocessing(self) -> Optional[str]:
        """How pictures are preprocessed, and which of the model's files specifies that, in one line:
        "preprocessor_config.json: CLIPImageProcessor, short side to 224, ..."; None: it sees no pictures."""
        source = self.info["preprocess_source"]
        return source and "%s, %s" % (source, text_of(rule_of(self)))

    def _preprocess(self) -> c.Preprocess:
        return rule_of(self)

    def _read(self, picture: Any, channels_first: bool = False,
              format: Optional[str] = None) -> Union[Array, ExternalImage]:
        return read(picture, channels_first, format, on_white(self))

    def label(self, i: int) -> Optional[str]:
        """Name of a class, or None."""
        return _name(lib.fovea_model_label(self._as_parameter_, i))

    def keypoint(self, i: int) -> Optional[str]:
        """Name of a key point, or None."""
        return _name(lib.fovea_model_keypoint(self._as_parameter_, i))

    def scores(self, logits: Any) -> FloatArray:
        """Scores of the classes, float32 (classes,), from the logits of one picture: by softmax; for models
        with several labels each class by itself; for a regression the values. The model's "problem_type"
        decides."""
        given = np.ascontiguousarray(logits, np.float32).reshape(-1)
        out = np.empty_like(given)
        checked(lib.fovea_class_scores(self._as_parameter_, given.ctypes.data_as(c.Float), given.size,
                                       out.ctypes.data_as(c.Float)))
        return out

    @overload
    def __call__(self, image: Image, *, attention: Optional[str] = ..., outputs: Optional[Sequence[str]] = ...,
                 size: Union[int, Tuple[int, int], None] = ..., preprocess: bool = ...,
                 format: Optional[str] = ..., schedule: str = ..., weights: str = ...,
                 activations: str = ..., yuv: str = ..., compute: str = ..., count: int = ...) -> Result: ...

    @overload
    def __call__(self, image: Union[List[Any], Tuple[Any, ...]], *, attention: Optional[str] = ...,
                 outputs: Optional[Sequence[str]] = ..., size: Union[int, Tuple[int, int], None] = ...,
                 preprocess: bool = ..., format: Optional[str] = ..., schedule: str = ...,
                 weights: str = ..., activations: str = ..., yuv: str = ...,
                 compute: str = ..., count: int = ...) -> Batch: ...

    @overload
    def __call__(self, image: Iterator[Any], *, attention: Optional[str] = ...,
                 outputs: Optional[Sequence[str]] = ..., size: Union[int, Tuple[int, int], None] = ...,
                 preprocess: bool = ..., format: Optional[str] = ..., schedule: str = ...,
                 weights: str = ..., activations: str = ..., yuv: str = ...,
                 compute: str = ..., count: int = ...) -> Iterator[Result]: ...

    def __call__(self, image: Any, *, attention: Optional[str] = None,
                 outputs: Optional[Sequence[str]] = None, size: Union[int, Tuple[int, int], None] = None,
                 preprocess: bool = True, format: Optional[str] = None,
                 **options: Any) -> Union[Result, Batch, Iterator[Result]]:
        """Runs the model on a picture and returns a Result. For a list or tuple, or an array with another axis in
        front, it returns a Batch, which is a list of Results. For an iterator it returns an iterator, which runs a
        picture whenever the next Result is requested. A picture is one of

          uint8 (H, W, 3) or (3, H, W) R, G, B; a view [..., ::-1] of B, G, R; (H, W) grey
          float32 (3, H, W): normalised planes, in the size to be run
          a tensor of PyTorch or another library that supports DLPack, with the same shapes
          an image of Pillow, or the path of a picture; turned as its EXIF says
          a camera's frame, see run(); an ExternalImage

        Arrays and tensors are read in place if the pixels of a row are contiguous.

        The picture is resized and cropped as the model's own image processor does, and to `size`, pixels or
        (width, height), if that is given. With preprocess=False it is run in its own size, except for a partial
        patch at the right and bottom edges. `outputs`: names of Model.outputs; None: those that its task needs.
        `attention` and the other options are those of run()."""
        with_outputs = self._task() if outputs is None else outputs
        if isinstance(image, Iterator):
            return self.map(image, attention=attention, outputs=with_outputs, size=size, preprocess=preprocess,
                            format=format, **options)
        chosen = choice(attention, with_outputs, preprocess, size, **options)
        if isinstance(image, (list, tuple)):
            return Batch(self._results([self._read(one, True, format) for one in image], format, chosen))
        pixels = self._read(image, True, format)
        if not isinstance(pixels, ExternalImage) and pixels.ndim == 4:
            return Batch(self._results([read(one) for one in pixels], format, chosen))
        return self._result(pixels, format, chosen)

    def map(self, pictures: Iterable[Any], **options: Any) -> Iterator[Result]:
        """A Result for each picture, run when it is requested; the options are those of a call."""
        for picture in pictures:
            yield self(picture, **options)

    def people(self, image: Any, boxes: Iterable[Sequence[float]], *, attention: Optional[str] = None,
               outputs: Optional[Sequence[str]] = None, size: Optional[Tuple[int, int]] = None,
               format: Optional[str] = None, **options: Any) -> Batch:
        """Runs a pose model on the people in `boxes` of one picture. Returns a Batch with a Result for each box, whose
        `keypoints` are in pixels of the picture and whose `box` is the person's. A box is x, y, width, height in
        pixels, as COCO has it; Detection.box is a detector's. With count=4 four people are run together. The
        picture and the other options are those of a call."""
        rule = rule_of(self)
        wide, high = size or (rule.resize_width, rule.resize_height)
        if not self.info["keypoints"]:
            raise ValueError("boxes of people need a pose model, but this model is %s" % self.info["type"])
        pixels = self._read(image, True, format)
        chosen = choice(attention, outputs, **options)
        given = [tuple(box) for box in boxes]
        crops = [crop(pixels, box, wide, high, format, chosen.yuv) for box in given]
        plan = self._plan_for(("rgb8", wide, high), chosen)
        rows = [one for i in range(0, len(crops), chosen.count)
                for one in plan._run_frames(crops[i:i + chosen.count])]
        return Batch(Result(plan, one, self.label, self.keypoint, self.scores, box) for one, box in zip(rows, given))

    def class_map(self, image: Any, *, format: Optional[str] = None, **options: Any) -> npt.NDArray[np.uint16]:
        """uint16 (H, W): the class of each pixel of a picture. A model whose image processor splits pictures
        ("do_split_image" of EoMT) runs its overlapping parts, one after the other. The picture and the options are
        those of a call."""
        rule, pixels = rule_of(self), read(image, True)
        if not rule.split or isinstance(pixels, ExternalImage) or not self.info["masks"]:
            return self(pixels, format=format, **options).class_map
        kind, wide, high = frame_of(pixels, format)
        if kind == "bgr8":
            pixels = np.ascontiguousarray(pixels if is_mirrored(pixels) else pixels[..., ::-1])
        elif kind == "gray8":
            pixels = np.repeat(pixels[:, :, None], 3, 2)
        elif kind != "rgb8":
            raise ValueError("%s cannot be split into parts; pass RGB pixels" % kind)
        part = parts_of(rule, wide, high)
        plan = self._plan_for(("rgb8", part.width, part.height), choice(outputs=self._task(), **options))
        parts = Parts(plan, rule, wide, high)
        return parts.class_map(parts.run(pixels))

    def run(self, pixels: Any, attention: Optional[str] = None, outputs: Optional[Sequence[str]] = None,
            preprocess: bool = False, format: Optional[str] = None, **options: Any) -> Dict[str, FloatArray]:
        """Runs one picture: (H, W, 3) or (H, W) bytes, or float32 planes (3, H, W) that are already
        normalised; an array with another axis in front is a batch. If Pillow is installed, its images
        and paths of files are accepted too. Returns {name: float32 rows} for `outputs` (None: the
        model's main one). Bytes must have the size to be run, unless preprocess=True resizes and crops
        them as the model's own image processor does.

        `attention` is a name for all blocks, perhaps with exceptions: "linear+softmax@0-3".
        `options` are

          size=1036 or (width, height)        with preprocess=True: the size to resize to
          backend="pillow" or "torchvision"   with preprocess=True: whose arithmetic resizes bytes
          schedule="streamed" or "stepwise"
          weights="f16", "bf16" or "int8"     type of stored weights; int8 applies to blocks only
          activations="f16" or "bf16"         type of stored activations; not on the CPU
          compute="f32", "bf16" or "int8"     type in which products of matrices multiply. Default
                                              "auto": what tune_accuracy has found, else "bf16" if
                                              the device has instructions for it, else "f32". With
                                              `weights` or `activations` the default is "f32"
          format="yuyv" or "nv12"             a camera's frame: bytes (H, W, 2), or (3 H / 2, W) with
                                              rows of Y, then of U and V; H and W are even
          format="bgr8"                       (H, W, 3) is B, G, R
          yuv="601", "709", "601-full", ...   the meaning of Y, U and V (choose_yuv)
          count=4                             in a call with several pictures: up to 4 consecutive
                                              pictures of one size are run together

        There is a plan for each kind and size of picture and each choice of options. The last
        `PLANS` (4) plans are kept, with the memory that they compute in."""
        array = self._read(pixels)
        chosen = choice(attention, outputs, preprocess, **options)
        if not isinstance(array, ExternalImage) and array.ndim == 4:
            runs = [self.run(p, format=format, **chosen._asdict()) for p in array]
            return {name: np.stack([r[name] for r in runs]) for name in runs[0]}
        plan, rows = self._run(array, format, chosen)
        return dict(zip(plan.names, rows))

    def features(self, pixels: Any, attention: Optional[str] = None, outputs: Optional[Sequence[str]] = None,
                 preprocess: bool = False, format: Optional[str] = None,
                 **options: Any) -> Dict[str, Features]:
        """Dense features of one picture: {name: Features(values (h, w, C), stride in pixels)} for
        `outputs`; None: for last_hidden_state or every stage. "segmentation" gives logits. Pictures
        and options are those of run()."""
        if outputs is None:
            outputs = [o for o in self.outputs if re.fullmatch(r"last_hidden_state|stage\d+", o)]
        result = self._result(self._read(pixels), format, choice(attention, outputs, preprocess, **options))
        return {name: result.dense(name) for name in result}

    def plan(self, like: Any, attention: Optional[str] = None, outputs: Optional[Sequence[str]] = None,
             preprocess: bool = False, format: Optional[str] = None, **options: Any) -> Plan:
        """Creates a Plan that belongs to the caller, for pictures like `like`; options are those of run().
        Threads with a plan each can compute at the same time; they share the weights."""
        return Plan(self, self._device, frame_of(self._read(like), format),
                    choice(attention, outputs, preprocess, **options), format)

    def tune_accuracy(self, pictures: Iterable[Any], bound: float, attention: Optional[str] = None,
                      outputs: Optional[Sequence[str]] = None, preprocess: bool = False,
                      format: Optional[str] = None, seconds: float = 0, **options: Any) -> Tuned:
        """Finds the fastest types of products with which `outputs` for these pictures keep a cosine of at
        least `bound` with float32, such as 0.9995. The pictures must have one size. compute="auto" uses
        the result from then on, in this process, and after save_wisdom() in later ones. `seconds`
        limits the time; 0: no limit.

        Returns Tuned(compute, tried, bf16). compute: the type that "auto" uses; None: nothing was found in
        time. tried: {way: {"cosine", "worst", "seconds"}} for those of "f32", "bf16", "int8" and "mixed"
        that were tried. bf16: the steps that are bfloat16 in "mixed", where the others are int8."""
        given = [self._read(p) for p in pictures]
        if not given:
            raise ValueError("no pictures are given; accuracy needs at least one")
        arrays: List[Array] = [p for p in given if not isinstance(p, ExternalImage)]
        if len(arrays) < len(given):
            raise TypeError("accuracy cannot be measured on an ExternalImage; pass arrays of pixels or files")
        frame = frame_of(arrays[0], format)
        if any(frame_of(p, format) != frame for p in arrays):
            raise ValueError("the pictures have several sizes or kinds; pass pictures of one size and kind, or "
                             "tune for each")
        frames = (c.Frame * len(arrays))(*[planes(p, frame[0], frame[2]) for p in arrays])
        chosen = choice(attention, outputs, preprocess, **options)
        report = c.AccuracyReport()
        checked(lib.fovea_tune_accuracy(
            C.byref(report), self._as_parameter_, self._device._as_parameter_,
            C.byref(options_of(self, frame, chosen)), frames, len(frames), bound,
            C.byref(c.TuneOptions(seconds=seconds))))
        tried = {way: {name: getattr(of, name) for name in ("cosine", "worst", "seconds")}
                 for way in ("f32", "bf16", "int8", "mixed")
                 for of in (getattr(report, way),) if of.tried}
        return Tuned(list(c.COMPUTE)[report.compute] if report.found else None, tried,
                     self._labels_of_steps(frame, chosen, report.bf16_steps[:report.bf16_count]))

    def _labels_of_steps(self, frame: FrameKind, chosen: Choice, steps: List[int]) -> List[str]:
        if not steps:
            return []
        plan = Plan(self, self._device, frame, chosen._replace(compute="int8", dry=True))
        labels, step = [], c.StepInfo()
        for i in steps:
            lib.fovea_plan_step(plan._as_parameter_, i, C.byref(step))
            labels.append(step.label.decode())
        return labels

    def _task(self) -> Tuple[str, ...]:
        """The outputs from which a task's result is computed, if the main one is not enough."""
        if self._task_outputs is None:
            can = self.outputs
            levels = tuple(o for o in can if o.startswith(("cls.", "box.")))
            tasks = (levels, ("logits", "pred_boxes", "pred_masks"), ("logits", "pred_boxes"),
                     ("pred_scores", "pred_boxes", "pred_masks"), ("pred_scores", "pred_boxes"),
                     ("masks_queries_logits", "class_queries_logits"))
            self._task_outputs = next((t for t in tasks if t and set(t) <= set(can)), ())
        return self._task_outputs

    def _result(self, pixels: Union[Array, ExternalImage], format: Optional[str], chosen: Choice) -> Result:
        plan, rows = self._run(pixels, format, chosen)
        return Result(plan, rows, self.label, self.keypoint, self.scores)

    def _results(self, pictures: Sequence[Union[Array, ExternalImage]], format: Optional[str],
                 chosen: Choice) -> Iterator[Result]:
        """Plan options for pictures of one kind and size, `count` at a time."""
        for frame, group in itertools.groupby(pictures, lambda p: frame_of(p, format)):
            same = list(group)
            plan = self._plan_for(frame, chosen)
            for i in range(0, len(same), chosen.count):
                for rows in plan._run_frames(same[i:i + chosen.count]):
                    yield Result(plan, rows, self.label, self.keypoint, self.scores)

    def _run(self, pixels: Union[Array, ExternalImage], format: Optional[str],
             chosen: Choice) -> Tuple[Plan, List[FloatArray]]:
        plan = self._plan_for(frame_of(pixels, format), chosen)
        return plan, plan._run_frame(pixels)

    def _plan_for(self, frame: FrameKind, chosen: Choice) -> Plan:
        if frame[0] == "planes_f32" and chosen.preprocess and not chosen.size:
            chosen = chosen._replace(preprocess=False)  # they are what preprocessing makes
        key = frame, chosen
        with self._plans_lock:
            plan = self._plans.pop(key, None) or Plan(self, self._device, frame, chosen)
            self._plans[key] = plan
            if len(self._plans) > self.PLANS:
                self._plans.popitem(last=False)
        return plan


def _name(text: Optional[bytes]) -> Optional[str]:
    return None if text is None else text.decode(errors="replace")


def load(name: Union[str, "os.PathLike[str]", _source.File, Mapping[str, _source.File]], *,
         device: Union[Device, str, None] = None, prefix: Optional[str] = None,
         linear: Optional[Mapping[str, float]] = None, config: Optional[_source.Config] = None,
         weights_cache: Union[str, "os.PathLike[str]", None] = None) -> Model:
    """A model by name:

      a folder with config.json and model.safetensors, or the path of such a .safetensors file
      "facebook/dinov2-base", or "dinov2-base" alone: a model of the Hugging Face hub that is in the local
          cache ($HF_HOME); nothing is downloaded, but the error says which command downloads it
      "synthetic:dinov2-s": random weights

    or the files of such a folder as bytes and open files:

      {"config.json": bytes, "model.safetensors": file}: all files by name
      bytes or an open file: the weights, together with `config`, the content of config.json as a dictionary or text

    A file on the disk is mapped from its current position to its end, and may then be closed; other files are read.
    Bytes are read whenever a plan is made: they are kept, and must not change, until the model and its plans are gone.

    `device`: a Device, or the name of one, such as "cl:0"; None: that of the enclosing `with`, else the CPU. `prefix`,
    `linear`: see Model. `weights_cache`: a folder in which packed weights are kept, so that later processes
    map them; None: the environment's FOVEA_WEIGHTS_CACHE; "": they are not kept."""
    source = _source.of(name, config)
    return Model(source or _hub.find(name), device, prefix, linear, weights_cache)  # type: ignore[arg-type]
