/* mask2former.c: emits the steps of Mask2Former's pixel decoder, and those before and after it.
 *
 *     l_i = group norm(conv1x1 tap)            of the last three taps, the coarsest first
 *     x = [l_0, l_1, l_2];   p = sines of the cells' positions + an embedding of the level
 *     x = norm(x + samples(x + p));  x = norm(x + mlp x)                  per layer
 *     y = relu(group norm(conv3x3(group norm(conv1x1 tap) + y resized)))  per finer level
 *     features = conv1x1 y                     y begins as the finest level of x */
#include "models/dense/mask2former.h"

#include <stdio.h>

#include "graph/emit.h"
#include "models/layer.h"

enum { LEVELS = FV_MASK2FORMER_LEVELS };

/* Columns of `places`, which has a row for each cell of all levels: the centre as fractions of the
 * sides, x before y; the position that sines read, y before x; the number of the level. */
enum { PLACE_CENTRE = 0, PLACE_SINE = 2, PLACE_LEVEL = 4, PLACE_COLUMNS = 5 };

typedef struct context {
    const fv_mask2former *d;
    fv_level lateral[FV_BACKBONE_TAPS];
    fv_level level[LEVELS];
    uint32_t rows;  /* cells of all levels */
    fv_view places; /* as the enum above lists its columns */
    fv_view x;      /* the rows of all levels */
} context;

/* ---- positions ---- */

/* Writes (y, x) of cell i of a grid. The last cell is at 1, except for an epsilon. */
static void sine_place(float out[2], const fv_grid *g, uint32_t i)
{
    out[0] = (float)(i / g->width + 1) / ((float)g->height + 1e-6f);
    out[1] = (float)(i % g->width + 1) / ((float)g->width + 1e-6f);
}

fv_view fv_mask2former_sines(fv_builder *b, const fv_grid *grid, uint32_t width)
{
    const uint32_t n = fv_grid_tokens(grid);
    float *place;
    const fv_weight w = fv_emit_constant(b, n, 2, &place);
    for (uint32_t i = 0; b->status == FOVEA_OK && i < n; i++)
        sine_place(place + 2 * (size_t)i, grid, i);
    return fv_emit_frequencies(b, "sines of positions", fv_emit_weight_rows(b, "positions", &w, n),
                               2, width / 2, n);
}

static fv_view make_places(const context *c, fv_builder *b)
{
    float *place;
    const fv_weight w = fv_emit_constant(b, c->rows, PLACE_COLUMNS, &place);
    for (uint32_t k = 0; b->status == FOVEA_OK && k < LEVELS; k++) {
        const fv_grid *g = &c->level[k].grid;
        for (uint32_t i = 0; i < fv_grid_tokens(g); i++, place += PLACE_COLUMNS) {
            place[PLACE_CENTRE] = ((float)(i % g->width) + 0.5f) / (float)g->width;
            place[PLACE_CENTRE + 1] = ((float)(i / g->width) + 0.5f) / (float)g->height;
            sine_place(place + PLACE_SINE, g, i);
            place[PLACE_LEVEL] = (float)k;
        }
    }
    return fv_emit_weight_rows(b, "places", &w, c->rows);
}

/* Emits x + p. Each layer computes p again, so that it need not be stored. */
static fv_view placed(const context *c, fv_builder *b)
{
    const uint32_t width = c->d->width;
    const fv_pick level = {.w = &c->d->level,
                           .in = FV_NO_VIEW,
                           .index = fv_view_cols(c->places, PLACE_LEVEL),
                           .from = LEVELS,
                           .rows = c->rows,
                           .cols = width};
    const fv_view sines = fv_emit_frequencies(
        b, "sines of positions", fv_view_cols(c->places, PLACE_SINE), 2, width / 2, c->rows);
    const fv_view of_level = fv_emit_pick(b, "embeddings of levels", &level);
    const fv_view sum = fv_emit_rows(b, c->rows, width), out = fv_emit_rows(b, c->rows, width);
    fv_emit_add(b, "sines and levels", sines, of_level, sum, c->rows, width);
    fv_emit_add(b, "rows placed", c->x, sum, out, c->rows, width);
    return out;
}

/* ---- levels ---- */

/* Emits the rows of all levels, one level after another. */
static void concatenate(context *c, fv_builder *b)
{
    fv_view part[LEVELS];
    uint32_t rows[LEVELS];
    for (uint32_t k = 0; k < LEVELS; k++) {
        part[k] = c->level[k].rows;
        rows[k] = fv_grid_tokens(&c->level[k].grid);
    }
    c->x = fv_emit_concatenate(b, "rows of a level", part, rows, LEVELS, c->d->width, false);
}

static void split(context *c, fv_builder *b)
{
    uint32_t first = 0;
    for (uint32_t k = 0; k < LEVELS; k++) {
        const uint32_t n = fv_grid_tokens(&c->level[k].grid);
        c->level[k].rows = fv_emit_rows(b, n, c->d->width);
        fv_emit_take(b, "level", c->x, first, c->level[k].rows, n, c->d->width);
        first += n;
    }
}

/* ---- layers ---- */

/* Emits x = norm(x + l of `in`). */
static void join(context *c, fv_builder *b, const char *label, const fv_layer *l, fv_view in,
                 const fv_layer *norm)
{
    const fv_view sum = fv_layer_add(b, label, l, in, c->x, c->rows);
    c->x = fv_layer_norm(b, "norm", norm, sum, FV_MASK2FORMER_EPS, c->rows);
}

