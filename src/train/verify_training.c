/* verify_training.c: makes the steps that only training has, gradients and losses, with odd
 * sizes. */
#include <string.h>

#include "graph/emit.h"
#include "ops/contracts/grid.h"
#include "ops/contracts/rows.h"
#include "ops/ref/ref_deform.h"
#include "train/ref/training.h"
#include "train/verify_training.h"

enum {
    TOKENS = 145,
    PREFIX = 2,
    GRID_WIDTH = 13,
    WIDTH = 96,
    HIDDEN = 200,
    CLASSES = 150,
    LABEL = 2, /* a class and its weight */
    MASK_WIDTH = 61,
    MASK_HEIGHT = 57,
    GROUPS = 32,
    HEADS = 8,
    LEVELS = 3,
    POINTS = 4,
    QUERIES = 23,
    PLACES = 333,
};

static fv_step *step(fv_builder *b, enum fv_op op, uint32_t rows, uint32_t cols, uint32_t third)
{
    fv_step *s = fv_emit_step(b, op, rows, "training");
    s->prob.dim[FV_ROW_C] = cols;
    s->prob.dim[FV_GRAD_TOKENS] = third;
    return s;
}

/* Sets the operands of a step whose problem is complete. Each letter of `kinds` is one operand: r
 * for rows; v for a vector of weights; w for a whole tensor with as many rows as the problem has
 * tokens. */
static void operands(fv_builder *b, fv_step *s, const char *kinds)
{
    const uint32_t tokens = s->prob.dim[FV_GRAD_TOKENS];
    for (uint32_t o = 0; kinds[o]; o++) {
        const bool row = kinds[o] == 'r';
        const uint32_t rows = row ? s->prob.dim[FV_DIM_ROWS] : tokens ? tokens : 1;
        const uint32_t columns = fv_problem_columns(&s->prob, o);
        const fv_weight vector = {.rows = 1, .cols = columns};
        if (kinds[o] == 'v')
            fv_use_weight(s, o, &vector);
        else
            fv_use_value(s, o, fv_emit_rows(b, rows, columns == UINT32_MAX ? LABEL : columns),
                         row ? FV_KIND_ROW : FV_KIND_WHOLE);
    }
}

static void activation(fv_builder *b, uint32_t act)
{
    fv_step *s = step(b, FV_OP_ACT, TOKENS, HIDDEN, 0);
    s->prob.epi = act;
    operands(b, s, "rr");
}

static void weight_gradient(fv_builder *b)
{
    operands(b, step(b, FV_OP_GEMM_GRAD_W, WIDTH, HIDDEN, TOKENS), "wwr");
}

static void activation_gradient(fv_builder *b, uint32_t act)
{
    activation(b, act);
    fv_step *s = step(b, FV_OP_ACT_GRAD, TOKENS, HIDDEN, 0);
    s->prob.epi = act;
    operands(b, s, "rrr");
}

static void activations(fv_builder *b)
{
    for (uint32_t i = 0; i < FV_ACTIVATIONS; i++)
        activation_gradient(b, fv_activations[i].epi);
    activation_gradient(b, FV_EPI_SWIGLU);
}

static void weights(fv_builder *b)
{
    operands(b, step(b, FV_OP_SUM_ROWS, 1, HIDDEN, TOKENS), "wwr");
    weight_gradient(b);
}

static void norms(fv_builder *b)
{
    fv_step *s = step(b, FV_OP_LAYERNORM_GRAD, TOKENS, WIDTH, 0);
    s->f[0] = 1e-6f;
    operands(b, s, "rvrrr");
    s = step(b, FV_OP_LAYERNORM_GRAD_W, 2, WIDTH, TOKENS);
    s->f[0] = 1e-6f;
    operands(b, s, "wwr");
}

