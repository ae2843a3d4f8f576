"""language_reference.py: language models of token mixers in double precision, by their equations.

RetNet, GLA, DeltaNet and Gated DeltaNet token by token, with SLA's gates and NaLa's maps where a model has them.
"""
import numpy as np


def rms(x, weight, eps):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * weight


def sigmoid(x):
    return 0.5 + 0.5 * np.tanh(x / 2)


def silu(x):
    return x * sigmoid(x)


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def softplus(x):
    return np.logaddexp(0, x)


ACTIVATIONS = {"silu": silu, "swish": silu, "relu": lambda x: np.maximum(x, 0), "sigmoid": sigmoid,
               "identity": lambda x: x, "elu": lambda x: np.where(x > 0, x + 1, np.exp(np.minimum(x, 0)))}


# ---- feature maps of NaLa: of queries and of keys, (tokens, heads, d) -> (tokens, heads, 2 d) ----

def norm_power(q):
    n = np.sqrt((q * q).sum(-1, keepdims=True))
    return q / n, 3 * (0.5 + np.tanh(n))


def nala(q, k):
    u, p = norm_power(q)
    return [np.concatenate([np.maximum(x, 0) ** power, np.maximum(-x, 0) ** power], -1) for x, power in ((u, p), (k, 3))]


def nala_paper(q, k):
    def turned(x, size):
        angle = np.pi / 4 * np.tanh(x / np.sqrt((x * x).sum(-1, keepdims=True)))
        return np.concatenate([size * np.cos(angle), size * np.sin(angle)], -1)
    u, p = norm_power(q)
    return turned(q, np.abs(u) ** p), turned(k, np.abs(k) ** 3)


MAPS = {"nala": nala, "nala-paper": nala_paper}


# ---- parts of a mixer ----

