/* conv_module.c: convolutions with what mmcv's ConvModule puts behind them, and resizing. */
#include <stdio.h>

#include "models/decoder.h"
#include "models/fold.h"

static fovea_status read_conv(fv_conv_module *c, fv_tensor_reader *t, const char *conv,
                              const char *norm, const uint32_t shape[3])
{
    c->size = shape[2];
    return fv_fold(&c->l, t, "",
                   &(const fv_fold_layer){.stem = conv,
                                          .norm = norm,
                                          .unbiased = norm != NULL,
                                          .rows = shape[0],
                                          .channels = shape[1],
                                          .size = shape[2],
                                          .by_tap = shape[2] > 1});
}

fovea_status fv_conv_module_read(fv_conv_module *c, fv_tensor_reader *t, const char *name,
                                 uint32_t rows, uint32_t channels, uint32_t size, uint32_t act)
{
    char conv[80], norm[80];
    snprintf(conv, sizeof conv, "%sconv.", name);
    snprintf(norm, sizeof norm, "%sbn.", name);
    c->act = act;
    const bool normed = fv_reader_find(t, "", norm, "weight") != NULL;
    return read_conv(c, t, conv, normed ? norm : NULL, (const uint32_t[]){rows, channels, size});
}

fovea_status fv_conv_plain_read(fv_conv_module *c, fv_tensor_reader *t, const char *name,
                                uint32_t rows, uint32_t channels, uint32_t size)
{
    return read_conv(c, t, name, NULL, (const uint32_t[]){rows, channels, size});
}

fv_grid fv_conv_module_grid(const fv_grid *from, uint32_t stride)
{
    return (fv_grid){(from->width - 1) / stride + 1, (from->height - 1) / stride + 1,
                     from->stride * stride, 0};
}

void fv_conv_module_write(fv_builder *b, const char *label, const fv_conv_module *c,
                          const fv_level *in, uint32_t stride, fv_view out)
{
    if (c->size == 1) {
        const fv_gemm g = {.w = &c->l.w,
                           .bias = &c->l.b,
                           .in = in->rows,
                           .res = FV_NO_VIEW,
                           .out = out,
                           .act = c->act,
                           .rows = fv_grid_tokens(&in->grid)};
        fv_emit_gemm(b, label, &g);
        return;
    }
    const fv_conv conv = {.w = &c->l.w,
                          .bias = &c->l.b,
                          .in = in->rows,
                          .out = out,
                          .from = in->grid,
                          .to = fv_conv_module_grid(&in->grid, stride),
                          .channels = in->channels,
                          .size = c->size,
                          .stride = stride,
                          .pad = 1,
                          .act = c->act};
    fv_emit_conv(b, label, &conv);
}

fv_level fv_conv_module_emit(fv_builder *b, const char *label, const fv_conv_module *c,
                             const fv_level *in, uint32_t stride)
{
    fv_level out = {.grid = fv_conv_module_grid(&in->grid, stride), .channels = c->l.w.rows};
    out.rows = fv_emit_rows(b, fv_grid_tokens(&out.grid), out.channels);
    fv_conv_module_write(b, label, c, in, stride, out.rows);
    return out;
}

void fv_conv_module_weights(const fv_conv_module *c, fv_weight_visit *visit, void *ctx)
{
    fv_layer_visit(&c->l, visit, ctx);
}

void fv_level_resize(fv_builder *b, const char *label, const fv_level *in, const fv_grid *to,
                     uint32_t rule, fv_view res, fv_view out)
{
    const fv_upsample u = {.in = in->rows,
                           .res = res,
                           .out = out,
                           .from = in->grid,
                           .to = *to,
                           .channels = in->channels,
                           .flags = rule};
    fv_emit_upsample(b, label, &u);
}

void fv_level_add(fv_builder *b, const char *label, const fv_level *in, const fv_level *to,
                  uint32_t rule)
{
    fv_level_resize(b, label, in, &to->grid, rule, to->rows, to->rows);
}
