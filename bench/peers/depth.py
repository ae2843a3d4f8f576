#!/usr/bin/env python3
"""depth.py: Depth Anything V2-S on Fovea, ONNX Runtime and OpenVINO, in float32, from one checkpoint.

    python3 bench/peers/depth.py --size 518,1036 --rounds 9

The checkpoint has random weights. transformers writes it, and torch exports the graph that the other two run;
both, and numpy, onnx, onnxruntime and openvino, must be installed. In every round each takes its turn; ratios are
medians over rounds. Fovea is FOVEA_LIBRARY of the environment, else build/src beside.

Exit status: 0; 3 when results differ.
"""
import argparse
import os
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
BOUND = 1e-3  # of the largest depth: what softmax's results may differ by
WRONG = 3


def checkpoint(folder):
    """Writes it where it is not there yet; returns the class' instance."""
    import torch
    from transformers import DepthAnythingConfig, DepthAnythingForDepthEstimation, Dinov2Config
    if os.path.exists(os.path.join(folder, "config.json")):
        return DepthAnythingForDepthEstimation.from_pretrained(folder).eval()
    backbone = Dinov2Config(hidden_size=384, num_attention_heads=6, image_size=518, patch_size=14,
                            out_indices=[3, 6, 9, 12], reshape_hidden_states=False, apply_layernorm=True)
    config = DepthAnythingConfig(backbone_config=backbone, neck_hidden_sizes=[48, 96, 192, 384],
                                 fusion_hidden_size=64, reassemble_hidden_size=384)
    torch.manual_seed(0)
    model = DepthAnythingForDepthEstimation(config).eval()
    for p in model.parameters():
        if p.dim() > 1:  # as large as what trained layers leave of their input
            torch.nn.init.normal_(p, std=0.5 / p[0].numel() ** 0.5)
    model.save_pretrained(folder)
    return model


def exported(model, folder, size):
    import torch

    class Depth(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, pixels):
            return self.model(pixel_values=pixels).predicted_depth

    path = os.path.join(folder, "depth-%d.onnx" % size)
    if not os.path.exists(path):
        with torch.no_grad():
            torch.onnx.export(Depth(), (torch.zeros(1, 3, size, size),), path, input_names=["pixels"],
                              output_names=["depth"], dynamo=False, opset_version=17)
    return path


def engines(folder, path, threads):
    """{name: run(pixels) -> depth}; the first one's result is what softmax's are held to."""
    import fovea
    import onnxruntime as ort
    import openvino as ov
    options = ort.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # not in others' turns
    session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    request = ov.Core().compile_model(path, "CPU", {
        "INFERENCE_NUM_THREADS": threads, "NUM_STREAMS": 1, "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_PRECISION_HINT": "f32"}).create_infer_request()
    model = fovea.Model(folder, fovea.Device(threads=threads))
    name = "predicted_depth"
    return {
        "ONNX Runtime": lambda x: session.run(None, {"pixels": x})[0],
        "OpenVINO": lambda x: request.infer({0: x})[0],
        "Fovea, softmax": lambda x: model.run(x[0], "softmax", outputs=[name], compute="f32")[name],
        "Fovea, linear": lambda x: model.run(x[0], "linear:elu1", outputs=[name], compute="f32")[name],
    }


def compare(folder, path, size, options):
    import numpy as np
    pixels = np.random.default_rng(size).standard_normal((1, 3, size, size)).astype(np.float32)
    engine = engines(folder, path, options.threads)
    result = {name: np.asarray(run(pixels)).reshape(-1) for name, run in engine.items()}
    want = result["ONNX Runtime"]
    worst = max(abs(r - want).max() / abs(want).max() for name, r in result.items() if name != "Fovea, linear")
    seconds = {name: [] for name in engine}
    for _ in range(options.rounds):
        for name, run in engine.items():
            begin = time.perf_counter()
            run(pixels)
            seconds[name].append(time.perf_counter() - begin)
    print("\n%d pixels, %d threads, %d rounds; softmax differs by %.1e" % (
        size, options.threads, options.rounds, worst))
    for name, times in seconds.items():
        ratios = ("%.2f" % np.median(np.divide(seconds[peer], times)) for peer in ("ONNX Runtime", "OpenVINO"))
        print("%-16s %8.1f ms   %s times as fast as ONNX Runtime, %s as OpenVINO" % (
            name, 1e3 * np.median(times), *ratios))
    return worst <= BOUND


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", default="518,1036", help="pixels of a side, multiples of 14 (%(default)s)")
    parser.add_argument("--threads", type=int, default=2, help="(%(default)s)")
    parser.add_argument("--rounds", type=int, default=9, help="(%(default)s)")
    parser.add_argument("--folder", default=os.path.join(ROOT, "build", "peers", "depth-anything-s"))
    options = parser.parse_args()
    os.environ.setdefault("FOVEA_LIBRARY", os.path.join(ROOT, "build", "src", "libfovea.so"))
    sys.path.append(os.path.join(ROOT, "python"))
    os.makedirs(options.folder, exist_ok=True)
    model = checkpoint(options.folder)
    paths = {size: exported(model, options.folder, size) for size in map(int, options.size.split(","))}
    right = [compare(options.folder, path, size, options) for size, path in paths.items()]
    return 0 if all(right) else WRONG


if __name__ == "__main__":
    sys.exit(main())
