/* op.h: operations, and problems: an operation with its sizes and types. */
#ifndef FOVEA_SRC_OP_H
#define FOVEA_SRC_OP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/type.h"

enum fv_op {
    FV_OP_NONE,
#define FV_OP(NAME, name) FV_OP_##NAME,
#include "ops/ops.inc"
#undef FV_OP
    FV_OP_COUNT
};

/* Attention mechanisms: FV_MECH_<NAME> for every line of src/mech/mech.inc. */
enum fv_mech {
    FV_MECH_ANY, /* for ops and kernels that do not depend on the mechanism */
#define FV_MECH(NAME, name, ...) FV_MECH_##NAME,
#include "mech/mech.inc"
#undef FV_MECH
    FV_MECH_COUNT
};

/* FV_IF_1 expands to its arguments, FV_IF_0 to nothing: the traits of mech.inc are 1 or 0. */
#define FV_IF_1(...) __VA_ARGS__
#define FV_IF_0(...)

/* Epilogue of GEMM, applied in this order to acc = sum_k a[i][k] w[n][k]:
 *   acc += bias[n];  acc = act(acc);  acc *= scale[n];  acc += res[i][n]
 * SWIGLU replaces bias and act: the weight has 2N rows, value rows and gate rows in pairs, and
 *   out[i][n] = silu(x1) * x2 with x1 = row n, x2 = row N + n (each with its bias). */
enum fv_epi {
    FV_EPI_BIAS = 1u << 0,
    FV_EPI_SCALE = 1u << 1,    /* layer scale, one element per output column */
    FV_EPI_RESIDUAL = 1u << 2, /* res may be the same memory as out */
    FV_EPI_SWIGLU = 1u << 8,
#define FV_ACTIVATION(NAME, name, bit, ...) FV_EPI_##NAME = 1u << (bit),
#include "act/activations.inc"
#undef FV_ACTIVATION
    FV_EPI_ACT = 0 /* every activation */
#define FV_ACTIVATION(NAME, ...) | FV_EPI_##NAME
#include "act/activations.inc"
#undef FV_ACTIVATION
};

/* The activations in the order of activations.inc. */
enum {
#define FV_ACTIVATION(NAME, ...) FV_ACTIVATION_##NAME,
#include "act/activations.inc"
#undef FV_ACTIVATION
    FV_ACTIVATIONS
};
typedef struct fv_activation {
    const char *name; /* the name in fovea_gemm_options */
    uint32_t epi;     /* enum fv_epi */
} fv_activation;
extern const fv_activation fv_activations[FV_ACTIVATIONS];

/* Activations that GEMM and CONV may compute with an error of FV_ROUGH_ERROR if they multiply or
 * store bfloat16 or int8. Rounding to these types causes larger errors, and the rough functions
 * take half the time. */
#define FV_EPI_ROUGH (FV_EPI_GELU | FV_EPI_GELU_TANH)
#define FV_ROUGH_ERROR 2.6e-5

