/* rules.c: computes gradients of the dense operations of a vision transformer. */
#include "ops/contracts/grid.h"
#include "ops/contracts/product.h"
#include "ops/contracts/rows.h"
#include "train/ref/training.h"
#include "train/tape.h"

#include <assert.h>

static fv_view gradient_of_output(const fv_tape *t, const fv_step *s)
{
    return fv_tape_gradient(t, s->use[s->out].view);
}

/* ---- products ---- */

/* Returns W transposed. */
static fv_weight transposed(const fv_weight *w)
{
    fv_weight x = {.rows = w->cols, .cols = w->rows, .type = w->type};
    for (uint32_t i = 0; i < w->parts; i++) {
        fv_weight_part p = w->part[i];
        p.row0 = w->part[i].col0;
        p.col0 = w->part[i].row0;
        p.rows = w->part[i].cols;
        p.cols = w->part[i].rows;
        p.row_stride = w->part[i].col_stride;
        p.col_stride = w->part[i].row_stride;
        p.paired_rows = w->part[i].paired_cols;
        p.paired_cols = w->part[i].paired_rows;
        fv_weight_add(&x, p);
    }
    return x;
}

static void gemm(fv_tape *t, const fv_step *s)
{
    const fv_view dout = gradient_of_output(t, s);
    const fv_weight *w = &s->use[FV_GEMM_W].weight;
    const fv_use *a = &s->use[FV_GEMM_A];
    const uint32_t rows = s->prob.dim[FV_DIM_ROWS], k = s->prob.dim[FV_GEMM_K];
    const char *label = fv_tape_label(t, s, "gradient");
    if (s->prob.epi & FV_EPI_RESIDUAL)
        fv_tape_pass(t, s->use[FV_GEMM_RES].view, dout);
    if (s->prob.epi & FV_EPI_BIAS)
        fv_tape_sums(t, label, &s->use[FV_GEMM_BIAS].weight, dout, FV_NO_VIEW, rows);
    const bool learned = a->view.id < 0;
    if (!learned)
        fv_tape_product(t, label, w, dout, a->view, rows, (enum fv_type)s->prob.weight);
    if (learned ? !fv_masters_want(t->masters, &a->weight) : !fv_tape_needs(t, a->view))
        return;
    const fv_weight back = transposed(w);
    fv_gemm g = {.w = &back, .in = dout, .res = FV_NO_VIEW, .rows = rows};
    if (learned)
        g.out = fv_tape_rows(t, rows, k);
    else
        fv_tape_add(t, a->view, k, &g.res, &g.out);
    fv_emit_gemm(t->b, label, &g);
    if (t->b->status == FOVEA_OK) /* with the type of weights that the forward product has */
        t->b->graph->step[t->b->graph->steps - 1].prob.weight = s->prob.weight;
    if (learned)
        fv_tape_sums(t, label, &a->weight, g.out, FV_NO_VIEW, rows);
}

static void act(fv_tape *t, const fv_step *s)
{
    const fv_view in = s->use[FV_ACT_IN].view, dout = gradient_of_output(t, s);
    const uint32_t rows = s->prob.dim[FV_DIM_ROWS], n = s->prob.dim[FV_ROW_C];
    const fv_view out = fv_tape_rows(t, rows, s->prob.epi & FV_EPI_SWIGLU ? 2 * n : n);
    fv_step *g = fv_emit_row_step(t->b, FV_OP_ACT_GRAD, fv_tape_label(t, s, "gradient"), in,
                                  FV_KIND_ROW, out, rows, n);
    g->prob.epi = s->prob.epi;
    fv_use_value(g, FV_ACT_GRAD_DOUT, dout, FV_KIND_ROW);
    fv_tape_pass(t, in, out);
}

