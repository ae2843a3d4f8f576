/* check_lattn.c: cases and definitions of LATTN_REDUCE, LATTN_MERGE and LATTN_APPLY. */
#include <float.h>
#include <math.h>

#include "check.h"

static const struct {
    uint32_t rows, heads, d, dv, groups, gap, flags;
} sizes[] = {
    {1, 1, 1, 1, 1, 0, 0},
    {5, 2, 3, 7, 2, 1, FV_FLAG_UNNORMALISED},
    {17, 3, 16, 16, 3, 0, 0},
    {67, 1, 17, 33, 4, 5, 0},
    {129, 2, 9, 1, 1, 0, FV_FLAG_UNNORMALISED},
    {300, 1, 72, 65, 2, 0, 0},
    {1, 4, 32, 48, 1, 0, 0},
    {35, 1, 255, 63, 1, 3, 0},
    {64, 12, 64, 64, 5, 0, 0},
    {256, 12, 64, 64, 1, 0, 0},
};

static uint32_t state_size(const fv_problem *p)
{
    return p->dim[FV_ATTN_D] * (p->dim[FV_ATTN_DV] + 1);
}

/* Every size with every mechanism. */
static bool make_problem(check_case *c, uint32_t index, uint32_t *gap)
{
    const uint32_t count = sizeof sizes / sizeof *sizes, i = index % count;
    if (index >= count * (FV_MECH_COUNT - 1))
        return false;
    c->args.prob.mech = (uint16_t)(FV_MECH_ANY + 1 + index / count);
    c->args.prob.heads = (uint16_t)sizes[i].heads;
    c->args.prob.dim[FV_DIM_ROWS] = sizes[i].rows;
    c->args.prob.dim[FV_ATTN_D] = sizes[i].d;
    c->args.prob.dim[FV_ATTN_DV] = sizes[i].dv;
    c->args.prob.dim[FV_ATTN_KEYS] = sizes[i].rows;
    c->args.prob.dim[FV_ATTN_GROUPS] = sizes[i].groups;
    c->bench = sizes[i].rows == 256;
    *gap = sizes[i].gap;
    return true;
}

static double phi(const check_case *c, double x)
{
    switch (c->args.prob.mech) {
    case FV_MECH_ELU1:
        return x < 0. ? exp(x) : x + 1.;
    default:
        return NAN;
    }
}

static bool make_reduce(check_case *c, uint32_t index)
{
    const fv_problem *p = &c->args.prob;
    uint32_t gap;
    if (!make_problem(c, index, &gap))
        return false;
    c->args.f[0] = 1.f / (float)p->dim[FV_ATTN_KEYS];
    check_matrix(c, FV_REDUCE_K, CHECK_ROW, p->dim[0], p->heads * p->dim[FV_ATTN_D], gap);
    check_matrix(c, FV_REDUCE_V, CHECK_ROW, p->dim[0], p->heads * p->dim[FV_ATTN_DV], gap);
    check_matrix(c, FV_REDUCE_PARTIAL, CHECK_PARTIAL, p->dim[FV_ATTN_GROUPS],
                 p->heads * state_size(p), 0);
    return true;
}

/* want = mean over the rows of phi(k_i) v_j, or of phi(k_i) when there is no v. */
static void reduce_element(const check_case *c, uint32_t r0, uint32_t r1, uint32_t key,
                           const uint32_t *value, double *want, double *allowed)
{
    double sum = 0., size = 0., features = 0.;
    for (uint32_t r = r0; r < r1; r++) {
        const double f = phi(c, check_at(c, FV_REDUCE_K, r, key)) * c->args.f[0];
        const double x = f * (value ? check_at(c, FV_REDUCE_V, r, *value) : 1.);
        sum += x;
        size += fabs(x);
        features += f;
    }
    *want = sum;
    *allowed = check_allowed(r1 - r0 + 4., size) + FLT_MIN * (1. + features);
}

static void oracle_reduce(const check_case *c, uint32_t group, double *want, double *allowed)
{
    const fv_problem *p = &c->args.prob;
    const uint32_t d = p->dim[FV_ATTN_D], dv = p->dim[FV_ATTN_DV];
    uint32_t r0, r1, at = 0;
    check_group_rows(&r0, &r1, p->dim[FV_DIM_ROWS], p->dim[FV_ATTN_GROUPS], group);
    for (uint32_t h = 0; h < p->heads; h++) {
        for (uint32_t i = 0; i < d; i++) {
            for (uint32_t j = h * dv; j < (h + 1) * dv; j++, at++)
                reduce_element(c, r0, r1, h * d + i, &j, want + at, allowed + at);
        }
        for (uint32_t i = 0; i < d; i++, at++)
            reduce_element(c, r0, r1, h * d + i, NULL, want + at, allowed + at);
    }
}

