/* kernel.h: what a kernel is. The problem it solves, the arguments and calls it gets, and the
 * registry line that makes it known.
 *
 * A step of a plan is one problem. The planner picks a kernel for it from the registries of the
 * step's device; dispatch, checks, benchmarks and `fovea info --kernels` read the same lists.
 */
#ifndef FOVEA_SRC_KERNEL_H
#define FOVEA_SRC_KERNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "type.h"

enum fv_op {
    FV_OP_NONE,
#define FV_OP(NAME, name, span, cols) FV_OP_##NAME,
#include "ops.inc"
#undef FV_OP
    FV_OP_COUNT
};

enum fv_span { FV_SPAN_TOKEN, FV_SPAN_LOCAL, FV_SPAN_REDUCE, FV_SPAN_ALL, FV_SPAN_SCAN };
enum fv_cols { FV_COLS_WHOLE, FV_COLS_COLUMN, FV_COLS_HEAD };

/* One line of ops.inc, readable at run time. */
typedef struct fv_op_info {
    const char *name;
    uint8_t span; /* enum fv_span */
    uint8_t cols; /* enum fv_cols */
} fv_op_info;

extern const fv_op_info fv_op_table[FV_OP_COUNT];

/* Attention mechanisms: FV_MECH_<NAME> for every word of the list in src/mech/. */
enum fv_mech {
    FV_MECH_ANY, /* an op, or a kernel, that does not depend on the mechanism */
#define FV_MECH(NAME, name, title) FV_MECH_##NAME,
#include "mech/mech.inc"
#undef FV_MECH
    FV_MECH_COUNT
};

/* Epilogue of GEMM, applied in this order to acc = sum_k a[i][k] w[n][k]:
 *   acc += bias[n];  acc = act(acc);  acc *= scale[n];  acc += res[i][n]
 * SWIGLU replaces bias/act: the weight has 2N rows, value rows and gate rows in pairs, and
 *   out[i][n] = silu(x1) * x2 with x1 = row n, x2 = row N + n (each with its bias). */
enum fv_epi {
    FV_EPI_BIAS = 1u << 0,
    FV_EPI_SCALE = 1u << 1,    /* layer scale, one factor per output column */
    FV_EPI_RESIDUAL = 1u << 2, /* res may be out itself */
    FV_EPI_GELU = 1u << 3,     /* erf form */
    FV_EPI_GELU_TANH = 1u << 4,
    FV_EPI_GELU_QUICK = 1u << 5, /* x sigmoid(1.702 x) */
    FV_EPI_SILU = 1u << 6,
    FV_EPI_TANH = 1u << 7,
    FV_EPI_SWIGLU = 1u << 8,
    FV_EPI_RELU = 1u << 9,
};
#define FV_EPI_ACT                                                                                 \
    (FV_EPI_GELU | FV_EPI_GELU_TANH | FV_EPI_GELU_QUICK | FV_EPI_SILU | FV_EPI_TANH | FV_EPI_RELU)

/* Flags of a problem. */
enum fv_flag {
    FV_FLAG_CAUSAL = 1u << 0,        /* query i sees keys j <= i */
    FV_FLAG_UNNORMALISED = 1u << 1,  /* linear attention and scans without their denominator */
    FV_FLAG_PLANAR = 1u << 2,        /* PATCH: float planes (C,H,W), already normalised */
    FV_FLAG_BGR = 1u << 3,           /* PATCH: u8 pixels in B,G,R order */
    FV_FLAG_GRAY = 1u << 4,          /* PATCH: one u8 channel, used for all three */
    FV_FLAG_ROPE = 1u << 5,          /* LATTN: features are rotated by COS and SIN, z's are not */
    FV_FLAG_GATED = 1u << 6,         /* LATTN, SCAN: per-token, per-head gates are given (SLA) */
    FV_FLAG_DECAY = 1u << 7,         /* SCAN: log decay per token and head */
    FV_FLAG_DECAY_CHANNEL = 1u << 8, /* SCAN: log decay per token, head and key channel (GLA) */
    FV_FLAG_DELTA = 1u << 9,         /* SCAN: delta rule with BETA */
    FV_FLAG_L2 = 1u << 10,           /* SCAN: features of q and k are L2-normalised */
    FV_FLAG_RECURRENT = 1u << 11,    /* SCAN: token by token, nothing else */
    FV_FLAG_CHUNKWISE = 1u << 12,    /* SCAN: chunk by chunk, nothing else */
    FV_FLAG_SILU = 1u << 13,         /* MUL: the second factor is silu of what is given */
    FV_FLAG_SHARED = 1u << 14,       /* DWCONV: the same filters for every head */
    FV_FLAG_NV12 = 1u << 15,         /* PATCH, RESIZE_X: luma, and U and V in CHROMA; see yuv.h */
    FV_FLAG_YUYV = 1u << 16,         /* PATCH, RESIZE_X: luma and chroma in one plane */
    FV_FLAG_ACCUMULATE = 1u << 17,   /* gradients of weights: added to what OUT holds */
};

