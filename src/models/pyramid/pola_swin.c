/* pola_swin.c: Pola-Swin: attention in windows; four tokens are merged into one between stages.
 *
 *     x = norm(convolution) (+ positions);  blocks;  x = merge(x);  blocks; ..
 *     logits = head(mean of norm x)
 *
 * Attention over all tokens is streamed. For attention in windows, tokens are gathered window by
 * window, and scattered back.
 *
 * The official code runs only at the size that it was trained at. At other sizes:
 *
 *   linear, one window  The attention remains over all tokens, because the trained window is the
 *                       whole grid. positional_encoding is resized to the grid.
 *   other windows       The windows keep their size, so that their tables apply unchanged. As in
 *                       Swin's dense backbones, the normalised grid is padded with zeros at the
 *                       right and bottom to whole windows. Shifted regions are those of the padded
 *                       grid. The zeros are keys like others; their results are dropped.
 *   shift               As in the official block, odd blocks shift if both sides of the grid are
 *                       larger than the window. Linear attention ignores the regions.
 *   merging             An odd grid is padded with zeros at the right and bottom, before the norm.
 *   absolute_pos_embed  It is resized with the dense backbones' bicubic filter (not antialiased).
 *   patches             Pixels outside whole patches are ignored, as in all models here. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "models/layer.h"
#include "models/pyramid/polaformer.h"
#include "models/windows.h"
#include "ops/contracts/grid.h"

#define EPS 1e-5f
#define WIDTH 65536
#define WINDOW 65536
#define TOKENS (1u << 28)

/* ---- reading ---- */

static fovea_status read_grids(fv_pola_reader *r)
{
    for (uint32_t i = 1; i < r->p->stages; i++) {
        fv_pola_stage *s = &r->p->stage[i];
        if (s[-1].native_width % 2 || s[-1].native_height % 2)
            return fv_fail(FOVEA_EFORMAT,
                           "%s: with \"img_size\" %u x %u, stage %u has %u x %u tokens; both "
                           "numbers must be even, because tokens are merged 2 x 2",
                           r->config->file, r->t.m->info.native_width, r->t.m->info.native_height,
                           i, s[-1].native_width, s[-1].native_height);
        s->native_width = s[-1].native_width / 2;
        s->native_height = s[-1].native_height / 2;
    }
    return FOVEA_OK;
}

/* Sets the window as the official block does: at most as large as the grid, and shifted in odd
 * blocks. */
static void place_window(fv_pola_block *b, const fv_pola_stage *s, uint32_t j, uint32_t window)
{
    const uint32_t w = s->native_width, h = s->native_height, side = w < h ? w : h;
    const uint32_t own = b->linear ? window : window <= 56 ? 7 : 12;
    b->keys_width = b->keys_height = b->window = side <= own ? side : own;
    b->shift = j % 2 ? b->window / 2 : 0;
    if (b->linear && b->window == w && b->window == h)
        b->window = 0;
}

static fovea_status read_block(fv_pola_reader *r, uint32_t i, uint32_t j, uint32_t window)
{
    const fv_pola_stage *s = &r->p->stage[i];
    fv_pola_block *b = &s->block[j];
    fv_pola_fused f;
    char prefix[32];
    snprintf(prefix, sizeof prefix, "layers.%u.blocks.", i);
    FV_TRY(fv_pola_find_block(r, i, j, prefix, "attn.qkvg.", "attn.qkv."));
    place_window(b, s, j, window);
    const uint32_t blocks = b->linear ? 4 : 3;
    FV_TRY(fv_pola_read_fused(&f, r, s, b->linear ? "attn.qkvg." : "attn.qkv.", blocks));
    if (b->window == 0) {
        fv_pola_empty(&b->kv, 2, s->width, f.b != NULL);
        fv_pola_cut(&b->kv, &f, 1, 0, 2);
        fv_pola_empty(&b->q, 3, s->width, f.b != NULL);
        fv_pola_cut(&b->q, &f, 0, 0, 1);
        fv_pola_cut(&b->q, &f, 2, 1, 2);
    } else {
        fv_pola_empty(&b->qkv, blocks, s->width, f.b != NULL);
        fv_pola_cut(&b->qkv, &f, 0, 0, blocks);
    }
    if (!b->linear) {
        const uint32_t offsets = 2 * b->window - 1;
        FV_TRY(fv_reader_matrix(&b->positions, &r->t, r->block, "attn.relative_position_bias_table",
                                "", offsets * offsets, s->heads));
    }
    fv_reader_ignore(&r->t, r->block, "attn_mask");
    return fv_pola_read_block(r, s, b, (uint64_t)b->keys_width * b->keys_height);
}

/* Reads the norm and the matrix that merge four tokens of stage i - 1 into one of stage i. */
static fovea_status read_merging(fv_pola_reader *r, uint32_t i)
{
    fv_pola_stage *s = &r->p->stage[i];
    char prefix[32];
    snprintf(prefix, sizeof prefix, "layers.%u.downsample.", i - 1);
    FV_TRY(fv_reader_norm(&s->embed_ln, &r->t, prefix, "norm.", 4 * s[-1].width));
    return fv_reader_matrix(&s->embed.w, &r->t, prefix, "reduction.", "weight", s->width,
                            4 * s[-1].width);
}

