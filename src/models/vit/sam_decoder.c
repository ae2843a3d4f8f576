/* sam_decoder.c: emits the steps of the decoder of masks of SAM and SAM 2.
 *
 *     t = learned tokens, tokens of the prompt;   x = t;   f = features;   p = positions of cells
 *     x = norm(x + attention(x + t, x + t, x))                    without x + and + t at first
 *     x = norm(x + attention(x + t, f + p, f));   x = norm(x + mlp x)
 *     f = norm(f + attention(f + p, x + t, x))                    and so on for each layer
 *     x = norm(x + attention(x + t, f + p, f))
 *     u = gelu(deconv2x2(gelu norm(deconv2x2 f + finer)) + finest)      + only in SAM 2
 *     mask_i = mlp_i(x_{1 + i}) . u;   scores = mlp(x_0)      from the token of the scores on
 *
 * The number of tokens is that of the largest prompt. Keys of tokens that a prompt lacks are hidden
 * from all queries, so that its results do not depend on this number. */
#include "models/vit/sam_decoder.h"

#include <math.h>
#include <stdio.h>

#include "models/layer.h"

#define UP_EPS 1e-6f

typedef struct context {
    fv_builder *b;
    const fv_sam_decoder *d;
    uint32_t n, places;    /* numbers of tokens and of cells */
    fv_view given, x;      /* tokens as given, and as computed so far */
    fv_view f, placed;     /* the features, also with positions */
    fv_view hidden;        /* one row that hides missing tokens from softmax */
    fv_view finest, finer; /* finer features; not in SAM */
} context;

static fv_attention attention_of(const context *c, uint32_t width, uint32_t queries, uint32_t keys)
{
    const uint32_t d = width / c->d->heads;
    return (fv_attention){.heads = c->d->heads,
                          .d = d,
                          .dv = d,
                          .queries = queries,
                          .keys = keys,
                          .scale = 1 / sqrt(d)};
}

static fv_view attend(const context *c, const char *label, fv_attention *a, fv_view q)
{
    const fv_view out = fv_emit_rows(c->b, a->queries, a->heads * a->d);
    fv_emit_keys(c->b, label, a);
    fv_emit_queries(c->b, label, a, q, out);
    return out;
}

/* Hides the keys of tokens that the prompt lacks. */
static void hide(const context *c, const char *label, fv_attention *a)
{
    const uint32_t cols = a->heads * (a->keys + 1);
    a->rel_pos = fv_emit_rows(c->b, a->queries, cols);
    a->rel_columns = 1;
    fv_emit_gather(c->b, label, c->hidden, fv_emit_table(c->b, a->queries), 1, FV_NO_VIEW,
                   a->rel_pos, a->queries, cols);
}

/* Returns the tokens with those that were given added. */
static fv_view with_given(const context *c, const char *label)
{
    const fv_view out = fv_emit_rows(c->b, c->n, c->d->width);
    fv_emit_add(c->b, label, c->x, c->given, out, c->n, c->d->width);
    return out;
}

static fv_view norm(const context *c, const char *label, const fv_layer *l, fv_view in,
                    uint32_t rows)
{
    return fv_layer_norm(c->b, label, l, in, c->d->eps, rows);
}

static void attend_tokens(context *c, const fv_sam_decoder_layer *l, bool first)
{
    fv_builder *b = c->b;
    const uint32_t n = c->n, width = c->d->width;
    const fv_view in = first ? c->x : with_given(c, "tokens placed");
    const fv_view qk = fv_layer_product(b, "q, k", &l->self_qk, in, 0, n);
    fv_attention a = attention_of(c, width, n, n);
    a.k = fv_view_cols(qk, width);
    a.v = fv_layer_product(b, "v", &l->self_v, c->x, 0, n);
    hide(c, "missing tokens", &a);
    const fv_view out = attend(c, "attention", &a, qk);
    const fv_view sum = first ? fv_layer_product(b, "projection", &l->self_out, out, 0, n)
                              : fv_layer_add(b, "projection", &l->self_out, out, c->x, n);
    c->x = norm(c, "norm", &l->norm[0], sum, n);
}

/* Emits x + attention of the tokens to the picture, whose keys are `k`. */
static fv_view attend_picture(const context *c, const fv_layer *q, fv_view k, const fv_layer *v,
                              const fv_layer *out)
{
    fv_builder *b = c->b;
    fv_attention a = attention_of(c, c->d->inner, c->n, c->places);
    a.k = k;
    a.v = fv_layer_product(b, "v of the picture", v, c->f, 0, c->places);
    const fv_view query =
        fv_layer_product(b, "q of tokens", q, with_given(c, "tokens for the picture"), 0, c->n);
    return fv_layer_add(b, "projection of the picture", out,
                        attend(c, "attention to the picture", &a, query), c->x, c->n);
}

