"""A model planned for frames of one kind and size, and the interpretation of its outputs."""
from __future__ import annotations

import ctypes as C
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple, Union

import numpy as np
import numpy.typing as npt

from . import _structures as c
from ._crops import box_of
from ._device import Device, ExternalImage
from ._handle import Handle
from ._library import checked, lib
from ._pixels import Array, FrameKind, frame_of, mirrored, planes, read
from ._records import Detection, Keypoint, Mask, Masks

FloatArray = npt.NDArray[np.float32]


class Choice(NamedTuple):
    """How pictures are run; Model.run explains the values."""
    attention: Optional[str] = None
    outputs: Tuple[str, ...] = ()
    preprocess: bool = False
    size: Optional[Tuple[int, int]] = None
    schedule: str = "auto"
    weights: str = "f32"
    activations: str = "f32"
    yuv: str = "601"
    compute: str = "auto"
    dry: bool = False
    count: int = 1
    backend: Optional[str] = None


def choice(attention: Optional[str] = None, outputs: Optional[Sequence[str]] = None,
           preprocess: bool = False, size: Union[int, Tuple[int, int], None] = None,
           **options: Any) -> Choice:
    """Raises TypeError for an option that does not exist."""
    if isinstance(size, int):
        size = size, size
    if size and not preprocess:
        raise ValueError("size %dx%d needs preprocess=True, which resizes the picture" % size)
    if options.get("backend") and not preprocess:
        raise ValueError("backend=%r needs preprocess=True, which resizes the picture" % options["backend"])
    return Choice(attention, tuple(outputs or ()), preprocess, size, **options)


def rule_of(model: Handle) -> c.Preprocess:
    """The preprocessing that the model's files specify."""
    rule = c.Preprocess()
    checked(lib.fovea_model_preprocess(model._as_parameter_, C.byref(rule)))
    return rule


def on_white(model: Handle) -> bool:
    """Whether the model's pictures are blended with white where they are transparent."""
    return bool(rule_of(model).alpha)


def text_of(rule: c.Preprocess) -> str:
    """Describes a preprocessing in words."""
    text = C.create_string_buffer(512)
    checked(lib.fovea_preprocess_text(C.byref(rule), text, len(text)))
    return text.value.decode()


def options_of(model: Handle, frame: FrameKind, chosen: Choice) -> c.PlanOptions:
    kind, width, height = frame
    names = [name.encode() for name in chosen.outputs]
    array = (C.c_char_p * len(names))(*names)
    rule = None
    if chosen.preprocess:
        rule = rule_of(model)
        if chosen.size:
            checked(lib.fovea_preprocess_resize(C.byref(rule), *chosen.size))
        if chosen.backend:
            resample = c.code(c.BACKENDS, "backend", chosen.backend)
            checked(lib.fovea_preprocess_resample(C.byref(rule), resample))
    return c.PlanOptions(
        frame=c.FrameShape(c.code(c.FORMATS, "format", kind), width, height, chosen.count),
        preprocess=C.pointer(rule) if rule is not None else None,
        attention=chosen.attention and chosen.attention.encode(),
        outputs=C.cast(array, C.POINTER(C.c_char_p)) if names else None, n_outputs=len(names),
        schedule=c.code(c.SCHEDULES, "schedule", chosen.schedule),
        weights=c.code(c.WEIGHTS, "weights", chosen.weights),
        activations=c.code(c.STORAGE, "activations", chosen.activations),
        yuv=c.code(c.YUVS, "yuv", chosen.yuv), compute=c.code(c.COMPUTE, "compute", chosen.compute),
        dry=chosen.dry)


