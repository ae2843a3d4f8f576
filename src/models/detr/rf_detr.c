/* rf_detr.c: emits the steps of the backbone and the projector of RF-DETR and LW-DETR.
 *
 * The grid is divided into windows x windows parts, each with its own class and register tokens. In
 * all blocks, tokens are ordered part by part. Attention inside a part is then attention in windows
 * of consecutive rows, and attention over all parts does not depend on the order. So tokens are
 * reordered only once at the beginning, and at every tap.
 *
 *     x = embed(patches) + positions, by parts
 *     x = x + ls1 attention(LN1 x);  x = x + ls2 mlp(LN2 x)       per block
 *     y = LN c2f([norm of taps]) */
#include "models/detr/rf_detr.h"

#include <math.h>
#include <stdio.h>

#include "graph/emit.h"
#include "models/layer.h"
#include "ops/mech_traits.h"

#define PLACES_MOST (1u << 24) /* TOPK stores rows as floats */

typedef struct context {
    fv_builder *b;
    const fv_rf_detr *d;
    uint32_t part, rows; /* number of tokens in a part; number of tokens in all parts */
    fv_view x;           /* the residual stream */
    fv_view taps;        /* the projector's input, in the order of the grid */
} context;

/* ---- the order of tokens ---- */

/* Returns the index, in the order of the grid, of patch `i` of part p. transformers swaps width and
 * height here for RF-DETR, so that its parts of non-square grids are not rectangular windows. */
static uint32_t patch_of(const context *c, uint32_t p, uint32_t i)
{
    const uint32_t n = c->d->windows, width = c->b->options->grid.width / n,
                   height = c->b->options->grid.height / n;
    if (c->d->lw)
        return ((p / n * height + i / width) * n + p % n) * width + i % width;
    return ((p / n * width + i / height) * n + p % n) * height + i % height;
}

/* Returns the row of the patch at (x, y), in the order by parts. */
static uint32_t row_of(const context *c, uint32_t x, uint32_t y)
{
    const uint32_t n = c->d->windows, width = c->b->options->grid.width / n,
                   height = c->b->options->grid.height / n;
    const uint32_t p = y / height * n + x / width;
    return p * c->part + c->b->options->grid.prefix + y % height * width + x % width;
}

/* Reorders the tokens from the order of the grid, prefix first, to the order by parts. */
static void into_parts(context *c)
{
    fv_builder *b = c->b;
    const uint32_t prefix = b->options->grid.prefix, width = c->d->vit.width;
    uint32_t *const table = fv_emit_table(b, c->rows);
    for (uint32_t r = 0; table && r < c->rows; r++) {
        const uint32_t i = r % c->part;
        table[r] = i < prefix ? i : prefix + patch_of(c, r / c->part, i - prefix);
    }
    const fv_view out = fv_emit_rows(b, c->rows, width);
    fv_emit_gather(b, "into windows", c->x, table, 1, FV_NO_VIEW, out, c->rows, width);
    c->x = out;
}

/* Emits tap i of the stream, in the order of the grid, written to its own columns of the taps. */
static void tap(context *c, uint32_t i, const uint32_t *table)
{
    fv_builder *b = c->b;
    const fv_vit *v = &c->d->vit;
    const uint32_t n = b->options->grid.width * b->options->grid.height;
    const fv_view to = fv_view_cols(c->taps, i * v->width);
    const fv_view out = c->d->tap_norm ? fv_emit_rows(b, n, v->width) : to;
    fv_emit_gather(b, "out of windows", c->x, table, 1, FV_NO_VIEW, out, n, v->width);
    if (c->d->tap_norm)
        fv_emit_layernorm(b, "norm of a tap", out, &v->post.w, &v->post.b, v->eps, to, n);
}

/* ---- blocks ---- */

static fv_attention attention_of(const context *c)
{
    const uint32_t d = c->d->vit.width / c->d->vit.heads;
    return (fv_attention){.heads = c->d->vit.heads,
                          .d = d,
                          .dv = d,
                          .queries = c->rows,
                          .keys = c->rows,
                          .scale = 1 / sqrt(d)};
}

