/* polaformer.c: emits the steps of the PolaFormer blocks.
 *
 *     x = x + proj((attention(q, k + positions, v) + depthwise convolution of v) * gate)
 *     x = x + mlp(norm x)
 *
 * Keys and values are computed before the queries, from a separate copy of the norm, so that only x
 * has to be stored between two sweeps. v is computed again for its convolution, together with q. */
#include "models/pyramid/polaformer.h"

#include <math.h>
#include <stdio.h>

#include "models/layer.h"
#include "models/segmentation.h"

fovea_status fv_pola_check_attention(const fv_builder *b)
{
    for (uint32_t i = 0; i < b->options->blocks; i++) {
        const fv_attention_name *name = fv_block_attention(b, i);
        char text[64];
        if (name->kind != FV_ATTENTION_MECHANISM || name->mech != FV_MECH_POLA || name->gated)
            return fv_fail(FOVEA_ENOTSUP,
                           "attention %s cannot be used in a PolaFormer, because its blocks have "
                           "learned powers, scales and gates that only pola uses; use pola",
                           fv_attention_text(name, text));
    }
    return FOVEA_OK;
}

void fv_pola_enter_block(fv_pola_context *c, uint32_t block)
{
    c->w = &c->s->block[block];
    c->block = block;
    fv_emit_enter_block(c->b, "stage %u block %u", c->stage + 1, block);
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

void fv_pola_offer_rows(const fv_pola_context *c, char what, fv_view rows, uint32_t n,
                        const fv_grid *grid)
{
    fv_emit_offer(c->b, fv_block_output_name(c->stage, c->block, what).text, rows, n, c->s->width,
                  grid);
}

fv_attended *fv_pola_note(const fv_pola_context *c, const fv_attention *a, uint32_t rows)
{
    const fv_attention_name name = {
        .kind = c->w->linear ? FV_ATTENTION_MECHANISM : FV_ATTENTION_SOFTMAX, .mech = a->mech};
    return fv_attended_note(c->b, fv_block_output_name(c->stage, c->block, 'q').text, &name, a,
                            rows);
}

fv_posemb fv_pola_positions(fv_posemb p, const fv_grid *grid, bool by_count)
{
    const bool same = grid->width == p.table_width && grid->height == p.table_height;
    if (same || (by_count && fv_grid_tokens(grid) == p.table->rows))
        p.table_width = 0;
    return p;
}

fv_grid fv_pola_key_grid(const fv_pola_block *w, const fv_grid *grid)
{
    const uint32_t r = w->reduction;
    return (fv_grid){grid->width / r, grid->height / r, grid->stride * r, 0};
}

fv_view fv_pola_convolve(const fv_pola_context *c, const fv_grid *grid, uint32_t count,
                         fv_view attention, fv_view v, fv_view gate)
{
    const fv_dwconv d = {.w = &c->w->dwc.w,
                         .bias = &c->w->dwc.b,
                         .in = v,
                         .res = attention,
                         .gate = gate,
                         .out = fv_emit_rows(c->b, count * fv_grid_tokens(grid), c->s->width),
                         .width = grid->width,
                         .height = grid->height,
                         .count = count,
                         .channels = c->s->width,
                         .size = c->p->kernel};
    fv_emit_dwconv(c->b, "convolution of v", &d);
    return d.out;
}

/* Returns the rows from which keys and values are projected: the normalised tokens, or those of the
 * coarser grid. */
static fv_view key_rows(const fv_pola_context *c, const fv_grid *grid)
{
    const fv_pola_block *w = c->w;
    const uint32_t n = fv_grid_tokens(&c->grid), keys = fv_grid_tokens(grid), r = w->reduction;
    fv_view normed = fv_layer_norm(c->b, "norm for k, v", &w->ln1, c->x, c->p->block_eps, n);
    if (r == 1)
        return normed;
    const fv_conv conv = {.w = &w->reduce.w,
                          .bias = &w->reduce.b,
                          .in = normed,
                          .out = fv_emit_rows(c->b, keys, c->s->width),
                          .from = c->grid,
                          .to = *grid,
                          .channels = c->s->width,
                          .size = r,
                          .stride = r};
    fv_emit_conv(c->b, "reduction", &conv);
    return fv_layer_norm(c->b, "norm of the reduced", &w->reduce_ln, conv.out, 1e-5f, keys);
}

/* Adds its position to every key. The official models fail if this table and the grid have
 * different sizes. Here, the table is resized like Pola-PVT's position tables of tokens. */
static void place_keys(const fv_pola_context *c, const fv_grid *grid, fv_view k)
{
    const fv_posemb trained = {.table = &c->w->positions,
                               .table_width = c->w->keys_width,
                               .table_height = c->w->keys_height,
                               .rule = FV_POS_BILINEAR};
    const fv_posemb p = fv_pola_positions(trained, grid, c->p->by_count);
    fv_emit_posemb(c->b, "positions of k", &p, grid, k, k);
}

void fv_pola_attend(fv_pola_context *c)
{
    fv_builder *b = c->b;
    const fv_pola_block *w = c->w;
    const fv_grid grid = fv_pola_key_grid(w, &c->grid);
    const uint32_t n = fv_grid_tokens(&c->grid), keys = fv_grid_tokens(&grid), width = c->s->width;
    fv_view in = key_rows(c, &grid);
    fv_view kv = fv_layer_product(b, "k, v", &w->kv, in, 0, keys);
    fv_attention a = fv_pola_attention(c, n, keys);
    a.k = kv;
    a.v = fv_view_cols(kv, width);
    if (w->linear)
        place_keys(c, &grid, kv);
    fv_pola_offer_rows(c, 'k', kv, keys, &grid);
    fv_emit_keys(b, "keys", &a);

    fv_view again = fv_layer_norm(b, "norm for q", &w->ln1, c->x, c->p->block_eps, n);
    fv_view q = fv_layer_product(b, w->linear ? "q, v, gate" : "q", &w->q, again, 0, n);
    fv_view out = fv_emit_rows(b, n, width);
    fv_pola_offer_rows(c, 'q', q, n, &c->grid);
    fv_pola_note(c, &a, n);
    fv_emit_queries(b, "attention", &a, q, out);
    if (w->linear) {
        fv_view v = fv_view_cols(q, width), gate = fv_view_cols(q, w->q.w.rows - width);
        if (w->reduction > 1) {
            v = fv_emit_rows(b, n, width);
            fv_emit_lerp(b, "v at every token", a.v, keys, v, n, width);
        }
        out = fv_pola_convolve(c, &c->grid, 1, out, v, gate);
    }
    c->x = fv_layer_add(b, "projection", &w->proj, out, c->x, n);
}

/* ---- the rest ---- */

void fv_pola_mlp(fv_pola_context *c)
{
    const fv_pola_block *w = c->w;
    const uint32_t n = fv_grid_tokens(&c->grid);
    fv_view normed = fv_layer_norm(c->b, "mlp norm", &w->ln2, c->x, c->p->block_eps, n);
    fv_view h = fv_layer_product(c->b, "fc1", &w->fc1, normed, FV_EPI_GELU, n);
    c->x = fv_layer_add(c->b, "fc2", &w->fc2, h, c->x, n);
}

void fv_pola_offer(const fv_pola_context *c, const char *name, fv_view rows)
{
    char text[24];
    const uint32_t n = fv_grid_tokens(&c->grid);
    snprintf(text, sizeof text, "%s%u", name, c->stage + 1);
    fv_emit_offer(c->b, text, rows, n, c->s->width, &c->grid);
}

void fv_pola_offer_stage(fv_pola_context *c, float eps)
{
    const fv_layer *norm = &c->s->norm;
    fv_view x = c->x;
    fv_emit_leave_block(c->b);
    if (fv_weight_present(&norm->w))
        x = fv_layer_norm(c->b, "norm of the stage", norm, x, eps, fv_grid_tokens(&c->grid));
    fv_pola_offer(c, "stage", x);
    fv_segmentation_emit(c->m, c->b, c->stage, x, &c->grid);
    c->feature[c->stage] = (fv_level){.rows = x, .grid = c->grid, .channels = c->s->width};
}

void fv_pola_weights(const fovea_model *m, enum fv_purpose purpose, fv_weight_visit *visit,
                     void *ctx)
{
    const fv_pola *p = m->roles;
    if (purpose == FV_IS_HEAD)
        fv_layer_visit(&p->head, visit, ctx);
}

void fv_pola_classify(const fv_pola_context *c, fv_view rows)
{
    fv_builder *b = c->b;
    const fv_pola *p = c->p;
    const bool classifies = fv_emit_wants(b, "logits");
    fv_view pooled = fv_emit_output(b, "pooler_output", 1, c->s->width, NULL, classifies);
    if (pooled.id < 0)
        return;
    fv_emit_mean(b, "mean of tokens", rows, &c->grid, c->s->width, pooled);
    if (!classifies)
        return;
    fv_layer_write(
        b, "head", &p->head, pooled,
        fv_emit_task_output(b, "logits", FOVEA_OUTPUT_LOGITS, 1, p->head.w.rows, NULL, false), 1);
}
