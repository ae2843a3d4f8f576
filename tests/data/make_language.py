#!/usr/bin/env python3
"""make_language.py: computes logits of small language models by flash-linear-attention's classes.

    make_language.py language.json

Needs flash-linear-attention, torch and transformers; without an NVIDIA GPU its kernels run in Triton's interpreter.
The weights are those of tests/models/language_cases.py.
"""
import contextlib
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "models"))

os.environ["TRITON_INTERPRET"] = "1"
import torch
import torch.nn.functional as F
import triton
from triton.backends.compiler import GPUTarget


class Interpreter:
    """The functions that Triton calls of a driver, for a machine without one."""

    def get_current_target(self):
        return GPUTarget("cuda", 80, 32)

    def get_current_device(self):
        return 0

    def get_current_stream(self, device=None):
        return 0

    def get_active_torch_device(self):
        return torch.device("cpu")

    def get_benchmarker(self):
        return lambda f, **options: [0.0, 0.0, 0.0]


class Properties:
    name, major, minor, warp_size, multi_processor_count = "none", 8, 0, 32, 8
    shared_memory_per_block_optin = shared_memory_per_multiprocessor = 164 << 10
    total_memory, L2_cache_size, max_threads_per_multi_processor = 1 << 34, 1 << 22, 2048


class Device(contextlib.nullcontext):
    def __init__(self, *arguments):
        super().__init__()


if not torch.cuda.is_available():
    triton.runtime.driver.set_active(Interpreter())
    torch.cuda.get_device_properties = lambda device=None: Properties()
    torch.cuda.get_device_name = lambda device=None: "none"
    torch.cuda.get_device_capability = lambda device=None: (8, 0)
    torch.cuda.current_device = lambda: 0
    torch.cuda.device = torch.cuda.device_of = Device

import fla.layers.attn
import fla.layers.gated_deltanet
import fla.models
from fla.ops.gated_delta_rule.naive import naive_recurrent_gated_delta_rule
import language_cases as cases


def attend(q, k, v, causal=True, window_size=(-1, -1)):
    """flash_attn_func: (batch, tokens, heads, channels); the window counts keys before a query."""
    n, times = q.shape[1], q.shape[2] // k.shape[2]
    q, k, v = (x.transpose(1, 2) for x in (q, k.repeat_interleave(times, 2), v.repeat_interleave(times, 2)))
    i, j = torch.arange(n)[:, None], torch.arange(n)[None]
    seen = j <= i
    if window_size[0] >= 0:
        seen &= j >= i - window_size[0]
    return F.scaled_dot_product_attention(q, k, v, attn_mask=seen).transpose(1, 2)


def gated_delta_rule(q, k, v, g, beta, A_log, dt_bias, allow_neg_eigval=False, **others):
    """fla's naive implementation, with the gates, norms and shared heads that its kernel handles itself. The kernel
    contains assembly, which the interpreter cannot run."""
    q, k = (x * torch.rsqrt(x.square().sum(-1, keepdim=True) + 1e-6) for x in (q, k))
    q, k = (x.repeat_interleave(v.shape[2] // x.shape[2], 2) for x in (q, k))
    g = -A_log.exp() * F.softplus(g + dt_bias)
    return naive_recurrent_gated_delta_rule(q, k, v, beta.sigmoid() * (2 if allow_neg_eigval else 1), g)


fla.layers.attn.flash_attn_func = attend
fla.layers.gated_deltanet.fused_recurrent_gated_delta_rule = gated_delta_rule

CLASSES = {"retnet": "RetNet", "gla": "GLA", "delta_net": "DeltaNet", "gated_deltanet": "GatedDeltaNet",
           "transformer": "Transformer"}


def logits_of(case):
    config = cases.config_of(case)
    name = CLASSES[config["model_type"]]
    options = {k: v for k, v in config.items() if k != "model_type"}
    recurrent = {} if name == "Transformer" else {"attn_mode": "fused_recurrent"}
    model = getattr(fla.models, name + "ForCausalLM")(getattr(fla.models, name + "Config")(
        **options, **recurrent, fuse_norm=True, fuse_swiglu=True, fuse_cross_entropy=False)).eval()
    state = model.state_dict()
    if config.get("tie_word_embeddings"):
        state.pop("lm_head.weight", None)
    shapes = {k: list(v.shape) for k, v in state.items()}
    model.load_state_dict({k: torch.from_numpy(v) for k, v in cases.tensors_of(case, shapes).items()}, strict=False)
    model.tie_weights()
    with torch.no_grad():
        logits = model(torch.tensor([cases.ids_of(case)])).logits[0]
    return shapes, [[round(float(x), 6) for x in logits[i]] for i in cases.POSITIONS]


def main(path):
    out = {}
    for case in cases.CASES:
        shapes, logits = logits_of(case)
        out[case] = {"shapes": shapes, "logits": logits}
        print(case, len(shapes), "tensors", file=sys.stderr)
    with open(path, "w") as f:
        f.write("{\n" + ",\n".join(f'"{k}": {json.dumps(v)}' for k, v in out.items()) + "\n}\n")


if __name__ == "__main__":
    main(sys.argv[1])
