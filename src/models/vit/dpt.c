/* dpt.c: reads DPT's neck and emits its steps.
 *
 *     r_i = conv3x3 resize_i(project_i read_i tap_i)           read_i: what a level does with the
 *                                                              class token
 *                                                              resize_i: a transposed convolution,
 *                                                              a strided one, or nothing
 *     f_i = up(p_i+1) + unit(r_i),  p_i = out(unit(f_i))       from the coarsest level, without
 *                                                              up(p), to the finest
 *
 * `up` resizes to the size of the next level, or to twice the size after the last level. In DPT
 * itself it always resizes to twice the size, and r_i is resized to that, if it is not equal. The
 * official code applies `out`, a product of each pixel alone, after `up`. Here it is applied before
 * `up`, where there are fewer pixels. The result is the same, because the weights of an
 * interpolation sum to 1. */
#include "models/vit/dpt.h"

#include <math.h>
#include <stdio.h>

#include "models/fold.h"
#include "models/layer.h"

#define WIDTH 65536
#define FACTOR 16 /* largest factor by which a level's grid is scaled */

/* ---- reading ---- */

static fovea_status check_size(const fv_tensor_reader *t, const char *what, uint32_t n)
{
    if (n > 0 && n <= WIDTH)
        return FOVEA_OK;
    return fv_fail(FOVEA_EFORMAT, "%s: %s is %u; it must be from 1 to %d", t->source->name, what, n,
                   WIDTH);
}

/* Returns FOVEA_EFORMAT if `key` has a number for each of n levels, and one of them differs from
 * the tensors'. */
static fovea_status agree(const fv_tensor_reader *t, const fv_config *c, const char *key,
                          const uint32_t *found, uint32_t n)
{
    uint32_t told[FV_DPT_LEVELS];
    if (!fv_config_get(c, key))
        return FOVEA_OK;
    FV_TRY(fv_config_u32s(told, n, c, key, 1, WIDTH));
    for (uint32_t i = 0; i < n; i++)
        if (told[i] != found[i])
            return fv_fail(FOVEA_EFORMAT,
                           "%s: \"%s\" is %u at index %u, but the tensors of %s have %u", c->file,
                           key, told[i], i, t->source->name, found[i]);
    return FOVEA_OK;
}

/* Reads "reassemble_factors", which are whole numbers or reciprocals of whole numbers. */
static fovea_status read_scales(fv_dpt *d, const fv_config *c)
{
    float factor[FV_DPT_LEVELS] = {4, 2, 1, 0.5f};
    if (d->levels != 4 || fv_config_get(c, "reassemble_factors"))
        FV_TRY(fv_config_floats(factor, d->levels, c, "reassemble_factors", 1. / FACTOR, FACTOR));
    for (uint32_t i = 0; i < d->levels; i++) {
        const float whole = factor[i] < 1 ? 1 / factor[i] : factor[i];
        const uint32_t n = (uint32_t)lroundf(whole);
        if (!(fabsf(whole - (float)n) < 1e-4f))
            return fv_config_fail(c, "reassemble_factors",
                                  "a list of integers or their reciprocals, such as 4, 2, 1, 0.5");
        d->level[i].up = factor[i] < 1 ? 1 : n;
        d->level[i].down = factor[i] < 1 ? n : 1;
    }
    return FOVEA_OK;
}

static fovea_status read_unit(fv_dpt_unit *u, fv_tensor_reader *t, const char *prefix,
                              const char *name, uint32_t width)
{
    char stem[48];
    snprintf(stem, sizeof stem, "%s.convolution1.", name);
    FV_TRY(fv_reader_conv(&u->conv1, t, prefix, stem, width, width, 3));
    snprintf(stem, sizeof stem, "%s.convolution2.", name);
    return fv_reader_conv(&u->conv2, t, prefix, stem, width, width, 3);
}

