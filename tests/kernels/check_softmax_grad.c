/* check_softmax_grad.c: cases and definitions of SOFTMAX_GRAD, MAP_GRAD, MAP_GRAD_Q, HEAD_DOT and
 * GATES_GRAD. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/kernels/check_grad.h"
#include "tests/kernels/check_run.h"
#include "tests/kernels/oracle_grad.h"
#include "train/ref/training.h"

/* ---- softmax attention ---- */

static bool make_softmax(check_case *c, uint32_t index)
{
    static const struct {
        uint32_t rows, heads, d, dv, gap;
    } sizes[] = {
        {1, 1, 1, 1, 0},   {5, 2, 3, 7, 1},     {63, 1, 16, 16, 0},
        {67, 2, 33, 9, 3}, {130, 1, 40, 70, 0}, {200, 3, 64, 64, 0},
    };
    enum { SIZES = sizeof sizes / sizeof *sizes };
    if (index >= SIZES)
        return false;
    const uint32_t rows = sizes[index].rows, gap = sizes[index].gap, heads = sizes[index].heads;
    const uint32_t d = sizes[index].d, dv = sizes[index].dv;
    c->args.prob.heads = (uint16_t)heads;
    c->args.prob.dim[FV_DIM_ROWS] = c->args.prob.dim[FV_ATTN_KEYS] = c->align = rows;
    c->args.prob.dim[FV_ATTN_D] = d;
    c->args.prob.dim[FV_ATTN_DV] = dv;
    c->args.f[0] = 1.f / sqrtf((float)d);
    check_matrix(c, FV_SOFTMAX_GRAD_Q, CHECK_ROW, rows, heads * d, gap);
    check_matrix(c, FV_SOFTMAX_GRAD_K, CHECK_ROW, rows, heads * d, gap);
    check_matrix(c, FV_SOFTMAX_GRAD_V, CHECK_ROW, rows, heads * dv, gap);
    check_matrix(c, FV_SOFTMAX_GRAD_FORWARD, CHECK_ROW, rows, heads * dv, 2 * gap);
    check_matrix(c, FV_SOFTMAX_GRAD_DOUT, CHECK_ROW, rows, heads * dv, gap);
    check_matrix(c, FV_SOFTMAX_GRAD_OUT, CHECK_ROW, rows, heads * (2 * d + dv), gap);
    for (int i = 0; i < FV_SOFTMAX_GRAD_OUT; i++)
        c->operand[i].huge = 4.f;
    c->part[0] = c->part[1] = d;
    c->part[2] = dv;
    c->bench = index == SIZES - 1;
    return true;
}

/* Packs head h of rows of `heads` times n values, or unpacks it. */
static void split(double *packed, double *rows, uint32_t count, uint32_t ld, uint32_t at,
                  uint32_t n, bool back)
{
    for (uint32_t r = 0; r < count; r++) {
        for (uint32_t i = 0; i < n; i++) {
            double *x = packed + (size_t)r * n + i, *y = rows + (size_t)r * ld + at + i;
            if (back)
                *y = *x;
            else
                *x = *y;
        }
    }
}

/* Returns head h of a case in packed form: q, k, v, dout, out. */
static oracle_softmax take_head(const check_case *c, const check_doubles *in, uint32_t h,
                                double *scratch)
{
    const uint32_t rows = c->args.prob.dim[FV_DIM_ROWS], heads = c->args.prob.heads;
    const uint32_t d = c->args.prob.dim[FV_ATTN_D], dv = c->args.prob.dim[FV_ATTN_DV];
    double *q = scratch, *k = q + (size_t)rows * d, *v = k + (size_t)rows * d;
    double *dout = v + (size_t)rows * dv, *out = dout + (size_t)rows * dv;
    split(q, in->of[FV_SOFTMAX_GRAD_Q], rows, heads * d, h * d, d, false);
    split(k, in->of[FV_SOFTMAX_GRAD_K], rows, heads * d, h * d, d, false);
    split(v, in->of[FV_SOFTMAX_GRAD_V], rows, heads * dv, h * dv, dv, false);
    split(dout, in->of[FV_SOFTMAX_GRAD_DOUT], rows, heads * dv, h * dv, dv, false);
    split(out, in->of[FV_SOFTMAX_GRAD_FORWARD], rows, heads * dv, h * dv, dv, false);
    return (oracle_softmax){rows, d, dv, c->args.f[0], q, k, v, dout, out};
}

