/* vit.c: emits the steps of a pre-norm vision transformer: ViT, DeiT, DINOv2, DINOv3, CLIP, SigLIP,
 * EVA, BEiT.
 *
 *     x = embed(patches) + positions
 *     x = x + ls1 attention(LN1 x);  x = x + ls2 mlp(LN2 x)      per block
 *     heads on LN x
 *
 * A block's keys and values are computed before its queries, from a separate copy of the norm. They
 * are the last steps of the previous block's sweep. So only x (linear attention), or x, K and V
 * (softmax), has to be stored between sweeps. */
#include "models/vit/vit.h"

#include <math.h>
#include <stdio.h>

#include "graph/attended.h"
#include "models/layer.h"
#include "models/segmentation.h"
#include "models/vit/dpt_head.h"
#include "models/vit/vit_emit.h"
#include "ops/contracts/grid.h"
#include "ops/mech_traits.h"

static const char *name(char buf[40], const char *format, uint32_t i)
{
    snprintf(buf, 40, format, i);
    return buf;
}

static fv_gemm linear(const fv_layer *l, fv_view in, fv_view out, uint32_t rows)
{
    return (fv_gemm){
        .w = &l->w, .bias = &l->b, .in = in, .res = FV_NO_VIEW, .out = out, .rows = rows};
}

static void norm(const fv_vit_stream *c, const char *label, fv_view in, const fv_layer *l,
                 fv_view out, uint32_t rows)
{
    fv_layer_norm_write(c->b, label, l, in, c->v->eps, out, rows);
}

/* Returns the class, distillation and register rows with their positions added. */
static fv_weight prefix_rows(const fv_vit *v)
{
    fv_weight sum = v->prefix_rows;
    for (uint32_t i = 0; i < v->prefix_add.parts; i++) {
        fv_weight_part part = v->prefix_add.part[i];
        part.sum = true;
        fv_weight_add(&sum, part);
    }
    return sum;
}

void fv_vit_emit_embed(fv_vit_stream *c)
{
    fv_builder *b = c->b;
    const fv_vit *v = c->v;
    uint32_t row = v->channels * v->patch * v->patch;
    fv_view patches = fv_emit_rows(b, c->tokens, row);
    fv_emit_patches(b, &b->options->grid, v->patch, v->patch, v->patch_pad, patches);

    c->x = fv_layer_product(b, "embed", &v->embed, patches, 0, c->tokens);

    if (fv_weight_present(&v->embed_norm.w))
        norm(c, "norm of the embedding", c->x, &v->embed_norm, c->x, c->tokens);
    const fv_weight prefix = prefix_rows(v);
    const fv_posemb p = {&prefix, &v->table, v->table_width, v->table_height, v->pos_rule};
    if (fv_weight_present(&v->table) || fv_weight_present(&prefix))
        fv_emit_posemb(b, "positions", &p, &b->options->grid, c->x, c->x);

    if (fv_weight_present(&v->pre.w))
        norm(c, "pre-norm", c->x, &v->pre, c->x, c->tokens);
}

void fv_vit_emit_hidden(const fv_vit_stream *c, uint32_t i)
{
    char text[40];
    fv_emit_offer(c->b, name(text, "hidden%u", i), c->x, c->tokens, c->v->width,
                  &c->b->options->grid);
}

/* Returns whether block i has SLA's gates. Without weights, all gates are equal. Equal gates change
 * nothing if a token's gates sum to the number of heads, but they do if the sum is 1. */
static bool gated(const fv_vit_stream *c, const fv_attention_name *attention, uint32_t i)
{
    return attention->gated && (c->v->sla_share || fv_weight_present(&c->v->block[i].sla_q));
}

/* Emits SLA's gates of q or k. `made` are the rows of q or k, and x the rows from which these were
 * projected. Without weights, the logits are a product with 0, so that all gates are equal. */
static fv_view gates(const fv_vit_stream *c, const char *label, const fv_weight *w, fv_view x,
                     fv_view made)
{
    fv_builder *b = c->b;
    float *zeros;
    const uint32_t heads = c->v->linear.heads;
    const bool given = fv_weight_present(w);
    fv_view logits = fv_emit_rows(b, c->tokens, heads);
    const fv_layer l = {.w = given ? *w : fv_emit_constant(b, heads, 1, &zeros)};
    if (b->status != FOVEA_OK)
        return logits;
    fv_layer_write(b, label, &l, given && !c->v->sla_of_x ? made : x, logits, c->tokens);
    return fv_emit_gates(b, label, logits, c->v->sla_share ? 1.f : (float)heads, heads, c->tokens);
}