#define FV_FLAG_YUV (FV_FLAG_NV12 | FV_FLAG_YUYV)

/* What is computed, and nothing about how: the key of registry and wisdom. Zero it before filling:
 * it is compared bytewise. */
typedef struct fv_problem {
    uint16_t op, mech;
    uint8_t in, weight, out, acc; /* enum fv_type of activations, weights, result, accumulator */
    uint32_t epi, flags;
    uint16_t heads, threads;
    uint32_t dim[8]; /* per op, see ops.inc; dim[0] = rows of the whole step */
} fv_problem;

/* dim[] of GEMM and of the attention ops, used in several places. */
enum { FV_DIM_ROWS = 0 };
enum { FV_GEMM_N = 1, FV_GEMM_K = 2 }; /* out columns, reduction length */
enum { FV_ATTN_D = 1, FV_ATTN_DV = 2, FV_ATTN_KEYS = 3, FV_ATTN_GROUPS = 4 };
enum { FV_ROW_C = 1, FV_MEAN_GROUPS = 2 };         /* row-wise ops; MEAN_REDUCE and MEAN_MERGE */
enum { FV_DWCONV_SIZE = 2, FV_DWCONV_HEIGHT = 3 }; /* beside FV_ROW_C */
enum { FV_RESIZE_WIDTH = 1, FV_RESIZE_CHANNELS = 2, FV_RESIZE_FROM = 3 };
enum { FV_CONV_SIZE = 3, FV_CONV_STRIDE = 4, FV_CONV_PAD = 5, FV_CONV_C = 6 }; /* beside GEMM's */
enum {
    FV_PATCH_SIZE = 2,
    FV_PATCH_STRIDE = 3,
    FV_PATCH_PAD = 4,
    FV_PATCH_WIDTH = 5,
    FV_PATCH_HEIGHT = 6
};
enum { FV_GATHER_PARTS = 2, FV_LERP_ROWS = 2, FV_ROPE_D = 2 }; /* beside FV_ROW_C */
enum { FV_GRAD_TOKENS = 2 }; /* beside FV_ROW_C; that are summed over */
enum { FV_SEGMENT_GRID = 2, FV_SEGMENT_WIDTH = 3, FV_SEGMENT_HEIGHT = 4 }; /* beside FV_ROW_C */

#define FV_OPERANDS 9 /* operands of a step, at most */
#define FV_KNOBS 4
#define FV_COL_ALIGN 64 /* column splits of a GEMM step fall on multiples of this */

