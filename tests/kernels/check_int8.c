/* check_int8.c: int8 weights of GEMM and CONV, and the operands of int8 products, by the definition
 * in src/ops/quantise.h. */
#include <math.h>
#include <stdlib.h>

#include "ops/contracts/product.h"
#include "tests/kernels/check_run.h"

/* Rows of A (only for int8 products) and then of W: k values each, followed by the row's scale. */
struct rows {
    uint32_t k;
    double *value;
};

/* Returns whether the case multiplies int8 values, instead of only storing weights as int8. */
static bool multiplies(const check_case *c)
{
    return c->args.prob.acc == FV_I32;
}

/* Returns the number of rows of A that are quantised. The A of CONV is drawn as int8 values. */
static uint32_t rows_of_a(const check_case *c)
{
    return multiplies(c) && c->args.prob.op == FV_OP_GEMM ? c->operand[FV_GEMM_A].rows : 0;
}

static double *row_of(const check_case *c, int operand, uint32_t row)
{
    const struct rows *all = c->definition;
    const uint32_t before = operand == FV_GEMM_W ? rows_of_a(c) : 0;
    return all->value + (size_t)(before + row) * (all->k + 1);
}

/* Applies a Hadamard transform to n values: sums of both halves, then differences, recursively. */
static void transform(float *x, uint32_t n)
{
    const uint32_t half = n / 2;
    for (uint32_t i = 0; i < half; i++) {
        const float a = x[i], b = x[half + i];
        x[i] = a + b;
        x[half + i] = a - b;
    }
    if (half > 1) {
        transform(x, half);
        transform(x + half, half);
    }
}

/* Returns the largest power of two up to 64 that divides the number of channels. */
static uint32_t block_of(uint32_t channels)
{
    uint32_t block = 1;
    while (block < 64 && channels % (2 * block) == 0)
        block *= 2;
    return block;
}

void check_int8_rotate(float *x, uint32_t k, uint32_t channels)
{
    const uint32_t block = block_of(channels);
    for (uint32_t at = 0; at < k; at += block)
        transform(x + at, block);
}

float check_int8_numbers(int8_t *q, const float *x, uint32_t n, size_t step)
{
    double top = 0;
    for (uint32_t i = 0; i < n; i++)
        top = !isfinite(x[i]) ? NAN : fabs((double)x[i]) <= top || isnan(top) ? top : fabs(x[i]);
    const bool finite = isfinite(top), none = top < 0x1p-100;
    for (uint32_t i = 0; i < n; i++)
        q[i * step] = finite && !none ? (int8_t)nearbyint((double)(x[i] * (127 / (float)top))) : 0;
    return none ? 0.f : finite ? (float)top / 127 : NAN;
}

static void quantise(const check_case *c, int operand, uint32_t row)
{
    const uint32_t *dim = c->args.prob.dim, k = dim[FV_GEMM_K];
    const uint32_t channels = c->args.prob.op == FV_OP_CONV ? dim[FV_CONV_C] : k;
    double *out = row_of(c, operand, row), top = 0;
    const uint32_t block = multiplies(c) ? block_of(channels) : 1;
    for (uint32_t at = 0; at < k; at += block) {
        float x[64];
        for (uint32_t i = 0; i < block; i++)
            x[i] = (float)check_at(c, operand, row, at + i);
        transform(x, block);
        for (uint32_t i = 0; i < block; i++) {
            out[at + i] = operand == FV_GEMM_W ? x[i] / (float)block : x[i];
            top = fabs(out[at + i]) <= top ? top : fabs(out[at + i]);
        }
    }
    const float scale = (float)top / 127, factor = 127 / (float)top;
    out[k] = top < 0x1p-100 ? 0 : isfinite(top) ? scale : NAN;
    for (uint32_t i = 0; i < k; i++)
        out[i] = out[k] > 0 ? nearbyint((double)((float)out[i] * factor)) : 0;
}

void check_int8_release(check_case *c)
{
    struct rows *all = c->definition;
    if (all)
        free(all->value);
    free(all);
}

void check_int8_define(check_case *c)
{
    if (c->args.prob.weight != FV_I8)
        return;
    const uint32_t rows[] = {rows_of_a(c), c->operand[FV_GEMM_W].rows};
    const size_t k = c->args.prob.dim[FV_GEMM_K];
    check_int8_release(c);
    struct rows *all = c->definition = check_must(malloc(sizeof *all));
    all->k = (uint32_t)k;
    all->value = check_must(malloc((rows[0] + rows[1]) * (k + 1) * sizeof *all->value));
    for (int operand = FV_GEMM_A; operand <= FV_GEMM_W; operand++)
        for (uint32_t i = 0; i < rows[operand]; i++)
            quantise(c, operand, i);
}

const double *check_int8_row(const check_case *c, int operand, uint32_t row)
{
    return row_of(c, operand, row);
}

/* Sets one row to zero and makes another one NaN through an infinity. */
void check_int8_prepare(check_case *c, check_random *r)
{
    const check_operand *w = &c->operand[FV_GEMM_W];
    if (c->args.prob.weight != FV_I8 || multiplies(c) || w->rows < 3)
        return;
    const uint32_t row = check_below(r, w->rows - 1);
    for (uint32_t k = 0; k < w->cols; k++)
        *check_value(c, FV_GEMM_W, row, k) = 0;
    *check_value(c, FV_GEMM_W, row + 1, check_below(r, w->cols)) = INFINITY;
}

double check_weight(const check_case *c, uint32_t n, uint32_t k)
{
    if (c->args.prob.weight != FV_I8)
        return check_round(c->args.prob.weight, check_at(c, FV_GEMM_W, n, k));
    const double *row = row_of(c, FV_GEMM_W, n);
    return (float)row[k] * (float)row[c->args.prob.dim[FV_GEMM_K]];
}