static void prepare_softmax(check_case *c, check_random *r)
{
    const uint32_t rows = c->args.prob.dim[FV_DIM_ROWS];
    const uint32_t d = c->args.prob.dim[FV_ATTN_D], dv = c->args.prob.dim[FV_ATTN_DV];
    double *scratch = check_must(malloc((size_t)rows * (2 * d + 4 * dv) * sizeof *scratch));
    double *out = scratch + (size_t)rows * (2 * d + 3 * dv);
    check_doubles in;
    (void)r;
    check_doubles_of(&in, c);
    for (uint32_t h = 0; h < c->args.prob.heads; h++) {
        const oracle_softmax a = take_head(c, &in, h, scratch);
        oracle_softmax_forward(&a, out);
        for (uint32_t y = 0; y < rows; y++) {
            for (uint32_t i = 0; i < dv; i++)
                *check_value(c, FV_SOFTMAX_GRAD_FORWARD, y, h * dv + i) =
                    (float)out[(size_t)y * dv + i];
        }
    }
    check_doubles_free(&in);
    free(scratch);
}

static void softmax_gradient(const check_case *c, const check_doubles *in, double *out)
{
    const uint32_t rows = c->args.prob.dim[FV_DIM_ROWS], heads = c->args.prob.heads;
    const uint32_t d = c->args.prob.dim[FV_ATTN_D], dv = c->args.prob.dim[FV_ATTN_DV];
    const uint32_t ld = heads * (2 * d + dv);
    double *scratch = check_must(malloc((size_t)rows * (4 * d + 4 * dv) * sizeof *scratch));
    double *dq = scratch + (size_t)rows * (2 * d + 3 * dv), *dk = dq + (size_t)rows * d;
    double *dv_at = dk + (size_t)rows * d;
    for (uint32_t h = 0; h < heads; h++) {
        const oracle_softmax a = take_head(c, in, h, scratch);
        oracle_softmax_grad(&a, dq, dk, dv_at);
        split(dq, out, rows, ld, h * d, d, true);
        split(dk, out, rows, ld, (heads + h) * d, d, true);
        split(dv_at, out, rows, ld, 2 * heads * d + h * dv, dv, true);
    }
    free(scratch);
}

static void define_softmax(check_case *c)
{
    check_gradient_heads(c, softmax_gradient);
}

/* ---- attention pooling ---- */

static bool make_map(check_case *c, uint32_t index)
{
    static const uint32_t sizes[][4] = {{1, 1, 1, 0}, {5, 2, 3, 1}, {130, 3, 20, 0}};
    const bool of_query = c->args.prob.op == FV_OP_MAP_GRAD_Q;
    if (index >= sizeof sizes / sizeof *sizes)
        return false;
    const uint32_t rows = sizes[index][0], heads = sizes[index][1], d = sizes[index][2];
    const uint32_t gap = sizes[index][3], width = heads * d;
    const enum check_kind kind = of_query ? CHECK_BASE : CHECK_ROW;
    c->args.prob.heads = (uint16_t)heads;
    c->args.prob.dim[FV_DIM_ROWS] = c->align = of_query ? 1 : rows;
    c->args.prob.dim[FV_ATTN_D] = d;
    c->args.prob.dim[FV_ATTN_KEYS] = rows;
    c->args.f[0] = 1.f / sqrtf((float)d);
    check_vector(c, FV_MAP_GRAD_Q, width);
    check_matrix(c, FV_MAP_GRAD_K, kind, rows, width, gap);
    check_matrix(c, FV_MAP_GRAD_V, kind, rows, width, 2 * gap);
    check_vector(c, FV_MAP_GRAD_FORWARD, width);
    check_vector(c, FV_MAP_GRAD_DOUT, width);
    check_matrix(c, FV_MAP_GRAD_OUT, CHECK_ROW, of_query ? 1 : rows, of_query ? width : 2 * width,
                 gap);
    for (int i = 0; i < FV_MAP_GRAD_OUT; i++)
        c->operand[i].huge = 4.f;
    c->part[0] = d;
    c->part[1] = of_query ? 0 : d;
    return true;
}

