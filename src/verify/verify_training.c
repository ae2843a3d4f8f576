/* verify_training.c: steps of training, with odd sizes: dense gradients and losses. */
#include <string.h>

#include "verify/verify_cases.h"

enum {
    TOKENS = 145,
    PREFIX = 2,
    GRID_WIDTH = 13,
    WIDTH = 96,
    HIDDEN = 200,
    CLASSES = 150,
    MASK_WIDTH = 61,
    MASK_HEIGHT = 57,
};

/* Emits one step; the caller adds its operands. */
static fv_step *step(fv_builder *b, enum fv_op op, uint32_t rows, uint32_t cols, uint32_t third)
{
    fv_step *s = fv_emit_step(b, op, rows, "training");
    s->prob.dim[FV_ROW_C] = cols;
    s->prob.dim[FV_GRAD_TOKENS] = third;
    return s;
}

static void rows_of(fv_builder *b, fv_step *s, uint32_t operand, enum fv_kind kind, uint32_t rows,
                    uint32_t cols)
{
    fv_use_value(s, operand, fv_emit_rows(b, rows, cols), kind);
}

static void vector(fv_step *s, uint32_t operand, uint32_t cols)
{
    const fv_weight w = {.rows = 1, .cols = cols};
    fv_use_weight(s, operand, &w);
}

static void activations(fv_builder *b)
{
    static const uint32_t acts[] = {FV_EPI_GELU, FV_EPI_GELU_TANH, FV_EPI_GELU_QUICK, FV_EPI_SILU,
                                    FV_EPI_TANH, FV_EPI_RELU,      FV_EPI_SWIGLU};
    for (size_t i = 0; i < sizeof acts / sizeof *acts; i++) {
        const uint32_t wide = acts[i] & FV_EPI_SWIGLU ? 2 * HIDDEN : HIDDEN;
        fv_step *s = step(b, FV_OP_ACT, TOKENS, HIDDEN, 0);
        s->prob.epi = acts[i];
        rows_of(b, s, FV_ACT_IN, FV_KIND_ROW, TOKENS, wide);
        rows_of(b, s, FV_ACT_OUT, FV_KIND_ROW, TOKENS, HIDDEN);
        s = step(b, FV_OP_ACT_GRAD, TOKENS, HIDDEN, 0);
        s->prob.epi = acts[i];
        rows_of(b, s, FV_ACT_GRAD_IN, FV_KIND_ROW, TOKENS, wide);
        rows_of(b, s, FV_ACT_GRAD_DOUT, FV_KIND_ROW, TOKENS, HIDDEN);
        rows_of(b, s, FV_ACT_GRAD_OUT, FV_KIND_ROW, TOKENS, wide);
    }
}

static void weights(fv_builder *b)
{
    fv_step *s = step(b, FV_OP_ADD, TOKENS, WIDTH, 0);
    rows_of(b, s, FV_ADD_IN, FV_KIND_ROW, TOKENS, WIDTH);
    vector(s, FV_ADD_SCALE, WIDTH);
    rows_of(b, s, FV_ADD_RES, FV_KIND_ROW, TOKENS, WIDTH);
    rows_of(b, s, FV_ADD_OUT, FV_KIND_ROW, TOKENS, WIDTH);
    s = step(b, FV_OP_SUM_ROWS, 1, HIDDEN, TOKENS);
    rows_of(b, s, FV_SUM_A, FV_KIND_WHOLE, TOKENS, HIDDEN);
    rows_of(b, s, FV_SUM_B, FV_KIND_WHOLE, TOKENS, HIDDEN);
    rows_of(b, s, FV_SUM_OUT, FV_KIND_ROW, 1, HIDDEN);
    s = step(b, FV_OP_GEMM_GRAD_W, WIDTH, HIDDEN, TOKENS);
    rows_of(b, s, FV_GRAD_W_DOUT, FV_KIND_WHOLE, TOKENS, WIDTH);
    rows_of(b, s, FV_GRAD_W_IN, FV_KIND_WHOLE, TOKENS, HIDDEN);
    rows_of(b, s, FV_GRAD_W_OUT, FV_KIND_ROW, WIDTH, HIDDEN);
}

static void norms(fv_builder *b)
{
    fv_step *s = step(b, FV_OP_LAYERNORM_GRAD, TOKENS, WIDTH, 0);
    s->f[0] = 1e-6f;
    rows_of(b, s, FV_LN_GRAD_IN, FV_KIND_ROW, TOKENS, WIDTH);
    vector(s, FV_LN_GRAD_WEIGHT, WIDTH);
    rows_of(b, s, FV_LN_GRAD_DOUT, FV_KIND_ROW, TOKENS, WIDTH);
    rows_of(b, s, FV_LN_GRAD_RES, FV_KIND_ROW, TOKENS, WIDTH);
    rows_of(b, s, FV_LN_GRAD_OUT, FV_KIND_ROW, TOKENS, WIDTH);
    s = step(b, FV_OP_LAYERNORM_GRAD_W, 2, WIDTH, TOKENS);
    s->f[0] = 1e-6f;
    rows_of(b, s, FV_LN_GRAD_W_IN, FV_KIND_WHOLE, TOKENS, WIDTH);
    rows_of(b, s, FV_LN_GRAD_W_DOUT, FV_KIND_WHOLE, TOKENS, WIDTH);
    rows_of(b, s, FV_LN_GRAD_W_OUT, FV_KIND_ROW, 2, WIDTH);
}