/* Emits the rotation of queries or keys by the positions of their tokens (RoPE). Linear attention
 * rotates its features itself. */
static void turn(const fv_vit_stream *c, const char *label, const fv_attention *a, fv_view x)
{
    const uint32_t d = a->cos.cols; /* columns of one head, or of all heads */
    if (c->v->rope.rule != FV_ROPE_NONE)
        fv_emit_rope(c->b, label, x, &a->cos, &a->sin, &c->b->options->grid,
                     d ? c->v->width / d : 0, d, x);
}

/* Returns the frequencies of block i: for the x axis, then for the y axis. */
static fv_weight block_frequencies(const fv_vit *v, uint32_t i)
{
    const uint32_t n = v->heads, d = v->frequencies.cols;
    fv_weight w = {.rows = 2 * n, .cols = d};
    for (uint32_t axis = 0; axis < 2; axis++) {
        fv_weight_part part = v->frequencies.part[0];
        part.offset += (uint64_t)(axis * v->depth + i) * n * d;
        part.row0 = axis * n;
        part.rows = n;
        fv_weight_add(&w, part);
    }
    return w;
}

void fv_vit_emit_tables(const fv_vit_stream *c, uint32_t i, fv_weight *cos, fv_weight *sin)
{
    fv_builder *b = c->b;
    const fv_vit *v = c->v;
    if (v->rope.rule == FV_ROPE_MIXED) {
        const fv_weight own = block_frequencies(v, i);
        fv_emit_rope_mixed(b, &own, &b->options->grid, cos, sin);
        return;
    }
    if (v->rope.rule != FV_ROPE_NONE && !fv_weight_present(&b->cos))
        fv_emit_rope_tokens(b, &v->rope, &b->options->grid, v->width / v->heads, &b->cos, &b->sin);
    *cos = b->cos;
    *sin = b->sin;
}

/* Makes linear attention in block i rotate its features, by the same angles in all heads. */
static void turn_features(const fv_vit_stream *c, const fv_attention_name *attention, uint32_t i,
                          fv_attention *a)
{
    fv_builder *b = c->b;
    if (c->v->rope.rule == FV_ROPE_MIXED)
        FV_THEN(b->status,
                fv_fail(FOVEA_ENOTSUP,
                        "block %u: rotary positions with separate frequencies for each head work "
                        "only with softmax and foveated attention; use one of them",
                        i));
    if (fv_mech_table[a->mech]->wants & FV_WANT_SHIFT)
        FV_THEN(b->status,
                fv_fail(FOVEA_ENOTSUP,
                        "block %u: %s%s scales each channel, but rotary positions would mix "
                        "channels; use linear:elu1, or another feature map",
                        i, attention->gated ? "sla-" : "", fv_mech_table[a->mech]->name));
    if (a->heads != c->v->heads)
        FV_THEN(b->status, fv_fail(FOVEA_ENOTSUP,
                                   "block %u: rotary positions are for the model's %u heads, not "
                                   "for linear_heads %u; leave linear_heads out",
                                   i, c->v->heads, a->heads));
    a->flags |= FV_FLAG_ROPE;
}

/* Returns the constant of a mechanism: nala_lambda or pola_alpha; 0 for other mechanisms. */
static double constant_of(const fv_vit *v, uint32_t mech)
{
    const bool nala = mech == FV_MECH_NALA || mech == FV_MECH_NALA_PAPER;
    const float other = mech == FV_MECH_POLA ? v->linear.pola_alpha : 0;
    return (double)(nala ? v->linear.nala_lambda : other);
}

/* Fails unless the number of the mechanism's streams divides the channels of a head. */
static void check_heads(fv_builder *b, const fv_attention *a, uint32_t i)
{
    const fv_mech_traits *t = fv_mech_table[a->mech];
    if (t->streams > 1 && a->dv % t->streams)
        FV_THEN(b->status, fv_fail(FOVEA_ENOTSUP,
                                   "block %u: %s needs heads with an even number of channels, not "
                                   "%u; choose other linear_heads",
                                   i, t->title, a->dv));
}

/* Returns whether the block has learned maps before the feature map. */
static bool maps(const fv_vit_block *w, uint32_t mech)
{
    return mech == FV_MECH_HEDGEHOG && fv_weight_present(&w->map_q.w);
}

/* Returns whether the projection and the map are computed as one layer. In training they are not,
 * because training needs both results. */
