/* emit_grid.c: emits steps that depend on the grid of tokens: patches, positions, convolutions,
 * rotations. */
#include <math.h>

#include "base/mem.h"
#include "graph/emit.h"
#include "ops/contracts/grid.h"
#include "ops/contracts/linear_attention.h"
#include "ops/contracts/picture.h"
#include "ops/contracts/rows.h"
#include "ops/rope.h"
#include "ops/rows_i8.h"

/* ---- tables ---- */

static fv_plan_table *new_table(fv_builder *b)
{
    fv_plan_table *t;
    FV_THEN(b->status, FV_MEM_NEW(&t, FV_MEM_PLAN, "a table"));
    if (b->status != FOVEA_OK)
        return NULL;
    t->next = b->graph->tables;
    b->graph->tables = t;
    return t;
}

uint32_t *fv_emit_table(fv_builder *b, uint32_t count)
{
    fv_plan_table *t = new_table(b);
    if (!t)
        return NULL;
    b->status = fv_mem_array(&t->data, count, sizeof(uint32_t), FV_MEM_PLAN, "a table");
    b->graph->table_bytes += (uint64_t)count * sizeof(uint32_t);
    return t->data;
}

static const fv_posemb_table *posemb_table(fv_builder *b, const fv_posemb *p, const fv_grid *grid)
{
    fv_plan_table *t = new_table(b);
    if (!t)
        return NULL;
    b->status = fv_posemb_plan(&t->posemb, p->rule, p->table_width, p->table_height, grid->width,
                               grid->height);
    b->graph->table_bytes +=
        ((uint64_t)grid->width * t->posemb.taps_x + (uint64_t)grid->height * t->posemb.taps_y) *
        (sizeof(uint32_t) + sizeof(float));
    return &t->posemb;
}

/* Adds `weight` times row `from` of the table to `to`; `row` is a buffer for that row. */
static void add_position(float *to, const fv_weight *table, uint32_t from, float weight, float *row)
{
    fv_weight_read(table, from, 1, row);
    for (uint32_t i = 0; i < table->cols; i++)
        to[i] += weight * row[i];
}

fv_weight fv_emit_resized_table(fv_builder *b, const fv_posemb *p, const fv_grid *grid)
{
    const uint32_t cols = p->table->cols;
    fv_posemb_table t = {0};
    float *sum, *row = NULL;
    const fv_weight all = fv_emit_constant(b, grid->width * grid->height, cols, &sum);
    FV_THEN(b->status, FV_MEM_ARRAY(&row, cols, FV_MEM_PLAN, "a position"));
    FV_THEN(b->status, fv_posemb_plan(&t, p->rule, p->table_width, p->table_height, grid->width,
                                      grid->height));
    for (uint32_t i = 0; b->status == FOVEA_OK && i < grid->width * grid->height; i++) {
        const uint32_t y = i / grid->width * t.taps_y, x = i % grid->width * t.taps_x;
        for (uint32_t ty = y; ty < y + t.taps_y; ty++)
            for (uint32_t tx = x; tx < x + t.taps_x; tx++) {
                const float weight = t.weight_y[ty] * t.weight_x[tx];
                const uint32_t from = t.index_y[ty] * p->table_width + t.index_x[tx];
                if (weight != 0)
                    add_position(sum + (size_t)i * cols, p->table, from, weight, row);
            }
    }
    fv_posemb_free(&t);
    fv_mem_free(row);
    return all;
}

/* ---- patches and positions ---- */

