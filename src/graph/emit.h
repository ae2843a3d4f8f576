/* emit.h: functions with which an emitter writes a graph: steps and values in the order of
 * execution. */
#ifndef FOVEA_SRC_EMIT_H
#define FOVEA_SRC_EMIT_H

#include "graph/graph.h"
#include "ops/preprocess.h"
#include "ops/products.h"
#include "ops/rope.h"

struct fv_builder;

/* Additional work of an emitter for training. */
typedef struct fv_training {
    /* Called after the attention of a block. `normed` is the attention's input, and `out` is its
     * projected result before layer scale and residual. NULL: not called. */
    void (*attended)(void *ctx, struct fv_builder *b, uint32_t block, fv_view normed, fv_view out);
    /* Called with each prediction of a decoder of queries, the last one last: logits of the classes
     * of each query, and of its mask on a grid. NULL: not called. */
    void (*predicted)(void *ctx, struct fv_builder *b, fv_view classes, fv_view masks,
                      const fv_grid *grid);
    void *ctx;
} fv_training;

/* Options of the graph to build. They must not change after the first step was emitted. */
typedef struct fv_emit_options {
    uint32_t width, height;       /* pixels of the picture */
    struct fv_inner inner;        /* position and size of the pixels in the picture, which is
                                     padded with zeros */
    fv_grid grid;                 /* the grid of the patches */
    fv_attention_name *attention; /* one per block */
    uint32_t blocks;
    bool half_sums;           /* products with float16 weights may accumulate in float16 */
    enum fv_type weight_type; /* type of the weights of GEMM and CONV and, for inference, of the
                                 position table */
    bool int8_weights;        /* weights of products in blocks are stored as I8 instead */
    enum fv_type row_type;    /* type of activation rows */
    bool narrow_only;         /* on the CPU: only operands that are `narrow` accept row_type */
    bool any_type;         /* the device's kernels accept rows of any type, whatever row_type is */
    bool widens;           /* the processor has no instructions that multiply bfloat16 */
    bool multiplies_int8;  /* the processor has instructions for int8 products */
    bool int8_attention;   /* the device's limits allow int8 attention */
    fovea_compute compute; /* type of products: F32; or BF16 or INT8 on a device that has kernels
                              for it */
    fv_products bf16;      /* products that stay BF16 when the others are int8 */
    const fv_patch_table *patch_table;
    const fv_training *training; /* NULL: inference only; otherwise position tables stay weights */
} fv_emit_options;

/* The state of an emitter; graph and options must outlive it. */
typedef struct fv_builder {
    fv_graph *graph;
    fv_emit_options *options;
    fv_view frame;            /* pixels of the picture's inner part: u8, floats, or float planes */
    uint32_t frame_flags;     /* flags of PATCH, such as FV_FLAG_PLANAR */
    uint32_t frame_plane;     /* PLANAR: plane stride in elements */
    fv_view chroma;           /* NV12: the U and V plane of the picture */
    uint32_t yuv;             /* NV12, YUYV: colour matrix, fovea_yuv_matrix */
    bool in_block;            /* the steps are in a block, where products or their weights may be
                                 int8 because the residual stream averages out the errors */
    fv_weight cos, sin;       /* tables of the model's rotation, once they have been made */
    fv_weight bias;           /* biases of the scores of all blocks, once they have been made */
    const fv_weight *bias_of; /* the table that `bias` was made from */
    uint32_t checkpoint_segment; /* checkpoint segment of the steps that follow; each block
                                    begins a segment */
    char scope[36];              /* prefix of the steps' labels, such as "block 3"; or empty */
    fovea_status status;         /* first failure; the emit functions do nothing after it */
    fv_step nowhere;             /* the step that is filled in after a failure; it is not in the
                                    graph */
} fv_builder;

/* Returns an emitter that has not emitted any step. */
static inline fv_builder fv_builder_of(fv_graph *graph, fv_emit_options *options)
{
    return (fv_builder){.graph = graph, .options = options};
}

/* Returns the attention of block i of the model. */
static inline const fv_attention_name *fv_block_attention(const fv_builder *b, uint32_t i)
{
    return &b->options->attention[i];
}

/* Sets the types of products for `compute`, on a device with these limits. */
void fv_emit_compute(fv_emit_options *o, fovea_compute compute, const fv_limits *limits);

