/* rf_detr_masks.c: emits the steps of RF-DETR's head for masks.
 *
 *     x = the projector's rows, resized to the grid of the masks
 *     x = x + act(mix(norm(filter x)))                      per block
 *     y = queries + fc2 act(fc1 norm(queries))
 *     masks = (pixels x) . (queries y) + bias               of each query, for each pixel */
#include <stdio.h>

#include "graph/emit.h"
#include "models/detr/rf_detr.h"
#include "models/layer.h"

#define FILTER 3
#define BLOCK_EPS 1e-6f

fv_grid fv_rf_detr_mask_grid(const fv_rf_detr *d, const fv_grid *patches)
{
    const uint32_t ratio = d->masks.ratio ? d->masks.ratio : 1;
    return (fv_grid){.width = patches->width * patches->stride / ratio,
                     .height = patches->height * patches->stride / ratio,
                     .stride = ratio};
}

static fv_view resize(fv_builder *b, const fv_rf_detr *d, fv_view memory, const fv_grid *to)
{
    const fv_grid *g = &b->options->grid;
    const fv_upsample up = {.in = memory,
                            .res = FV_NO_VIEW,
                            .out = fv_emit_rows(b, fv_grid_tokens(to), d->width),
                            .from = {g->width, g->height, g->stride, 0},
                            .to = *to,
                            .channels = d->width};
    fv_emit_upsample(b, "resized features", &up);
    return up.out;
}

static fv_view block(fv_builder *b, const fv_rf_detr *d, const fv_rf_detr_mask_block *k, fv_view x,
                     const fv_grid *grid)
{
    const uint32_t n = fv_grid_tokens(grid), width = d->width;
    const fv_dwconv filter = {.w = &k->filter.w,
                              .bias = &k->filter.b,
                              .in = x,
                              .res = FV_NO_VIEW,
                              .gate = FV_NO_VIEW,
                              .out = fv_emit_rows(b, n, width),
                              .width = grid->width,
                              .height = grid->height,
                              .count = 1,
                              .channels = width,
                              .size = FILTER};
    fv_emit_dwconv(b, "filter", &filter);
    const fv_gemm mix = {.w = &k->mix.w,
                         .bias = &k->mix.b,
                         .in = fv_layer_norm(b, "norm", &k->norm, filter.out, BLOCK_EPS, n),
                         .res = x,
                         .out = fv_emit_rows(b, n, width),
                         .act = d->masks.act,
                         .rows = n};
    fv_emit_gemm(b, "mix", &mix);
    return mix.out;
}

/* Returns the rows of the queries, by which those of the pixels are multiplied. */
static fv_view operands(fv_builder *b, const fv_rf_detr *d, fv_view queries)
{
    const fv_rf_detr_masks *m = &d->masks;
    const uint32_t n = d->queries;
    const fv_view normed =
        fv_layer_norm(b, "norm of queries", &m->norm, queries, FV_RF_DETR_NORM_EPS, n);
    const fv_view h = fv_layer_product(b, "fc1", &m->fc1, normed, m->act, n);
    const fv_view y = fv_layer_add(b, "fc2", &m->fc2, h, queries, n);
    return fv_layer_product(b, "queries", &m->queries, y, 0, n);
}

void fv_rf_detr_emit_masks(const fv_rf_detr *d, fv_builder *b, fv_view memory, fv_view queries)
{
    if (!d->masks.ratio || !fv_emit_wants(b, "pred_masks"))
        return;
    const fv_grid grid = fv_rf_detr_mask_grid(d, &b->options->grid);
    const uint32_t rows = fv_grid_tokens(&grid);
    snprintf(b->scope, sizeof b->scope, "masks");
    /* computed first, so that pixels stream into the product */
    const fv_view by = operands(b, d, queries);
    fv_view x = resize(b, d, memory, &grid);
    for (uint32_t i = 0; i < d->layers; i++) {
        snprintf(b->scope, sizeof b->scope, "masks block %u", i);
        x = block(b, d, &d->masks.block[i], x, &grid);
    }
    snprintf(b->scope, sizeof b->scope, "masks");
    const fv_view pixels = fv_layer_product(b, "pixels", &d->masks.pixels, x, 0, rows);
    fv_emit_matmul(
        b, "products", pixels, by, d->queries, d->width + 1,
        fv_emit_task_output(b, "pred_masks", FOVEA_OUTPUT_MASKS, rows, d->queries, &grid, false),
        rows);
    b->scope[0] = 0;
}
