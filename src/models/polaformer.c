/* polaformer.c: steps of the PolaFormer blocks.
 *
 *     x = x + proj((attention(q, k + positions, v) + depthwise convolution of v) * gate)
 *     x = x + mlp(norm x)
 *
 * Keys and values are written before the queries, from a norm of their own, so that only x crosses
 * from one sweep to the next; v is computed again beside q for its convolution.
 */
#include "models/polaformer.h"

#include <math.h>
#include <stdio.h>

#include "models/segmentation.h"

fovea_status fv_pola_check_attention(const fv_builder *b)
{
    for (uint32_t i = 0; i < b->blocks; i++) {
        const fv_attention_name *name = fv_block_attention(b, i);
        char text[64];
        if (name->kind != FV_ATTENTION_MECHANISM || name->mech != FV_MECH_POLA || name->gated)
            return fv_fail(FOVEA_ENOTSUP,
                           "attention %s in a PolaFormer: its blocks were trained with learned "
                           "powers, scales and gates that have no counterpart there; use pola",
                           fv_attention_text(name, text));
    }
    return FOVEA_OK;
}

void fv_pola_enter_block(fv_pola_context *c, uint32_t block)
{
    c->w = &c->s->block[block];
    snprintf(c->b->scope, sizeof c->b->scope, "stage %u block %u", c->stage + 1, block);
}

fv_view fv_pola_gemm(const fv_pola_context *c, const char *what, fv_gemm g)
{
    g.out = fv_emit_rows(c->b, g.rows, g.w->rows);
    fv_emit_gemm(c->b, what, &g);
    return g.out;
}

fv_view fv_pola_norm(const fv_pola_context *c, const char *what, fv_view in, const fv_weight *w,
                     const fv_weight *bias, float eps, uint32_t rows)
{
    fv_view out = fv_emit_rows(c->b, rows, w->cols);
    fv_emit_layernorm(c->b, what, in, w, bias, eps, out, rows);
    return out;
}

/* ---- attention ---- */

fv_attention fv_pola_attention(const fv_pola_context *c, uint32_t queries, uint32_t keys)
{
    const uint32_t d = fv_pola_head_dim(c->s);
    fv_attention a = {
        .heads = c->s->heads, .d = d, .dv = d, .queries = queries, .keys = keys, .eps = 1e-6};
    if (c->w->linear) {
        a.mech = FV_MECH_POLA;
        a.scale = 1;
        a.alpha = (double)c->p->alpha;
        a.param = c->w->learned;
    } else {
        a.mech = FV_MECH_ANY;
        a.scale = c->p->qk_scale != 0 ? (double)c->p->qk_scale : 1 / sqrt(d);
    }
    return a;
}

fv_view fv_pola_convolve(const fv_pola_context *c, const fv_grid *grid, uint32_t count,
                         fv_view attention, fv_view v, fv_view gate)
{
    const fv_dwconv d = {.w = &c->w->dwc_w,
                         .bias = &c->w->dwc_b,
                         .in = v,
                         .res = attention,
                         .gate = gate,
                         .out = fv_emit_rows(c->b, fv_grid_tokens(&c->grid), c->s->width),
                         .width = grid->width,
                         .height = grid->height,
                         .count = count,
                         .channels = c->s->width,
                         .size = c->p->kernel};
    fv_emit_dwconv(c->b, "convolution of v", &d);
    return d.out;
}

/* The rows that keys and values are projected from: the normalised tokens, or the coarser grid's.
 */
static fv_view key_rows(const fv_pola_context *c, uint32_t *keys)
{
    const fv_pola_block *w = c->w;
    const uint32_t n = fv_grid_tokens(&c->grid), r = w->reduction;
    fv_view normed =
        fv_pola_norm(c, "norm for k, v", c->x, &w->ln1_w, &w->ln1_b, c->p->block_eps, n);
    *keys = n;
    if (r == 1)
        return normed;
    const fv_grid to = {c->grid.width / r, c->grid.height / r, c->grid.stride * r, 0};
    *keys = fv_grid_tokens(&to);
    const fv_conv conv = {.w = &w->reduce_w,
                          .bias = &w->reduce_b,
                          .in = normed,
                          .out = fv_emit_rows(c->b, *keys, c->s->width),
                          .from = c->grid,
                          .to = to,
                          .channels = c->s->width,
                          .size = r,
                          .stride = r};
    fv_emit_conv(c->b, "reduction", &conv);
    return fv_pola_norm(c, "norm of the reduced", conv.out, &w->reduce_ln_w, &w->reduce_ln_b, 1e-5f,
                        *keys);
}

