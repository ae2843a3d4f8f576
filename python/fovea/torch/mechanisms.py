"""mechanisms.py: Fovea's attentions on tensors, with the scales and epsilons that its ViTs have.

q, k and v are [batch, tokens, heads, dim], and so is the output. Below phi is a feature map, mean_j
the mean over the tokens, s = 1 / sqrt(dim); operations.h has the equations, src/mech the maps. Everything
except products of softmax attention is computed in float32, whatever the types of q, k and v and
autocast, and given back in the type of v.
"""
import torch
from torch import nn
from torch.nn import functional as F

from . import foveated, names

EPS = 1e-6
ALPHA = 4.0  # of pola: powers are 1 + ALPHA sigmoid(power)
VECTORS = {"pola": 2, "focused": 1}  # rows of learned vectors: channel scale, power
EXP_MOST = 88.0  # mala:exp saturates where e^x leaves float32

TINY = torch.finfo(torch.float32).tiny


def wide(x):
    """Converts to float32; float64 stays."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


# ---- feature maps: [batch, tokens, heads, dim] -> [batch, tokens, heads, features] ----


def elu1(x):
    return torch.exp(x.clamp(max=0)) + F.relu(x)


CHANNEL_MAPS = {"elu1": elu1, "relu": F.relu, "softplus": F.softplus,
                "softmax": lambda x: x.softmax(-1), "exp": lambda x: x.clamp(max=EXP_MOST).exp()}


def _polarised(x, size):
    """`size` in the half that belongs to the sign of x, 0 in the other half."""
    zero = torch.zeros_like(size)
    return torch.cat([torch.where(x > 0, size, zero), torch.where(x < 0, size, zero)], -1)


def _query_norm(q):
    """1/|q|, which is 0 for a row of zeros, and the power 3 (1/2 + tanh |q|)."""
    n = torch.linalg.vector_norm(q, dim=-1, keepdim=True)
    inverse = torch.where(n < TINY, 0.0, 1 / n.clamp(min=TINY))
    return inverse, 1.5 + 3 * torch.tanh(n)


def _nala(q, k):
    inverse, power = _query_norm(q)
    return _polarised(q, (q * inverse).abs().pow(power)), _polarised(k, k.abs().pow(3))


def _angled(direction, size):
    angle = torch.pi / 4 * torch.tanh(direction)
    return torch.cat([size * angle.cos(), size * angle.sin()], -1)


def _nala_paper(q, k):
    inverse, power = _query_norm(q)
    towards = q * inverse
    return (_angled(towards, towards.abs().pow(power)),
            _angled(k * _query_norm(k)[0], k.abs().pow(3)))


def _hedgehog(x):
    return torch.cat([x, -x], -1).softmax(-1)


def _mapped(x, w):
    """Multiplies each head by its own matrix, w [heads, dim, dim]; None: unchanged."""
    return x if w is None else torch.einsum("bnhd,hed->bnhe", wide(x), wide(w))


def _focused(x, scale):
    """Norms run over the channels of all heads. The largest channel is taken out first, because
    sixth powers overflow early; it does not change the result."""
    y = (F.relu(x) + 1e-6) * scale
    part = y / y.detach().amax((-2, -1), keepdim=True)
    square = part * part
    turn = (square.sum((-2, -1), keepdim=True) / square.pow(3).sum((-2, -1), keepdim=True)).sqrt()
    return y * turn * square


# ---- linear attention ----


def _sums(fk, v):
    """mean_j phi(k_j)^T v_j: [batch, heads, features, dim]."""
    return torch.einsum("bnhf,bnhd->bhfd", fk, v) / fk.shape[1]


def _linear(fq, fk, v, eps):
    z = torch.einsum("bnhf,bhf->bnh", fq, fk.mean(1)).unsqueeze(-1)
    return torch.einsum("bnhf,bhfd->bnhd", fq, _sums(fk, v)) / (z + eps)


def _linear_exp(q, k, v, gate_k, eps):
    """phi(x) = e^x. Two shifts cancel in the result: one of a key's channels, added to the query's, and one of
    the row, with which eps is scaled. The gradient treats both as constants."""
    shift = k.detach().amax(1, keepdim=True)
    q = q + shift
    top = q.detach().amax(-1, keepdim=True)
    return _linear((q - top).exp(), _gated((k - shift).exp(), gate_k), v, eps * torch.exp(-top))


def _mala(fq, fk, v, scale, eps):
    """(1 + 1/(z + eps)) s sum_j phi(q).phi(k_j) v_j / n - z mean_j v_j, with centred values: the two terms that
    are nearly equal are subtracted before the mean value is added."""
    z = scale * torch.einsum("bnhf,bhf->bnh", fq, fk.mean(1)).unsqueeze(-1)
    mean = v.mean(1, keepdim=True)
    out = scale * torch.einsum("bnhf,bhfd->bnhd", fq, _sums(fk, v - mean))
    return (1 + 1 / (z + eps)) * out + z / (z + eps) * mean


def _pola(fq, fk, v, eps):
    """The second half of a head's values uses the query's blocks in exchanged order."""
    same, other = v.chunk(2, -1)
    crossed = fq.roll(fq.shape[-1] // 2, -1)
    return torch.cat([_linear(fq, fk, same, eps), _linear(crossed, fk, other, eps)], -1)


def _gated(x, gate):
    return x if gate is None else x * gate.unsqueeze(-1)


def _learned(vectors, rows, like):
    """Learned vectors, one per row, [heads, dim] each; None: zeros."""
    heads, dim = like.shape[-2:]
    if vectors is None:
        return like.new_zeros(rows, heads, dim)
    return wide(vectors).view(rows, heads, dim)


def _by_features(q, k, v, name, vectors, gate_k):
    if name.kind == "linear" and name.map == "exp":
        return _linear_exp(q, k, v, gate_k, EPS)
    if name.kind in ("linear", "mala", "mala-paper"):
        phi = CHANNEL_MAPS[name.map]
        fq, fk = phi(q), _gated(phi(k), gate_k)
        if name.kind == "linear":
            return _linear(fq, fk, v, EPS)
        paper = name.kind == "mala-paper"
        return _mala(fq, fk, v, q.shape[1] if paper else q.shape[-1] ** -0.5, TINY if paper else EPS)
    if name.kind == "pola":
        scale, power = _learned(vectors, 2, q)
        scale, power = 1 / F.softplus(scale), 1 + ALPHA * torch.sigmoid(power)
        fq, fk = (_polarised(x, (x * scale).abs().pow(power)) for x in (q, k))
        return _pola(fq, _gated(fk, gate_k), v, EPS)
    if name.kind == "focused":
        scale = 1 / F.softplus(_learned(vectors, 1, q)[0])
        fq, fk = _focused(q, scale), _focused(k, scale)
    elif name.kind == "hedgehog":
        fq, fk = _hedgehog(q), _hedgehog(k)
    else:
        fq, fk = (_nala if name.kind == "nala" else _nala_paper)(q, k)
    return _linear(fq, _gated(fk, gate_k), v, EPS)


def softmax(q, k, v):
    """softmax_j(s q_i.k_j) v_j; there may be fewer queries than keys."""
    out = F.scaled_dot_product_attention(*(x.transpose(1, 2) for x in (q, k, v)))
    return out.transpose(1, 2)


def attention(q, k, v, attention="linear:elu1", *, vectors=None, gate_q=None, gate_k=None, grid=None):
    """Attention by name. q, k, v, result: [batch, tokens, heads, dim].

    `vectors`  of pola [2, heads * dim], of focused [1, heads * dim], as learned; None: zeros
    `gate_q`, `gate_k`  of sla-NAME: [batch, tokens, heads]
    `grid`     of foveated: (rows, columns) of the tokens that are patches, which come last
    """
    name = names.parse(attention)
    if name.kind == "softmax":
        return softmax(q, k, v)
    if name.kind == "foveated":
        return foveated.attention(q, k, v, grid, name.margin)
    with torch.autocast(q.device.type, enabled=False):
        out = _by_features(wide(q), wide(k), wide(v), name, vectors, gate_k if name.gated else None)
        return _gated(out, gate_q if name.gated else None).to(v.dtype)


class Attention(nn.Module):
    """An attention by name, with what it learns in addition to the projections to q, k and v:

        vectors        of pola [2, heads * dim], of focused [1, heads * dim]: from zeros
        gate_q, gate_k of sla-NAME: [heads * dim, heads], logits = [q_1 .. q_H] W, gates = softmax
                       over the heads, times their number: from zeros, which change nothing
        map_q, map_k   of hedgehog: [heads, dim, dim], from unit matrices

    forward(q, k, v, grid): tensors [batch, tokens, heads, dim]; grid: (rows, columns) of the patches,
    for foveated alone."""

    def __init__(self, attention, heads, dim):
        super().__init__()
        self.attention = names.plain(attention)
        name = names.parse(attention)
        rows = VECTORS.get(name.kind, 0)
        self.vectors = nn.Parameter(torch.zeros(rows, heads * dim)) if rows else None
        self.gate_q = nn.Parameter(torch.zeros(heads * dim, heads)) if name.gated else None
        self.gate_k = nn.Parameter(torch.zeros(heads * dim, heads)) if name.gated else None
        maps = name.kind == "hedgehog"
        self.map_q = nn.Parameter(torch.eye(dim).repeat(heads, 1, 1)) if maps else None
        self.map_k = nn.Parameter(torch.eye(dim).repeat(heads, 1, 1)) if maps else None

    def extra_repr(self):
        return self.attention

    @staticmethod
    def _gates(x, weight):
        return weight.shape[1] * (wide(x).flatten(2) @ wide(weight)).softmax(-1)

    def forward(self, q, k, v, grid=None):
        gates = {}
        with torch.autocast(q.device.type, enabled=False):
            q, k = _mapped(q, self.map_q), _mapped(k, self.map_k)
            if self.gate_q is not None:
                gates = {"gate_q": self._gates(q, self.gate_q), "gate_k": self._gates(k, self.gate_k)}
        return attention(q, k, v, self.attention, vectors=self.vectors, grid=grid, **gates)