/* Adds the gradients of the filters of all depthwise convolutions. */
static void filters(fv_builder *b)
{
    const uint32_t steps = b->graph->steps;
    for (uint32_t i = 0; i < steps; i++) {
        const fv_step of = b->graph->step[i];
        const uint32_t tokens = of.prob.dim[FV_DIM_ROWS], channels = of.prob.dim[FV_ROW_C];
        const uint32_t size = of.prob.dim[FV_DWCONV_SIZE];
        if (of.prob.op != FV_OP_DWCONV)
            continue;
        fv_step *s = step(b, FV_OP_DWCONV_GRAD_W, of.u[1], channels, size);
        s->prob.dim[FV_DWCONV_HEIGHT] = of.prob.dim[FV_DWCONV_HEIGHT];
        s->prob.dim[FV_DWCONV_TOKENS] = tokens;
        s->u[0] = of.u[0];
        const fv_view in = fv_emit_rows(b, tokens, channels);
        fv_use_value(s, FV_DWCONV_GRAD_W_IN, in, FV_KIND_WHOLE);
        fv_use_value(s, FV_DWCONV_GRAD_W_DOUT, fv_emit_rows(b, tokens, channels), FV_KIND_WHOLE);
        fv_use_value(s, FV_DWCONV_GRAD_W_OUT, fv_emit_rows(b, of.u[1], size * size + 1),
                     FV_KIND_ROW);
    }
}

/* Adds the gradients of all steps that add a float32 position table to a grid. */
static void positions(fv_builder *b)
{
    const uint32_t steps = b->graph->steps;
    for (uint32_t i = 0; i < steps; i++) {
        const fv_step of = b->graph->step[i];
        const fv_weight *table = &of.use[FV_POSEMB_TABLE].weight;
        if (of.prob.op != FV_OP_POSEMB || of.prob.weight != FV_F32)
            continue;
        fv_step *s = step(b, FV_OP_POSEMB_GRAD, of.u[0] + table->rows, of.prob.dim[FV_ROW_C],
                          of.prob.dim[FV_DIM_ROWS]);
        memcpy(s->u, of.u, sizeof s->u);
        s->table = of.table;
        operands(b, s, "wr");
    }
}

static void rows(fv_builder *b)
{
    for (int mean = 0; mean < 2; mean++) {
        fv_step *s = step(b, mean ? FV_OP_MEAN_GRAD : FV_OP_TAKE_GRAD, TOKENS, WIDTH, 0);
        s->u[0] = PREFIX;
        s->u[1] = 1;
        s->f[0] = 1.f / (TOKENS - PREFIX);
        operands(b, s, "wrr");
    }
}

/* Adds the gradient of resizing a grid to three times its width and twice its height. */
static void resizing(fv_builder *b)
{
    enum { WIDE = 3 * GRID_WIDTH, HIGH = 2 * (TOKENS - PREFIX) / GRID_WIDTH };
    for (int corners = 0; corners < 2; corners++) {
        fv_step *s = step(b, FV_OP_UPSAMPLE_GRAD, TOKENS - PREFIX, WIDTH, 0);
        s->prob.flags = corners ? FV_FLAG_ALIGN_CORNERS : 0;
        s->u[0] = GRID_WIDTH;
        s->u[1] = WIDE;
        s->u[2] = HIGH;
        const fv_view dout = fv_emit_rows(b, WIDE * HIGH, WIDTH);
        const fv_view out = fv_emit_rows(b, TOKENS - PREFIX, WIDTH);
        fv_use_value(s, FV_ROW_GRAD_DOUT, dout, FV_KIND_WHOLE);
        fv_use_value(s, FV_ROW_GRAD_RES, fv_emit_rows(b, TOKENS - PREFIX, WIDTH), FV_KIND_ROW);
        fv_use_value(s, FV_ROW_GRAD_OUT, out, FV_KIND_ROW);
    }
}

