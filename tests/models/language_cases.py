"""language_cases.py: small language models of every kind with random weights, as checkpoints.

tests/data/language.json has the names and shapes of flash-linear-attention's classes; values follow from a seed.
tests/data/make_language.py computes their logits with these classes.
"""
import json
import os
import struct
import zlib

import numpy as np

TOKENS = 300
POSITIONS = [0, 1, 3, 17, 63, 64, 128, 256, 299]
COMMON = {"hidden_size": 32, "num_hidden_layers": 2, "vocab_size": 61, "intermediate_size": 48, "norm_eps": 1e-6,
          "hidden_act": "swish"}
# Settings that differ from the class's defaults.
CASES = {
    "retnet": {"model_type": "retnet", "num_heads": 2},
    "retnet_shared": {"model_type": "retnet", "num_heads": 4, "num_kv_heads": 2, "feature_map": "relu",
                      "tie_word_embeddings": True, "elementwise_affine": False},
    "gla": {"model_type": "gla", "num_heads": 2},
    "gla_conv": {"model_type": "gla", "num_heads": 4, "num_kv_heads": 2, "use_short_conv": True,
                 "expand_k": 1.0, "use_output_gate": False},
    "delta": {"model_type": "delta_net", "num_heads": 2},
    "delta_gate": {"model_type": "delta_net", "num_heads": 2, "use_gate": True, "allow_neg_eigval": True,
                   "qk_activation": "elu", "expand_v": 2.0},
    "delta_plain": {"model_type": "delta_net", "num_heads": 4, "use_short_conv": False},
    "delta_fixed": {"model_type": "delta_net", "num_heads": 2, "use_beta": False, "qk_activation": "relu"},
    "gated_delta": {"model_type": "gated_deltanet", "num_heads": 2, "head_dim": 8},
    "gated_delta_shared": {"model_type": "gated_deltanet", "num_heads": 2, "num_v_heads": 4, "head_dim": 8,
                           "allow_neg_eigval": True, "output_gate_activation": "sigmoid", "conv_size": 3},
    "gated_delta_plain": {"model_type": "gated_deltanet", "num_heads": 2, "head_dim": 12, "use_short_conv": False,
                          "use_gate": False, "expand_v": 1.0},
    "transformer": {"model_type": "transformer", "num_heads": 2},
    "transformer_shared": {"model_type": "transformer", "num_heads": 4, "num_kv_heads": 2, "qkv_bias": True,
                           "qk_norm": True, "window_size": 40, "rope_theta": 500.0, "tie_word_embeddings": True},
    "hybrid": {"model_type": "gla", "num_heads": 2,
               "attn": {"layers": [1], "num_heads": 4, "num_kv_heads": 2, "qkv_bias": False, "window_size": None,
                        "rope_theta": 10000.0}},
}
LISTED = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data", "language.json")


def config_of(case):
    return {**COMMON, **CASES[case]}


def draws(case):
    return np.random.RandomState(zlib.crc32(case.encode()) % 2 ** 31)


def value_of(name, shape, draw):
    """Values with the spread of a trained model's, so that decays and logits are near 1."""
    u = draw.uniform(-1, 1, shape)
    if name.endswith("norm.weight") or "norm_swish_gate" in name:
        u = 1 + 0.3 * u
    elif name.endswith("A_log"):
        u = 1 + u
    elif name.endswith("dt_bias"):
        u = u - 3
    elif name.endswith("gk_proj.1.bias"):
        u = 2 + u
    elif name.endswith("bias"):
        u = 0.1 * u
    elif "embeddings" in name:
        u = 0.4 * u
    else:
        u = u * np.sqrt(3 / shape[-1])
    return u.astype(np.float32)


def tensors_of(case, shapes):
    """The values of every tensor, in the order of the names."""
    draw = draws(case)
    return {name: value_of(name, shape, draw) for name, shape in sorted(shapes.items())}


def ids_of(case, n=TOKENS):
    return [int(i) for i in draws(case + " ids").randint(0, COMMON["vocab_size"], n)]


def save(path, tensors):
    head, data = {}, b""
    for name, t in tensors.items():
        raw = np.ascontiguousarray(t, "<f4").tobytes()
        head[name] = {"dtype": "F32", "shape": list(t.shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(head).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + data)


def write_checkpoint(folder, config, tensors):
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "config.json"), "w") as f:
        json.dump(config, f)
    save(os.path.join(folder, "model.safetensors"), tensors)


def listed():
    with open(LISTED) as f:
        return json.load(f)