static fv_view attend_parts(const context *c, const fv_vit_block *w)
{
    fv_builder *b = c->b;
    const uint32_t n = c->rows, width = c->d->vit.width;
    const fv_view in = fv_layer_norm(b, "norm for q, k, v", &w->ln1, c->x, c->d->vit.eps, n);
    const fv_view q = fv_layer_product(b, "q", &w->q, in, 0, n);
    const fv_view kv = fv_layer_product(b, "k, v", &w->kv, in, 0, n);
    const fv_view out = fv_emit_rows(b, n, width);
    fv_attention a = attention_of(c);
    a.k = kv;
    a.v = fv_view_cols(kv, width);
    fv_emit_window(b, "attention", &a, q, c->part, NULL, out);
    return out;
}

static fv_view attend_all(const context *c, const fv_vit_block *w, const fv_attention_name *name)
{
    fv_builder *b = c->b;
    const uint32_t n = c->rows, width = c->d->vit.width;
    const bool sums = name->kind == FV_ATTENTION_LINEAR;
    const float eps = c->d->vit.eps;
    const fv_view in = fv_layer_norm(b, "norm for k, v", &w->ln1, c->x, eps, n);
    const fv_view kv = fv_layer_product(b, "k, v", &w->kv, in, 0, n);
    fv_attention a = attention_of(c);
    a.mech = name->mech;
    a.k = kv;
    a.v = fv_view_cols(kv, width);
    if (w->vectors.rows == fv_mech_table[a.mech]->params)
        a.param = w->vectors;
    fv_attention_scales(&a, name, sums ? 1 : a.scale, sums ? 1e-6 * n : 1e-6);
    fv_emit_keys(b, "keys", &a);
    const fv_view again = fv_layer_norm(b, "norm for q", &w->ln1, c->x, eps, n);
    const fv_view q = fv_layer_product(b, "q", &w->q, again, 0, n);
    const fv_view out = fv_emit_rows(b, n, width);
    fv_emit_queries(b, "attention", &a, q, out);
    return out;
}

/* Emits x = x + scale (l in), in place. */
static void add(const context *c, const char *label, const fv_layer *l, const fv_weight *scale,
                fv_view in)
{
    const fv_gemm g = {.w = &l->w,
                       .bias = &l->b,
                       .scale = scale,
                       .in = in,
                       .res = c->x,
                       .out = c->x,
                       .rows = c->rows};
    fv_emit_gemm(c->b, label, &g);
}

static void block(const context *c, uint32_t i)
{
    fv_builder *b = c->b;
    const fv_vit *v = &c->d->vit;
    const fv_vit_block *w = &v->block[i];
    fv_emit_enter_block(b, "block %u", i);
    const fv_view seen =
        c->d->global[i] ? attend_all(c, w, fv_block_attention(b, i)) : attend_parts(c, w);
    add(c, "projection", &w->proj, &w->ls1, seen);
    const fv_view in = fv_layer_norm(b, "mlp norm", &w->ln2, c->x, v->eps, c->rows);
    const fv_view h = fv_emit_rows(b, c->rows, v->hidden);
    const fv_gemm g = {.w = &w->fc1.w,
                       .bias = &w->fc1.b,
                       .in = in,
                       .res = FV_NO_VIEW,
                       .out = h,
                       .act = v->epi,
                       .rows = c->rows};
    fv_emit_gemm(b, "fc1", &g);
    add(c, "fc2", &w->fc2, &w->ls2, h);
    fv_emit_leave_block(b);
}

/* ---- the projector ---- */

/* Emits act(norm(convolution of `in`)), written to `out`. Both have a row for each patch of the
 * grid. */