static void losses(fv_builder *b)
{
    for (int grad = 0; grad < 2; grad++) {
        const uint32_t tokens = TOKENS - PREFIX;
        fv_step *s;
        for (int relative = 0; relative < 2; relative++) {
            s = step(b, grad ? FV_OP_MSE_GRAD : FV_OP_MSE_LOSS, TOKENS, WIDTH, 0);
            s->prob.flags = relative ? FV_FLAG_RELATIVE : 0;
            s->f[0] = 0.25f;
            operands(b, s, "rrr");
        }
        s = step(b, grad ? FV_OP_CROSS_ENTROPY_GRAD : FV_OP_CROSS_ENTROPY_LOSS, TOKENS, CLASSES, 0);
        operands(b, s, "rrr");
        s = step(b, grad ? FV_OP_SEGMENT_GRAD : FV_OP_SEGMENT_LOSS, tokens, CLASSES, GRID_WIDTH);
        s->prob.dim[FV_SEGMENT_WIDTH] = MASK_WIDTH;
        s->prob.dim[FV_SEGMENT_HEIGHT] = MASK_HEIGHT;
        s->align = GRID_WIDTH;
        const fv_view mask = fv_emit_value(b, FV_VALUE_ROWS, MASK_HEIGHT, MASK_WIDTH, FV_U8);
        fv_use_value(s, FV_SEGMENT_LOGITS, fv_emit_rows(b, tokens, CLASSES), FV_KIND_WHOLE);
        fv_use_value(s, FV_SEGMENT_MASK, mask, FV_KIND_WHOLE);
        fv_use_value(s, FV_SEGMENT_WEIGHT, fv_emit_rows(b, 1, 1), FV_KIND_WHOLE);
        fv_use_value(s, FV_SEGMENT_OUT, fv_emit_rows(b, tokens, grad ? CLASSES : 1), FV_KIND_ROW);
    }
}

/* Adds the depth losses: the sum of distances, the loss that is normalised by that sum, and its
 * gradient. */
static void depths(fv_builder *b)
{
    for (int i = 0; i < 3; i++) {
        const uint32_t tokens = TOKENS - PREFIX;
        fv_step *s = fv_emit_step(b, i < 2 ? FV_OP_DEPTH_LOSS : FV_OP_DEPTH_GRAD, tokens, "case");
        if (b->status != FOVEA_OK)
            return;
        s->prob.dim[FV_SEGMENT_GRID] = GRID_WIDTH;
        s->prob.dim[FV_SEGMENT_WIDTH] = MASK_WIDTH;
        s->prob.dim[FV_SEGMENT_HEIGHT] = MASK_HEIGHT;
        s->f[0] = 0.5f;
        s->align = GRID_WIDTH;
        fv_use_value(s, FV_DEPTH_FOUND, fv_emit_rows(b, tokens, 1), FV_KIND_WHOLE);
        fv_use_value(s, FV_DEPTH_TRUTH, fv_emit_rows(b, MASK_HEIGHT, MASK_WIDTH), FV_KIND_WHOLE);
        fv_use_value(s, FV_DEPTH_WEIGHT, fv_emit_rows(b, 1, 1), FV_KIND_WHOLE);
        if (i > 0)
            fv_use_value(s, FV_DEPTH_MEAN, fv_emit_rows(b, 1, 1), FV_KIND_WHOLE);
        fv_use_value(s, FV_DEPTH_OUT, fv_emit_rows(b, tokens, 1), FV_KIND_ROW);
    }
}

/* ---- decoders of queries ---- */

