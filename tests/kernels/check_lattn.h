/* check_lattn.h: cases and reference of linear attention, also for check_wlattn.c and
 * check_lattn_grad.c. */
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
    /* FV_BF16: products of bfloat16; x and v are the storage types of q or k, and of v or the
     * output */
    enum fv_type acc, x, v;
} check_lattn_size;

/* Sets the storage type of an operand of tokens. */
static inline void check_lattn_store(check_case *c, int operand, enum fv_type type)
{
    c->operand[operand].storage = (uint8_t)(type ? type : FV_F32);
}

static inline const fv_mech_traits *check_lattn_traits(const check_case *c)
{
    return fv_mech_table[c->args.prob.mech];
}

/* Returns the mechanism's constant for a case: the default or another one. */
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

/* A value and the bound of its error. */
typedef struct check_known {
    double v, e;
} check_known;

/* Computes what LATTN_REDUCE must store for group `number`: the states of all heads. */
void check_lattn_state(const check_case *c, uint32_t number, double *want, double *allowed);

/* Computes what LATTN_APPLY must return for query `row` and the states of all heads. For cases of
 * other ops the errors of the states count as independent. */
void check_lattn_query(const check_case *c, uint32_t row, const check_known *state, double *want,
                       double *allowed);

#endif