static void mlp(context *c, const fv_sam_decoder_layer *l)
{
    const fv_view h = fv_layer_product(c->b, "fc1", &l->fc1, c->x, c->d->act, c->n);
    const fv_view sum = fv_layer_add(c->b, "fc2", &l->fc2, h, c->x, c->n);
    c->x = norm(c, "norm after mlp", &l->norm[2], sum, c->n);
}

static void attend_from_picture(context *c, const fv_sam_decoder_layer *l, fv_view q)
{
    fv_builder *b = c->b;
    fv_attention a = attention_of(c, c->d->inner, c->places, c->n);
    a.k =
        fv_layer_product(b, "k of tokens", &l->token_k, with_given(c, "tokens for keys"), 0, c->n);
    a.v = fv_layer_product(b, "v of tokens", &l->token_v, c->x, 0, c->n);
    hide(c, "missing tokens of the picture", &a);
    const fv_view out = attend(c, "attention to tokens", &a, q);
    const fv_view sum =
        fv_layer_add(b, "projection of tokens", &l->picture_out, out, c->f, c->places);
    c->f = norm(c, "norm of the picture", &l->norm[3], sum, c->places);
}

/* Adds the positions of cells to the features. */
static void place(context *c, const fv_weight *positions)
{
    const fv_grid grid = {c->b->options->grid.width, c->b->options->grid.height, 0, 0};
    const fv_weight none = {0};
    const fv_posemb p = {.prefix = &none, .table = positions};
    c->placed = fv_emit_rows(c->b, c->places, c->d->width);
    fv_emit_posemb(c->b, "positions", &p, &grid, c->f, c->placed);
}

static void transform(context *c)
{
    fv_builder *b = c->b;
    const fv_sam_decoder *d = c->d;
    float *data;
    const fv_weight positions = fv_emit_constant(b, c->places, d->width, &data);
    if (data)
        fv_prompt_positions(data, &d->prompts, &b->options->grid);
    for (uint32_t i = 0; i < d->layers; i++) {
        const fv_sam_decoder_layer *l = &d->layer[i];
        snprintf(b->scope, sizeof b->scope, "layer %u", i);
        attend_tokens(c, l, i == 0);
        place(c, &positions);
        const fv_view kq =
            fv_layer_product(b, "k, q of the picture", &l->picture_kq, c->placed, 0, c->places);
        c->x = norm(c, "norm after the picture", &l->norm[1],
                    attend_picture(c, &l->cross_q, kq, &l->cross_v, &l->cross_out), c->n);
        mlp(c, l);
        attend_from_picture(c, l, fv_view_cols(kq, d->inner));
    }
    snprintf(b->scope, sizeof b->scope, "last");
    place(c, &positions);
    const fv_view k = fv_layer_product(b, "k of the picture", &d->last_k, c->placed, 0, c->places);
    c->x = fv_layer_norm(b, "norm", &d->last_norm,
                         attend_picture(c, &d->last_q, k, &d->last_v, &d->last_out), d->last_eps,
                         c->n);
}

/* Emits a transposed convolution of `in`, and replaces *grid by that of the result. */
static fv_view enlarge(const context *c, const char *label, const fv_layer *l, fv_view in,
                       fv_grid *grid, uint32_t act)
{
    const fv_grid to = {2 * grid->width, 2 * grid->height, grid->stride / 2, 0};
    const uint32_t channels = l->w.rows / 4;
    const fv_deconv deconv = {.w = &l->w,
                              .bias = &l->b,
                              .in = in,
                              .out = fv_emit_rows(c->b, fv_grid_tokens(&to), channels),
                              .from = *grid,
                              .from_channels = l->w.cols,
                              .channels = channels,
                              .stride = 2,
                              .act = act};
    fv_emit_deconv(c->b, label, &deconv);
    *grid = to;
    return deconv.out;
}

/* Returns the features of each pixel of the masks. */
static fv_view pixels(const context *c, fv_grid *grid)
{
    fv_builder *b = c->b;
    const fv_grid *g = &b->options->grid;
    const bool fine = c->d->prompts.second;
    const uint32_t width = c->d->up_norm.w.cols;
    *grid = (fv_grid){g->width, g->height, g->stride, 0};
    const fv_view wide = enlarge(c, "upscaling 0", &c->d->up[0], c->f, grid, 0);
    const uint32_t rows = fv_grid_tokens(grid);
    if (fine)
        fv_emit_add(b, "finer features", wide, c->finer, wide, rows, width);
    const fv_view normed =
        fv_layer_norm(b, "norm of the upscaled", &c->d->up_norm, wide, UP_EPS, rows);
    fv_emit_act(b, "gelu of the upscaled", FV_EPI_GELU, normed, normed, rows, width);
    const fv_view u = enlarge(c, "upscaling 1", &c->d->up[1], normed, grid, fine ? 0 : FV_EPI_GELU);
    if (fine) {
        fv_emit_add(b, "finest features", u, c->finest, u, 4 * rows, width / 2);
        fv_emit_act(b, "gelu of the pixels", FV_EPI_GELU, u, u, 4 * rows, width / 2);
    }
    return u;
}