static void group_norms(fv_builder *b)
{
    const fv_view in = fv_emit_rows(b, TOKENS, WIDTH), dout = fv_emit_rows(b, TOKENS, WIDTH);
    const fv_view state = fv_emit_value(b, FV_VALUE_STATE, 1, 3 * WIDTH, FV_F32);
    const fv_view sums = fv_emit_rows(b, 1, 2 * WIDTH);
    const fv_weight vector = {.rows = 1, .cols = WIDTH};
    fv_step *s = step(b, FV_OP_GROUPNORM_GRAD_W, 1, WIDTH, TOKENS);
    s->f[0] = 1e-5f;
    fv_use_value(s, FV_GN_GRAD_W_IN, in, FV_KIND_WHOLE);
    fv_use_value(s, FV_GN_GRAD_W_STATE, state, FV_KIND_STATE);
    fv_use_value(s, FV_GN_GRAD_W_DOUT, dout, FV_KIND_WHOLE);
    fv_use_value(s, FV_GN_GRAD_W_OUT, sums, FV_KIND_ROW);
    s = step(b, FV_OP_GROUPNORM_GRAD, TOKENS, WIDTH, GROUPS);
    s->f[0] = 1e-5f;
    fv_use_value(s, FV_GN_GRAD_IN, in, FV_KIND_ROW);
    fv_use_value(s, FV_GN_GRAD_STATE, state, FV_KIND_STATE);
    fv_use_weight(s, FV_GN_GRAD_WEIGHT, &vector);
    fv_use_value(s, FV_GN_GRAD_SUMS, sums, FV_KIND_WHOLE);
    fv_use_value(s, FV_GN_GRAD_DOUT, dout, FV_KIND_ROW);
    fv_use_value(s, FV_GN_GRAD_OUT, fv_emit_rows(b, TOKENS, WIDTH), FV_KIND_ROW);
}

static void picked(fv_builder *b)
{
    fv_step *s = step(b, FV_OP_PICK_GRAD, LEVELS, WIDTH, TOKENS);
    fv_use_value(s, FV_PICK_GRAD_INDEX, fv_emit_rows(b, TOKENS, 1), FV_KIND_WHOLE);
    fv_use_value(s, FV_PICK_GRAD_DOUT, fv_emit_rows(b, TOKENS, WIDTH), FV_KIND_WHOLE);
    fv_use_value(s, FV_PICK_GRAD_OUT, fv_emit_rows(b, LEVELS, WIDTH), FV_KIND_ROW);
}

/* Adds the two gradients of samples of the levels of a grid. */
static void samples(fv_builder *b)
{
    const uint32_t cells = TOKENS - PREFIX, from = LEVELS * cells, all = HEADS * LEVELS * POINTS;
    const fv_view box = fv_emit_rows(b, TOKENS, 2), where = fv_emit_rows(b, TOKENS, 3 * all);
    const fv_view dout = fv_emit_rows(b, TOKENS, WIDTH);
    for (int of_values = 0; of_values < 2; of_values++) {
        uint32_t *const table = fv_emit_table(b, LEVELS * 3);
        fv_step *s = fv_emit_step(b, of_values ? FV_OP_DEFORM_GRAD_VALUES : FV_OP_DEFORM_GRAD,
                                  of_values ? from : TOKENS, "training");
        fv_deform_level *level = (fv_deform_level *)table;
        for (uint32_t i = 0; level && i < LEVELS; i++)
            level[i] = (fv_deform_level){GRID_WIDTH, cells / GRID_WIDTH, i * cells};
        s->table = table;
        s->prob.heads = HEADS;
        s->prob.flags = FV_FLAG_CENTRES;
        s->prob.dim[FV_ATTN_D] = WIDTH / HEADS;
        s->prob.dim[FV_DEFORM_POINTS] = POINTS;
        s->prob.dim[FV_DEFORM_LEVELS] = LEVELS;
        s->prob.dim[FV_DEFORM_FROM] = of_values ? TOKENS : from;
        s->f[0] = 1;
        const uint32_t first = of_values ? FV_VALUES_GRAD_BOX : FV_DEFORM_GRAD_BOX;
        const enum fv_kind kind = of_values ? FV_KIND_WHOLE : FV_KIND_ROW;
        if (!of_values)
            fv_use_value(s, FV_DEFORM_GRAD_VALUES, fv_emit_rows(b, from, WIDTH), FV_KIND_WHOLE);
        fv_use_value(s, first, box, kind);
        fv_use_value(s, first + 1, where, kind);
        fv_use_value(s, first + 2, fv_view_cols(where, 2 * all), kind);
        fv_use_value(s, first + 3, dout, kind);
        fv_use_value(s, first + 4,
                     fv_emit_rows(b, of_values ? from : TOKENS, of_values ? WIDTH : 3 * all),
                     FV_KIND_ROW);
    }
}