/* Operand numbers. The last operand of every op is what it writes. */
enum { FV_RESIZE_IN, FV_RESIZE_CHROMA, FV_RESIZE_OUT };
enum { FV_PATCH_IN, FV_PATCH_CHROMA, FV_PATCH_OUT };
enum { FV_POSEMB_IN, FV_POSEMB_PREFIX, FV_POSEMB_TABLE, FV_POSEMB_OUT };
enum { FV_LN_IN, FV_LN_WEIGHT, FV_LN_BIAS, FV_LN_OUT };
enum { FV_GEMM_A, FV_GEMM_W, FV_GEMM_BIAS, FV_GEMM_SCALE, FV_GEMM_RES, FV_GEMM_OUT };
enum { FV_SOFTMAX_Q, FV_SOFTMAX_K, FV_SOFTMAX_V, FV_SOFTMAX_OUT };
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
enum {
    FV_SCAN_Q,
    FV_SCAN_K,
    FV_SCAN_V,
    FV_SCAN_DECAY,
    FV_SCAN_BETA,
    FV_SCAN_GATE_Q,
    FV_SCAN_GATE_K,
    FV_SCAN_STATE, /* read and written: the one operand beside the last that is */
    FV_SCAN_OUT
};
enum { FV_CONVERT_IN, FV_CONVERT_OUT };
enum { FV_GATES_IN, FV_GATES_OUT };
enum { FV_MUL_A, FV_MUL_B, FV_MUL_OUT };
enum { FV_DWCONV_IN, FV_DWCONV_W, FV_DWCONV_BIAS, FV_DWCONV_RES, FV_DWCONV_GATE, FV_DWCONV_OUT };
enum { FV_GATHER_IN, FV_GATHER_RES, FV_GATHER_OUT };
enum { FV_LERP_IN, FV_LERP_OUT };
enum { FV_ROPE_IN, FV_ROPE_COS, FV_ROPE_SIN, FV_ROPE_OUT };
enum { FV_WINDOW_Q, FV_WINDOW_K, FV_WINDOW_V, FV_WINDOW_PARAM, FV_WINDOW_OUT };
enum { FV_COPY_IN, FV_COPY_OUT };
enum { FV_TAKE_IN, FV_TAKE_OUT };
enum { FV_MEAN_IN, FV_MEAN_PARTIAL };
enum { FV_MAP_Q, FV_MAP_K, FV_MAP_V, FV_MAP_PARTIAL };
enum { FV_ACT_IN, FV_ACT_OUT };
enum { FV_ACT_GRAD_IN, FV_ACT_GRAD_DOUT, FV_ACT_GRAD_OUT };
enum { FV_ADD_IN, FV_ADD_SCALE, FV_ADD_RES, FV_ADD_OUT };
enum { FV_SUM_A, FV_SUM_B, FV_SUM_OUT };
enum { FV_GRAD_W_DOUT, FV_GRAD_W_IN, FV_GRAD_W_OUT };
enum { FV_LN_GRAD_IN, FV_LN_GRAD_WEIGHT, FV_LN_GRAD_DOUT, FV_LN_GRAD_RES, FV_LN_GRAD_OUT };
enum { FV_LN_GRAD_W_IN, FV_LN_GRAD_W_DOUT, FV_LN_GRAD_W_OUT };
enum { FV_POSEMB_GRAD_DOUT, FV_POSEMB_GRAD_OUT };
enum { FV_ROW_GRAD_DOUT, FV_ROW_GRAD_RES, FV_ROW_GRAD_OUT }; /* TAKE_GRAD, MEAN_GRAD */
enum { FV_MSE_A, FV_MSE_B, FV_MSE_OUT };
enum { FV_ENTROPY_LOGITS, FV_ENTROPY_LABELS, FV_ENTROPY_OUT };
enum { FV_SEGMENT_LOGITS, FV_SEGMENT_MASK, FV_SEGMENT_WEIGHT, FV_SEGMENT_OUT };

