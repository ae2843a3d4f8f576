/* training.h: names for the indices of dim[] and operands of gradients and losses; dim[] also has
 * FV_ROW_C. The contract in ref_<op>.c defines each. */
#ifndef FOVEA_SRC_TRAIN_TRAINING_H
#define FOVEA_SRC_TRAIN_TRAINING_H

#include "ops/contracts/linear_attention.h"
#include "ops/op.h"

enum { FV_GRAD_TOKENS = 2 }; /* dim[]: number of tokens to sum over */

/* Returns the number of terms of a sum over these tokens, for `terms`. */
static inline double fv_terms_tokens(const fv_problem *p)
{
    return p->dim[FV_GRAD_TOKENS];
}

/* ACT_GRAD, MSE_GRAD's sum, SUM_ROWS */
enum { FV_ACT_GRAD_IN, FV_ACT_GRAD_DOUT, FV_ACT_GRAD_OUT };
enum { FV_SUM_A, FV_SUM_B, FV_SUM_OUT };

/* GEMM_GRAD_W, LAYERNORM_GRAD, LAYERNORM_GRAD_W */
enum { FV_GRAD_W_DOUT, FV_GRAD_W_IN, FV_GRAD_W_OUT };
enum { FV_LN_GRAD_IN, FV_LN_GRAD_WEIGHT, FV_LN_GRAD_DOUT, FV_LN_GRAD_RES, FV_LN_GRAD_OUT };
enum { FV_LN_GRAD_W_IN, FV_LN_GRAD_W_DOUT, FV_LN_GRAD_W_OUT };

/* DWCONV_GRAD_W, with DWCONV's dim[] of grid.h; and POSEMB_GRAD */
enum { FV_DWCONV_TOKENS = 4 };
enum { FV_DWCONV_GRAD_W_IN, FV_DWCONV_GRAD_W_DOUT, FV_DWCONV_GRAD_W_OUT };
enum { FV_POSEMB_GRAD_DOUT, FV_POSEMB_GRAD_OUT };

/* TAKE_GRAD, MEAN_GRAD, UPSAMPLE_GRAD */
enum { FV_ROW_GRAD_DOUT, FV_ROW_GRAD_RES, FV_ROW_GRAD_OUT };

/* Losses and their gradients. */
enum { FV_MSE_A, FV_MSE_B, FV_MSE_OUT };
enum { FV_ENTROPY_LOGITS, FV_ENTROPY_LABELS, FV_ENTROPY_OUT };
enum { FV_SEGMENT_GRID = 2, FV_SEGMENT_WIDTH = 3, FV_SEGMENT_HEIGHT = 4 };
enum { FV_SEGMENT_LOGITS, FV_SEGMENT_MASK, FV_SEGMENT_WEIGHT, FV_SEGMENT_OUT };
enum { FV_DEPTH_FOUND, FV_DEPTH_TRUTH, FV_DEPTH_WEIGHT, FV_DEPTH_MEAN, FV_DEPTH_OUT };

/* Gradients of attention. FORWARD is the result of the forward step, and DOUT the gradient of that
 * result. */
enum {
    FV_SOFTMAX_GRAD_Q,
    FV_SOFTMAX_GRAD_K,
    FV_SOFTMAX_GRAD_V,
    FV_SOFTMAX_GRAD_FORWARD,
    FV_SOFTMAX_GRAD_DOUT,
    FV_SOFTMAX_GRAD_OUT
};
/* FOVEATED_GRAD: these follow the operands that FOVEATED reads */
enum { FV_FOVEATED_GRAD_FORWARD = FV_FOVEATED_OUT, FV_FOVEATED_GRAD_DOUT, FV_FOVEATED_GRAD_OUT };
/* LATTN_APPLY_GRAD and LATTN_STATE_GRAD: these follow the operands that LATTN_APPLY reads */
enum { FV_QUERY_GRAD_FORWARD = FV_APPLY_OUT, FV_QUERY_GRAD_DOUT, FV_QUERY_GRAD_OUT };
/* LATTN_REDUCE_GRAD and LATTN_GATE_GRAD: these follow the operands that LATTN_REDUCE reads */
enum { FV_KEY_GRAD_STATE = FV_REDUCE_PARTIAL, FV_KEY_GRAD_DSTATE, FV_KEY_GRAD_OUT };
/* LATTN_PARAM_GRAD */
enum { FV_PARAM_GRAD_COLUMNS = 1, FV_PARAM_GRAD_ROWS = 2, FV_PARAM_GRAD_D = 3 }; /* dim[] */
enum { FV_PARAM_GRAD_X, FV_PARAM_GRAD_DX, FV_PARAM_GRAD_PARAM, FV_PARAM_GRAD_OUT };
/* HEAD_DOT, GATES_GRAD */
enum { FV_DOT_D = 2 };
enum { FV_DOT_A, FV_DOT_B, FV_DOT_OUT };
enum { FV_GATES_GRAD_GATES, FV_GATES_GRAD_DOT, FV_GATES_GRAD_OUT };
/* MAP_GRAD, MAP_GRAD_Q */
enum {
    FV_MAP_GRAD_Q,
    FV_MAP_GRAD_K,
    FV_MAP_GRAD_V,
    FV_MAP_GRAD_FORWARD,
    FV_MAP_GRAD_DOUT,
    FV_MAP_GRAD_OUT
};

/* Operands of both gradients of keys. lattn_counts.h defines FV_LATTN_KEY_OPERANDS. */
#define FV_LATTN_KEY_GRAD_OPERANDS                                                                 \
    FV_LATTN_KEY_OPERANDS,                                                                         \
        [FV_KEY_GRAD_STATE] = {"STATE", .columns = fv_lattn_state_columns,                         \
                               .state_of = FV_OP_LATTN_REDUCE},                                    \
        [FV_KEY_GRAD_DSTATE] = {"DSTATE", .columns = fv_lattn_state_columns}

#endif
