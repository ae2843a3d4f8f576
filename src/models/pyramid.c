/* pyramid.c: the steps of MAViT and NaLaFormer.
 *
 *     x = stem(picture), a quarter of its width and height
 *     per block:  x = cpe1(x);  x = x + attention(LN1 x);  x = cpe2(x);  x = x + ffn(LN2 x)
 *     between stages:  x = convolution of stride 2
 *     logits = head mean silu(projection x)
 *
 * Keys of a block close the sweep of the block before; its queries, and with linear attention its
 * values once more, come from a norm of their own. So only x crosses the barrier between them
 * (softmax: x, K and V). No step writes x in place: a convolution reads its neighbours.
 */
#include "models/pyramid.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "models/segmentation.h"

#define EPS 1e-6f
#define NONE ((fv_view){FV_NO_VALUE, 0})

struct context {
    fv_builder *b;
    const fovea_model *m;
    const fv_pyramid_form *form;
    const fv_pyramid *p;
    const fv_pyramid_stage *s;
    fv_grid grid;
    uint32_t tokens;
    uint32_t done;      /* blocks */
    fv_view x;          /* the residual stream */
    fv_weight cos, sin; /* of the stage */
};

static uint32_t half(uint32_t n)
{
    return n / 2 + n % 2;
}

static fv_grid coarser(const fv_grid *g)
{
    return (fv_grid){half(g->width), half(g->height), g->stride * 2, 0};
}

static void begin_grid(struct context *c, const fv_grid *grid)
{
    c->grid = *grid;
    c->tokens = fv_grid_tokens(grid);
}

static void gemm(const struct context *c, const char *label, const fv_weight *w,
                 const fv_weight *bias, fv_view in, fv_view res, uint32_t act, fv_view out)
{
    const fv_gemm g = {
        .w = w, .bias = bias, .in = in, .res = res, .out = out, .act = act, .rows = c->tokens};
    fv_emit_gemm(c->b, label, &g);
}

static fv_view norm(const struct context *c, const char *label, const fv_weight *w,
                    const fv_weight *bias)
{
    fv_view out = fv_emit_rows(c->b, c->tokens, c->s->width);
    fv_emit_layernorm(c->b, label, c->x, w, bias, EPS, out, c->tokens);
    return out;
}

/* Offers x as a feature. */
static void feature(const struct context *c, const char *name, uint32_t cols, const fv_weight *w,
                    const fv_weight *bias)
{
    if (!w || !fv_weight_present(w)) {
        fv_emit_offer(c->b, name, c->x, c->tokens, cols, &c->grid);
        return;
    }
    fv_view out = fv_emit_output(c->b, name, c->tokens, cols, &c->grid, false);
    if (out.id >= 0)
        fv_emit_layernorm(c->b, name, c->x, w, bias, EPS, out, c->tokens);
}

/* ---- stem and downsampling ---- */

static void convolve(struct context *c, const char *label, const fv_weight *w,
                     const fv_weight *bias, uint32_t stride, uint32_t act)
{
    const fv_grid from = c->grid, to = stride == 2 ? coarser(&from) : from;
    begin_grid(c, &to);
    fv_view out = fv_emit_rows(c->b, c->tokens, w->rows);
    const fv_conv conv = {.w = w,
                          .bias = bias,
                          .in = c->x,
                          .out = out,
                          .from = from,
                          .to = to,
                          .channels = w->cols / 9,
                          .size = 3,
                          .stride = stride,
                          .pad = 1,
                          .act = act};
    fv_emit_conv(c->b, label, &conv);
    c->x = out;
}

static void stem(struct context *c)
{
    fv_builder *b = c->b;
    const fv_weight *w = c->p->stem_w, *bias = c->p->stem_b;
    const fv_grid first = {half(b->width), half(b->height), 2, 0};
    begin_grid(c, &first);
    fv_view patches = fv_emit_rows(b, c->tokens, w[0].cols);
    fv_emit_patches(b, &first, 3, 2, 1, patches);
    c->x = fv_emit_rows(b, c->tokens, w[0].rows);
    gemm(c, "stem 1", &w[0], &bias[0], patches, NONE, FV_EPI_GELU, c->x);
    convolve(c, "stem 2", &w[1], &bias[1], 1, FV_EPI_GELU);
    convolve(c, "stem 3", &w[2], &bias[2], 1, FV_EPI_GELU);
    convolve(c, "stem 4", &w[3], &bias[3], 2, 0);
    feature(c, "patch_embed", w[3].rows, NULL, NULL);
}

/* ---- blocks ---- */

/* x = x + depthwise convolution of x: the filters have the residual in them. */
static fv_view residual_dwconv(const struct context *c, const char *label, fv_view in,
                               const fv_weight *w, const fv_weight *bias)
{
    fv_view out = fv_emit_rows(c->b, c->tokens, w->rows);
    const fv_dwconv conv = {.w = w,
                            .bias = bias,
                            .in = in,
                            .res = NONE,
                            .gate = NONE,
                            .out = out,
                            .width = c->grid.width,
                            .height = c->grid.height,
                            .count = 1,
                            .channels = w->rows,
                            .size = 3};
    fv_emit_dwconv(c->b, label, &conv);
    return out;
}

