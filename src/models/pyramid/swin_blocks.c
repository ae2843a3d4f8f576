/* swin_blocks.c: emits the steps of Swin and Pola-Swin.
 *
 *     x = norm(convolution) (+ positions);  blocks;  x = merge(x);  blocks; ..
 *     logits = head(mean of norm x)
 *
 * Attention over all tokens is streamed. For attention in windows, tokens are gathered window by
 * window, and scattered back. */
#include "models/layer.h"
#include "models/pyramid/swin.h"
#include "models/windows.h"
#include "ops/contracts/grid.h"

#define EPS 1e-5f
#define TOKENS (1u << 28)

/* ---- grids ---- */

/* Returns the grid of the next stage. */
static fv_grid merged(const fv_grid *g)
{
    return (fv_grid){fv_windows_whole(g->width, 2) / 2, fv_windows_whole(g->height, 2) / 2,
                     g->stride * 2, 0};
}

fovea_status fv_swin_check_grids(const fovea_model *m, fv_emit_options *o)
{
    const fv_pola *p = m->roles;
    fv_grid g = o->grid;
    for (uint32_t i = 0; i < p->stages; i++, g = merged(&g))
        for (uint32_t j = 0; j < p->stage[i].depth; j++) {
            const uint32_t window = p->stage[i].block[j].window;
            const fv_grid padded = window ? fv_windows_pad(&g, window) : g;
            if ((uint64_t)padded.width * padded.height > TOKENS)
                return fv_fail(FOVEA_EINVAL,
                               "the picture of %u x %u pixels gives stage %u %u x %u tokens in "
                               "windows of %u, which is more than %u; use a smaller size",
                               o->width, o->height, i + 1, padded.width, padded.height, window,
                               TOKENS);
        }
    return FOVEA_OK;
}

/* ---- windows ---- */

/* The orders of tokens in a stage: at most two sizes of windows, each shifted and unshifted. */
struct orders {
    fv_windows order[4];
    uint32_t count;
};

/* Returns the shift of the block's windows. Outside of backbones, a side of the grid that is not
 * larger than a window prevents it: for timm only along this side. */
static fv_window_shift shift_of(const fv_pola_context *c)
{
    const uint32_t window = c->w->window, shift = c->w->shift;
    const bool always = c->p->always_shift, timm = c->p->of_timm;
    const bool wide = c->grid.width > window, high = c->grid.height > window;
    return (fv_window_shift){.x = always || (wide && (high || timm)) ? shift : 0,
                             .y = always || (high && (wide || timm)) ? shift : 0,
                             .first = timm};
}

static const fv_windows *find_order(const fv_pola_context *c, struct orders *known)
{
    const fv_window_shift shift = shift_of(c);
    for (uint32_t i = 0; i < known->count; i++) {
        const fv_windows *o = &known->order[i];
        if (o->side == c->w->window && o->shift.x == shift.x && o->shift.y == shift.y)
            return o;
    }
    fv_windows *w = &known->order[known->count++];
    *w = fv_windows_make(c->b, &c->grid, c->w->window, shift);
    return w;
}

/* Expands the biases to all pairs of the T tokens of a window: (heads * T, T). */
static fv_weight expand_bias(const fv_pola_context *c)
{
    fv_builder *b = c->b;
    const uint32_t w = c->w->window, t = w * w, heads = c->s->heads, offsets = 2 * w - 1;
    float *bias, *table;
    const fv_weight out = fv_emit_constant(b, heads * t, t, &bias);
    if (!bias)
        return out;
    b->status = FV_MEM_ARRAY(&table, (uint64_t)offsets * offsets * heads, FV_MEM_PLAN,
                             "relative positions");
    if (b->status != FOVEA_OK)
        return out;
    fv_weight_read(&c->w->positions, 0, offsets * offsets, table);
    for (uint32_t q = 0; q < t; q++)
        for (uint32_t k = 0; k < t; k++) {
            const uint32_t dy = q / w + w - 1 - k / w, dx = q % w + w - 1 - k % w;
            const float *of_heads = table + (size_t)(dy * offsets + dx) * heads;
            for (uint32_t h = 0; h < heads; h++)
                bias[((size_t)h * t + q) * t + k] = of_heads[h];
        }
    fv_mem_free(table);
    return out;
}

