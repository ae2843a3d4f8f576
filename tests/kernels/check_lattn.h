/* check_lattn.h: cases of linear attention and what it should give, for check_wlattn.c and
 * check_lattn_grad.c too. */
#ifndef FOVEA_TESTS_CHECK_LATTN_H
#define FOVEA_TESTS_CHECK_LATTN_H

#include "ops/mech_traits.h"
#include "tests/kernels/check.h"

/* Flags of cases. */
enum {
    ROPE = FV_FLAG_ROPE,
    GATED = FV_FLAG_GATED,
    PLAIN = FV_FLAG_UNNORMALISED,
};

typedef struct check_lattn_size {
    uint32_t rows, heads, d, dv, groups, gap, flags, grid; /* grid 0: tables of tokens */
    /* FV_BF16: products of bfloat16; how q or k, and v or the output, are then stored. */
    enum fv_type acc, x, v;
} check_lattn_size;

/* How an operand of tokens is stored. */
static inline void check_lattn_store(check_case *c, int operand, enum fv_type type)
{
    c->operand[operand].storage = (uint8_t)(type ? type : FV_F32);
}

static inline const fv_mech_traits *check_lattn_traits(const check_case *c)
{
    return fv_mech_table[c->args.prob.mech];
}

/* The mechanism's constant of a case: its own, or another. */
static inline float check_lattn_constant(const check_case *c, uint32_t index)
{
    return index % 2 ? 2.5f : check_lattn_traits(c)->alpha;
}

static inline fv_lattn_state check_lattn_layout(const check_case *c)
{
    const fv_mech_traits *t = check_lattn_traits(c);
    const uint32_t *dim = c->args.prob.dim;
    return fv_lattn_layout(t->blocks, t->wants, dim[FV_ATTN_D], dim[FV_ATTN_DV]);
}

/* A value and its error. */
typedef struct check_known {
    double v, e;
} check_known;

/* What LATTN_REDUCE should leave of group `number`: heads states. */
void check_lattn_state(const check_case *c, uint32_t number, double *want, double *allowed);

/* What LATTN_APPLY should make of query `row` and the states of all heads. In a case of another op
 * their errors are independent of each other. */
void check_lattn_query(const check_case *c, uint32_t row, const check_known *state, double *want,
                       double *allowed);

#endif
