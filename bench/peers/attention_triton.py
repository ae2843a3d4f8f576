"""attention_triton.py: linear attention, and those of MALA, PolaFormer and NaLa, as Triton kernels for comparison.
One kernel sums the states of parts of the rows, another applies them. The number of channels of a head must be a power
of two.

_features computes the features of a row: one block, or two (positive and negative parts).
"""
import torch
import triton
import triton.language as tl

KINDS = {"linear:elu1": 0, "mala": 1, "pola": 2, "nala": 3}
MOST_PARTS, PART_ROWS, BLOCK = 64, 512, 64
EPS = tl.constexpr(1e-6)


@triton.jit
def _power(x, p):
    return tl.where(x > 0, tl.exp2(p * tl.log2(x)), 0.0)


@triton.jit
def _features(x, QUERY: tl.constexpr, KIND: tl.constexpr):
    """Both blocks of features; if there is only one, the second is the same and is not used."""
    if KIND < 2:
        first = tl.where(x > 0, x + 1, tl.exp(x))
        second = first
    else:
        size = tl.abs(x)
        if KIND == 3 and QUERY:
            norm = tl.sqrt(tl.sum(x * x, 1))[:, None]
            size = _power(size / norm, 3 * (2 * tl.sigmoid(2 * norm) - 0.5))
        else:
            size = size * size * size
        first = tl.where(x > 0, size, 0.0)
        second = tl.where(x < 0, size, 0.0)
    return first, second


@triton.jit
def _sum(k, v, state, mass, total, n, per, H: tl.constexpr, D: tl.constexpr, KIND: tl.constexpr,
         BLOCK: tl.constexpr):
    part, head = tl.program_id(0), tl.program_id(1)
    d, half = tl.arange(0, D), tl.arange(0, D // 2)
    s00 = tl.zeros([D, D // 2], tl.float32)
    s01 = tl.zeros([D, D // 2], tl.float32)
    s10 = tl.zeros([D, D // 2], tl.float32)
    s11 = tl.zeros([D, D // 2], tl.float32)
    z0 = tl.zeros([D], tl.float32)
    z1 = tl.zeros([D], tl.float32)
    t0 = tl.zeros([D // 2], tl.float32)
    t1 = tl.zeros([D // 2], tl.float32)
    last = tl.minimum((part + 1) * per, n)
    for at in range(part * per, last, BLOCK):
        row = at + tl.arange(0, BLOCK)
        inside = (row < last)[:, None]
        from_row = (row[:, None] * H + head) * D
        x = tl.load(k + from_row + d[None, :], mask=inside, other=0.0).to(tl.float32)
        v0 = tl.load(v + from_row + half[None, :], mask=inside, other=0.0)
        v1 = tl.load(v + from_row + D // 2 + half[None, :], mask=inside, other=0.0)
        first, second = _features(x, False, KIND)
        first = tl.where(inside, first, 0.0)
        f = tl.trans(first.to(v0.dtype))
        s00 += tl.dot(f, v0)
        s01 += tl.dot(f, v1)
        z0 += tl.sum(first, 0)
        if KIND >= 2:
            g = tl.trans(second.to(v0.dtype))
            s10 += tl.dot(g, v0)
            s11 += tl.dot(g, v1)
            z1 += tl.sum(second, 0)
        if KIND == 1:
            t0 += tl.sum(v0.to(tl.float32), 0)
            t1 += tl.sum(v1.to(tl.float32), 0)
    slot = part * H + head
    to = state + slot * 2 * D * D + d[:, None] * D + half[None, :]
    tl.store(to, s00)
    tl.store(to + D // 2, s01)
    tl.store(mass + slot * 2 * D + d, z0)
    if KIND >= 2:
        tl.store(to + D * D, s10)
        tl.store(to + D * D + D // 2, s11)
        tl.store(mass + slot * 2 * D + D + d, z1)
    if KIND == 1:
        tl.store(total + slot * D + half, t0)
        tl.store(total + slot * D + D // 2 + half, t1)


@triton.jit
def _apply(q, state, mass, mean, out, n, H: tl.constexpr, D: tl.constexpr, KIND: tl.constexpr,
           BLOCK: tl.constexpr):
    head = tl.program_id(1)
    d, half = tl.arange(0, D), tl.arange(0, D // 2)
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = (row < n)[:, None]
    from_row = (row[:, None] * H + head) * D
    x = tl.load(q + from_row + d[None, :], mask=inside, other=1.0)
    first, second = _features(x.to(tl.float32), True, KIND)
    f = first.to(x.dtype)
    at = state + head * 2 * D * D + d[:, None] * D + half[None, :]
    s00 = tl.load(at).to(x.dtype)
    s01 = tl.load(at + D // 2).to(x.dtype)
    m0 = tl.load(mass + head * 2 * D + d)[None, :]
    z = tl.sum(first * m0, 1)[:, None]
    if KIND < 2:
        o0 = tl.dot(f, s00)
        o1 = tl.dot(f, s01)
        if KIND == 0:
            o0 = o0 / (z + EPS)
            o1 = o1 / (z + EPS)
        else:
            t0 = tl.load(mean + head * D + half)[None, :]
            t1 = tl.load(mean + head * D + D // 2 + half)[None, :]
            o0 = o0 * (1 + 1 / (z + EPS)) - z * t0
            o1 = o1 * (1 + 1 / (z + EPS)) - z * t1
    else:
        g = second.to(x.dtype)
        s10 = tl.load(at + D * D).to(x.dtype)
        s11 = tl.load(at + D * D + D // 2).to(x.dtype)
        m1 = tl.load(mass + head * 2 * D + D + d)[None, :]
        z += tl.sum(second * m1, 1)[:, None]
        o0 = (tl.dot(f, s00) + tl.dot(g, s10)) / (z + EPS)
        if KIND == 2: # the second half of the values uses the blocks in exchanged order
            crossed = (tl.sum(second * m0, 1) + tl.sum(first * m1, 1))[:, None]
            o1 = (tl.dot(g, s01) + tl.dot(f, s11)) / (crossed + EPS)
        else:
            o1 = (tl.dot(f, s01) + tl.dot(g, s11)) / (z + EPS)
    to = out + from_row + half[None, :]
    tl.store(to, o0.to(x.dtype), mask=inside)
    tl.store(to + D // 2, o1.to(x.dtype), mask=inside)


def function(name):
    """Returns an attention function of q, k and v, each of shape (1, tokens, heads, channels). Returns None if
    KINDS does not list the attention `name`."""
    if name not in KINDS:
        return None

    def attend(q, k, v):
        _, n, heads, dim = q.shape
        parts = max(1, min(MOST_PARTS, n // PART_ROWS))
        of_floats = {"device": q.device, "dtype": torch.float32}
        state = torch.empty(parts, heads, 2, dim, dim, **of_floats)
        mass = torch.empty(parts, heads, 2, dim, **of_floats)
        total = torch.empty(parts, heads, dim, **of_floats)
        out = torch.empty_like(q)
        settings = {"H": heads, "D": dim, "KIND": KINDS[name], "BLOCK": BLOCK, "num_warps": 4}
        _sum[(parts, heads)](k, v, state, mass, total, n, triton.cdiv(n, parts), **settings)
        state, mass, total = (x.sum(0) / n for x in (state, mass, total))
        _apply[(triton.cdiv(n, BLOCK), heads)](q, state, mass, total, out, n, **settings)
        return out

    return attend