static fovea_status read_resize(fv_dpt_level *l, fv_tensor_reader *t, const char *prefix,
                                uint32_t channels)
{
    const fv_fold_deconv deconv = {
        .stem = "resize.", .channels = channels, .rows = channels, .stride = l->up};
    if (l->up > 1)
        return fv_fold_transposed(&l->resize, t, prefix, &deconv);
    return l->down > 1 ? fv_reader_conv(&l->resize, t, prefix, "resize.", channels, channels, 3)
                       : FOVEA_OK;
}

static fovea_status read_level(fv_dpt *d, fv_tensor_reader *t, const char *prefix, uint32_t i,
                               uint32_t channels, uint32_t width)
{
    fv_dpt_level *l = &d->level[i];
    const uint32_t layer = d->levels - 1 - i; /* the coarsest level is first */
    char name[64];
    snprintf(name, sizeof name, "%sneck.reassemble_stage.readout_projects.%u.0.", prefix, i);
    if (d->readout == FV_DPT_PROJECT)
        FV_TRY(fv_reader_linear(&l->readout, t, "", name, width, 2 * width));
    snprintf(name, sizeof name, "%sneck.reassemble_stage.layers.%u.", prefix, i);
    FV_TRY(fv_reader_linear(&l->project, t, name, "projection.", channels, width));
    FV_TRY(read_resize(l, t, name, channels));
    snprintf(name, sizeof name, "%sneck.convs.%u.", prefix, i);
    FV_TRY(fv_reader_conv(&l->conv, t, "", name, d->width, channels, 3));
    snprintf(name, sizeof name, "%sneck.fusion_stage.layers.%u.", prefix, layer);
    if (layer > 0)
        FV_TRY(read_unit(&l->skipped, t, name, "residual_layer1", d->width));
    else
        fv_reader_ignore(t, name, "residual_layer1"); /* the coarsest level adds nothing */
    FV_TRY(read_unit(&l->fused, t, name, "residual_layer2", d->width));
    return fv_reader_linear(&l->out, t, name, "projection.", d->width, d->width);
}

fovea_status fv_dpt_read(fv_dpt *d, fv_tensor_reader *t, const char *prefix,
                         const fv_config *config, uint32_t width)
{
    uint32_t channels[FV_DPT_LEVELS];
    char name[64];
    for (; d->levels < FV_DPT_LEVELS; d->levels++) {
        snprintf(name, sizeof name, "%sneck.convs.%u.", prefix, d->levels);
        const fv_tensor *conv = fv_reader_find(t, "", name, "weight");
        if (!conv)
            break;
        d->width = fv_tensor_dimension(conv, 0);
        channels[d->levels] = fv_tensor_dimension(conv, 1);
        FV_TRY(check_size(t, "number of a level's channels", channels[d->levels]));
    }
    if (d->levels == 0)
        return fv_reader_missing(t, "neck.convs.0.weight", "of the neck's first level");
    FV_TRY(check_size(t, "width of the fusion", d->width));
    FV_TRY(agree(t, config, "neck_hidden_sizes", channels, d->levels));
    FV_TRY(read_scales(d, config));
    for (uint32_t i = 0; i < d->levels; i++)
        FV_TRY(read_level(d, t, prefix, i, channels[i], width));
    snprintf(name, sizeof name, "%sneck.", prefix);
    return fv_reader_all_used(t, name);
}

static void visit_unit(const fv_dpt_unit *u, fv_weight_visit *visit, void *ctx)
{
    fv_layer_visit(&u->conv1, visit, ctx);
    fv_layer_visit(&u->conv2, visit, ctx);
}

void fv_dpt_weights(const fv_dpt *d, fv_weight_visit *visit, void *ctx)
{
    for (uint32_t i = 0; i < d->levels; i++) {
        const fv_dpt_level *l = &d->level[i];
        fv_layer_visit(&l->readout, visit, ctx);
        fv_layer_visit(&l->project, visit, ctx);
        fv_layer_visit(&l->resize, visit, ctx);
        fv_layer_visit(&l->conv, visit, ctx);
        visit_unit(&l->skipped, visit, ctx);
        visit_unit(&l->fused, visit, ctx);
        fv_layer_visit(&l->out, visit, ctx);
    }
}

