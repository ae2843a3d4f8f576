"""peer_engines.py: the engines that are compared, and how each opens a model and runs a picture.

Every engine is set to the requested precision and number of threads; its other settings are its defaults. Its
packages are imported when it is opened; an engine whose packages are missing is listed as not installed.
"""
import dataclasses
import importlib.metadata
import importlib.util
import os
import subprocess
import sys
import tempfile
from typing import Callable

import task_models

HERE = os.path.dirname(os.path.abspath(__file__))
ATTENTIONS = ("softmax", "linear")
OWN = "own"  # the attention in the graph of a task's model
# Operand types of matrix multiplications. "default": the engine's own choice.
PRECISIONS = {"f32": "float32", "default": "as it comes", "bf16": "bfloat16", "int8": "int8"}


@dataclasses.dataclass(frozen=True)
class Job:
    """One engine's part in the comparison."""
    peer: str
    folder: str  # of the checkpoint
    size: int
    attention: str
    precision: str
    threads: int
    task: str = ""      # of task_models.py; "": a vision transformer alone
    official: str = ""  # the folder of its authors' code
    amx: bool = True    # whether the engine may use AMX

    def shape(self):
        """The shape of the picture."""
        return task_models.TASKS[self.task].shape(self.size) if self.task else (1, 3, self.size, self.size)

    def graph(self, attention=None):
        """The path of the model as an ONNX graph."""
        if self.task:
            return task_models.graph(self.folder, self.size)
        import vit_checkpoint
        import vit_onnx
        return vit_onnx.export(vit_checkpoint.Checkpoint(self.folder), self.size, attention or self.attention)


@dataclasses.dataclass(frozen=True)
class Peer:
    name: str
    about: str
    # packages of PyPI, imported by these names; the version of the first is reported
    packages: tuple
    # prepare(job) imports and writes what is needed, and returns load() -> (run, precision).
    # run(pixels) returns rows; precision is the engine's own statement about the types that it
    # uses besides int8, or None.
    prepare: Callable
    precisions: tuple  # without "default", which is "f32"
    attentions: tuple = ATTENTIONS + (OWN,)
    for_int8: tuple = ()  # packages

    def missing(self, precision=None):
        needed = self.for_int8 if precision == "int8" else self.packages
        return [p for p in needed if importlib.util.find_spec(p) is None]

    def measured(self, precision):
        """The name under which `precision` is measured; None if this engine does not support it."""
        if precision == "default" and precision not in self.precisions:
            return "f32"
        return precision if precision in self.precisions else None

    def version(self):
        if self.name == "fovea":
            return ""
        return importlib.metadata.version(self.packages[0])


# ---- Fovea ----

def with_fovea(job):
    sys.path.append(os.path.join(os.path.dirname(os.path.dirname(HERE)), "python"))
    import fovea

    def load():
        import numpy as np
        model = fovea.Model(job.folder, fovea.Device(threads=job.threads))
        attention = {"softmax": "softmax", "linear": "linear:elu1", OWN: None}[job.attention]
        outputs = task_models.TASKS[job.task].outputs if job.task else ("last_hidden_state",)
        compute = "auto" if job.precision == "default" else job.precision
        like = np.zeros(job.shape()[1:], np.float32)
        says = model.plan(like, attention, outputs, compute=compute, dry=True).info["compute"]
        return (lambda pixels: model.run(pixels[0], attention, outputs, compute=compute)[outputs[0]],
                says if job.precision == "default" else None)

    return load


# ---- by ONNX graphs ----

def _int8(scheme, job, attention):
    """The path of the int8 graph. Another process makes it, so that the engine's memory does not include the
    memory of the quantisation."""
    import vit_int8
    case = job.folder, job.size, attention, job.task
    made = subprocess.run([sys.executable, vit_int8.__file__, scheme, *map(str, case)])
    if made.returncode:
        sys.exit(made.returncode)  # it has reported the reason
    return vit_int8.path(scheme, *case[:3])


def with_onnxruntime(job, fused=False):
    import onnxruntime as ort
    attention = "fused" if fused else job.attention
    int8 = _int8("dynamic", job, attention) if job.precision == "int8" else None

    def load():
        path = int8 or job.graph(attention)
        options = ort.SessionOptions()
        options.intra_op_num_threads = job.threads
        options.inter_op_num_threads = 1
        session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        return lambda pixels: session.run(None, {"pixels": pixels})[0], None

    return load