/* Computes the weights of head h, and the pooled row. */
static void pool(const check_case *c, const check_doubles *in, uint32_t h, double *p, double *out)
{
    const uint32_t rows = c->args.prob.dim[FV_ATTN_KEYS], d = c->args.prob.dim[FV_ATTN_D];
    const uint32_t width = c->args.prob.heads * d;
    double max = -INFINITY, sum = 0.;
    for (uint32_t r = 0; r < rows; r++) {
        p[r] = 0.;
        for (uint32_t i = h * d; i < (h + 1) * d; i++)
            p[r] += c->args.f[0] * in->of[FV_MAP_GRAD_Q][i] *
                    in->of[FV_MAP_GRAD_K][(size_t)r * width + i];
        max = fmax(max, p[r]);
    }
    for (uint32_t r = 0; r < rows; r++)
        sum += p[r] = exp(p[r] - max);
    for (uint32_t i = 0; i < d; i++)
        out[i] = 0.;
    for (uint32_t r = 0; r < rows; r++) {
        p[r] /= sum;
        for (uint32_t i = 0; i < d; i++)
            out[i] += p[r] * in->of[FV_MAP_GRAD_V][(size_t)r * width + h * d + i];
    }
}

static void prepare_map(check_case *c, check_random *r)
{
    const uint32_t rows = c->args.prob.dim[FV_ATTN_KEYS], d = c->args.prob.dim[FV_ATTN_D];
    double *p = check_must(malloc((rows + d) * sizeof *p));
    check_doubles in;
    (void)r;
    check_doubles_of(&in, c);
    for (uint32_t h = 0; h < c->args.prob.heads; h++) {
        pool(c, &in, h, p, p + rows);
        for (uint32_t i = 0; i < d; i++)
            *check_value(c, FV_MAP_GRAD_FORWARD, 0, h * d + i) = (float)p[rows + i];
    }
    check_doubles_free(&in);
    free(p);
}

static void map_gradient(const check_case *c, const check_doubles *in, double *out)
{
    const uint32_t rows = c->args.prob.dim[FV_ATTN_KEYS], d = c->args.prob.dim[FV_ATTN_D];
    const uint32_t width = c->args.prob.heads * d;
    const bool of_query = c->args.prob.op == FV_OP_MAP_GRAD_Q;
    double *p = check_must(malloc((rows + d) * sizeof *p));
    for (uint32_t h = 0; h < c->args.prob.heads; h++) {
        const double *dout = in->of[FV_MAP_GRAD_DOUT] + h * d, *q = in->of[FV_MAP_GRAD_Q] + h * d;
        pool(c, in, h, p, p + rows);
        for (uint32_t i = 0; of_query && i < d; i++)
            out[h * d + i] = 0.;
        for (uint32_t r = 0; r < rows; r++) {
            const double *k = in->of[FV_MAP_GRAD_K] + (size_t)r * width + h * d;
            const double *v = in->of[FV_MAP_GRAD_V] + (size_t)r * width + h * d;
            double ds = 0.;
            for (uint32_t i = 0; i < d; i++)
                ds += c->args.f[0] * p[r] * dout[i] * (v[i] - p[rows + i]);
            for (uint32_t i = 0; i < d; i++) {
                if (of_query) {
                    out[h * d + i] += ds * k[i];
                    continue;
                }
                out[(size_t)r * 2 * width + h * d + i] = ds * q[i];
                out[(size_t)r * 2 * width + width + h * d + i] = p[r] * dout[i];
            }
        }
    }
    free(p);
}

static void define_map(check_case *c)
{
    const fv_problem *p = &c->args.prob;
    const uint32_t width = p->heads * p->dim[FV_ATTN_D];
    const uint32_t list[] = {0, width, 2 * width};
    check_gradient(c, map_gradient, p->dim[FV_ATTN_D] + p->dim[FV_ATTN_KEYS], list);
}

/* ---- gates ---- */

