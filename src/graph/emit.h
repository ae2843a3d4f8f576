/* emit.h: functions with which an emitter writes a graph: steps and values in the order of
 * execution. */
#ifndef FOVEA_SRC_EMIT_H
#define FOVEA_SRC_EMIT_H

#include "graph/graph.h"
#include "ops/preprocess.h"
#include "ops/products.h"
#include "ops/rope.h"

struct fv_builder;

/* What an emitter must do in addition for training. */
typedef struct fv_training {
    /* Called after the attention of a block. `normed` is what the attention read, `out` its
     * projected result before layer scale and residual. NULL: not called. */
    void (*attended)(void *ctx, struct fv_builder *b, uint32_t block, fv_view normed, fv_view out);
    void *ctx;
} fv_training;

/* What is to be built. It must not change after the first step was emitted. */
typedef struct fv_emit_options {
    uint32_t width, height;       /* pixels of the picture */
    struct fv_inner inner;        /* where the pixels are in the picture; around them are zeros */
    fv_grid grid;                 /* the first one */
    fv_attention_name *attention; /* one per block */
    uint32_t blocks;
    bool half_sums;           /* products with float16 weights may be summed in float16 */
    enum fv_type weight_type; /* type of GEMM's and CONV's weights and, for inference, of the
                                 position table */
    bool int8_weights;        /* weights of products in blocks are stored as I8 instead */
    enum fv_type row_type;    /* of rows of activations */
    bool narrow_only;         /* on the CPU: only operands that are `narrow` accept row_type */
    bool any_type;         /* the device's kernels accept rows of all types, whatever row_type is */
    bool widens;           /* the processor has no instructions that multiply bfloat16 */
    bool multiplies_int8;  /* the processor has instructions for int8 products */
    bool int8_attention;   /* of the device's limits */
    fovea_compute compute; /* type of products: F32; or BF16 or INT8 on a device that has kernels
                              for it */
    fv_products bf16;      /* the products that stay BF16 when the others are int8 */
    const fv_patch_table *patch_table;
    const fv_training *training; /* NULL: inference only; else position tables stay weights */
} fv_emit_options;

/* The state of an emitter; graph and options must outlive it. */
typedef struct fv_builder {
    fv_graph *graph;
    fv_emit_options *options;
    fv_view frame;            /* pixels of the picture's inner part: u8, floats, or float planes */
    uint32_t frame_flags;     /* FV_FLAG_PLANAR, ... of PATCH */
    uint32_t frame_plane;     /* PLANAR: elements from plane to plane */
    fv_view chroma;           /* NV12: U and V of the picture */
    uint32_t yuv;             /* NV12, YUYV: fovea_yuv_matrix */
    bool in_block;            /* products, or their weights, may be int8: the residual stream
                                 averages out the errors */
    fv_weight cos, sin;       /* tables of the model's rotation, once they have been made */
    fv_weight bias;           /* biases of the scores of all blocks, once they have been made: */
    const fv_weight *bias_of; /* of this table */
    uint32_t checkpoint_segment; /* of the steps that follow: each block begins a segment */
    char scope[36];              /* prefix of the steps' labels, such as "block 3"; or empty */
    fovea_status status;         /* first failure; the emit functions do nothing after it */
    fv_step nowhere;             /* the step that is filled in after a failure; it is in no list */
} fv_builder;

/* An emitter that has written nothing. */
static inline fv_builder fv_builder_of(fv_graph *graph, fv_emit_options *options)
{
    return (fv_builder){.graph = graph, .options = options};
}

/* The attention of block i of the model. */
static inline const fv_attention_name *fv_block_attention(const fv_builder *b, uint32_t i)
{
    return &b->options->attention[i];
}

/* Sets the types of products for `compute`, on a device with these limits. */
void fv_emit_compute(fv_emit_options *o, fovea_compute compute, const fv_limits *limits);

/* The steps that follow belong to a block, and their labels begin with, for instance, "block 3";
 * fv_emit_leave_block ends this. */
void fv_emit_enter_block(fv_builder *b, const char *format, ...) FV_PRINTF(2, 3);
void fv_emit_leave_block(fv_builder *b);

fv_view fv_emit_rows(fv_builder *b, uint32_t rows, uint32_t cols);
fv_view fv_emit_value(fv_builder *b, enum fv_value_kind kind, uint32_t rows, uint32_t cols,
                      enum fv_type type);
