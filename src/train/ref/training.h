/* training.h: names for the indices of dim[] and operands of gradients and losses; dim[] also has
 * FV_ROW_C. The contract in ref_<op>.c defines each. */
#ifndef FOVEA_SRC_TRAIN_TRAINING_H
#define FOVEA_SRC_TRAIN_TRAINING_H

#include "ops/contracts/linear_attention.h"
#include "ops/contracts/softmax_attention.h"
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

/* GROUPNORM_GRAD, GROUPNORM_GRAD_W; and PICK_GRAD */
enum { FV_GROUPNORM_GRAD_GROUPS = 2 };
enum {
    FV_GN_GRAD_IN,
    FV_GN_GRAD_STATE,
    FV_GN_GRAD_WEIGHT,
    FV_GN_GRAD_SUMS,
    FV_GN_GRAD_DOUT,
    FV_GN_GRAD_OUT
};
enum { FV_GN_GRAD_W_IN, FV_GN_GRAD_W_STATE, FV_GN_GRAD_W_DOUT, FV_GN_GRAD_W_OUT };
enum { FV_PICK_GRAD_INDEX, FV_PICK_GRAD_DOUT, FV_PICK_GRAD_OUT };

/* TAKE_GRAD, MEAN_GRAD, UPSAMPLE_GRAD */
enum { FV_ROW_GRAD_DOUT, FV_ROW_GRAD_RES, FV_ROW_GRAD_OUT };

/* Losses and their gradients. */
enum { FV_MSE_A, FV_MSE_B, FV_MSE_OUT };
enum { FV_ENTROPY_LOGITS, FV_ENTROPY_LABELS, FV_ENTROPY_OUT };
enum { FV_SEGMENT_GRID = 2, FV_SEGMENT_WIDTH = 3, FV_SEGMENT_HEIGHT = 4 };
enum { FV_SEGMENT_LOGITS, FV_SEGMENT_MASK, FV_SEGMENT_WEIGHT, FV_SEGMENT_OUT };
enum { FV_DEPTH_FOUND, FV_DEPTH_TRUTH, FV_DEPTH_WEIGHT, FV_DEPTH_MEAN, FV_DEPTH_OUT };

/* Losses of queries; FV_ROW_C counts the cells of a mask. */
enum { FV_QUERY_CLASSES = 2, FV_QUERY_POINTS = 3 };
enum { FV_QUERY_F_CLASS, FV_QUERY_F_MASK, FV_QUERY_F_DICE, FV_QUERY_F_NOTHING }; /* f[] */
enum { FV_QUERY_MASKS, FV_QUERY_LOGITS, FV_QUERY_PLACES, FV_QUERY_TARGETS };
enum { FV_COST_PRESENT = FV_QUERY_TARGETS + 1, FV_COST_OUT };
enum { FV_QUERY_MATCHED = FV_QUERY_TARGETS + 1, FV_QUERY_OUT };
enum { FV_MATCH_COST, FV_MATCH_PRESENT, FV_MATCH_OUT }; /* FV_ROW_C counts the queries */

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
/* SOFTMAX_GRAD_Q, SOFTMAX_GRAD_KV */
enum {
    FV_QUERIES_GRAD_Q,
    FV_QUERIES_GRAD_K,
    FV_QUERIES_GRAD_V,
    FV_QUERIES_GRAD_HIDDEN,
    FV_QUERIES_GRAD_FORWARD,
    FV_QUERIES_GRAD_DOUT,
    FV_QUERIES_GRAD_OUT
};
enum {
    FV_KEYS_GRAD_K,
    FV_KEYS_GRAD_V,
    FV_KEYS_GRAD_Q,
    FV_KEYS_GRAD_HIDDEN,
    FV_KEYS_GRAD_STATE,
    FV_KEYS_GRAD_DOUT,
    FV_KEYS_GRAD_OUT
};
/* DEFORM_GRAD, DEFORM_GRAD_VALUES; dim[] is that of DEFORM, and the number of queries of the latter
 */
enum { FV_DEFORM_QUERIES = 4 };
enum {
    FV_DEFORM_GRAD_VALUES,
    FV_DEFORM_GRAD_BOX,
    FV_DEFORM_GRAD_OFFSET,
    FV_DEFORM_GRAD_WEIGHT,
    FV_DEFORM_GRAD_DOUT,
    FV_DEFORM_GRAD_OUT
};
enum {
    FV_VALUES_GRAD_BOX,
    FV_VALUES_GRAD_OFFSET,
    FV_VALUES_GRAD_WEIGHT,
    FV_VALUES_GRAD_DOUT,
    FV_VALUES_GRAD_OUT
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