static bool make_dot(check_case *c, uint32_t index)
{
    static const uint32_t sizes[][4] = {{1, 1, 1, 0}, {5, 3, 7, 2}, {33, 12, 64, 0}};
    if (index >= sizeof sizes / sizeof *sizes)
        return false;
    const uint32_t rows = sizes[index][0], heads = sizes[index][1], d = sizes[index][2];
    c->args.prob.dim[FV_DIM_ROWS] = rows;
    c->args.prob.dim[FV_ROW_C] = heads;
    c->args.prob.dim[FV_DOT_D] = d;
    check_matrix(c, FV_DOT_A, CHECK_ROW, rows, heads * d, sizes[index][3]);
    check_matrix(c, FV_DOT_B, CHECK_ROW, rows, heads * d, 2 * sizes[index][3]);
    check_matrix(c, FV_DOT_OUT, CHECK_ROW, rows, heads, sizes[index][3]);
    return true;
}

static void dot_oracle(const check_case *c, uint32_t row, double *want, double *allowed)
{
    const uint32_t heads = c->args.prob.dim[FV_ROW_C], d = c->args.prob.dim[FV_DOT_D];
    for (uint32_t h = 0; h < heads; h++) {
        double size = want[h] = 0.;
        for (uint32_t i = h * d; i < (h + 1) * d; i++) {
            const double x = check_at(c, FV_DOT_A, row, i) * check_at(c, FV_DOT_B, row, i);
            want[h] += x;
            size += fabs(x);
        }
        allowed[h] = check_allowed(d, size);
    }
}

static bool make_gates(check_case *c, uint32_t index)
{
    static const uint32_t sizes[][3] = {{1, 1, 0}, {5, 3, 2}, {33, 17, 0}};
    if (index >= sizeof sizes / sizeof *sizes)
        return false;
    const uint32_t rows = sizes[index][0], heads = sizes[index][1];
    c->args.prob.dim[FV_DIM_ROWS] = rows;
    c->args.prob.dim[FV_ROW_C] = heads;
    c->args.f[0] = index == 1 ? 1.f : (float)heads;
    check_matrix(c, FV_GATES_GRAD_GATES, CHECK_ROW, rows, heads, 2 * sizes[index][2]);
    check_matrix(c, FV_GATES_GRAD_DOT, CHECK_ROW, rows, heads, sizes[index][2]);
    check_matrix(c, FV_GATES_GRAD_OUT, CHECK_ROW, rows, heads, sizes[index][2]);
    c->operand[FV_GATES_GRAD_GATES].huge = 1.f;
    if (index == 1)
        c->in_place = FV_GATES_GRAD_DOT;
    return true;
}

static void gates_oracle(const check_case *c, uint32_t row, double *want, double *allowed)
{
    const uint32_t heads = c->args.prob.dim[FV_ROW_C];
    double sum = 0., size = 0.;
    for (uint32_t h = 0; h < heads; h++) {
        sum += check_at(c, FV_GATES_GRAD_DOT, row, h);
        size += fabs(check_at(c, FV_GATES_GRAD_DOT, row, h));
    }
    for (uint32_t h = 0; h < heads; h++) {
        const double gate = check_at(c, FV_GATES_GRAD_GATES, row, h) / (double)c->args.f[0];
        const double x = check_at(c, FV_GATES_GRAD_DOT, row, h);
        want[h] = x - gate * sum;
        allowed[h] = check_allowed(heads + 2., fabs(x) + fabs(gate) * size);
    }
}

const check_op check_softmax_grad = {.make = make_softmax,
                                     .prepare = prepare_softmax,
                                     .define = define_softmax,
                                     .oracle = check_gradient_row,
                                     .release = check_gradient_release};
const check_op check_map_grad = {.make = make_map,
                                 .prepare = prepare_map,
                                 .define = define_map,
                                 .oracle = check_gradient_row,
                                 .release = check_gradient_release};
const check_op check_map_grad_q = {.make = make_map,
                                   .prepare = prepare_map,
                                   .define = define_map,
                                   .oracle = check_gradient_row,
                                   .release = check_gradient_release};
const check_op check_head_dot = {.make = make_dot, .oracle = dot_oracle};
const check_op check_gates_grad = {.make = make_gates, .oracle = gates_oracle};
