/* op_plan.h: plans of one operation. */
#ifndef FOVEA_SRC_PLAN_OP_PLAN_H
#define FOVEA_SRC_PLAN_OP_PLAN_H

#include <fovea/operations.h>

#include "plan/plan.h"

/* The operation to plan, and the options that attention and GEMM have in common. */
typedef struct fv_op_options {
    const fovea_attention_options *attention; /* NULL if the operation is a GEMM, which `gemm`
                                                 describes */
    const fovea_gemm_options *gemm;
    bool remembers; /* attention: the state is kept for the next call; with causal softmax it is
                       a cache of attention->keys tokens */
    uint32_t rows, chunk;
    fovea_dtype storage, out_storage;
    fovea_schedule schedule;
    uint64_t memory_limit;
    fovea_rigor rigor;
    double tune_seconds;
    fovea_compute compute;
} fv_op_options;
/* Wraps options whose struct_size is current; they must outlive the result. */
fv_op_options fv_op_of_attention(const fovea_attention_options *attention);
fv_op_options fv_op_of_gemm(const fovea_gemm_options *gemm);

/* Makes the plan of one operation, whose choices are looked up in `wisdom`. `kept` is the plan
 * whose state it continues, or NULL if it has its own. */
fovea_status fv_op_plan(fovea_plan **out, fovea_device *device, const fv_op_options *options,
                        const fovea_plan *kept, fv_wisdom *wisdom);
/* op_check.c: returns FOVEA_EINVAL or FOVEA_ENOTSUP for options of an attention that are not
 * consistent. */
fovea_status fv_op_check(const fovea_attention_options *o, const fv_attention_name *name,
                         bool remembers);
/* op_attention.c: emits the steps of an attention. */
fovea_status fv_op_attention(fv_builder *b, const fovea_attention_options *o,
                             const fv_attention_name *name, bool remembers);
/* op_operands.c: returns rows of `type` as operand `operand` of `op` accepts them: unchanged, or
 * converted to bfloat16 if products are computed in it, or else to float32. */
fv_view fv_op_rows(fv_builder *b, const char *name, fv_view in, enum fv_type type, uint32_t rows,
                   uint32_t cols, enum fv_op op, uint32_t operand);
/* Returns a (rows, cols) weight with these values, or with zeros if `values` is NULL. */
fv_weight fv_op_constant(fv_builder *b, uint32_t rows, uint32_t cols, const float *values);
/* Returns the number of floats of a causal operation's state: S of every head, then Z; or the cache
 * of keys and values. Returns 0 if the operation has no state. */
uint64_t fv_op_state_floats(const fovea_plan *p);
/* Returns the input with each row's position in the sequence, which the plan sets itself, or NULL
 * if there is no such input. */
const fv_value *fv_op_position(const fovea_plan *p);
/* Returns FOVEA_EINVAL for options that are wrong for every operation. */
fovea_status fv_op_options_check(const fv_op_options *o);

#endif
