/* emit.h: what an emitter writes: a flat list of steps over values.
 *
 * A value is an activation, a state, a frame's pixels or an output; an operand is a view of a value
 * (whole columns from `col` on) or a weight. Steps are executed in the order they are written; a
 * value may be written more than once (the residual stream is updated in place).
 */
#ifndef FOVEA_SRC_EMIT_H
#define FOVEA_SRC_EMIT_H

#include "attention.h"
#include "backend.h"
#include "model.h"

typedef int32_t fv_id; /* of a value; negative: none */
#define FV_NO_VALUE (-1)

enum fv_value_kind {
    FV_VALUE_ROWS,    /* [rows][cols] */
    FV_VALUE_PARTIAL, /* cols elements per group */
    FV_VALUE_STATE,   /* cols elements */
    FV_VALUE_KEPT,    /* cols elements that outlive a frame: the state of a scan */
    FV_VALUE_INPUT,   /* external slot, read */
    FV_VALUE_OUTPUT,  /* external slot, written */
};

typedef struct fv_value {
    uint8_t kind, elem; /* enum fv_value_kind; bytes per element */
    uint8_t staging;    /* counts as staging, not as activation */
    const char *name;   /* INPUT of an operation: static text */
    uint32_t rows, cols;
    uint32_t ld;   /* elements from row to row */
    uint32_t slot; /* INPUT, OUTPUT */
    /* the planner's: */
    uint32_t need;                  /* rows that anything reads */
    uint32_t first_step, last_step; /* life */
    uint32_t first_sweep, last_sweep;
    fv_ref ref;
} fv_value;

typedef struct fv_view {
    fv_id id;
    uint32_t col; /* first column */
} fv_view;

typedef struct fv_use {
    fv_view view;
    uint8_t kind;     /* enum fv_kind; WEIGHT uses `weight` */
    fv_weight weight; /* rows == 0: absent */
    /* the planner's: */
    fv_packed *packed;
    fv_mem mem;
} fv_use;

typedef struct fv_step {
    char label[40];
    fv_problem prob;
    fv_use use[FV_OPERANDS];
    uint8_t out; /* operand that is written; the only one beside the state of a scan */
    float f[4];
    uint32_t u[4];
    const void *table;
    /* the planner's: */
    bool dead;
    const fv_kernel *kernel;
    fv_knobs knobs;
    const char *source;
    double flops, seconds;
    uint32_t sweep;
    uint64_t scratch;
    uint32_t tile_rows, tile_cols, cols;
} fv_step;

/* Numbers that an emitter works out itself, used as a weight. Lives as long as the plan. */
typedef struct fv_constant {
    struct fv_constant *next;
    fv_tensor tensor;
} fv_constant;

/* An output that the caller asked for. */
typedef struct fv_wanted {
    const char *name; /* the model's text */
    fv_id value;      /* FV_NO_VALUE until the emitter has offered it */
    uint32_t prefix, grid_width, grid_height;
} fv_wanted;

typedef struct fv_builder {
    fv_step *step;
    uint32_t steps, step_room;
    fv_value *value;
    uint32_t values, value_room;
    fv_wanted *wanted;
    uint32_t n_wanted;
    uint32_t slots;
    /* what is to be built */
    uint32_t grid_width, grid_height;
    fv_attention_name attention;
    fv_view frame;        /* u8 pixels of the picture, or float planes */
    uint32_t frame_flags; /* FV_FLAG_PLANAR, ... of PATCH */
    uint32_t frame_plane; /* PLANAR: elements from plane to plane */
    const fv_patch_table *patch_table;
    fv_posemb_table *posemb_table; /* the emitter fills it for its grid; the plan owns it */
    fv_constant *constants;
    fovea_status status; /* first failure; the emit functions do nothing after it */
} fv_builder;

fv_view fv_emit_rows(fv_builder *b, uint32_t rows, uint32_t cols);
fv_view fv_emit_value(fv_builder *b, enum fv_value_kind kind, uint32_t rows, uint32_t cols,
                      uint32_t elem);
static inline fv_view fv_view_cols(fv_view v, uint32_t col)
{
    return (fv_view){v.id, v.col + col};
}

/* The view to write output `name` into: the caller's memory when it was asked for, else a value of
 * its own when `always`, else none. `prefix` and the grid describe token rows. */
fv_view fv_emit_output(fv_builder *b, const char *name, uint32_t rows, uint32_t cols, bool tokens,
                       uint32_t prefix, bool always);
bool fv_emit_wants(const fv_builder *b, const char *name);

/* Operations: matrices of the caller. Inputs are counted in the order they are emitted; their names
 * are static text. */