void fv_pola_attend(fv_pola_context *c)
{
    fv_builder *b = c->b;
    const fv_pola_block *w = c->w;
    const uint32_t n = fv_grid_tokens(&c->grid), width = c->s->width;
    const fv_view none = {FV_NO_VALUE, 0};
    uint32_t keys;
    fv_view in = key_rows(c, &keys);
    fv_view kv = fv_pola_gemm(
        c, "k, v", (fv_gemm){.w = &w->kv_w, .bias = &w->kv_b, .in = in, .res = none, .rows = keys});
    fv_attention a = fv_pola_attention(c, n, keys);
    a.k = kv;
    a.v = fv_view_cols(kv, width);
    if (w->linear) {
        const fv_grid rows = {keys, 1, 1, 0};
        const fv_posemb p = {.table = &w->positions};
        fv_emit_posemb(b, "positions of k", &p, &rows, kv, kv);
    }
    fv_emit_keys(b, "keys", &a);

    fv_view again = fv_pola_norm(c, "norm for q", c->x, &w->ln1_w, &w->ln1_b, c->p->block_eps, n);
    fv_view q =
        fv_pola_gemm(c, w->linear ? "q, v, gate" : "q",
                     (fv_gemm){.w = &w->q_w, .bias = &w->q_b, .in = again, .res = none, .rows = n});
    fv_view out = fv_emit_rows(b, n, width);
    fv_emit_queries(b, "attention", &a, q, out);
    if (w->linear) {
        fv_view v = fv_view_cols(q, width), gate = fv_view_cols(q, w->q_w.rows - width);
        if (w->reduction > 1) {
            v = fv_emit_rows(b, n, width);
            fv_emit_lerp(b, "v at every token", a.v, keys, v, n, width);
        }
        out = fv_pola_convolve(c, &c->grid, 1, out, v, gate);
    }
    c->x = fv_pola_gemm(
        c, "projection",
        (fv_gemm){.w = &w->proj_w, .bias = &w->proj_b, .in = out, .res = c->x, .rows = n});
}

/* ---- the rest ---- */

void fv_pola_mlp(fv_pola_context *c)
{
    const fv_pola_block *w = c->w;
    const uint32_t n = fv_grid_tokens(&c->grid);
    fv_view normed = fv_pola_norm(c, "mlp norm", c->x, &w->ln2_w, &w->ln2_b, c->p->block_eps, n);
    fv_view h = fv_pola_gemm(c, "fc1",
                             (fv_gemm){.w = &w->fc1_w,
                                       .bias = &w->fc1_b,
                                       .in = normed,
                                       .res = {FV_NO_VALUE, 0},
                                       .act = FV_EPI_GELU,
                                       .rows = n});
    c->x = fv_pola_gemm(
        c, "fc2", (fv_gemm){.w = &w->fc2_w, .bias = &w->fc2_b, .in = h, .res = c->x, .rows = n});
}

void fv_pola_offer(const fv_pola_context *c, const char *name, fv_view rows)
{
    char text[24];
    const uint32_t n = fv_grid_tokens(&c->grid);
    snprintf(text, sizeof text, "%s%u", name, c->stage + 1);
    fv_emit_offer(c->b, text, rows, n, c->s->width, &c->grid);
}

void fv_pola_offer_stage(const fv_pola_context *c)
{
    c->b->scope[0] = 0; /* its blocks are done */
    fv_pola_offer(c, "stage", c->x);
    fv_segmentation_emit(c->m, c->b, c->stage, c->x, &c->grid);
}

void fv_pola_classify(const fv_pola_context *c, fv_view rows)
{
    fv_builder *b = c->b;
    const fv_pola *p = c->p;
    if (!fv_emit_wants(b, "logits"))
        return;
    fv_view pooled = fv_emit_rows(b, 1, c->s->width);
    fv_emit_mean(b, "mean of tokens", rows, &c->grid, c->s->width, pooled);
    const fv_gemm g = {.w = &p->head_w,
                       .bias = &p->head_b,
                       .in = pooled,
                       .res = {FV_NO_VALUE, 0},
                       .out = fv_emit_output(b, "logits", 1, p->head_w.rows, NULL, false),
                       .rows = 1};
    fv_emit_gemm(b, "head", &g);
}
