"""language_reference.py: RetNet with SLA's gates in double precision, by its equations."""
import numpy as np


def rms(x, weight, eps):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * weight


def silu(x):
    return x / (1 + np.exp(-x))


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def rotated(x):
    """Halves of every head turned by the token's position."""
    n, _, d = x.shape
    angle = np.arange(n)[:, None] * 10000.0 ** (-np.arange(0, d, 2) / d)
    c, s = np.cos(angle)[:, None], np.sin(angle)[:, None]
    a, b = x[..., :d // 2], x[..., d // 2:]
    return np.concatenate([a * c - b * s, a * s + b * c], -1)


def gates(weight, x, heads, fields):
    """(tokens, heads) of q or k (tokens, heads, d), or of the block's input."""
    flat = x.reshape(len(x), -1)
    if weight.shape[0] == flat.shape[1]:
        logits = flat @ weight
    else:
        logits = np.einsum("nhd,dh->nh", x.reshape(len(x), heads, -1), weight)
    return softmax(logits) * (heads if fields.get("sla_gates_sum") == "heads" else 1)


def mix(config, t, x, fields):
    n, heads = len(x), config["num_heads"]
    q, k, v, g = ((x @ t(name + "_proj").T).reshape(n, heads, -1) for name in "qkvg")
    of_x = fields.get("sla_gates") == "x_dense"
    gate_q, gate_k = (gates(t("sla_" + name), x if of_x else y, heads, fields)[..., None]
                      for name, y in [("q", q), ("k", k)])
    after = fields.get("read_gate") == "post_norm"
    q, k = rotated(q) * q.shape[-1] ** -0.5 * (1 if after else gate_q), rotated(k) * gate_k
    past = np.arange(n)[:, None] - np.arange(n)[None]
    o = np.empty(v.shape)
    for h in range(heads):
        decay = (1 - 2.0 ** (-5 - h)) ** np.maximum(past, 0) * (past >= 0)
        o[:, h] = (q[:, h] @ k[:, h].T * decay) @ v[:, h]
    o = rms(o, t("g_norm_swish_gate"), config["norm_eps"]) * silu(g) * (gate_q if after else 1)
    return o.reshape(n, -1) @ t("o_proj").T


def retnet(config, tensors, ids, fields):
    """Logits after each of `ids`."""
    t = {k: v.astype(np.float64) for k, v in tensors.items()}
    x = t["model.embeddings.weight"][ids]
    for i in range(config["num_hidden_layers"]):
        p = f"model.layers.{i}."
        y = rms(x, t[p + "attn_norm.weight"], config["norm_eps"])
        x = x + mix(config, lambda name: t[p + "attn." + name + ".weight"], y, fields)
        y = rms(x, t[p + "mlp_norm.weight"], config["norm_eps"])
        gate, up, down = (t[p + f"mlp.{name}_proj.weight"] for name in ("gate", "up", "down"))
        x = x + (silu(y @ gate.T) * (y @ up.T)) @ down.T
    return rms(x, t["model.norm.weight"], config["norm_eps"]) @ t["lm_head.weight"].T