/* ---- computing ---- */

fv_view fv_dpt_conv(fv_builder *b, const char *label, const fv_layer *l, fv_view in,
                    const fv_grid *grid, uint32_t act, const fv_view *res)
{
    const fv_conv c = {.w = &l->w,
                       .bias = &l->b,
                       .in = in,
                       .out = fv_emit_rows(b, fv_grid_tokens(grid), l->w.rows),
                       .res = res,
                       .from = *grid,
                       .to = *grid,
                       .channels = l->w.cols / 9,
                       .size = 3,
                       .stride = 1,
                       .pad = 1,
                       .act = act};
    fv_emit_conv(b, label, &c);
    return c.out;
}

fv_view fv_dpt_resize(fv_builder *b, const char *label, fv_view in, const fv_grid *from,
                      const fv_grid *to, uint32_t channels, fv_view res)
{
    const fv_upsample u = {.in = in,
                           .res = res,
                           .out = fv_emit_rows(b, fv_grid_tokens(to), channels),
                           .from = *from,
                           .to = *to,
                           .channels = channels,
                           .flags = FV_FLAG_ALIGN_CORNERS};
    fv_emit_upsample(b, label, &u);
    return u.out;
}

/* Emits rows of `parts` tokens each, next to each other: from token `first` + i on, and then, with
 * two parts, the class token. With a step of 0, all rows are the same. */
static fv_view tokens(fv_builder *b, const char *label, fv_view rows, uint32_t width,
                      uint32_t parts, uint32_t first, uint32_t step, fv_view res)
{
    const uint32_t n = b->options->grid.width * b->options->grid.height;
    uint32_t *table = fv_emit_table(b, parts * n);
    const fv_view out = fv_emit_rows(b, n, parts * width);
    for (uint32_t i = 0; table && i < n; i++) {
        table[parts * i] = first + step * i;
        if (parts > 1)
            table[parts * i + 1] = 0;
    }
    fv_emit_gather(b, label, rows, table, parts, res, out, n, width);
    return out;
}

/* Emits the rows of the patches after the readout. */
static fv_view read_out(const fv_dpt *d, fv_builder *b, uint32_t i, fv_view rows)
{
    const uint32_t width = d->level[i].project.w.cols, prefix = b->options->grid.prefix;
    if (d->readout == FV_DPT_ADD) {
        const fv_view class = tokens(b, "class token", rows, width, 1, 0, 0, FV_NO_VIEW);
        return tokens(b, "patches and class token", rows, width, 1, prefix, 1, class);
    }
    const fv_view both =
        tokens(b, "patches and class token", rows, width, 2, prefix, 1, FV_NO_VIEW);
    return fv_layer_product(b, "readout", &d->level[i].readout, both, FV_EPI_GELU,
                            b->options->grid.width * b->options->grid.height);
}

fv_view fv_dpt_project(const fv_dpt *d, fv_builder *b, uint32_t i, fv_view rows)
{
    const bool all = d->readout == FV_DPT_IGNORE;
    const fv_grid *grid = &b->options->grid;
    return fv_layer_product(b, "projection of a stage", &d->level[i].project,
                            all ? rows : read_out(d, b, i, rows), 0,
                            all ? fv_grid_tokens(grid) : grid->width * grid->height);
}

/* Returns the grid of a level. */
static fv_grid grid_of(const fv_dpt_level *l, const fv_grid *patches)
{
    return (fv_grid){(patches->width * l->up - 1) / l->down + 1,
                     (patches->height * l->up - 1) / l->down + 1, 0, 0};
}