static void add(fv_tape *t, const fv_step *s)
{
    const fv_view in = s->use[FV_ADD_IN].view, dout = gradient_of_output(t, s);
    const fv_weight *scale = &s->use[FV_ADD_SCALE].weight;
    const uint32_t rows = s->prob.dim[FV_DIM_ROWS], n = s->prob.dim[FV_ROW_C];
    if (s->use[FV_ADD_RES].view.id >= 0)
        fv_tape_pass(t, s->use[FV_ADD_RES].view, dout);
    if (!fv_weight_present(scale)) {
        fv_tape_pass(t, in, dout);
        return;
    }
    const char *label = fv_tape_label(t, s, "gradient");
    fv_tape_sums(t, label, scale, dout, in, rows);
    if (!fv_tape_needs(t, in))
        return;
    const fv_view out = fv_tape_rows(t, rows, n);
    fv_step *g = fv_emit_row_step(t->b, FV_OP_ADD, label, dout, FV_KIND_ROW, out, rows, n);
    fv_use_weight(g, FV_ADD_SCALE, scale);
    fv_tape_pass(t, in, out);
}

/* ---- norms ---- */

static void layernorm(fv_tape *t, const fv_step *s)
{
    const fv_view in = s->use[FV_LN_IN].view, dout = gradient_of_output(t, s);
    const fv_weight *w = &s->use[FV_LN_WEIGHT].weight, *bias = &s->use[FV_LN_BIAS].weight;
    const uint32_t rows = s->prob.dim[FV_DIM_ROWS], n = s->prob.dim[FV_ROW_C];
    fv_step *g;
    const char *label = fv_tape_label(t, s, "gradient");
    if (fv_masters_want(t->masters, w) || fv_masters_want(t->masters, bias)) {
        const fv_weight absent = {.rows = 1, .cols = n};
        const fv_view out = fv_tape_gather(t, w, fv_weight_present(bias) ? bias : &absent);
        g = fv_emit_row_step(t->b, FV_OP_LAYERNORM_GRAD_W, label, in, FV_KIND_WHOLE, out, 2, n);
        g->prob.dim[FV_GRAD_TOKENS] = rows;
        g->prob.flags = FV_FLAG_ACCUMULATE;
        g->f[0] = s->f[0];
        fv_use_value(g, FV_LN_GRAD_W_DOUT, dout, FV_KIND_WHOLE);
    }
    if (!fv_tape_needs(t, in))
        return;
    fv_view res, out;
    fv_tape_add(t, in, n, &res, &out);
    g = fv_emit_row_step(t->b, FV_OP_LAYERNORM_GRAD, label, in, FV_KIND_ROW, out, rows, n);
    g->f[0] = s->f[0];
    fv_use_weight(g, FV_LN_GRAD_WEIGHT, w);
    fv_use_value(g, FV_LN_GRAD_DOUT, dout, FV_KIND_ROW);
    fv_use_value(g, FV_LN_GRAD_RES, res, FV_KIND_ROW);
}

/* ---- rotations ---- */

/* Emits the inverse rotation: the same rotation with all sines negated. The gradients of keys are
 * rotated in place, in the same value as the gradients of V, which are then passed on unchanged. */
static void rope(fv_tape *t, const fv_step *s)
{
    const fv_view in = s->use[FV_ROPE_IN].view, out = s->use[FV_ROPE_OUT].view;
    const uint32_t rows = s->prob.dim[FV_DIM_ROWS], n = s->prob.dim[FV_ROW_C];
    const uint32_t all = t->b->graph->value[in.id].cols;
    if (s->u[1]) { /* the sines of angles that a step computes cannot be negated */
        t->b->status = fv_fail(
            FOVEA_ENOTSUP, "%s: rope by rows has no gradient; train other tensors or another model",
            s->label);
        return;
    }
    const fv_view dout = gradient_of_output(t, s), din = fv_tape_rows(t, rows, all);
    const bool in_place = in.id == out.id;
    fv_weight back = s->use[FV_ROPE_SIN].weight;
    for (uint32_t i = 0; i < back.parts; i++)
        back.part[i].factor = -back.part[i].factor;
    assert(in.col == 0 && (in_place || all == n));
    fv_step *g = fv_emit_row_step(t->b, FV_OP_ROPE, fv_tape_label(t, s, "gradient"), dout,
                                  FV_KIND_ROW, din, rows, n);
    g->prob.heads = s->prob.heads;
    g->prob.dim[FV_ROPE_D] = s->prob.dim[FV_ROPE_D];
    g->u[0] = s->u[0];
    fv_use_weight(g, FV_ROPE_COS, &s->use[FV_ROPE_COS].weight);
    fv_use_weight(g, FV_ROPE_SIN, &back);
    if (!in_place) {
        fv_tape_pass(t, in, din);
        return;
    }
    if (all > n)
        fv_emit_copy(t->b, "gradient", fv_view_cols(dout, n), fv_view_cols(din, n), rows, all - n);
    t->value[in.id].grad = din;
    t->value[in.id].own = true;
}

