/* softmax_attention.h: names for the dim[] and operands, by number, of softmax attention, and of
 * ops that prepare its keys and scores. The contract in ref_<op>.c defines each. */
#ifndef FOVEA_SRC_CONTRACTS_SOFTMAX_ATTENTION_H
#define FOVEA_SRC_CONTRACTS_SOFTMAX_ATTENTION_H

/* dim[] of all attention ops */
enum { FV_ATTN_D = 1, FV_ATTN_DV = 2, FV_ATTN_KEYS = 3, FV_ATTN_GROUPS = 4 };
/* The sizes that all attention ops have, for use as .dim = {FV_ATTN_SIZES, ..}. */
#define FV_ATTN_SIZES {"rows", FV_DIM_TOKENS}, [FV_ATTN_D] = {"d"}, [FV_ATTN_DV] = {"dv"}

/* SOFTMAX and WSOFTMAX: columns of the keys' grid if relative positions are added to scores, else 0
 */
enum { FV_REL_POS_COLUMNS = 5 };
enum { FV_SOFTMAX_Q, FV_SOFTMAX_K, FV_SOFTMAX_V, FV_SOFTMAX_REL_POS, FV_SOFTMAX_OUT };
/* WSOFTMAX and WLATTN; dim[] is that of SOFTMAX */
enum { FV_WINDOW_Q, FV_WINDOW_K, FV_WINDOW_V, FV_WINDOW_PARAM, FV_WINDOW_OUT };

/* REL_POS, in addition to FV_ATTN_D */
enum { FV_REL_POS_HEIGHT = 2, FV_REL_POS_WIDTH = 3 };
enum { FV_REL_POS_Q, FV_REL_POS_DOWN, FV_REL_POS_ACROSS, FV_REL_POS_OUT };

/* MASK_KEYS, in addition to FV_ROW_C */
enum { FV_MASK_BEFORE = 2 };
enum { FV_MASK_IN, FV_MASK_MOST, FV_MASK_OUT };
/* The number that MASK_KEYS adds to the score of a hidden key: the exponential of the sum is 0, and
 * float16 can represent the number. */
#define FV_MASK_HIDDEN -8192.f

/* KEYS_I8 */
enum { FV_KEYS_CELLS = 4 };
enum { FV_KEYS_K, FV_KEYS_V, FV_KEYS_CELL_K, FV_KEYS_CELL_V, FV_KEYS_OUT };

/* FOVEATED; also CELLS, whose dim[] has FV_ROW_C too */
enum { FV_FOVEA_WIDTH = 5, FV_FOVEA_HEIGHT = 6, FV_FOVEA_MARGIN = 7 };
enum { FV_CELLS_IN, FV_CELLS_OUT };
enum {
    FV_FOVEATED_Q,
    FV_FOVEATED_K,
    FV_FOVEATED_V,
    FV_FOVEATED_CELL_K,
    FV_FOVEATED_CELL_V,
    FV_FOVEATED_OUT
};

/* MAP_REDUCE: attention pooling */
enum { FV_MAP_Q, FV_MAP_K, FV_MAP_V, FV_MAP_PARTIAL };

/* DEFORM, in addition to FV_ATTN_D */
enum { FV_DEFORM_POINTS = 2, FV_DEFORM_LEVELS = 3, FV_DEFORM_FROM = 4 };
enum { FV_DEFORM_VALUES, FV_DEFORM_BOX, FV_DEFORM_OFFSET, FV_DEFORM_WEIGHT, FV_DEFORM_OUT };

#endif
