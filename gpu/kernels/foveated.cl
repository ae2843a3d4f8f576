/* foveated.cl: FOVEATED attention with the tiles of softmax_tiles.cl. A work-group has some queries
 * of one 8 x 8 block, or of the prefix. It goes through the tokens that they see, then through the
 * cells. */
#include "gpu/kernels/foveated_common.cl"
#include "gpu/kernels/foveated_keys.cl"

#define KEY_QUAD(j, c) (t.cells ? QUAD(3, m->row[j], c, FV_D) : QUAD(1, m->row[j], c, FV_D))
#define VALUE_QUAD(j, c) (t.cells ? QUAD(4, m->row[j], c, FV_DV) : QUAD(2, m->row[j], c, FV_DV))
#define KEY_MEMORY                                                                                 \
    seen levels[FV_FOVEA_LEVELS + 1];                                                              \
    uint row[KEYS];                                                                                \
    float bias[KEYS];
#include "gpu/kernels/softmax_tiles.cl"

static inline float4 score_of(OPERANDS, float4 product, SHARED const group_memory *m, span s,
                              tile t, uint j)
{
    return j < t.n ? product * (f.s0 * LOG2_E) + m->bias[j] : (float4)(-INFINITY);
}

FV_KERNEL void foveated(OPERANDS)
{
    SHARED_VAR group_memory memory;
    SHARED group_memory *m = &memory;
    fv_fovea fovea = fovea_of(dim);
    const span s = span_of(&fovea, BLOCK, row0, rows);
    if (s.whole)
        fovea.levels = 0;
    const uint2 keys = keys_of(&fovea, s, BLOCK);
    float4 top = -INFINITY, sum = 0.f, o[4][QUADS];
    FV_TIMES(i, QUADS)
        o[0][i] = o[1][i] = o[2][i] = o[3][i] = 0.f;
    list_levels(m->levels, &fovea, s);
    for (uint i = 0; i < tiles_of(KEYS, keys); i++) {
        const tile t = tile_of(i, KEYS, keys);
        FV_BARRIER();
        list_keys(m->row, m->bias, m->levels, &fovea, t, KEYS);
        FV_BARRIER();
        attend(OPERANDS_GIVEN, o, &top, &sum, m, s, t);
    }
    write_rows(OPERANDS_GIVEN, o, m, sum, s);
}