static bool maps_at_once(const fv_vit_stream *c, const fv_layer *with_map)
{
    return !c->b->options->training && fv_weight_present(&with_map->w);
}

/* Emits the projection of keys, through the learned map if `mapped`, then of values. */
static fv_view keys_and_values(const fv_vit_stream *c, const fv_vit_block *w, bool mapped,
                               fv_view normed)
{
    fv_builder *b = c->b;
    const uint32_t n = c->tokens, width = c->v->width;
    if (!mapped)
        return fv_layer_product(b, "k, v", &w->kv, normed, 0, n);
    const fv_view kv = fv_emit_rows(b, n, 2 * width);
    if (maps_at_once(c, &w->mapped_k)) {
        fv_layer_write(b, "k", &w->mapped_k, normed, kv, n);
    } else {
        const fv_view k = fv_layer_product(b, "k", &w->k, normed, 0, n);
        fv_layer_write(b, "map of k", &w->map_k, k, kv, n);
    }
    fv_layer_write(b, "v", &w->v, normed, fv_view_cols(kv, width), n);
    return kv;
}

/* Emits the norm of each head's part of q or k, if the block has it. */
static void norm_heads(const fv_vit_stream *c, const char *label, const fv_weight *w, fv_view x)
{
    const fv_rmsnorm n = {.w = w,
                          .in = x,
                          .gate = FV_NO_VIEW,
                          .head_gate = FV_NO_VIEW,
                          .out = x,
                          .rows = c->tokens,
                          .heads = c->v->heads,
                          .eps = c->v->eps};
    if (fv_weight_present(w))
        fv_emit_rmsnorm(c->b, label, &n);
}

/* Emits the projection of block i's keys and values from normalised tokens, and sets up `a`. */
static void project_kv(const fv_vit_stream *c, const fv_attention_name *attention, uint32_t i,
                       fv_view normed, fv_attention *a)
{
    fv_builder *b = c->b;
    const fv_vit_block *w = &c->v->block[i];
    uint32_t n = c->tokens, width = c->v->width;
    char text[40];
    const fv_view kv = keys_and_values(c, w, maps(w, attention->mech), normed);
    norm_heads(c, "norm of k", &w->norm_k, kv);
    const bool softmax = attention->mech == FV_MECH_ANY;
    const uint32_t heads = softmax ? c->v->heads : c->v->linear.heads, d = width / heads;
    *a = (fv_attention){.mech = attention->mech,
                        .heads = heads,
                        .d = d,
                        .dv = d,
                        .queries = n,
                        .keys = n,
                        .flags = gated(c, attention, i) ? FV_FLAG_GATED : 0,
                        .alpha = constant_of(c->v, attention->mech),
                        .k = kv,
                        .v = fv_view_cols(kv, width),
                        .margin = attention->margin,
                        .grid = &b->options->grid};
    check_heads(b, a, i);
    if (w->vectors.rows == fv_mech_table[a->mech]->params)
        a->param = w->vectors;
    /* The papers add eps to means over tokens. Here, linear attention adds it to sums over n
     * tokens. */
    const bool sums = attention->kind == FV_ATTENTION_LINEAR;
    fv_attention_scales(a, attention, sums ? 1 : 1 / sqrt(d), sums ? 1e-6 * n : 1e-6);
    if (a->flags & FV_FLAG_GATED)
        a->gate_k = gates(c, "gates of k", &w->sla_k, normed, kv);
    fv_vit_emit_tables(c, i, &a->cos, &a->sin);
    if (a->mech == FV_MECH_ANY)
        turn(c, "keys turned", a, kv);
    else if (c->v->rope.rule != FV_ROPE_NONE)
        turn_features(c, attention, i, a);
    fv_emit_offer(b, name(text, "block%u.k", i), kv, n, width, &b->options->grid);
    fv_emit_keys(b, "keys", a);
}

/* Returns whether biases are added to the scores of block i. Only softmax over all tokens has
 * biases. */
static bool biased(const fv_vit_stream *c, const fv_attention_name *attention, uint32_t i)
{
    return attention->kind == FV_ATTENTION_SOFTMAX && fv_vit_has_bias(c->v, i);
}

/* Emits the attention of a->queries rows of q, from row `from` on, and writes the result to the
 * same rows of `out`. The other rows of `out` become those of `res`, or 0 without `res`. */
