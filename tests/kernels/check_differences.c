/* check_differences.c: compares the oracles of dense gradients with central finite differences of
 * the forward oracles, in double precision. */
#include "tests/kernels/check_differences.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ops/contracts/grid.h"
#include "ops/contracts/product.h"
#include "ops/contracts/rows.h"
#include "ops/preprocess.h"
#include "tests/kernels/check_run.h"
#include "tests/kernels/oracle_fovea.h"
#include "train/ref/training.h"

enum {
    TOKENS = 7,
    WIDTH = 5,
    OUT = 3,
    GRID_W = 3,
    GRID_H = 2,
    TABLE_W = 2,
    TABLE_H = 4,
    PREFIX = 1
};

/* An operation, and its gradient with respect to one operand. The loss is the sum of the results,
 * each multiplied by its own random factor. */
typedef struct pair {
    const char *name;
    check_case forward, grad;
    int of;            /* operand of `forward` that is varied */
    int dout;          /* operand of `grad` with the loss's factors, or -1 if they are all 1 */
    uint32_t row, col; /* row and column of `grad` that hold element (0, 0) of the gradient */
    void (*follow)(check_case *forward); /* updates operands that depend on the varied one */
    fv_posemb_table taps;                /* POSEMB */
} pair;

static check_random state = {7};

/* Returns a number to which the steps can be added without rounding. */
static float draw(void)
{
    return (float)(ldexp(floor(check_normal(&state) * 512), -9) + 0x1p-10);
}

static void begin(pair *p, enum fv_op forward, enum fv_op grad, int of, int dout)
{
    memset(p, 0, sizeof *p);
    p->forward.args.prob.op = (uint16_t)forward;
    p->grad.args.prob.op = (uint16_t)grad;
    p->name = fv_op_names[grad];
    p->of = of;
    p->dout = dout;
    p->forward.in_place = p->grad.in_place = p->forward.state = p->grad.state = -1;
    p->forward.args.prob.weight = p->grad.args.prob.weight = FV_F32;
}

static void operand(check_case *c, int i, enum check_kind kind, uint32_t rows, uint32_t cols)
{
    check_matrix(c, i, kind, rows, cols, 0);
    float *x = c->operand[i].data = check_must(calloc((size_t)rows * cols, sizeof *x));
    for (uint32_t k = 0; k < rows * cols; k++)
        x[k] = draw();
}

/* Makes an operand of `grad` equal to one of `forward`. */
static void share(pair *p, int grad, int forward)
{
    const check_operand *from = &p->forward.operand[forward];
    operand(&p->grad, grad, (enum check_kind)from->kind, from->rows, from->cols);
    memcpy(p->grad.operand[grad].data, from->data, check_extent(from));
}

/* Sets the sizes of both operations. */
static void sizes(pair *p, uint32_t d0, uint32_t d1, uint32_t d2, uint32_t g0, uint32_t g1,
                  uint32_t g2)
{
    const uint32_t forward[3] = {d0, d1, d2}, grad[3] = {g0, g1, g2};
    memcpy(p->forward.args.prob.dim, forward, sizeof forward);
    memcpy(p->grad.args.prob.dim, grad, sizeof grad);
}

static double loss(pair *p)
{
    const check_case *f = &p->forward;
    const check_op *op = check_ops[f->args.prob.op];
    const check_operand *out = &f->operand[check_output(f)];
    double *want = check_must(malloc(2 * out->cols * sizeof *want)), sum = 0;
    if (p->follow)
        p->follow(&p->forward);
    if (op->define)
        op->define(&p->forward);
    for (uint32_t r = 0; r < out->rows; r++) {
        op->oracle(f, r, want, want + out->cols);
        for (uint32_t i = 0; i < out->cols; i++)
            sum += want[i] * (p->dout < 0 ? 1 : check_at(&p->grad, p->dout, r, i));
    }
    free(want);
    return sum;
}

/* Differentiates with steps of h and 2 h, so that the error is of order h^4. */
static double difference(pair *p, uint32_t row, uint32_t col)
{
    const float h = 0x1p-8f;
    float *x = check_value(&p->forward, p->of, row, col), at = *x;
    double side[4];
    for (int i = 0; i < 4; i++) {
        *x = at + h * (float)(i < 2 ? i - 2 : i - 1);
        side[i] = loss(p);
    }
    *x = at;
    return (8 * (side[2] - side[1]) - (side[3] - side[0])) / (12 * (double)h);
}