static fovea_status read_embedding(fv_pola_reader *r)
{
    fv_pola_stage *s = &r->p->stage[0];
    const uint32_t shape[3] = {s->width, 3, r->p->patch};
    bool normed = true, positions = false;
    FV_TRY(fv_config_bool(&normed, r->config, "patch_norm"));
    FV_TRY(fv_config_bool(&positions, r->config, "ape"));
    FV_TRY(fv_pola_read_conv(&s->embed, r, "patch_embed.", "proj.", shape, false));
    if (normed)
        FV_TRY(fv_reader_norm(&s->embed_ln, &r->t, "patch_embed.", "norm.", s->width));
    return positions ? fv_reader_matrix(&s->positions, &r->t, "", "absolute_pos_embed", "",
                                        s->native_width * s->native_height, s->width)
                     : FOVEA_OK;
}

/* Reads the last norm. Instead, dense backbones have a norm after every stage that is output. */
static fovea_status read_norms(fv_pola_reader *r)
{
    fv_pola *p = r->p;
    char stem[16];
    bool dense = false;
    for (uint32_t i = 0; i < p->stages; i++) {
        snprintf(stem, sizeof stem, "norm%u.", i);
        if (!fv_reader_find(&r->t, "", stem, "weight"))
            continue;
        FV_TRY(fv_reader_norm(&p->stage[i].norm, &r->t, "", stem, p->stage[i].width));
        dense = true;
    }
    const bool classifies =
        fv_pola_new_classes(r) || fv_reader_find(&r->t, "", "head.", "weight") != NULL;
    if (dense && !classifies && !fv_reader_find(&r->t, "", "norm.", "weight"))
        return FOVEA_OK;
    return fv_reader_norm(&p->norm, &r->t, "", "norm.", p->stage[p->stages - 1].width);
}

static fovea_status read_roles(fv_pola_reader *r)
{
    fv_pola *p = r->p;
    uint32_t width[FV_POLA_STAGES] = {96}, window = 7;
    p->block_eps = EPS;
    FV_TRY(fv_pola_read_sizes(r));
    FV_TRY(fv_config_u32(&width[0], r->config, "embed_dim", 1, WIDTH >> (p->stages - 1)));
    FV_TRY(fv_config_u32(&window, r->config, "window_size", 1, WINDOW));
    for (uint32_t i = 1; i < p->stages; i++)
        width[i] = 2 * width[i - 1];
    FV_TRY(fv_pola_read_widths(r, width, "mlp_ratio"));
    FV_TRY(read_grids(r));
    FV_TRY(read_embedding(r));
    for (uint32_t i = 0; i < p->stages; i++) {
        fv_pola_stage *s = &p->stage[i];
        if (i > 0)
            FV_TRY(read_merging(r, i));
        FV_TRY(FV_MEM_ARRAY(&s->block, s->depth, FV_MEM_MODEL, "blocks"));
        for (uint32_t j = 0; j < s->depth; j++)
            FV_TRY(read_block(r, i, j, window));
    }
    FV_TRY(read_norms(r));
    return fv_pola_finish(r);
}

static fovea_status read_model(fovea_model *m, const fv_source *source, const fv_config *config)
{
    fv_pola_reader r;
    FV_TRY(fv_pola_start(&r, m, source, config, "patch_embed.proj."));
    FV_TRY(read_roles(&r));
    const bool normed = fv_weight_present(&r.p->norm.w);
    if (r.p->head.w.rows)
        FV_TRY(fv_model_add_output(m, "logits"));
    else if (normed)
        FV_TRY(fv_model_add_output(m, "norm"));
    else
        FV_TRY(fv_model_add_output(m, "stage%u", r.p->stages));
    FV_TRY(fv_model_add_output(m, "patch_embed"));
    for (uint32_t i = 1; i <= r.p->stages; i++)
        FV_TRY(fv_model_add_output(m, "stage%u", i));
    for (uint32_t i = 1; i < r.p->stages; i++)
        FV_TRY(fv_model_add_output(m, "down%u", i));
    if (normed)
        FV_TRY(fv_model_add_output(m, "norm"));
    return fv_pola_list_blocks(&r);
}

/* ---- grids ---- */

/* Returns the grid of the next stage. */
static fv_grid merged(const fv_grid *g)
{
    return (fv_grid){fv_windows_whole(g->width, 2) / 2, fv_windows_whole(g->height, 2) / 2,
                     g->stride * 2, 0};
}

static fovea_status check_grids(const fovea_model *m, fv_emit_options *o)
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

static const fv_windows *find_order(const fv_pola_context *c, uint32_t shift, struct orders *known)
{
    for (uint32_t i = 0; i < known->count; i++)
        if (known->order[i].side == c->w->window && known->order[i].shift == shift)
            return &known->order[i];
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
    const bool larger = c->grid.width > w->window && c->grid.height > w->window;
    const fv_windows *order = find_order(c, larger ? w->shift : 0, known);
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

static fovea_status emit(const fovea_model *m, fv_builder *b)
{
    const fv_pola *p = m->roles;
    fv_pola_context c = {.b = b, .m = m, .p = p, .s = p->stage, .grid = b->options->grid};
    FV_TRY(fv_pola_check_attention(b));
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
        fv_emit_layernorm(b, "final norm", c.x, &p->norm.w, &p->norm.b, EPS, y, n);
        fv_pola_classify(&c, y);
    }
    fv_decoder_emit(m, b, c.feature);
    return b->status;
}

FV_DEFINE_FAMILY(pola_swin, .name = "pola_swin", .types = "pola_swin", .attention = "pola",
                 .read = read_model, .grid = check_grids, .emit = emit, .weights = fv_pola_weights,
                 .release = fv_pola_release, .synthetic = &fv_pola_swin_synthetics, .decodes = true)
