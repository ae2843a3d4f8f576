/* softmax.cl: softmax attention with the tiles of softmax_tiles.cl: SOFTMAX over all keys and, with
 * FV_WINDOW, WSOFTMAX inside windows of rows.
 *
 * FV_REGIONS   WSOFTMAX: 1 with a table of regions
 * FV_REL_POS   1 with relative positions
 */
#include "gpu/kernels/softmax_common.cl"

/* Keys from `first` on; `first` is in row `row` of the keys' grid. */
typedef struct tile {
    uint first, row, n;
} tile;

#define KEY_QUAD(j, c) QUAD(1, t.row + min((j), t.n - 1), c, FV_D)
#define VALUE_QUAD(j, c) QUAD(2, t.row + (j), c, FV_DV)
#define KEY_MEMORY
#include "gpu/kernels/softmax_tiles.cl"

/* The score of a product, with a window's bias and regions. */
static inline float4 score_of(OPERANDS, float4 product, SHARED const group_memory *m, span s,
                              tile t, uint in_tile)
{
    const uint j = t.first + in_tile;
    const uint mine = s.begin + 4 * (get_local_id(0) / ACROSS); /* this row's first query */
    float4 score = product * (f.s0 * LOG2_E);
#if FV_REL_POS
    const uint query = mine - s.begin, key = min(j, dim.s3 - 1);
    score += LOG2_E * (float4)(RELATIVE(s, query, key), RELATIVE(s, query + 1, key),
                               RELATIVE(s, query + 2, key), RELATIVE(s, query + 3, key));
#endif
#if FV_WINDOW
    const uint keys = dim.s3, k = min(j, keys - 1);
    const uint4 at = min(mine + (uint4)(0, 1, 2, 3), (uint4)(keys - 1));
#if FV_HAS3 && !FV_REL_POS
    const uint row = get_group_id(1) * keys;
    score += LOG2_E *
             (float4)(FV_GET(3, FV_AT(3, row + at.s0) + k), FV_GET(3, FV_AT(3, row + at.s1) + k),
                      FV_GET(3, FV_AT(3, row + at.s2) + k), FV_GET(3, FV_AT(3, row + at.s3) + k));
#endif
#if FV_REGIONS
    global const uint *region = table + row0 + s.base;
    const uint4 own = (uint4)(region[at.s0], region[at.s1], region[at.s2], region[at.s3]);
    score -= select((float4)0.f, (float4)(100.f * LOG2_E), own != region[k]);
#endif
#endif
    if (j >= s.end)
        score = -INFINITY;
    if (FV_FLAGS & FV_FLAG_CAUSAL)
        score = select(score, (float4)-INFINITY, j > row0 + mine + (uint4)(0, 1, 2, 3));
    return score;
}

FV_KERNEL void ATTENTION(OPERANDS)
{
    SHARED_VAR group_memory memory;
    SHARED group_memory *m = &memory;
    const span s = SPAN(BLOCK);
    float4 top = -INFINITY, sum = 0.f, o[4][QUADS];
    FV_TIMES(i, QUADS)
        o[0][i] = o[1][i] = o[2][i] = o[3][i] = 0.f;
    for (uint j = 0; j < s.end; j += KEYS) {
        const tile t = {j, s.base + j, min(s.end - j, (uint)KEYS)};
        attend(OPERANDS_GIVEN, o, &top, &sum, m, s, t);
    }
    write_rows(OPERANDS_GIVEN, o, m, sum, s);
}