/* ---- gates and convolutions ---- */

static void mul(fv_tape *t, const fv_step *s)
{
    const fv_view dout = gradient_of_output(t, s);
    const uint32_t rows = s->prob.dim[FV_DIM_ROWS], n = s->prob.dim[FV_ROW_C];
    assert(!(s->prob.flags & FV_FLAG_SILU)); /* models that are trained apply SiLU in a product */
    for (uint32_t of = FV_MUL_A; of <= FV_MUL_B; of++) {
        const fv_view other = s->use[of == FV_MUL_A ? FV_MUL_B : FV_MUL_A].view;
        if (!fv_tape_needs(t, s->use[of].view))
            continue;
        const fv_view out = fv_tape_rows(t, rows, n);
        fv_emit_mul(t->b, fv_tape_label(t, s, "gradient"), dout, other, false, out, rows, n);
        fv_tape_pass(t, s->use[of].view, out);
    }
}

/* Returns a filter's taps, then its bias, as one row. */
static fv_weight with_bias(const fv_weight *w, const fv_weight *bias)
{
    fv_weight both = *w;
    both.cols++;
    for (uint32_t i = 0; i < bias->parts; i++) {
        fv_weight_part p = bias->part[i];
        p.row0 = p.col0;
        p.col0 = w->cols;
        p.rows = p.cols;
        p.cols = 1;
        p.row_stride = p.col_stride;
        fv_weight_add(&both, p);
    }
    return both;
}

static void filters(fv_tape *t, const fv_step *s, fv_view dout)
{
    const fv_weight both = with_bias(&s->use[FV_DWCONV_W].weight, &s->use[FV_DWCONV_BIAS].weight);
    if (!fv_masters_want(t->masters, &both))
        return;
    fv_step *g = fv_emit_row_step(t->b, FV_OP_DWCONV_GRAD_W, fv_tape_label(t, s, "gradient"),
                                  s->use[FV_DWCONV_IN].view, FV_KIND_WHOLE,
                                  fv_tape_gather(t, &both, NULL), both.rows, s->prob.dim[FV_ROW_C]);
    g->prob.flags = FV_FLAG_ACCUMULATE;
    g->prob.dim[FV_DWCONV_SIZE] = s->prob.dim[FV_DWCONV_SIZE];
    g->prob.dim[FV_DWCONV_HEIGHT] = s->prob.dim[FV_DWCONV_HEIGHT];
    g->prob.dim[FV_DWCONV_TOKENS] = s->prob.dim[FV_DIM_ROWS];
    g->u[0] = s->u[0];
    fv_use_value(g, FV_DWCONV_GRAD_W_DOUT, dout, FV_KIND_WHOLE);
}

/* The gradient of a filter's input is the convolution of the output's gradient with the filter
 * rotated by 180 degrees. */