/* Flags of a problem. */
enum fv_flag {
    FV_FLAG_CAUSAL = 1u << 0,         /* query i attends to keys j <= i */
    FV_FLAG_UNNORMALISED = 1u << 1,   /* linear attention and scans: no division by the
                                         denominator */
    FV_FLAG_PLANAR = 1u << 2,         /* PATCH: float planes (C,H,W), already normalised */
    FV_FLAG_BGR = 1u << 3,            /* PATCH: u8 pixels in B,G,R order */
    FV_FLAG_GRAY = 1u << 4,           /* PATCH: one u8 channel, which is used for all three */
    FV_FLAG_ROPE = 1u << 5,           /* LATTN: COS and SIN rotate the features, except those of
                                         the denominator */
    FV_FLAG_GATED = 1u << 6,          /* LATTN, SCAN: per-token, per-head gates are given (SLA) */
    FV_FLAG_DECAY = 1u << 7,          /* SCAN: log decay per token and head is given */
    FV_FLAG_DECAY_CHANNEL = 1u << 8,  /* SCAN: log decay per token, head and key channel is given
                                         (GLA) */
    FV_FLAG_DELTA = 1u << 9,          /* SCAN: delta rule with BETA */
    FV_FLAG_L2 = 1u << 10,            /* SCAN: features of q and k are L2-normalised */
    FV_FLAG_RECURRENT = 1u << 11,     /* SCAN: only kernels that compute token by token */
    FV_FLAG_CHUNKWISE = 1u << 12,     /* SCAN: only kernels that compute chunk by chunk */
    FV_FLAG_SILU = 1u << 13,          /* MUL, RMSNORM: SiLU is applied to the gate; SHORT_CONV:
                                         to the result */
    FV_FLAG_SHARED = 1u << 14,        /* DWCONV: the same filters for every head */
    FV_FLAG_NV12 = 1u << 15,          /* PATCH, RESIZE_X: luma is in IN, and U and V are in
                                         CHROMA; see yuv.h */
    FV_FLAG_YUYV = 1u << 16,          /* PATCH, RESIZE_X: luma and chroma in one plane */
    FV_FLAG_ACCUMULATE = 1u << 17,    /* gradients of weights are added to the contents of OUT */
    FV_FLAG_RELATIVE = 1u << 18,      /* MSE: each row's squared error is divided by the sum of
                                         squares of the row of B */
    FV_FLAG_NEAREST = 1u << 19,       /* UPSAMPLE: uses the nearest pixel, without interpolation */
    FV_FLAG_ALIGN_CORNERS = 1u << 20, /* UPSAMPLE: the outermost pixels' centres keep their
                                         positions */
    FV_FLAG_CENTRED = 1u << 21,       /* SCAN: MALA, whose state has means and a covariance
                                         instead of sums */
    FV_FLAG_LARGEST = 1u << 22,       /* MEAN_*, ADAPTIVE_POOL: compute the maximum instead of
                                         the mean; CANDIDATES: only the largest score of a row */
    FV_FLAG_CENTRES = 1u << 23,       /* DEFORM: BOX has only centres, and offsets are in values
                                         of a level */
};

#define FV_FLAG_YUV (FV_FLAG_NV12 | FV_FLAG_YUYV)

#define FV_DIMS 8

/* Defines what is computed, but not how: the key of the registry and of wisdom. Problems are
 * compared bytewise, so set all bytes to zero before filling one. */
typedef struct fv_problem {
    uint16_t op, mech;
    uint8_t in, weight, out; /* enum fv_type of activations, weights, result */
    /* Arithmetic of products. F32: float32. F16: GEMM may add a few products in float16. BF16:
     * operands of attention, and float rows of GEMM, may be rounded to bfloat16 first. I32: GEMM,
     * CONV and softmax attention multiply and add integers. */
    uint8_t acc;
    uint32_t epi, flags;
    uint16_t heads, threads;
    uint32_t dim[FV_DIMS]; /* per op, see fv_op.dim; dim[0] = rows of the whole step */
} fv_problem;

/* An index of dim[] that is common to many ops. ops/contracts has the others, and the numbers of
 * operands. The last operand of every op is the one that it writes. */
enum { FV_DIM_ROWS = 0 };
enum { FV_ROW_C = 1 }; /* columns of ops that compute row by row */

#define FV_OPERANDS 9 /* maximum operands of a step */
#define FV_KNOBS 4
#define FV_COL_ALIGN 64 /* GEMM steps are split at columns that are multiples of this */

/* Rows [first, end). */
typedef struct fv_rows {
    uint32_t first, end;
} fv_rows;

/* ---- descriptors of operations ---- */

/* The rows on which output row i depends. They decide where sweeps are cut. */
enum fv_span {
    FV_SPAN_TOKEN,  /* row i of the ROW operands, and all of complete operands and weights */
    FV_SPAN_LOCAL,  /* a window of rows of the token grid around row i */
    FV_SPAN_REDUCE, /* rows are summed to a PARTIAL, one for each reduction group */
    FV_SPAN_ALL,    /* any other rows; the step needs a barrier before and after it */
    FV_SPAN_SCAN,   /* like ALL, but rows are computed in order: a call has all rows of its heads
                       or columns */
};

/* The unit of a call's columns [col0, col0 + cols) when a step is split by rows and columns. */
enum fv_cols {
    FV_COLS_WHOLE,  /* no columns: the step is split by rows only */
    FV_COLS_COLUMN, /* output columns; multiples of FV_COL_ALIGN, except in the last call */
    FV_COLS_HEAD,   /* attention heads */
};

