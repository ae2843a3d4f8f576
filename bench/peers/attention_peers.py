"""attention_peers.py: other implementations of Fovea's attentions for PyTorch tensors: plain PyTorch,
torch.compile, Triton, and flash-linear-attention. All are functions of q, k and v, each
(1, tokens, heads, channels)."""
import importlib.util
import sys

import torch

WRONG = 0.02  # largest allowed error in 16 bits, relative to the largest value


def mapped(q, k):
    elu = torch.nn.functional.elu
    return elu(q) + 1, elu(k) + 1


def quotient(q, k, v):
    state = torch.einsum("bnhd,bnhe->bhde", k, v / k.shape[1])
    divisor = torch.einsum("bnhd,bhd->bnh", q, k.mean(1)) + 1e-6
    return torch.einsum("bnhd,bhde->bnhe", q, state) / divisor[..., None]


def linear(q, k, v):
    return quotient(*mapped(q, k), v)


def mala(q, k, v):
    q, k = mapped(q, k)
    state = torch.einsum("bnhd,bnhe->bhde", k, v / k.shape[1])
    z = torch.einsum("bnhd,bhd->bnh", q, k.mean(1))[..., None]
    return torch.einsum("bnhd,bhde->bnhe", q, state) * (1 + 1 / (z + 1e-6)) - z * v.mean(1, keepdim=True)


def polarised(x, size):
    """Positive and negative parts as separate channels."""
    return torch.cat([size * (x > 0), size * (x < 0)], -1)


def pola(q, k, v):
    """Positive and negative parts, with the same power for all channels."""
    q, k = (polarised(x, x.abs().pow(3)) for x in (q, k))
    crossed = torch.cat(q.chunk(2, -1)[::-1], -1)
    same, other = v.chunk(2, -1)
    return torch.cat([quotient(q, k, same), quotient(crossed, k, other)], -1)


def nala(q, k, v):
    norm = q.norm(dim=-1, keepdim=True)
    q = polarised(q, (q / norm).abs().pow(3 * (0.5 + norm.tanh())))
    return quotient(q, polarised(k, k.abs().pow(3)), v)


def softmax(q, k, v):
    sdpa = torch.nn.functional.scaled_dot_product_attention
    return sdpa(*(x.transpose(1, 2) for x in (q, k, v))).transpose(1, 2)


WRITTEN_OUT = {"softmax": softmax, "linear:elu1": linear, "mala": mala, "pola": pola, "nala": nala}


def of_fla(name, q):
    """The function of flash-linear-attention (Triton) with this name, or None. All of its functions are causal."""
    shape, on = q.shape[:3], {"device": q.device, "dtype": torch.float32}
    if name == "retention":
        from fla.ops.retention import chunk_retention
        return chunk_retention
    if name == "gla":
        from fla.ops.gla import chunk_gla
        decays = (-0.1 * torch.rand(q.shape, **on)).to(q.dtype)
        return lambda q, k, v: chunk_gla(q, k, v, decays)
    if name == "gated-delta-rule":
        from fla.ops.gated_delta_rule import chunk_gated_delta_rule
        decay, beta = -0.1 * torch.rand(shape, **on), torch.rand(shape, **on).to(q.dtype)
        return lambda q, k, v: chunk_gated_delta_rule(q, k / k.norm(dim=-1, keepdim=True), v, decay, beta)
    return None


def off(name, function, q, k, v):
    """The largest difference between a function and plain PyTorch in float32, relative to the largest value."""
    few = [x[:, :1100] for x in (q, k, v)]
    want = WRITTEN_OUT[name](*(x.float() for x in few))
    return ((function(*few).float() - want).abs().max() / want.abs().max()).item()


def functions(name, q, k, v):
    """The available functions by the names of the peers; a function with wrong results is reported and left
    out."""
    found = {}
    if name in WRITTEN_OUT:
        found["pytorch"] = WRITTEN_OUT[name]
        found["compile"] = torch.compile(WRITTEN_OUT[name])
    if importlib.util.find_spec("triton"):
        import attention_triton
        if attention_triton.function(name):
            found["triton"] = attention_triton.function(name)
            error = off(name, found["triton"], q, k, v)
            if not error <= WRONG:
                print("triton's %s is off by %.2g: left out" % (name, error), file=sys.stderr)
                del found["triton"]
    if importlib.util.find_spec("fla") and q.dtype != torch.float32 and of_fla(name, q):
        found["fla"] = of_fla(name, q)
    return found
