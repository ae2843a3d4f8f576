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
    {.name = NULL},
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
    .sizes = sizes,
};

static const char *synthetic(size_t index)
{
    return fv_pyramid_synthetic(&form, index);
}

static fovea_status make_synthetic(json_t **config, struct fv_source *source, const char *name)
{
    return fv_pyramid_make_synthetic(config, source, &form, name);
}

const fv_family fv_family_nalaformer = {
    .name = "nalaformer",
    .types = "nalaformer",
    .attention = "nala",
    .form = &form,
    .read = fv_pyramid_read,
    .grid = fv_pyramid_grid,
    .emit = fv_pyramid_emit,
    .weights = fv_pyramid_weights,
    .release = fv_pyramid_release,
    .synthetic = synthetic,
    .decodes = true,
    .make_synthetic = make_synthetic,
};
