/* softmax_cpu.cl: softmax attention, as softmax_cpu_tiles.cl has it: SOFTMAX and, with FV_WINDOW,
 * WSOFTMAX.
 *
 * FV_REGIONS, FV_REL_POS   as softmax.cl has them
 */
#include "gpu/kernels/softmax_common.cl"

/* Keys in rows that follow one another. */
typedef struct tile {
    uint row, n;
} tile;

#define TILE_ROW(X, j) (FV_AT(X, t->row) + (size_t)(j)*at##X.y)
#include "gpu/kernels/softmax_cpu_tiles.cl"

DEFINE_MULTIPLY_KEYS(multiply_keys, 1)
DEFINE_ADD_VALUES(add_values, 2)

/* S of K Qt of the n keys from j0 on: relative positions, a window's bias and regions; -INFINITY
 * where the query does not attend to the key. */
static inline void add_bias(OPERANDS, float *scores, span s, uint j0, uint n)
{
#if FV_REL_POS
    for (uint r = 0; s.begin + r <= s.last; r++)
        for (uint j = 0; j < n; j++)
            scores[j * LANES + r] += LOG2_E * RELATIVE(s, r, j0 + j);
#endif
#if FV_WINDOW
    for (uint r = 0; s.begin + r <= s.last; r++) {
        for (uint j = 0; j < n; j++) {
#if FV_HAS3 && !FV_REL_POS
            scores[j * LANES + r] +=
                LOG2_E * FV_GET(3, FV_AT(3, get_group_id(1) * dim.s3 + s.begin + r) + j0 + j);
#endif
#if FV_REGIONS
            global const uint *region = table + row0 + s.base;
            if (region[s.begin + r] != region[j0 + j])
                scores[j * LANES + r] -= 100.f * LOG2_E;
#endif
        }
    }
#else
    for (uint j = 0; FV_FLAGS & FV_FLAG_CAUSAL && j < n; j++)
        for (uint r = 0; r < LANES && row0 + s.begin + r < j0 + j; r++)
            scores[j * LANES + r] = -INFINITY;
#endif
}

FV_KERNEL void ATTENTION(OPERANDS)
{
    const span s = SPAN(LANES);
    float qt[FV_D * LANES];
    float16 ot[2 * FV_DV], scores[2 * KEYS], top[2] = {-INFINITY, -INFINITY}, sum[2] = {0.f, 0.f};
    turn_queries(OPERANDS_GIVEN, qt, s);
    for (uint i = 0; i < 2 * FV_DV; i++)
        ot[i] = 0.f;

    for (uint j0 = 0; j0 < s.end; j0 += KEYS) {
        const tile t = {s.base + j0, min(s.end - j0, (uint)KEYS)};
        float16 fade[2];
        multiply_keys(OPERANDS_GIVEN, scores, qt, &t);
        add_bias(OPERANDS_GIVEN, (float *)scores, s, j0, t.n);
        for (uint v = 0; v < 2; v++)
            weigh(scores + v, top + v, sum + v, fade + v, t.n);
        add_values(OPERANDS_GIVEN, ot, scores, fade, &t);
    }
    write_queries(OPERANDS_GIVEN, ot, sum, s);
}
