/* conv_module.c: convolutions with the normalisation and activation of mmcv's ConvModule, and
 * resizing. */
#include <stdio.h>

#include "models/dense/decoder.h"
#include "models/fold.h"

#define EPS 1e-5f /* epsilon of group normalisation */

/* ---- reading ---- */

/* Reads a convolution. `norm` is the stem of its batch normalisation, or NULL. */
static fovea_status read_conv(fv_conv_module *c, fv_tensor_reader *t, const char *conv,
                              const char *norm, bool unbiased, const uint32_t shape[3])
{
    c->size = shape[2];
    return fv_fold(&c->l, t, "",
                   &(const fv_fold_layer){.stem = conv,
                                          .norm = norm,
                                          .unbiased = unbiased,
                                          .rows = shape[0],
                                          .channels = shape[1],
                                          .size = shape[2],
                                          .by_tap = shape[2] > 1});
}

static fovea_status read_groups(fv_conv_module *c, fv_decoder_reader *r, const char *norm,
                                uint32_t channels)
{
    if (channels % r->norm_groups != 0)
        return fv_fail(FOVEA_EFORMAT,
                       "%s: \"%s\" normalises %u channels, which %u groups do not divide; set "
                       "\"num_groups\" of \"norm_cfg\", or of \"fovea\"",
                       r->config->file, norm, channels, r->norm_groups);
    c->groups = r->norm_groups;
    r->d->group_norms = true;
    return fv_reader_norm(&c->norm, &r->t, "", norm, channels);
}

fovea_status fv_conv_module_read(fv_conv_module *c, fv_decoder_reader *r, const char *name,
                                 uint32_t rows, uint32_t channels, uint32_t size, uint32_t act)
{
    const uint32_t shape[3] = {rows, channels, size};
    char conv[80], batch[80], group[80];
    snprintf(conv, sizeof conv, "%sconv.", name);
    snprintf(batch, sizeof batch, "%sbn.", name);
    if (!fv_reader_find(&r->t, "", batch, "weight"))
        snprintf(batch, sizeof batch, "%sbatch_norm.", name); /* of transformers */
    snprintf(group, sizeof group, "%sgn.", name);
    c->act = act;
    if (fv_reader_find(&r->t, "", batch, "weight"))
        return read_conv(c, &r->t, conv, batch, true, shape);
    if (!fv_reader_find(&r->t, "", group, "weight"))
        return read_conv(c, &r->t, conv, NULL, false, shape);
    FV_TRY(read_conv(c, &r->t, conv, NULL, true, shape));
    return read_groups(c, r, group, rows);
}

fovea_status fv_conv_plain_read(fv_conv_module *c, fv_tensor_reader *t, const char *name,
                                uint32_t rows, uint32_t channels, uint32_t size)
{
    return read_conv(c, t, name, NULL, false, (const uint32_t[]){rows, channels, size});
}

void fv_conv_module_weights(const fv_conv_module *c, fv_weight_visit *visit, void *ctx)
{
    fv_layer_visit(&c->l, visit, ctx);
}

/* ---- computing ---- */

fv_grid fv_conv_module_grid(const fv_grid *from, uint32_t stride)
{
    return (fv_grid){(from->width - 1) / stride + 1, (from->height - 1) / stride + 1,
                     from->stride * stride, 0};
}

static void convolve(fv_builder *b, const char *label, const fv_conv_module *c, const fv_level *in,
                     uint32_t stride, uint32_t act, fv_view out)
{
    if (c->size == 1) {
        const fv_gemm g = {.w = &c->l.w,
                           .bias = &c->l.b,
                           .in = in->rows,
                           .res = FV_NO_VIEW,
                           .out = out,
                           .act = act,
                           .rows = fv_grid_tokens(&in->grid),
                           .decoder = true};
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
                          .act = act};
    fv_emit_conv(b, label, &conv);
}

static void normalise(fv_builder *b, const char *label, const fv_conv_module *c, fv_view in,
                      const fv_grid *grid, fv_view out)
{
    char text[64];
    snprintf(text, sizeof text, "%s norm", label);
    const fv_groupnorm n = {.w = &c->norm.w,
                            .bias = &c->norm.b,
                            .in = in,
                            .out = out,
                            .rows = fv_grid_tokens(grid),
                            .groups = c->groups,
                            .act = c->act,
                            .eps = EPS};
    fv_emit_groupnorm(b, text, &n);
}

void fv_conv_module_write(fv_builder *b, const char *label, const fv_conv_module *c,
                          const fv_level *in, uint32_t stride, fv_view out)
{
    if (!c->groups) {
        convolve(b, label, c, in, stride, c->act, out);
        return;
    }
    const fv_grid grid = fv_conv_module_grid(&in->grid, stride);
    const fv_view sums = fv_emit_rows(b, fv_grid_tokens(&grid), c->l.w.rows);
    convolve(b, label, c, in, stride, 0, sums);
    normalise(b, label, c, sums, &grid, out);
}

fv_level fv_conv_module_finish(fv_builder *b, const char *label, const fv_conv_module *c,
                               const fv_level *sums)
{
    const uint32_t n = fv_grid_tokens(&sums->grid);
    fv_level out = *sums;
    if (c->groups) {
        out.rows = fv_emit_rows(b, n, out.channels);
        normalise(b, label, c, sums->rows, &out.grid, out.rows);
    } else {
        fv_emit_act(b, label, c->act, out.rows, out.rows, n, out.channels);
    }
    return out;
}

fv_level fv_conv_module_emit(fv_builder *b, const char *label, const fv_conv_module *c,
                             const fv_level *in, uint32_t stride)
{
    fv_level out = {.grid = fv_conv_module_grid(&in->grid, stride), .channels = c->l.w.rows};
    out.rows = fv_emit_rows(b, fv_grid_tokens(&out.grid), out.channels);
    fv_conv_module_write(b, label, c, in, stride, out.rows);
    return out;
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