/* The gradient of every step that adds a position table to a grid. */
static void positions(fv_builder *b)
{
    const uint32_t steps = b->steps;
    for (uint32_t i = 0; i < steps; i++) {
        const fv_step of = b->step[i];
        const fv_weight *table = &of.use[FV_POSEMB_TABLE].weight;
        if (of.prob.op != FV_OP_POSEMB || of.prob.weight != FV_F32)
            continue;
        const uint32_t tokens = of.prob.dim[FV_DIM_ROWS], n = of.prob.dim[FV_ROW_C];
        const uint32_t rows = of.u[0] + table->rows;
        fv_step *s = step(b, FV_OP_POSEMB_GRAD, rows, n, tokens);
        memcpy(s->u, of.u, sizeof s->u);
        s->table = of.table;
        rows_of(b, s, FV_POSEMB_GRAD_DOUT, FV_KIND_WHOLE, tokens, n);
        rows_of(b, s, FV_POSEMB_GRAD_OUT, FV_KIND_ROW, rows, n);
    }
}

static void rows(fv_builder *b)
{
    for (int mean = 0; mean < 2; mean++) {
        fv_step *s = step(b, mean ? FV_OP_MEAN_GRAD : FV_OP_TAKE_GRAD, TOKENS, WIDTH, 0);
        s->u[0] = PREFIX;
        s->u[1] = 1;
        s->f[0] = 1.f / (TOKENS - PREFIX);
        rows_of(b, s, FV_ROW_GRAD_DOUT, FV_KIND_WHOLE, 1, WIDTH);
        rows_of(b, s, FV_ROW_GRAD_RES, FV_KIND_ROW, TOKENS, WIDTH);
        rows_of(b, s, FV_ROW_GRAD_OUT, FV_KIND_ROW, TOKENS, WIDTH);
    }
}

static void losses(fv_builder *b)
{
    for (int grad = 0; grad < 2; grad++) {
        const uint32_t tokens = TOKENS - PREFIX;
        fv_step *s = step(b, grad ? FV_OP_MSE_GRAD : FV_OP_MSE_LOSS, TOKENS, WIDTH, 0);
        s->f[0] = 0.25f;
        rows_of(b, s, FV_MSE_A, FV_KIND_ROW, TOKENS, WIDTH);
        rows_of(b, s, FV_MSE_B, FV_KIND_ROW, TOKENS, WIDTH);
        rows_of(b, s, FV_MSE_OUT, FV_KIND_ROW, TOKENS, grad ? WIDTH : 1);
        s = step(b, grad ? FV_OP_CROSS_ENTROPY_GRAD : FV_OP_CROSS_ENTROPY_LOSS, TOKENS, CLASSES, 0);
        rows_of(b, s, FV_ENTROPY_LOGITS, FV_KIND_ROW, TOKENS, CLASSES);
        rows_of(b, s, FV_ENTROPY_LABELS, FV_KIND_ROW, TOKENS, 2);
        rows_of(b, s, FV_ENTROPY_OUT, FV_KIND_ROW, TOKENS, grad ? CLASSES : 1);
        s = step(b, grad ? FV_OP_SEGMENT_GRAD : FV_OP_SEGMENT_LOSS, tokens, CLASSES, GRID_WIDTH);
        s->prob.dim[FV_SEGMENT_WIDTH] = MASK_WIDTH;
        s->prob.dim[FV_SEGMENT_HEIGHT] = MASK_HEIGHT;
        s->align = GRID_WIDTH;
        rows_of(b, s, FV_SEGMENT_LOGITS, FV_KIND_WHOLE, tokens, CLASSES);
        fv_use_value(s, FV_SEGMENT_MASK,
                     fv_emit_value(b, FV_VALUE_ROWS, MASK_HEIGHT, MASK_WIDTH, FV_U8),
                     FV_KIND_WHOLE);
        rows_of(b, s, FV_SEGMENT_WEIGHT, FV_KIND_WHOLE, 1, 1);
        rows_of(b, s, FV_SEGMENT_OUT, FV_KIND_ROW, tokens, grad ? CLASSES : 1);
    }
}

void fv_cases_training(fv_builder *b)
{
    activations(b);
    weights(b);
    norms(b);
    positions(b);
    rows(b);
    losses(b);
}
