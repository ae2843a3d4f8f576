/* foveated.cu: FOVEATED attention on tensor cores with the tiles of softmax_tiles.cuh. A work-group
 * has the 64 queries of a block, or of the prefix, and goes through the tokens, then through the
 * cells. The keys of a tile are listed two tiles in advance, since those of the next one are being
 * copied.
 *
 * Macros defined by the host: FV_WIDE3, FV_WIDE4 of cells.
 */
#include "cuda/fragments.cuh"
#include "gpu/kernels/foveated_common.cl"
#include "gpu/kernels/foveated_keys.cl"

#include "cuda/softmax_tiles.cuh"

enum { SLOTS = 3 }; /* lists of keys: of the current tile, and of the next two */

typedef struct fv_lists {
    seen levels[FV_FOVEA_LEVELS + 1];
    uint row[SLOTS][KEYS];
    float bias[SLOTS][KEYS];
} fv_lists;

/* Starts to copy a tile's keys and values, from operands K and V, to their stage. */
#define STAGE(K, V)                                                                                \
    do {                                                                                           \
        fv_stage<FV_D, WORDS, false, FV_WIDE##K>(to, FV_AT(K, 0) + head * FV_D, at##K.y, t.n,      \
                                                 order);                                           \
        fv_stage<FV_DV, V_PITCH, true, FV_WIDE##V>(                                                \
            to + KEYS * DB * WORDS, FV_AT(V, 0) + head * FV_DV, at##V.y, t.n, order);              \
    } while (0)

inline void fv_stage_tile(OPERANDS, fv_words *to, const uint *rows_of, tile t)
{
    const uint head = get_group_id(1);
    const auto order = [=](uint row) { return rows_of[row]; };
    if (t.cells)
        STAGE(3, 4);
    else
        STAGE(1, 2);
    fv_cp_commit();
}

/* Computes S from Q K^T; -INFINITY beyond the tile's keys. */
inline void fv_add_bias(OPERANDS, fv_scores score[MS], const float *bias, uint n_keys, uint lane)
{
    EACH_SCORE(m, n, i) {
        const uint j = 8 * n + lane % 4 * 2 + i % 2;
        score[m][n][i] = j < n_keys ? score[m][n][i] * (f.s0 * LOG2_E) + bias[j] : -INFINITY;
    }
}

kernel void __launch_bounds__(FV_GROUP, LEAST) foveated(OPERANDS)
{
    FV_SHARED fv_words stage[2][KEYS * (DB * WORDS + VB * V_PITCH)];
    FV_SHARED fv_lists lists;
    fv_fovea fovea = fovea_of(dim);
    const span s = span_of(&fovea, FV_QUERIES, row0, rows);
    if (s.whole)
        fovea.levels = 0;
    const uint2 keys = keys_of(&fovea, s, FV_QUERIES);
    const uint tiles = tiles_of(KEYS, keys), lane = get_local_id(0) % 32;
    const uint mine = get_local_id(0) / 32 * 16 * MS + lane / 4;
    const auto list = [&](uint i) {
        list_keys(lists.row[i % SLOTS], lists.bias[i % SLOTS], lists.levels, &fovea,
                  tile_of(i, KEYS, keys), KEYS);
    };
    const auto copy = [&](uint i) {
        fv_stage_tile(OPERANDS_GIVEN, stage[i % 2], lists.row[i % SLOTS], tile_of(i, KEYS, keys));
    };
    fv_queries q[MS];
    fv_read_queries(OPERANDS_GIVEN, q, s, mine, false);
    fv_online of = {};
    fv_sums o[MS][VB] = {};
    EACH(r, 2 * MS)
        of.peak[r] = -FLT_MAX;
    list_levels(lists.levels, &fovea, s);
    FV_BARRIER();
    for (uint i = 0; i < min(tiles, 2u); i++)
        list(i);
    FV_BARRIER();
    if (tiles > 0)
        copy(0);
    for (uint i = 0; i < tiles; i++) {
        fv_cp_wait<0>();
        FV_BARRIER();
        if (i + 1 < tiles)
            copy(i + 1);
        if (i + 2 < tiles)
            list(i + 2);
        const fv_words *tile_keys = stage[i % 2];
        fv_scores score[MS] = {};
        fv_weights p[MS];
        fv_score(score, q, tile_keys, lane);
        fv_add_bias(OPERANDS_GIVEN, score, lists.bias[i % SLOTS], tile_of(i, KEYS, keys).n, lane);
        fv_weigh(of, score, 1.f);
        EACH(m, MS)
            fv_set_weights(p[m], score[m]);
        fv_add_values(o, p, of.fade, tile_keys + KEYS * DB * WORDS, lane);
    }
    fv_write_rows(OPERANDS_GIVEN, o, of.sum, s, mine, lane);
}