static void attend_rows(const fv_vit_stream *c, const char *label, const fv_attention *a, fv_view q,
                        uint32_t from, fv_view res, fv_view out)
{
    fv_builder *b = c->b;
    const uint32_t width = c->v->width;
    const fv_view some = fv_emit_rows(b, a->queries, width);
    const fv_view seen = fv_emit_rows(b, a->queries, width);
    uint32_t *table = fv_emit_table(b, c->tokens);
    for (uint32_t i = 0; table && i < c->tokens; i++)
        table[i] = i >= from && i - from < a->queries ? i - from : FV_GATHER_NONE;
    fv_emit_take(b, label, q, from, some, a->queries, width);
    fv_emit_queries(b, label, a, some, seen);
    if (table)
        fv_emit_gather(b, label, seen, table, 1, res, out, c->tokens, width);
}

/* Emits attention in which the first c->masked tokens attend inside their masks, and the others to
 * all tokens. */
static void attend_masked(const fv_vit_stream *c, const fv_attention_name *attention, uint32_t i,
                          fv_attention a, fv_view q, fv_view out)
{
    fv_builder *b = c->b;
    if (attention->kind != FV_ATTENTION_SOFTMAX || attention->gated)
        FV_THEN(
            b->status,
            fv_fail(FOVEA_ENOTSUP,
                    "block %u: queries attend inside masks, which needs softmax; use softmax@%u-",
                    i, i));
    a.queries = c->tokens - c->masked;
    attend_rows(c, "attention", &a, q, c->masked, FV_NO_VIEW, out);
    a.queries = c->masked;
    fv_emit_mask_keys(b, "masks", &a, c->masks, b->options->grid.width * b->options->grid.height,
                      false);
    attend_rows(c, "masked attention", &a, q, 0, out, out);
}

/* Emits the projection of queries by layer `l`. Linear attention may scale the queries. */
static void project_q(const fv_vit_stream *c, const fv_layer *l, bool softmax, fv_view normed,
                      fv_view q)
{
    const fv_vit *v = c->v;
    fv_gemm g = linear(l, normed, q, c->tokens);
    fv_weight scale;
    float *factor;
    if (!softmax && v->linear.q_scale != 1) {
        scale = fv_emit_constant(c->b, 1, v->width, &factor);
        for (uint32_t k = 0; factor && k < v->width; k++)
            factor[k] = v->linear.q_scale;
        g.scale = &scale;
    }
    fv_emit_gemm(c->b, "q", &g);
}

/* Emits the projection of queries from normalised tokens, and the attention to the keys and values
 * of `a`. `dwc` is the convolution of v, if a model with prefix tokens has one. */
static fv_view attend(const fv_vit_stream *c, const fv_attention_name *attention, uint32_t i,
                      fv_view normed, fv_view dwc, fv_attention *a)
{
    fv_builder *b = c->b;
    const fv_vit_block *w = &c->v->block[i];
    uint32_t n = c->tokens, width = c->v->width;
    char text[40];
    fv_view q = fv_emit_output(b, name(text, "block%u.q", i), n, width, &b->options->grid, true);
    fv_view out = fv_emit_rows(b, n, width);
    const bool mapped = maps(w, a->mech), at_once = mapped && maps_at_once(c, &w->mapped_q);
    const fv_view made = mapped && !at_once ? fv_emit_rows(b, n, width) : q;
    project_q(c, at_once ? &w->mapped_q : &w->q, a->mech == FV_MECH_ANY, normed, made);
    if (mapped && !at_once)
        fv_layer_write(b, "map of q", &w->map_q, made, q, n);
    norm_heads(c, "norm of q", &w->norm_q, q);
    if (a->flags & FV_FLAG_GATED)
        a->gate_q = gates(c, "gates of q", &w->sla_q, normed, q);
    if (a->mech == FV_MECH_ANY)
        turn(c, "queries turned", a, q);
    fv_attended *at = fv_attended_note(b, text, attention, a, n);
    if (biased(c, attention, i)) { /* as one window of all tokens */
        a->param = fv_vit_emit_bias(c->v, b, i);
        if (at)
            fv_attended_in_windows(b, at, n, NULL, NULL);
        fv_emit_window(b, "attention", a, q, n, NULL, out);
    } else if (c->masked) {
        attend_masked(c, attention, i, *a, q, out);
    } else {
        fv_emit_queries(b, "attention", a, q, out);
    }
    out = fv_vit_emit_module(b, &w->module, a->mech, normed, dwc, out);
    return fv_weight_present(&w->inner.w)
               ? fv_layer_norm(b, "inner norm", &w->inner, out, c->v->eps, n)
               : out;
}