/* Gradients of attention. FORWARD is what the forward step has written, DOUT the gradient of it. */
enum {
    FV_SOFTMAX_GRAD_Q,
    FV_SOFTMAX_GRAD_K,
    FV_SOFTMAX_GRAD_V,
    FV_SOFTMAX_GRAD_FORWARD,
    FV_SOFTMAX_GRAD_DOUT,
    FV_SOFTMAX_GRAD_OUT
};
/* LATTN_APPLY_GRAD and LATTN_STATE_GRAD: what LATTN_APPLY read, then */
enum { FV_QUERY_GRAD_FORWARD = FV_APPLY_OUT, FV_QUERY_GRAD_DOUT, FV_QUERY_GRAD_OUT };
/* LATTN_REDUCE_GRAD and LATTN_GATE_GRAD: what LATTN_REDUCE read, then */
enum { FV_KEY_GRAD_STATE = FV_REDUCE_PARTIAL, FV_KEY_GRAD_DSTATE, FV_KEY_GRAD_OUT };
enum { FV_PARAM_GRAD_X, FV_PARAM_GRAD_DX, FV_PARAM_GRAD_PARAM, FV_PARAM_GRAD_OUT };
enum { FV_PARAM_GRAD_COLUMNS = 1, FV_PARAM_GRAD_ROWS = 2, FV_PARAM_GRAD_D = 3 }; /* dim[] */
enum { FV_DOT_A, FV_DOT_B, FV_DOT_OUT };
enum { FV_DOT_D = 2 }; /* dim[], beside FV_ROW_C */
enum { FV_GATES_GRAD_GATES, FV_GATES_GRAD_DOT, FV_GATES_GRAD_OUT };
enum {
    FV_MAP_GRAD_Q,
    FV_MAP_GRAD_K,
    FV_MAP_GRAD_V,
    FV_MAP_GRAD_FORWARD,
    FV_MAP_GRAD_DOUT,
    FV_MAP_GRAD_OUT
};

typedef struct fv_knobs {
    uint32_t v[FV_KNOBS];
} fv_knobs;

/* A choice that the tuner has: knob i of a kernel takes value[0..count-1]; value[0] is the
 * default of the cost model. */
typedef struct fv_knob {
    const char *name; /* NULL ends the list */
    uint32_t value[6];
    uint32_t count;
} fv_knob;

/* The constant part of a step, the same for all its calls. */
typedef struct fv_args {
    fv_problem prob;
    fv_knobs knobs;
    uint32_t ld[FV_OPERANDS]; /* elements from one row of an operand to the next; 0: no rows */
    float f[4];               /* scalars: epsilon, scale, ... per op */
    uint32_t u[4];            /* integers: prefix, grid, ... per op */
    const void *table;        /* op-specific constants that live as long as the plan, or NULL */
    /* LOCAL: the grid rows that the operand's buffer has room for: a ring, grid row y at
     * (y + shift) % window; 0: all of them. */
    uint32_t window, shift;
} fv_args;

/* One piece of a step, for one worker. ROW operands already point at row0; the others (finished
 * tensors, weights, states) at their base. PARTIAL points at the group's own state. */
typedef struct fv_call {
    uint32_t row0, rows; /* row0 is the absolute row index */
    uint32_t col0, cols; /* columns or heads of this piece (kernel.h: enum fv_cols) */
    uint32_t group;      /* which partial state */
    /* REDUCE: partial states that the call serves, from `group` on; part g of them takes the rows
     * [g * rows / groups, (g + 1) * rows / groups) of the call. 1 on the CPU. */
    uint32_t groups;
    uint32_t first; /* REDUCE: nonzero for the first call of a group, which must not read it */
    void *p[FV_OPERANDS];
    void *scratch; /* fv_kernel.scratch bytes, 64-byte aligned, contents arbitrary */
} fv_call;

/* Pure: takes no lock, allocates nothing, cannot fail. No over-read or over-write of any operand.
 */
typedef void (*fv_cpu_fn)(const fv_args *a, const fv_call *c);

/* ISA levels of the CPU, what an OpenCL device was seen to do, and what a CUDA device has; a
 * kernel's needs are bits of these. FV_NEED_PORTABLE always holds. */