static void undefine(check_case *c)
{
    const check_op *op = check_ops[c->args.prob.op];
    if (op->define)
        op->release(c);
}

static void release(pair *p)
{
    for (int i = 0; i < FV_OPERANDS; i++) {
        free(p->forward.operand[i].data);
        free(p->grad.operand[i].data);
    }
    undefine(&p->forward);
    undefine(&p->grad);
    fv_posemb_free(&p->taps);
}

static void compare(check_result *out, pair *p)
{
    const check_op *op = check_ops[p->grad.args.prob.op];
    const check_operand *x = &p->forward.operand[p->of];
    const uint32_t cols = p->grad.operand[check_output(&p->grad)].cols;
    double *want = check_must(malloc(2 * cols * sizeof *want)), worst = 0, most = 0;
    if (op->define)
        op->define(&p->grad);
    for (uint32_t r = 0; r < x->rows; r++) {
        op->oracle(&p->grad, p->row + r, want, want + cols);
        for (uint32_t i = 0; i < x->cols; i++) {
            worst = fmax(worst, fabs(want[p->col + i] - difference(p, r, i)));
            most = fmax(most, fabs(want[p->col + i]));
        }
    }
    if (most > 0 && worst <= 1e-6 * most)
        out->passed++;
    else if (!out->failed++)
        snprintf(out->first, sizeof out->first, "%s is %.2g of %.2g off its finite differences",
                 p->name, worst, most);
    free(want);
    release(p);
}

/* ---- the pairs ---- */

static void activation(pair *p, uint32_t epi)
{
    const uint32_t wide = epi & FV_EPI_SWIGLU ? 2 * WIDTH : WIDTH;
    begin(p, FV_OP_ACT, FV_OP_ACT_GRAD, FV_ACT_IN, FV_ACT_GRAD_DOUT);
    sizes(p, TOKENS, WIDTH, 0, TOKENS, WIDTH, 0);
    p->forward.args.prob.epi = p->grad.args.prob.epi = epi;
    operand(&p->forward, FV_ACT_IN, CHECK_ROW, TOKENS, wide);
    operand(&p->forward, FV_ACT_OUT, CHECK_ROW, TOKENS, WIDTH);
    share(p, FV_ACT_GRAD_IN, FV_ACT_IN);
    operand(&p->grad, FV_ACT_GRAD_DOUT, CHECK_ROW, TOKENS, WIDTH);
    operand(&p->grad, FV_ACT_GRAD_OUT, CHECK_ROW, TOKENS, wide);
}

/* Checks the gradient of the rows after a layer scale or, with `of_scale`, of the scale. */
static void scale(pair *p, bool of_scale)
{
    begin(p, FV_OP_ADD, of_scale ? FV_OP_SUM_ROWS : FV_OP_ADD, of_scale ? FV_ADD_SCALE : FV_ADD_IN,
          of_scale ? FV_SUM_B : FV_ADD_IN);
    sizes(p, TOKENS, WIDTH, 0, of_scale ? 1 : TOKENS, WIDTH, of_scale ? TOKENS : 0);
    operand(&p->forward, FV_ADD_IN, CHECK_ROW, TOKENS, WIDTH);
    operand(&p->forward, FV_ADD_SCALE, CHECK_BASE, 1, WIDTH);
    operand(&p->forward, FV_ADD_RES, CHECK_ROW, TOKENS, WIDTH);
    operand(&p->forward, FV_ADD_OUT, CHECK_ROW, TOKENS, WIDTH);
    if (of_scale) {
        share(p, FV_SUM_A, FV_ADD_IN);
        operand(&p->grad, FV_SUM_B, CHECK_BASE, TOKENS, WIDTH);
        operand(&p->grad, FV_SUM_OUT, CHECK_ROW, 1, WIDTH);
    } else {
        operand(&p->grad, FV_ADD_IN, CHECK_ROW, TOKENS, WIDTH);
        share(p, FV_ADD_SCALE, FV_ADD_SCALE);
        operand(&p->grad, FV_ADD_OUT, CHECK_ROW, TOKENS, WIDTH);
    }
}