fv_view fv_pyramid_lepe(const fv_pyramid_mix *m, fv_view gate)
{
    fv_view out = fv_emit_rows(m->b, fv_grid_tokens(&m->grid), m->width);
    const fv_dwconv conv = {.w = &m->w->lepe_w,
                            .bias = &m->w->lepe_b,
                            .in = m->v,
                            .res = m->attention,
                            .gate = gate,
                            .out = out,
                            .width = m->grid.width,
                            .height = m->grid.height,
                            .count = 1,
                            .channels = m->width,
                            .size = 5};
    fv_emit_dwconv(m->b, "lepe", &conv);
    return out;
}

/* Parts of the fused projection. */
enum { Q = 1, K = 2, V = 4, GATE = 8 };

static void slice_fused(fv_weight *w, fv_weight *bias, const fv_pyramid_block *block,
                        uint32_t width, uint32_t which)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < 4; i++)
        n += which >> i & 1;
    *w = (fv_weight){.rows = n * width, .cols = width};
    *bias = (fv_weight){.rows = 1, .cols = n * width};
    uint32_t at = 0;
    for (uint32_t i = 0; i < 4; i++) {
        if (!(which >> i & 1))
            continue;
        fv_weight_add(w, (fv_weight_part){.tensor = block->fused_w,
                                          .offset = (uint64_t)i * width * width,
                                          .row0 = at,
                                          .rows = width,
                                          .cols = width});
        fv_weight_add(bias, (fv_weight_part){.tensor = block->fused_b,
                                             .offset = (uint64_t)i * width,
                                             .rows = 1,
                                             .col0 = at,
                                             .cols = width});
        at += width;
    }
}

static fv_view project(const struct context *c, const char *label, const fv_pyramid_block *w,
                       fv_view in, uint32_t which)
{
    fv_weight weight, bias;
    slice_fused(&weight, &bias, w, c->s->width, which);
    fv_view out = fv_emit_rows(c->b, c->tokens, weight.rows);
    gemm(c, label, &weight, &bias, in, NONE, 0, out);
    return out;
}

static void rotate(const struct context *c, const char *label, fv_view x)
{
    const uint32_t heads = c->s->heads;
    fv_emit_rope(c->b, label, x, &c->cos, &c->sin, &c->grid, heads, c->s->width / heads, x);
}

static void attend(struct context *c, const fv_pyramid_block *w)
{
    const fv_attention_name *attention = fv_block_attention(c->b, c->done);
    fv_builder *b = c->b;
    const uint32_t width = c->s->width, d = width / c->s->heads;
    const bool linear = w->linear && attention->kind != FV_ATTENTION_SOFTMAX;
    fv_view normed = norm(c, "norm for k, v", &w->ln1_w, &w->ln1_b);
    fv_view kv = project(c, "k, v", w, normed, K | V);
    fv_attention a = {.mech = linear ? c->form->mech : FV_MECH_ANY,
                      .heads = c->s->heads,
                      .d = d,
                      .dv = d,
                      .queries = c->tokens,
                      .keys = c->tokens,
                      .k = kv,
                      .v = fv_view_cols(kv, width)};
    fv_attention_scales(&a, attention, 1 / sqrt(d), 1e-6);
    if (linear) { /* features are rotated inside of the mechanism */
        a.flags = FV_FLAG_ROPE;
        a.cos = c->cos;
        a.sin = c->sin;
        a.rope_width = c->grid.width;
    } else {
        rotate(c, "rotate k", kv);
    }
    fv_emit_keys(b, "keys", &a);

    normed = norm(c, "norm for q", &w->ln1_w, &w->ln1_b);
    fv_view q =
        project(c, linear ? "q, v, gate" : "q, gate", w, normed, linear ? Q | V | GATE : Q | GATE);
    if (!linear)
        rotate(c, "rotate q", q);
    fv_pyramid_mix m = {.b = b,
                        .w = w,
                        .grid = c->grid,
                        .width = width,
                        .attention = fv_emit_rows(b, c->tokens, width),
                        .v = linear ? fv_view_cols(q, width) : a.v,
                        .gate = fv_view_cols(q, linear ? 2 * width : width)};
    fv_emit_queries(b, "attention", &a, q, m.attention);
    fv_view mixed = c->form->mix(&m), out = fv_emit_rows(b, c->tokens, width);
    gemm(c, "projection", &w->proj_w, &w->proj_b, mixed, c->x, 0, out);
    c->x = out;
}

