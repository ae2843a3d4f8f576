/* softmax.cu: softmax attention on tensor cores with the tiles of softmax_tiles.cuh: SOFTMAX over
 * all keys and, with FV_WINDOW, WSOFTMAX inside windows of rows.
 *
 * Macros defined by the host: FV_REGIONS 1 with a table of regions, FV_REL_POS 1 with relative
 * positions.
 */
#include "cuda/fragments.cuh"
#include "gpu/kernels/softmax_common.cl"

#include "cuda/softmax_tiles.cuh"

#define CAUSAL ((FV_FLAGS & FV_FLAG_CAUSAL) != 0)
#define ADDS (FV_WINDOW || FV_REL_POS) /* to scores */

/* The query, and the key, of a score. */
#define QUERY(m, i) (s.begin + mine + 16 * (m) + (i) / 2 * 8)
#define KEY(n, i) (j0 + 8 * (n) + lane % 4 * 2 + (i) % 2)

/* Starts to copy the keys and values from key j0 on to their stage. */
inline void fv_stage_tile(OPERANDS, fv_words *to, span s, uint j0)
{
    const uint head = get_group_id(1), left = s.end - j0;
    const auto order = [](uint row) { return row; };
    fv_stage<FV_D, WORDS, false, FV_WIDE1>(to, FV_AT(1, s.base + j0) + head * FV_D, at1.y, left,
                                           order);
    fv_stage<FV_DV, V_PITCH, true, FV_WIDE2>(
        to + KEYS * DB * WORDS, FV_AT(2, s.base + j0) + head * FV_DV, at2.y, left, order);
    fv_cp_commit();
}

/* Computes S from Q K^T for the keys from j0 on: adds relative positions, a window's bias and
 * regions; -INFINITY if the query does not attend to the key. */
inline void fv_add_bias(OPERANDS, fv_scores score[MS], span s, uint mine, uint j0, uint lane)
{
#if ADDS
    const uint keys = dim.s3;
    EACH_SCORE(m, n, i) {
        score[m][n][i] *= f.s0 * LOG2_E;
        const uint j = min(KEY(n, i), keys - 1);
#if FV_REL_POS
        score[m][n][i] += LOG2_E * RELATIVE(s, QUERY(m, i) - s.begin, j);
#endif
#if FV_WINDOW
        const uint at = min(QUERY(m, i), keys - 1);
        if (FV_HAS3 && !FV_REL_POS)
            score[m][n][i] += LOG2_E * fv_read(FV_AT(3, get_group_id(1) * keys + at) + j);
        if (FV_REGIONS && table[row0 + s.base + at] != table[row0 + s.base + j])
            score[m][n][i] -= 100.f * LOG2_E;
#endif
    }
#endif
    if (j0 + KEYS > s.end || (CAUSAL && j0 + KEYS > row0 + s.begin))
        EACH_SCORE(m, n, i) {
            if (KEY(n, i) >= s.end || (CAUSAL && KEY(n, i) > row0 + QUERY(m, i)))
                score[m][n][i] = -INFINITY;
        }
}

kernel void __launch_bounds__(FV_GROUP, LEAST) ATTENTION(OPERANDS)
{
    FV_SHARED fv_words stage[2][KEYS * (DB * WORDS + VB * V_PITCH)];
    const span rows_of = SPAN(FV_QUERIES);
    const uint lane = get_local_id(0) % 32;
    const uint mine = get_local_id(0) / 32 * 16 * MS + lane / 4;
    /* Scores are multiplied by the scale when they become powers. The queries have the scale's
     * sign, so that the largest product has the largest score. If something is added to the scores,
     * they are multiplied before that. */
    const float scale = f.s0 * LOG2_E, by = ADDS ? 1.f : fmax(fabs(scale), FLT_MIN);
    fv_queries q[MS];
    fv_read_queries(OPERANDS_GIVEN, q, rows_of, mine, !ADDS && scale < 0.f);

    fv_online of = {};
    fv_sums o[MS][VB] = {};
    EACH(r, 2 * MS)
        of.peak[r] = -FLT_MAX;
    fv_stage_tile(OPERANDS_GIVEN, stage[0], rows_of, 0);
    for (uint j0 = 0; j0 < rows_of.end; j0 += KEYS) {
        fv_cp_wait<0>();
        FV_BARRIER();
        if (j0 + KEYS < rows_of.end)
            fv_stage_tile(OPERANDS_GIVEN, stage[(j0 + KEYS) / KEYS % 2], rows_of, j0 + KEYS);
        const fv_words *keys = stage[j0 / KEYS % 2];
        fv_scores score[MS] = {};
        fv_weights p[MS];
        fv_score(score, q, keys, lane);
        fv_add_bias(OPERANDS_GIVEN, score, rows_of, mine, j0, lane);
        fv_weigh(of, score, by);
        EACH(m, MS)
            fv_set_weights(p[m], score[m]);
        fv_add_values(o, p, of.fade, keys + KEYS * DB * WORDS, lane);
    }
    fv_write_rows(OPERANDS_GIVEN, o, of.sum, rows_of, mine, lane);
}