static void product(pair *p, bool of_bias)
{
    begin(p, FV_OP_GEMM, of_bias ? FV_OP_SUM_ROWS : FV_OP_GEMM_GRAD_W,
          of_bias ? FV_GEMM_BIAS : FV_GEMM_W, of_bias ? FV_SUM_A : FV_GRAD_W_DOUT);
    sizes(p, TOKENS, OUT, WIDTH, of_bias ? 1 : OUT, of_bias ? OUT : WIDTH, TOKENS);
    p->forward.args.prob.epi = FV_EPI_BIAS;
    operand(&p->forward, FV_GEMM_A, CHECK_ROW, TOKENS, WIDTH);
    operand(&p->forward, FV_GEMM_W, CHECK_WEIGHT, OUT, WIDTH);
    operand(&p->forward, FV_GEMM_BIAS, CHECK_BASE, 1, OUT);
    operand(&p->forward, FV_GEMM_OUT, CHECK_ROW, TOKENS, OUT);
    operand(&p->grad, 0, CHECK_BASE, TOKENS, OUT);
    if (!of_bias)
        share(p, FV_GRAD_W_IN, FV_GEMM_A);
    operand(&p->grad, of_bias ? FV_SUM_OUT : FV_GRAD_W_OUT, CHECK_ROW, of_bias ? 1 : OUT,
            of_bias ? OUT : WIDTH);
}

static void norm(pair *p, int of)
{
    const bool rows = of == FV_LN_IN;
    begin(p, FV_OP_LAYERNORM, rows ? FV_OP_LAYERNORM_GRAD : FV_OP_LAYERNORM_GRAD_W, of,
          rows ? FV_LN_GRAD_DOUT : FV_LN_GRAD_W_DOUT);
    sizes(p, TOKENS, WIDTH, 0, rows ? TOKENS : 2, WIDTH, rows ? 0 : TOKENS);
    p->forward.args.f[0] = p->grad.args.f[0] = 1e-3f;
    p->row = of == FV_LN_BIAS;
    operand(&p->forward, FV_LN_IN, CHECK_ROW, TOKENS, WIDTH);
    operand(&p->forward, FV_LN_WEIGHT, CHECK_BASE, 1, WIDTH);
    operand(&p->forward, FV_LN_BIAS, CHECK_BASE, 1, WIDTH);
    operand(&p->forward, FV_LN_OUT, CHECK_ROW, TOKENS, WIDTH);
    share(p, 0, FV_LN_IN);
    if (rows)
        share(p, FV_LN_GRAD_WEIGHT, FV_LN_WEIGHT);
    operand(&p->grad, p->dout, CHECK_ROW, TOKENS, WIDTH);
    operand(&p->grad, rows ? FV_LN_GRAD_OUT : FV_LN_GRAD_W_OUT, CHECK_ROW, rows ? TOKENS : 2,
            WIDTH);
}

static void positions(pair *p, int of, enum fv_pos_rule rule)
{
    const uint32_t tokens = PREFIX + GRID_W * GRID_H, rows = PREFIX + TABLE_W * TABLE_H;
    const uint32_t u[3] = {PREFIX, GRID_W, TABLE_W};
    begin(p, FV_OP_POSEMB, FV_OP_POSEMB_GRAD, of, FV_POSEMB_GRAD_DOUT);
    sizes(p, tokens, WIDTH, 0, rows, WIDTH, tokens);
    if (fv_posemb_plan(&p->taps, rule, TABLE_W, TABLE_H, GRID_W, GRID_H))
        abort();
    p->forward.args.table = p->grad.args.table = &p->taps;
    memcpy(p->forward.args.u, u, sizeof u);
    memcpy(p->grad.args.u, u, sizeof u);
    p->row = of == FV_POSEMB_TABLE ? PREFIX : 0;
    operand(&p->forward, FV_POSEMB_IN, CHECK_ROW, tokens, WIDTH);
    operand(&p->forward, FV_POSEMB_PREFIX, CHECK_BASE, PREFIX, WIDTH);
    operand(&p->forward, FV_POSEMB_TABLE, CHECK_BASE, TABLE_W * TABLE_H, WIDTH);
    operand(&p->forward, FV_POSEMB_OUT, CHECK_ROW, tokens, WIDTH);
    operand(&p->grad, FV_POSEMB_GRAD_DOUT, CHECK_BASE, tokens, WIDTH);
    operand(&p->grad, FV_POSEMB_GRAD_OUT, CHECK_ROW, rows, WIDTH);
}

