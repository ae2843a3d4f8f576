/* eomt.c: emits the steps of EoMT.
 *
 *     x = embed(patches) + positions, and the blocks of a ViT
 *     x = [queries, x]                                          before the last `joined` blocks
 *     y = LN x
 *     classes = linear y_q;  masks = mlp(y_q) . upscale(y_p)    of each query, for each pixel
 *     upscale = LN dwconv3x3 gelu deconv2x2                     repeated
 *
 * During training, each query attends to the queries, to the other prefix tokens, and only to
 * patches inside its mask. That mask is computed before the block. At the end of training, all
 * tokens attend to all tokens. */
#include "models/dense/eomt.h"

#include "models/layer.h"
#include "models/vit/vit_emit.h"
#include "ops/contracts/grid.h"

#define UPSCALE_EPS 1e-6f

typedef struct context {
    fv_vit_stream s;
    const fv_eomt *e;
} context;

/* Puts the queries before the other tokens, and updates the builder's grid. */
static void join(context *c)
{
    fv_vit_stream *s = &c->s;
    fv_builder *b = s->b;
    const uint32_t queries = c->e->query.rows, all = queries + s->tokens, width = s->v->width;
    const fv_weight none = {0};
    const fv_posemb first = {.prefix = &c->e->query, .table = &none};
    const fv_grid behind = {.width = s->tokens, .height = 1, .prefix = queries};
    uint32_t *table = fv_emit_table(b, all);
    for (uint32_t i = 0; table && i < all; i++)
        table[i] = i < queries ? FV_GATHER_NONE : i - queries;
    const fv_view x = fv_emit_rows(b, all, width);
    fv_emit_gather(b, "tokens after the queries", s->x, table, 1, FV_NO_VIEW, x, all, width);
    fv_emit_posemb(b, "queries", &first, &behind, x, x);
    s->x = x;
    s->tokens = all;
    b->options->grid.prefix += queries;
    b->cos = b->sin = none; /* the old tables lack the queries */
}

/* Returns tokens [from, from + rows), normalised. Only these tokens are normalised, from the
 * residual stream, so that the other normalised tokens need not be stored. */
static fv_view normed(const fv_vit_stream *s, const char *label, uint32_t from, uint32_t rows)
{
    const fv_view some = fv_emit_rows(s->b, rows, s->v->width);
    fv_emit_take(s->b, label, s->x, from, some, rows, s->v->width);
    return fv_layer_norm(s->b, label, &s->v->post, some, s->v->eps, rows);
}

static fv_view queries(const context *c)
{
    return normed(&c->s, "queries", 0, c->e->query.rows);
}

/* Emits the features of each pixel of *grid, and returns them. Masks are the products of the
 * features with the queries. */
static fv_view pixels(const context *c, fv_grid *grid)
{
    const fv_vit_stream *s = &c->s;
    fv_builder *b = s->b;
    const uint32_t width = s->v->width;
    *grid = (fv_grid){b->options->grid.width, b->options->grid.height, b->options->grid.stride, 0};
    fv_view x = normed(s, "patches", b->options->grid.prefix, fv_grid_tokens(grid));
    for (uint32_t i = 0; i < c->e->upscales; i++) {
        const fv_eomt_upscale *u = &c->e->upscale[i];
        const fv_grid to = {2 * grid->width, 2 * grid->height, grid->stride / 2, 0};
        const uint32_t rows = fv_grid_tokens(&to);
        const fv_deconv d = {.w = &u->deconv.w,
                             .bias = &u->deconv.b,
                             .in = x,
                             .out = fv_emit_rows(b, rows, width),
                             .from = *grid,
                             .from_channels = width,
                             .channels = width,
                             .stride = 2,
                             .act = FV_EPI_GELU};
        fv_emit_deconv(b, "upscaling", &d);
        const fv_dwconv filter = {.w = &u->filter,
                                  .in = d.out,
                                  .res = FV_NO_VIEW,
                                  .gate = FV_NO_VIEW,
                                  .out = fv_emit_rows(b, rows, width),
                                  .width = to.width,
                                  .height = to.height,
                                  .count = 1,
                                  .channels = width,
                                  .size = 3};
        fv_emit_dwconv(b, "filter of the upscaled", &filter);
        x = fv_layer_norm(b, "norm of the upscaled", &u->norm, filter.out, UPSCALE_EPS, rows);
        *grid = to;
    }
    return x;
}

