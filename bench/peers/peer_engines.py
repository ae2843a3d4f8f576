"""peer_engines.py: who is compared, and how each opens a model and runs a picture through it.

Every engine is held to float32 and to the number of threads asked for, and is otherwise left as it comes.
What it needs is imported when it is opened; one whose packages are missing is listed as not installed.
"""
import dataclasses
import importlib.metadata
import importlib.util
import os
import sys
import tempfile
from typing import Callable

HERE = os.path.dirname(os.path.abspath(__file__))
ATTENTIONS = ("softmax", "linear")


@dataclasses.dataclass(frozen=True)
class Job:
    """One engine's part in the comparison."""
    peer: str
    folder: str  # of the checkpoint
    size: int
    attention: str
    threads: int


@dataclasses.dataclass(frozen=True)
class Peer:
    name: str
    about: str
    packages: tuple  # of PyPI, imported by these names; the first one's version is told
    prepare: Callable  # imports what is needed and gives load(job) -> run(pixels) -> rows
    attentions: tuple = ATTENTIONS

    def missing(self):
        return [p for p in self.packages if importlib.util.find_spec(p) is None]

    def version(self):
        if self.name == "fovea":
            return ""
        return importlib.metadata.version(self.packages[0])


# ---- Fovea ----

def with_fovea():
    sys.path.append(os.path.join(os.path.dirname(os.path.dirname(HERE)), "python"))
    import fovea

    def load(job):
        model = fovea.Model(job.folder, fovea.Device(threads=job.threads))
        attention = {"softmax": "softmax", "linear": "linear:elu1"}[job.attention]
        return lambda pixels: model.run(pixels[0], attention)["last_hidden_state"]

    return load


# ---- by ONNX graphs ----

def with_onnxruntime(fused=False):
    import onnxruntime as ort
    import vit_checkpoint
    import vit_onnx

    def load(job):
        path = vit_onnx.export(vit_checkpoint.Checkpoint(job.folder), job.size,
                               "fused" if fused else job.attention)
        options = ort.SessionOptions()
        options.intra_op_num_threads = job.threads
        options.inter_op_num_threads = 1
        session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        return lambda pixels: session.run(None, {"pixels": pixels})[0]

    return load


def with_openvino():
    import openvino as ov
    import vit_checkpoint
    import vit_onnx

    def load(job):
        path = vit_onnx.export(vit_checkpoint.Checkpoint(job.folder), job.size, job.attention)
        compiled = ov.Core().compile_model(path, "CPU", {
            "INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": job.threads, "NUM_STREAMS": 1,
            "PERFORMANCE_HINT": "LATENCY"})
        request = compiled.create_infer_request()
        return lambda pixels: request.infer({0: pixels})[0]

    return load


# ---- ncnn ----

def with_ncnn():
    import ncnn
    import numpy as np
    import vit_checkpoint
    import vit_ncnn

    def load(job):
        net = ncnn.Net()
        net.opt.num_threads = job.threads
        for option in ("fp16_packed", "fp16_storage", "fp16_arithmetic", "bf16_packed", "bf16_storage"):
            setattr(net.opt, "use_" + option, False)
        with tempfile.TemporaryDirectory(dir=job.folder) as folder:
            stem, out = vit_ncnn.export(vit_checkpoint.Checkpoint(job.folder), job.size, job.attention, folder)
            if net.load_param(stem + ".param") or net.load_model(stem + ".bin"):
                raise RuntimeError("ncnn does not take the model")

        def run(pixels):
            extractor = net.create_extractor()
            extractor.input("pixels", ncnn.Mat(pixels[0]))
            status, rows = extractor.extract(out)
            if status:
                raise RuntimeError("ncnn: status %d" % status)
            return np.array(rows)

        return run

    return load


# ---- PyTorch ----

def with_torch(attention=None, compiled=False):
    import torch
    import vit_checkpoint
    import vit_torch

    def load(job):
        torch.set_num_threads(job.threads)
        model = vit_torch.Vit(vit_checkpoint.Checkpoint(job.folder), job.size, attention or job.attention)
        model = torch.compile(model.eval()) if compiled else model.eval()

        @torch.inference_mode()
        def run(pixels):
            return model(torch.from_numpy(pixels))[0].numpy()

        return run

    return load


PEERS = [
    Peer("fovea", "Fovea", ("numpy",), with_fovea),
    Peer("onnxruntime", "ONNX Runtime", ("onnxruntime", "onnx"), with_onnxruntime),
    Peer("onnxruntime-mha", "ONNX Runtime, its MultiHeadAttention", ("onnxruntime", "onnx"),
         lambda: with_onnxruntime(fused=True), ("softmax",)),
    Peer("openvino", "OpenVINO", ("openvino", "onnx"), with_openvino),
    Peer("ncnn", "ncnn", ("ncnn",), with_ncnn),
    Peer("torch", "PyTorch, eager", ("torch",), with_torch),
    Peer("torch-sdpa", "PyTorch, scaled_dot_product_attention", ("torch",),
         lambda: with_torch("sdpa"), ("softmax",)),
    Peer("torch-compile", "PyTorch, torch.compile", ("torch",), lambda: with_torch(compiled=True)),
    Peer("torch-compile-sdpa", "PyTorch, both of these", ("torch",),
         lambda: with_torch("sdpa", True), ("softmax",)),
]


def peer(name):
    return next(p for p in PEERS if p.name == name)
