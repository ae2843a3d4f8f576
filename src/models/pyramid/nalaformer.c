/* nalaformer.c: NaLaFormer: norm-aware linear attention in the early stages, softmax in the late
 * ones.
 *
 *     attn = LN(attention(q, k, v) + lepe(v)) * silu(g)
 */
#include "models/pyramid/pyramid.h"

#define INNER_EPS 1e-5f

static fv_view mix(const fv_pyramid_mix *m)
{
    const uint32_t n = fv_grid_tokens(&m->grid);
    fv_view sum = fv_pyramid_lepe(m, FV_NO_VIEW);
    fv_view normed = fv_emit_rows(m->b, n, m->width), out = fv_emit_rows(m->b, n, m->width);
    fv_emit_layernorm(m->b, "inner norm", sum, &m->w->inner.w, &m->w->inner.b, INNER_EPS, normed,
                      n);
    fv_emit_mul(m->b, "gate", normed, m->gate, true, out, n, m->width);
    return out;
}

static const fv_pyramid_spec sizes[] = {
    {"nalaformer-xt", {32, 64, 128, 384}, {2, 2, 2, 2}, {1, 2, 4, 12}, 3.5, 1024},
    {"nalaformer-t", {64, 128, 256, 512}, {2, 2, 6, 2}, {1, 2, 4, 8}, 4, 1024},
    {"nalaformer-s", {64, 128, 320, 512}, {3, 5, 9, 3}, {1, 2, 5, 8}, 3.5, 1024},
    {"nalaformer-b", {96, 192, 384, 512}, {4, 6, 12, 6}, {1, 2, 6, 8}, 4, 1024},
    {"nalaformer-l", {96, 192, 448, 640}, {4, 7, 19, 8}, {1, 2, 7, 10}, 3.5, 1024},
};

static const fv_pyramid_form form = {
    .type = "nalaformer",
    .mech = FV_MECH_NALA,
    .cpe1 = "cpe1.",
    .cpe2 = "cpe2.",
    .fused = "attn.qkvg.",
    .inner = "attn.ln.",
    .proj = "attn.out_proj.",
    .mix = mix,
};

FV_PYRAMID_FAMILY(nalaformer, "nala")
