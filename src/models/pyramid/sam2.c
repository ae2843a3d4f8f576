/* sam2.c: emits the steps of SAM 2's encoder, as in transformers.
 *
 *     x = embed(patches) + positions, resized + tile, repeated
 *     h = norm x;   x = x + proj attention(h);   x = x + mlp(norm x)                   per block
 *     x = pool(skip h) + proj attention(pool(q h), k h, v h)             first block of a stage
 *     features = lateral x_2 + nearest(lateral x_3);   finer = lateral x_1;   finest = lateral x_0
 *
 * x_i is the result of stage i. Attention is in windows in most blocks. If they do not divide the
 * grid, it is padded with zeros after the norm. Windows of a block that pools have the size of the
 * stage before, and their queries are a quarter of their keys. The kernels for windows have as many
 * queries as keys, so the other queries are zeros, whose results are dropped.
 *
 * Another attention than softmax replaces the attention over all tokens; windows keep softmax. */
#include "models/pyramid/sam2.h"

#include <math.h>
#include <stdio.h>

#include "models/layer.h"
#include "models/synthetic.h"
#include "models/windows.h"
#include "ops/contracts/grid.h"
#include "ops/mech_traits.h"

typedef struct context {
    fv_builder *b;
    const fv_sam2 *s;
    fv_grid grid; /* of x */
    fv_view x;
    fv_windows windows; /* those of the last block in windows; side 0: none yet */
} context;

static fv_attention attention_of(const context *c, const fv_sam2_block *w, uint32_t queries,
                                 uint32_t keys, fv_view kv)
{
    const uint32_t d = w->width / w->heads;
    return (fv_attention){.heads = w->heads,
                          .d = d,
                          .dv = d,
                          .queries = queries,
                          .keys = keys,
                          .scale = 1 / sqrt(d),
                          .grid = &c->grid,
                          .k = kv,
                          .v = fv_view_cols(kv, w->width)};
}

static const fv_windows *windows_of(context *c, uint32_t side)
{
    const fv_windows *w = &c->windows;
    if (w->side != side || w->grid.width != c->grid.width)
        c->windows = fv_windows_make(c->b, &c->grid, side, (fv_window_shift){0});
    return &c->windows;
}

static void attend_windows(context *c, const fv_sam2_block *w)
{
    fv_builder *b = c->b;
    const fv_windows *order = windows_of(c, w->window);
    if (b->status != FOVEA_OK)
        return;
    const uint32_t rows = order->rows;
    const fv_view normed = fv_windows_enter(b, order, "norm for q, k, v", c->x, &w->ln1, c->s->eps);
    const fv_view qkv = fv_layer_product(b, "q, k, v", &w->qkv, normed, 0, rows);
    const fv_view out = fv_emit_rows(b, rows, w->width);
    const fv_attention a = attention_of(c, w, rows, rows, fv_view_cols(qkv, w->width));
    fv_emit_window(b, "attention", &a, qkv, w->window * w->window, NULL, out);
    c->x = fv_windows_leave(b, order, "projection", &w->proj, out, c->x);
}

static void attend_all(context *c, const fv_sam2_block *w, const fv_attention_name *name)
{
    fv_builder *b = c->b;
    const uint32_t n = fv_grid_tokens(&c->grid);
    const bool sums = name->kind == FV_ATTENTION_LINEAR;
    fv_view in = fv_layer_norm(b, "norm for k, v", &w->ln1, c->x, c->s->eps, n);
    fv_attention a = attention_of(c, w, n, n, fv_layer_product(b, "k, v", &w->kv, in, 0, n));
    a.mech = name->mech;
    a.margin = name->margin;
    fv_attention_scales(&a, name, sums ? 1 : a.scale, sums ? 1e-6 * n : 1e-6);
    fv_emit_keys(b, "keys", &a);

    in = fv_layer_norm(b, "norm for q", &w->ln1, c->x, c->s->eps, n);
    const fv_view q = fv_layer_product(b, "q", &w->q, in, 0, n), out = fv_emit_rows(b, n, w->width);
    fv_emit_queries(b, "attention", &a, q, out);
    c->x = fv_layer_add(b, "projection", &w->proj, out, c->x, n);
}

/* ---- blocks that pool ---- */

/* Returns the row of pooled token i among the rows of the windows: those of a window begin with its
 * pooled queries. */
static uint32_t pooled_row(const fv_windows *order, const fv_grid *pooled, uint32_t i)
{
    const uint32_t side = order->side / 2, across = fv_windows_pad(&order->grid, order->side).width;
    const uint32_t x = i % pooled->width, y = i / pooled->width;
    const uint32_t window = y / side * (across / order->side) + x / side;
    return window * order->side * order->side + y % side * side + x % side;
}