void fv_emit_patches(fv_builder *b, const fv_grid *grid, uint32_t size, uint32_t stride,
                     uint32_t pad, fv_view out)
{
    if (b->status != FOVEA_OK)
        return;
    fv_step *s = fv_emit_step(b, FV_OP_PATCH, fv_grid_tokens(grid), "patches");
    s->prob.in = (uint8_t)b->graph->value[b->frame.id].type;
    s->prob.flags = b->frame_flags;
    s->prob.dim[FV_ROW_C] = 3 * size * size;
    s->prob.dim[FV_PATCH_SIZE] = size;
    s->prob.dim[FV_PATCH_STRIDE] = stride;
    s->prob.dim[FV_PATCH_PAD_X] = pad + b->options->inner.left;
    s->prob.dim[FV_PATCH_PAD_Y] = pad + b->options->inner.top;
    s->prob.dim[FV_PATCH_WIDTH] = b->options->inner.width;
    s->prob.dim[FV_PATCH_HEIGHT] = b->options->inner.height;
    s->u[0] = grid->prefix;
    s->u[1] = grid->width;
    s->u[2] = b->frame_plane;
    s->u[3] = b->yuv;
    s->table = b->options->patch_table;
    fv_use_value(s, FV_PATCH_IN, b->frame, FV_KIND_WHOLE);
    if (b->frame_flags & FV_FLAG_NV12)
        fv_use_value(s, FV_PATCH_CHROMA, b->chroma, FV_KIND_WHOLE);
    fv_use_value(s, FV_PATCH_OUT, out, FV_KIND_ROW);
}

void fv_emit_resize(fv_builder *b, enum fv_op op, const fv_picture_resize *r, fv_view in,
                    uint32_t from, uint32_t channels, fv_view out)
{
    const bool across = op == FV_OP_RESIZE_X;
    if (b->status != FOVEA_OK)
        return;
    fv_step *s = fv_emit_step(b, op, across ? r->in_rows : r->height,
                              across ? "resize rows" : "resize columns");
    s->prob.in = (uint8_t)b->graph->value[in.id].type;
    s->prob.out = (uint8_t)b->graph->value[out.id].type;
    s->prob.dim[FV_RESIZE_WIDTH] = r->width;
    s->prob.dim[FV_RESIZE_CHANNELS] = channels;
    s->table = across ? &r->x : &r->y;
    fv_use_value(s, FV_RESIZE_IN, in, FV_KIND_WHOLE);
    fv_use_value(s, FV_RESIZE_OUT, out, FV_KIND_ROW);
    if (!across)
        return;
    s->prob.flags = b->frame_flags & FV_FLAG_YUV;
    s->prob.dim[FV_RESIZE_FROM] = from;
    s->u[0] = r->in_row0;
    s->u[3] = b->yuv;
    if (b->frame_flags & FV_FLAG_NV12)
        fv_use_value(s, FV_RESIZE_CHROMA, b->chroma, FV_KIND_WHOLE);
}

void fv_emit_posemb(fv_builder *b, const char *label, const fv_posemb *p, const fv_grid *grid,
                    fv_view in, fv_view out)
{
    /* A table larger than the grid is resized once, now, instead of being read by every frame. */
    const bool resize = !b->options->training && (uint64_t)grid->width * grid->height <
                                                     (uint64_t)p->table_width * p->table_height;
    const bool given = fv_weight_present(p->table);
    const fv_posemb_table *taps =
        given && p->table_width && !resize ? posemb_table(b, p, grid) : NULL;
    fv_weight table = given && resize ? fv_emit_resized_table(b, p, grid) : *p->table;
    fv_step *s = fv_emit_row_step(b, FV_OP_POSEMB, label, in, FV_KIND_ROW, out,
                                  fv_grid_tokens(grid), given ? p->table->cols : p->prefix->cols);
    s->u[0] = grid->prefix;
    s->u[1] = grid->width;
    s->u[2] = taps ? p->table_width : 0;
    s->table = taps;
    s->prob.weight = table.type =
        (uint8_t)(b->options->training ? FV_F32 : b->options->weight_type);
    fv_use_weight(s, FV_POSEMB_PREFIX, p->prefix);
    fv_use_weight(s, FV_POSEMB_TABLE, &table);
}

/* ---- convolutions ---- */

/* Minimum number of output channels for which int8 products save more than quantising the input
 * costs: if the alternative is bfloat16 products, and if it is float32 products. */
#define LEAST_INT8_CHANNELS 64
#define LEAST_INT8_CHANNELS_NO_BF16 16