/* Begins a block: the steps that follow belong to it, and their labels begin with the formatted
 * text, for example "block 3". fv_emit_leave_block ends the block. */
void fv_emit_enter_block(fv_builder *b, const char *format, ...) FV_PRINTF(2, 3);
void fv_emit_leave_block(fv_builder *b);

fv_view fv_emit_rows(fv_builder *b, uint32_t rows, uint32_t cols);
fv_view fv_emit_value(fv_builder *b, enum fv_value_kind kind, uint32_t rows, uint32_t cols,
                      enum fv_type type);
static inline fv_view fv_view_cols(fv_view v, uint32_t col)
{
    return (fv_view){v.id, v.col + col};
}

/* Returns the view into which output `name` must be written: the caller's memory if the output was
 * asked for; otherwise a new value if `always` is set, or no view. `grid` describes token rows;
 * NULL means that rows are not tokens. */
fv_view fv_emit_output(fv_builder *b, const char *name, uint32_t rows, uint32_t cols,
                       const fv_grid *grid, bool always);
/* Does the same as fv_emit_output for an output other than features. */
fv_view fv_emit_task_output(fv_builder *b, const char *name, fovea_output_kind kind, uint32_t rows,
                            uint32_t cols, const fv_grid *grid, bool always);
/* Sets the layout of output `name`, which was emitted already, if the model's original code gives
 * it another shape than is usual for its kind. */
void fv_emit_layout(fv_builder *b, const char *name, fovea_output_layout layout);
/* Copies rows to output `name`, if it was asked for. */
void fv_emit_offer(fv_builder *b, const char *name, fv_view in, uint32_t rows, uint32_t cols,
                   const fv_grid *grid);
bool fv_emit_wants(const fv_builder *b, const char *name);

/* Declares an input of a plan of one operation: a matrix that the caller passes with each frame.
 * Inputs are numbered in the order in which they are emitted; their names are static text. */
fv_view fv_emit_input(fv_builder *b, const char *name, uint32_t rows, uint32_t cols,
                      enum fv_type type);
fv_view fv_emit_result(fv_builder *b, uint32_t rows, uint32_t cols, enum fv_type type);
/* Returns rows of `type` as float32: emits a conversion, or returns `in` itself. */
fv_view fv_emit_floats(fv_builder *b, const char *label, fv_view in, enum fv_type type,
                       uint32_t rows, uint32_t cols);

/* Returns a (rows, cols) weight that belongs to the plan, and sets *data to its memory, which the
 * caller fills. *data is NULL on failure. */
fv_weight fv_emit_constant(fv_builder *b, uint32_t rows, uint32_t cols, float **data);

/* Stores rows of activations as options->row_type, once it is known which steps are live. Three
 * kinds of values stay float32: values that several steps write, because 16 bits would lose digits
 * of the residual stream; single rows, which take little memory; and, with narrow_only, values that
 * are used by an operand which is not `narrow`. */
void fv_emit_narrow(fv_graph *g, const fv_emit_options *options);
/* Sets the types of every step's problem to those of its first operand and its result. */
void fv_emit_types(fv_graph *g, const fv_emit_options *options);

/* Changes the type of a value that has no memory yet. */
void fv_emit_store_as(fv_value *v, enum fv_type type);

/* Adds an empty step, whose operands, dims and scalars the caller sets. After a failure the step is
 * not added to the graph. */
fv_step *fv_emit_step(fv_builder *b, enum fv_op op, uint32_t rows, const char *label);
/* Adds a step whose operand 0 is `in` and whose results are rows of `out`; both are `cols`
 * (FV_ROW_C) columns wide. */
fv_step *fv_emit_row_step(fv_builder *b, enum fv_op op, const char *label, fv_view in,
                          enum fv_kind kind, fv_view out, uint32_t rows, uint32_t cols);
/* Sets an operand to a view; a view with id FV_NO_VALUE leaves it absent. */
void fv_use_value(fv_step *s, uint32_t operand, fv_view v, enum fv_kind kind);
void fv_use_weight(fv_step *s, uint32_t operand, const fv_weight *w);
/* Sets an operand to a weight of a product's epilogue, and adds `epi` (FV_EPI_*), if it is
 * present. */