/* Emits the attention in windows of the pooled queries q, and returns a row for each of them. */
static fv_view attend_pooled(context *c, const fv_sam2_block *w, fv_view normed, fv_view q,
                             const fv_grid *pooled)
{
    fv_builder *b = c->b;
    const fv_windows *order = windows_of(c, w->window);
    const uint32_t n = fv_grid_tokens(pooled), rows = order->rows;
    uint32_t *into = fv_emit_table(b, rows), *back = fv_emit_table(b, n);
    if (b->status != FOVEA_OK)
        return FV_NO_VIEW;
    for (uint32_t r = 0; r < rows; r++)
        into[r] = FV_GATHER_NONE;
    for (uint32_t i = 0; i < n; i++) {
        back[i] = pooled_row(order, pooled, i);
        into[back[i]] = i;
    }
    fv_view keys = normed;
    if (order->token) {
        keys = fv_emit_rows(b, rows, w->in);
        fv_emit_gather(b, "into windows", normed, order->token, 1, FV_NO_VIEW, keys, rows, w->in);
    }
    const fv_view kv = fv_layer_product(b, "k, v", &w->kv, keys, 0, rows);
    const fv_view queries = fv_emit_rows(b, rows, w->width), out = fv_emit_rows(b, rows, w->width);
    fv_emit_gather(b, "queries into windows", q, into, 1, FV_NO_VIEW, queries, rows, w->width);
    const fv_attention a = attention_of(c, w, rows, rows, kv);
    fv_emit_window(b, "attention", &a, queries, w->window * w->window, NULL, out);
    const fv_view found = fv_emit_rows(b, n, w->width);
    fv_emit_gather(b, "out of windows", out, back, 1, FV_NO_VIEW, found, n, w->width);
    return found;
}

static void attend_and_pool(context *c, const fv_sam2_block *w)
{
    fv_builder *b = c->b;
    const uint32_t n = fv_grid_tokens(&c->grid);
    const fv_grid pooled = {c->grid.width / 2, c->grid.height / 2, 2 * c->grid.stride, 0};
    const uint32_t queries = fv_grid_tokens(&pooled);
    const fv_view normed = fv_layer_norm(b, "norm for q, k, v", &w->ln1, c->x, c->s->eps, n);
    const fv_view skip = fv_emit_max_pool(
        b, "pooled residual",
        fv_weight_present(&w->skip.w) ? fv_layer_product(b, "residual", &w->skip, normed, 0, n)
                                      : c->x,
        &c->grid, w->width);
    const fv_view q = fv_emit_max_pool(b, "pooled q", fv_layer_product(b, "q", &w->q, normed, 0, n),
                                       &c->grid, w->width);
    const fv_view out = attend_pooled(c, w, normed, q, &pooled);
    c->x = fv_layer_add(b, "projection", &w->proj, out, skip, queries);
    c->grid = pooled;
}

/* ---- the encoder ---- */

static void block(context *c, uint32_t i)
{
    fv_builder *b = c->b;
    const fv_sam2_block *w = &c->s->block[i];
    fv_emit_enter_block(b, "block %u", i);
    if (w->pools)
        attend_and_pool(c, w);
    else if (w->window)
        attend_windows(c, w);
    else
        attend_all(c, w, fv_block_attention(b, i));
    const uint32_t n = fv_grid_tokens(&c->grid);
    const fv_view normed = fv_layer_norm(b, "mlp norm", &w->ln2, c->x, c->s->eps, n);
    const fv_view h = fv_layer_product(b, "fc1", &w->fc1, normed, FV_EPI_GELU, n);
    c->x = fv_layer_add(b, "fc2", &w->fc2, h, c->x, n);
    fv_emit_leave_block(b);
}

static void embed(context *c)
{
    fv_builder *b = c->b;
    const fv_sam2 *s = c->s;
    const uint32_t n = fv_grid_tokens(&c->grid), width = s->width[0], side = s->window[0];
    const fv_view patches = fv_emit_rows(b, n, 3 * FV_SAM2_PATCH * FV_SAM2_PATCH);
    fv_emit_patches(b, &c->grid, FV_SAM2_PATCH, FV_SAM2_STRIDE, FV_SAM2_PATCH / 2, patches);
    const fv_view x = fv_layer_product(b, "embed", &s->embed, patches, 0, n);
    const fv_weight none = {0};
    const fv_posemb p = {&none, &s->positions, s->table_width, s->table_height, FV_POS_PLAIN};
    fv_emit_posemb(b, "positions", &p, &c->grid, x, x);
    uint32_t *cell = fv_emit_table(b, n);
    for (uint32_t i = 0; cell && i < n; i++)
        cell[i] = i / c->grid.width % side * side + i % c->grid.width % side;
    const fv_view tile = fv_emit_weight_rows(b, "positions in windows", &s->tile, side * side);
    c->x = fv_emit_rows(b, n, width);
    fv_emit_gather(b, "repeated positions", tile, cell, 1, x, c->x, n, width);
}

