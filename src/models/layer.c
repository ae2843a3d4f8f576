/* layer.c: emits steps that compute a layer into new rows. */
#include "models/layer.h"

static fv_view emit(fv_builder *b, const char *label, const fv_layer *l, fv_gemm g)
{
    g.w = &l->w;
    g.bias = &l->b;
    g.out = fv_emit_rows(b, g.rows, l->w.rows);
    fv_emit_gemm(b, label, &g);
    return g.out;
}

fv_view fv_layer_product(fv_builder *b, const char *label, const fv_layer *l, fv_view in,
                         uint32_t act, uint32_t rows)
{
    return emit(b, label, l, (fv_gemm){.in = in, .res = FV_NO_VIEW, .act = act, .rows = rows});
}

fv_view fv_layer_add(fv_builder *b, const char *label, const fv_layer *l, fv_view in, fv_view res,
                     uint32_t rows)
{
    return emit(b, label, l, (fv_gemm){.in = in, .res = res, .rows = rows});
}

void fv_layer_write(fv_builder *b, const char *label, const fv_layer *l, fv_view in, fv_view out,
                    uint32_t rows)
{
    const fv_gemm g = {
        .w = &l->w, .bias = &l->b, .in = in, .res = FV_NO_VIEW, .out = out, .rows = rows};
    fv_emit_gemm(b, label, &g);
}

void fv_layer_norm_write(fv_builder *b, const char *label, const fv_layer *l, fv_view in, float eps,
                         fv_view out, uint32_t rows)
{
    const fv_rmsnorm n = {.w = &l->w,
                          .in = in,
                          .gate = FV_NO_VIEW,
                          .head_gate = FV_NO_VIEW,
                          .out = out,
                          .rows = rows,
                          .heads = 1,
                          .eps = eps};
    if (fv_weight_present(&l->b))
        fv_emit_layernorm(b, label, in, &l->w, &l->b, eps, out, rows);
    else
        fv_emit_rmsnorm(b, label, &n);
}

fv_view fv_layer_norm(fv_builder *b, const char *label, const fv_layer *l, fv_view in, float eps,
                      uint32_t rows)
{
    fv_view out = fv_emit_rows(b, rows, l->w.cols);
    fv_layer_norm_write(b, label, l, in, eps, out, rows);
    return out;
}