/* Returns whether a convolution may be int8. The kernels read 8 input channels at a time. They
 * exist only for processors with int8 instructions, because on others int8 products do not save
 * enough to pay for quantising the input. */
static bool may_be_int8(const fv_builder *b, const fv_conv *c)
{
    const uint32_t least = b->options->widens ? LEAST_INT8_CHANNELS_NO_BF16 : LEAST_INT8_CHANNELS;
    return b->options->multiplies_int8 && !c->trunk && c->channels % 8 == 0 && c->w->rows >= least;
}

/* Quantises the input pixels of a convolution. */
static fv_view rows_i8(fv_builder *b, const char *label, const fv_conv *c)
{
    const uint32_t pixels = c->from.width * c->from.height;
    const fv_view out =
        fv_emit_value(b, FV_VALUE_ROWS, pixels, fv_rows_i8_bytes(c->channels), FV_U8);
    fv_emit_row_step(b, FV_OP_ROWS_I8, label, c->in, FV_KIND_ROW, out, pixels, c->channels);
    return out;
}

void fv_emit_conv(fv_builder *b, const char *label, const fv_conv *c)
{
    const bool int8 = may_be_int8(b, c) && fv_use_int8(b);
    const fv_view in = int8 ? rows_i8(b, label, c) : c->in;
    fv_step *s = fv_emit_step(b, FV_OP_CONV, fv_grid_tokens(&c->to), label);
    s->prob.dim[FV_GEMM_N] = c->w->rows;
    s->prob.dim[FV_GEMM_K] = c->w->cols;
    s->prob.dim[FV_CONV_SIZE] = c->size;
    s->prob.dim[FV_CONV_STRIDE] = c->stride;
    s->prob.dim[FV_CONV_PAD] = c->pad;
    s->prob.dim[FV_CONV_C] = c->channels;
    fv_use_types(s, b);
    if (int8)
        fv_make_int8(s);
    s->prob.epi = c->act;
    s->u[0] = c->from.width;
    s->u[1] = c->from.height;
    s->u[2] = c->to.width;
    fv_use_value(s, FV_GEMM_A, in, FV_KIND_WHOLE);
    fv_use_weight(s, FV_GEMM_W, c->w);
    fv_use_epilogue(s, FV_GEMM_BIAS, c->bias, FV_EPI_BIAS);
    if (c->res) {
        fv_use_value(s, FV_GEMM_RES, *c->res, FV_KIND_ROW);
        s->prob.epi |= FV_EPI_RESIDUAL;
    }
    fv_use_value(s, FV_GEMM_OUT, c->out, FV_KIND_ROW);
}

void fv_emit_dwconv(fv_builder *b, const char *label, const fv_dwconv *c)
{
    fv_step *s = fv_emit_row_step(b, FV_OP_DWCONV, label, c->in, FV_KIND_LOCAL, c->out,
                                  c->width * c->height * c->count, c->channels);
    s->prob.flags = c->w->rows < c->channels ? FV_FLAG_SHARED : 0;
    s->prob.dim[FV_DWCONV_SIZE] = c->size;
    s->prob.dim[FV_DWCONV_HEIGHT] = c->height;
    s->u[0] = c->width;
    s->u[1] = c->w->rows;
    fv_use_weight(s, FV_DWCONV_W, c->w);
    fv_use_weight(s, FV_DWCONV_BIAS, c->bias);
    fv_use_value(s, FV_DWCONV_RES, c->res, FV_KIND_ROW);
    fv_use_value(s, FV_DWCONV_GATE, c->gate, FV_KIND_ROW);
}

/* ---- rows in another order ---- */

void fv_emit_gather(fv_builder *b, const char *label, fv_view in, const uint32_t *table,
                    uint32_t parts, fv_view res, fv_view out, uint32_t rows, uint32_t cols)
{
    fv_step *s = fv_emit_row_step(b, FV_OP_GATHER, label, in, FV_KIND_WHOLE, out, rows, cols);
    s->prob.dim[FV_GATHER_PARTS] = parts;
    s->table = table;
    fv_use_value(s, FV_GATHER_RES, res, FV_KIND_ROW);
}