enum fv_need {
    FV_NEED_PORTABLE = 0,
    FV_NEED_AVX2 = 1u << 0,   /* AVX2, FMA, F16C, BMI2 */
    FV_NEED_AVX512 = 1u << 1, /* F, BW, DQ, VL */
    FV_NEED_NEON = 1u << 2,
    FV_NEED_NEON_FP16 = 1u << 3,    /* float16 arithmetic */
    FV_NEED_NEON_DOT = 1u << 4,     /* bfloat16 products, 4 steps of k at a time */
    FV_NEED_CL_HALF = 1u << 8,      /* float16 arithmetic */
    FV_NEED_CL_SUBGROUPS = 1u << 9, /* reductions over a subgroup */
    FV_NEED_CL_DOT = 1u << 10,      /* 8-bit integer dot products */
    FV_NEED_CL_LOCAL = 1u << 11,    /* 16 KB of local memory that is not main memory */
    FV_NEED_CL_CPU = 1u << 12,      /* work-items of a group run one after the other, in vectors */
    FV_NEED_CL_CLBLAST = 1u << 13,  /* the library was found */
    FV_NEED_CUDA_MMA = 1u << 16,    /* tensor cores and asynchronous copies of sm_80 */
    FV_NEED_CUDA_BLASLT = 1u << 17, /* cuBLASLt was found */
    FV_NEED_CUDA_LARGE = 1u << 18,  /* 64 units or more, of which heads alone keep few busy */
};

/* What the planner asks a kernel before it is bound. Each member may be NULL: applies to every
 * problem of its op; generic cost; no scratch; takes its weight as plain float rows; no choices. */
typedef struct fv_kernel_hooks {
    bool (*applies)(const fv_problem *);
    double (*cost)(const fv_problem *, const fv_knobs *); /* seconds on one core, roughly */
    /* Bytes of scratch per worker, for calls of at most `rows` rows. */
    size_t (*scratch)(const fv_problem *, const fv_knobs *, uint32_t rows);
    size_t (*packed)(const fv_problem *, const fv_knobs *); /* bytes of the packed weight */
    /* Packs rows [n0, n0 + n) of the (N, K) weight, given as n contiguous float rows of K. n0 is a
     * multiple of FV_COL_ALIGN; slabs may come in any order, each once. For SWIGLU, N counts output
     * columns and src holds the n value rows, then the n gate rows. */
    void (*pack)(void *dst, const float *src, uint32_t n0, uint32_t n, const fv_problem *,
                 const fv_knobs *);
    const char *format;   /* name of the packed layout; kernels that share it share weights */
    const fv_knob *knobs; /* ends with a NULL name */
} fv_kernel_hooks;

typedef struct fv_kernel {
    const char *name; /* unique and stable: op_dtype_variant_isa */
    uint16_t op, mech;
    uint8_t rev;                  /* raised when its speed changes: old wisdom is then ignored */
    uint32_t needs;               /* enum fv_need, all required */
    const fv_kernel_hooks *hooks; /* never NULL */
    union {
        fv_cpu_fn cpu;
        const struct fv_gpu_code *gpu; /* gpu/gpu_code.h */
    } code;
} fv_kernel;

/* Stable text of a problem for messages, lists and wisdom: "gemm f32 5477x768x768 bias+gelu", with
 * weights of 16 bits "gemm f32/f16 ...". */
void fv_problem_format(char *buf, size_t size, const fv_problem *p);
/* FLOPs and bytes at the least of a problem (a multiply-add is two), by the usual counts. */
double fv_problem_flops(const fv_problem *p);

bool fv_kernel_fits(const fv_kernel *k, const fv_problem *p, uint32_t features);
fv_knobs fv_kernel_defaults(const fv_kernel *k);
/* Seconds on one core, roughly: the kernel's own model or the generic one. */
double fv_kernel_cost(const fv_kernel *k, const fv_problem *p, const fv_knobs *knobs);

/* Whether a kernel must not be taken for a problem. */
typedef bool fv_kernel_skips(const void *ctx, const fv_kernel *k, const fv_knobs *knobs,
                             const fv_problem *p);
/* The kernel of `list` with the lowest cost for `p`, or NULL when none applies. `skips` may be
 * NULL.
 */
const fv_kernel *fv_kernel_choose(const fv_kernel *list, int count, uint32_t features,
                                  const fv_problem *p, fv_kernel_skips *skips, const void *ctx);

#endif