static fv_view mask_head(const context *c, fv_view x)
{
    const fv_layer *l = c->e->mask;
    const uint32_t n = c->e->query.rows;
    for (int i = 0; i < 3; i++)
        x = fv_layer_product(c->s.b, "mask head", &l[i], x, i < 2 ? c->s.v->epi : 0, n);
    return x;
}

/* Emits the masks of all queries on the grid of patches, for the next block. */
static void make_masks(context *c)
{
    fv_vit_stream *s = &c->s;
    fv_builder *b = s->b;
    fv_grid fine;
    const uint32_t n = c->e->query.rows, width = s->v->width;
    const uint32_t patches = b->options->grid.width * b->options->grid.height;
    fv_view x = pixels(c, &fine);
    if (c->e->upscales) { /* resizes the features, because there are more masks than features */
        const fv_upsample coarse = {.in = x,
                                    .res = FV_NO_VIEW,
                                    .out = fv_emit_rows(b, patches, width),
                                    .from = fine,
                                    .to = b->options->grid,
                                    .channels = width};
        fv_emit_upsample(b, "pixels of patches", &coarse);
        x = coarse.out;
    }
    s->masks = fv_emit_rows(b, n, patches);
    s->masked = n;
    fv_emit_matmul(b, "masks", mask_head(c, queries(c)), x, patches, width, s->masks, n);
}

/* Emits the outputs. */
static void predict(const context *c)
{
    const fv_vit_stream *s = &c->s;
    fv_builder *b = s->b;
    const fv_eomt *e = c->e;
    const uint32_t n = e->query.rows, width = s->v->width;
    const fv_view last =
        fv_emit_output(b, "last_hidden_state", s->tokens, width, &b->options->grid, false);
    if (last.id >= 0)
        fv_emit_layernorm(b, "final norm", s->x, &s->v->post.w, &s->v->post.b, s->v->eps, last,
                          s->tokens);
    const bool masked = fv_emit_wants(b, "masks_queries_logits");
    const fv_view classes = fv_emit_task_output(
        b, "class_queries_logits", FOVEA_OUTPUT_MASK_CLASSES, n, e->classes.w.rows, NULL, false);
    if (!masked && classes.id < 0)
        return;
    const fv_view q = queries(c);
    if (classes.id >= 0)
        fv_layer_write(b, "classes", &e->classes, q, classes, n);
    if (!masked)
        return;
    fv_grid grid;
    /* computed first, so that pixels stream into the product */
    const fv_view operands = mask_head(c, q);
    const fv_view x = pixels(c, &grid);
    const uint32_t rows = fv_grid_tokens(&grid);
    fv_emit_matmul(
        b, "masks", x, operands, n, width,
        fv_emit_task_output(b, "masks_queries_logits", FOVEA_OUTPUT_MASKS, rows, n, &grid, false),
        rows);
}

static fovea_status emit(const fovea_model *m, fv_builder *b)
{
    const fv_eomt *e = m->roles;
    const fv_grid seen = b->options->grid; /* plans report only the picture's tokens */
    context c = {.s = {.b = b,
                       .v = &e->vit,
                       .tokens = fv_grid_tokens(&b->options->grid),
                       .masks = FV_NO_VIEW},
                 .e = e};
    const uint32_t first = e->vit.depth - e->joined;
    fv_vit_emit_embed(&c.s);
    fv_vit_emit_hidden(&c.s, 0);
    for (uint32_t i = 0; i < e->vit.depth && b->status == FOVEA_OK; i++) {
        if (i == first)
            join(&c);
        if (i >= first && e->masked[i - first])
            make_masks(&c);
        fv_vit_emit_block(&c.s, i);
        fv_vit_emit_hidden(&c.s, i + 1);
    }
    predict(&c);
    b->options->grid = seen;
    return b->status;
}

FV_DEFINE_FAMILY(eomt, .name = "eomt", .types = "eomt, eomt_dinov3", .sign = "class_predictor.",
                 .second_sign = "mask_head.fc1.weight", .attention = "softmax", .shapes = true,
                 .owns = fv_eomt_owns, .read = fv_eomt_read, .emit = emit,
                 .release = fv_eomt_release, .synthetic = &fv_eomt_synthetics)