class Plan(Handle):
    """Runs frames of one kind and size through a model; Model.plan makes it. `frame`: format, width, height."""

    def __init__(self, model: Handle, device: Device, frame: FrameKind, chosen: Choice,
                 format: Optional[str] = None) -> None:
        self.frame, self._format, self._white = frame, format, on_white(model)
        # The library's plan keeps the model alive.
        super().__init__(lib.fovea_plan_free, device, lib.fovea_plan_create, model, device,
                         C.byref(options_of(model, frame, chosen)))
        self._infos = self._outputs()
        self.names = tuple(info.name.decode() for info in self._infos)
        self._shapes = [(info.rows, info.columns) for info in self._infos]

    def _seen(self, picture: Any) -> Union[Array, ExternalImage]:
        return read(picture, white=self._white)

    @property
    def info(self) -> Dict[str, Any]:
        """The fields of fovea_plan_info: sizes in pixels and tokens; weights, residual, states, chunks,
        scratch, staging: bytes; seconds, as estimated; flops; compute."""
        info = c.PlanInfo()
        self._call(lib.fovea_plan_query, C.byref(info))
        values = info.values()
        return dict(values, compute=list(c.COMPUTE)[values["compute"]])

    @property
    def kinds(self) -> Dict[str, str]:
        """The kind (one of KINDS) of each of the plan's outputs, by name."""
        return {name: c.KINDS[info.kind] for name, info in zip(self.names, self._infos)}

    @property
    def layouts(self) -> Dict[str, str]:
        """The shape that the model's original code gives each of the plan's outputs, by name, one of
        OUTPUT_LAYOUTS: "rows", "vector", "planes" (C, H, W) or "map" (H, W). Here all outputs are rows of
        channels."""
        return {name: c.OUTPUT_LAYOUTS[info.layout] for name, info in zip(self.names, self._infos)}

    def run(self, picture: Any) -> Dict[str, FloatArray]:
        """Runs one picture, which may be an ExternalImage. Returns {name: float32 rows}."""
        return dict(zip(self.names, self._run(self._seen(picture))))

    def run_all(self, pictures: Sequence[Any]) -> List[Dict[str, FloatArray]]:
        """Runs several pictures, as many at a time as the plan's `count`; a list of what run() returns. For the
        frames of several cameras this is faster than one after the other, with bit-identical results."""
        pixels = [self._like_frame(self._seen(picture)) for picture in pictures]
        count = self.info["count"]
        return [dict(zip(self.names, rows)) for i in range(0, len(pixels), count)
                for rows in self._run_frames(pixels[i:i + count])]

    def detections(self, picture: Any, most: int = 10000) -> List[Detection]:
        """Boxes that a detector finds in one picture, best first, at most `most`, in pixels of `picture`.
        The plan must have as outputs all of "cls.0", "box.0", ..., or "logits" and "pred_boxes",
        or "pred_scores" and "pred_boxes"."""
        return self._detections(self._run(self._seen(picture)), most)

    def depth(self, picture: Any, unit: Optional[float] = None) -> npt.NDArray[Any]:
        """Depth of every pixel of one picture, (H, W): float32, NaN outside of what the model sees. With a
        `unit` it is uint16 in steps of `unit` metres (0.001 for most depth cameras), 0 outside. With unit=0
        the smallest value becomes 1 and the largest 65535. Needs the output "predicted_depth"."""
        return self._depth(self._run(self._seen(picture)), unit)

    def class_map(self, picture: Any) -> npt.NDArray[np.uint16]:
        """The class of every pixel of one picture, uint16 (H, W), NO_CLASS outside of what the model sees.
        Needs the output "segmentation" or "seg_logits", or "masks_queries_logits" and "class_queries_logits"."""
        return self._class_map(self._run(self._seen(picture)))

    def masks(self, picture: Any, rule: Optional[str] = None, threshold: float = 0, mask_threshold: float = 0,
              overlap_threshold: float = 0, stuff: Sequence[int] = (), most: int = 1000) -> Masks:
        """Masks that a segmenter finds in one picture. `rule`: "panoptic", or "instance", whose masks may overlap;
        None: "instance" for a detector, else "panoptic". Thresholds of 0 mean transformers' values. Masks with the
        same class are merged if the class is in `stuff`. Needs the outputs "masks_queries_logits" and
        "class_queries_logits", or of a detector "logits" or "pred_scores", "pred_boxes" and "pred_masks"; its masks
        are those of its boxes, and only `threshold` applies to them."""
        return self._masks(self._run(self._seen(picture)), rule, threshold, mask_threshold, overlap_threshold,
                           stuff, most)

    def keypoints(self, picture: Any, most: int = 1000) -> List[Keypoint]:
        """Key points of one picture, in its pixels. The picture shows one person or thing: with preprocess=True
        the whole picture is the person's box, else the picture must be a result of fovea.crop. Needs the output
        "heatmaps"."""
        return self._keypoints(self._run(self._seen(picture)), most)

    # ---- what the outputs of a frame mean ----

    def _detections(self, outputs: Sequence[FloatArray], most: int) -> List[Detection]:
        boxes, count = (c.Detection * most)(), C.c_size_t()
        self._read(outputs, lib.fovea_detections, boxes, most, C.byref(count))
        return [Detection(b.x1, b.y1, b.x2, b.y2, b.score, b.label) for b in boxes[:count.value]]

    def _depth(self, outputs: Sequence[FloatArray], unit: Optional[float] = None) -> npt.NDArray[Any]:
        if unit is None:
            return self._map(outputs, np.float32, lib.fovea_depth_map)
        return self._map(outputs, np.uint16, lib.fovea_depth_map_u16, float(unit))

    def _class_map(self, outputs: Sequence[FloatArray]) -> npt.NDArray[np.uint16]:
        return self._map(outputs, np.uint16, lib.fovea_class_map)

    def _masks(self, outputs: Sequence[FloatArray], rule: Optional[str], threshold: float, mask_threshold: float,
               overlap_threshold: float, stuff: Sequence[int], most: int,
               name: Callable[[int], Optional[str]] = lambda label: None) -> Masks:
        rule = rule or ("instance" if "boxes" in self.kinds.values() else "panoptic")
        options = c.MaskOptions(rule=c.code(c.MASK_RULES, "rule", rule), threshold=threshold,
                                mask_threshold=mask_threshold, overlap_threshold=overlap_threshold,
                                n_stuff=len(stuff),
                                stuff=(C.c_uint32 * len(stuff))(*stuff) if stuff else None)
        found, count = (c.Mask * most)(), C.c_size_t()
        pixels = np.empty(self.frame[:0:-1], np.uint16)
        self._read(outputs, lib.fovea_masks, C.byref(options), found, most, C.byref(count),
                   pixels.ctypes.data, pixels.size)

        def instance(query: int) -> npt.NDArray[np.uint8]:
            inside = np.empty(self.frame[:0:-1], np.uint8)
            self._read(outputs, lib.fovea_mask_pixels, query, inside.ctypes.data, inside.size)
            return inside

        return Masks([Mask(m.label, m.score, m.query, m.x1, m.y1, m.x2, m.y2, m.area, name(m.label))
                      for m in found[:count.value]], pixels, instance if rule == "instance" else None)

    def _keypoints(self, outputs: Sequence[FloatArray], most: int) -> List[Keypoint]:
        points, count = (c.Keypoint * most)(), C.c_size_t()
        self._read(outputs, lib.fovea_keypoints, points, most, C.byref(count))
        return [Keypoint(p.x, p.y, p.score) for p in points[:count.value]]

    def _box_keypoints(self, outputs: Sequence[FloatArray], box: Sequence[float],
                       most: int) -> List[Keypoint]:
        points, count = (c.Keypoint * most)(), C.c_size_t()
        self._read(outputs, lib.fovea_box_keypoints, C.byref(box_of(box)), points, most, C.byref(count))
        return [Keypoint(p.x, p.y, p.score) for p in points[:count.value]]

    def _map(self, outputs: Sequence[FloatArray], dtype: Any, function: Callable[..., int],
             *arguments: Any) -> npt.NDArray[Any]:
        out = np.empty(self.frame[:0:-1], dtype)
        self._read(outputs, function, c.EXTENT_FRAME, *arguments, out.ctypes.data, out.size)
        return out

    def _read(self, outputs: Sequence[FloatArray], function: Callable[..., int], *arguments: Any) -> None:
        """Calls a function of the library that interprets a frame's outputs."""
        self._call(function, places(outputs), len(outputs), *arguments)

    # ---- frames ----

    def _outputs(self) -> List[Any]:
        """fovea_output_info of every output."""
        found: List[Any] = []
        info = c.OutputInfo()
        while lib.fovea_plan_output(self._as_parameter_, len(found), C.byref(info)):
            found.append(info)
            info = c.OutputInfo()
        return found

    def _run(self, pixels: Union[Array, ExternalImage]) -> List[FloatArray]:
        """The outputs in their order, for pixels from read()."""
        return self._run_frame(self._like_frame(pixels))

    def _like_frame(self, pixels: Union[Array, ExternalImage]) -> Union[Array, ExternalImage]:
        """Pixels in the plan's format. Only the order of colours is converted; other differences are an error."""
        frame = frame_of(pixels, self._format)
        if {frame[0], self.frame[0]} == {"rgb8", "bgr8"} and not isinstance(pixels, ExternalImage):
            pixels = mirrored(pixels)
            frame = frame_of(pixels, self._format)
        if frame != self.frame:
            raise ValueError("the plan reads %s of %d x %d, but the picture is %s of %d x %d"
                             % (self.frame + frame))
        return pixels

    def _run_frame(self, pixels: Union[Array, ExternalImage]) -> List[FloatArray]:
        """Runs pixels that already have the plan's format."""
        if not isinstance(pixels, ExternalImage):
            return self._run_there(planes(pixels, self.frame[0], self.frame[2]))
        outputs = [np.empty(shape, np.float32) for shape in self._shapes]
        self._call(lib.fovea_run_external_image, pixels._as_parameter_, None, places(outputs), len(outputs))
        return outputs

    def _run_there(self, frame: c.Frame) -> List[FloatArray]:
        """Runs a frame whose pixels are in memory that the library can read."""
        outputs = [np.empty(shape, np.float32) for shape in self._shapes]
        self._call(lib.fovea_run, C.byref(frame), places(outputs), len(outputs))
        return outputs

    def _run_frames(self, pixels: Sequence[Union[Array, ExternalImage]]) -> List[List[FloatArray]]:
        """The outputs of each of at most `count` frames."""
        arrays = [p for p in pixels if not isinstance(p, ExternalImage)]
        if len(pixels) == 1 or len(arrays) < len(pixels):
            return [self._run_frame(p) for p in pixels]
        outputs = [[np.empty(shape, np.float32) for shape in self._shapes] for _ in arrays]
        frames = (c.Frame * len(arrays))(*[planes(p, self.frame[0], self.frame[2]) for p in arrays])
        of_all = places([a for rows in outputs for a in rows])
        self._call(lib.fovea_run, frames, of_all, len(of_all))
        return outputs


def places(outputs: Sequence[FloatArray]) -> Any:
    """The buffers to which the library writes outputs."""
    return (c.Output * len(outputs))(*[c.Output(a.__array_interface__["data"][0], a.nbytes)
                                       for a in outputs])