/* Returns the index of the token of the scores. Those of the masks follow. */
static uint32_t token_of_scores(const fv_sam_decoder *d)
{
    return d->prompts.first - FV_SAM_FIRST;
}

/* Emits the layers of a head, from columns of a row to columns of `out`. */
static void head(const context *c, const char *label, const fv_layer l[FV_SAM_MLP], fv_view in,
                 fv_view out)
{
    for (uint32_t i = 0; i + 1 < FV_SAM_MLP; i++)
        in = fv_layer_product(c->b, label, &l[i], in, FV_EPI_RELU, 1);
    fv_layer_write(c->b, label, &l[FV_SAM_MLP - 1], in, out, 1);
}

/* Returns the rows by which the features of pixels are multiplied, one for each mask. They are
 * computed as one row, which becomes the four rows of a block of 2 x 2 pixels. */
static fv_view operands(const context *c)
{
    fv_builder *b = c->b;
    const fv_sam_decoder *d = c->d;
    const uint32_t width = d->width, each = d->mask[0][FV_SAM_MLP - 1].w.rows;
    const fv_view tokens = fv_emit_rows(b, 1, FV_SAM_MASKS * width);
    const fv_view all = fv_emit_rows(b, 1, FV_SAM_MASKS * each);
    uint32_t *table = fv_emit_table(b, FV_SAM_MASKS);
    for (uint32_t i = 0; table && i < FV_SAM_MASKS; i++)
        table[i] = token_of_scores(d) + 1 + i;
    fv_emit_gather(b, "tokens of masks", c->x, table, FV_SAM_MASKS, FV_NO_VIEW, tokens, 1, width);
    for (uint32_t i = 0; i < FV_SAM_MASKS; i++)
        head(c, "mask head", d->mask[i], fv_view_cols(tokens, i * width),
             fv_view_cols(all, i * each));
    return all;
}

static void predict(const context *c)
{
    fv_builder *b = c->b;
    const fv_sam_decoder *d = c->d;
    const fv_view row = fv_emit_rows(b, 1, d->width);
    const fv_view scores =
        fv_emit_task_output(b, "iou_scores", FOVEA_OUTPUT_MASK_SCORES, 1, FV_SAM_MASKS, NULL, true);
    snprintf(b->scope, sizeof b->scope, "masks");
    fv_emit_take(b, "token of scores", c->x, token_of_scores(d), row, 1, d->width);
    head(c, "score head", d->score, row, scores);
    const fv_view by =
        fv_emit_unfold(b, "rows of masks", operands(c), 2, d->mask[0][FV_SAM_MLP - 1].w.rows);
    fv_grid grid;
    const fv_view u = pixels(c, &grid);
    const uint32_t rows = fv_grid_tokens(&grid);
    const fv_view masks =
        fv_emit_task_output(b, "pred_masks", FOVEA_OUTPUT_MASKS, rows, FV_SAM_MASKS, &grid, true);
    fv_emit_matmul(b, "masks", u, by, FV_SAM_MASKS, d->up[1].w.rows / 4, masks, rows);
    b->scope[0] = 0;
}

fovea_status fv_sam_decoder_emit(const fv_sam_decoder *d, fv_builder *b, uint32_t tokens)
{
    context c = {
        .b = b, .d = d, .n = tokens, .places = b->options->grid.width * b->options->grid.height};
    c.f = fv_emit_input(b, "features", c.places, d->width, FV_F32);
    c.given = c.x = fv_emit_input(b, "tokens", tokens, d->width, FV_F32);
    fv_attention one = attention_of(&c, d->width, 1, tokens);
    fv_emit_mask_keys(b, "tokens", &one, fv_emit_input(b, "present", 1, tokens, FV_F32), tokens,
                      false);
    c.hidden = one.rel_pos;
    if (d->prompts.second) {
        c.finest = fv_emit_input(b, "finest", 16 * c.places, d->width / 8, FV_F32);
        c.finer = fv_emit_input(b, "finer", 4 * c.places, d->width / 4, FV_F32);
    }
    transform(&c);
    predict(&c);
    return b->status;
}