/* Emits the output that is a product of the result of stage i, if it is requested. */
static void offer_lateral(const context *c, uint32_t i)
{
    fv_builder *b = c->b;
    const uint32_t n = fv_grid_tokens(&c->grid);
    const fv_layer *l = &c->s->lateral[i];
    const char *name = fv_sam2_feature(c->s, i);
    const fv_view out = fv_emit_output(b, name, n, l->w.rows, &c->grid, false);
    fv_emit_layout(b, name, FOVEA_OUTPUT_LAYOUT_PLANES);
    if (out.id >= 0)
        fv_layer_write(b, "lateral", l, c->x, out, n);
}

/* Emits the features, if they are requested: the result of the third stage, `third` on `grid`, plus
 * that of the last one. */
static void offer_features(const context *c, fv_view third, const fv_grid *grid)
{
    fv_builder *b = c->b;
    const uint32_t n = fv_grid_tokens(grid), last = fv_grid_tokens(&c->grid);
    const char *name = fv_sam2_feature(c->s, 2);
    const fv_view out = fv_emit_output(b, name, n, c->s->features, grid, false);
    if (out.id < 0)
        return;
    fv_emit_layout(b, name, FOVEA_OUTPUT_LAYOUT_PLANES);
    const fv_upsample up = {.in =
                                fv_layer_product(b, "lateral 3", &c->s->lateral[3], c->x, 0, last),
                            .res = fv_layer_product(b, "lateral 2", &c->s->lateral[2], third, 0, n),
                            .out = out,
                            .from = c->grid,
                            .to = *grid,
                            .channels = c->s->features,
                            .flags = FV_FLAG_NEAREST};
    fv_emit_upsample(b, "features", &up);
}

static fovea_status check_attention(const fv_builder *b)
{
    for (uint32_t i = 0; i < b->options->blocks; i++)
        if (fv_block_attention(b, i)->gated)
            return fv_fail(FOVEA_ENOTSUP,
                           "block %u: SAM 2's encoder has no gates; use the attention without the "
                           "prefix sla-",
                           i);
    return FOVEA_OK;
}

static fovea_status emit(const fovea_model *m, fv_builder *b)
{
    const fv_sam2 *s = m->roles;
    context c = {.b = b, .s = s, .grid = b->options->grid};
    fv_view third = FV_NO_VIEW;
    fv_grid of_third = c.grid;
    FV_TRY(check_attention(b));
    embed(&c);
    for (uint32_t stage = 0, i = 0; stage < FV_SAM2_STAGES; stage++) {
        for (uint32_t k = 0; k < s->depth[stage] && b->status == FOVEA_OK; k++)
            block(&c, i++);
        if (stage < 2)
            offer_lateral(&c, stage);
        if (stage == 2) {
            third = c.x;
            of_third = c.grid;
        }
    }
    offer_features(&c, third, &of_third);
    fv_emit_offer(b, "last_hidden_state", c.x, fv_grid_tokens(&c.grid), s->width[3], &c.grid);
    return b->status;
}

/* Leaves out pixels at the right and bottom that do not fill a cell of the coarsest grid. */
static fovea_status grid(const fovea_model *m, fv_emit_options *o)
{
    const uint32_t cells = FV_SAM2_MULTIPLE / FV_SAM2_STRIDE;
    (void)m;
    o->grid.width = o->width / FV_SAM2_MULTIPLE * cells;
    o->grid.height = o->height / FV_SAM2_MULTIPLE * cells;
    if (o->grid.width && o->grid.height)
        return FOVEA_OK;
    return fv_fail(FOVEA_EINVAL,
                   "the picture has %u x %u pixels; SAM 2 needs at least %d x %d, so use a larger "
                   "size",
                   o->width, o->height, FV_SAM2_MULTIPLE, FV_SAM2_MULTIPLE);
}

static fovea_status prompt(const fovea_model *m, fv_builder *b, uint32_t tokens)
{
    const fv_sam2 *s = m->roles;
    fv_grid *g = &b->options->grid;
    *g = (fv_grid){g->width / 4, g->height / 4, 4 * g->stride, 0}; /* that of the features */
    return fv_sam_decoder_emit(&s->decoder, b, tokens);
}

FV_DEFINE_FAMILY(sam2, .name = "sam2", .types = "sam2, sam2_vision_model, sam2_video",
                 .sign = "vision_encoder.backbone.patch_embed.projection.",
                 .second_sign = "vision_encoder.neck.convs.0.weight", .attention = "softmax",
                 .read = fv_sam2_read, .grid = grid, .emit = emit, .prompt = prompt,
                 .release = fv_sam2_release, .synthetic = &fv_sam2_synthetics)
