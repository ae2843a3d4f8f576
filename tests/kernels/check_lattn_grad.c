/* check_lattn_grad.c: cases of the gradients of linear attention; oracle_mech.c defines them. */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/kernels/check_grad.h"
#include "tests/kernels/check_lattn.h"
#include "tests/kernels/check_rotation.h"
#include "tests/kernels/check_run.h"
#include "tests/kernels/oracle_grad.h"
#include "train/ref/training.h"

static const check_lattn_size sizes[] = {
    {1, 1, 2, 2, 1, 0, 0, 0},
    {5, 2, 3, 8, 2, 1, PLAIN, 0},
    {19, 3, 16, 16, 3, 0, GATED, 0},
    {37, 1, 40, 34, 1, 3, 0, 0},
    {141, 2, 8, 10, 1, 0, ROPE, 0},
    {12, 2, 24, 24, 2, 2, ROPE | GATED, 5},
    {9, 2, 6, 6, 1, 0, PLAIN | ROPE | GATED, 0},
    {256, 6, 64, 64, 1, 0, 0, 0},
};
enum { SIZES = sizeof sizes / sizeof *sizes };

/* Every size is combined with every mechanism, except the last, slow one, which uses elu + 1. */
static bool make_problem(check_case *c, uint32_t index, uint32_t *gap)
{
    fv_problem *p = &c->args.prob;
    uint32_t i = index % SIZES;
    const uint32_t mech = FV_MECH_ANY + 1 + index / SIZES;
    if (mech >= FV_MECH_COUNT)
        return false;
    if (i == SIZES - 1 && mech != FV_MECH_ELU1)
        i = 0;
    p->mech = (uint16_t)mech;
    p->heads = (uint16_t)sizes[i].heads;
    p->flags = sizes[i].flags;
    c->args.u[0] = sizes[i].grid;
    if (check_lattn_traits(c)->wants & FV_WANT_SIGNED)
        p->flags |= PLAIN;
    if (check_lattn_traits(c)->wants & FV_WANT_SHIFT && p->flags & ROPE)
        p->flags |= PLAIN;
    p->dim[FV_DIM_ROWS] = p->dim[FV_ATTN_KEYS] = sizes[i].rows;
    p->dim[FV_ATTN_D] = sizes[i].d;
    p->dim[FV_ATTN_DV] = sizes[i].dv;
    p->dim[FV_ATTN_GROUPS] = sizes[i].groups;
    c->bench = i == SIZES - 1;
    *gap = sizes[i].gap;
    return true;
}

/* Describes the operands that queries and keys have in common. Operand numbers are those of
 * LATTN_REDUCE or LATTN_APPLY. */
static void make_rows(check_case *c, int x, int param, int cos, int sin, int gate, uint32_t gap)
{
    const fv_problem *p = &c->args.prob;
    const uint32_t rows = p->dim[FV_DIM_ROWS], d = p->dim[FV_ATTN_D];
    check_matrix(c, x, CHECK_ROW, rows, p->heads * d, gap);
    /* If a softmax puts all weight on one channel, its gradient is a difference of nearly equal
     * numbers. */
    const bool shares = p->mech == FV_MECH_SOFTMAXF || p->mech == FV_MECH_HEDGEHOG;
    c->operand[x].huge = shares ? 1.f : 3.f;
    if (check_lattn_traits(c)->params)
        check_matrix(c, param, CHECK_BASE, check_lattn_traits(c)->params, p->heads * d, 0);
    if (p->flags & ROPE)
        check_rotation(c, cos, sin, rows, d, gap);
    if (p->flags & GATED) {
        check_matrix(c, gate, CHECK_ROW, rows, p->heads, gap);
        c->operand[gate].huge = 1.f;
    }
}

static oracle_lattn attention(const check_case *c, const check_doubles *in, int param, bool query)
{
    const fv_problem *p = &c->args.prob;
    return (oracle_lattn){.heads = p->heads,
                          .d = p->dim[FV_ATTN_D],
                          .dv = p->dim[FV_ATTN_DV],
                          .scale = c->args.f[0],
                          .eps = c->args.f[1],
                          .alpha = c->args.f[query ? 2 : 1],
                          .mean = c->args.f[0],
                          .plain = p->flags & PLAIN,
                          .param = in->of[param]};
}