static void enter_block(fv_builder *b, uint32_t i)
{
    fv_emit_enter_block(b, "block %u", i);
}

/* Emits the convolution of v in a model with prefix tokens, in a separate sweep over only the
 * patches. */
static fv_view convolve_patches(const fv_vit_stream *c, const fv_vit_block *w)
{
    const fv_view rows = fv_vit_emit_patch_rows(c->b, c->x, c->v->width);
    const fv_view normed = fv_layer_norm(c->b, "norm of patches", &w->ln1, rows, c->v->eps,
                                         c->tokens - c->b->options->grid.prefix);
    return fv_vit_emit_dwc(c->b, &w->module, normed, FV_NO_VIEW);
}

static void emit_attention(fv_vit_stream *c, uint32_t i)
{
    fv_builder *b = c->b;
    const fv_vit_block *w = &c->v->block[i];
    const fv_attention_name *attention = fv_block_attention(b, i);
    uint32_t n = c->tokens, width = c->v->width;
    fv_attention a;
    fv_view normed = fv_emit_rows(b, n, width), again = normed, dwc = FV_NO_VIEW;
    const bool one_sweep = biased(c, attention, i);
    const bool convolves = fv_vit_convolves(&w->module, attention->mech);
    norm(c, one_sweep ? "norm for q, k, v" : "norm for k, v", c->x, &w->ln1, normed, n);
    project_kv(c, attention, i, normed, &a);
    if (convolves && b->options->grid.prefix)
        dwc = convolve_patches(c, w);
    if (!one_sweep) {
        again = fv_emit_rows(b, n, width);
        norm(c, "norm for q", c->x, &w->ln1, again, n);
    }
    fv_view out = attend(c, attention, i, again, dwc, &a);
    if (b->options->training && b->options->training->attended)
        b->options->training->attended(b->options->training->ctx, b, i, normed, out);
    fv_gemm g = linear(&w->proj, out, c->x, n);
    g.scale = &w->ls1;
    g.res = c->x;
    if (convolves && !b->options->grid.prefix) /* the convolution still reads other rows of x */
        c->x = g.out = fv_emit_rows(b, n, width);
    fv_emit_gemm(b, "projection", &g);
}

static fv_view attend_alone(const fovea_model *m, fv_builder *b, uint32_t i,
                            const fv_attention_name *attention, fv_view normed)
{
    const fv_vit_stream c = {
        .b = b, .v = m->roles, .tokens = fv_grid_tokens(&b->options->grid), .x = FV_NO_VIEW};
    const fv_vit_module *w = &c.v->block[i].module;
    fv_view dwc = FV_NO_VIEW;
    fv_attention a;
    enter_block(b, i);
    if (c.v->block[i].windowed)
        FV_THEN(b->status,
                fv_fail(FOVEA_ENOTSUP,
                        "block %u attends inside windows and cannot be trained; train a model "
                        "whose blocks attend to all patches, such as a DINOv2",
                        i));
    project_kv(&c, attention, i, normed, &a);
    if (b->options->grid.prefix && fv_vit_convolves(w, attention->mech))
        dwc = fv_vit_emit_dwc(b, w, fv_vit_emit_patch_rows(b, normed, c.v->width), FV_NO_VIEW);
    return attend(&c, attention, i, normed, dwc, &a);
}

static fv_view project_alone(const fovea_model *m, fv_builder *b, uint32_t i, fv_view seen)
{
    const fv_vit *v = m->roles;
    const uint32_t rows = fv_grid_tokens(&b->options->grid);
    enter_block(b, i);
    return fv_layer_product(b, "output", &v->block[i].proj, seen, 0, rows);
}

/* Emits the first product of a gated MLP whose activation no product has: half of its channels,
 * activated, times the other half. */
static void gated_product(fv_builder *b, uint32_t act, const fv_layer *fc1, fv_view normed,
                          fv_view out, uint32_t rows)
{
    const fv_layer gate = fv_vit_half(fc1, false), up = fv_vit_half(fc1, true);
    const fv_view factor = fv_layer_product(b, "fc1, activated", &gate, normed, act, rows);
    const fv_view h = fv_layer_product(b, "fc1", &up, normed, 0, rows);
    fv_emit_mul(b, "gated", h, factor, false, out, rows, gate.w.rows);
}

