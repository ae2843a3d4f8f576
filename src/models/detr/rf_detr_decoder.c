/* rf_detr_decoder.c: emits the steps from the projected grid to boxes and their classes.
 *
 *     m = norm(enc memory);   best = the cells with the highest largest class score
 *     reference = (box of best, moved by box(m_best)), moved by the learned box of each query
 *     t = the learned row of each query;   p = position embedding of the reference
 *     t = norm(t + attention(t + p, t + p, t));  t = norm(t + samples(t + p));  t = norm(t + mlp t)
 *     logits = classes(norm t);   boxes = reference, moved by box(norm t) */
#include <math.h>
#include <stdio.h>

#include "graph/emit.h"
#include "models/detr/rf_detr.h"
#include "models/layer.h"

typedef struct context {
    fv_builder *b;
    const fv_rf_detr *d;
    fv_view memory;              /* rows of the grid */
    fv_view reference, position; /* boxes of the queries; position embeddings of these boxes */
    fv_view x;                   /* the queries */
} context;

/* ---- places ---- */

/* A proposal counts as inside the picture if both coordinates of its centre, as fractions of the
 * picture's size, are in this range. */
#define INSIDE_LEAST 0.01f
#define INSIDE_MOST 0.99f
#define PROPOSAL 0.05f /* width and height of a proposal */

static bool inside(float x)
{
    return x > INSIDE_LEAST && x < INSIDE_MOST;
}

/* Makes a box at every cell of the grid, and lists the rows of the boxes inside the picture. Sets
 * *rows to NULL if all are inside. */
static fv_weight proposals(fv_builder *b, uint32_t **rows, uint32_t *count)
{
    const uint32_t width = b->options->grid.width, height = b->options->grid.height;
    float *box;
    const fv_weight w = fv_emit_constant(b, width * height, 4, &box);
    uint32_t *const table = fv_emit_table(b, width * height);
    *count = 0;
    for (uint32_t i = 0; b->status == FOVEA_OK && i < width * height; i++, box += 4) {
        box[0] = ((float)(i % width) + 0.5f) / (float)width;
        box[1] = ((float)(i / width) + 0.5f) / (float)height;
        box[2] = box[3] = PROPOSAL;
        if (inside(box[0]) && inside(box[1]))
            table[(*count)++] = i;
    }
    *rows = *count < width * height ? table : NULL;
    return w;
}

/* Emits the change of boxes: three products, the first two with ReLU. */
static fv_view box_delta(const context *c, const fv_layer box[3], fv_view x)
{
    const uint32_t n = c->d->queries;
    x = fv_layer_product(c->b, "box 0", &box[0], x, FV_EPI_RELU, n);
    x = fv_layer_product(c->b, "box 1", &box[1], x, FV_EPI_RELU, n);
    return fv_layer_product(c->b, "box 2", &box[2], x, 0, n);
}

/* Emits the boxes at the cells with the best scores, refined, and returns them. */
static fv_view choose(const context *c)
{
    fv_builder *b = c->b;
    const fv_rf_detr *d = c->d;
    const uint32_t places = b->options->grid.width * b->options->grid.height, n = d->queries;
    uint32_t *rows, count;
    const fv_weight table = proposals(b, &rows, &count);
    fv_view x = fv_layer_product(b, "proposals", &d->proposal, c->memory, 0, places);
    x = fv_layer_norm(b, "norm of proposals", &d->proposal_norm, x, FV_RF_DETR_NORM_EPS, places);
    const fv_view scores = fv_layer_product(b, "scores", &d->proposal_class, x, 0, places);
    const fv_view best = fv_emit_row_max(b, "best score", scores, places, d->proposal_class.w.rows);
    const fv_view index = fv_emit_topk(b, "best places", best, places, 1, n, rows, count);
    const fv_pick row = {.in = x, .index = index, .from = places, .rows = n, .cols = d->width};
    const fv_pick box = {
        .w = &table, .in = FV_NO_VIEW, .index = index, .from = places, .rows = n, .cols = 4};
    const fv_view chosen = fv_emit_pick(b, "best rows", &row);
    const fv_view place = fv_emit_pick(b, "best boxes", &box);
    const fv_view moved = fv_emit_rows(b, n, 4), out = fv_emit_rows(b, n, 4);
    fv_emit_refine(b, "boxes of proposals", place, box_delta(c, d->proposal_box, chosen), moved, n);
    fv_emit_refine(b, "references", moved,
                   fv_emit_weight_rows(b, "learned boxes", &d->reference, n), out, n);
    return out;
}

/* ---- queries ---- */

