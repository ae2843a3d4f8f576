/* linear_attention.h: names for the dim[] and operands, by number, of linear attention.
 * softmax_attention.h has the names of its sizes. The contract in ref_<op>.c defines each. */
#ifndef FOVEA_SRC_CONTRACTS_LINEAR_ATTENTION_H
#define FOVEA_SRC_CONTRACTS_LINEAR_ATTENTION_H

#include "ops/contracts/softmax_attention.h"

/* LATTN_REDUCE, LATTN_MERGE, LATTN_APPLY */
enum {
    FV_REDUCE_K,
    FV_REDUCE_V,
    FV_REDUCE_PARAM,
    FV_REDUCE_COS,
    FV_REDUCE_SIN,
    FV_REDUCE_GATE,
    FV_REDUCE_PARTIAL
};
enum { FV_MERGE_PARTIAL, FV_MERGE_STATE };
enum {
    FV_APPLY_Q,
    FV_APPLY_STATE,
    FV_APPLY_PARAM,
    FV_APPLY_COS,
    FV_APPLY_SIN,
    FV_APPLY_GATE,
    FV_APPLY_OUT
};

/* GATES */
enum { FV_GATES_IN, FV_GATES_OUT };

#endif