fv_view fv_emit_concatenate(fv_builder *b, const char *label, const fv_view *part,
                            const uint32_t *rows, uint32_t parts, uint32_t cols, bool exact)
{
    uint32_t first = 0, all = 0;
    fv_view before = FV_NO_VIEW;
    for (uint32_t k = 0; k < parts; k++)
        all += rows[k];
    for (uint32_t k = 0; k < parts; k++) {
        uint32_t *table = fv_emit_table(b, all);
        for (uint32_t i = 0; table && i < all; i++)
            table[i] = i >= first && i - first < rows[k] ? i - first : FV_GATHER_NONE;
        const fv_view out = exact && k > 0 ? before : fv_emit_rows(b, all, cols);
        fv_emit_gather(b, label, part[k], table, 1, before, out, all, cols);
        before = out;
        first += rows[k];
    }
    return before;
}

void fv_emit_lerp(fv_builder *b, const char *label, fv_view in, uint32_t from, fv_view out,
                  uint32_t rows, uint32_t cols)
{
    fv_step *s = fv_emit_row_step(b, FV_OP_LERP, label, in, FV_KIND_WHOLE, out, rows, cols);
    s->prob.dim[FV_LERP_ROWS] = from;
}

/* ---- means of areas ---- */

static fv_step *emit_pool(fv_builder *b, const char *label, fv_view in, const fv_grid *from,
                          uint32_t columns, uint32_t lines, fv_view out, uint32_t cols)
{
    fv_step *s = fv_emit_row_step(b, FV_OP_ADAPTIVE_POOL, label, in, FV_KIND_WHOLE, out,
                                  columns * lines, cols);
    s->prob.dim[FV_POOL_WIDTH] = from->width;
    s->prob.dim[FV_POOL_HEIGHT] = from->height;
    s->prob.dim[FV_POOL_COLUMNS] = columns;
    return s;
}

void fv_emit_adaptive_pool(fv_builder *b, const char *label, fv_view in, const fv_grid *from,
                           uint32_t columns, uint32_t lines, fv_view out, uint32_t cols)
{
    emit_pool(b, label, in, from, columns, lines, out, cols);
}

fv_view fv_emit_max_pool(fv_builder *b, const char *label, fv_view in, const fv_grid *from,
                         uint32_t cols)
{
    const uint32_t columns = from->width / 2, lines = from->height / 2;
    const fv_view out = fv_emit_rows(b, columns * lines, cols);
    emit_pool(b, label, in, from, columns, lines, out, cols)->prob.flags = FV_FLAG_LARGEST;
    return out;
}

/* ---- rotations ---- */

void fv_emit_rope_tables(fv_builder *b, const fv_grid *grid, uint32_t d, fv_weight *cos,
                         fv_weight *sin)
{
    const uint32_t longest = grid->width > grid->height ? grid->width : grid->height;
    float *cosines, *sines;
    *cos = fv_emit_constant(b, longest, d / 2, &cosines);
    *sin = fv_emit_constant(b, longest, d / 2, &sines);
    if (cosines && sines)
        fv_rope_positions(cosines, sines, longest, d);
}

void fv_emit_rope_tokens(fv_builder *b, const fv_rope *r, const fv_grid *grid, uint32_t d,
                         fv_weight *cos, fv_weight *sin)
{
    float *cosines, *sines;
    *cos = fv_emit_constant(b, fv_grid_tokens(grid), d, &cosines);
    *sin = fv_emit_constant(b, fv_grid_tokens(grid), d, &sines);
    if (cosines && sines)
        fv_rope_tokens(cosines, sines, r, grid->prefix, grid->width, grid->height, d);
}