static void picked(pair *p, bool mean)
{
    const uint32_t rows = mean ? 1 : 3;
    begin(p, mean ? FV_OP_MEAN_REDUCE : FV_OP_TAKE, mean ? FV_OP_MEAN_GRAD : FV_OP_TAKE_GRAD, 0,
          FV_ROW_GRAD_DOUT);
    sizes(p, mean ? TOKENS : rows, WIDTH, mean, TOKENS, WIDTH, 0);
    p->forward.args.u[0] = p->grad.args.u[0] = 2;
    p->grad.args.u[1] = mean ? 0 : rows;
    p->forward.args.f[0] = p->grad.args.f[0] = 0.2f;
    operand(&p->forward, 0, CHECK_ROW, TOKENS, WIDTH);
    operand(&p->forward, 1, mean ? CHECK_PARTIAL : CHECK_ROW, rows, WIDTH);
    operand(&p->grad, FV_ROW_GRAD_DOUT, CHECK_BASE, rows, WIDTH);
    operand(&p->grad, FV_ROW_GRAD_OUT, CHECK_ROW, TOKENS, WIDTH);
}

/* Checks the gradient of UPSAMPLE's input, on a grid that grows along one side and shrinks along
 * the other. */
static void resized(pair *p, uint32_t flags)
{
    enum { WIDE = 7, HIGH = 1 };
    const uint32_t u[] = {GRID_W, GRID_H, WIDE}, g[] = {GRID_W, WIDE, HIGH};
    begin(p, FV_OP_UPSAMPLE, FV_OP_UPSAMPLE_GRAD, FV_UPSAMPLE_IN, FV_ROW_GRAD_DOUT);
    sizes(p, WIDE * HIGH, WIDTH, 0, GRID_W * GRID_H, WIDTH, 0);
    p->forward.args.prob.flags = p->grad.args.prob.flags = flags;
    memcpy(p->forward.args.u, u, sizeof u);
    memcpy(p->grad.args.u, g, sizeof g);
    operand(&p->forward, FV_UPSAMPLE_IN, CHECK_BASE, GRID_W * GRID_H, WIDTH);
    operand(&p->forward, FV_UPSAMPLE_RES, CHECK_ROW, WIDE * HIGH, WIDTH);
    operand(&p->forward, FV_UPSAMPLE_OUT, CHECK_ROW, WIDE * HIGH, WIDTH);
    operand(&p->grad, FV_ROW_GRAD_DOUT, CHECK_BASE, WIDE * HIGH, WIDTH);
    operand(&p->grad, FV_ROW_GRAD_OUT, CHECK_ROW, GRID_W * GRID_H, WIDTH);
}

/* Checks the gradient of the filters, of the biases or of the input, which is a convolution with
 * the flipped filters. Four channels share two filters. */
static void convolution(pair *p, int of)
{
    enum { GRIDS = 2, CHANNELS = 4, FILTERS = 2, SIZE = 3, TAPS = SIZE * SIZE };
    const uint32_t tokens = GRID_W * GRID_H * GRIDS;
    const bool seen = of == FV_DWCONV_IN;
    begin(p, FV_OP_DWCONV, seen ? FV_OP_DWCONV : FV_OP_DWCONV_GRAD_W, of,
          seen ? FV_DWCONV_IN : FV_DWCONV_GRAD_W_DOUT);
    sizes(p, tokens, CHANNELS, SIZE, seen ? tokens : FILTERS, CHANNELS, SIZE);
    for (int i = 0; i < 2; i++) {
        check_case *c = i ? &p->grad : &p->forward;
        c->args.prob.dim[FV_DWCONV_HEIGHT] = GRID_H;
        c->args.u[0] = GRID_W;
        c->args.u[1] = FILTERS;
    }
    operand(&p->forward, FV_DWCONV_IN, CHECK_BASE, tokens, CHANNELS);
    operand(&p->forward, FV_DWCONV_W, CHECK_BASE, FILTERS, TAPS);
    operand(&p->forward, FV_DWCONV_BIAS, CHECK_BASE, FILTERS, 1);
    operand(&p->forward, FV_DWCONV_RES, CHECK_ROW, tokens, CHANNELS);
    operand(&p->forward, FV_DWCONV_OUT, CHECK_ROW, tokens, CHANNELS);
    if (seen) {
        operand(&p->grad, FV_DWCONV_IN, CHECK_BASE, tokens, CHANNELS);
        operand(&p->grad, FV_DWCONV_W, CHECK_BASE, FILTERS, TAPS);
        for (uint32_t f = 0; f < FILTERS; f++)
            for (uint32_t t = 0; t < TAPS; t++)
                *check_value(&p->grad, FV_DWCONV_W, f, t) =
                    *check_value(&p->forward, FV_DWCONV_W, f, TAPS - 1 - t);
        operand(&p->grad, FV_DWCONV_OUT, CHECK_ROW, tokens, CHANNELS);
        return;
    }
    p->grad.args.prob.dim[FV_DWCONV_TOKENS] = tokens;
    p->col = of == FV_DWCONV_BIAS ? TAPS : 0;
    share(p, FV_DWCONV_GRAD_W_IN, FV_DWCONV_IN);
    operand(&p->grad, FV_DWCONV_GRAD_W_DOUT, CHECK_BASE, tokens, CHANNELS);
    operand(&p->grad, FV_DWCONV_GRAD_W_OUT, CHECK_ROW, FILTERS, TAPS + 1);
}

