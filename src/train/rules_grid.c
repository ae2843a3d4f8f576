/* rules_grid.c: computes gradients of decoders' operations on grids of tokens: convolutions,
 * resizing, group normalisation. */
#include "ops/contracts/grid.h"
#include "ops/contracts/linear_attention.h"
#include "ops/contracts/product.h"
#include "ops/contracts/rows.h"
#include "train/ref/training.h"
#include "train/tape.h"

/* Emits gradients of the weight's columns, which are (tap, channel). For each tap, the gradient is
 * dout times the pixels that the tap multiplies. The middle tap multiplies each pixel at its own
 * position. */
static void filters(fv_tape *t, const fv_step *s, fv_view dout)
{
    const fv_weight *w = &s->use[FV_GEMM_W].weight;
    const uint32_t *dim = s->prob.dim, rows = dim[FV_DIM_ROWS], channels = dim[FV_CONV_C];
    const uint32_t size = dim[FV_CONV_SIZE], width = s->u[0], height = s->u[1], wide = s->u[2];
    const fv_view in = s->use[FV_GEMM_A].view;
    if (!fv_masters_want(t->masters, w))
        return;
    const char *label = fv_tape_label(t, s, "gradient");
    const fv_view out = fv_tape_gather(t, w, NULL);
    for (uint32_t tap = 0; tap < size * size && t->b->status == FOVEA_OK; tap++) {
        uint32_t *table = fv_emit_table(t->b, rows);
        if (!table)
            return;
        for (uint32_t i = 0; i < rows; i++) {
            const uint32_t y = i / wide * dim[FV_CONV_STRIDE] + tap / size - dim[FV_CONV_PAD];
            const uint32_t x = i % wide * dim[FV_CONV_STRIDE] + tap % size - dim[FV_CONV_PAD];
            table[i] = x < width && y < height ? y * width + x : FV_GATHER_NONE;
        }
        const fv_view met = fv_tape_rows(t, rows, channels);
        fv_emit_gather(t->b, label, in, table, 1, FV_NO_VIEW, met, rows, channels);
        fv_tape_product_into(t, label, w->rows, channels, dout, met, rows,
                             fv_view_cols(out, tap * channels));
    }
}

/* Returns filters rotated by 180 degrees, from the output's channels to the input's. */
static fv_weight turned(const fv_weight *w, uint32_t taps)
{
    fv_weight x = {.rows = w->cols / taps, .cols = w->rows * taps, .type = w->type};
    for (uint32_t i = 0; i < w->parts; i++) {
        fv_weight_part p = w->part[i];
        p.rows = x.rows;
        p.cols = x.cols;
        p.row_stride = taps;
        p.channel_stride = w->part[i].row_stride;
        p.mirrored = true;
        fv_weight_add(&x, p);
    }
    return x;
}

/* Returns whether the gradient of the convolution's input is a convolution with one whole
 * tensor. */
static bool is_mirrored_conv(const fv_step *s)
{
    const fv_weight *w = &s->use[FV_GEMM_W].weight;
    const uint32_t *dim = s->prob.dim;
    return dim[FV_CONV_STRIDE] == 1 && dim[FV_CONV_SIZE] == 2 * dim[FV_CONV_PAD] + 1 &&
           w->parts == 1 && !w->part[0].row_scale;
}

void fv_rule_conv(fv_tape *t, const fv_step *s)
{
    const fv_view dout = fv_tape_gradient(t, s->use[FV_GEMM_OUT].view);
    const fv_use *a = &s->use[FV_GEMM_A];
    const uint32_t *dim = s->prob.dim;
    const fv_grid grid = {s->u[0], s->u[1], 0, 0};
    if (s->prob.epi & FV_EPI_RESIDUAL)
        fv_tape_pass(t, s->use[FV_GEMM_RES].view, dout);
    if (s->prob.epi & FV_EPI_BIAS)
        fv_tape_sums(t, fv_tape_label(t, s, "gradient"), &s->use[FV_GEMM_BIAS].weight, dout,
                     FV_NO_VIEW, dim[FV_DIM_ROWS]);
    filters(t, s, dout);
    if (!fv_tape_needs(t, a->view) || t->b->status != FOVEA_OK)
        return;
    if (!is_mirrored_conv(s)) {
        t->b->status = fv_fail(FOVEA_ENOTSUP,
                               "%s: the layers below a convolution with a stride or a folded "
                               "normalisation cannot be trained",
                               s->label);
        return;
    }
    const fv_weight back = turned(&s->use[FV_GEMM_W].weight, dim[FV_CONV_SIZE] * dim[FV_CONV_SIZE]);
    fv_view res;
    fv_conv g = {.w = &back,
                 .in = dout,
                 .from = grid,
                 .to = grid,
                 .channels = dim[FV_GEMM_N],
                 .size = dim[FV_CONV_SIZE],
                 .stride = 1,
                 .pad = dim[FV_CONV_PAD]};
    fv_tape_add(t, a->view, dim[FV_CONV_C], &res, &g.out);
    g.res = res.id >= 0 ? &res : NULL;
    fv_emit_conv(t->b, fv_tape_label(t, s, "gradient"), &g);
}

