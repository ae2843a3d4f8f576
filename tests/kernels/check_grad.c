/* check_grad.c: bounds the errors of gradients; see check_grad.h. */
#include "tests/kernels/check_grad.h"
#include "ops/contracts/softmax_attention.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/kernels/check_run.h"

/* Small factors may become 0 in float32 and then be divided by other small ones. */
#define LEAST (1e10 * FLT_MIN)

typedef struct definition {
    double *want, *allowed;
} definition;

/* Reads all operands as doubles. Each value is changed by a random fraction of at most `off`.
 * Subnormal values become 0, as in kernels. */
static void take(check_doubles *in, const check_case *c, double off, check_random *r)
{
    const int out = check_output(c);
    memset(in, 0, sizeof *in);
    for (int i = 0; i < FV_OPERANDS; i++) {
        const check_operand *o = &c->operand[i];
        if (o->kind == CHECK_ABSENT || (i == out && !c->adds))
            continue;
        in->of[i] = check_must(malloc((size_t)o->rows * o->cols * sizeof(double)));
        for (uint32_t y = 0; y < o->rows; y++) {
            for (uint32_t x = 0; x < o->cols; x++) {
                const double v = check_at(c, i, y, x);
                const double by = off * ((double)check_below(r, 2001) / 1000. - 1.);
                in->of[i][(size_t)y * o->cols + x] = fabs(v) < FLT_MIN ? 0. : v * (1. + by);
            }
        }
    }
}

void check_doubles_free(check_doubles *in)
{
    for (int i = 0; i < FV_OPERANDS; i++)
        free(in->of[i]);
}

void check_doubles_of(check_doubles *in, const check_case *c)
{
    check_random r = {0};
    take(in, c, 0., &r);
}

/* Sets the allowed error of each value from its own error and the mean error of its segment. */
static void smooth(double *allowed, const double *want, uint32_t rows, uint32_t cols,
                   const uint32_t *segment)
{
    for (uint32_t s = 0; segment[s] < cols; s++) {
        for (uint32_t y = 0; y < rows; y++) {
            double *row = allowed + (size_t)y * cols, sum = 0., size = 0.;
            for (uint32_t x = segment[s]; x < segment[s + 1]; x++) {
                sum += row[x];
                size += fabs(want[(size_t)y * cols + x]);
            }
            const uint32_t n = segment[s + 1] - segment[s];
            for (uint32_t x = segment[s]; x < segment[s + 1]; x++)
                row[x] = 8. * row[x] + 8. * sum / n + 2. * FLT_EPSILON * size / n + LEAST;
        }
    }
}

void check_gradient(check_case *c, check_gradient_fn *fn, double terms, const uint32_t *segment)
{
    const check_operand *o = &c->operand[check_output(c)];
    const size_t count = (size_t)o->rows * o->cols;
    /* With few values, a random change may hardly affect any of them, so try more often. */
    const int times = count < 64 ? 16 : 2;
    check_random r = {(uint64_t)count};
    check_doubles in;
    check_gradient_release(c);
    definition *d = c->definition = check_must(malloc(sizeof *d));
    double *moved = check_must(malloc(count * sizeof *moved));
    d->want = check_must(malloc(count * sizeof *d->want));
    d->allowed = check_must(calloc(count, sizeof *d->allowed));
    take(&in, c, 0., &r);
    fn(c, &in, d->want);
    check_doubles_free(&in);
    for (int t = 0; t < times; t++) {
        take(&in, c, (4. + 2. * sqrt(terms)) * FLT_EPSILON, &r);
        fn(c, &in, moved);
        check_doubles_free(&in);
        for (size_t i = 0; i < count; i++)
            d->allowed[i] = fmax(d->allowed[i], fabs(moved[i] - d->want[i]));
    }
    smooth(d->allowed, d->want, o->rows, o->cols, segment);
    free(moved);
}

void check_gradient_heads(check_case *c, check_gradient_fn *fn)
{
    const fv_problem *p = &c->args.prob;
    const uint32_t heads = p->heads, d = p->dim[FV_ATTN_D], dv = p->dim[FV_ATTN_DV];
    uint32_t *list = check_must(malloc((3 * heads + 1) * sizeof *list));
    for (uint32_t h = 0; h < heads; h++) {
        list[h] = h * d;
        list[heads + h] = (heads + h) * d;
        list[2 * heads + h] = 2 * heads * d + h * dv;
    }
    list[3 * heads] = heads * (2 * d + dv);
    check_gradient(c, fn, d + dv + p->dim[FV_DIM_ROWS], list);
    free(list);
}

void check_gradient_row(const check_case *c, uint32_t row, double *want, double *allowed)
{
    const definition *d = c->definition;
    const uint32_t cols = c->operand[check_output(c)].cols;
    memcpy(want, d->want + (size_t)row * cols, cols * sizeof *want);
    memcpy(allowed, d->allowed + (size_t)row * cols, cols * sizeof *allowed);
}

void check_gradient_release(check_case *c)
{
    definition *d = c->definition;
    if (!d)
        return;
    free(d->want);
    free(d->allowed);
    free(d);
    c->definition = NULL;
}