static void dwconv(fv_tape *t, const fv_step *s)
{
    const fv_view in = s->use[FV_DWCONV_IN].view, dout = gradient_of_output(t, s);
    fv_weight back = s->use[FV_DWCONV_W].weight;
    assert(s->use[FV_DWCONV_GATE].view.id < 0); /* gates are separate steps */
    filters(t, s, dout);
    if (s->use[FV_DWCONV_RES].view.id >= 0)
        fv_tape_pass(t, s->use[FV_DWCONV_RES].view, dout);
    if (!fv_tape_needs(t, in))
        return;
    for (uint32_t i = 0; i < back.parts; i++)
        back.part[i].mirrored = true;
    fv_dwconv g = {.w = &back,
                   .in = dout,
                   .gate = FV_NO_VIEW,
                   .width = s->u[0],
                   .height = s->prob.dim[FV_DWCONV_HEIGHT],
                   .channels = s->prob.dim[FV_ROW_C],
                   .size = s->prob.dim[FV_DWCONV_SIZE]};
    g.count = s->prob.dim[FV_DIM_ROWS] / (g.width * g.height);
    fv_tape_add(t, in, g.channels, &g.res, &g.out);
    fv_emit_dwconv(t->b, fv_tape_label(t, s, "gradient"), &g);
}

/* ---- rows ---- */

static void rows_back(fv_tape *t, const fv_step *s, enum fv_op op, fv_view dout, fv_view res,
                      fv_view out, const uint32_t u[2], float factor)
{
    fv_step *g = fv_emit_row_step(t->b, op, fv_tape_label(t, s, "gradient"), dout, FV_KIND_WHOLE,
                                  out, t->b->graph->value[out.id].rows, s->prob.dim[FV_ROW_C]);
    g->u[0] = u[0];
    g->u[1] = u[1];
    g->f[0] = factor;
    fv_use_value(g, FV_ROW_GRAD_RES, res, FV_KIND_ROW);
}

static void copy(fv_tape *t, const fv_step *s)
{
    fv_tape_pass(t, s->use[FV_COPY_IN].view, gradient_of_output(t, s));
}

static void take_rows(fv_tape *t, const fv_step *s)
{
    fv_view res, out;
    const fv_view dout = gradient_of_output(t, s);
    const uint32_t u[2] = {s->u[0], s->prob.dim[FV_DIM_ROWS]};
    fv_tape_add(t, s->use[FV_TAKE_IN].view, s->prob.dim[FV_ROW_C], &res, &out);
    rows_back(t, s, FV_OP_TAKE_GRAD, dout, res, out, u, 0);
}

static void mean_reduce(fv_tape *t, const fv_step *s)
{
    fv_view res, out;
    const fv_view dout = gradient_of_output(t, s);
    const uint32_t u[2] = {s->u[0], 0};
    if (s->prob.flags & FV_FLAG_LARGEST) {
        t->b->status =
            fv_fail(FOVEA_ENOTSUP,
                    "%s: the maximum of rows has no gradient; train other tensors or another model",
                    s->label);
        return;
    }
    fv_tape_add(t, s->use[FV_MEAN_IN].view, s->prob.dim[FV_ROW_C], &res, &out);
    rows_back(t, s, FV_OP_MEAN_GRAD, dout, res, out, u, s->f[0]);
}

/* Gathers in the inverse direction, because a row is gathered at most once. */
static void gather(fv_tape *t, const fv_step *s)
{
    const fv_view in = s->use[FV_GATHER_IN].view, dout = gradient_of_output(t, s);
    const uint32_t n = s->prob.dim[FV_ROW_C], rows = s->prob.dim[FV_DIM_ROWS];
    const uint32_t *table = s->table;
    assert(s->prob.dim[FV_GATHER_PARTS] == 1);
    if (s->use[FV_GATHER_RES].view.id >= 0)
        fv_tape_pass(t, s->use[FV_GATHER_RES].view, dout);
    if (!fv_tape_needs(t, in))
        return;
    const uint32_t seen = t->b->graph->value[in.id].rows;
    uint32_t *back = fv_emit_table(t->b, seen);
    if (!back)
        return;
    for (uint32_t i = 0; i < seen; i++)
        back[i] = FV_GATHER_NONE;
    for (uint32_t i = 0; i < rows; i++)
        if (table[i] != FV_GATHER_NONE) {
            assert(back[table[i]] == FV_GATHER_NONE);
            back[table[i]] = i;
        }
    fv_view res, out;
    fv_tape_add(t, in, n, &res, &out);
    fv_emit_gather(t->b, fv_tape_label(t, s, "gradient"), dout, back, 1, res, out, seen, n);
}