void fv_use_epilogue(fv_step *s, uint32_t operand, const fv_weight *w, uint32_t epi);
/* Returns whether the next product that may be int8 is computed in int8. */
bool fv_use_int8(fv_builder *b);
/* Sets the types of a product's weights and accumulators. For GEMM, its rows (FV_GEMM_A) must be
 * set already. */
void fv_use_types(fv_step *s, fv_builder *b);
/* Changes a product to int8. */
void fv_make_int8(fv_step *s);

/* The functions below emit the common steps. Weights may be absent where the op allows it. */
void fv_emit_layernorm(fv_builder *b, const char *label, fv_view in, const fv_weight *w,
                       const fv_weight *bias, float eps, fv_view out, uint32_t rows);
typedef struct fv_gemm {
    const fv_weight *w, *bias, *scale; /* bias, scale may be NULL or absent */
    fv_view in;                        /* id FV_NO_VALUE: in_weight has the rows */
    const fv_weight *in_weight;
    fv_view res, out; /* res.id FV_NO_VALUE: no residual */
    uint32_t act;     /* FV_EPI_* activation or SWIGLU, or 0 */
    uint32_t rows;
    bool decoder; /* a 1 x 1 or transposed convolution of a decoder, which may be int8 like the
                     decoder's other convolutions */
} fv_gemm;
void fv_emit_gemm(fv_builder *b, const char *label, const fv_gemm *g);
void fv_emit_copy(fv_builder *b, const char *label, fv_view in, fv_view out, uint32_t rows,
                  uint32_t cols);
void fv_emit_take(fv_builder *b, const char *label, fv_view in, uint32_t row, fv_view out,
                  uint32_t rows, uint32_t cols);

/* Converts rows to another type. */
void fv_emit_convert(fv_builder *b, const char *label, fv_view in, enum fv_type from, fv_view out,
                     enum fv_type to, uint32_t rows, uint32_t cols);
/* Computes out = a b, or a silu(b); out may be a. */
void fv_emit_mul(fv_builder *b, const char *label, fv_view a, fv_view factor, bool silu,
                 fv_view out, uint32_t rows, uint32_t cols);

/* Computes out[i][j] = a_i . b_j, for rows of `k` columns; b has `n` complete rows. */
void fv_emit_matmul(fv_builder *b, const char *label, fv_view a, fv_view rows_of_b, uint32_t n,
                    uint32_t k, fv_view out, uint32_t rows);

/* Computes out = in + res; out may be either. */
void fv_emit_add(fv_builder *b, const char *label, fv_view in, fv_view res, fv_view out,
                 uint32_t rows, uint32_t cols);

/* Attention is emitted in two halves. The first, fv_emit_keys, prepares what queries read: for a
 * linear mechanism the merged state (K and V exist only inside the sweep), for softmax K and V
 * themselves. */
/* Result of fv_emit_keys. */
typedef struct fv_prepared_keys {
    fv_view state;          /* state of a linear mechanism */
    fv_view cell_k, cell_v; /* foveated attention: means of K and V over cells */
    fv_view packed;         /* int8 products: quantised k, v and cells */
} fv_prepared_keys;

typedef struct fv_attention {
    uint32_t mech, heads, d, dv;
    uint32_t queries, keys;
    uint32_t flags;    /* FV_FLAG_CAUSAL, FV_FLAG_UNNORMALISED, FV_FLAG_ROPE, FV_FLAG_GATED */
    double scale, eps; /* softmax: scale of the scores; other mechanisms: as fv_attention_scales
                          sets them */
    double alpha;      /* the mechanism's constant; 0: the value of its authors */
    fv_view k, v;
    uint32_t margin;        /* foveated attention: margin in tokens, not 0; else 0 */
    const fv_grid *grid;    /* foveated attention: grid of the tokens */
    fv_weight param;        /* learned vectors; absent: all zeros */
    fv_weight cos, sin;     /* ROPE: tables of cosines and sines */
    uint32_t rope_width;    /* ROPE: width of the grid, for tables with a row per position; 0:
                               tables have a row per token */
    fv_view gate_q, gate_k; /* GATED: gates of q and k */
    fv_view rel_pos;        /* softmax: the output of fv_emit_rel_pos, for a grid of keys */
    uint32_t rel_columns;   /* columns of the grid of keys; 0: no relative positions */
    fv_prepared_keys prepared;
} fv_attention;
void fv_emit_keys(fv_builder *b, const char *label, fv_attention *a);
void fv_emit_queries(fv_builder *b, const char *label, const fv_attention *a, fv_view q,
                     fv_view out);
