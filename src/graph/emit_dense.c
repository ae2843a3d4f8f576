/* emit_dense.c: emits steps of decoders: activations, resized grids, transposed convolutions. */
#include "base/mem.h"
#include "graph/emit.h"
#include "ops/contracts/grid.h"
#include "ops/upsample.h"

void fv_emit_act(fv_builder *b, const char *label, uint32_t act, fv_view in, fv_view out,
                 uint32_t rows, uint32_t cols)
{
    fv_emit_row_step(b, FV_OP_ACT, label, in, FV_KIND_ROW, out, rows, cols)->prob.epi = act;
}

static bool fits(fv_builder *b, const fv_grid *g)
{
    if (b->status == FOVEA_OK &&
        (g->width > FV_UPSAMPLE_LONGEST || g->height > FV_UPSAMPLE_LONGEST))
        b->status = fv_fail(FOVEA_ENOTSUP,
                            "the decoder's grid has %u x %u positions; sides must be at most %d: "
                            "use a smaller picture",
                            g->width, g->height, FV_UPSAMPLE_LONGEST);
    return b->status == FOVEA_OK;
}

void fv_emit_upsample(fv_builder *b, const char *label, const fv_upsample *u)
{
    if (!fits(b, &u->from) || !fits(b, &u->to))
        return;
    fv_step *s = fv_emit_row_step(b, FV_OP_UPSAMPLE, label, u->in, FV_KIND_WHOLE, u->out,
                                  u->to.width * u->to.height, u->channels);
    s->prob.flags = u->flags;
    s->u[0] = u->from.width;
    s->u[1] = u->from.height;
    s->u[2] = u->to.width;
    fv_use_value(s, FV_UPSAMPLE_RES, u->res, FV_KIND_ROW);
}

/* Computes the block of pixels of each row of the grid: with a product, or with `overlap` by a
 * convolution whose result is one pixel wider and higher. */
static void emit_blocks(fv_builder *b, const char *label, const fv_deconv *d, fv_view out,
                        const fv_grid *grid)
{
    if (!d->overlap) {
        fv_emit_gemm(b, label,
                     &(fv_gemm){.w = d->w,
                                .bias = d->bias,
                                .in = d->in,
                                .res = FV_NO_VIEW,
                                .out = out,
                                .act = d->act,
                                .rows = grid->width * grid->height,
                                .decoder = true});
        return;
    }
    fv_emit_conv(b, label,
                 &(fv_conv){.w = d->w,
                            .bias = d->bias,
                            .in = d->in,
                            .out = out,
                            .from = d->from,
                            .to = *grid,
                            .channels = d->from_channels,
                            .size = 2,
                            .stride = 1,
                            .pad = 1,
                            .act = d->act});
}

/* Makes each row of the grid `from` a block of stride x stride pixels of a grid `wide` pixels
 * wide. */
static fv_step *emit_shuffle(fv_builder *b, const char *label, fv_view in, const fv_grid *from,
                             uint32_t stride, uint32_t wide, fv_view out, uint32_t rows,
                             uint32_t channels)
{
    fv_step *s =
        fv_emit_row_step(b, FV_OP_PIXEL_SHUFFLE, label, in, FV_KIND_WHOLE, out, rows, channels);
    s->prob.dim[FV_SHUFFLE_SCALE] = stride;
    s->u[0] = from->width;
    s->u[1] = wide;
    return s;
}

fv_view fv_emit_unfold(fv_builder *b, const char *label, fv_view in, uint32_t side, uint32_t cols)
{
    const fv_grid one = {1, 1, 0, 0};
    const fv_view out = fv_emit_rows(b, side * side, cols);
    emit_shuffle(b, label, in, &one, side, side, out, side * side, cols);
    return out;
}

void fv_emit_deconv(fv_builder *b, const char *label, const fv_deconv *d)
{
    const uint32_t wide = d->from.width * d->stride, high = d->from.height * d->stride;
    const fv_grid grid = {d->from.width + d->overlap, d->from.height + d->overlap, 0, 0};
    const fv_grid fine = {wide, high, 0, 0};
    if (!fits(b, &fine))
        return;
    const fv_view blocks = fv_emit_rows(b, grid.width * grid.height, d->w->rows);
    emit_blocks(b, label, d, blocks, &grid);
    emit_shuffle(b, label, blocks, &grid, d->stride, wide, d->out, wide * high, d->channels)->u[2] =
        d->overlap;
}