/* Offers queries ('q') or keys ('k') of windows as an output, on the grid padded to whole windows.
 */
static void offer_windows(const fv_pola_context *c, const fv_windows *order, const uint32_t *row,
                          char what, fv_view rows)
{
    const fv_grid padded = fv_windows_pad(&c->grid, order->side);
    const uint32_t width = c->s->width;
    if (!fv_emit_wants(c->b, fv_block_output_name(c->stage, c->block, what).text))
        return;
    if (row) {
        const fv_view sorted = fv_emit_rows(c->b, order->rows, width);
        fv_emit_gather(c->b, "out of windows", rows, row, 1, FV_NO_VIEW, sorted, order->rows,
                       width);
        rows = sorted;
    }
    fv_pola_offer_rows(c, what, rows, order->rows, &padded);
}

static void note_windows(const fv_pola_context *c, const fv_windows *order, const fv_attention *a,
                         fv_view q)
{
    fv_attended *at = fv_pola_note(c, a, order->rows);
    const uint32_t *row = at ? fv_windows_places(c->b, order) : NULL;
    if (!at)
        return;
    /* Linear attention sums over a whole window, even if the shift has joined parts that were not
     * adjacent. */
    fv_attended_in_windows(c->b, at, order->side * order->side, row,
                           c->w->linear ? NULL : order->region);
    offer_windows(c, order, row, 'q', q);
    offer_windows(c, order, row, 'k', a->k);
}

/* Emits the attention of normalised rows in the order of windows, without its projection. */
static fv_view attend_windows(const fv_pola_context *c, const fv_windows *order, fv_view normed)
{
    const uint32_t n = order->rows;
    fv_builder *b = c->b;
    const fv_pola_block *w = c->w;
    const uint32_t width = c->s->width, t = w->window * w->window;
    fv_view qkv =
        fv_layer_product(b, w->linear ? "q, k, v, gate" : "q, k, v", &w->qkv, normed, 0, n);
    fv_attention a = fv_pola_attention(c, n, t);
    a.k = fv_view_cols(qkv, width);
    a.v = fv_view_cols(qkv, 2 * width);
    if (w->linear) {
        /* The grid has one row per window, but the table only one, so every window gets the same
         * positions. */
        const fv_grid windows = {t, n / t, 1, 0};
        const fv_posemb p = {
            .table = &w->positions, .table_width = t, .table_height = 1, .rule = FV_POS_BILINEAR};
        fv_emit_posemb(b, "positions of k", &p, &windows, a.k, a.k);
    } else {
        a.param = expand_bias(c);
    }
    fv_view out = fv_emit_rows(b, n, width);
    note_windows(c, order, &a, qkv);
    fv_emit_window(b, "attention", &a, qkv, t, order->region, out);
    if (!w->linear)
        return out;
    const fv_grid window = {w->window, w->window, c->grid.stride, 0};
    return fv_pola_convolve(c, &window, n / t, out, a.v, fv_view_cols(qkv, 3 * width));
}

/* Emits x = x + projection of the attention in windows. */
static void attend(fv_pola_context *c, struct orders *known)
{
    const fv_pola_block *w = c->w;
    const fv_windows *order = find_order(c, known);
    if (c->b->status != FOVEA_OK)
        return;
    const fv_view normed =
        fv_windows_enter(c->b, order, "norm for q, k, v", c->x, &w->ln1, c->p->block_eps);
    const fv_view out = attend_windows(c, order, normed);
    c->x = fv_windows_leave(c->b, order, "projection", &w->proj, out, c->x);
}

/* ---- computing ---- */

static void embed(fv_pola_context *c)
{
    fv_builder *b = c->b;
    const fv_pola_stage *s = c->s;
    const uint32_t n = fv_grid_tokens(&c->grid), patch = c->p->patch;
    fv_view patches = fv_emit_rows(b, n, 3 * patch * patch);
    fv_emit_patches(b, &c->grid, patch, patch, 0, patches);
    c->x = fv_layer_product(b, "embed", &s->embed, patches, 0, n);
    if (fv_weight_present(&s->embed_ln.w))
        c->x = fv_layer_norm(b, "norm of the embedding", &s->embed_ln, c->x, EPS, n);
    fv_emit_offer(b, "patch_embed", c->x, n, s->width, &c->grid);
    if (fv_weight_present(&s->positions)) {
        const fv_posemb trained = {.table = &s->positions,
                                   .table_width = s->native_width,
                                   .table_height = s->native_height,
                                   .rule = FV_POS_PLAIN};
        const fv_posemb p = fv_pola_positions(trained, &c->grid, false);
        fv_view placed = fv_emit_rows(b, n, s->width);
        fv_emit_posemb(b, "positions", &p, &c->grid, c->x, placed);
        c->x = placed;
    }
}

