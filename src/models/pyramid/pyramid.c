/* pyramid.c: emits the steps of MAViT and NaLaFormer.
 *
 *     x = stem(picture), a quarter of its width and height
 *     per block:  x = cpe1(x);  x = x + attention(LN1 x);  x = cpe2(x);  x = x + ffn(LN2 x)
 *     between stages:  x = convolution of stride 2
 *     logits = head mean silu(projection x)
 *
 * A block's keys are computed in the last steps of the previous block's sweep. Its queries, and
 * with linear attention its values again, are computed from a separate copy of the norm. So only x
 * has to be stored between sweeps (softmax: x, K and V). No step writes x in place, because
 * convolutions read adjacent rows. */
#include "models/pyramid/pyramid.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "graph/attended.h"
#include "models/dense/decoder.h"
#include "models/layer.h"
#include "models/segmentation.h"

#define EPS 1e-6f

struct context {
    fv_builder *b;
    const fovea_model *m;
    const fv_pyramid_form *form;
    const fv_pyramid *p;
    const fv_pyramid_stage *s;
    fv_grid grid;
    uint32_t tokens;
    uint32_t done;                     /* blocks */
    uint32_t stage, block;             /* numbers of the current stage and block */
    fv_view x;                         /* the residual stream */
    fv_weight cos, sin;                /* rotation of the stage */
    fv_level feature[FV_PYRAMID_MOST]; /* features of every stage, for a decoder */
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

static fv_view norm(const struct context *c, const char *label, const fv_layer *l)
{
    return fv_layer_norm(c->b, label, l, c->x, EPS, c->tokens);
}

/* Offers x as a feature output. */
static void feature(const struct context *c, const char *name, uint32_t cols, const fv_layer *l)
{
    if (!l || !fv_weight_present(&l->w)) {
        fv_emit_offer(c->b, name, c->x, c->tokens, cols, &c->grid);
    } else {
        fv_view out = fv_emit_output(c->b, name, c->tokens, cols, &c->grid, false);
        if (out.id >= 0)
            fv_emit_layernorm(c->b, name, c->x, &l->w, &l->b, EPS, out, c->tokens);
    }
    fv_emit_layout(c->b, name, FOVEA_OUTPUT_LAYOUT_PLANES);
}

/* ---- stem and downsampling ---- */

static void convolve(struct context *c, const char *label, const fv_layer *l, uint32_t stride,
                     uint32_t act)
{
    const fv_grid from = c->grid, to = stride == 2 ? coarser(&from) : from;
    begin_grid(c, &to);
    fv_view out = fv_emit_rows(c->b, c->tokens, l->w.rows);
    const fv_conv conv = {.w = &l->w,
                          .bias = &l->b,
                          .in = c->x,
                          .out = out,
                          .from = from,
                          .to = to,
                          .channels = l->w.cols / 9,
                          .size = 3,
                          .stride = stride,
                          .pad = 1,
                          .act = act,
                          .trunk = true};
    fv_emit_conv(c->b, label, &conv);
    c->x = out;
}

static void stem(struct context *c)
{
    fv_builder *b = c->b;
    const fv_layer *l = c->p->stem;
    const fv_grid first = {half(b->options->width), half(b->options->height), 2, 0};
    begin_grid(c, &first);
    fv_view patches = fv_emit_rows(b, c->tokens, l->w.cols);
    fv_emit_patches(b, &first, 3, 2, 1, patches);
    c->x = fv_layer_product(b, "stem 1", &l[0], patches, FV_EPI_GELU, c->tokens);
    convolve(c, "stem 2", &l[1], 1, FV_EPI_GELU);
    convolve(c, "stem 3", &l[2], 1, FV_EPI_GELU);
    convolve(c, "stem 4", &l[3], 2, 0);
    feature(c, "patch_embed", l[3].w.rows, NULL);
}

/* ---- blocks ---- */

/* Emits (res + depthwise convolution of in) * gate, and returns its rows. */
static fv_view dwconv(fv_builder *b, const char *label, const fv_layer *l, const fv_grid *grid,
                      fv_view in, fv_view res, fv_view gate, uint32_t size)
{
    const fv_dwconv conv = {.w = &l->w,
                            .bias = &l->b,
                            .in = in,
                            .res = res,
                            .gate = gate,
                            .out = fv_emit_rows(b, fv_grid_tokens(grid), l->w.rows),
                            .width = grid->width,
                            .height = grid->height,
                            .count = 1,
                            .channels = l->w.rows,
                            .size = size};
    fv_emit_dwconv(b, label, &conv);
    return conv.out;
}

/* Emits x = x + depthwise convolution of x. The residual is folded into the filters. */
static fv_view residual_dwconv(const struct context *c, const char *label, fv_view in,
                               const fv_layer *l)
{
    return dwconv(c->b, label, l, &c->grid, in, FV_NO_VIEW, FV_NO_VIEW, 3);
}

fv_view fv_pyramid_lepe(const fv_pyramid_mix *m, fv_view gate)
{
    return dwconv(m->b, "lepe", &m->w->lepe, &m->grid, m->v, m->attention, gate, 5);
}

/* Parts of the fused projection. */
enum { Q = 1, K = 2, V = 4, GATE = 8 };

static void slice_fused(fv_layer *l, const fv_pyramid_block *block, uint32_t width, uint32_t which)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < 4; i++)
        n += which >> i & 1;
    l->w = (fv_weight){.rows = n * width, .cols = width};
    l->b = (fv_weight){.rows = 1, .cols = n * width};
    uint32_t at = 0;
    for (uint32_t i = 0; i < 4; i++) {
        if (!(which >> i & 1))
            continue;
        fv_weight_add(&l->w, (fv_weight_part){.tensor = block->fused_w,
                                              .offset = (uint64_t)i * width * width,
                                              .row0 = at,
                                              .rows = width,
                                              .cols = width});
        fv_weight_add(&l->b, (fv_weight_part){.tensor = block->fused_b,
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
    fv_layer l;
    slice_fused(&l, w, c->s->width, which);
    return fv_layer_product(c->b, label, &l, in, 0, c->tokens);
}

static void rotate(const struct context *c, const char *label, fv_view x)
{
    const uint32_t heads = c->s->heads;
    fv_emit_rope(c->b, label, x, &c->cos, &c->sin, &c->grid, heads, c->s->width / heads, x);
}

/* Offers queries or keys as an output, in the form that the attention reads. */
static fv_block_output offer(const struct context *c, char what, fv_view rows)
{
    const fv_block_output name = fv_block_output_name(c->stage, c->block, what);
    fv_emit_offer(c->b, name.text, rows, c->tokens, c->s->width, &c->grid);
    return name;
}

static void attend(struct context *c, const fv_pyramid_block *w)
{
    const fv_attention_name *attention = fv_block_attention(c->b, c->done);
    fv_builder *b = c->b;
    const uint32_t width = c->s->width, d = width / c->s->heads;
    const fv_attention_name softmax = {.kind = FV_ATTENTION_SOFTMAX};
    const bool linear = w->linear && attention->kind != FV_ATTENTION_SOFTMAX;
    fv_view normed = norm(c, "norm for k, v", &w->ln1);
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
    if (linear) { /* linear attention rotates its features itself */
        a.flags = FV_FLAG_ROPE;
        a.cos = c->cos;
        a.sin = c->sin;
        a.rope_width = c->grid.width;
    } else {
        rotate(c, "rotate k", kv);
    }
    offer(c, 'k', kv);
    fv_emit_keys(b, "keys", &a);

    normed = norm(c, "norm for q", &w->ln1);
    fv_view q =
        project(c, linear ? "q, v, gate" : "q, gate", w, normed, linear ? Q | V | GATE : Q | GATE);
    if (!linear)
        rotate(c, "rotate q", q);
    fv_attended_note(b, offer(c, 'q', q).text, linear ? attention : &softmax, &a, c->tokens);
    fv_pyramid_mix m = {.b = b,
                        .w = w,
                        .grid = c->grid,
                        .width = width,
                        .attention = fv_emit_rows(b, c->tokens, width),
                        .v = linear ? fv_view_cols(q, width) : a.v,
                        .gate = fv_view_cols(q, linear ? 2 * width : width)};
    fv_emit_queries(b, "attention", &a, q, m.attention);
    c->x = fv_layer_add(b, "projection", &w->proj, c->form->mix(&m), c->x, c->tokens);
}

static void mlp(struct context *c, const fv_pyramid_block *w)
{
    fv_view normed = norm(c, "mlp norm", &w->ln2);
    fv_view h = fv_layer_product(c->b, "fc1", &w->fc1, normed, FV_EPI_GELU, c->tokens);
    h = residual_dwconv(c, "mlp conv", h, &w->dw);
    c->x = fv_layer_add(c->b, "fc2", &w->fc2, h, c->x, c->tokens);
}

static void block(struct context *c, const fv_pyramid_block *w)
{
    c->x = residual_dwconv(c, "cpe", c->x, &w->cpe1);
    attend(c, w);
    if (fv_weight_present(&w->cpe2.w))
        c->x = residual_dwconv(c, "cpe 2", c->x, &w->cpe2);
    mlp(c, w);
}

/* Sets the stage's feature, which a head reads. */
static void read_feature(struct context *c, uint32_t i)
{
    const fv_pyramid_stage *s = c->s;
    if (!fv_segmentation_wants(c->m, c->b, i) && !fv_decoder_wants(c->m, c->b))
        return;
    const bool normed = fv_weight_present(&s->norm.w);
    fv_view in = normed ? norm(c, "norm of the feature", &s->norm) : c->x;
    fv_segmentation_emit(c->m, c->b, i, in, &c->grid);
    c->feature[i] = (fv_level){.rows = in, .grid = c->grid, .channels = s->width};
}

static void stage(struct context *c, uint32_t i)
{
    const fv_pyramid_stage *s = &c->p->stage[i];
    char text[40];
    c->s = s;
    fv_emit_rope_tables(c->b, &c->grid, s->width / s->heads, &c->cos, &c->sin);
    for (uint32_t k = 0; k < s->depth && c->b->status == FOVEA_OK; k++, c->done++) {
        fv_emit_enter_block(c->b, "stage %u block %u", i + 1, k);
        c->stage = i;
        c->block = k;
        block(c, &s->block[k]);
    }
    fv_emit_leave_block(c->b);
    snprintf(text, sizeof text, "stage%u", i + 1);
    feature(c, text, s->width, &s->norm);
    read_feature(c, i);
    if (!fv_weight_present(&s->down.w))
        return;
    snprintf(text, sizeof text, "down%u", i + 1);
    convolve(c, text, &s->down, 2, 0);
    feature(c, text, s->down.w.rows, NULL);
}

/* ---- head ---- */

static void head(const struct context *c)
{
    fv_builder *b = c->b;
    const fv_pyramid *p = c->p;
    const bool wanted = fv_emit_wants(b, "logits");
    if (!fv_weight_present(&p->proj.w))
        return;
    const uint32_t width = p->proj.w.rows;
    fv_view pooled = fv_emit_output(b, "pooled", 1, width, NULL, wanted);
    fv_emit_layout(b, "pooled", FOVEA_OUTPUT_LAYOUT_PLANES);
    if (pooled.id < 0)
        return;
    fv_view projected = fv_layer_product(b, "projection", &p->proj, c->x, FV_EPI_SILU, c->tokens);
    fv_emit_mean(b, "mean", projected, &c->grid, width, pooled);
    if (!wanted)
        return;
    fv_layer_write(
        b, "head", &p->head, pooled,
        fv_emit_task_output(b, "logits", FOVEA_OUTPUT_LOGITS, 1, p->head.w.rows, NULL, true), 1);
}

/* ---- the model ---- */

fovea_status fv_pyramid_grid(const fovea_model *m, fv_emit_options *o)
{
    (void)m;
    const fv_grid first = {half(o->width), half(o->height), 2, 0};
    o->grid = coarser(&first);
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
                   "attention %s cannot be used in a %s, because its weights are made for its own "
                   "attention; use %s, or softmax in all blocks",
                   fv_attention_text(name, text), form->type, m->family->attention);
}

fovea_status fv_pyramid_emit(const fovea_model *m, fv_builder *b)
{
    struct context c = {.b = b, .m = m, .form = m->family->form, .p = m->roles};
    for (uint32_t i = 0; i < b->options->blocks; i++)
        FV_TRY(check_attention(m, fv_block_attention(b, i)));
    stem(&c);
    for (uint32_t i = 0; i < c.p->stages && b->status == FOVEA_OK; i++)
        stage(&c, i);
    head(&c);
    fv_decoder_emit(m, b, c.feature);
    return b->status;
}

void fv_pyramid_weights(const fovea_model *m, enum fv_purpose purpose, fv_weight_visit *visit,
                        void *ctx)
{
    const fv_pyramid *p = m->roles;
    if (purpose == FV_IS_HEAD)
        fv_layer_visit(&p->head, visit, ctx);
}
