/* check_layernorm_grad.c: LAYERNORM_GRAD and LAYERNORM_GRAD_W. */
#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "tests/kernels/check_run.h"
#include "tests/kernels/gradients.h"
#include "train/ref/training.h"

static const struct {
    uint32_t rows, width, gap;
    int in_place; /* of LAYERNORM_GRAD */
    bool adds;    /* LAYERNORM_GRAD_W: adds to the output; LAYERNORM_GRAD: has a RES operand */
} sizes[] = {
    {1, 1, 0, -1, false},
    {3, 15, 1, FV_LN_GRAD_IN, true},
    {5, 16, 0, FV_LN_GRAD_DOUT, false},
    {2, 65, 3, FV_LN_GRAD_RES, true},
    {300, 129, 0, -1, true},
    {9, 768, 0, FV_LN_GRAD_RES, true},
    {1025, 384, 0, FV_LN_GRAD_RES, true},
};
enum { SIZES = sizeof sizes / sizeof *sizes };

static bool make(check_case *c, uint32_t index)
{
    if (index >= SIZES)
        return false;
    const uint32_t rows = sizes[index].rows, width = sizes[index].width, gap = sizes[index].gap;
    c->args.prob.dim[FV_DIM_ROWS] = rows;
    c->args.prob.dim[FV_ROW_C] = width;
    c->args.f[0] = 1e-6f;
    check_matrix(c, FV_LN_GRAD_IN, CHECK_ROW, rows, width, gap);
    check_vector(c, FV_LN_GRAD_WEIGHT, width);
    check_matrix(c, FV_LN_GRAD_DOUT, CHECK_ROW, rows, width, gap);
    if (sizes[index].adds)
        check_matrix(c, FV_LN_GRAD_RES, CHECK_ROW, rows, width, gap);
    check_matrix(c, FV_LN_GRAD_OUT, CHECK_ROW, rows, width, gap);
    c->in_place = sizes[index].in_place;
    c->bench = rows == 1025;
    return true;
}

/* One normalised row of the input, and the error that float32 may make in each value. */
typedef struct norm {
    double *in, *weight, *dout, *dx, *unit, *off;
    double scale;
} norm;

static norm norm_open(uint32_t n)
{
    double *p = check_must(calloc(6 * (size_t)n, sizeof *p));
    return (norm){p, p + n, p + 2 * n, p + 3 * n, p + 4 * n, p + 5 * n, 0};
}

static void norm_row(norm *s, const check_case *c, int in, int dout, uint32_t row)
{
    const uint32_t n = c->args.prob.dim[FV_ROW_C];
    double size = 0;
    for (uint32_t i = 0; i < n; i++) {
        s->in[i] = check_at(c, in, row, i);
        s->dout[i] = check_at(c, dout, row, i);
        size += fabs(s->in[i]);
    }
    s->scale = grad_norm_back(s->dx, s->unit, s->in, s->weight, s->dout, n, (double)c->args.f[0]);
    const double off = check_allowed(n, size) / n * s->scale;
    for (uint32_t i = 0; i < n; i++)
        s->off[i] =
            off + fabs(s->unit[i]) * (off * off + check_allowed(n, 1)) + FLT_MIN * (1 + s->scale);
}

static void oracle(const check_case *c, uint32_t row, double *want, double *allowed)
{
    const uint32_t n = c->args.prob.dim[FV_ROW_C];
    norm s = norm_open(n);
    for (uint32_t i = 0; i < n; i++)
        s.weight[i] = check_at(c, FV_LN_GRAD_WEIGHT, 0, i);
    norm_row(&s, c, FV_LN_GRAD_IN, FV_LN_GRAD_DOUT, row);
    double size = 0, along = 0, along_off = 0;
    for (uint32_t i = 0; i < n; i++) {
        const double g = fabs(s.weight[i] * s.dout[i]) + FLT_MIN;
        size += g / n;
        along += g * fabs(s.unit[i]) / n;
        along_off += g * s.off[i] / n;
    }
    along_off += check_allowed(n, along);
    for (uint32_t i = 0; i < n; i++) {
        const double g = fabs(s.weight[i] * s.dout[i]), x = fabs(s.unit[i]);
        const double res =
            c->operand[FV_LN_GRAD_RES].kind ? check_at(c, FV_LN_GRAD_RES, row, i) : 0;
        want[i] = res + s.dx[i];
        allowed[i] = s.scale * (check_allowed(n, g + size + x * along) + s.off[i] * along +
                                (x + s.off[i]) * along_off + 4 * FLT_MIN) +
                     fabs(s.dx[i]) * s.off[i] + check_allowed(2, fabs(res) + fabs(s.dx[i]));
    }
    free(s.in);
}

static bool make_weights(check_case *c, uint32_t index)
{
    if (index >= SIZES)
        return false;
    const uint32_t tokens = sizes[index].rows, width = sizes[index].width, gap = sizes[index].gap;
    c->args.prob.dim[FV_DIM_ROWS] = 2;
    c->args.prob.dim[FV_ROW_C] = width;
    c->args.prob.dim[FV_GRAD_TOKENS] = tokens;
    c->args.f[0] = 1e-6f;
    check_matrix(c, FV_LN_GRAD_W_IN, CHECK_BASE, tokens, width, gap);
    check_matrix(c, FV_LN_GRAD_W_DOUT, CHECK_BASE, tokens, width, gap);
    check_matrix(c, FV_LN_GRAD_W_OUT, CHECK_ROW, 2, width, gap);
    c->adds = sizes[index].adds;
    c->args.prob.flags = c->adds ? FV_FLAG_ACCUMULATE : 0;
    c->bench = tokens == 1025;
    return true;
}

static void weights_oracle(const check_case *c, uint32_t row, double *want, double *allowed)
{
    const uint32_t n = c->args.prob.dim[FV_ROW_C], tokens = c->args.prob.dim[FV_GRAD_TOKENS];
    double *size = check_must(calloc(n, sizeof *size));
    norm s = norm_open(n);
    for (uint32_t i = 0; i < n; i++) {
        want[i] = c->adds ? check_at(c, FV_LN_GRAD_W_OUT, row, i) : 0;
        size[i] = fabs(want[i]);
        allowed[i] = 0;
    }
    for (uint32_t t = 0; t < tokens; t++) {
        norm_row(&s, c, FV_LN_GRAD_W_IN, FV_LN_GRAD_W_DOUT, t);
        for (uint32_t i = 0; i < n; i++) {
            const double x = row ? 1 : s.unit[i];
            want[i] += s.dout[i] * x;
            size[i] += fabs(s.dout[i] * x);
            allowed[i] += row ? 0 : fabs(s.dout[i]) * s.off[i];
        }
    }
    for (uint32_t i = 0; i < n; i++)
        allowed[i] += check_allowed(tokens < 256 ? tokens : 256, size[i]) + tokens * FLT_MIN;
    free(size);
    free(s.in);
}

const check_op check_layernorm_grad = {.make = make, .oracle = oracle};
const check_op check_layernorm_grad_w = {.make = make_weights, .oracle = weights_oracle};