void fv_emit_rope_mixed(fv_builder *b, const fv_weight *frequencies, const fv_grid *grid,
                        fv_weight *cos, fv_weight *sin)
{
    const uint32_t c = frequencies->rows * frequencies->cols; /* half of the frequencies are by
                                                                 column */
    float *cosines, *sines, *by;
    *cos = fv_emit_constant(b, fv_grid_tokens(grid), c, &cosines);
    *sin = fv_emit_constant(b, fv_grid_tokens(grid), c, &sines);
    FV_THEN(b->status, FV_MEM_ARRAY(&by, c, FV_MEM_PLAN, "frequencies"));
    if (b->status != FOVEA_OK)
        return;
    fv_weight_read(frequencies, 0, frequencies->rows, by);
    fv_rope_mixed(cosines, sines, by, by + c / 2, grid->prefix, grid->width, grid->height, c);
    fv_mem_free(by);
}

void fv_emit_rope(fv_builder *b, const char *label, fv_view in, const fv_weight *cos,
                  const fv_weight *sin, const fv_grid *grid, uint32_t heads, uint32_t d,
                  fv_view out)
{
    fv_step *s = fv_emit_row_step(b, FV_OP_ROPE, label, in, FV_KIND_ROW, out, fv_grid_tokens(grid),
                                  heads * d);
    s->prob.heads = (uint16_t)heads;
    s->prob.dim[FV_ROPE_D] = d;
    s->u[0] = cos->cols == d ? 0 : grid->width; /* tables with a row per token, or with a row per
                                                   position */
    fv_use_weight(s, FV_ROPE_COS, cos);
    fv_use_weight(s, FV_ROPE_SIN, sin);
}

/* ---- relative positions ---- */

/* Stores row `at` of `table`, interpolated between its rows, in column `column` of `to`, which is
 * (d, columns). */
static void put_position(float *to, uint32_t columns, uint32_t column, const fv_weight *table,
                         double at, float *row)
{
    const uint32_t low = (uint32_t)at, last = table->rows - 1, high = low < last ? low + 1 : last;
    const float part = (float)(at - low);
    for (uint32_t i = 0; i < 2; i++) {
        fv_weight_read(table, i ? high : low, 1, row);
        for (uint32_t k = 0; k < table->cols; k++)
            to[(size_t)k * columns + column] += (i ? part : 1.f - part) * row[k];
    }
}

fv_weight fv_emit_rel_pos_table(fv_builder *b, const fv_weight *table, uint32_t n)
{
    const uint32_t columns = 2 * n - 1;
    float *to, *row;
    const fv_weight out = fv_emit_constant(b, table->cols, columns, &to);
    FV_THEN(b->status, FV_MEM_ARRAY(&row, table->cols, FV_MEM_PLAN, "a position"));
    if (b->status != FOVEA_OK)
        return out;
    for (uint32_t i = 0; i < columns; i++) {
        const double scale = (double)table->rows / columns, at = (i + 0.5) * scale - 0.5;
        const double end = table->rows - 1;
        /* The result begins with keys above the query, but the table begins with keys below it, so
         * the order is reversed. */
        put_position(to, columns, columns - 1 - i, table, at < 0 ? 0 : at > end ? end : at, row);
    }
    fv_mem_free(row);
    return out;
}

fv_view fv_emit_rel_pos(fv_builder *b, const char *label, const fv_rel_pos *p, fv_view q,
                        uint32_t rows)
{
    const fv_view out = fv_emit_rows(b, rows, p->heads * (p->height + p->width));
    fv_step *s = fv_emit_step(b, FV_OP_REL_POS, rows, label);
    s->prob.heads = (uint16_t)p->heads;
    s->prob.dim[FV_ATTN_D] = p->d;
    s->prob.dim[FV_REL_POS_HEIGHT] = p->height;
    s->prob.dim[FV_REL_POS_WIDTH] = p->width;
    fv_use_value(s, FV_REL_POS_Q, q, FV_KIND_ROW);
    fv_use_weight(s, FV_REL_POS_DOWN, p->down);
    fv_use_weight(s, FV_REL_POS_ACROSS, p->across);
    fv_use_value(s, FV_REL_POS_OUT, out, FV_KIND_ROW);
    return out;
}

/* ---- the mean ---- */

/* Sums the patches' rows and multiplies by `factor`; with FV_FLAG_LARGEST, computes their maximum.
 */