static inline fv_view fv_view_cols(fv_view v, uint32_t col)
{
    return (fv_view){v.id, v.col + col};
}

/* The view into which output `name` is to be written: the caller's memory if it was asked for; else
 * a new value if `always`; else none. `grid` describes token rows; NULL: rows are not tokens. */
fv_view fv_emit_output(fv_builder *b, const char *name, uint32_t rows, uint32_t cols,
                       const fv_grid *grid, bool always);
/* The same for an output other than features. */
fv_view fv_emit_task_output(fv_builder *b, const char *name, fovea_output_kind kind, uint32_t rows,
                            uint32_t cols, const fv_grid *grid, bool always);
/* Sets the layout of output `name`, which was emitted already, if the model's original code has it
 * in a shape other than usual for its kind. */
void fv_emit_layout(fv_builder *b, const char *name, fovea_output_layout layout);
/* Copies rows to output `name`, if it was asked for. */
void fv_emit_offer(fv_builder *b, const char *name, fv_view in, uint32_t rows, uint32_t cols,
                   const fv_grid *grid);
bool fv_emit_wants(const fv_builder *b, const char *name);

/* For plans of one operation: a matrix that the caller passes with each frame. Inputs are numbered
 * in the order in which they are emitted; their names are static text. */
fv_view fv_emit_input(fv_builder *b, const char *name, uint32_t rows, uint32_t cols,
                      enum fv_type type);
fv_view fv_emit_result(fv_builder *b, uint32_t rows, uint32_t cols, enum fv_type type);
/* Rows of `type` as float32: a conversion, or `in` itself. */
fv_view fv_emit_floats(fv_builder *b, const char *label, fv_view in, enum fv_type type,
                       uint32_t rows, uint32_t cols);

/* A (rows, cols) weight that belongs to the plan. The caller fills *data, which is NULL on
 * failure. */
fv_weight fv_emit_constant(fv_builder *b, uint32_t rows, uint32_t cols, float **data);

/* Stores rows of activations as options->row_type, once it is known which steps are live. Some
 * values stay float32: those that several steps write, because 16 bits would lose digits of the
 * residual stream; single rows, which take little memory; and with narrow_only, those that operands
 * which are not `narrow` use. */
void fv_emit_narrow(fv_graph *g, const fv_emit_options *options);
/* Sets the types of every step's problem to those of its first operand and its result. */
void fv_emit_types(fv_graph *g, const fv_emit_options *options);

/* Changes the type of a value, for which no memory has been placed yet. */
void fv_emit_store_as(fv_value *v, enum fv_type type);

/* Adds an empty step; the caller fills operands, dims and scalars. After a failure it is in no
 * list. */
fv_step *fv_emit_step(fv_builder *b, enum fv_op op, uint32_t rows, const char *label);
/* A step whose operand 0 is `in` and whose result are rows of `out`, both `cols` (FV_ROW_C) wide.
 */
fv_step *fv_emit_row_step(fv_builder *b, enum fv_op op, const char *label, fv_view in,
                          enum fv_kind kind, fv_view out, uint32_t rows, uint32_t cols);
/* Sets an operand to a view; a view with id FV_NO_VALUE leaves it absent. */
void fv_use_value(fv_step *s, uint32_t operand, fv_view v, enum fv_kind kind);
void fv_use_weight(fv_step *s, uint32_t operand, const fv_weight *w);
/* Sets an operand to a weight of a product's epilogue, and adds `epi` (FV_EPI_*), if it is
 * present. */
void fv_use_epilogue(fv_step *s, uint32_t operand, const fv_weight *w, uint32_t epi);
/* Whether the next of the products that may be int8 is computed in int8. */
bool fv_use_int8(fv_builder *b);
/* Sets the types of a product's weights and sums. For GEMM, its rows (FV_GEMM_A) must be set
 * already. */
void fv_use_types(fv_step *s, fv_builder *b);
/* Makes it a product of int8 instead. */
void fv_make_int8(fv_step *s);

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
    bool decoder; /* it is a 1 x 1 or transposed convolution of a decoder, which may be int8 like
                     its others */
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

/* out[i][j] = a_i . b_j, for rows of `k` columns; b has `n` finished rows. */
void fv_emit_matmul(fv_builder *b, const char *label, fv_view a, fv_view rows_of_b, uint32_t n,
                    uint32_t k, fv_view out, uint32_t rows);

