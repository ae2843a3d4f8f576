/* ref_lattn_reduce.c: LATTN_REDUCE: sums key and value rows to the state of linear attention.
 *
 *   dim      rows (= keys of the step), d, dv, keys, groups; heads; mech
 *   K        ROW, heads * d wide          V  ROW, heads * dv wide; each F32 or BF16
 *   PARAM    learned vectors, unmodified: one row of heads * d for each vector of the mechanism
 *   COS, SIN tables and u[0] of ROPE, which rotate pairs (2j, 2j + 1) of all heads, each block
 *            separately. FV_FLAG_ROPE
 *   GATE     ROW, heads wide, which multiplies the features. FV_FLAG_GATED
 *   PARTIAL  the reduction group's own partial: for every head the layout of fv_lattn_layout
 *            (mech_traits.h)
 *   f[0]     1 / keys: the state is a mean, so that its size does not depend on their number
 *   f[1]     the mechanism's constant
 *   col0, cols  heads
 *
 *   m += f0 sum_j phi(k_j);   S += f0 sum_j R phi(k_j)^T v_j       over the call's rows j
 *
 * With FV_WANT_CENTRED, v_j - vmean replaces v_j, where vmean is the mean of all tokens so far
 * (their number is `count`); w is m with R. With FV_WANT_SHIFT, k_j - shift replaces k_j, where
 * shift is the largest k_j of the channel so far; with FV_FLAG_UNNORMALISED the shift is 0.
 *
 * If prob.in is F16, kernels may represent each operand of a product as a sum of two float16
 * numbers, after scaling channels by powers of two. A feature may then lose up to 2^-37 of the
 * largest feature of its channel, in any block.
 *
 * With prob.acc BF16 features and values, centred or not, may be rounded to bfloat16 before they
 * are multiplied; features, m, w, vmean and all sums are float32.
 *
 * With c->first the state is stored without being read; otherwise the call adds to it. In float32,
 * a call sums its rows first, and adds the sum to the state once. m is summed in blocks of rows,
 * because its terms all have one sign, and a long chain of such terms drifts. The order of
 * additions depends only on the rows of a call.
 */
#ifndef FV_MECHANISM
#include "ops/ref/lattn_counts.h"

static double flops(const fv_problem *p)
{
    const fv_lattn_counts n = fv_lattn_count(p);
    return n.heads * n.rows * n.blocks * (2 * n.d * n.dv + 2 * n.d + n.powers);
}

const fv_op fv_op_lattn_reduce = {
    .span = FV_SPAN_REDUCE,
    .cols = FV_COLS_HEAD,
    .dim = {FV_ATTN_SIZES, [FV_ATTN_KEYS] = {"keys", FV_DIM_TOKENS}, [FV_ATTN_GROUPS] = {"groups"}},
    .operand = {FV_LATTN_KEY_OPERANDS, [FV_REDUCE_K].narrow = true, [FV_REDUCE_V].narrow = true,
                [FV_REDUCE_PARTIAL] = {"PARTIAL", .columns = fv_lattn_state_columns,
                                       .state_of = FV_OP_LATTN_REDUCE}},
    .flops = flops,
    .terms = fv_lattn_reduce_terms,
    .multiplies = FV_MULTIPLIES_ROWS,
    .groups = FV_ATTN_GROUPS,
    .merge = FV_OP_LATTN_MERGE,
    .headroom = FV_HEADROOM_STATE,
};

#else
#include <string.h>

#include "ops/ref/ref_kernels.h"
#include "ops/ref/ref_lattn.h"

/* Number of rows of a block in the sum m. */
enum { BLOCK = 64 };

typedef struct layout {
    size_t d, dv, width;
    fv_lattn_state state;
} layout;

static layout lay_out(const fv_problem *p)
{
    layout l = {.d = p->dim[FV_ATTN_D], .dv = p->dim[FV_ATTN_DV]};
    l.width = FV_BLOCKS * l.d;
    l.state = fv_lattn_layout(FV_BLOCKS, FV_WANTS, (uint32_t)l.d, (uint32_t)l.dv);
    return l;
}

/* Does a first pass over the rows, for mechanisms that need it: computes the mean of the values or
 * the maximum of the keys. */