/* Hides keys outside the mask of each query of softmax. Call it between fv_emit_keys and the step
 * for the queries. `masks` has a->queries rows with a number for each of the last `n` keys; a key
 * is hidden unless its number is positive. With `spare`, it is hidden if its number is negative,
 * unless all numbers of the query are. */
void fv_emit_mask_keys(fv_builder *b, const char *label, fv_attention *a, fv_view masks, uint32_t n,
                       bool spare);
/* Emits attention pooling: one row of q attends to all keys by softmax, whose options are in `a`.
 * Returns the pooled row. */
fv_view fv_emit_pool(fv_builder *b, const char *label, const char *merge, const fv_attention *a,
                     fv_view q);
/* Emits the gates G^Q or G^K of SLA: softmax over the heads of `logits`, multiplied by `total`,
 * which is therefore the sum of a token's gates. */
fv_view fv_emit_gates(fv_builder *b, const char *label, fv_view logits, float total, uint32_t heads,
                      uint32_t rows);
/* Sets the scale and eps of `a` for a->mech, given the scale and eps of the equations in
 * attention.h. */
void fv_attention_scales(fv_attention *a, const fv_attention_name *name, double scale, double eps);

/* ---- grids (emit_grid.c) ---- */

/* Allocates `count` numbers for a step's table, which lives as long as the plan. Returns NULL on
 * failure. */
uint32_t *fv_emit_table(fv_builder *b, uint32_t count);

/* Writes one row for each size x size patch of every channel; patches are `stride` pixels apart,
 * and their values are in the order of torch's convolution weights. `pad` is the number of zero
 * pixels at the left and above; other pixels outside the picture are zeros too. */
void fv_emit_patches(fv_builder *b, const fv_grid *grid, uint32_t size, uint32_t stride,
                     uint32_t pad, fv_view out);

/* Emits one pass of the picture's resize, RESIZE_X or RESIZE_Y. `from` is the number of pixels in a
 * row of `in`. */
void fv_emit_resize(fv_builder *b, enum fv_op op, const fv_picture_resize *r, fv_view in,
                    uint32_t from, uint32_t channels, fv_view out);

/* Emits out = in + the position table, which `rule` resizes to the grid. The rows of `prefix` (may
 * be absent) replace the prefix rows. With table_width 0, the table has one row per token and is
 * not resized. Without a table, the step only sets the prefix. */
typedef struct fv_posemb {
    const fv_weight *prefix, *table;
    uint32_t table_width, table_height;
    enum fv_pos_rule rule;
} fv_posemb;
void fv_emit_posemb(fv_builder *b, const char *label, const fv_posemb *p, const fv_grid *grid,
                    fv_view in, fv_view out);
/* Returns the table resized to the grid, with one row per cell, as a weight that belongs to the
 * plan. */
fv_weight fv_emit_resized_table(fv_builder *b, const fv_posemb *p, const fv_grid *grid);

/* A convolution over a complete grid (no prefix). The columns of w are in the order (ky, kx,
 * channel): see fv_weight_part.taps. */
typedef struct fv_conv {
    const fv_weight *w, *bias; /* bias may be NULL */
    fv_view in, out;
    const fv_view *res; /* NULL: no residual; may be `out` */
    fv_grid from, to;
    uint32_t channels, size, stride, pad;
    uint32_t act; /* FV_EPI_* or 0 */
    bool trunk;   /* a convolution of a backbone, not of a decoder: never int8, because every
                     later block would see the error */
} fv_conv;
void fv_emit_conv(fv_builder *b, const char *label, const fv_conv *c);

#define FV_DWCONV_LARGEST 31u /* maximum side of a filter */

/* out = (res + bias + depthwise convolution of in) * gate. The id of res or gate is FV_NO_VALUE if
 * it is absent. out must not be in. `count` grids of width x height follow one another; size is
 * odd. */