/* out = in + res; out may be either. */
void fv_emit_add(fv_builder *b, const char *label, fv_view in, fv_view res, fv_view out,
                 uint32_t rows, uint32_t cols);

/* The two halves of attention. fv_emit_keys prepares what queries read: for a linear mechanism the
 * merged state (K and V exist only inside the sweep), for softmax K and V themselves. */
/* What fv_emit_keys has made. */
typedef struct fv_prepared_keys {
    fv_view state;          /* of linear mechanisms */
    fv_view cell_k, cell_v; /* of foveated attention */
    fv_view packed;         /* for products of int8: k, v and cells, quantised */
} fv_prepared_keys;

typedef struct fv_attention {
    uint32_t mech, heads, d, dv;
    uint32_t queries, keys;
    uint32_t flags;    /* FV_FLAG_CAUSAL, FV_FLAG_UNNORMALISED, FV_FLAG_ROPE, FV_FLAG_GATED */
    double scale, eps; /* softmax: scale of the scores; else as fv_attention_scales sets them */
    double alpha;      /* the mechanism's constant; 0: that of its authors */
    fv_view k, v;
    uint32_t margin;        /* foveated: not 0 */
    const fv_grid *grid;    /* foveated: of the tokens */
    fv_weight param;        /* learned vectors; absent: zeros */
    fv_weight cos, sin;     /* ROPE */
    uint32_t rope_width;    /* ROPE: width of the grid, for tables of positions; 0: tables have a
                               row per token */
    fv_view gate_q, gate_k; /* GATED */
    fv_view rel_pos;        /* softmax: the output of fv_emit_rel_pos, for a grid of keys */
    uint32_t rel_columns;   /* columns of that grid of keys; 0: no relative positions */
    fv_prepared_keys prepared;
} fv_attention;
void fv_emit_keys(fv_builder *b, const char *label, fv_attention *a);
void fv_emit_queries(fv_builder *b, const char *label, const fv_attention *a, fv_view q,
                     fv_view out);
/* Between the two halves: for each query of softmax, hides keys outside its mask. `masks` has
 * a->queries rows with a number for each of the last `n` keys; a key is hidden unless its number is
 * positive. */
void fv_emit_mask_keys(fv_builder *b, const char *label, fv_attention *a, fv_view masks,
                       uint32_t n);
/* Attention pooling: one row of q attends to all keys by softmax, whose options are in `a`. Returns
 * the pooled row. */
fv_view fv_emit_pool(fv_builder *b, const char *label, const char *merge, const fv_attention *a,
                     fv_view q);
/* G^Q or G^K of SLA: softmax over the heads of `logits`, times `total`, to which the gates of a
 * token then sum. */
fv_view fv_emit_gates(fv_builder *b, const char *label, fv_view logits, float total, uint32_t heads,
                      uint32_t rows);
/* Sets the scale and eps of `a` for a->mech, given those of the equations in attention.h. */
void fv_attention_scales(fv_attention *a, const fv_attention_name *name, double scale, double eps);

/* ---- grids (emit_grid.c) ---- */

/* Memory for `count` numbers of a step's table, which lives as long as the plan. NULL on
 * failure. */
uint32_t *fv_emit_table(fv_builder *b, uint32_t count);

/* Rows of size x size pixels of every channel, one every `stride` pixels, in the order of torch's
 * convolution weights. `pad`: pixels of zeros at the left and above; other pixels outside the
 * picture are zeros too. */
void fv_emit_patches(fv_builder *b, const fv_grid *grid, uint32_t size, uint32_t stride,
                     uint32_t pad, fv_view out);

/* A pass of the picture's resize, RESIZE_X or RESIZE_Y; `from`: pixels of a row of `in`. */
void fv_emit_resize(fv_builder *b, enum fv_op op, const fv_picture_resize *r, fv_view in,
                    uint32_t from, uint32_t channels, fv_view out);

/* out = in + the position table, resized by `rule` to the grid; prefix rows are replaced by those
 * of `prefix` (may be absent). table_width 0: the table has one row per token and is not resized.
 * Without a table only the prefix is set. */
typedef struct fv_posemb {
    const fv_weight *prefix, *table;
    uint32_t table_width, table_height;
    enum fv_pos_rule rule;
} fv_posemb;
void fv_emit_posemb(fv_builder *b, const char *label, const fv_posemb *p, const fv_grid *grid,
                    fv_view in, fv_view out);
/* The table resized to the grid, one row per cell: a weight that belongs to the plan. */
fv_weight fv_emit_resized_table(fv_builder *b, const fv_posemb *p, const fv_grid *grid);