/* ---- positions ---- */

static void posemb(fv_tape *t, const fv_step *s)
{
    const fv_view in = s->use[FV_POSEMB_IN].view, dout = gradient_of_output(t, s);
    const fv_weight *table = &s->use[FV_POSEMB_TABLE].weight;
    const fv_weight *prefix = &s->use[FV_POSEMB_PREFIX].weight;
    const uint32_t rows = s->prob.dim[FV_DIM_ROWS], n = s->prob.dim[FV_ROW_C], first = s->u[0];
    const char *label = fv_tape_label(t, s, "gradient");
    if (fv_masters_want(t->masters, table) || fv_masters_want(t->masters, prefix)) {
        const fv_weight absent = {.rows = first, .cols = n};
        const fv_view out = fv_tape_gather(t, fv_weight_present(prefix) ? prefix : &absent, table);
        fv_step *g = fv_emit_row_step(t->b, FV_OP_POSEMB_GRAD, label, dout, FV_KIND_WHOLE, out,
                                      first + table->rows, n);
        g->prob.dim[FV_GRAD_TOKENS] = rows;
        g->prob.flags = FV_FLAG_ACCUMULATE;
        g->u[0] = first;
        g->u[1] = s->u[1];
        g->u[2] = s->u[2];
        g->table = s->table;
    }
    if (!fv_tape_needs(t, in))
        return;
    if (!fv_weight_present(prefix)) {
        fv_tape_pass(t, in, dout);
        return;
    }
    /* The forward step overwrites the prefix rows, so that their input has zero gradient. */
    const fv_view grid = fv_tape_rows(t, rows - first, n), out = fv_tape_rows(t, rows, n);
    const uint32_t u[2] = {first, rows - first};
    fv_emit_take(t->b, label, dout, first, grid, rows - first, n);
    rows_back(t, s, FV_OP_TAKE_GRAD, grid, FV_NO_VIEW, out, u, 0);
    fv_tape_pass(t, in, out);
}

fv_tape_rule *const fv_tape_rules[FV_OP_COUNT] = {
    [FV_OP_GEMM] = gemm,
    [FV_OP_ACT] = act,
    [FV_OP_ADD] = add,
    [FV_OP_LAYERNORM] = layernorm,
    [FV_OP_ROPE] = rope,
    [FV_OP_MUL] = mul,
    [FV_OP_DWCONV] = dwconv,
    [FV_OP_CONV] = fv_rule_conv,
    [FV_OP_UPSAMPLE] = fv_rule_upsample,
    [FV_OP_GROUPNORM] = fv_rule_groupnorm,
    [FV_OP_MATMUL] = fv_rule_matmul,
    [FV_OP_PICK] = fv_rule_pick,
    [FV_OP_DEFORM] = fv_rule_deform,
    [FV_OP_GATHER] = gather,
    [FV_OP_COPY] = copy,
    [FV_OP_TAKE] = take_rows,
    [FV_OP_MEAN_REDUCE] = mean_reduce,
    [FV_OP_MEAN_MERGE] = fv_rule_merge,
    [FV_OP_POSEMB] = posemb,
    [FV_OP_SOFTMAX] = fv_rule_softmax,
    [FV_OP_FOVEATED] = fv_rule_foveated,
    [FV_OP_LATTN_APPLY] = fv_rule_apply,
    [FV_OP_LATTN_MERGE] = fv_rule_merge,
    [FV_OP_LATTN_REDUCE] = fv_rule_reduce,
    [FV_OP_GATES] = fv_rule_gates,
    [FV_OP_MAP_REDUCE] = fv_rule_map_reduce,
    [FV_OP_MAP_MERGE] = fv_rule_merge,
};