fv_view fv_emit_input(fv_builder *b, const char *name, uint32_t rows, uint32_t cols,
                      enum fv_type type);
fv_view fv_emit_result(fv_builder *b, uint32_t rows, uint32_t cols, enum fv_type type);
/* Rows of `type` as float32: a conversion, or `in` itself. */
fv_view fv_emit_floats(fv_builder *b, const char *label, fv_view in, enum fv_type type,
                       uint32_t rows, uint32_t cols);

/* A (rows, cols) weight of the plan's own; *data is to be filled by the caller, NULL on failure. */
fv_weight fv_emit_constant(fv_builder *b, uint32_t rows, uint32_t cols, float **data);

/* Frees the numbers of the constants, once they are packed. */
void fv_emit_drop_constants(fv_builder *b);
/* Frees steps, values and constants; packed weights must have been given back. */
void fv_emit_release(fv_builder *b);

/* A blank step; the caller fills operands, dims and scalars. NULL after a failure. */
fv_step *fv_emit_step(fv_builder *b, enum fv_op op, uint32_t rows, const char *label);
void fv_use_value(fv_step *s, uint32_t operand, fv_view v, enum fv_kind kind);
void fv_use_weight(fv_step *s, uint32_t operand, const fv_weight *w);

/* The common steps. Weights may be absent where the op allows it. */
void fv_emit_layernorm(fv_builder *b, const char *label, fv_view in, const fv_weight *w,
                       const fv_weight *bias, float eps, fv_view out, uint32_t rows);
typedef struct fv_gemm {
    const fv_weight *w, *bias, *scale; /* bias, scale may be NULL or absent */
    fv_view in;                        /* id FV_NO_VALUE: the rows of in_weight */
    const fv_weight *in_weight;
    fv_view res, out; /* res.id FV_NO_VALUE: none */
    uint32_t act;     /* FV_EPI_* activation or SWIGLU, or 0 */
    uint32_t rows;
} fv_gemm;
void fv_emit_gemm(fv_builder *b, const char *label, const fv_gemm *g);
void fv_emit_copy(fv_builder *b, const char *label, fv_view in, fv_view out, uint32_t rows,
                  uint32_t cols);
void fv_emit_take(fv_builder *b, const char *label, fv_view in, uint32_t row, fv_view out,
                  uint32_t rows, uint32_t cols);

/* Rows of another type. */
void fv_emit_convert(fv_builder *b, const char *label, fv_view in, enum fv_type from, fv_view out,
                     enum fv_type to, uint32_t rows, uint32_t cols);
/* out = a b, or a silu(b); out may be a. */
void fv_emit_mul(fv_builder *b, const char *label, fv_view a, fv_view factor, bool silu,
                 fv_view out, uint32_t rows, uint32_t cols);

/* Attention in its two halves. fv_emit_keys prepares what queries read: for a linear mechanism the
 * merged state (K and V live in the sweep only), for softmax K and V themselves. */
typedef struct fv_attention {
    uint32_t mech, heads, d, dv;
    uint32_t queries, keys;
    uint32_t flags;    /* FV_FLAG_CAUSAL, FV_FLAG_UNNORMALISED, FV_FLAG_ROPE, FV_FLAG_GATED */
    double scale, eps; /* softmax: of the scores; else as fv_attention_scales sets them */
    double alpha;      /* of the mechanism */
    fv_view k, v;
    fv_weight param;        /* learned vectors; absent: zeros */
    fv_weight cos, sin;     /* ROPE */
    fv_view gate_q, gate_k; /* GATED */
    fv_view state;          /* set by fv_emit_keys for linear mechanisms */
} fv_attention;
void fv_emit_keys(fv_builder *b, const char *label, fv_attention *a);
void fv_emit_queries(fv_builder *b, const char *label, const fv_attention *a, fv_view q,
                     fv_view out);
/* The scale and eps that a->mech wants, from those of the equations in fovea.h. */
void fv_attention_scales(fv_attention *a, const fv_attention_name *name, double scale, double eps);

/* A causal operation: all of it in one step over a state that outlives the frame. */
typedef struct fv_scan {
    uint32_t mech, heads, d, dv, rows;
    uint32_t flags; /* FV_FLAG_* of SCAN */
    enum fv_type in, out;
    double scale, eps;
    uint32_t chunk;                               /* 0: the kernel's choice */
    fv_view q, k, v, decay, beta, gate_q, gate_k; /* the last four as the flags say */
    fv_weight same_decay;                         /* one row for all tokens, instead of `decay` */
    fv_view state;                                /* FV_VALUE_KEPT */
} fv_scan;
void fv_emit_scan(fv_builder *b, const char *label, const fv_scan *s, fv_view out);

#endif
