/* foveated.cl: FOVEATED attention, as softmax_tiles.cl has it: a work-group has queries of one
 * block, a part of its 8 x 8, or of the prefix, and walks over tokens, then over cells. */
#include "gpu/kernels/foveated_common.cl"

/* What a block sees of a level: so many keys, cells of a ring. */
typedef struct seen {
    fv_fovea_ring ring;
    uint keys, first, columns; /* row of the level's first cell; cells of its rows */
} seen;

static inline seen seen_of(const fv_fovea *fovea, uint level, uint y, uint x)
{
    seen l;
    l.ring = fv_fovea_ring_of(fovea, level, y, x);
    l.keys = fv_fovea_size(l.ring.area) - fv_fovea_size(l.ring.hole);
    l.first = level > 0 ? fv_fovea_first(fovea, level) : fovea->prefix;
    l.columns = fv_fovea_columns(fovea, level);
    return l;
}

/* Cell n of a ring, row by row: (y, x). */
static inline uint2 cell_of(fv_fovea_ring r, uint n)
{
    const uint wide = r.area.x1 - r.area.x0, left = r.hole.x0 - r.area.x0;
    const uint narrow = wide - (r.hole.x1 - r.hole.x0);
    const uint above = (r.hole.y0 - r.area.y0) * wide, beside = (r.hole.y1 - r.hole.y0) * narrow;
    if (n < above)
        return (uint2)(r.area.y0 + n / wide, r.area.x0 + n % wide);
    n -= above;
    if (n >= beside)
        return (uint2)(r.hole.y1 + (n - beside) / wide, r.area.x0 + (n - beside) % wide);
    const uint x = n % narrow;
    return (uint2)(r.hole.y0 + n / narrow, x < left ? r.area.x0 + x : r.hole.x1 + x - left);
}

/* A key: its row among tokens or cells, and log2 of its tokens. */
typedef struct key {
    uint row;
    float bias;
} key;

/* Key n of those that a block sees of a level. */
static inline key key_of(const fv_fovea *fovea, seen l, uint level, uint n)
{
    const uint2 at = cell_of(l.ring, n);
    const key k = {l.first + at.x * l.columns + at.y, fv_fovea_bias(fovea, level, at.x, at.y)};
    return k;
}

/* Keys [first, first + n) of the tokens, prefix included, or of the cells of all levels. */
typedef struct tile {
    uint first, n;
    uint slot; /* of the two in local memory */
    bool cells;
} tile;

#define KEY_QUAD(j, c)                                                                             \
    (t.cells ? QUAD(3, m->row[t.slot][j], c, FV_D) : QUAD(1, m->row[t.slot][j], c, FV_D))
#define VALUE_QUAD(j, c)                                                                           \
    (t.cells ? QUAD(4, m->row[t.slot][j], c, FV_DV) : QUAD(2, m->row[t.slot][j], c, FV_DV))
#define KEY_MEMORY                                                                                 \
    seen level[FV_FOVEA_LEVELS + 1];                                                               \
    uint row[2][KEYS]; /* of two tiles, one after the other */                                     \
    float bias[2][KEYS];
#include "gpu/kernels/softmax_tiles.cl"

static inline float4 score_of(OPERANDS, float4 product, SHARED const group_memory *m, span s,
                              tile t, uint j)
{
    return j < t.n ? product * (f.s0 * LOG2_E) + m->bias[t.slot][j] : (float4)(-INFINITY);
}

/* Rows and biases of the tile's keys, the last one again behind them. */
static inline void list_keys(SHARED group_memory *m, const fv_fovea *fovea, tile t)
{
    for (uint j = get_local_id(0); j < KEYS; j += FV_GROUP) {
        uint n = t.first + min(j, t.n - 1), level = t.cells ? 1 : 0;
        key k = {n, 0.f};
        if (t.cells || n >= fovea->prefix) {
            n -= t.cells ? 0 : fovea->prefix;
            for (; n >= m->level[level].keys; level++)
                n -= m->level[level].keys;
            k = key_of(fovea, m->level[level], level, n);
        }
        m->row[t.slot][j] = k.row;
        m->bias[t.slot][j] = k.bias;
    }
}

kernel void foveated(OPERANDS)
{
    SHARED_ROOM group_memory memory;
    SHARED group_memory *m = &memory;
    fv_fovea fovea = fovea_of(dim);
    const span s = span_of(&fovea, BLOCK, row0, rows);
    if (s.whole)
        fovea.levels = 0;
    const uint keys = has_queries(s, BLOCK) ? fv_fovea_keys(&fovea, s.y, s.x) : 0;
    const uint tokens =
        min(keys, fovea.prefix + fv_fovea_size(fv_fovea_region(&fovea, 0, s.y, s.x)));
    float4 top = -INFINITY, sum = 0.f, o[4][QUADS];
    for (uint i = 0; i < QUADS; i++)
        o[0][i] = o[1][i] = o[2][i] = o[3][i] = 0.f;
    for (uint l = get_local_id(0); l <= fovea.levels; l += FV_GROUP)
        m->level[l] = seen_of(&fovea, l, s.y, s.x);
    FV_BARRIER();

    tile t = {0, 0, 0, false};
    for (uint at = 0; at < keys; at += t.n) {
        t.cells = at >= tokens;
        t.first = t.cells ? at - tokens : at;
        t.n = min((t.cells ? keys : tokens) - at, (uint)KEYS);
        t.slot ^= 1;
        list_keys(m, &fovea, t);
        FV_BARRIER();
        attend(OPERANDS_GIVEN, o, &top, &sum, m, s, t);
    }
    write_rows(OPERANDS_GIVEN, o, m, sum, s);
}