typedef struct fv_dwconv {
    const fv_weight *w, *bias; /* (period, size * size); bias may be NULL */
    fv_view in, res, gate, out;
    uint32_t width, height, count, channels, size;
} fv_dwconv;
void fv_emit_dwconv(fv_builder *b, const char *label, const fv_dwconv *c);

/* Computes out[i] = [in[table[i * parts]], in[table[i * parts + 1]], ..] + res[i], where each part
 * has `cols` columns. res.id is FV_NO_VALUE if there is no residual. */
void fv_emit_gather(fv_builder *b, const char *label, fv_view in, const uint32_t *table,
                    uint32_t parts, fv_view res, fv_view out, uint32_t rows, uint32_t cols);

/* Returns the rows of several values, one value after the other. `rows` are their numbers of rows.
 * With `exact`, all steps write one value, which therefore stays float32. */
fv_view fv_emit_concatenate(fv_builder *b, const char *label, const fv_view *part,
                            const uint32_t *rows, uint32_t parts, uint32_t cols, bool exact);

/* Computes the means of the complete grid `from` over columns x lines areas: ADAPTIVE_POOL. */
void fv_emit_adaptive_pool(fv_builder *b, const char *label, fv_view in, const fv_grid *from,
                           uint32_t columns, uint32_t lines, fv_view out, uint32_t cols);

/* Computes the maximum of each block of 2 x 2 cells of the complete grid `from`, whose sides are
 * even, and returns the rows. */
fv_view fv_emit_max_pool(fv_builder *b, const char *label, fv_view in, const fv_grid *from,
                         uint32_t cols);

/* Resizes `from` complete rows to `rows`, linearly along the token axis, as torch's interpolate
 * does with align_corners False. */
void fv_emit_lerp(fv_builder *b, const char *label, fv_view in, uint32_t from, fv_view out,
                  uint32_t rows, uint32_t cols);

/* Makes the cosine and sine tables of a ViT's rotary position embedding (RoPE), with a row of d
 * values per token. fv_emit_rope reads them, and so does linear attention with rope_width 0. */
void fv_emit_rope_tokens(fv_builder *b, const fv_rope *r, const fv_grid *grid, uint32_t d,
                         fv_weight *cos, fv_weight *sin);

/* Makes such tables from learned frequencies of each head, (2 heads, d / 2): first the frequencies
 * by column of all heads, then those by row. The tables have a row of heads * d values per token;
 * pass them to fv_emit_rope as those of one head. */
void fv_emit_rope_mixed(fv_builder *b, const fv_weight *frequencies, const fv_grid *grid,
                        fv_weight *cos, fv_weight *sin);

/* Make tables for RoPE2D and emit the rotation, which is the same for every head. The tables have a
 * row of d/2 values for each position from 0 to max(width, height) - 1 (fv_rope_positions). out may
 * be in. */
void fv_emit_rope_tables(fv_builder *b, const fv_grid *grid, uint32_t d, fv_weight *cos,
                         fv_weight *sin);
void fv_emit_rope(fv_builder *b, const char *label, fv_view in, const fv_weight *cos,
                  const fv_weight *sin, const fv_grid *grid, uint32_t heads, uint32_t d,
                  fv_view out);

/* Makes the table of relative positions of n rows (or columns) of a grid, (d, 2n - 1), for
 * fv_emit_rel_pos. `table` is (L, d), with a row for each distance, from a query that is furthest
 * above (or left of) the key to one that is furthest below. If L is not 2n - 1, the table is
 * resized linearly, as torch's interpolate does with align_corners False. */
fv_weight fv_emit_rel_pos_table(fv_builder *b, const fv_weight *table, uint32_t n);
/* Parameters of REL_POS for the queries q: `rows` rows, which form consecutive grids of height x
 * width. The result is fv_attention.rel_pos. */
typedef struct fv_rel_pos {
    const fv_weight *down, *across;
    uint32_t height, width, heads, d;
} fv_rel_pos;
fv_view fv_emit_rel_pos(fv_builder *b, const char *label, const fv_rel_pos *p, fv_view q,
                        uint32_t rows);

/* Emits attention inside windows of `window` consecutive rows, in one step. If a->mech is
 * FV_MECH_ANY, the attention is softmax. a->param, (heads * window, window), is then added to the
 * scores; it is absent if rel_columns is set. `regions` has one number per row: the score of two
 * rows with different numbers is reduced by 100; NULL means that there are no regions. Other
 * mechanisms are linear, and a->param has their learned vectors. */
