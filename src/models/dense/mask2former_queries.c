/* mask2former_queries.c: emits the steps of Mask2Former's decoder of queries.
 *
 *     t = the learned row of each query;   p = the learned position of each query
 *     masks = mlp(norm t) . features of pixels, resized to level i mod 3      before layer i
 *     t = norm(t + attention(t + p, level + sines, level) inside the masks)
 *     t = norm(t + attention(t + p, t + p, t));  t = norm(t + mlp t)
 *     classes = linear(norm t);  masks = mlp(norm t) . features of pixels     after the last
 *
 * With `pre_norm`, the input of each part is normalised instead of the sum. A query whose mask is
 * empty attends to the whole level. Masks are resized with the features, because this is cheaper
 * and both are linear. An embedding of its level is added to each level. */
#include <math.h>
#include <stdio.h>

#include "graph/emit.h"
#include "models/dense/mask2former.h"
#include "models/layer.h"

enum { LEVELS = FV_MASK2FORMER_LEVELS };

typedef struct context {
    fv_builder *b;
    const fv_mask2former *d;
    uint32_t n; /* number of queries */
    fv_view x;  /* the queries */
    fv_view position;
    fv_level level[LEVELS];
    const fv_level *pixels;   /* features of pixels */
    fv_view features[LEVELS]; /* and on the grid of each level */
} context;

static fv_view norm(const context *c, const char *label, const fv_layer *l)
{
    return fv_layer_norm(c->b, label, l, c->x, FV_MASK2FORMER_EPS, c->n);
}

/* Returns the input of a part of a layer. */
static fv_view begin(const context *c, const fv_layer *l)
{
    return c->d->pre_norm ? norm(c, "norm before", l) : c->x;
}

/* Emits x = x + l of `in`, normalised unless norms precede. */
static void join(context *c, const char *label, const fv_layer *l, fv_view in,
                 const fv_layer *after)
{
    c->x = fv_layer_add(c->b, label, l, in, c->x, c->n);
    if (!c->d->pre_norm)
        c->x = norm(c, "norm after", after);
}

static fv_view placed(const context *c, const char *label, fv_view x)
{
    const fv_view out = fv_emit_rows(c->b, c->n, c->d->query_width);
    fv_emit_add(c->b, label, x, c->position, out, c->n, c->d->query_width);
    return out;
}

static fv_attention attention_of(const context *c, uint32_t keys)
{
    const uint32_t d = c->d->query_width / c->d->heads;
    return (fv_attention){
        .heads = c->d->heads, .d = d, .dv = d, .queries = c->n, .keys = keys, .scale = 1 / sqrt(d)};
}

/* Emits the rows of queries from which masks are made. */
static fv_view operands(const context *c, fv_view x)
{
    for (uint32_t i = 0; i < 3; i++)
        x = fv_layer_product(c->b, "mask head", &c->d->mask[i], x, i < 2 ? FV_EPI_RELU : 0, c->n);
    return x;
}

/* For training: emits the classes and masks of queries before the last layer, from the normalised
 * queries and from those that masks are made from. */
static void tell(const context *c, fv_view x, fv_view query)
{
    fv_builder *b = c->b;
    const fv_training *t = b->options->training;
    if (!t || !t->predicted)
        return;
    const fv_level *f = c->pixels;
    const uint32_t cells = fv_grid_tokens(&f->grid);
    const fv_view masks = fv_emit_rows(b, c->n, cells);
    const fv_view classes = fv_layer_product(b, "classes", &c->d->classes, x, 0, c->n);
    fv_emit_matmul(b, "masks of pixels", query, f->rows, cells, f->channels, masks, c->n);
    t->predicted(t->ctx, b, classes, masks, &f->grid);
}

static void attend_level(context *c, uint32_t k, const fv_mask2former_layer *l)
{
    fv_builder *b = c->b;
    const fv_level *level = &c->level[k];
    const uint32_t keys = fv_grid_tokens(&level->grid), width = c->d->query_width;
    const fv_view x = norm(c, "norm for masks", &c->d->norm), query = operands(c, x);
    const fv_view masks = fv_emit_rows(b, c->n, keys), in = fv_emit_rows(b, keys, width);
    tell(c, x, query);
    fv_emit_matmul(b, "masks", query, c->features[k], keys, c->d->features.w.rows, masks, c->n);
    fv_emit_add(b, "level placed", level->rows, fv_mask2former_sines(b, &level->grid, width), in,
                keys, width);
    fv_attention a = attention_of(c, keys);
    a.k = fv_layer_product(b, "k", &l->cross_k, in, 0, keys);
    a.v = fv_layer_product(b, "v", &l->cross_v, level->rows, 0, keys);
    fv_emit_keys(b, "keys", &a);
    fv_emit_mask_keys(b, "keys outside masks", &a, masks, keys, true);
    const fv_view q = fv_layer_product(b, "q", &l->cross_q,
                                       placed(c, "queries placed", begin(c, &l->norm[0])), 0, c->n);
    const fv_view out = fv_emit_rows(b, c->n, width);
    fv_emit_queries(b, "masked attention", &a, q, out);
    join(c, "projection of masked attention", &l->cross_out, out, &l->norm[0]);
}

