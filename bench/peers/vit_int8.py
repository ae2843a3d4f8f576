#!/usr/bin/env python3
"""vit_int8.py: makes the int8 ONNX graphs with the engines' own tools, in the checkpoint's folder.

    vit_int8.py dynamic|calibrated FOLDER SIZE ATTENTION [TASK]

`dynamic` is ONNX Runtime's quantize_dynamic: weights and activations per tensor, scales of activations found
while it runs. `calibrated` is OpenVINO's NNCF, quantisation after training for transformers, calibrated on
random pictures. Both tools run with their default settings. Existing graphs are kept.
"""
import importlib.metadata
import os
import sys
import tempfile

import task_models
import vit_checkpoint

PICTURES = 4  # of the calibration
TOOLS = {"dynamic": ("onnxruntime", ".onnx"), "calibrated": ("nncf", ".xml")}


def path(scheme, folder, size, attention):
    """The path of the graph, which depends on the version of the tool."""
    tool, ending = TOOLS[scheme]
    name = "%s-%d-%s-%s%s" % (attention, size, tool, importlib.metadata.version(tool), ending)
    return os.path.join(folder, name)


def _dynamic(graph, out, pictures):
    import onnx
    from onnxruntime.quantization import quantize_dynamic
    quantize_dynamic(graph, out, op_types_to_quantize=["MatMul"],
                     extra_options={"DefaultTensorType": onnx.TensorProto.FLOAT})


def _calibrated(graph, out, pictures):
    import nncf
    import openvino as ov
    model = nncf.quantize(ov.Core().read_model(graph), nncf.Dataset(pictures), subset_size=PICTURES,
                          model_type=nncf.ModelType.TRANSFORMER)
    ov.save_model(model, out, compress_to_fp16=False)


def make(scheme, folder, size, attention, task=""):
    out = path(scheme, folder, size, attention)
    if os.path.exists(out):
        return
    if task:
        graph = task_models.graph(folder, size)
        pictures = [task_models.picture(task, size, seed) for seed in range(PICTURES)]
    else:
        import vit_onnx
        graph = vit_onnx.export(vit_checkpoint.Checkpoint(folder), size, attention)
        pictures = [vit_checkpoint.picture(size, seed) for seed in range(PICTURES)]
    main = os.path.basename(out)
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        {"dynamic": _dynamic, "calibrated": _calibrated}[scheme](graph, os.path.join(scratch, main), pictures)
        for name in sorted(os.listdir(scratch), key=lambda name: name == main):  # `out` last, complete
            os.replace(os.path.join(scratch, name), os.path.join(folder, name))


if __name__ == "__main__":
    make(sys.argv[1], sys.argv[2], int(sys.argv[3]), *sys.argv[4:])