void fv_emit_window(fv_builder *b, const char *label, const fv_attention *a, fv_view q,
                    uint32_t window, const uint32_t *regions, fv_view out);

/* Computes the mean of the grid's rows of `in`, without the prefix, as one row. */
void fv_emit_mean(fv_builder *b, const char *label, fv_view in, const fv_grid *grid, uint32_t cols,
                  fv_view out);
/* Compute the maximum of each column, and the mean of the column's maximum and mean. */
void fv_emit_largest(fv_builder *b, const char *label, fv_view in, const fv_grid *grid,
                     uint32_t cols, fv_view out);
void fv_emit_mean_and_largest(fv_builder *b, const char *label, fv_view in, const fv_grid *grid,
                              uint32_t cols, fv_view out);

/* Group normalisation over all rows of a complete grid (no prefix), with `groups` groups of
 * channels. */
typedef struct fv_groupnorm {
    const fv_weight *w, *bias; /* one column per channel; the number of channels is a multiple of
                                  `groups` */
    fv_view in, out;
    uint32_t rows, groups;
    uint32_t act; /* FV_EPI_RELU, FV_EPI_SILU or 0 */
    float eps;
} fv_groupnorm;
void fv_emit_groupnorm(fv_builder *b, const char *label, const fv_groupnorm *n);

/* A causal operation: one step, with a state that is kept from one frame to the next. */
typedef struct fv_scan {
    uint32_t mech, heads, d, dv, rows;
    uint32_t flags; /* flags of SCAN, FV_FLAG_* */
    enum fv_type in, out;
    double scale, eps;
    double scale_by_tokens; /* FV_FLAG_CENTRED: the scale grows by this amount with every token */
    uint32_t chunk;         /* rows per chunk; 0: the kernel's choice */
    fv_view q, k, v, decay, beta, gate_q, gate_k; /* flags decide which of the last four are
                                                     present */
    fv_weight same_decay;                         /* one row that replaces `decay` for all tokens */
    fv_view state;                                /* FV_VALUE_KEPT with fv_scan_floats() elements */
} fv_scan;
uint64_t fv_scan_floats(const fv_scan *s);
void fv_emit_scan(fv_builder *b, const char *label, const fv_scan *s, fv_view out);

/* ---- sequences (emit_sequence.c) ---- */

/* Divides each of `heads` groups of a row by its root mean square and multiplies it by w, which has
 * an element for each channel of a group. Then multiplies by `gate`, which is as wide as the row,
 * or by silu(gate), and by `head_gate`, a number for each group. The id of gate or head_gate is
 * FV_NO_VALUE if it is absent; out may be in. */
typedef struct fv_rmsnorm {
    const fv_weight *w;
    fv_view in, gate, head_gate, out;
    uint32_t rows, heads;
    bool silu;
    float eps;
} fv_rmsnorm;
void fv_emit_rmsnorm(fv_builder *b, const char *label, const fv_rmsnorm *n);

#define FV_CACHE_TOKENS_MOST (1u << 24) /* positions are floats */

/* Causal softmax attention of `rows` tokens to themselves and to the earlier tokens in a cache. */
typedef struct fv_softmax_scan {
    uint32_t heads, kv_heads; /* heads is a multiple of kv_heads */
    uint32_t d, dv, rows;
    uint32_t capacity; /* capacity of the cache in tokens, at most FV_CACHE_TOKENS_MOST */
    uint32_t window;   /* number of tokens that a row attends to; 0: all */
    double scale;
    fv_view q, k, v, out; /* rows of heads * d, kv_heads * d, kv_heads * dv, heads * dv elements */
    fv_view position;     /* (rows, 1) float32: each row's position; the first is the number of
                             earlier tokens */
    fv_view cache;        /* FV_VALUE_KEPT with fv_cache_floats() elements */
} fv_softmax_scan;
void fv_emit_softmax_scan(fv_builder *b, const char *label, const fv_softmax_scan *s);
/* Returns the number of floats of the cache. */
static inline uint64_t fv_cache_floats(const fv_softmax_scan *s)
{
    return (uint64_t)s->kv_heads * s->capacity * ((uint64_t)s->d + s->dv);
}