/* Draws a token's angles: d cosines and d sines. */
static void angles(const check_case *c, int cos, int sin, uint32_t row, double *out)
{
    const uint32_t d = c->args.prob.dim[FV_ATTN_D];
    for (uint32_t i = 0; i < d && c->args.prob.flags & ROPE; i++) {
        out[i] = check_angle(c, cos, row, i, d);
        out[d + i] = check_angle(c, sin, row, i, d);
    }
}

static oracle_token token(const check_case *c, const check_doubles *in, int x, int gate,
                          const double *angle, uint32_t row)
{
    const fv_problem *p = &c->args.prob;
    const uint32_t d = p->dim[FV_ATTN_D];
    return (oracle_token){.x = in->of[x] + (size_t)row * p->heads * d,
                          .cos = p->flags & ROPE ? angle : NULL,
                          .sin = p->flags & ROPE ? angle + d : NULL,
                          .gate = p->flags & GATED ? in->of[gate] + (size_t)row * p->heads : NULL};
}

/* Draws a valid state of keys: means of features are non-negative if features are, the sine part of
 * nala_paper is smaller than the cosine part, and unnormalised maps have no shift. */
static void prepare_state(check_case *c, check_random *r, int operand)
{
    const fv_problem *p = &c->args.prob;
    const uint32_t d = p->dim[FV_ATTN_D], width = check_lattn_traits(c)->blocks * d;
    const fv_lattn_state l = check_lattn_layout(c);
    for (uint32_t h = 0; h < p->heads; h++) {
        float *state = check_value(c, operand, 0, (uint32_t)(h * l.floats));
        for (size_t i = 0; i < l.floats; i++)
            state[i] = (float)(0.5 * check_normal(r));
        for (uint32_t i = 0; i < width; i++)
            state[l.m + i] = 0.1f + fabsf(state[l.m + i]);
        for (uint32_t i = 0; p->mech == FV_MECH_NALA_PAPER && i < d; i++)
            state[l.m + d + i] = 0.6f * state[l.m + i];
        for (uint32_t i = 0; check_lattn_traits(c)->wants & FV_WANT_CENTRED && i < width; i++)
            state[l.w + i] = p->flags & ROPE ? state[l.w + i] : state[l.m + i];
        for (size_t i = l.shift; i < l.floats && p->flags & PLAIN; i++)
            state[i] = 0.f;
    }
}

static void prepare_rows(check_case *c, check_random *r, int param, int cos, int sin)
{
    const fv_problem *p = &c->args.prob;
    for (uint32_t i = 0; param >= 0 && i < check_lattn_traits(c)->params; i++) {
        for (uint32_t j = 0; j < p->heads * p->dim[FV_ATTN_D]; j++)
            *check_value(c, param, i, j) = (float)check_normal(r);
    }
    if (p->flags & ROPE)
        check_rotation_values(c, cos, sin, r);
}

/* ---- queries ---- */

static bool make_query(check_case *c, uint32_t index)
{
    const fv_problem *p = &c->args.prob;
    uint32_t gap;
    if (!make_problem(c, index, &gap))
        return false;
    const uint32_t rows = p->dim[FV_DIM_ROWS], values = p->heads * p->dim[FV_ATTN_DV];
    c->args.f[0] = 0.7f;
    c->args.f[1] = 1e-3f;
    c->args.f[2] = check_lattn_constant(c, index);
    make_rows(c, FV_APPLY_Q, FV_APPLY_PARAM, FV_APPLY_COS, FV_APPLY_SIN, FV_APPLY_GATE, gap);
    check_vector(c, FV_APPLY_STATE, p->heads * (uint32_t)check_lattn_layout(c).floats);
    check_matrix(c, FV_QUERY_GRAD_FORWARD, CHECK_ROW, rows, values, 2 * gap);
    check_matrix(c, FV_QUERY_GRAD_DOUT, CHECK_ROW, rows, values, gap);
    c->operand[FV_QUERY_GRAD_DOUT].huge = 1e6f;
    if (p->op == FV_OP_LATTN_STATE_GRAD)
        check_matrix(c, FV_QUERY_GRAD_OUT, CHECK_PARTIAL, p->dim[FV_ATTN_GROUPS],
                     p->heads * (uint32_t)check_lattn_layout(c).floats, 0);
    else
        check_matrix(c, FV_QUERY_GRAD_OUT, CHECK_ROW, rows, p->heads * p->dim[FV_ATTN_D], gap);
    return true;
}