static void queries(fv_builder *b)
{
    const uint32_t d = WIDTH / HEADS, cells = TOKENS - PREFIX;
    fv_step *s = fv_emit_step(b, FV_OP_SOFTMAX_GRAD_Q, QUERIES, "training");
    s->prob.heads = HEADS;
    s->prob.dim[FV_ATTN_D] = s->prob.dim[FV_ATTN_DV] = d;
    s->prob.dim[FV_ATTN_KEYS] = TOKENS;
    s->f[0] = 0.25f;
    fv_use_value(s, FV_QUERIES_GRAD_Q, fv_emit_rows(b, QUERIES, WIDTH), FV_KIND_ROW);
    fv_use_value(s, FV_QUERIES_GRAD_K, fv_emit_rows(b, TOKENS, WIDTH), FV_KIND_WHOLE);
    fv_use_value(s, FV_QUERIES_GRAD_V, fv_emit_rows(b, TOKENS, WIDTH), FV_KIND_WHOLE);
    fv_use_value(s, FV_QUERIES_GRAD_HIDDEN, fv_emit_rows(b, QUERIES, HEADS * (TOKENS + 1)),
                 FV_KIND_ROW);
    fv_use_value(s, FV_QUERIES_GRAD_FORWARD, fv_emit_rows(b, QUERIES, WIDTH), FV_KIND_ROW);
    fv_use_value(s, FV_QUERIES_GRAD_DOUT, fv_emit_rows(b, QUERIES, WIDTH), FV_KIND_ROW);
    fv_use_value(s, FV_QUERIES_GRAD_OUT, fv_emit_rows(b, QUERIES, WIDTH + 2 * HEADS), FV_KIND_ROW);
    s = step(b, FV_OP_QUERY_COST, QUERIES, cells, CLASSES);
    s->prob.dim[FV_QUERY_POINTS] = PLACES;
    s->u[0] = GRID_WIDTH;
    s->f[FV_QUERY_F_CLASS] = s->f[FV_QUERY_F_MASK] = s->f[FV_QUERY_F_DICE] = 2;
    fv_use_value(s, FV_QUERY_MASKS, fv_emit_rows(b, QUERIES, cells), FV_KIND_ROW);
    fv_use_value(s, FV_QUERY_LOGITS, fv_emit_rows(b, QUERIES, CLASSES + 1), FV_KIND_ROW);
    fv_use_value(s, FV_QUERY_PLACES, fv_emit_rows(b, PLACES, 2), FV_KIND_WHOLE);
    fv_use_value(s, FV_QUERY_TARGETS, fv_emit_rows(b, CLASSES, PLACES), FV_KIND_WHOLE);
    fv_use_value(s, FV_COST_PRESENT, fv_emit_rows(b, 1, CLASSES), FV_KIND_WHOLE);
    fv_use_value(s, FV_COST_OUT, fv_emit_rows(b, QUERIES, CLASSES), FV_KIND_ROW);
}

void fv_cases_training(fv_builder *b)
{
    activations(b);
    weights(b);
    norms(b);
    filters(b);
    positions(b);
    rows(b);
    resizing(b);
    losses(b);
    depths(b);
    group_norms(b);
    picked(b);
    samples(b);
    queries(b);
}

void fv_cases_training_narrow(fv_builder *b)
{
    activation(b, FV_EPI_GELU);
    activation(b, FV_EPI_SWIGLU);
    weight_gradient(b);
}