/* Convolution over a finished grid (no prefix). Columns of w: (ky, kx, channel), see
 * fv_weight_part.taps. */
typedef struct fv_conv {
    const fv_weight *w, *bias; /* bias may be NULL */
    fv_view in, out;
    const fv_view *res; /* NULL: none; may be `out` */
    fv_grid from, to;
    uint32_t channels, size, stride, pad;
    uint32_t act; /* FV_EPI_* or 0 */
    bool trunk;   /* of a backbone, not of a decoder: never int8, because every later block would
                     see the error */
} fv_conv;
void fv_emit_conv(fv_builder *b, const char *label, const fv_conv *c);

#define FV_DWCONV_LARGEST 31u /* maximum side of a filter */

/* out = (res + bias + depthwise convolution of in) * gate. res, gate: id FV_NO_VALUE for none; out
 * is never in. `count` grids of width x height follow one another; size is odd. */
typedef struct fv_dwconv {
    const fv_weight *w, *bias; /* (period, size * size); bias may be NULL */
    fv_view in, res, gate, out;
    uint32_t width, height, count, channels, size;
} fv_dwconv;
void fv_emit_dwconv(fv_builder *b, const char *label, const fv_dwconv *c);

/* out[i] = [in[table[i * parts]], in[table[i * parts + 1]], ..] + res[i]; parts of `cols` columns.
 * res: id FV_NO_VALUE for none. */
void fv_emit_gather(fv_builder *b, const char *label, fv_view in, const uint32_t *table,
                    uint32_t parts, fv_view res, fv_view out, uint32_t rows, uint32_t cols);

/* Means of the finished grid `from` over columns x lines areas: ADAPTIVE_POOL. */
void fv_emit_adaptive_pool(fv_builder *b, const char *label, fv_view in, const fv_grid *from,
                           uint32_t columns, uint32_t lines, fv_view out, uint32_t cols);

/* Resizes `from` finished rows to `rows`, linearly along the token axis, as torch's interpolate
 * with align_corners False. */
void fv_emit_lerp(fv_builder *b, const char *label, fv_view in, uint32_t from, fv_view out,
                  uint32_t rows, uint32_t cols);

/* Tables of a ViT's rotation, with a row of d per token: for fv_emit_rope, and for linear attention
 * with rope_width 0. */
void fv_emit_rope_tokens(fv_builder *b, const fv_rope *r, const fv_grid *grid, uint32_t d,
                         fv_weight *cos, fv_weight *sin);

/* The same tables from learned frequencies of each head, (2 heads, d / 2): first those by column of
 * all heads, then those by row. The tables have a row of heads * d per token; fv_emit_rope takes
 * them as one head. */
void fv_emit_rope_mixed(fv_builder *b, const fv_weight *frequencies, const fv_grid *grid,
                        fv_weight *cos, fv_weight *sin);

/* Rotation by RoPE2D, the same for every head: tables of positions 0 .. max(width, height) - 1 with
 * d/2 values each (fv_rope_positions). out may be in. */
void fv_emit_rope_tables(fv_builder *b, const fv_grid *grid, uint32_t d, fv_weight *cos,
                         fv_weight *sin);
void fv_emit_rope(fv_builder *b, const char *label, fv_view in, const fv_weight *cos,
                  const fv_weight *sin, const fv_grid *grid, uint32_t heads, uint32_t d,
                  fv_view out);

/* Makes the table of relative positions of n rows (or columns) of a grid, (d, 2n - 1), for
 * fv_emit_rel_pos. `table`: (L, d), a row for each distance, from a query that is furthest above
 * (or left of) the key to one that is furthest below. If L is not 2n - 1 it is resized linearly,
 * as torch's interpolate with align_corners False. */
fv_weight fv_emit_rel_pos_table(fv_builder *b, const fv_weight *table, uint32_t n);
/* REL_POS of the queries q: `rows` rows, which are grids of height x width, one after the other.
 * The result is fv_attention.rel_pos. */
typedef struct fv_rel_pos {
    const fv_weight *down, *across;
    uint32_t height, width, heads, d;
} fv_rel_pos;
fv_view fv_emit_rel_pos(fv_builder *b, const char *label, const fv_rel_pos *p, fv_view q,
                        uint32_t rows);