static void factor(pair *p, int of)
{
    const int other = of == FV_MUL_A ? FV_MUL_B : FV_MUL_A;
    begin(p, FV_OP_MUL, FV_OP_MUL, of, of);
    sizes(p, TOKENS, WIDTH, 0, TOKENS, WIDTH, 0);
    for (int o = FV_MUL_A; o <= FV_MUL_OUT; o++)
        operand(&p->forward, o, CHECK_ROW, TOKENS, WIDTH);
    operand(&p->grad, of, CHECK_ROW, TOKENS, WIDTH);
    share(p, other, other);
    operand(&p->grad, FV_MUL_OUT, CHECK_ROW, TOKENS, WIDTH);
}

/* Checks a gather that permutes rows and sets some to zero: the gradient is gathered with the
 * inverse permutation. */
static void gathered(pair *p)
{
    static const uint32_t from[] = {FV_GATHER_NONE, 2, 0, FV_GATHER_NONE, 1}, back[] = {2, 4, 1};
    enum { ROWS = sizeof from / sizeof *from, SEEN = sizeof back / sizeof *back };
    begin(p, FV_OP_GATHER, FV_OP_GATHER, FV_GATHER_IN, FV_GATHER_IN);
    sizes(p, ROWS, WIDTH, 1, SEEN, WIDTH, 1);
    p->forward.args.table = from;
    p->grad.args.table = back;
    operand(&p->forward, FV_GATHER_IN, CHECK_BASE, SEEN, WIDTH);
    operand(&p->forward, FV_GATHER_RES, CHECK_ROW, ROWS, WIDTH);
    operand(&p->forward, FV_GATHER_OUT, CHECK_ROW, ROWS, WIDTH);
    operand(&p->grad, FV_GATHER_IN, CHECK_BASE, ROWS, WIDTH);
    operand(&p->grad, FV_GATHER_OUT, CHECK_ROW, SEEN, WIDTH);
}

static void distance(pair *p, uint32_t flags)
{
    begin(p, FV_OP_MSE_LOSS, FV_OP_MSE_GRAD, FV_MSE_A, -1);
    sizes(p, TOKENS, WIDTH, 0, TOKENS, WIDTH, 0);
    p->forward.args.prob.flags = p->grad.args.prob.flags = flags;
    p->grad.args.f[0] = 2.f;
    operand(&p->forward, FV_MSE_A, CHECK_ROW, TOKENS, WIDTH);
    operand(&p->forward, FV_MSE_B, CHECK_ROW, TOKENS, WIDTH);
    operand(&p->forward, FV_MSE_OUT, CHECK_ROW, TOKENS, 1);
    share(p, FV_MSE_A, FV_MSE_A);
    share(p, FV_MSE_B, FV_MSE_B);
    operand(&p->grad, FV_MSE_OUT, CHECK_ROW, TOKENS, WIDTH);
}