/* Emits a level's features from its projection. */
static fv_view reassemble(const fv_dpt *d, const fv_dpt_level *l, fv_builder *b, fv_view projected,
                          const fv_grid *patches, const fv_grid *grid)
{
    const uint32_t channels = l->project.w.rows, n = patches->width * patches->height;
    const fv_grid from = {patches->width, patches->height, 0, 0};
    fv_view x = projected;
    if (d->readout == FV_DPT_IGNORE) {
        x = fv_emit_rows(b, n, channels);
        fv_emit_take(b, "patches", projected, patches->prefix, x, n, channels);
    }
    fv_view out = x;
    if (fv_weight_present(&l->resize.w))
        out = fv_emit_rows(b, fv_grid_tokens(grid), channels);
    if (l->up > 1) {
        const fv_deconv finer = {.w = &l->resize.w,
                                 .bias = &l->resize.b,
                                 .in = x,
                                 .out = out,
                                 .from = from,
                                 .from_channels = channels,
                                 .channels = channels,
                                 .stride = l->up};
        fv_emit_deconv(b, "finer", &finer);
    } else if (l->down > 1) {
        const fv_conv c = {.w = &l->resize.w,
                           .bias = &l->resize.b,
                           .in = x,
                           .out = out,
                           .from = from,
                           .to = *grid,
                           .channels = channels,
                           .size = 3,
                           .stride = l->down,
                           .pad = 1};
        fv_emit_conv(b, "coarser", &c);
    }
    return fv_dpt_conv(b, "level's convolution", &l->conv, out, grid, 0, NULL);
}

/* Emits a level's features, resized to twice the size of the coarser level if they have another
 * size. */
static fv_view match(fv_builder *b, fv_view x, const fv_grid *own, const fv_grid *grid,
                     uint32_t channels)
{
    if (own->width == grid->width && own->height == grid->height)
        return x;
    const fv_upsample u = {.in = x,
                           .res = FV_NO_VIEW,
                           .out = fv_emit_rows(b, fv_grid_tokens(grid), channels),
                           .from = *own,
                           .to = *grid,
                           .channels = channels};
    fv_emit_upsample(b, "size of the coarser level", &u);
    return u.out;
}

/* Emits conv2 relu(conv1 relu(x)) + res. */
static fv_view unit(fv_builder *b, const char *label, const fv_dpt_unit *u, fv_view x,
                    const fv_view *res, const fv_grid *grid)
{
    const uint32_t n = fv_grid_tokens(grid), width = u->conv1.w.rows;
    const fv_view bent = fv_emit_rows(b, n, width);
    fv_emit_act(b, label, FV_EPI_RELU, x, bent, n, width);
    const fv_view inner = fv_dpt_conv(b, label, &u->conv1, bent, grid, FV_EPI_RELU, NULL);
    return fv_dpt_conv(b, label, &u->conv2, inner, grid, 0, res);
}

fv_view fv_dpt_fuse(const fv_dpt *d, fv_builder *b, const fv_view *projected, fv_grid *grid)
{
    const fv_grid patches = *grid;
    fv_grid below = {0};
    fv_view deep = FV_NO_VIEW;
    for (uint32_t i = d->levels; i-- > 0;) {
        const fv_dpt_level *l = &d->level[i];
        snprintf(b->scope, sizeof b->scope, "level %u", i + 1);
        const fv_grid own = grid_of(l, &patches);
        fv_view x = reassemble(d, l, b, projected[i], &patches, &own);
        *grid = own;
        if (deep.id >= 0) {
            if (d->doubles) {
                *grid = (fv_grid){2 * below.width, 2 * below.height, 0, 0};
                x = match(b, x, &own, grid, d->width);
            }
            deep = fv_dpt_resize(b, "up", deep, &below, grid, d->width, x);
            x = unit(b, "unit of the level", &l->skipped, x, &deep, grid);
        }
        x = unit(b, "unit", &l->fused, x, &x, grid);
        deep = fv_layer_product(b, "output", &l->out, x, 0, fv_grid_tokens(grid));
        below = *grid;
    }
    *grid = (fv_grid){2 * below.width, 2 * below.height, 0, 0};
    const fv_view out = fv_dpt_resize(b, "up", deep, &below, grid, d->width, FV_NO_VIEW);
    b->scope[0] = 0;
    return out;
}
