"""fovea: vision transformers at high resolution, and attention by itself, on arrays.

Features of a picture:

    import fovea

    model = fovea.load("dinov2-base")            # by name, path, or synthetic:NAME
    out = model(image)                           # numpy, Pillow, torch; (H, W, 3) bytes, or a path
    out["last_hidden_state"]                     # float32 (tokens, C)
    out.features                                 # (h, w, C); also depth, boxes, masks, keypoints, labels

Checking an attention written in PyTorch takes five lines:

    q, k, v = torch.randn(3, 2, 8, 1000, 64)                   # (B, H, N, d) each
    want = my_linear_attention(q, k, v)                        # (B, H, N, dv)
    got = fovea.attention(q.numpy(), k.numpy(), v.numpy(), "linear:elu1")
    print(abs(got - want.numpy()).max() / abs(want.numpy()).max())

Several threads may use the same object; while one computes, the others can run Python. Only one thread at a
time can be inside a Plan or a State, and others wait. Threads that are to compute at the same time need a Plan
each (Model.plan).

The library is the one that the environment variable FOVEA_LIBRARY names, else the one in this package, else the
one that the loader finds, else the one in build/src of the repository that contains this package. Failures raise
fovea.Error with the library's own message, or ValueError and TypeError.
Names, defaults and formulas are those of fovea/fovea.h.
"""
from ._attention import State, attention
from ._crops import crop
from ._device import Device, ExternalImage
from ._gemm import gemm
from ._library import Error, save_wisdom, version
from ._library import lib as _lib
from ._model import Model, load
from ._plan import Plan
from ._records import Detection, Features, Keypoint, Label, Mask, Masks, Tuned
from ._results import Batch, Result
from ._segmenter import Segmenter, Segments
from ._sequence import Sequence
from ._structures import (COMPUTE, EXTENT_FRAME, EXTERNAL_KINDS, FORMATS, FORMS, GATES, KINDS, MASK_RULES,
                          NO_CLASS, OUT_GATES, SCHEDULES, STATUSES, STORAGE, TRANSFERS, WEIGHTS, YUVS, Accuracy,
                          AccuracyReport, AttentionOptions, DeviceInfo, DeviceOptions, Frame, FrameShape,
                          GemmOptions, LinearAttentionParams, Matrix, ModelInfo, ModelOptions, Output, OutputInfo, PlanInfo,
                          PlanOptions, Preprocess, SegmenterOptions, SequenceInfo, SequenceOptions, StepInfo, TuneOptions)
from ._video import choose_yuv, convert, layouts

__version__ = version()
__all__ = [
    "COMPUTE", "EXTENT_FRAME", "EXTERNAL_KINDS", "FORMATS", "FORMS", "GATES", "KINDS", "MASK_RULES",
    "NO_CLASS", "OUT_GATES", "SCHEDULES", "STATUSES", "STORAGE", "TRANSFERS", "WEIGHTS", "YUVS",
    "Accuracy", "AccuracyReport", "AttentionOptions", "Batch", "Detection", "Device", "DeviceInfo",
    "DeviceOptions", "Error", "ExternalImage", "Features", "Frame", "FrameShape", "GemmOptions", "Keypoint",
    "Label", "LinearAttentionParams", "Mask", "Masks", "Matrix", "Model", "ModelInfo", "ModelOptions", "Output",
    "OutputInfo", "Plan",
    "PlanInfo", "PlanOptions", "Preprocess", "Result", "Segmenter", "SegmenterOptions", "Segments", "Sequence", "SequenceInfo", "SequenceOptions", "State",
    "StepInfo", "TuneOptions", "Tuned", "attention", "choose_yuv", "convert", "crop", "gemm", "layouts", "load",
    "save_wisdom", "version",
]