/* Computes what LATTN_APPLY would have written. */
static void prepare_query(check_case *c, check_random *r)
{
    const fv_problem *p = &c->args.prob;
    const uint32_t d = p->dim[FV_ATTN_D], values = p->heads * p->dim[FV_ATTN_DV];
    prepare_state(c, r, FV_APPLY_STATE);
    prepare_rows(c, r, FV_APPLY_PARAM, FV_APPLY_COS, FV_APPLY_SIN);
    check_doubles in;
    double *angle = check_must(malloc(2 * d * sizeof *angle));
    double *out = check_must(malloc(values * sizeof *out));
    check_doubles_of(&in, c);
    const oracle_lattn a = attention(c, &in, FV_APPLY_PARAM, true);
    for (uint32_t row = 0; row < p->dim[FV_DIM_ROWS]; row++) {
        angles(c, FV_APPLY_COS, FV_APPLY_SIN, row, angle);
        const oracle_token t = token(c, &in, FV_APPLY_Q, FV_APPLY_GATE, angle, row);
        oracle_mechs[p->mech]->apply(&a, in.of[FV_APPLY_STATE], &t, out);
        for (uint32_t i = 0; i < values; i++)
            *check_value(c, FV_QUERY_GRAD_FORWARD, row, i) = (float)out[i];
    }
    check_doubles_free(&in);
    free(angle);
    free(out);
}

static void query_gradient(const check_case *c, const check_doubles *in, double *out)
{
    const fv_problem *p = &c->args.prob;
    const uint32_t d = p->dim[FV_ATTN_D], values = p->heads * p->dim[FV_ATTN_DV];
    const check_operand *o = &c->operand[FV_QUERY_GRAD_OUT];
    const bool of_state = p->op == FV_OP_LATTN_STATE_GRAD;
    const oracle_lattn a = attention(c, in, FV_APPLY_PARAM, true);
    double *angle = check_must(malloc(2 * d * sizeof *angle));
    memset(out, 0, (size_t)o->rows * o->cols * sizeof *out);
    for (uint32_t g = 0; g < (of_state ? o->rows : 1); g++) {
        uint32_t row = 0, end = p->dim[FV_DIM_ROWS];
        if (of_state)
            check_group_range(&row, &end, end, o->rows, g);
        for (; row < end; row++) {
            angles(c, FV_APPLY_COS, FV_APPLY_SIN, row, angle);
            oracle_token t = token(c, in, FV_APPLY_Q, FV_APPLY_GATE, angle, row);
            t.out = in->of[FV_QUERY_GRAD_FORWARD] + (size_t)row * values;
            oracle_mechs[p->mech]->apply_grad(&a, in->of[FV_APPLY_STATE], &t,
                                              in->of[FV_QUERY_GRAD_DOUT] + (size_t)row * values,
                                              of_state ? NULL : out + (size_t)row * o->cols,
                                              of_state ? out + (size_t)g * o->cols : NULL, NULL);
        }
    }
    free(angle);
}

/* Appends the columns of a part of `n` per head, from *end on. */
static uint32_t *segments(uint32_t *at, uint32_t *end, uint32_t heads, uint32_t n)
{
    for (uint32_t h = 0; h < heads; h++, *end += n)
        *at++ = *end;
    *at = *end;
    return at;
}

static void define_query(check_case *c)
{
    const fv_problem *p = &c->args.prob;
    const fv_lattn_state l = check_lattn_layout(c);
    uint32_t *list = check_must(malloc((7 * p->heads + 1) * sizeof *list)), *at = list, end = 0;
    if (p->op == FV_OP_LATTN_APPLY_GRAD) {
        segments(list, &end, p->heads, p->dim[FV_ATTN_D]);
    } else {
        const size_t parts[] = {l.s, l.m, l.w, l.vmean, l.count, l.shift, l.floats};
        for (uint32_t h = 0; h < p->heads; h++) {
            for (int i = 0; i < 6; i++)
                at = segments(at, &end, 1, (uint32_t)(parts[i + 1] - parts[i]));
        }
    }
    check_gradient(c, query_gradient,
                   check_lattn_traits(c)->blocks * p->dim[FV_ATTN_D] + p->dim[FV_ATTN_DV] +
                       p->dim[FV_DIM_ROWS],
                   list);
    free(list);
}

/* ---- keys ---- */

