/* vit_windows.c: reads and emits attention inside windows of a ViT's grid (Qwen2.5-VL).
 *
 * Windows are squares of patches from the top left on; those at the right and bottom are smaller if
 * they do not divide the grid. Here all windows have the same number of rows, and the patches of a
 * window do not see its rows without a patch. Queries and keys are rotated in the order of the
 * grid, then all three are put in the order of windows. */
#include <math.h>

#include "models/layer.h"
#include "models/vit/vit_emit.h"
#include "models/vit/vit_reader.h"
#include "ops/contracts/grid.h"

#define PIXELS 65536
#define WHOLE_MOST 256 /* blocks that attend to all patches */

fovea_status fv_vit_read_windows(fv_vit_reader *r)
{
    fv_vit *v = r->v;
    uint32_t pixels = 112, merged = 2, whole[WHOLE_MOST] = {7, 15, 23, 31}, count = 4;
    if (r->kind != FV_VIT_QWEN2_5)
        return FOVEA_OK;
    FV_TRY(fv_config_u32(&pixels, &r->vision, "window_size", 1, PIXELS));
    FV_TRY(fv_config_u32(&merged, &r->vision, "spatial_merge_size", 1, FV_VIT_MERGED_MOST));
    const json_t *list = fv_config_get(&r->vision, "fullatt_block_indexes");
    if (json_is_array(list) && json_array_size(list) == 0) {
        count = 0;
    } else if (list) {
        FV_TRY(fv_config_count(&count, &r->vision, "fullatt_block_indexes", WHOLE_MOST));
        FV_TRY(fv_config_u32s(whole, count, &r->vision, "fullatt_block_indexes", 0, UINT32_MAX));
    }
    v->window = pixels / merged / v->patch * merged;
    if (!v->window)
        return fv_fail(FOVEA_EFORMAT,
                       "%s: \"window_size\" is %u; it must be at least %u, the side of %u patches",
                       r->config->file, pixels, merged * v->patch, merged);
    for (uint32_t i = 0; i < v->depth; i++) {
        v->block[i].windowed = true;
        for (uint32_t k = 0; k < count; k++)
            v->block[i].windowed = v->block[i].windowed && whole[k] != i;
    }
    return FOVEA_OK;
}

static void make_windows(fv_vit_stream *c)
{
    fv_windows *w = &c->windows;
    const fv_grid *grid = &c->b->options->grid;
    const uint32_t longer = grid->width > grid->height ? grid->width : grid->height;
    if (w->rows)
        return;
    /* a window that is larger than the grid has all patches */
    *w = fv_windows_make(c->b, grid, c->v->window < longer ? c->v->window : longer,
                         (fv_window_shift){0});
    if (w->rows > fv_grid_tokens(&w->grid))
        c->absent = fv_emit_table(c->b, w->rows);
    for (uint32_t i = 0; c->absent && c->b->status == FOVEA_OK && i < w->rows; i++)
        c->absent[i] = w->token[i] == FV_GATHER_NONE;
}

void fv_vit_emit_windows(fv_vit_stream *c, uint32_t i)
{
    fv_builder *b = c->b;
    const fv_vit *v = c->v;
    const fv_vit_block *w = &v->block[i];
    const fv_grid *grid = &b->options->grid;
    const uint32_t width = v->width, d = width / v->heads, n = c->tokens;
    fv_weight cosines, sines;
    make_windows(c);
    if (b->status != FOVEA_OK)
        return;
    const uint32_t rows = c->windows.rows;
    const fv_view normed = fv_layer_norm(b, "norm for q, k, v", &w->ln1, c->x, v->eps, n);
    fv_view qkv = fv_emit_rows(b, n, 3 * width);
    fv_layer_write(b, "q", &w->q, normed, qkv, n);
    fv_layer_write(b, "k, v", &w->kv, normed, fv_view_cols(qkv, width), n);
    fv_vit_emit_tables(c, i, &cosines, &sines);
    fv_emit_rope(b, "queries and keys turned", qkv, &cosines, &sines, grid, 2 * v->heads, d, qkv);
    if (c->windows.token) {
        const fv_view sorted = fv_emit_rows(b, rows, 3 * width);
        fv_emit_gather(b, "into windows", qkv, c->windows.token, 1, FV_NO_VIEW, sorted, rows,
                       3 * width);
        qkv = sorted;
    }
    const fv_attention a = {.heads = v->heads,
                            .d = d,
                            .dv = d,
                            .queries = rows,
                            .keys = rows,
                            .scale = 1 / sqrt(d),
                            .k = fv_view_cols(qkv, width),
                            .v = fv_view_cols(qkv, 2 * width),
                            .grid = grid};
    const fv_view out = fv_emit_rows(b, rows, width);
    fv_emit_window(b, "attention", &a, qkv, c->windows.side * c->windows.side, c->absent, out);
    c->x = fv_windows_leave(b, &c->windows, "projection", &w->proj, out, c->x);
}
