"""foveated.py: foveated attention: tokens near a query one by one, those further away as means over
cells that grow with the distance, all in one softmax. src/ops/foveated.h has the definition.

The 8 x 8 queries of a block share their keys. So tokens and the means of cells are in one list, each
block has a row of places in it, filled up to the longest with places of weight 0, and one product of
all blocks does the rest. The number of a cell's tokens enters a score as its logarithm.
"""
import collections
import functools

import numpy as np
import torch
from torch.nn import functional as F

BLOCK = 8  # tokens on a side of a block of queries
LAST = 10  # most cells on a side of the last level
LEVELS = 12  # most levels above the tokens
ALIGN = 8  # the number of keys of a block is a multiple of this, as fused kernels want for masks


def levels_of(height, width):
    """Levels of cells above the tokens of a grid; level l has cells of 2^l x 2^l tokens."""
    levels = 1
    while levels < LEVELS and _ceil(max(height, width), 1 << levels) > LAST:
        levels += 1
    return levels


def _ceil(a, b):
    return -(-a // b)


def _side(at, level, levels, margin, end):
    """[low, high) of a region on one axis, in tokens: the block at `at` with its margin, extended to whole
    cells of the next level. For the last level it is the whole axis."""
    if level >= levels:
        return 0, end
    unit = 2 << level
    reach = margin * (unit - 1)
    return (max(at - reach, 0) // unit * unit,
            min(_ceil(at + BLOCK + reach, unit) * unit, end))


def _seen(y, x, height, width, margin):
    """For every level the (rows, columns) of cells that the block at token (y, x) sees, as two arrays."""
    levels = levels_of(height, width)
    hole = None
    for level in range(levels + 1):
        side = 1 << level
        box = [*_side(y, level, levels, margin, height), *_side(x, level, levels, margin, width)]
        y0, y1, x0, x1 = box[0] // side, _ceil(box[1], side), box[2] // side, _ceil(box[3], side)
        rows, columns = np.mgrid[y0:y1, x0:x1]
        ring = np.ones(rows.shape, bool)
        if hole:
            ring[hole[0] // side - y0:_ceil(hole[1], side) - y0,
                 hole[2] // side - x0:_ceil(hole[3], side) - x0] = False
        yield rows[ring], columns[ring]
        hole = box


# queries: indices of the tokens of every block, [blocks, 64]. back: for each token of the grid,
# its index in queries. keys: indices into the list of tokens and cells, [blocks, most]. bias:
# logarithm of the number of tokens of each key, same shape; -inf: the key is padding.
Layout = collections.namedtuple("Layout", "queries back keys bias")


@functools.lru_cache(maxsize=32)
def layout(prefix, height, width, margin, device):
    corners = [(y, x) for y in range(0, height, BLOCK) for x in range(0, width, BLOCK)]
    token = np.arange(height * width).reshape(height, width)
    queries = np.full((len(corners), BLOCK, BLOCK), -1)
    keys, counts = [], []
    for i, (y, x) in enumerate(corners):
        part = token[y:y + BLOCK, x:x + BLOCK]
        queries[i, :part.shape[0], :part.shape[1]] = part
        key, count, first = [np.arange(prefix)], [np.ones(prefix)], prefix
        for level, (rows, columns) in enumerate(_seen(y, x, height, width, margin)):
            side = 1 << level
            across = _ceil(width, side)
            key.append(first + rows * across + columns)
            count.append(np.minimum(side, height - rows * side) *
                         np.minimum(side, width - columns * side))
            first += _ceil(height, side) * across
        keys.append(np.concatenate(key))
        counts.append(np.concatenate(count))
    most = _ceil(max(map(len, keys)), ALIGN) * ALIGN
    place, bias = np.zeros((2, len(corners), most))
    bias[:] = -np.inf
    for i, (key, count) in enumerate(zip(keys, counts)):
        place[i, :len(key)], bias[i, :len(key)] = key, np.log(count)
    flat = queries.ravel()
    back = np.empty(height * width, np.int64)
    back[flat[flat >= 0]] = np.flatnonzero(flat >= 0)
    return Layout(torch.from_numpy(prefix + queries.reshape(len(corners), -1).clip(0)).to(device),
                  torch.from_numpy(back).to(device), torch.from_numpy(place).long().to(device),
                  torch.from_numpy(bias).float().to(device))


def with_cells(x, height, width):
    """[batch, tokens, channels], with the grid's tokens last, becomes the tokens followed by the means of the
    cells of all levels, row by row: [batch, tokens + cells, channels]."""
    batch, tokens, channels = x.shape
    parts = [x]
    sums = x[:, tokens - height * width:].view(batch, height, width, channels)
    sums = sums.to(torch.promote_types(x.dtype, torch.float32))
    count = sums.new_ones(1, height, width, 1)
    for _ in range(levels_of(height, width)):
        sums, count = _quarter(sums), _quarter(count)
        parts.append((sums / count).flatten(1, 2).to(x.dtype))
    return torch.cat(parts, 1)


def _quarter(x):
    """Sums over cells of 2 x 2; cells at the far edges may be incomplete."""
    x = F.pad(x, (0, 0, 0, x.shape[2] % 2, 0, x.shape[1] % 2))
    rows = x[:, ::2] + x[:, 1::2]
    return rows[:, :, ::2] + rows[:, :, 1::2]


def attention(q, k, v, grid, margin):
    """q, k, v, result: [batch, tokens, heads, dim]; grid: (rows, columns) of the patches, which come
    last; margin in tokens. Prefix tokens see all tokens, and all tokens see them."""
    if grid is None:
        raise ValueError("foveated attention needs the grid of tokens, as (rows, columns)")
    height, width = grid
    batch, tokens, heads, dim = v.shape
    prefix = tokens - height * width
    if prefix < 0:
        raise ValueError("a grid of %d x %d tokens is too large; it may have at most %d tokens"
                         % (height, width, tokens))
    at = layout(prefix, height, width, margin, v.device)
    blocks, most = at.keys.shape

    def gathered(x, places):  # -> [batch * blocks, heads, keys of a block, dim]
        rows = x.index_select(1, places.flatten())
        return rows.view(batch * blocks, -1, heads, x.shape[-1] // heads).transpose(1, 2)

    listed = [with_cells(x.flatten(2), height, width) for x in (k, v)]
    bias = at.bias.to(q.dtype).view(1, blocks, 1, 1, most)
    bias = bias.expand(batch, blocks, 1, BLOCK * BLOCK, most).flatten(0, 1)
    out = F.scaled_dot_product_attention(gathered(q.flatten(2), at.queries),
                                         *(gathered(x, at.keys) for x in listed), attn_mask=bias)
    out = out.transpose(1, 2).reshape(batch, -1, heads, dim).index_select(1, at.back)
    if prefix:
        whole = F.scaled_dot_product_attention(*(x.transpose(1, 2) for x in (q[:, :prefix], k, v)))
        out = torch.cat([whole.transpose(1, 2), out], 1)
    return out
