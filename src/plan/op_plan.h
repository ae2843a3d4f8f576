/* op_plan.h: plans of one operation. */
#ifndef FOVEA_SRC_PLAN_OP_PLAN_H
#define FOVEA_SRC_PLAN_OP_PLAN_H

#include <fovea/operations.h>

#include "plan/plan.h"

/* One operation to be planned: the options that attention and GEMM have in common. */
typedef struct fv_op_options {
    const fovea_attention_options *attention; /* or NULL, and gemm */
    const fovea_gemm_options *gemm;
    bool remembers; /* attention: the state goes on in the next call; with causal softmax it is a
                       cache of attention->keys tokens */
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

/* The plan of one operation, whose choices are looked up in `wisdom`. `kept`: the plan whose state
 * it continues; NULL: it has its own. */
fovea_status fv_op_plan(fovea_plan **out, fovea_device *device, const fv_op_options *options,
                        const fovea_plan *kept, fv_wisdom *wisdom);
/* op_check.c: EINVAL or ENOTSUP for options of an attention that are not consistent. */
fovea_status fv_op_check(const fovea_attention_options *o, const fv_attention_name *name,
                         bool remembers);
/* op_attention.c: its steps. */
fovea_status fv_op_attention(fv_builder *b, const fovea_attention_options *o,
                             const fv_attention_name *name, bool remembers);
/* op_operands.c. Rows of `type`, as operand `operand` of `op` takes them: unchanged, or converted
 * to bfloat16 if products are computed in it, else to float32. */
fv_view fv_op_rows(fv_builder *b, const char *name, fv_view in, enum fv_type type, uint32_t rows,
                   uint32_t cols, enum fv_op op, uint32_t operand);
/* A (rows, cols) weight with these values; NULL: all zeros. */
fv_weight fv_op_constant(fv_builder *b, uint32_t rows, uint32_t cols, const float *values);
/* Floats of a causal operation's state: S of every head, then Z; or the cache of keys and values. 0
 * if it has no state. */
uint64_t fv_op_state_floats(const fovea_plan *p);
/* The input with each row's position in the sequence, which the plan sets itself; NULL: there is no
 * such input. */
const fv_value *fv_op_position(const fovea_plan *p);
/* EINVAL for options that are wrong for every operation. */
fovea_status fv_op_options_check(const fv_op_options *o);

#endif