static void entropy(pair *p)
{
    begin(p, FV_OP_CROSS_ENTROPY_LOSS, FV_OP_CROSS_ENTROPY_GRAD, FV_ENTROPY_LOGITS, -1);
    sizes(p, TOKENS, WIDTH, 0, TOKENS, WIDTH, 0);
    operand(&p->forward, FV_ENTROPY_LOGITS, CHECK_ROW, TOKENS, WIDTH);
    operand(&p->forward, FV_ENTROPY_LABELS, CHECK_ROW, TOKENS, 2);
    operand(&p->forward, FV_ENTROPY_OUT, CHECK_ROW, TOKENS, 1);
    for (uint32_t r = 0; r < TOKENS; r++)
        *check_value(&p->forward, FV_ENTROPY_LABELS, r, 0) = (float)(r % (WIDTH + 1));
    share(p, FV_ENTROPY_LOGITS, FV_ENTROPY_LOGITS);
    share(p, FV_ENTROPY_LABELS, FV_ENTROPY_LABELS);
    operand(&p->grad, FV_ENTROPY_OUT, CHECK_ROW, TOKENS, WIDTH);
}

static void mask(check_case *c)
{
    enum { MASK_W = 8, MASK_H = 5 };
    check_matrix(c, FV_SEGMENT_MASK, CHECK_BASE, MASK_H, MASK_W, 0);
    c->operand[FV_SEGMENT_MASK].type = c->operand[FV_SEGMENT_MASK].storage = FV_U8;
    uint8_t *class = c->operand[FV_SEGMENT_MASK].data = check_must(malloc(MASK_W * MASK_H));
    for (int i = 0; i < MASK_W * MASK_H; i++)
        class[i] = (uint8_t)(i % 11 == 3 ? 255 : i * 7 % (WIDTH + 1));
    c->args.prob.dim[FV_SEGMENT_GRID] = GRID_W;
    c->args.prob.dim[FV_SEGMENT_WIDTH] = MASK_W;
    c->args.prob.dim[FV_SEGMENT_HEIGHT] = MASK_H;
}

static void segments(pair *p)
{
    const uint32_t tokens = GRID_W * GRID_H;
    begin(p, FV_OP_SEGMENT_LOSS, FV_OP_SEGMENT_GRAD, FV_SEGMENT_LOGITS, -1);
    sizes(p, tokens, WIDTH, 0, tokens, WIDTH, 0);
    operand(&p->forward, FV_SEGMENT_LOGITS, CHECK_BASE, tokens, WIDTH);
    operand(&p->forward, FV_SEGMENT_WEIGHT, CHECK_BASE, 1, 1);
    operand(&p->forward, FV_SEGMENT_OUT, CHECK_ROW, tokens, 1);
    share(p, FV_SEGMENT_LOGITS, FV_SEGMENT_LOGITS);
    share(p, FV_SEGMENT_WEIGHT, FV_SEGMENT_WEIGHT);
    operand(&p->grad, FV_SEGMENT_OUT, CHECK_ROW, tokens, WIDTH);
    mask(&p->forward);
    mask(&p->grad);
}

/* Computes the means of the cells of K and V. */
static void take_means(check_case *c)
{
    const fovea_grid g = fovea_grid_of(c);
    fovea_area a;
    for (uint32_t cell = 0; fovea_grid_cell(&g, cell, &a) > 0; cell++)
        for (int of = FV_FOVEATED_K; of <= FV_FOVEATED_V; of++)
            for (uint32_t i = 0; i < c->operand[of].cols; i++) {
                double sum = 0;
                for (int64_t y = a.y0; y < a.y1; y++)
                    for (int64_t x = a.x0; x < a.x1; x++)
                        sum += check_at(c, of, g.prefix + (uint32_t)(y * g.width + x), i);
                *check_value(c, of + FV_FOVEATED_CELL_K - FV_FOVEATED_K, cell, i) =
                    (float)(sum / fovea_area_tokens(&a));
            }
}

extern const check_op check_foveated;

/* Checks foveated attention on a grid whose cells each have a power of two of tokens, so that means
 * are not rounded. */
