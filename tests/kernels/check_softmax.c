/* check_softmax.c: cases and definition of SOFTMAX. */
#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "tests/kernels/check_softmax.h"

static bool make(check_case *c, uint32_t index)
{
    static const struct {
        uint32_t rows, heads, d, dv, keys, gap, flags;
    } sizes[] = {
        {1, 1, 1, 1, 1, 0, 0},
        {5, 2, 3, 7, 65, 1, 0},
        {17, 1, 16, 16, 17, 0, FV_FLAG_CAUSAL},
        {33, 3, 64, 64, 63, 5, 0},
        {31, 2, 9, 1, 129, 0, 0},
        {1, 4, 32, 48, 200, 0, 0},
        {130, 1, 72, 33, 130, 2, FV_FLAG_CAUSAL},
        {259, 1, 5, 9, 37, 0, 0},
        {300, 1, 8, 8, 300, 0, FV_FLAG_CAUSAL},
        {3, 1, 256, 255, 67, 0, 0},
        {256, 3, 64, 64, 5477, 0, 0},
    };
    if (index >= sizeof sizes / sizeof *sizes)
        return false;
    const uint32_t heads = sizes[index].heads, d = sizes[index].d, dv = sizes[index].dv;
    c->args.prob.heads = (uint16_t)heads;
    c->args.prob.flags = sizes[index].flags;
    c->args.prob.dim[FV_DIM_ROWS] = sizes[index].rows;
    c->args.prob.dim[FV_ATTN_D] = d;
    c->args.prob.dim[FV_ATTN_DV] = dv;
    c->args.prob.dim[FV_ATTN_KEYS] = sizes[index].keys;
    c->args.f[0] = 1.f / sqrtf((float)d);
    check_matrix(c, FV_SOFTMAX_Q, CHECK_ROW, sizes[index].rows, heads * d, sizes[index].gap);
    check_matrix(c, FV_SOFTMAX_K, CHECK_BASE, sizes[index].keys, heads * d, sizes[index].gap);
    check_matrix(c, FV_SOFTMAX_V, CHECK_BASE, sizes[index].keys, heads * dv, sizes[index].gap);
    check_matrix(c, FV_SOFTMAX_OUT, CHECK_ROW, sizes[index].rows, heads * dv, sizes[index].gap);
    /* Scores far beyond the range of exp, while one can still say which key wins. */
    c->operand[FV_SOFTMAX_Q].huge = c->operand[FV_SOFTMAX_K].huge = 30.f;
    c->bench = sizes[index].rows == 256;
    return true;
}

/* Scores of all keys before `keys`, and the largest error that one may have. */
static double scores(const check_case *c, uint32_t row, uint32_t head, uint32_t keys, double *s)
{
    const uint32_t d = c->args.prob.dim[FV_ATTN_D];
    double error = 0.;
    for (uint32_t j = 0; j < keys; j++) {
        double dot = 0., size = 0.;
        for (uint32_t i = 0; i < d; i++) {
            const double x = check_at(c, FV_SOFTMAX_Q, row, head * d + i) *
                             check_at(c, FV_SOFTMAX_K, j, head * d + i) * c->args.f[0];
            dot += x;
            size += fabs(x);
        }
        s[j] = dot;
        error = fmax(error, check_allowed(d + 4., size));
    }
    return error;
}

void check_softmax_mean(const check_case *c, int v, uint32_t row0, uint32_t keys, uint32_t col,
                        uint32_t n, double *s, double error, double *want, double *allowed)
{
    double max = s[0], sum = 0.;
    for (uint32_t j = 0; j < keys; j++)
        max = fmax(max, s[j]);
    for (uint32_t j = 0; j < keys; j++)
        sum += s[j] = exp(s[j] - max);
    for (uint32_t i = 0; i < n; i++) {
        double out = 0., size = 0., largest = 0.;
        for (uint32_t j = 0; j < keys; j++) {
            const double x = check_at(c, v, row0 + j, col + i);
            out += s[j] / sum * x;
            size += s[j] / sum * fabs(x);
            largest = fmax(largest, fabs(x));
        }
        want[i] = out;
        /* Each weight is wrong by a factor of at most e^error, so is their sum. */
        allowed[i] = fmin(expm1(2. * error) * size + 2. * check_allowed(keys, size), 2. * largest) +
                     FLT_MIN * (keys + largest);
    }
}

static void oracle(const check_case *c, uint32_t row, double *want, double *allowed)
{
    const uint32_t dv = c->args.prob.dim[FV_ATTN_DV];
    uint32_t keys = c->args.prob.dim[FV_ATTN_KEYS];
    if (c->args.prob.flags & FV_FLAG_CAUSAL && row < keys)
        keys = row + 1;
    double *s = malloc(keys * sizeof *s);
    for (uint32_t h = 0; h < c->args.prob.heads; h++) {
        const double error = scores(c, row, h, keys, s);
        check_softmax_mean(c, FV_SOFTMAX_V, 0, keys, h * dv, dv, s, error, want + h * dv,
                           allowed + h * dv);
    }
    free(s);
}

const check_op check_softmax = {.make = make, .oracle = oracle};