static void convolve(const context *c, const char *label, const fv_rf_detr_conv *k, uint32_t size,
                     fv_view in, fv_view out)
{
    fv_builder *b = c->b;
    const uint32_t n = b->options->grid.width * b->options->grid.height, width = k->conv.w.rows;
    const fv_grid grid = {b->options->grid.width, b->options->grid.height, b->options->grid.stride,
                          0};
    const bool folded = c->d->lw; /* the norm is part of the convolution */
    const fv_view sum = folded ? out : fv_emit_rows(b, n, width);
    const uint32_t act = folded ? c->d->act : 0;
    const fv_conv conv = {.w = &k->conv.w,
                          .bias = &k->conv.b,
                          .in = in,
                          .out = sum,
                          .from = grid,
                          .to = grid,
                          .channels = k->conv.w.cols / (size * size),
                          .size = size,
                          .stride = 1,
                          .pad = size / 2,
                          .act = act};
    const fv_gemm product = {.w = &k->conv.w,
                             .bias = &k->conv.b,
                             .in = in,
                             .res = FV_NO_VIEW,
                             .out = sum,
                             .act = act,
                             .rows = n,
                             .decoder = true};
    if (size == 1)
        fv_emit_gemm(b, label, &product);
    else
        fv_emit_conv(b, label, &conv);
    if (folded)
        return;
    const fv_view normed = fv_emit_rows(b, n, width);
    fv_emit_layernorm(b, "norm", sum, &k->norm.w, &k->norm.b, c->d->eps, normed, n);
    fv_emit_act(b, "activation", c->d->act, normed, out, n, width);
}

/* Emits the projector, and returns the rows that the decoder reads. */
static fv_view project(const context *c)
{
    fv_builder *b = c->b;
    const fv_rf_detr *d = c->d;
    const fv_grid grid = {b->options->grid.width, b->options->grid.height, b->options->grid.stride,
                          0};
    const uint32_t n = grid.width * grid.height, half = d->half;
    snprintf(b->scope, sizeof b->scope, "projector");
    const fv_view all = fv_emit_rows(b, n, (2 + d->pairs) * half);
    convolve(c, "first", &d->first, 1, c->taps, all);
    for (uint32_t i = 0; i < d->pairs; i++) {
        const fv_view between = fv_emit_rows(b, n, half);
        convolve(c, "first of a pair", &d->pair[i][0], 3, fv_view_cols(all, (1 + i) * half),
                 between);
        convolve(c, "second of a pair", &d->pair[i][1], 3, between,
                 fv_view_cols(all, (2 + i) * half));
    }
    const fv_view last = fv_emit_rows(b, n, d->width);
    convolve(c, "last", &d->last, 1, all, last);
    const fv_view y = fv_emit_output(b, "backbone_features", n, d->width, &grid, true);
    fv_emit_layernorm(b, "last norm", last, &d->projected.w, &d->projected.b,
                      FV_RF_DETR_PROJECTED_EPS, y, n);
    b->scope[0] = 0;
    return y;
}

/* ---- the whole ---- */

static const char *model_of(const fv_rf_detr *d)
{
    return fv_detr_names_of[d->lw].model;
}

static fovea_status check_attention(const context *c)
{
    for (uint32_t i = 0; i < c->b->options->blocks; i++) {
        const fv_attention_name *name = fv_block_attention(c->b, i);
        if (name->gated || name->kind == FV_ATTENTION_FOVEATED)
            return fv_fail(FOVEA_ENOTSUP,
                           "block %u: %s supports no gated or foveated attention, because it "
                           "computes attention in windows; use softmax or ungated linear attention",
                           i, model_of(c->d));
    }
    return FOVEA_OK;
}

static void embed(context *c)
{
    fv_builder *b = c->b;
    const fv_vit *v = &c->d->vit;
    const uint32_t n = fv_grid_tokens(&b->options->grid);
    fv_weight prefix = v->prefix_rows;
    for (uint32_t i = 0; i < v->prefix_add.parts; i++) {
        fv_weight_part part = v->prefix_add.part[i];
        part.sum = true;
        fv_weight_add(&prefix, part);
    }
    const fv_posemb p = {&prefix, &v->table, v->table_width, v->table_height, v->pos_rule};
    const fv_view patches = fv_emit_rows(b, n, 3 * v->patch * v->patch);
    fv_emit_patches(b, &b->options->grid, v->patch, v->patch, 0, patches);
    c->x = fv_layer_product(b, "embed", &v->embed, patches, 0, n);
    fv_emit_posemb(b, "positions", &p, &b->options->grid, c->x, c->x);
    into_parts(c);
}

