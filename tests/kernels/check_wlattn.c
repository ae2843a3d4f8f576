/* check_wlattn.c: cases of WLATTN; its reference uses those of LATTN_REDUCE and LATTN_APPLY. */
#include <math.h>
#include <stdlib.h>

#include "ops/contracts/linear_attention.h"
#include "ops/mech_traits.h"
#include "tests/kernels/check_lattn.h"

static const struct {
    uint32_t windows, window, heads, d, dv, gap, flags;
    enum fv_type acc, q, k, v, out; /* none: float32 */
} sizes[] = {
    {1, 1, 1, 1, 2, 0, 0},
    {7, 4, 2, 8, 8, 1, 0},
    {2, 49, 1, 32, 32, 0, 0},
    {3, 16, 3, 12, 6, 2, FV_FLAG_UNNORMALISED},
    {2, 50, 2, 17, 34, 0, 0},
    {1, 144, 1, 64, 64, 3, 0},
    {1, 400, 1, 9, 10, 0, 0},
    {64, 49, 3, 32, 32, 0, 0},
    {3, 1, 2, 3, 4, 1, 0, FV_BF16, FV_BF16, FV_BF16, FV_BF16, FV_BF16},
    {2, 49, 2, 32, 32, 0, 0, FV_BF16, FV_BF16, FV_BF16, FV_BF16, FV_BF16},
    {2, 15, 1, 17, 34, 2, 0, FV_BF16, FV_F32, FV_BF16, FV_F32, FV_BF16},
    {1, 193, 1, 12, 6, 0, FV_FLAG_UNNORMALISED, FV_BF16, FV_BF16, FV_F32, FV_BF16, FV_F32},
};

static const fv_mech_traits *traits(const check_case *c)
{
    return fv_mech_table[c->args.prob.mech];
}

/* The state of one window; rows are mostly requested in order. */
static struct {
    check_known *value;
    uint32_t window;
} kept;

static bool make(check_case *c, uint32_t index)
{
    const uint32_t count = sizeof sizes / sizeof *sizes, i = index % count;
    fv_problem *p = &c->args.prob;
    if (index >= count * (FV_MECH_COUNT - 1))
        return false;
    const uint32_t rows = sizes[i].windows * sizes[i].window, heads = sizes[i].heads;
    p->mech = (uint16_t)(FV_MECH_ANY + 1 + index / count);
    p->heads = (uint16_t)heads;
    p->flags = sizes[i].flags;
    if (traits(c)->wants & FV_WANT_SIGNED)
        p->flags |= FV_FLAG_UNNORMALISED;
    p->dim[FV_DIM_ROWS] = rows;
    p->dim[FV_ATTN_D] = sizes[i].d;
    p->dim[FV_ATTN_DV] = sizes[i].dv;
    p->dim[FV_ATTN_KEYS] = c->align = sizes[i].window;
    c->args.f[0] = 0.7f;
    c->args.f[1] = index % 3 ? 1e-6f : 0.f;
    c->args.f[2] = check_lattn_constant(c, index);
    for (int x = FV_WINDOW_Q; x <= FV_WINDOW_V; x++)
        check_matrix(c, x, CHECK_ROW, rows, heads * (x == FV_WINDOW_V ? sizes[i].dv : sizes[i].d),
                     sizes[i].gap);
    if (traits(c)->params)
        check_matrix(c, FV_WINDOW_PARAM, CHECK_BASE, traits(c)->params, heads * sizes[i].d, 0);
    check_matrix(c, FV_WINDOW_OUT, CHECK_ROW, rows, heads * sizes[i].dv, 0);
    /* Keeps the products of the features of q and k and of v finite. */
    const bool exponential =
        p->mech == FV_MECH_MALA_EXP || (p->mech == FV_MECH_EXP && p->flags & FV_FLAG_UNNORMALISED);
    const float huge = exponential ? 10.f : traits(c)->blocks > 1 ? 100.f : 1e8f;
    for (int x = FV_WINDOW_Q; x <= FV_WINDOW_V; x++)
        c->operand[x].huge = x == FV_WINDOW_V ? 1e6f : huge;
    c->args.prob.acc = (uint8_t)(sizes[i].acc ? sizes[i].acc : FV_F32);
    check_lattn_store(c, FV_WINDOW_Q, sizes[i].q);
    check_lattn_store(c, FV_WINDOW_K, sizes[i].k);
    check_lattn_store(c, FV_WINDOW_V, sizes[i].v);
    check_lattn_store(c, FV_WINDOW_OUT, sizes[i].out);
    c->bench = sizes[i].windows == 64;
    return true;
}

static void prepare(check_case *c, check_random *r)
{
    free(kept.value);
    kept.value = NULL;
    for (uint32_t i = 0; i < traits(c)->params; i++) {
        for (uint32_t j = 0; j < c->args.prob.heads * c->args.prob.dim[FV_ATTN_D]; j++)
            *check_value(c, FV_WINDOW_PARAM, i, j) = (float)check_normal(r);
    }
}

static void release(check_case *c)
{
    (void)c;
    free(kept.value);
    kept.value = NULL;
}

/* Treats windows as the groups of LATTN_REDUCE. */
static void take_state(const check_case *c, uint32_t window)
{
    const fv_problem *p = &c->args.prob;
    const size_t floats = p->heads * fv_lattn_layout(traits(c)->blocks, traits(c)->wants,
                                                     p->dim[FV_ATTN_D], p->dim[FV_ATTN_DV])
                                         .floats;
    check_case keys = {
        .args = {.prob = *p, .f = {1.f / (float)p->dim[FV_ATTN_KEYS], c->args.f[2]}}};
    keys.args.prob.dim[FV_ATTN_GROUPS] = p->dim[FV_DIM_ROWS] / p->dim[FV_ATTN_KEYS];
    keys.operand[FV_REDUCE_K] = c->operand[FV_WINDOW_K];
    keys.operand[FV_REDUCE_V] = c->operand[FV_WINDOW_V];
    keys.operand[FV_REDUCE_PARAM] = c->operand[FV_WINDOW_PARAM];
    keys.operand[FV_REDUCE_PARTIAL] =
        (check_operand){.kind = CHECK_PARTIAL, .rows = keys.args.prob.dim[FV_ATTN_GROUPS]};
    double *want = malloc(2 * floats * sizeof *want);
    check_known *value = malloc(floats * sizeof *value);
    if (!want || !value)
        abort();
    check_lattn_state(&keys, window, want, want + floats);
    for (size_t i = 0; i < floats; i++)
        value[i] = (check_known){want[i], want[floats + i]};
    free(want);
    free(kept.value);
    kept.value = value;
    kept.window = window;
}

static void oracle(const check_case *c, uint32_t row, double *want, double *allowed)
{
    const uint32_t window = row / c->args.prob.dim[FV_ATTN_KEYS];
    check_case queries = {.args = c->args};
    if (!kept.value || kept.window != window)
        take_state(c, window);
    queries.operand[FV_APPLY_Q] = c->operand[FV_WINDOW_Q];
    queries.operand[FV_APPLY_PARAM] = c->operand[FV_WINDOW_PARAM];
    check_lattn_query(&queries, row, kept.value, want, allowed);
}

const check_op check_wlattn = {
    .make = make, .prepare = prepare, .oracle = oracle, .release = release};