/* Attention inside windows of `window` consecutive rows, all of it in one step. a->mech
 * FV_MECH_ANY: softmax; param: (heads * window, window), added to the scores; or absent, as with
 * rel_columns; `regions`:
 * one number per row; -100 is added to the score of rows of different ones; NULL: none. Else a
 * linear mechanism with its learned vectors in a->param. */
void fv_emit_window(fv_builder *b, const char *label, const fv_attention *a, fv_view q,
                    uint32_t window, const uint32_t *regions, fv_view out);

/* The mean of the grid's rows of `in`, without the prefix, as one row. */
void fv_emit_mean(fv_builder *b, const char *label, fv_view in, const fv_grid *grid, uint32_t cols,
                  fv_view out);
/* The largest number of each column; and the mean of these and the columns' means. */
void fv_emit_largest(fv_builder *b, const char *label, fv_view in, const fv_grid *grid,
                     uint32_t cols, fv_view out);
void fv_emit_mean_and_largest(fv_builder *b, const char *label, fv_view in, const fv_grid *grid,
                              uint32_t cols, fv_view out);

/* Group normalisation of all rows of a grid without prefix; `groups`: number of channel groups. */
typedef struct fv_groupnorm {
    const fv_weight *w, *bias; /* a column per channel; the number of channels is a multiple of
                                  `groups` */
    fv_view in, out;
    uint32_t rows, groups;
    uint32_t act; /* FV_EPI_RELU, FV_EPI_SILU or 0 */
    float eps;
} fv_groupnorm;
void fv_emit_groupnorm(fv_builder *b, const char *label, const fv_groupnorm *n);

/* A causal operation: one step, with a state that outlives the frame. */
typedef struct fv_scan {
    uint32_t mech, heads, d, dv, rows;
    uint32_t flags; /* FV_FLAG_* of SCAN */
    enum fv_type in, out;
    double scale, eps;
    double scale_by_tokens; /* FV_FLAG_CENTRED: the scale grows by this with every token */
    uint32_t chunk;         /* 0: the kernel's choice */
    fv_view q, k, v, decay, beta, gate_q, gate_k; /* the last four are present as the flags say */
    fv_weight same_decay;                         /* a single row for all tokens, instead of
                                                     `decay` */
    fv_view state;                                /* FV_VALUE_KEPT of fv_scan_floats() */
} fv_scan;
uint64_t fv_scan_floats(const fv_scan *s);
void fv_emit_scan(fv_builder *b, const char *label, const fv_scan *s, fv_view out);

/* ---- sequences (emit_sequence.c) ---- */

/* Divides each of `heads` groups of a row by its root mean square and multiplies by w, which has a
 * factor for each channel of a group. Then multiplies by `gate`, as wide as the row, or its silu,
 * and by `head_gate`, a number for each group. gate, head_gate: id FV_NO_VALUE if absent; out may
 * be in. */
typedef struct fv_rmsnorm {
    const fv_weight *w;
    fv_view in, gate, head_gate, out;
    uint32_t rows, heads;
    bool silu;
    float eps;
} fv_rmsnorm;
void fv_emit_rmsnorm(fv_builder *b, const char *label, const fv_rmsnorm *n);

#define FV_CACHE_TOKENS_MOST (1u << 24) /* positions are floats */

/* Causal softmax attention of `rows` tokens to themselves and to a cache of earlier tokens. */
typedef struct fv_softmax_scan {
    uint32_t heads, kv_heads; /* a multiple of kv_heads */
    uint32_t d, dv, rows;
    uint32_t capacity; /* of the cache, in tokens; FV_CACHE_TOKENS_MOST at most */
    uint32_t window;   /* tokens that a row sees; 0: all */
    double scale;
    fv_view q, k, v, out; /* rows of heads * d, kv_heads * d, kv_heads * dv, heads * dv */
    fv_view position;     /* (rows, 1) float32: each row's position; the first is the number of
                             tokens before */
    fv_view cache;        /* FV_VALUE_KEPT of fv_cache_floats() */
} fv_softmax_scan;
void fv_emit_softmax_scan(fv_builder *b, const char *label, const fv_softmax_scan *s);
/* Floats of its cache. */
static inline uint64_t fv_cache_floats(const fv_softmax_scan *s)
{
    return (uint64_t)s->kv_heads * s->capacity * ((uint64_t)s->d + s->dv);
}

/* Causal depthwise convolution of all rows in one step. Its state, the last inputs, outlives the
 * frame. */
