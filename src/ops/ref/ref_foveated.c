/* ref_foveated.c: FOVEATED: softmax attention over the tokens near a query, and over means of
 * cells of tokens further away: ops/foveated.h.
 *
 *   dim     rows (= queries of the step, of as many tokens), d, dv, tokens; heads; width, height of
 *           the grid, margin
 *   Q       ROW, heads * d wide        K       WHOLE, tokens x (heads * d)
 *   OUT     ROW, heads * dv wide       V       WHOLE, tokens x (heads * dv)
 *   CELL_K, CELL_V                     WHOLE, rows of CELLS of K and of V
 *   f[0]    scale                      OUT is not another operand
 *   type    of each operand: F32 or BF16
 *   col0, cols  heads
 *
 *   s_j = f0 q_i.k_j + log n_j;   p_j = exp(s_j - max_j s_j);   out_i = sum_j p_j v_j / sum_j p_j
 *
 * over the keys j that query i attends to: tokens (n_j = 1) and cells of n_j tokens. The first
 * tokens - width * height rows are a prefix: they attend to all tokens, and all tokens attend to
 * them.
 *
 * Precision and types are those of SOFTMAX. With prob.acc I32, K is the result of KEYS_I8 for
 * tokens and cells, V and the cells are absent, and any FV_SOFTMAX_BLOCK keys of a query may share
 * a scale. A query's result does not depend on how rows and heads are split into calls.
 */
#include "ops/foveated.h"

#include <math.h>

#include "base/half.h"
#include "ops/quantise.h"
#include "ops/ref/ref_kernels.h"
#include "ops/ref/ref_keys_i8.h"

static double keys_of(const fv_problem *p)
{
    const fv_fovea f = fv_fovea_of(p);
    return fv_fovea_mean_keys(&f);
}

static double flops(const fv_problem *p)
{
    const double d = p->dim[FV_ATTN_D], dv = p->dim[FV_ATTN_DV];
    return p->heads * p->dim[FV_DIM_ROWS] * keys_of(p) * (2 * (d + dv) + 6);
}

static double terms(const fv_problem *p)
{
    return p->dim[FV_ATTN_D] + keys_of(p);
}

const fv_op fv_op_foveated = {
    .cols = FV_COLS_HEAD,
    .dim = {FV_ATTN_SIZES, [FV_ATTN_KEYS] = {"tokens", FV_DIM_SAME},
            [FV_FOVEA_WIDTH] = {"width", FV_DIM_TOKENS},
            [FV_FOVEA_HEIGHT] = {"height", FV_DIM_TOKENS}, [FV_FOVEA_MARGIN] = {"margin"}},
    .operand = {[FV_FOVEATED_Q] = {"Q", FV_ATTN_D, .heads = true, .narrow = true},
                [FV_FOVEATED_K] = {"K", .columns = fv_columns_keys, .narrow = true},
                [FV_FOVEATED_V] = {"V", FV_ATTN_DV, .heads = true, .narrow = true},
                [FV_FOVEATED_CELL_K] = {"CELL_K", FV_ATTN_D, .heads = true, .narrow = true},
                [FV_FOVEATED_CELL_V] = {"CELL_V", FV_ATTN_DV, .heads = true, .narrow = true},
                [FV_FOVEATED_OUT] = {"OUT", FV_ATTN_DV, .heads = true, .narrow = true}},
    .flops = flops,
    .terms = terms,
    .multiplies = FV_MULTIPLIES_ROWS,
    .headroom = FV_HEADROOM_WEIGHTS,
    .costly = true,
    .block_lines = FV_FOVEA_BLOCK,
};

/* A query of a head and its accumulators: softmax statistics, and the weighted sum of values. */
typedef struct gathered {
    float max, weights, *sum, *query;
    fv_keys_i8 l;
    const char *whole; /* the head's keys if they are int8; else NULL */
} gathered;

/* Return channel i of the key, or of the value, of row `row` of the tokens or cells. */
static float key_at(const gathered *g, const fv_args *a, const fv_call *c, size_t row, size_t head,
                    bool cell, size_t i)
{
    const int k = cell ? FV_FOVEATED_CELL_K : FV_FOVEATED_K;
    if (g->whole)
        return ref_key_i8(g->whole, &g->l, cell ? a->prob.dim[FV_ATTN_KEYS] + row : row, i);
    return fv_value_get(c->p[k], a->type[k], row * a->ld[k] + head * g->l.d + i);
}