static void reduce_patches(fv_builder *b, const char *label, fv_view in, const fv_grid *grid,
                           uint32_t cols, fv_view out, float factor, uint32_t flags)
{
    fv_view partial = fv_emit_value(b, FV_VALUE_PARTIAL, 1, cols, FV_F32);
    fv_step *s = fv_emit_step(b, FV_OP_MEAN_REDUCE, fv_grid_tokens(grid), label);
    s->prob.dim[FV_ROW_C] = cols;
    s->prob.flags = flags;
    s->u[0] = grid->prefix;
    s->f[0] = factor;
    fv_use_value(s, FV_MEAN_IN, in, FV_KIND_ROW);
    fv_use_value(s, FV_MEAN_PARTIAL, partial, FV_KIND_PARTIAL);
    s = fv_emit_step(b, FV_OP_MEAN_MERGE, 1, label);
    s->prob.dim[FV_ROW_C] = cols;
    s->prob.flags = flags;
    fv_use_value(s, FV_MERGE_PARTIAL, partial, FV_KIND_STATE);
    fv_use_value(s, FV_MERGE_STATE, out, FV_KIND_ROW);
}

static float share(const fv_grid *grid)
{
    return 1.0f / (float)(grid->width * grid->height);
}

void fv_emit_mean(fv_builder *b, const char *label, fv_view in, const fv_grid *grid, uint32_t cols,
                  fv_view out)
{
    reduce_patches(b, label, in, grid, cols, out, share(grid), 0);
}

void fv_emit_largest(fv_builder *b, const char *label, fv_view in, const fv_grid *grid,
                     uint32_t cols, fv_view out)
{
    reduce_patches(b, label, in, grid, cols, out, 1, FV_FLAG_LARGEST);
}

void fv_emit_mean_and_largest(fv_builder *b, const char *label, fv_view in, const fv_grid *grid,
                              uint32_t cols, fv_view out)
{
    const fv_view mean = fv_emit_rows(b, 1, cols), top = fv_emit_rows(b, 1, cols);
    reduce_patches(b, label, in, grid, cols, mean, 0.5f * share(grid), 0);
    reduce_patches(b, label, in, grid, cols, top, 0.5f, FV_FLAG_LARGEST);
    fv_emit_add(b, label, top, mean, out, 1, cols);
}

/* ---- group normalisation ---- */

void fv_emit_groupnorm(fv_builder *b, const char *label, const fv_groupnorm *n)
{
    const uint32_t cols = n->w->cols;
    const fv_view partial = fv_emit_value(b, FV_VALUE_PARTIAL, 1, 3 * cols, FV_F32);
    const fv_view state = fv_emit_value(b, FV_VALUE_STATE, 1, 3 * cols, FV_F32);
    fv_step *s = fv_emit_step(b, FV_OP_GROUPNORM_REDUCE, n->rows, label);
    s->prob.dim[FV_ROW_C] = cols;
    s->prob.dim[FV_GROUPNORM_GROUPS] = n->groups;
    s->f[0] = 1.0f / (float)n->rows;
    fv_use_value(s, FV_MOMENTS_IN, n->in, FV_KIND_ROW);
    fv_use_value(s, FV_MOMENTS_PARTIAL, partial, FV_KIND_PARTIAL);
    s = fv_emit_step(b, FV_OP_GROUPNORM_MERGE, 1, label);
    s->prob.dim[FV_ROW_C] = cols;
    s->prob.dim[FV_GROUPNORM_GROUPS] = n->groups;
    fv_use_value(s, FV_MERGE_PARTIAL, partial, FV_KIND_STATE);
    fv_use_value(s, FV_MERGE_STATE, state, FV_KIND_STATE);
    s = fv_emit_row_step(b, FV_OP_GROUPNORM, label, n->in, FV_KIND_ROW, n->out, n->rows, cols);
    s->prob.epi = n->act;
    s->f[0] = n->eps;
    fv_use_value(s, FV_GN_STATE, state, FV_KIND_STATE);
    fv_use_weight(s, FV_GN_WEIGHT, n->w);
    fv_use_weight(s, FV_GN_BIAS, n->bias);
}