static void foveated(pair *p, int of)
{
    enum { HEADS = 2, D = 2, DV = 1, COLUMNS = HEADS * (2 * D + DV) };
    static const uint32_t cols[] = {HEADS * D, HEADS * D, HEADS * DV};
    begin(p, FV_OP_FOVEATED, FV_OP_FOVEATED_GRAD, of, FV_FOVEATED_GRAD_DOUT);
    for (int i = 0; i < 2; i++) {
        check_case *c = i ? &p->grad : &p->forward;
        const uint32_t tokens = fovea_grid_set(c, PREFIX, 21, 2);
        c->args.prob.heads = HEADS;
        c->args.prob.dim[FV_DIM_ROWS] = tokens;
        c->args.prob.dim[FV_ATTN_D] = D;
        c->args.prob.dim[FV_ATTN_DV] = DV;
        c->args.prob.dim[FV_FOVEA_MARGIN] = 1;
        c->args.f[0] = 0.5f;
    }
    const fovea_grid g = fovea_grid_of(&p->forward);
    const uint32_t tokens = p->forward.args.prob.dim[FV_DIM_ROWS], cells = fovea_grid_cells(&g);
    for (int o = FV_FOVEATED_Q; o <= FV_FOVEATED_CELL_V; o++)
        operand(&p->forward, o, CHECK_BASE, o < FV_FOVEATED_CELL_K ? tokens : cells,
                cols[o < FV_FOVEATED_CELL_K ? o : o - FV_FOVEATED_CELL_K + FV_FOVEATED_K]);
    operand(&p->forward, FV_FOVEATED_OUT, CHECK_ROW, tokens, HEADS * DV);
    take_means(&p->forward);
    for (int o = FV_FOVEATED_Q; o <= FV_FOVEATED_CELL_V; o++)
        share(p, o, o);
    operand(&p->grad, FV_FOVEATED_GRAD_FORWARD, CHECK_ROW, tokens, HEADS * DV);
    for (uint32_t r = 0; r < tokens; r++) {
        double want[2 * HEADS * DV];
        check_foveated.oracle(&p->forward, r, want, want + HEADS * DV);
        for (uint32_t i = 0; i < HEADS * DV; i++)
            *check_value(&p->grad, FV_FOVEATED_GRAD_FORWARD, r, i) = (float)want[i];
    }
    operand(&p->grad, FV_FOVEATED_GRAD_DOUT, CHECK_ROW, tokens, HEADS * DV);
    operand(&p->grad, FV_FOVEATED_GRAD_OUT, CHECK_ROW, tokens, COLUMNS);
    p->follow = take_means;
    p->col = of == FV_FOVEATED_Q ? 0 : of == FV_FOVEATED_K ? HEADS * D : 2 * HEADS * D;
}

void check_differences(check_result *out)
{
    pair p;
    for (uint32_t i = 0; i <= FV_ACTIVATIONS; i++) {
        activation(&p, i < FV_ACTIVATIONS ? fv_activations[i].epi : FV_EPI_SWIGLU);
        compare(out, &p);
    }
    for (int i = 0; i < 2; i++) {
        scale(&p, i);
        compare(out, &p);
        product(&p, i);
        compare(out, &p);
        picked(&p, i);
        compare(out, &p);
        positions(&p, i ? FV_POSEMB_TABLE : FV_POSEMB_PREFIX, FV_POS_PLAIN);
        compare(out, &p);
        positions(&p, FV_POSEMB_TABLE, i ? FV_POS_BILINEAR : FV_POS_AA);
        compare(out, &p);
    }
    for (int of = FV_LN_IN; of <= FV_LN_BIAS; of++) {
        norm(&p, of);
        compare(out, &p);
    }
    for (int of = FV_DWCONV_IN; of <= FV_DWCONV_BIAS; of++) {
        convolution(&p, of);
        compare(out, &p);
    }
    for (int of = FV_MUL_A; of <= FV_MUL_B; of++) {
        factor(&p, of);
        compare(out, &p);
    }
    gathered(&p);
    compare(out, &p);
    resized(&p, 0);
    compare(out, &p);
    resized(&p, FV_FLAG_ALIGN_CORNERS);
    compare(out, &p);
    for (int of = FV_FOVEATED_Q; of <= FV_FOVEATED_V; of++) {
        foveated(&p, of);
        compare(out, &p);
    }
    distance(&p, 0);
    compare(out, &p);
    distance(&p, FV_FLAG_RELATIVE);
    compare(out, &p);
    entropy(&p);
    compare(out, &p);
    segments(&p);
    compare(out, &p);
}
