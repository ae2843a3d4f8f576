/* lattn_counts.h: counts terms and FLOPs for the descriptors of linear attention's operations.
 * Their files are compiled once for each mechanism, and once without a mechanism for the
 * descriptor. */
#ifndef FOVEA_SRC_REF_LATTN_COUNTS_H
#define FOVEA_SRC_REF_LATTN_COUNTS_H

#include "ops/contracts/linear_attention.h"
#include "ops/mech_traits.h"

typedef struct fv_lattn_counts {
    double heads, rows, blocks, d, dv;
    double powers, centred; /* additional FLOPs: for features in two blocks, and for centred
                               values */
} fv_lattn_counts;

static inline fv_lattn_counts fv_lattn_count(const fv_problem *p)
{
    const fv_mech_traits *t = fv_mech_table[p->mech];
    fv_lattn_counts n = {.heads = p->heads,
                         .rows = p->dim[FV_DIM_ROWS],
                         .blocks = t->blocks,
                         .d = p->dim[FV_ATTN_D],
                         .dv = p->dim[FV_ATTN_DV]};
    n.powers = t->blocks > 1 ? n.d / 2 : 0;
    n.centred = t->wants & FV_WANT_CENTRED ? 3 * n.d : 0;
    return n;
}

static inline double fv_lattn_reduce_terms(const fv_problem *p)
{
    const fv_lattn_counts n = fv_lattn_count(p);
    return n.rows + n.blocks * n.d;
}

/* Returns the number of terms of a sum in gradients of rows: over features, or over the values that
 * are multiplied by them. */
static inline double fv_lattn_grad_terms(const fv_problem *p)
{
    const fv_lattn_counts n = fv_lattn_count(p);
    return n.blocks * n.d + n.dv;
}

static inline double fv_lattn_grad_flops(const fv_problem *p)
{
    const fv_lattn_counts n = fv_lattn_count(p);
    return n.heads * n.rows * n.blocks * (2 * n.d * n.dv + 6 * n.d + 2 * n.powers + n.centred);
}

/* The operands of LATTN_REDUCE and of the gradients of keys, and those of LATTN_APPLY and of the
 * gradients of queries. */
#define FV_LATTN_KEY_OPERANDS                                                                      \
    [FV_REDUCE_K] = {"K", FV_ATTN_D, .heads = true},                                               \
    [FV_REDUCE_V] = {"V", FV_ATTN_DV, .heads = true},                                              \
    [FV_REDUCE_PARAM] = {"PARAM", FV_ATTN_D, .heads = true, .stored = FV_STORED_FLOATS},           \
    [FV_REDUCE_COS] = {"COS", .stored = FV_STORED_FLOATS},                                         \
    [FV_REDUCE_SIN] = {"SIN", .stored = FV_STORED_FLOATS},                                         \
    [FV_REDUCE_GATE] = {"GATE", .heads = true, .nature = FV_NATURE_FRACTION}
#define FV_LATTN_QUERY_OPERANDS                                                                    \
    [FV_APPLY_Q] = {"Q", FV_ATTN_D, .heads = true},                                                \
    [FV_APPLY_STATE] = {"STATE", .columns = fv_lattn_state_columns,                                \
                        .state_of = FV_OP_LATTN_REDUCE},                                           \
    [FV_APPLY_PARAM] = {"PARAM", FV_ATTN_D, .heads = true, .stored = FV_STORED_FLOATS},            \
    [FV_APPLY_COS] = {"COS", .stored = FV_STORED_FLOATS},                                          \
    [FV_APPLY_SIN] = {"SIN", .stored = FV_STORED_FLOATS},                                          \
    [FV_APPLY_GATE] = {"GATE", .heads = true, .nature = FV_NATURE_FRACTION}

/* Returns the number of floats of the state of all heads. */
static inline uint32_t fv_lattn_state_columns(const fv_problem *p)
{
    const fv_mech_traits *t = fv_mech_table[p->mech];
    const fv_lattn_state l =
        fv_lattn_layout(t->blocks, t->wants, p->dim[FV_ATTN_D], p->dim[FV_ATTN_DV]);
    return p->heads * (uint32_t)l.floats;
}

#endif