static bool make_key(check_case *c, uint32_t index)
{
    const fv_problem *p = &c->args.prob;
    uint32_t gap;
    if (!make_problem(c, index, &gap))
        return false;
    const uint32_t rows = p->dim[FV_DIM_ROWS], d = p->dim[FV_ATTN_D], dv = p->dim[FV_ATTN_DV];
    const uint32_t size = p->heads * (uint32_t)check_lattn_layout(c).floats;
    c->args.f[0] = 1.f / (float)rows;
    c->args.f[1] = check_lattn_constant(c, index);
    make_rows(c, FV_REDUCE_K, FV_REDUCE_PARAM, FV_REDUCE_COS, FV_REDUCE_SIN, FV_REDUCE_GATE, gap);
    check_matrix(c, FV_REDUCE_V, CHECK_ROW, rows, p->heads * dv, gap);
    c->operand[FV_REDUCE_V].huge = 1e6f;
    check_vector(c, FV_KEY_GRAD_STATE, size);
    check_vector(c, FV_KEY_GRAD_DSTATE, size);
    c->operand[FV_KEY_GRAD_DSTATE].huge = 1e6f;
    if (p->op == FV_OP_LATTN_GATE_GRAD) {
        check_matrix(c, FV_KEY_GRAD_OUT, CHECK_ROW, rows, p->heads, gap);
    } else {
        check_matrix(c, FV_KEY_GRAD_OUT, CHECK_ROW, rows, p->heads * (d + dv), gap);
        c->part[0] = d;
        c->part[1] = dv;
    }
    return true;
}

static void prepare_key(check_case *c, check_random *r)
{
    const fv_problem *p = &c->args.prob;
    const fv_lattn_state l = check_lattn_layout(c);
    prepare_state(c, r, FV_KEY_GRAD_STATE);
    prepare_rows(c, r, FV_REDUCE_PARAM, FV_REDUCE_COS, FV_REDUCE_SIN);
    /* Keeps keys below their shift. */
    for (uint32_t h = 0; h < p->heads; h++) {
        for (size_t i = l.shift; i < l.floats && !(p->flags & PLAIN); i++)
            *check_value(c, FV_KEY_GRAD_STATE, 0, (uint32_t)(h * l.floats + i)) = 10.f;
    }
}

static void key_gradient(const check_case *c, const check_doubles *in, double *out)
{
    const fv_problem *p = &c->args.prob;
    const uint32_t d = p->dim[FV_ATTN_D], dv = p->dim[FV_ATTN_DV], heads = p->heads;
    const bool of_gate = p->op == FV_OP_LATTN_GATE_GRAD;
    const oracle_lattn a = attention(c, in, FV_REDUCE_PARAM, false);
    double *angle = check_must(malloc(2 * d * sizeof *angle));
    double *both = check_must(malloc((size_t)heads * (d + dv) * sizeof *both));
    for (uint32_t row = 0; row < p->dim[FV_DIM_ROWS]; row++) {
        angles(c, FV_REDUCE_COS, FV_REDUCE_SIN, row, angle);
        oracle_token t = token(c, in, FV_REDUCE_K, FV_REDUCE_GATE, angle, row);
        t.v = in->of[FV_REDUCE_V] + (size_t)row * heads * dv;
        double *dx = of_gate ? both : out + (size_t)row * heads * (d + dv);
        oracle_mechs[p->mech]->reduce_grad(&a, in->of[FV_KEY_GRAD_STATE],
                                           in->of[FV_KEY_GRAD_DSTATE], &t, dx, dx + heads * d,
                                           of_gate ? out + (size_t)row * heads : NULL);
    }
    free(angle);
    free(both);
}

static void define_key(check_case *c)
{
    const fv_problem *p = &c->args.prob;
    uint32_t *list = check_must(malloc((2 * p->heads + 2) * sizeof *list)), end = 0;
    if (p->op == FV_OP_LATTN_GATE_GRAD)
        segments(list, &end, 1, p->heads);
    else
        segments(segments(list, &end, p->heads, p->dim[FV_ATTN_D]), &end, p->heads,
                 p->dim[FV_ATTN_DV]);
    check_gradient(
        c, key_gradient,
        check_lattn_traits(c)->blocks * p->dim[FV_ATTN_D] + p->dim[FV_ATTN_DV] + p->heads, list);
    free(list);
}

/* ---- learned vectors ---- */