/* Emits an MLP. `inner` is a norm of the input of fc2; it may be NULL or absent. */
static void mlp(const fv_vit_stream *c, const fv_layer *ln, const fv_layer *fc1,
                const fv_layer *inner, const fv_layer *fc2, const fv_weight *scale, fv_view x,
                uint32_t rows)
{
    fv_builder *b = c->b;
    fv_view normed = fv_layer_norm(b, "mlp norm", ln, x, c->v->eps, rows);
    fv_view h = fv_emit_rows(b, rows, fc2->w.cols);
    fv_gemm g = linear(fc1, normed, h, rows);
    g.act = c->v->epi;
    if (c->v->gated)
        gated_product(b, c->v->epi, fc1, normed, h, rows);
    else
        fv_emit_gemm(b, "fc1", &g);
    if (inner && fv_weight_present(&inner->w))
        h = fv_layer_norm(b, "inner norm", inner, h, c->v->eps, rows);
    g = linear(fc2, h, x, rows);
    g.scale = scale;
    g.res = x;
    fv_emit_gemm(b, "fc2", &g);
}

void fv_vit_emit_block(fv_vit_stream *c, uint32_t i)
{
    const fv_vit_block *w = &c->v->block[i];
    enter_block(c->b, i);
    if (w->windowed)
        fv_vit_emit_windows(c, i);
    else
        emit_attention(c, i);
    mlp(c, &w->ln2, &w->fc1, &w->inner_mlp, &w->fc2, &w->ls2, c->x, c->tokens);
    fv_emit_leave_block(c->b);
}

/* Emits attention pooling (SigLIP): one learned query over all tokens, then a residual MLP. */
static void pool_map(const fv_vit_stream *c, fv_view y, fv_view out)
{
    fv_builder *b = c->b;
    const fv_vit *v = c->v;
    uint32_t n = c->tokens, width = v->width, heads = v->map.heads, d = width / heads;
    snprintf(b->scope, sizeof b->scope, "pool");
    if (v->map.patches && b->options->grid.prefix) {
        const fv_view all = y;
        n -= b->options->grid.prefix;
        y = fv_emit_rows(b, n, width);
        fv_emit_take(b, "patches", all, b->options->grid.prefix, y, n, width);
    }
    fv_view q = fv_emit_rows(b, 1, width);
    fv_gemm g = linear(&v->map.q, FV_NO_VIEW, q, 1);
    g.in_weight = &v->map.probe;
    fv_emit_gemm(b, "query", &g);

    fv_view kv = fv_layer_product(b, "k, v", &v->map.kv, y, 0, n);
    const fv_attention a = {.heads = heads,
                            .d = d,
                            .keys = n,
                            .scale = 1 / sqrt(d),
                            .k = kv,
                            .v = fv_view_cols(kv, width)};
    fv_view seen = fv_emit_pool(b, "attention", "merge", &a, q);

    fv_layer_write(b, "projection", &v->map.out, seen, out, 1);
    mlp(c, &v->map.ln, &v->map.fc1, NULL, &v->map.fc2, NULL, out, 1);
    b->scope[0] = 0;
}

/* Emits token `row` of the prefix, normalised, written to the row `out`. Only this token is
 * normalised, from the residual stream, so that the normalised tokens need not be stored for it. */
static void prefix_token(const fv_vit_stream *c, uint32_t row, fv_view out)
{
    const fv_vit *v = c->v;
    bool normed = fv_weight_present(&v->post.w);
    fv_view x = normed ? fv_emit_rows(c->b, 1, v->width) : out;
    fv_emit_take(c->b, "prefix token", c->x, row, x, 1, v->width);
    if (normed)
        norm(c, "final norm of the token", x, &v->post, out, 1);
}

static void pool(const fv_vit_stream *c, fv_view y, fv_view pooled)
{
    const fv_vit *v = c->v;
    const bool normed = fv_weight_present(&v->fc_norm.w);
    const fv_view out = normed ? fv_emit_rows(c->b, 1, v->width) : pooled;
    fv_view row;
    fv_gemm g;
    switch (v->pool) {
    case FV_POOL_NONE:
        break;
    case FV_POOL_CLS:
        prefix_token(c, 0, out);
        break;
    case FV_POOL_MEAN:
        fv_emit_mean(c->b, "mean of patches", y, &c->b->options->grid, v->width, out);
        break;
    case FV_POOL_LARGEST:
        fv_emit_largest(c->b, "largest of patches", y, &c->b->options->grid, v->width, out);
        break;
    case FV_POOL_MEAN_LARGEST:
        fv_emit_mean_and_largest(c->b, "mean and largest", y, &c->b->options->grid, v->width, out);
        break;
    case FV_POOL_CLS_TANH:
        row = fv_emit_rows(c->b, 1, v->width);
        prefix_token(c, 0, row);
        g = linear(&v->pooler, row, out, 1);
        g.act = FV_EPI_TANH;
        fv_emit_gemm(c->b, "pooler", &g);
        break;
    case FV_POOL_MAP:
        pool_map(c, y, out);
        break;
    }
    if (normed)
        norm(c, "norm of the pooled", out, &v->fc_norm, pooled, 1);
}