/* What an element of a problem's dim[] counts. */
enum fv_dim_kind {
    FV_DIM_SIZE,   /* a size that does not depend on the picture */
    FV_DIM_TOKENS, /* a size that grows with the picture */
    FV_DIM_SAME,   /* tokens, always equal to dim[0] */
};

typedef struct fv_op_dim {
    const char *name; /* NULL: the op does not use this dimension, and it is 0 */
    uint8_t kind;     /* enum fv_dim_kind */
} fv_op_dim;

/* How an operand is stored if it is a weight. */
enum fv_stored {
    FV_STORED_NOT,    /* not a weight */
    FV_STORED_FLOATS, /* float32 rows, whatever the type of the problem's weights is */
    FV_STORED_NARROW, /* rows of the type of the problem's weights */
    FV_STORED_PACKED, /* in the type of the problem's weights, in the kernel's packed layout */
};

/* The kind of random values with which a test or benchmark fills an operand. */
enum fv_nature {
    FV_NATURE_ANY,
    FV_NATURE_FRACTION, /* between 0 and 1 */
    FV_NATURE_DECAY,    /* logarithms of decays below 1 */
    FV_NATURE_FACTOR,   /* near 1 */
    FV_NATURE_POSITION, /* row numbers, the first of which is not 0 */
};

/* How large the op's sums over keys may become, which verify/headroom.c measures. */
enum fv_headroom {
    FV_HEADROOM_NONE,
    FV_HEADROOM_STATE,   /* the op writes a state that is a mean over the keys */
    FV_HEADROOM_DIVISOR, /* the op divides by a mean of the weights of such a state */
    FV_HEADROOM_WEIGHTS, /* the op divides by the sum of weights whose mean counts as 1 */
};

/* The operands that an op multiplies; fv_problem_products returns their type. */
enum fv_multiplies {
    FV_MULTIPLIES_NOTHING, /* no products that need a name */
    FV_MULTIPLIES_WEIGHT,  /* rows by a weight */
    FV_MULTIPLIES_ROWS,    /* rows by rows */
};

typedef struct fv_op_operand {
    const char *name; /* the name in the contract; NULL: the op does not have this operand */
    /* Number of columns of a row: dim[width] (1 if width is 0), times the number of heads if
     * `heads`; or the result of `columns`. If none of these is set, any number is valid. */
    uint8_t width;
    bool heads;
    uint32_t (*columns)(const fv_problem *);
    uint8_t stored;   /* enum fv_stored */
    uint8_t nature;   /* enum fv_nature */
    uint8_t state_of; /* enum fv_op: the reduction that writes the operand, which is its partials
                         or merged state */
    bool picked;      /* of kind WHOLE, but only rows [u[0], u[0] + rows) are read */
    bool narrow;      /* CPU kernels accept BF16 rows too; otherwise only float32 */
    bool in_place;    /* the op may write its result over this operand, row by row */
    bool exact;       /* coordinates or row numbers, which are never stored in 16 bits */
} fv_op_operand;

/* An operation and all its properties. There is one object for each line of ops.inc, in the file of
 * the op's contract: src/ops/ref/ref_<name>.c or, for ops that only training needs,
 * src/train/ref/ref_<name>.c. */
typedef struct fv_op_descriptor {
    uint8_t span; /* enum fv_span */
    uint8_t cols; /* enum fv_cols */
    fv_op_dim dim[FV_DIMS];
    fv_op_operand operand[FV_OPERANDS]; /* the last one is written */
    /* Number of FLOPs, where a multiply-add counts as two: element_flops for each of rows * dim[1]
     * elements, or the result of `flops`. */
    double element_flops;
    double (*flops)(const fv_problem *);
    /* Returns the length of the longest chain of additions for an output element; NULL: it is
     * short. */
    double (*terms)(const fv_problem *);
    uint8_t multiplies; /* enum fv_multiplies */
    uint8_t groups;     /* index of the dim[] that counts partials, which depends on the cuts of
                           a sweep; 0: none */
    uint8_t state;      /* an operand other than `out` that is read and then written; 0: none */
    uint8_t merge;      /* REDUCE: the op that merges the partials (enum fv_op); its dim[] are
                           the same unless `joint` */
    uint8_t headroom;   /* enum fv_headroom */
    uint16_t most_rows; /* maximum rows of a unit of a stepwise sweep; 0: chosen by
                           plan/schedule.c */
    bool costly;        /* too slow for computing the halo rows of a row tile twice */
    /* Number of grid rows whose tokens share the preparation of a call; 0: none. Such an op is the
     * last step of its sweep, and its chunks have this number of grid rows. */
    uint8_t block_lines;
    /* For an op that writes a grid of tokens, returns the number of tokens in a line of the grid;
     * the arguments are the problem and the step's integers u. NULL: rows are not a grid. */
    uint32_t (*line)(const fv_problem *, const uint32_t *u);
    /* For an op with `line`, returns the rows of operand 0, a complete grid or a window of one, on
     * which the rows r of the result depend. */
    fv_rows (*reads)(const fv_problem *, const uint32_t *u, fv_rows r);
    /* For an op whose table contains floats: their number, and the index of the first float that is
     * added last. The sum before that addition may cancel the addend and leave only its rounding
     * error, so verification perturbs addends like inputs. 0: the table contains no floats. */
    uint8_t table_floats, addend;
    bool grows; /* the values grow or fade if it runs in place repeatedly */
    bool joint; /* operands depend on each other, so random operands are not a valid case */
} fv_op;