void fv_rule_upsample(fv_tape *t, const fv_step *s)
{
    const fv_view in = s->use[FV_UPSAMPLE_IN].view;
    const fv_view dout = fv_tape_gradient(t, s->use[FV_UPSAMPLE_OUT].view);
    const uint32_t n = s->prob.dim[FV_ROW_C], width = s->u[0], height = s->u[1];
    fv_view res, out;
    if (s->use[FV_UPSAMPLE_RES].view.id >= 0)
        fv_tape_pass(t, s->use[FV_UPSAMPLE_RES].view, dout);
    if (!fv_tape_needs(t, in))
        return;
    fv_tape_add(t, in, n, &res, &out);
    fv_step *g = fv_emit_row_step(t->b, FV_OP_UPSAMPLE_GRAD, fv_tape_label(t, s, "gradient"), dout,
                                  FV_KIND_WHOLE, out, width * height, n);
    g->prob.flags = s->prob.flags;
    g->u[0] = width;
    g->u[1] = s->u[2];
    g->u[2] = s->prob.dim[FV_DIM_ROWS] / s->u[2];
    fv_use_value(g, FV_ROW_GRAD_RES, res, FV_KIND_ROW);
}

/* Returns the number of groups of the step that wrote a state of group normalisation. */
static uint32_t groups_of(const fv_tape *t, fv_view state)
{
    for (uint32_t i = t->b->graph->steps; i-- > 0;) {
        const fv_step *s = &t->b->graph->step[i];
        if (s->prob.op == FV_OP_GROUPNORM_MERGE && s->use[s->out].view.id == state.id)
            return s->prob.dim[FV_GROUPNORM_GROUPS];
    }
    return 1;
}

/* Sums the gradients of weight and bias, which the gradient of the input also needs, as one row.
 * The activation is a separate step (tape.c). */
void fv_rule_groupnorm(fv_tape *t, const fv_step *s)
{
    const fv_view in = s->use[FV_GN_IN].view, state = s->use[FV_GN_STATE].view;
    const fv_view dout = fv_tape_gradient(t, s->use[FV_GN_OUT].view);
    const uint32_t rows = s->prob.dim[FV_DIM_ROWS], n = s->prob.dim[FV_ROW_C];
    const char *label = fv_tape_label(t, s, "gradient");
    const fv_view sums = fv_tape_rows(t, 1, 2 * n);
    fv_step *g =
        fv_emit_row_step(t->b, FV_OP_GROUPNORM_GRAD_W, label, in, FV_KIND_WHOLE, sums, 1, n);
    g->prob.dim[FV_GRAD_TOKENS] = rows;
    g->f[0] = s->f[0];
    fv_use_value(g, FV_GN_GRAD_W_STATE, state, FV_KIND_STATE);
    fv_use_value(g, FV_GN_GRAD_W_DOUT, dout, FV_KIND_WHOLE);
    fv_tape_sums(t, label, &s->use[FV_GN_WEIGHT].weight, sums, FV_NO_VIEW, 1);
    fv_tape_sums(t, label, &s->use[FV_GN_BIAS].weight, fv_view_cols(sums, n), FV_NO_VIEW, 1);
    if (!fv_tape_needs(t, in))
        return;
    const fv_view out = fv_tape_rows(t, rows, n);
    g = fv_emit_row_step(t->b, FV_OP_GROUPNORM_GRAD, label, in, FV_KIND_ROW, out, rows, n);
    g->prob.dim[FV_GROUPNORM_GRAD_GROUPS] = groups_of(t, state);
    g->f[0] = s->f[0];
    fv_use_value(g, FV_GN_GRAD_STATE, state, FV_KIND_STATE);
    fv_use_weight(g, FV_GN_GRAD_WEIGHT, &s->use[FV_GN_WEIGHT].weight);
    fv_use_value(g, FV_GN_GRAD_SUMS, sums, FV_KIND_WHOLE);
    fv_use_value(g, FV_GN_GRAD_DOUT, dout, FV_KIND_ROW);
    fv_tape_pass(t, in, out);
}