typedef struct fv_short_conv {
    const fv_weight *w, *bias; /* (channels, size), size 2 to FV_SHORT_CONV_LARGEST; may be NULL */
    fv_view in, out;           /* out is not in */
    fv_view state;             /* FV_VALUE_KEPT: (size - 1) * channels, the oldest input first */
    uint32_t rows;
    bool silu; /* of what is written */
} fv_short_conv;
void fv_emit_short_conv(fv_builder *b, const char *label, const fv_short_conv *c);

/* Rotates every head by rows of d cosines and d sines, one for each channel, which an earlier step
 * writes. out may be in. */
void fv_emit_rope_rows(fv_builder *b, const char *label, fv_view in, fv_view cos, fv_view sin,
                       uint32_t heads, uint32_t d, fv_view out, uint32_t rows);

/* ---- decoders (emit_dense.c) ---- */

/* An activation, FV_EPI_*, as a separate step; out may be in. */
void fv_emit_act(fv_builder *b, const char *label, uint32_t act, fv_view in, fv_view out,
                 uint32_t rows, uint32_t cols);

/* Resizes a finished grid (no prefix) to a larger or smaller one, plus `res` unless its id is
 * FV_NO_VALUE. flags: FV_FLAG_NEAREST, FV_FLAG_ALIGN_CORNERS, or 0 for torch's "bilinear" with
 * align_corners False. Only width and height of the grids are used. */
typedef struct fv_upsample {
    fv_view in, res, out;
    fv_grid from, to;
    uint32_t channels, flags;
} fv_upsample;
void fv_emit_upsample(fv_builder *b, const char *label, const fv_upsample *u);

/* A transposed convolution of a finished grid (no prefix), to a grid `stride` times as fine. Its
 * size is `stride` without pad; or, with `overlap`, for stride 2, 2 * stride with pad stride / 2.
 * Rows of w: (row, column, channel) of the block of pixels that each pixel becomes; columns: those
 * of a product, with `overlap` of a CONV of size 2 (fv_weight_deconv). bias: one for each row. */
typedef struct fv_deconv {
    const fv_weight *w, *bias; /* bias may be NULL */
    fv_view in, out;
    fv_grid from;
    uint32_t from_channels, channels, stride;
    bool overlap;
    uint32_t act; /* FV_EPI_* or 0 */
} fv_deconv;
void fv_emit_deconv(fv_builder *b, const char *label, const fv_deconv *d);

/* ---- queries and boxes (emit_boxes.c) ---- */

/* The largest number of every row of `in`: (rows, 1). */
fv_view fv_emit_row_max(fv_builder *b, const char *label, fv_view in, uint32_t rows, uint32_t cols);
/* The `k` largest of `from` numbers in descending order: (k, 1), each given by its row number as a
 * float; -1 if there are fewer. `table`: the `count` rows that may be chosen, ascending; NULL:
 * all. */
fv_view fv_emit_topk(fv_builder *b, const char *label, fv_view in, uint32_t from, uint32_t k,
                     const uint32_t *table, uint32_t count);
/* Takes rows of `in`, or of the weight w if it is given, `cols` wide. Their numbers are in `index`,
 * where -1 means zeros; index.id FV_NO_VALUE: the first `rows` rows. `from`: the number of rows in
 * `in`. */
typedef struct fv_pick {
    const fv_weight *w; /* NULL: `in` */
    fv_view in, index;
    uint32_t from, rows, cols;
} fv_pick;
fv_view fv_emit_pick(fv_builder *b, const char *label, const fv_pick *p);
/* sin(2 pi (x rate[c] + phase[c])) for each of `parts` columns x of `in`, side by side. rate: one
 * row, or two rows whose sum is the rate. */
fv_view fv_emit_sine(fv_builder *b, const char *label, fv_view in, uint32_t parts,
                     const fv_weight *rate, const fv_weight *phase, uint32_t rows);
/* Deformable attention of `rows` queries, which sample a grid of width x height values. */
typedef struct fv_deform {
    fv_view values, box, offset, weight;
    uint32_t heads, d, points, width, height, rows;
} fv_deform;
fv_view fv_emit_deform(fv_builder *b, const char *label, const fv_deform *d);
/* Boxes (cx, cy, w, h), moved by delta in units of w and h and scaled by exp(delta), are written to
 * `out`. */
void fv_emit_refine(fv_builder *b, const char *label, fv_view box, fv_view delta, fv_view out,
                    uint32_t rows);

#endif