static float value_at(const gathered *g, const fv_args *a, const fv_call *c, size_t row,
                      size_t head, bool cell, size_t i)
{
    const int v = cell ? FV_FOVEATED_CELL_V : FV_FOVEATED_V;
    if (g->whole)
        return ref_value_i8(g->whole, &g->l, cell ? a->prob.dim[FV_ATTN_KEYS] + row : row, i);
    return fv_value_get(c->p[v], a->type[v], row * a->ld[v] + head * g->l.dv + i);
}

static void add_key(gathered *g, const fv_args *a, const fv_call *c, size_t row, size_t head,
                    bool cell, float tokens)
{
    const size_t d = g->l.d, dv = g->l.dv;
    float s = 0.f;
    for (size_t i = 0; i < d; i++)
        s += g->query[i] * key_at(g, a, c, row, head, cell, i);
    s = s * a->f[0] + logf(tokens);
    if (s > g->max) {
        const float fade = expf(g->max - s);
        g->max = s;
        g->weights *= fade;
        for (size_t i = 0; i < dv; i++)
            g->sum[i] *= fade;
    }
    const float p = expf(s - g->max);
    g->weights += p;
    for (size_t i = 0; i < dv; i++)
        g->sum[i] += p * value_at(g, a, c, row, head, cell, i);
}

static void add_seen(gathered *g, const fv_args *a, const fv_call *c, const fv_fovea *f,
                     uint32_t token, size_t head)
{
    fv_fovea_walk walk;
    fv_fovea_run run;
    if (token < f->prefix) {
        fv_fovea_begin_prefix(&walk, f);
    } else {
        const uint32_t y = (token - f->prefix) / f->width, x = (token - f->prefix) % f->width;
        fv_fovea_begin(&walk, f, y - y % FV_FOVEA_BLOCK, x - x % FV_FOVEA_BLOCK);
    }
    while (run = fv_fovea_next(&walk), run.count > 0)
        for (uint32_t j = run.row; j < run.row + run.count; j++)
            add_key(g, a, c, j, head, run.level > 0,
                    run.level > 0 ? (float)fv_fovea_tokens(f, j) : 1.f);
}

void fv_k_foveated_f32_ref(const fv_args *a, const fv_call *c)
{
    const fv_fovea f = fv_fovea_of(&a->prob);
    const size_t d = a->prob.dim[FV_ATTN_D], dv = a->prob.dim[FV_ATTN_DV];
    const uint32_t cells = fv_fovea_first(&f, f.levels + 1);
    const fv_keys_i8 l = fv_keys_i8_of((size_t)a->prob.dim[FV_ATTN_KEYS] + cells, d, dv);
    for (size_t r = 0; r < c->rows; r++)
        for (size_t h = c->col0; h < (size_t)c->col0 + c->cols; h++) {
            gathered g = {.max = -INFINITY, .sum = c->scratch, .l = l};
            if (a->type[FV_FOVEATED_K] == FV_U8)
                g.whole = (const char *)c->p[FV_FOVEATED_K] + h * a->ld[FV_FOVEATED_K];
            g.query = g.sum + dv;
            for (size_t i = 0; i < dv; i++)
                g.sum[i] = 0.f;
            for (size_t i = 0; i < d; i++)
                g.query[i] = fv_value_get(c->p[FV_FOVEATED_Q], a->type[FV_FOVEATED_Q],
                                          r * a->ld[FV_FOVEATED_Q] + h * d + i);
            if (a->prob.acc == FV_I32)
                fv_int8_round(g.query, (uint32_t)d);
            add_seen(&g, a, c, &f, c->row0 + (uint32_t)r, h);
            for (size_t i = 0; i < dv; i++)
                fv_value_put(c->p[FV_FOVEATED_OUT], a->type[FV_FOVEATED_OUT],
                             r * a->ld[FV_FOVEATED_OUT] + h * dv + i, g.sum[i] / g.weights);
        }
}

static size_t scratch_bytes(const fv_problem *p, const fv_knobs *knobs, uint32_t rows)
{
    (void)knobs, (void)rows;
    return ((size_t)p->dim[FV_ATTN_DV] + p->dim[FV_ATTN_D]) * sizeof(float);
}

const fv_kernel_hooks fv_h_foveated_f32_ref = {.scratch = scratch_bytes};