def with_openvino(job):
    import openvino as ov
    int8 = _int8("calibrated", job, job.attention) if job.precision == "int8" else None

    def load():
        path = int8 or job.graph()
        config = {"INFERENCE_NUM_THREADS": job.threads, "NUM_STREAMS": 1, "PERFORMANCE_HINT": "LATENCY"}
        if job.precision == "f32":
            config["INFERENCE_PRECISION_HINT"] = "f32"
        compiled = ov.Core().compile_model(path, "CPU", config)
        request = compiled.create_infer_request()
        floats = compiled.get_property("INFERENCE_PRECISION_HINT").get_type_name()
        return lambda pixels: request.infer({0: pixels})[0], floats

    return load


# ---- ncnn ----

def with_ncnn(job):
    import ncnn
    import numpy as np
    import vit_checkpoint
    import vit_ncnn

    def load():
        net = ncnn.Net()
        net.opt.num_threads = job.threads
        if job.precision == "f32":
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

        return run, None

    return load


# ---- MNN ----

def with_mnn(job):
    import MNN
    import MNN.expr
    import MNN.numpy
    path = "%s-mnn-%s.mnn" % (os.path.splitext(job.graph())[0], importlib.metadata.version("MNN"))
    if not os.path.exists(path):
        made = subprocess.run([os.path.join(os.path.dirname(sys.executable), "mnnconvert"), "-f", "ONNX",
                               "--modelFile", job.graph(), "--MNNModel", path, "--bizCode", "fovea"],
                              stdout=subprocess.DEVNULL)
        if made.returncode or not os.path.exists(path):
            raise RuntimeError("MNN's converter does not take the model")

    def load():
        precision = {"f32": "high", "default": "normal", "bf16": "low"}[job.precision]
        runtime = MNN.nn.create_runtime_manager(({"backend": "CPU", "numThread": job.threads,
                                                  "precision": precision},))
        outputs = task_models.TASKS[job.task].outputs if job.task else ("last_hidden_state",)
        net = MNN.nn.load_module_from_file(path, ["pixels"], list(outputs), runtime_manager=runtime)

        def run(pixels):
            given = MNN.expr.const(pixels, list(pixels.shape), MNN.expr.NCHW)
            return MNN.expr.convert(net.onForward([given])[0], MNN.expr.NCHW).read()

        return run, None

    return load


# ---- PyTorch ----

def with_torch(job, attention=None, compiled=False):
    import torch
    import vit_checkpoint
    import vit_torch

    def load():
        torch.set_num_threads(job.threads)
        dtype = {"f32": torch.float32, "bf16": torch.bfloat16}[job.precision]
        if job.task:
            model = task_models.module(job.task, job.folder, job.official).to(dtype)
        else:
            model = vit_torch.Vit(vit_checkpoint.Checkpoint(job.folder), job.size, attention or job.attention, dtype)
        model = torch.compile(model.eval()) if compiled else model.eval()

        @torch.inference_mode()
        def run(pixels):
            rows = model(torch.from_numpy(pixels).to(dtype))[0]
            return rows.float().numpy()

        return run, None

    return load


PEERS = [
    Peer("fovea", "Fovea", ("numpy",), with_fovea, ("f32", "default", "bf16", "int8")),
    Peer("onnxruntime", "ONNX Runtime", ("onnxruntime", "onnx"), with_onnxruntime, ("f32", "int8")),
    Peer("onnxruntime-mha", "ONNX Runtime, its MultiHeadAttention", ("onnxruntime", "onnx"),
         lambda job: with_onnxruntime(job, fused=True), ("f32", "int8"), ("softmax",)),
    Peer("openvino", "OpenVINO", ("openvino", "onnx"), with_openvino, ("f32", "default", "int8"),
         for_int8=("nncf",)),
    Peer("ncnn", "ncnn", ("ncnn",), with_ncnn, ("f32", "default"), ATTENTIONS),
    Peer("mnn", "MNN", ("MNN", "onnx"), with_mnn, ("f32", "default", "bf16")),
    Peer("torch", "PyTorch, eager", ("torch",), with_torch, ("f32", "bf16")),
    Peer("torch-sdpa", "PyTorch, scaled_dot_product_attention", ("torch",),
         lambda job: with_torch(job, "sdpa"), ("f32", "bf16"), ("softmax",)),
    Peer("torch-compile", "PyTorch, torch.compile", ("torch",), lambda job: with_torch(job, compiled=True),
         ("f32", "bf16"), ATTENTIONS),
    Peer("torch-compile-sdpa", "PyTorch, both of these", ("torch",),
         lambda job: with_torch(job, "sdpa", True), ("f32", "bf16"), ("softmax",)),
]


def peer(name):
    return next(p for p in PEERS if p.name == name)