static fovea_status emit(const fovea_model *m, fv_builder *b)
{
    const fv_rf_detr *d = m->roles;
    const uint32_t patches = b->options->grid.width * b->options->grid.height,
                   parts = d->windows * d->windows;
    context c = {.b = b, .d = d, .part = b->options->grid.prefix + patches / parts};
    uint32_t *const table = fv_emit_table(b, patches);
    c.rows = parts * c.part;
    FV_TRY(check_attention(&c));
    for (uint32_t i = 0; table && i < patches; i++)
        table[i] = row_of(&c, i % b->options->grid.width, i / b->options->grid.width);
    c.taps = fv_emit_rows(b, patches, d->taps * d->vit.width);
    embed(&c);
    for (uint32_t i = 0, next = 0; next < d->taps && b->status == FOVEA_OK; i++) {
        if (d->tap[next] == i)
            tap(&c, next++, table);
        if (next < d->taps)
            block(&c, i);
    }
    fv_rf_detr_decode(d, b, project(&c));
    return b->status;
}

/* Checks that the windows divide the grid, and that the grid has at least as many cells as there
 * are queries. */
static fovea_status check_grid(const fovea_model *m, fv_emit_options *o)
{
    const fv_rf_detr *d = m->roles;
    const fv_grid *g = &o->grid;
    const uint32_t unit = d->windows * g->stride;
    if (g->width % d->windows || g->height % d->windows)
        return fv_fail(FOVEA_EINVAL,
                       "the picture has %u x %u pixels, but %s splits its %u x %u patches into %u "
                       "x %u windows; use sides that are multiples of %u pixels",
                       o->width, o->height, model_of(d), g->width, g->height, d->windows,
                       d->windows, unit);
    if ((uint64_t)g->width * g->height > PLACES_MOST)
        return fv_fail(
            FOVEA_ENOTSUP,
            "the picture of %u x %u pixels has more than 2^24 patches; use a smaller size",
            o->width, o->height);
    if ((uint64_t)g->width * g->height < d->queries)
        return fv_fail(FOVEA_EINVAL,
                       "a picture of %u x %u has %u patches, of which %s chooses %u; use a larger "
                       "one",
                       o->width, o->height, g->width * g->height, model_of(d), d->queries);
    const fv_grid masks = fv_rf_detr_mask_grid(d, g);
    if (masks.width == 0 || masks.height == 0)
        return fv_fail(FOVEA_EINVAL,
                       "a picture of %u x %u pixels is too small for masks, whose sides are %u "
                       "times shorter; use a larger one",
                       o->width, o->height, d->masks.ratio);
    return FOVEA_OK;
}

static void release(fovea_model *m)
{
    fv_rf_detr *d = m->roles;
    if (d) {
        fv_mem_free(d->vit.block);
        fv_mem_free(d->global);
        fv_mem_free(d->pair);
        fv_mem_free(d->layer);
        fv_mem_free(d->masks.block);
    }
    fv_mem_free(d);
    m->roles = NULL;
}

FV_DEFINE_FAMILY(rf_detr, .name = "rf_detr", .types = "rf_detr",
                 .sign = "backbone.0.projector.stages.0.1.", .second_sign = "class_embed.weight",
                 .attention = "softmax", .read = fv_rf_detr_read, .grid = check_grid, .emit = emit,
                 .release = release, .synthetic = &fv_rf_detr_synthetics)
FV_DEFINE_FAMILY(lw_detr, .name = "lw_detr", .types = "lw_detr",
                 .sign = "model.backbone.projector.scale_layers.0.layer_norm.",
                 .second_sign = "class_embed.weight", .attention = "softmax",
                 .read = fv_rf_detr_read, .grid = check_grid, .emit = emit, .release = release,
                 .synthetic = &fv_lw_detr_synthetics)