static void attend_queries(context *c, const fv_mask2former_layer *l)
{
    fv_builder *b = c->b;
    const uint32_t width = c->d->query_width;
    const fv_view in = begin(c, &l->norm[1]);
    const fv_view qk =
        fv_layer_product(b, "q, k", &l->self_qk, placed(c, "queries placed again", in), 0, c->n);
    fv_attention a = attention_of(c, c->n);
    a.k = fv_view_cols(qk, width);
    a.v = fv_layer_product(b, "v of queries", &l->self_v, in, 0, c->n);
    const fv_view out = fv_emit_rows(b, c->n, width);
    fv_emit_keys(b, "keys of queries", &a);
    fv_emit_queries(b, "attention", &a, qk, out);
    join(c, "projection", &l->self_out, out, &l->norm[1]);
}

static void mlp(context *c, const fv_mask2former_layer *l)
{
    const fv_view in = begin(c, &l->norm[2]);
    const fv_view h = fv_layer_product(c->b, "fc1", &l->fc1, in, c->d->act, c->n);
    join(c, "fc2", &l->fc2, h, &l->norm[2]);
}

/* Emits level k plus its embedding. */
static fv_view embedded(const context *c, uint32_t k, fv_view rows, uint32_t n)
{
    fv_builder *b = c->b;
    const uint32_t width = c->d->query_width;
    float *number;
    const fv_weight w = fv_emit_constant(b, n, 1, &number);
    for (uint32_t i = 0; b->status == FOVEA_OK && i < n; i++)
        number[i] = (float)k;
    const fv_pick pick = {.w = &c->d->level_rows,
                          .in = FV_NO_VIEW,
                          .index = fv_emit_weight_rows(b, "numbers of the level", &w, n),
                          .from = LEVELS,
                          .rows = n,
                          .cols = width};
    const fv_view out = fv_emit_rows(b, n, width);
    fv_emit_add(b, "level embedded", rows, fv_emit_pick(b, "embedding of the level", &pick), out, n,
                width);
    return out;
}

/* Prepares what the layers read of level k. */
static void prepare(context *c, uint32_t k, const fv_level *features)
{
    const fv_layer *in = &c->d->level_in[k];
    const fv_grid *grid = &c->level[k].grid;
    const uint32_t n = fv_grid_tokens(grid);
    if (fv_weight_present(&in->w))
        c->level[k].rows = fv_layer_product(c->b, "level in", in, c->level[k].rows, 0, n);
    c->level[k].rows = embedded(c, k, c->level[k].rows, n);
    c->features[k] = features->rows;
    if (grid->width == features->grid.width && grid->height == features->grid.height)
        return;
    c->features[k] = fv_emit_rows(c->b, n, features->channels);
    fv_level_resize(c->b, "features of a level", features, grid, 0, FV_NO_VIEW, c->features[k]);
}

static void predict(const context *c, const fv_level *features)
{
    fv_builder *b = c->b;
    const fv_mask2former *d = c->d;
    const fv_view x = norm(c, "last norm", &d->norm);
    const fv_view classes = fv_emit_task_output(
        b, "class_queries_logits", FOVEA_OUTPUT_MASK_CLASSES, c->n, d->classes.w.rows, NULL, false);
    if (classes.id >= 0)
        fv_layer_write(b, "classes", &d->classes, x, classes, c->n);
    const uint32_t rows = fv_grid_tokens(&features->grid);
    const fv_view masks = fv_emit_task_output(b, "masks_queries_logits", FOVEA_OUTPUT_MASKS, rows,
                                              c->n, &features->grid, false);
    if (masks.id < 0)
        return;
    const fv_view query = operands(c, x);
    tell(c, x, query);
    fv_emit_matmul(b, "masks", features->rows, query, c->n, features->channels, masks, rows);
}

void fv_mask2former_decode(const fv_mask2former *d, fv_builder *b, const fv_level level[LEVELS],
                           const fv_level *features)
{
    context c = {.b = b, .d = d, .n = d->query.rows, .pixels = features};
    for (uint32_t k = 0; k < LEVELS; k++) {
        c.level[k] = level[k];
        prepare(&c, k, features);
    }
    c.position = fv_emit_weight_rows(b, "learned positions", &d->position, c.n);
    c.x = fv_emit_weight_rows(b, "learned queries", &d->query, c.n);
    for (uint32_t i = 0; i < d->layers; i++) {
        const fv_mask2former_layer *l = &d->layer[i];
        snprintf(b->scope, sizeof b->scope, "layer %u", i);
        attend_level(&c, i % LEVELS, l);
        attend_queries(&c, l);
        mlp(&c, l);
    }
    snprintf(b->scope, sizeof b->scope, "masks");
    predict(&c, features);
}