/* Causal depthwise convolution of all rows in one step. Its state, the last inputs, is kept from
 * one frame to the next. */
typedef struct fv_short_conv {
    const fv_weight *w, *bias; /* w is (channels, size), with size from 2 to
                                  FV_SHORT_CONV_LARGEST; bias may be NULL */
    fv_view in, out;           /* out must not be in */
    fv_view state;             /* FV_VALUE_KEPT: (size - 1) * channels elements, the oldest input
                                  first */
    uint32_t rows;
    bool silu; /* applies SiLU to the result */
} fv_short_conv;
void fv_emit_short_conv(fv_builder *b, const char *label, const fv_short_conv *c);

/* Rotates every head by rows of d cosines and d sines, one for each channel, which an earlier step
 * writes. out may be in. */
void fv_emit_rope_rows(fv_builder *b, const char *label, fv_view in, fv_view cos, fv_view sin,
                       uint32_t heads, uint32_t d, fv_view out, uint32_t rows);

/* ---- decoders (emit_dense.c) ---- */

/* Emits an activation, FV_EPI_*, as a separate step; out may be in. */
void fv_emit_act(fv_builder *b, const char *label, uint32_t act, fv_view in, fv_view out,
                 uint32_t rows, uint32_t cols);

/* Resizes a complete grid (no prefix) to a larger or smaller one, and adds `res` unless its id is
 * FV_NO_VALUE. flags is FV_FLAG_NEAREST, FV_FLAG_ALIGN_CORNERS, or 0 for torch's "bilinear" with
 * align_corners False. Only width and height of the grids are used. */
typedef struct fv_upsample {
    fv_view in, res, out;
    fv_grid from, to;
    uint32_t channels, flags;
} fv_upsample;
void fv_emit_upsample(fv_builder *b, const char *label, const fv_upsample *u);

/* A transposed convolution of a complete grid (no prefix), to a grid `stride` times as fine. Its
 * filter has size `stride` and no padding; with `overlap`, which requires stride 2, it has size 2 *
 * stride and padding stride / 2. The rows of w are the (row, column, channel) of the block of
 * pixels that each pixel becomes. Its columns are those of a product or, with `overlap`, of a CONV
 * of size 2 (fv_weight_deconv). bias has one element per row of w. */
typedef struct fv_deconv {
    const fv_weight *w, *bias; /* bias may be NULL */
    fv_view in, out;
    fv_grid from;
    uint32_t from_channels, channels, stride;
    bool overlap;
    uint32_t act; /* FV_EPI_* or 0 */
} fv_deconv;
void fv_emit_deconv(fv_builder *b, const char *label, const fv_deconv *d);
/* Returns the columns of a single row as side * side rows of `cols` columns. */
fv_view fv_emit_unfold(fv_builder *b, const char *label, fv_view in, uint32_t side, uint32_t cols);

/* ---- queries and boxes (emit_boxes.c) ---- */

/* Computes the maximum of every row of `in`, as (rows, 1). */
fv_view fv_emit_row_max(fv_builder *b, const char *label, fv_view in, uint32_t rows, uint32_t cols);
/* Finds the `k` largest values of `from` rows, `columns` wide, in descending order, and returns
 * their places, row * columns + column, as floats, (k, 1); -1 fills the result if there are fewer.
 * `table` lists the `count` places that may be chosen, in ascending order, for a single column;
 * NULL means all. */
fv_view fv_emit_topk(fv_builder *b, const char *label, fv_view in, uint32_t from, uint32_t columns,
                     uint32_t k, const uint32_t *table, uint32_t count);
/* Gathers rows of `in`, or of the weight w if it is set; rows are `cols` wide. `index` has the row
 * numbers, of which -1 gives a row of zeros. If index.id is FV_NO_VALUE, the first `rows` rows are
 * taken. `from` is the number of rows in `in`. */
typedef struct fv_pick {
    const fv_weight *w; /* NULL: rows of `in` */
    fv_view in, index;
    uint32_t from, rows, cols;
} fv_pick;
fv_view fv_emit_pick(fv_builder *b, const char *label, const fv_pick *p);
/* Returns the first `rows` rows of a weight as rows of activations. */
fv_view fv_emit_weight_rows(fv_builder *b, const char *label, const fv_weight *w, uint32_t rows);
/* Computes sin(2 pi (x rate[c] + phase[c])) for each of the `parts` columns x of `in`, and
 * concatenates the results. rate is one row, or two rows whose sum is the rate. */