/* Emits the segmentation logits of the patches. In a model with prefix tokens, the patches are
 * normalised again from the residual stream, which is stored anyway. */
static void segment(const fv_vit_stream *c, const fovea_model *m, bool normed, fv_view y)
{
    fv_builder *b = c->b;
    const fv_vit *v = c->v;
    const uint32_t prefix = b->options->grid.prefix, rows = c->tokens - prefix;
    if (!fv_segmentation_wants(m, b, 0))
        return;
    if (prefix) {
        y = fv_emit_rows(b, rows, v->width);
        fv_emit_take(b, "patches of the result", c->x, prefix, y, rows, v->width);
    }
    if (prefix && normed)
        y = fv_layer_norm(b, "final norm of patches", &v->post, y, v->eps, rows);
    fv_segmentation_emit(m, b, 0, y, &b->options->grid);
}

/* Emits C-RADIO's outputs: the concatenated class tokens of the summary, and the patches. */
static void summarise(const fv_vit_stream *c, fv_view y)
{
    fv_builder *b = c->b;
    const fv_vit *v = c->v;
    const uint32_t rows = c->tokens - b->options->grid.prefix;
    const fv_grid patches = {.width = b->options->grid.width, .height = b->options->grid.height};
    const fv_view all = fv_emit_output(b, "summary", 1, v->summaries * v->width, NULL, false);
    for (uint32_t i = 0; i < v->summaries && all.id >= 0; i++)
        prefix_token(c, v->summary[i], fv_view_cols(all, i * v->width));
    const fv_view features = fv_emit_output(b, "features", rows, v->width, &patches, false);
    if (features.id >= 0)
        fv_emit_take(b, "patches", y, b->options->grid.prefix, features, rows, v->width);
}

/* Emits the merger, whose rows are squares of patches. Patches at the right and bottom that fill no
 * square are left out. */
static void merge(const fv_vit_stream *c)
{
    fv_builder *b = c->b;
    const fv_vit *v = c->v;
    const uint32_t side = v->merger.side, width = v->merger.fc1.w.rows;
    const fv_grid from = b->options->grid;
    if (!side || from.width < side || from.height < side)
        return;
    const fv_grid to = {from.width / side, from.height / side, from.stride * side, 0};
    const uint32_t rows = fv_grid_tokens(&to);
    const fv_view out = fv_emit_output(b, "merged_patches", rows, v->merger.fc2.w.rows, &to, false);
    if (out.id < 0)
        return;
    const fv_conv conv = {
        .w = &v->merger.fc1.w,
        .bias = &v->merger.fc1.b,
        .in = fv_layer_norm(b, "merger's norm", &v->merger.norm, c->x, v->eps, c->tokens),
        .out = fv_emit_rows(b, rows, width),
        .from = from,
        .to = to,
        .channels = v->width,
        .size = side,
        .stride = side,
        .act = FV_EPI_GELU};
    fv_emit_conv(b, "merger's fc1", &conv);
    fv_layer_write(b, "merger's fc2", &v->merger.fc2, conv.out, out, rows);
}

static void head(const fv_vit_stream *c, fv_view y, fv_view pooled)
{
    fv_builder *b = c->b;
    const fv_vit *v = c->v;
    uint32_t width = v->width;
    fv_view logits =
        fv_emit_task_output(b, "logits", FOVEA_OUTPUT_LOGITS, 1, v->classifier.w.rows, NULL, false);
    if (logits.id < 0)
        return;
    fv_view in = pooled;
    switch (v->head) {
    case FV_HEAD_NONE:
    case FV_HEAD_POOL:
        break;
    case FV_HEAD_CLS:
        in = fv_emit_rows(b, 1, width);
        prefix_token(c, 0, in);
        break;
    case FV_HEAD_CLS_DIST:
        in = fv_emit_rows(b, 1, 2 * width);
        prefix_token(c, 0, in);
        prefix_token(c, 1, fv_view_cols(in, width));
        break;
    case FV_HEAD_CLS_MEAN:
        in = fv_emit_rows(b, 1, 2 * width);
        fv_emit_mean(b, "mean of patches", y, &b->options->grid, width, fv_view_cols(in, width));
        prefix_token(c, 0, in);
        break;
    case FV_HEAD_MEAN:
        in = fv_emit_rows(b, 1, width);
        fv_emit_mean(b, "mean of patches", y, &b->options->grid, width, in);
        break;
    }
    fv_layer_write(b, "head", &v->classifier, in, logits, 1);
}