static void mlp(struct context *c, const fv_pyramid_block *w)
{
    fv_view normed = norm(c, "mlp norm", &w->ln2_w, &w->ln2_b);
    fv_view h = fv_emit_rows(c->b, c->tokens, c->s->hidden);
    gemm(c, "fc1", &w->fc1_w, &w->fc1_b, normed, NONE, FV_EPI_GELU, h);
    h = residual_dwconv(c, "mlp conv", h, &w->dw_w, &w->dw_b);
    fv_view out = fv_emit_rows(c->b, c->tokens, c->s->width);
    gemm(c, "fc2", &w->fc2_w, &w->fc2_b, h, c->x, 0, out);
    c->x = out;
}

static void block(struct context *c, const fv_pyramid_block *w)
{
    c->x = residual_dwconv(c, "cpe", c->x, &w->cpe1_w, &w->cpe1_b);
    attend(c, w);
    if (fv_weight_present(&w->cpe2_w))
        c->x = residual_dwconv(c, "cpe 2", c->x, &w->cpe2_w, &w->cpe2_b);
    mlp(c, w);
}

/* A segmentation head on the stage's feature. */
static void segment(const struct context *c, uint32_t i)
{
    const fv_pyramid_stage *s = c->s;
    if (!fv_segmentation_wants(c->m, c->b, i))
        return;
    const bool normed = fv_weight_present(&s->norm_w);
    fv_view in = normed ? norm(c, "norm of the feature", &s->norm_w, &s->norm_b) : c->x;
    fv_segmentation_emit(c->m, c->b, i, in, &c->grid);
}

static void stage(struct context *c, uint32_t i)
{
    const fv_pyramid_stage *s = &c->p->stage[i];
    char text[40];
    c->s = s;
    fv_emit_rope_tables(c->b, &c->grid, s->width / s->heads, &c->cos, &c->sin);
    for (uint32_t k = 0; k < s->depth && c->b->status == FOVEA_OK; k++, c->done++) {
        snprintf(c->b->scope, sizeof c->b->scope, "stage %u block %u", i + 1, k);
        block(c, &s->block[k]);
    }
    c->b->scope[0] = 0;
    snprintf(text, sizeof text, "stage%u", i + 1);
    feature(c, text, s->width, &s->norm_w, &s->norm_b);
    segment(c, i);
    if (!fv_weight_present(&s->down_w))
        return;
    snprintf(text, sizeof text, "down%u", i + 1);
    convolve(c, text, &s->down_w, &s->down_b, 2, 0);
    feature(c, text, s->down_w.rows, NULL, NULL);
}

/* ---- head ---- */

static void head(const struct context *c)
{
    fv_builder *b = c->b;
    const fv_pyramid *p = c->p;
    const bool wanted = fv_emit_wants(b, "logits");
    if (!fv_weight_present(&p->proj_w))
        return;
    const uint32_t width = p->proj_w.rows;
    fv_view pooled = fv_emit_output(b, "pooled", 1, width, NULL, wanted);
    if (pooled.id < 0)
        return;
    fv_view projected = fv_emit_rows(b, c->tokens, width);
    gemm(c, "projection", &p->proj_w, &p->proj_b, c->x, NONE, FV_EPI_SILU, projected);
    fv_emit_mean(b, "mean", projected, &c->grid, width, pooled);
    if (!wanted)
        return;
    const fv_gemm g = {.w = &p->head_w,
                       .bias = &p->head_b,
                       .in = pooled,
                       .res = NONE,
                       .out = fv_emit_output(b, "logits", 1, p->head_w.rows, NULL, true),
                       .rows = 1};
    fv_emit_gemm(b, "head", &g);
}

/* ---- the model ---- */

fovea_status fv_pyramid_grid(const fovea_model *m, fv_builder *b)
{
    (void)m;
    const fv_grid first = {half(b->width), half(b->height), 2, 0};
    b->grid = coarser(&first);
    return FOVEA_OK;
}

static fovea_status check_attention(const fovea_model *m, const fv_attention_name *name)
{
    const fv_pyramid_form *form = m->family->form;
    char text[64];
    if (name->kind == FV_ATTENTION_SOFTMAX ||
        (name->kind == FV_ATTENTION_MECHANISM && name->mech == form->mech && !name->gated))
        return FOVEA_OK;
    return fv_fail(FOVEA_ENOTSUP,
                   "attention %s in a %s: its weights are made for its own attention; use %s, or "
                   "softmax in all blocks",
                   fv_attention_text(name, text), form->type, m->family->attention);
}

fovea_status fv_pyramid_emit(const fovea_model *m, fv_builder *b)
{
    struct context c = {.b = b, .m = m, .form = m->family->form, .p = m->roles};
    for (uint32_t i = 0; i < b->blocks; i++)
        FV_TRY(check_attention(m, fv_block_attention(b, i)));
    stem(&c);
    for (uint32_t i = 0; i < c.p->stages && b->status == FOVEA_OK; i++)
        stage(&c, i);
    head(&c);
    return b->status;
}