static void find_shift(float *state, const layout *l, const fv_args *a, const fv_call *c,
                       uint32_t head)
{
    const bool shifted = !(a->prob.flags & FV_FLAG_UNNORMALISED);
#if FV_WANTS & FV_WANT_CENTRED
    for (size_t r = 0; r < c->rows; r++) {
        const size_t v = r * a->ld[FV_REDUCE_V] + head * l->dv;
        for (size_t j = 0; j < l->dv; j++)
            state[l->state.vmean + j] +=
                fv_value_get(c->p[FV_REDUCE_V], a->type[FV_REDUCE_V], v + j) / (float)c->rows;
    }
    state[l->state.count] = (float)c->rows;
#endif
#if FV_WANTS & FV_WANT_SHIFT
    for (size_t i = 0; i < l->d && shifted; i++) {
        float top = -FLT_MAX;
        for (size_t r = 0; r < c->rows; r++)
            top = fv_max(top, fv_value_get(c->p[FV_REDUCE_K], a->type[FV_REDUCE_K],
                                           r * a->ld[FV_REDUCE_K] + head * l->d + i));
        state[l->state.shift + i] = top;
    }
#endif
    (void)state, (void)l, (void)a, (void)c, (void)head, (void)shifted;
}

void FV_MECH_NAME(fv_k_lattn_reduce_f32, ref)(const fv_args *a, const fv_call *c)
{
    const layout l = lay_out(&a->prob);
    const bool shifted = FV_WANTS & FV_WANT_SHIFT && !(a->prob.flags & FV_FLAG_UNNORMALISED);
    float *sum = c->scratch, *f = sum + l.state.floats, *m = f + l.width, *x = m + l.width;
    for (uint32_t h = c->col0; h < c->col0 + c->cols; h++) {
        float *state = (float *)c->p[FV_REDUCE_PARTIAL] + h * l.state.floats;
        memset(sum, 0, l.state.floats * sizeof *sum);
        memset(m, 0, l.width * sizeof *m);
        find_shift(sum, &l, a, c, h);
        for (size_t r = 0; r < c->rows; r++) {
            const size_t v = r * a->ld[FV_REDUCE_V] + h * l.dv;
            for (size_t j = 0; j < l.dv; j++)
                x[j] = fv_value_get(c->p[FV_REDUCE_V], a->type[FV_REDUCE_V], v + j) -
                       (FV_WANTS & FV_WANT_CENTRED ? sum[l.state.vmean + j] : 0.f);
            ref_row row = ref_row_at(a, c, r, h, a->f[1], shifted ? sum + l.state.shift : NULL);
            row.gate = ref_gate_at(a, c, r, h);
            ref_features(f, &row, 0);
            const bool block_ends = (r + 1) % BLOCK == 0 || r + 1 == c->rows;
            for (size_t i = 0; i < l.width; i++) {
                m[i] += f[i];
                if (block_ends) {
                    sum[l.state.m + i] += m[i];
                    m[i] = 0;
                }
            }
            ref_rotate(f, &row);
            for (size_t i = 0; i < l.width; i++) {
                for (size_t j = 0; j < l.dv; j++)
                    sum[l.state.s + i * l.dv + j] += f[i] * x[j];
                if (FV_WANTS & FV_WANT_CENTRED)
                    sum[l.state.w + i] += f[i];
            }
        }
        /* S, m and w have been sums up to this point; they become means. */
        for (size_t i = 0; i < (FV_WANTS & FV_WANT_CENTRED ? l.state.vmean : l.state.count); i++)
            sum[i] *= a->f[0];
        if (c->first)
            memcpy(state, sum, l.state.floats * sizeof *sum);
        else
            ref_fold(state, sum, &l.state, l.width, l.dv);
    }
}

static bool applies(const fv_problem *p)
{
    return fv_lattn_applies(FV_STREAMS, FV_WANTS, p);
}

static size_t scratch_bytes(const fv_problem *p, const fv_knobs *knobs, uint32_t rows)
{
    const layout l = lay_out(p);
    (void)knobs, (void)rows;
    return (l.state.floats + 2 * l.width + l.dv) * sizeof(float);
}

const fv_kernel_hooks FV_MECH_NAME(fv_h_lattn_f32, ref) = {.applies = applies,
                                                           .scratch = scratch_bytes};

#endif