static fv_view positions(const context *c)
{
    const uint32_t n = c->d->queries;
    const fv_view sines =
        fv_emit_frequencies(c->b, "sines of references", c->reference, 4, c->d->width / 2, n);
    const fv_view x =
        fv_layer_product(c->b, "position 0", &c->d->position[0], sines, FV_EPI_RELU, n);
    return fv_layer_product(c->b, "position 1", &c->d->position[1], x, 0, n);
}

static fv_view placed(const context *c, const char *label)
{
    const fv_view out = fv_emit_rows(c->b, c->d->queries, c->d->width);
    fv_emit_add(c->b, label, c->x, c->position, out, c->d->queries, c->d->width);
    return out;
}

/* Emits x = norm(x + l of `in`). */
static void join(context *c, const char *label, const fv_layer *l, fv_view in, const char *after,
                 const fv_layer *norm)
{
    const uint32_t n = c->d->queries;
    const fv_view sum = fv_layer_add(c->b, label, l, in, c->x, n);
    c->x = fv_layer_norm(c->b, after, norm, sum, FV_RF_DETR_NORM_EPS, n);
}

static void attend(context *c, const fv_rf_detr_layer *l)
{
    fv_builder *b = c->b;
    const uint32_t n = c->d->queries, width = c->d->width, dim = width / c->d->self_heads;
    const fv_view qk = fv_layer_product(b, "q, k", &l->qk, placed(c, "queries placed"), 0, n);
    fv_attention a = {.heads = c->d->self_heads,
                      .d = dim,
                      .dv = dim,
                      .queries = n,
                      .keys = n,
                      .scale = 1 / sqrt(dim),
                      .k = fv_view_cols(qk, width),
                      .v = fv_layer_product(b, "v", &l->v, c->x, 0, n)};
    const fv_view out = fv_emit_rows(b, n, width);
    fv_emit_keys(b, "keys", &a);
    fv_emit_queries(b, "attention", &a, qk, out);
    join(c, "projection", &l->self_out, out, "norm after attention", &l->norm[0]);
}

static void sample(context *c, const fv_rf_detr_layer *l)
{
    fv_builder *b = c->b;
    const fv_rf_detr *d = c->d;
    const uint32_t n = d->queries, samples = d->cross_heads * d->points;
    const fv_grid *g = &b->options->grid;
    const fv_view in = placed(c, "queries placed again");
    const fv_view where = fv_layer_product(b, "offsets, weights", &l->sampling, in, 0, n);
    const fv_deform k = {
        .values = fv_layer_product(b, "values", &l->values, c->memory, 0, g->width * g->height),
        .box = c->reference,
        .offset = where,
        .weight = fv_view_cols(where, 2 * samples),
        .level = g,
        .levels = 1,
        .heads = d->cross_heads,
        .d = d->width / d->cross_heads,
        .points = d->points,
        .rows = n};
    const fv_view seen = fv_emit_deform(b, "samples", &k);
    join(c, "projection of samples", &l->cross_out, seen, "norm behind samples", &l->norm[1]);
}

void fv_rf_detr_decode(const fv_rf_detr *d, fv_builder *b, fv_view memory)
{
    context c = {.b = b, .d = d, .memory = memory};
    const uint32_t n = d->queries;
    c.reference = choose(&c);
    c.position = positions(&c);
    c.x = fv_emit_weight_rows(b, "learned queries", &d->query, n);
    for (uint32_t i = 0; i < d->layers; i++) {
        const fv_rf_detr_layer *l = &d->layer[i];
        snprintf(b->scope, sizeof b->scope, "layer %u", i);
        attend(&c, l);
        sample(&c, l);
        const fv_view h = fv_layer_product(b, "fc1", &l->fc1, c.x, d->decoder_act, n);
        join(&c, "fc2", &l->fc2, h, "norm behind mlp", &l->norm[2]);
    }
    b->scope[0] = 0;
    const fv_view x = fv_emit_output(b, "last_hidden_state", n, d->width, NULL, true);
    fv_emit_layernorm(b, "last norm", c.x, &d->norm.w, &d->norm.b, FV_RF_DETR_NORM_EPS, x, n);
    const fv_view logits = fv_emit_task_output(b, "logits", FOVEA_OUTPUT_BOX_CLASSES, n,
                                               d->classes.w.rows, NULL, false);
    if (logits.id >= 0)
        fv_layer_write(b, "classes", &d->classes, x, logits, n);
    const fv_view boxes =
        fv_emit_task_output(b, "pred_boxes", FOVEA_OUTPUT_BOXES, n, 4, NULL, false);
    if (boxes.id >= 0)
        fv_emit_refine(b, "boxes", c.reference, box_delta(&c, d->box, x), boxes, n);
    fv_rf_detr_emit_masks(d, b, memory, x);
}