def rotated(x):
    """Rotary positions: rotates the halves of every head by the token's position."""
    n, _, d = x.shape
    angle = np.arange(n)[:, None] * 10000.0 ** (-np.arange(0, d, 2) / d)
    c, s = np.cos(angle)[:, None], np.sin(angle)[:, None]
    a, b = x[..., :d // 2], x[..., d // 2:]
    return np.concatenate([a * c - b * s, a * s + b * c], -1)


def convolved(x, weight, bias):
    """Causal convolution of every channel."""
    taps = weight.reshape(len(weight), -1)
    before = np.concatenate([np.zeros((taps.shape[1] - 1, x.shape[1])), x])
    y = sum(before[j:j + len(x)] * taps[:, j] for j in range(taps.shape[1]))
    return y if bias is None else y + bias


def gates(weight, x, heads, fields):
    """Gates (tokens, heads, 1), computed from q or k (tokens, heads, d), or from the block's input."""
    flat = x.reshape(len(x), -1)
    if weight.shape[0] == flat.shape[1]:
        logits = flat @ weight
    else:
        logits = np.einsum("nhd,dh->nh", x.reshape(len(x), heads, -1), weight)
    return (softmax(logits) * (heads if fields.get("sla_gates_sum") == "heads" else 1))[..., None]


def map_of(fields):
    """NaLa's map if the name of an attention has it, such as "sla-delta-rule:nala"; else None."""
    return MAPS.get(fields.get("attention", "").partition(":")[2])


def scan(q, k, v, decay, beta):
    """o_t = q_t S_t; S = e^decay S + k^T v; with `beta` (the delta rule) v - k S is added instead of v."""
    n, heads, d = q.shape
    state, out = np.zeros((heads, d, v.shape[-1])), np.empty(v.shape)
    for t in range(n):
        state *= np.exp(decay[t])[..., None]
        u = v[t] if beta is None else beta[t][:, None] * (v[t] - np.einsum("hd,hdv->hv", k[t], state))
        state += k[t][..., None] * u[:, None]
        out[t] = np.einsum("hd,hdv->hv", q[t], state)
    return out


class Mixer:
    def __init__(self, config, tensors, prefix, fields):
        self.c, self.fields, self.kind = config, fields, config["model_type"]
        self.tensors, self.prefix = tensors, prefix
        self.heads = config["num_heads"]
        self.shared = config.get("num_v_heads" if self.kind == "gated_deltanet" else "num_kv_heads") or self.heads
        self.delta = self.kind in ("delta_net", "gated_deltanet")

    def t(self, name, part="weight"):
        return self.tensors.get(self.prefix + name + "." * bool(part) + part)

    def repeated(self, x, heads):
        """(tokens, all heads, channels): each of `heads` is repeated for all heads that share it."""
        x = x.reshape(len(x), heads, -1)
        return np.repeat(x, max(self.heads, self.shared) // heads, 1)

    def activation(self):
        if self.kind == "gated_deltanet":
            return "silu"
        return self.c.get("qk_activation", "silu") if self.delta else self.c.get("feature_map") or "identity"

    def projected(self, x):
        """q, k, v of all heads with the layer's activation, without feature maps."""
        out, sla_map = [], map_of(self.fields)
        act = self.activation()
        for name in "qkv":
            y = x @ self.t(name + "_proj").T
            taps = self.t(name + "_conv1d")
            if taps is not None:
                y = convolved(y, taps, self.t(name + "_conv1d", "bias"))
            smooth = self.delta or taps is not None
            if name != "v" and self.delta and (act != "silu" or sla_map):
                smooth = False
            y = silu(y) if smooth else y
            if name != "v" and not self.delta and act != "identity":
                y = ACTIVATIONS[act](y)
            few = self.shared if (name == "v" or self.kind != "gated_deltanet") else self.heads
            few = self.heads if name == "q" else few
            out.append(self.repeated(y, few))
        return out

    def decays(self, x, d):
        n, heads = len(x), max(self.heads, self.shared)
        if self.kind == "retnet":
            return np.broadcast_to(np.log1p(-2.0 ** (-5 - np.arange(heads)))[None, :, None], (n, heads, 1))
        if self.kind == "gla":
            logits = x @ self.t("gk_proj.0").T @ self.t("gk_proj.1").T + self.t("gk_proj.1", "bias")
            a = -softplus(-logits) / self.c.get("gate_logit_normalizer", 16)
            if self.c.get("clamp_min") is not None:
                a = np.maximum(a, self.c["clamp_min"])
            return self.repeated(a, self.shared)
        if self.kind == "gated_deltanet":
            steps = softplus(x @ self.t("a_proj").T + self.t("dt_bias", ""))
            return (-np.exp(self.t("A_log", "")) * steps)[..., None]
        return np.zeros((n, heads, 1))

    def beta(self, x):
        if not self.delta:
            return None
        most = 2 if self.c.get("allow_neg_eigval") else 1
        if self.c.get("use_beta", True):
            return sigmoid(x @ self.t("b_proj").T) * most
        return np.full((len(x), self.heads), float(most))

    def features(self, q, k):
        chosen = map_of(self.fields)
        if chosen:
            q, k = chosen(q, k)
        elif self.delta and self.activation() not in ("silu", "identity"):
            q, k = (ACTIVATIONS[self.activation()](x) for x in (q, k))
        if not self.delta:
            return q, k
        if self.c.get("qk_norm", "l2") == "sum":
            return [x / np.maximum(np.abs(x).sum(-1, keepdims=True), 1e-6) for x in (q, k)]
        return [x / np.sqrt((x * x).sum(-1, keepdims=True) + 1e-6) for x in (q, k)]

    def output(self, x, o, gate_q):
        c, heads = self.c, o.shape[1]
        weight = next((w for w in map(self.t, ("g_norm_swish_gate", "g_norm", "o_norm")) if w is not None), 1)
        o = rms(o, weight, c["norm_eps"])
        if self.t("g_proj") is not None:
            g = (x @ self.t("g_proj").T).reshape(len(x), heads, -1)
            o = o * ACTIVATIONS[c.get("output_gate_activation", "swish")](g)
        return (o * gate_q).reshape(len(x), -1) @ self.t("o_proj").T

    def __call__(self, x):
        q, k, v = self.projected(x)
        heads, d = q.shape[1:]
        gate_q = gate_k = 1
        if self.t("sla_q") is not None:
            of_x = self.fields.get("sla_gates") == "x_dense"
            gate_q, gate_k = (gates(self.t("sla_" + name), x if of_x else y, heads, self.fields)
                              for name, y in [("q", q), ("k", k)])
        if self.kind == "retnet":
            q, k = rotated(q), rotated(k)
        q, k = self.features(q, k)
        after = self.fields.get("read_gate") == "post_norm"
        q = q * d ** -0.5 * (1 if after else gate_q)
        if self.delta:
            v = v * gate_k
        else:
            k = k * gate_k
        o = scan(q, k, v, self.decays(x, d), self.beta(x))
        return self.output(x, o, gate_q if after else 1)


def logits(config, tensors, ids, fields={}):
    """The logits after each of `ids`; `fields`: the section "fovea" of config.json."""
    t = {k: v.astype(np.float64) for k, v in tensors.items()}
    eps = config["norm_eps"]
    x = t["model.embeddings.weight"][ids]

    def norm(name, x):
        return rms(x, t.get(name + ".weight", 1), eps)
    for i in range(config["num_hidden_layers"]):
        p = f"model.layers.{i}."
        x = x + Mixer(config, t, p + "attn.", fields)(norm(p + "attn_norm", x))
        y = norm(p + "mlp_norm", x)
        gate, up, down = (t[p + f"mlp.{name}_proj.weight"] for name in ("gate", "up", "down"))
        x = x + (silu(y @ gate.T) * (y @ up.T)) @ down.T
    return norm("model.norm", x) @ t.get("lm_head.weight", t["model.embeddings.weight"]).T
