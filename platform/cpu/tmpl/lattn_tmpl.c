/* lattn_tmpl.c: LATTN_REDUCE, LATTN_MERGE, LATTN_APPLY and WLATTN, with the features and the
 * normalisation of one mechanism, src/mech/<FV_MECHANISM>.h.
 *
 * Features are computed for a block of rows that stays in cache. The register tile then multiplies
 * them by the values (lattn_reduce.h) or by the state (lattn_apply.h). Whether a mechanism has
 * blocks, statistics or a shift is a constant at compile time, so an absent one costs nothing.
 *
 * With operands of bfloat16 only the products differ; lattn_bf16.h computes them. Rows that are
 * stored as bfloat16 become floats block by block. */
#include <string.h>

#include "platform/cpu/vec/math.h" /* the functions that the features of mech.h are written with */

#include "mech/mech.h"
#include "ops/ref/ref_wlattn.h"
#include "platform/cpu/feature_maps.h"
#include "platform/cpu/tmpl/lattn_apply.h"
#include "platform/cpu/tmpl/lattn_merge.h"
#include "platform/cpu/tmpl/lattn_reduce.h"

#define KERNEL(op) FV_MECH_NAME(op, FV_ISA)

/* ---- states ---- */

void KERNEL(fv_k_lattn_merge_f32)(const fv_args *a, const fv_call *c)
{
    const layout l = lay_out(&a->prob, 0, NULL);
    for (size_t h = c->col0; h < (size_t)c->col0 + c->cols; h++) {
        const float *partial = (const float *)c->p[FV_MERGE_PARTIAL] + h * l.state.floats;
        float *state = (float *)c->p[FV_MERGE_STATE] + h * l.state.floats;
        memcpy(state, partial, l.state.floats * sizeof *state);
        for (size_t g = 1; g < a->prob.dim[FV_ATTN_GROUPS]; g++)
            merge_state(state, partial + g * l.heads * l.state.floats, &l);
    }
}

/* ---- windows ---- */

/* Visits the windows. Each window processes one head after the other, so that a head's state stays
 * in L1. */
static void attend_windows(const fv_args *a, const fv_call *c, const fv_lattn_bf16 *by)
{
    const size_t window = a->prob.dim[FV_ATTN_KEYS];
    const layout l = lay_out(&a->prob, window, by);
    const fv_wlattn_args args = fv_wlattn_split(a);
    const fv_v alpha = fv_set(a->f[2]);
    const rotation none = {0};
    float *scratch = c->scratch, *state = scratch + l.floats;
    finish_params(scratch + l.param, c->p[FV_WINDOW_PARAM], l.heads, l.d, l.dp, alpha);
    for (size_t row = 0; row < c->rows; row += window) {
        const fv_call to_state = fv_wlattn_reduce(a, c, row, state, scratch);
        const fv_call from_state = fv_wlattn_apply(a, c, row, state, scratch);
        const stored k = stored_as(&args.reduce, &to_state, FV_REDUCE_K);
        const stored q = stored_as(&args.apply, &from_state, FV_APPLY_Q);
        statistics_of_all_heads(scratch, &l, 0, &k, window, a->f[2]);
        statistics_of_all_heads(scratch, &l, 1, &q, window, a->f[2]);
        for (size_t h = c->col0; h < (size_t)c->col0 + c->cols; h++) {
            reduce_head(state, &args.reduce, &to_state, &l, &none, h);
            apply_head(state, &args.apply, &from_state, &l, &none, h);
        }
    }
}

/* ---- features alone ---- */

#if FV_PARAMS == 0 && !FV_STAT_WIDE
FV_FN void features_of(float *out, size_t ldo, const float *x, size_t ldx, size_t rows, size_t d,
                       int query)
{
    float stat[FV_STATS + AT_LEAST_1][BLOCK];
    source s = {.x = x, .ld = ldx, .stat = stat[0], .statld = BLOCK};
    for (size_t r0 = 0; r0 < rows; r0 += BLOCK, s.x += BLOCK * ldx) {
        const size_t block = rows - r0 < BLOCK ? rows - r0 : BLOCK;
        if (!SHIFT)
            row_statistics(stat[0], &s, query, block, 1, d);
        for (size_t r = 0; r < block; r++) {
            for (size_t i = 0; i < d; i += FV_W) {
                const int n = fv_lanes(d - i);
                fv_v f[FV_BLOCKS];
                map(f, &s, query, s.x + r * ldx, r, i, n);
                FV_UNROLL
                for (int b = 0; b < FV_BLOCKS; b++)
                    fv_store_n(out + (r0 + r) * ldo + b * d + i, f[b], n);
            }
        }
    }
}