static void layer(context *c, fv_builder *b, const fv_mask2former_pixel_layer *l)
{
    const fv_mask2former *d = c->d;
    const uint32_t samples = d->heads * LEVELS * FV_MASK2FORMER_POINTS;
    fv_grid grid[LEVELS];
    for (uint32_t k = 0; k < LEVELS; k++)
        grid[k] = c->level[k].grid;
    const fv_view values = fv_layer_product(b, "values", &l->values, c->x, 0, c->rows);
    const fv_view where =
        fv_layer_product(b, "offsets, weights", &l->sampling, placed(c, b), 0, c->rows);
    const fv_deform k = {.values = values,
                         .box = fv_view_cols(c->places, PLACE_CENTRE),
                         .offset = where,
                         .weight = fv_view_cols(where, 2 * samples),
                         .level = grid,
                         .levels = LEVELS,
                         .heads = d->heads,
                         .d = d->width / d->heads,
                         .points = FV_MASK2FORMER_POINTS,
                         .rows = c->rows,
                         .centres = true};
    join(c, b, "projection", &l->out, fv_emit_deform(b, "samples", &k), &l->norm[0]);
    const fv_view h = fv_layer_product(b, "fc1", &l->fc1, c->x, FV_EPI_RELU, c->rows);
    join(c, b, "fc2", &l->fc2, h, &l->norm[1]);
}

/* Emits the finer levels, and returns the features of pixels. */
static fv_level features(const context *c, fv_builder *b)
{
    const fv_mask2former *d = c->d;
    fv_level y = c->level[LEVELS - 1];
    for (uint32_t i = d->finer; i-- > 0;) {
        fv_level_add(b, "coarser level", &y, &c->lateral[i], 0);
        y = fv_conv_module_emit(b, "finer level", &d->output[i], &c->lateral[i], 1);
    }
    const uint32_t n = fv_grid_tokens(&y.grid);
    y.rows = fv_layer_product(b, "features", &d->features, y.rows, 0, n);
    y.channels = d->features.w.rows;
    return y;
}

/* ---- the whole ---- */

/* Emits what the decoders read of tap i. */
static void enter(context *c, fv_builder *b, uint32_t i, const fv_level *tap)
{
    const fv_mask2former *d = c->d;
    if (i < d->finer)
        c->lateral[i] = fv_conv_module_emit(b, "lateral", &d->lateral[i], tap, 1);
    if (i + LEVELS >= d->taps) {
        const uint32_t k = d->taps - 1 - i;
        c->level[k] = fv_conv_module_emit(b, "input", &d->input[k], tap, 1);
        c->rows += fv_grid_tokens(&tap->grid);
    }
}

/* Emits the decoders, once all taps have entered. */
static void decode(context *c, fv_builder *b)
{
    const fv_mask2former *d = c->d;
    if (b->status != FOVEA_OK)
        return;
    concatenate(c, b);
    c->places = make_places(c, b);
    for (uint32_t i = 0; i < d->pixel_layers; i++) {
        snprintf(b->scope, sizeof b->scope, "pixel layer %u", i);
        layer(c, b, &d->pixel_layer[i]);
    }
    snprintf(b->scope, sizeof b->scope, "pixels");
    split(c, b);
    const fv_level pixels = features(c, b);
    fv_mask2former_decode(d, b, c->level, &pixels);
    b->scope[0] = 0;
}

/* ---- over a pyramid ---- */

static void emit_head(const fv_decoder *d, fv_builder *b, const fv_level *level)
{
    context c = {.d = d->mask2former};
    for (uint32_t i = 0; i < d->stages; i++)
        enter(&c, b, i, &level[i]);
    decode(&c, b);
}

const fv_decoder_head fv_head_mask2former = {
    .type = "mask2former",
    .backbone = "model.pixel_level_module.encoder.",
    .last = "class_predictor.",
    .outputs = {"masks_queries_logits", "class_queries_logits"},
    .read = fv_mask2former_read,
    .emit = emit_head,
    .release = fv_mask2former_release};

/* ---- over a ViT ---- */

static void give(void *ctx, fv_builder *b, uint32_t i, fv_view rows)
{
    context *c = ctx;
    const uint32_t width = c->d->channels[i];
    fv_level in = {.grid = b->options->grid, .channels = width};
    in.grid.prefix = 0;
    in.rows = fv_emit_rows(b, fv_grid_tokens(&in.grid), width);
    fv_emit_take(b, "patches", rows, b->options->grid.prefix, in.rows, fv_grid_tokens(&in.grid),
                 width);
    enter(c, b, i, &in);
}

static fovea_status emit(const fovea_model *m, fv_builder *b)
{
    const fv_mask2former_vit *v = m->roles;
    context c = {.d = &v->decoders};
    fv_backbone_emit(&v->backbone, b, give, &c);
    if (fv_emit_wants(b, "masks_queries_logits") || fv_emit_wants(b, "class_queries_logits"))
        decode(&c, b);
    return b->status;
}

FV_DEFINE_FAMILY(mask2former, .name = "mask2former", .types = "mask2former",
                 .sign = "model.transformer_module.queries_features.",
                 .second_sign = "class_predictor.weight", .attention = "softmax", .shapes = true,
                 .weights = fv_mask2former_weights, .read = fv_mask2former_read_vit, .emit = emit,
                 .release = fv_mask2former_release_vit, .synthetic = &fv_mask2former_synthetics)
