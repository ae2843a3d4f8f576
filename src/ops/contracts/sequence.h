/* sequence.h: names for the dim[] and operands, by number, of ops that keep a state from one token
 * to the next. The contract in ref_<op>.c defines each. */
#ifndef FOVEA_SRC_CONTRACTS_SEQUENCE_H
#define FOVEA_SRC_CONTRACTS_SEQUENCE_H

#include "ops/contracts/softmax_attention.h"

/* SCAN, with the dim[] of attention.h */
enum {
    FV_SCAN_Q,
    FV_SCAN_K,
    FV_SCAN_V,
    FV_SCAN_DECAY,
    FV_SCAN_BETA,
    FV_SCAN_GATE_Q,
    FV_SCAN_GATE_K,
    FV_SCAN_STATE, /* read and written, in addition to the output */
    FV_SCAN_OUT
};

/* SOFTMAX_SCAN, also with the dim[] of attention.h, and */
enum { FV_CACHE_KV_HEADS = 4 };
enum {
    FV_CACHE_Q,
    FV_CACHE_K,
    FV_CACHE_V,
    FV_CACHE_POSITION,
    FV_CACHE_STATE, /* read and written, as is SCAN's state */
    FV_CACHE_OUT
};

/* SHORT_CONV, in addition to FV_ROW_C */
enum { FV_SHORT_CONV_SIZE = 2 };
#define FV_SHORT_CONV_LARGEST 16u /* maximum FV_SHORT_CONV_SIZE */
enum {
    FV_SHORT_CONV_IN,
    FV_SHORT_CONV_W,
    FV_SHORT_CONV_BIAS,
    FV_SHORT_CONV_STATE, /* read and written, as is SCAN's state */
    FV_SHORT_CONV_OUT
};

#endif