void KERNEL(fv_features)(float *out, size_t ldo, const float *x, size_t ldx, size_t rows, size_t d,
                         int query)
{
    if (query)
        features_of(out, ldo, x, ldx, rows, d, 1);
    else
        features_of(out, ldo, x, ldx, rows, d, 0);
}
#endif

/* ---- kernels and their hooks ---- */

static size_t scratch_bytes(const fv_problem *p, const fv_knobs *k, uint32_t rows)
{
    (void)k;
    return lay_out(p, rows, NULL).floats * sizeof(float);
}

static size_t scratch_window(const fv_problem *p, const fv_knobs *k, uint32_t rows)
{
    const layout l = lay_out(p, p->dim[FV_ATTN_KEYS], NULL);
    (void)k, (void)rows;
    return (l.floats + l.state.floats) * sizeof(float);
}

static bool has_windows(const fv_problem *p)
{
    return !(p->flags & (FV_FLAG_ROPE | FV_FLAG_GATED));
}

static bool applies_bf16(const fv_problem *p)
{
    return p->acc == FV_BF16 && fv_lattn_applies(FV_STREAMS, FV_WANTS, p);
}

static bool applies_window(const fv_problem *p)
{
    return has_windows(p) && applies(p);
}

static bool applies_window_bf16(const fv_problem *p)
{
    return has_windows(p) && applies_bf16(p);
}

#define HOOKS(name, applies_to, scratch_of, speed)                                                 \
    const fv_kernel_hooks name = {                                                                 \
        .applies = applies_to, .rate = (speed)*RATE, .scratch = scratch_of};

#define KERNELS(type, level, applies_to, applies_to_window, by, speed)                             \
    void FV_MECH_NAME(fv_k_lattn_reduce_##type, level)(const fv_args *a, const fv_call *c)         \
    {                                                                                              \
        reduce(a, c, by);                                                                          \
    }                                                                                              \
    void FV_MECH_NAME(fv_k_lattn_apply_##type, level)(const fv_args *a, const fv_call *c)          \
    {                                                                                              \
        apply(a, c, by);                                                                           \
    }                                                                                              \
    void FV_MECH_NAME(fv_k_wlattn_##type, level)(const fv_args *a, const fv_call *c)               \
    {                                                                                              \
        attend_windows(a, c, by);                                                                  \
    }                                                                                              \
    HOOKS(FV_MECH_NAME(fv_h_lattn_##type, level), applies_to, scratch_bytes, speed)                \
    HOOKS(FV_MECH_NAME(fv_h_wlattn_##type, level), applies_to_window, scratch_window, speed)

/* `speed` is the rate of products relative to float32. */
#define KERNELS_BF16(level, speed)                                                                 \
    KERNELS(bf16, level, applies_bf16, applies_window_bf16, &fv_lattn_bf16_##level, speed)

KERNELS(f32, FV_ISA, applies, applies_window, NULL, 1)
#if defined FV_ISA_C
KERNELS_BF16(c, 1)
#elif defined FV_ISA_AVX2
KERNELS_BF16(avx2, 1)
#elif defined FV_ISA_AVX512
KERNELS_BF16(avx512, 1)
#elif defined FV_ISA_NEON
KERNELS_BF16(neon, 1)
#elif defined FV_ISA_RVV
KERNELS_BF16(rvv, 1)
#endif
#if defined FV_ISA_AVX512 && defined FV_LEVEL_AVX512_BF16
KERNELS_BF16(avx512_bf16, 2)
#elif defined FV_ISA_NEON && defined FV_LEVEL_NEON_DOT
KERNELS_BF16(neon_dot, 2)
#endif