fv_view fv_emit_sine(fv_builder *b, const char *label, fv_view in, uint32_t parts,
                     const fv_weight *rate, const fv_weight *phase, uint32_t rows);
/* Computes sines and cosines of 2 pi x for each of the `parts` columns x of `in`, in pairs, `n` for
 * each column, at frequencies from 1 down to nearly 1 / 10000. */
fv_view fv_emit_frequencies(fv_builder *b, const char *label, fv_view in, uint32_t parts,
                            uint32_t n, uint32_t rows);
/* Deformable attention of `rows` queries, which sample `points` values of each of several grids.
 * The grids' values follow one another; only width and height of a level are used. With `centres`,
 * rows of `box` have only cx and cy, and offsets are in values of a level. Otherwise they are in
 * halves of the box's sides, divided by the number of points. */
typedef struct fv_deform {
    fv_view values, box, offset, weight;
    const fv_grid *level;
    uint32_t levels, heads, d, points, rows;
    bool centres;
} fv_deform;
fv_view fv_emit_deform(fv_builder *b, const char *label, const fv_deform *d);
/* Writes to `out` the boxes (cx, cy, w, h), moved by delta in units of w and h and scaled by
 * exp(delta). */
void fv_emit_refine(fv_builder *b, const char *label, fv_view box, fv_view delta, fv_view out,
                    uint32_t rows);

/* ---- regions (emit_regions.c) ---- */

/* Makes regions (left, top, right, bottom, score, class) of scores, by moving and scaling `region`
 * or, if its id is FV_NO_VALUE, the anchors of a grid. Rows without a region have the class -1. */
typedef struct fv_region_scores {
    fv_view index;          /* places of the scores, as fv_emit_topk returns them; or FV_NO_VALUE */
    fv_view scores, delta;  /* `from` rows of `columns` scores, and of 4 * deltas numbers */
    fv_view region;         /* `from` regions */
    uint32_t rows;          /* regions to make */
    bool largest;           /* without index: of the largest score of each row, not of all scores */
    uint32_t from, columns; /* rows and columns of the scores */
    uint32_t deltas;        /* columns, or 1 if all columns share the numbers */
    const float (*anchor)[4]; /* boxes in the first cell, for each column */
    uint32_t width, of_class; /* width of the grid, and class of the anchors' regions */
    float stride;             /* distance of adjacent cells' anchors */
    const float *mean, *std;  /* four each: mean and standard deviation of the numbers */
    float size[2];            /* width and height of the picture, to which regions are clipped */
    float score, side; /* must be exceeded by the score and, unless negative, by both sides */
} fv_region_scores;
fv_view fv_emit_candidates(fv_builder *b, const char *label, const fv_region_scores *k);
/* Keeps the best of `from` regions, at most `most`, in descending order of scores. Leaves out those
 * that overlap a better one of the same class by more than the threshold. */
fv_view fv_emit_suppress(fv_builder *b, const char *label, fv_view in, uint32_t from, uint32_t most,
                         float threshold);
/* Computes size x size cells of each region, row by row, from the level that suits its size. */
typedef struct fv_roi_align {
    fv_view region, level[6];
    fv_grid grid[6];
    float stride[6];    /* pixels between adjacent values of a level */
    float finest_scale; /* root of the area, in pixels, up to twice which regions use level 0 */
    uint32_t regions, levels, channels, size;
} fv_roi_align;
fv_view fv_emit_roi_align(fv_builder *b, const char *label, const fv_roi_align *r);
/* Computes out = res + factor * sigmoid of the logit of the region's class, for each of its cells.
 * res.id is FV_NO_VALUE if there is no such addend; out may be res. */
typedef struct fv_class_mask {
    fv_view in, region, res, out;
    uint32_t regions, cells, classes; /* classes: columns of `in`; 1: the same for every class */
    float factor;
} fv_class_mask;
void fv_emit_class_mask(fv_builder *b, const char *label, const fv_class_mask *m);

#endif