static bool make_param(check_case *c, uint32_t index)
{
    static const struct {
        uint32_t tokens, heads, d, gap;
        bool adds;
    } cases[] = {{1, 1, 1, 0, false}, {5, 2, 3, 1, true}, {300, 3, 40, 0, false}};
    enum { CASES = sizeof cases / sizeof *cases };
    const uint32_t mech = FV_MECH_ANY + 1 + index / CASES, i = index % CASES;
    if (mech >= FV_MECH_COUNT)
        return false;
    const uint32_t columns = cases[i].heads * cases[i].d, params = fv_mech_table[mech]->params;
    c->args.prob.mech = (uint16_t)mech;
    c->args.prob.dim[FV_DIM_ROWS] = params ? params : 1;
    c->args.prob.dim[FV_PARAM_GRAD_COLUMNS] = columns;
    c->args.prob.dim[FV_PARAM_GRAD_ROWS] = cases[i].tokens;
    c->args.prob.dim[FV_PARAM_GRAD_D] = cases[i].d;
    c->args.prob.flags = cases[i].adds ? FV_FLAG_ACCUMULATE : 0;
    c->args.f[0] = 4.f;
    c->adds = cases[i].adds;
    check_matrix(c, FV_PARAM_GRAD_X, CHECK_BASE, cases[i].tokens, columns, cases[i].gap);
    check_matrix(c, FV_PARAM_GRAD_DX, CHECK_BASE, cases[i].tokens, columns, 2 * cases[i].gap);
    check_matrix(c, FV_PARAM_GRAD_PARAM, CHECK_BASE, params ? params : 1, columns, 0);
    check_matrix(c, FV_PARAM_GRAD_OUT, CHECK_ROW, params ? params : 1, columns, cases[i].gap);
    return true;
}

static void prepare_param(check_case *c, check_random *r)
{
    const check_operand *o = &c->operand[FV_PARAM_GRAD_PARAM];
    for (uint32_t y = 0; y < o->rows; y++) {
        for (uint32_t x = 0; x < o->cols; x++)
            *check_value(c, FV_PARAM_GRAD_PARAM, y, x) = (float)check_normal(r);
    }
}

static void param_gradient(const check_case *c, const check_doubles *in, double *out)
{
    const fv_problem *p = &c->args.prob;
    const uint32_t columns = p->dim[FV_PARAM_GRAD_COLUMNS], d = p->dim[FV_PARAM_GRAD_D];
    const oracle_lattn a = {
        .heads = columns / d, .d = d, .alpha = c->args.f[0], .param = in->of[FV_PARAM_GRAD_PARAM]};
    for (size_t i = 0; i < (size_t)p->dim[FV_DIM_ROWS] * columns; i++)
        out[i] = c->adds ? in->of[FV_PARAM_GRAD_OUT][i] : 0.;
    for (uint32_t row = 0; row < p->dim[FV_PARAM_GRAD_ROWS]; row++)
        oracle_mechs[p->mech]->param_grad(&a, in->of[FV_PARAM_GRAD_X] + (size_t)row * columns,
                                          in->of[FV_PARAM_GRAD_DX] + (size_t)row * columns, out);
}

static void define_param(check_case *c)
{
    const uint32_t list[] = {0, c->args.prob.dim[FV_PARAM_GRAD_COLUMNS]};
    check_gradient(c, param_gradient, c->args.prob.dim[FV_PARAM_GRAD_ROWS], list);
}

const check_op check_lattn_apply_grad = {.make = make_query,
                                         .prepare = prepare_query,
                                         .define = define_query,
                                         .oracle = check_gradient_row,
                                         .release = check_gradient_release};
const check_op check_lattn_state_grad = {.make = make_query,
                                         .prepare = prepare_query,
                                         .define = define_query,
                                         .oracle = check_gradient_row,
                                         .release = check_gradient_release};
const check_op check_lattn_reduce_grad = {.make = make_key,
                                          .prepare = prepare_key,
                                          .define = define_key,
                                          .oracle = check_gradient_row,
                                          .release = check_gradient_release};
const check_op check_lattn_gate_grad = {.make = make_key,
                                        .prepare = prepare_key,
                                        .define = define_key,
                                        .oracle = check_gradient_row,
                                        .release = check_gradient_release};
const check_op check_lattn_param_grad = {.make = make_param,
                                         .prepare = prepare_param,
                                         .define = define_param,
                                         .oracle = check_gradient_row,
                                         .release = check_gradient_release};