static bool make_merge(check_case *c, uint32_t index)
{
    const fv_problem *p = &c->args.prob;
    uint32_t gap;
    if (!make_problem(c, index, &gap))
        return false;
    c->args.prob.dim[FV_DIM_ROWS] = 1;
    check_matrix(c, FV_MERGE_PARTIAL, CHECK_BASE, p->dim[FV_ATTN_GROUPS], p->heads * state_size(p),
                 0);
    check_vector(c, FV_MERGE_STATE, p->heads * state_size(p));
    return true;
}

static void oracle_merge(const check_case *c, uint32_t row, double *want, double *allowed)
{
    const fv_problem *p = &c->args.prob;
    (void)row;
    for (uint32_t i = 0; i < p->heads * state_size(p); i++) {
        double size = 0.;
        want[i] = 0.;
        for (uint32_t g = 0; g < p->dim[FV_ATTN_GROUPS]; g++) {
            want[i] += check_at(c, FV_MERGE_PARTIAL, g, i);
            size += fabs(check_at(c, FV_MERGE_PARTIAL, g, i));
        }
        allowed[i] = check_allowed(p->dim[FV_ATTN_GROUPS], size) + FLT_MIN * p->dim[FV_ATTN_GROUPS];
    }
}

static bool make_apply(check_case *c, uint32_t index)
{
    const fv_problem *p = &c->args.prob;
    uint32_t gap;
    if (!make_problem(c, index, &gap))
        return false;
    c->args.prob.flags = sizes[index % (sizeof sizes / sizeof *sizes)].flags;
    c->args.f[0] = 0.7f;
    c->args.f[1] = 1e-6f;
    check_matrix(c, FV_APPLY_Q, CHECK_ROW, p->dim[0], p->heads * p->dim[FV_ATTN_D], gap);
    check_vector(c, FV_APPLY_STATE, p->heads * state_size(p));
    check_matrix(c, FV_APPLY_OUT, CHECK_ROW, p->dim[0], p->heads * p->dim[FV_ATTN_DV], gap);
    return true;
}

/* The mean feature is not negative. */
static void prepare_apply(check_case *c, check_random *r)
{
    const uint32_t d = c->args.prob.dim[FV_ATTN_D], size = state_size(&c->args.prob);
    (void)r;
    for (uint32_t h = 0; h < c->args.prob.heads; h++) {
        for (uint32_t i = 0; i < d; i++) {
            float *m = check_value(c, FV_APPLY_STATE, 0, (h + 1) * size - d + i);
            *m = fabsf(*m);
        }
    }
}

/* sum of phi(q_i) state[at + i stride], and the error that it may have. */
static double read_state(const check_case *c, uint32_t row, uint32_t head, uint32_t at,
                         uint32_t stride, double *error)
{
    const uint32_t d = c->args.prob.dim[FV_ATTN_D];
    double sum = 0., size = 0., features = 0.;
    for (uint32_t i = 0; i < d; i++) {
        const double f = phi(c, check_at(c, FV_APPLY_Q, row, head * d + i));
        const double x = f * check_at(c, FV_APPLY_STATE, 0, at + i * stride);
        sum += x;
        size += fabs(x);
        features += f;
    }
    *error = check_allowed(d + 4., size) + FLT_MIN * (d + features);
    return sum;
}

static void oracle_apply(const check_case *c, uint32_t row, double *want, double *allowed)
{
    const fv_problem *p = &c->args.prob;
    const uint32_t d = p->dim[FV_ATTN_D], dv = p->dim[FV_ATTN_DV];
    for (uint32_t h = 0; h < p->heads; h++) {
        const uint32_t state = h * state_size(p);
        double z_error;
        const double z = read_state(c, row, h, state + d * dv, 1, &z_error) + c->args.f[1];
        for (uint32_t j = 0; j < dv; j++) {
            double error;
            const double o = read_state(c, row, h, state + j, dv, &error);
            double *w = want + h * dv + j, *e = allowed + h * dv + j;
            if (p->flags & FV_FLAG_UNNORMALISED) {
                *w = o * c->args.f[0];
                *e = error * c->args.f[0];
            } else {
                *w = o / z;
                *e = (error + fabs(*w) * z_error) / z;
            }
            *e += check_allowed(4., fabs(*w)) + FLT_MIN;
        }
    }
}

const check_op check_lattn_reduce = {.make = make_reduce, .oracle = oracle_reduce};
const check_op check_lattn_merge = {.make = make_merge, .oracle = oracle_merge};
const check_op check_lattn_apply = {
    .make = make_apply, .prepare = prepare_apply, .oracle = oracle_apply};