fv_view fv_vit_emit_blocks(const fv_vit *v, fv_builder *b, fv_vit_after *after, void *ctx)
{
    fv_vit_stream c = {.b = b, .v = v, .tokens = fv_grid_tokens(&b->options->grid)};
    fv_vit_emit_embed(&c);
    for (uint32_t i = 0; i <= v->depth && b->status == FOVEA_OK; i++) {
        if (i > 0)
            fv_vit_emit_block(&c, i - 1);
        fv_vit_emit_hidden(&c, i);
        if (after)
            after(ctx, b, i, c.x);
        b->checkpoint_segment++;
    }
    return c.x;
}

static fovea_status emit(const fovea_model *m, fv_builder *b)
{
    const fv_vit *v = m->roles;
    fv_vit_stream c = {.b = b, .v = v, .tokens = fv_grid_tokens(&b->options->grid)};
    fv_dpt_taps taps;
    fv_dpt_taps_begin(&taps, m, b);
    c.x = fv_vit_emit_blocks(v, b, fv_dpt_taps_after, &taps);
    if (b->status != FOVEA_OK)
        return b->status;

    bool normed = !v->post_on_pooled && fv_weight_present(&v->post.w);
    fv_view y =
        fv_emit_output(b, "last_hidden_state", c.tokens, v->width, &b->options->grid, normed);
    if (normed)
        norm(&c, "final norm", c.x, &v->post, y, c.tokens);
    else if (y.id >= 0)
        fv_emit_copy(b, "last hidden state", c.x, y, c.tokens, v->width);
    if (!normed)
        y = c.x;

    bool embeds = fv_emit_wants(b, "image_embeds");
    bool needed = embeds || (v->head == FV_HEAD_POOL && fv_emit_wants(b, "logits"));
    fv_view pooled = fv_emit_output(b, "pooler_output", 1, v->width, NULL, needed);
    if (pooled.id >= 0)
        pool(&c, y, pooled);
    if (embeds) {
        fv_view out = fv_emit_output(b, "image_embeds", 1, v->embeds.w.rows, NULL, false);
        fv_layer_write(b, "projection to embeddings", &v->embeds, pooled, out, 1);
    }
    if (v->summaries)
        summarise(&c, y);
    merge(&c);
    head(&c, y, pooled);
    segment(&c, m, normed, y);
    fv_dpt_taps_end(&taps, b);
    return b->status;
}

static void visit_weights(const fovea_model *m, enum fv_purpose purpose, fv_weight_visit *visit,
                          void *ctx)
{
    const fv_vit *v = m->roles;
    const fv_weight *positions[] = {&v->prefix_rows, &v->prefix_add, &v->table};
    for (uint32_t i = 0; purpose == FV_MAKES_ATTENTION && i < v->depth; i++) {
        const fv_vit_block *b = &v->block[i];
        const fv_vit_module *o = &b->module;
        const fv_layer *layers[] = {&b->q, &b->kv, &o->dwc, &o->ln, &o->gate, &b->map_q, &b->map_k};
        const fv_weight *others[] = {&b->sla_q, &b->sla_k, &b->vectors};
        for (size_t k = 0; k < sizeof layers / sizeof *layers; k++)
            fv_layer_visit(layers[k], visit, ctx);
        for (size_t k = 0; k < sizeof others / sizeof *others; k++)
            visit(ctx, others[k]);
    }
    for (size_t i = 0; purpose == FV_IS_POSITION && i < sizeof positions / sizeof *positions; i++)
        visit(ctx, positions[i]);
    if (purpose == FV_IS_HEAD)
        fv_layer_visit(&v->classifier, visit, ctx);
}

FV_DEFINE_FAMILY(vit, .name = "vit", .type = fv_vit_type_name, .attention = "softmax",
                 .shapes = true, .owns = fv_vit_owns, .read = fv_vit_read, .emit = emit,
                 .attend = attend_alone, .project = project_alone, .weights = visit_weights,
                 .release = fv_vit_release, .synthetic = &fv_vit_synthetics)