#define FV_OP(NAME, name) extern const fv_op fv_op_##name;
#include "ops/ops.inc"
#undef FV_OP

/* Indexed by enum fv_op. Elements are NULL for FV_OP_NONE, and for the ops of an extension that has
 * not been added (extension.h). An extension may be added while other threads read the table. */
extern const fv_op *_Atomic fv_op_table[FV_OP_COUNT];
extern const char *const fv_op_names[FV_OP_COUNT];

/* Returns the index of the operand that is written. */
uint8_t fv_op_out(const fv_op *op);

/* Returns the rows of lines [from, to) of a grid of `height` lines, without lines outside the grid.
 */
fv_rows fv_grid_lines(int64_t from, int64_t to, uint32_t width, uint32_t height);

/* Returns the number of columns of a row of operand `o`, or UINT32_MAX if any number is valid. */
uint32_t fv_problem_columns(const fv_problem *p, uint32_t o);

/* Functions that several ops use as `terms`. */
double fv_terms_rows(const fv_problem *p), fv_terms_row(const fv_problem *p);
double fv_terms_groups(const fv_problem *p);
double fv_terms_product(const fv_problem *p), fv_terms_softmax(const fv_problem *p);
/* Functions that several ops use as `flops`. */
double fv_flops_product(const fv_problem *p), fv_flops_softmax(const fv_problem *p);
/* Functions that several ops use as `columns`: channels of a pixel, the input of an activation, and
 * 1. */
uint32_t fv_columns_pixels(const fv_problem *p), fv_columns_swiglu(const fv_problem *p),
    fv_columns_one(const fv_problem *p);
/* Return the columns of a partial of attention pooling, and of group normalisation. */
uint32_t fv_columns_map(const fv_problem *p), fv_columns_moments(const fv_problem *p);
/* Returns the columns of WSOFTMAX's PARAM and SOFTMAX's REL_POS. */
uint32_t fv_columns_rel_pos(const fv_problem *p);
/* Returns the columns of K of SOFTMAX and FOVEATED: the channels of all heads, or the bytes of
 * keys_i8.h. */
uint32_t fv_columns_keys(const fv_problem *p);

/* Return the activation of an epilogue, or the one with a name, or NULL if there is no such
 * activation. */
const fv_activation *fv_activation_of(uint32_t epi);
const fv_activation *fv_activation_named(const char *name);
/* The names of all activations, for messages: "gelu, gelu_tanh, ...". */
extern const char *const fv_activation_list;

/* Writes a problem as text for messages, lists and wisdom: "gemm f32 5477x768x768 bias+gelu", or
 * "gemm f32/f16 ..." with weights of 16 bits. The text is the same in all versions of the library.
 */
void fv_problem_format(char *buf, size_t size, const fv_problem *p);
/* Returns the number of floating-point operations; a multiply-add counts as two. */
double fv_problem_flops(const fv_problem *p);
/* Returns the result of fv_op.terms. */
double fv_problem_terms(const fv_problem *p);
/* Returns the error of the problem's activation in addition to rounding: FV_ROUGH_ERROR, or 0. */
double fv_problem_rough_error(const fv_problem *p);
/* Returns the type of the numbers that are multiplied, for instance "int8", or NULL if the op
 * multiplies nothing. */
const char *fv_problem_products(const fv_problem *p);

#endif