/* Emits the next stage's tokens: four neighbours are concatenated, columns first, normalised and
 * multiplied by a matrix. */
static void merge(fv_pola_context *c, const fv_pola_stage *next)
{
    fv_builder *b = c->b;
    const fv_grid from = c->grid;
    const uint32_t width = c->s->width;
    c->grid = merged(&from);
    const uint32_t n = fv_grid_tokens(&c->grid);
    uint32_t *table = fv_emit_table(b, 4 * n);
    if (!table)
        return;
    for (uint32_t i = 0; i < 4 * n; i++) {
        const uint32_t y = i / 4 / c->grid.width * 2 + i % 2;
        const uint32_t x = i / 4 % c->grid.width * 2 + i % 4 / 2;
        const bool inside = y < from.height && x < from.width;
        table[i] = inside ? y * from.width + x : FV_GATHER_NONE;
    }
    fv_view fours = fv_emit_rows(b, n, 4 * width);
    fv_emit_gather(b, "merging", c->x, table, 4, FV_NO_VIEW, fours, n, width);
    fv_view normed = fv_layer_norm(b, "norm of the merged", &next->embed_ln, fours, EPS, n);
    c->x = fv_layer_product(b, "merged", &next->embed, normed, 0, n);
}

static void stage(fv_pola_context *c)
{
    struct orders known = {0};
    for (uint32_t j = 0; j < c->s->depth && c->b->status == FOVEA_OK; j++) {
        fv_pola_enter_block(c, j);
        if (c->w->window == 0)
            fv_pola_attend(c);
        else
            attend(c, &known);
        fv_pola_mlp(c);
    }
    fv_pola_offer_stage(c, EPS);
}

fovea_status fv_swin_emit(const fovea_model *m, fv_builder *b)
{
    const fv_pola *p = m->roles;
    fv_pola_context c = {.b = b, .m = m, .p = p, .s = p->stage, .grid = b->options->grid};
    embed(&c);
    stage(&c);
    while (c.stage + 1 < p->stages && b->status == FOVEA_OK) {
        merge(&c, c.s + 1);
        c.s++;
        fv_pola_offer(&c, "down", c.x);
        c.stage++;
        stage(&c);
    }
    if (fv_weight_present(&p->norm.w)) {
        const uint32_t n = fv_grid_tokens(&c.grid);
        fv_view y = fv_emit_output(b, "norm", n, c.s->width, &c.grid, true);
        fv_emit_layernorm(b, "final norm", c.x, &p->norm.w, &p->norm.b, p->block_eps, y, n);
        fv_pola_classify(&c, y);
    }
    fv_decoder_emit(m, b, c.feature);
    return b->status;
}

fovea_status fv_swin_list_outputs(const fv_pola_reader *r)
{
    fovea_model *m = r->t.m;
    const bool normed = fv_weight_present(&r->p->norm.w);
    if (r->p->head.w.rows)
        FV_TRY(fv_model_add_output(m, "logits"));
    else if (normed)
        FV_TRY(fv_model_add_output(m, "norm"));
    else
        FV_TRY(fv_model_add_output(m, "stage%u", r->p->stages));
    FV_TRY(fv_model_add_output(m, "patch_embed"));
    for (uint32_t i = 1; i <= r->p->stages; i++)
        FV_TRY(fv_model_add_output(m, "stage%u", i));
    for (uint32_t i = 1; i < r->p->stages; i++)
        FV_TRY(fv_model_add_output(m, "down%u", i));
    if (normed) {
        FV_TRY(fv_model_add_output(m, "norm"));
        FV_TRY(fv_model_add_output(m, "pooler_output"));
    }
    return fv_pola_list_blocks(r);
}
