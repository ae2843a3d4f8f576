/* pola_pvt.c: Pola-PVT: a pyramid of stages, each with its own patch embedding and positions.
 *
 *     x = norm(convolution, stride 4, then 2) + positions;  blocks;        per stage
 *     logits = head(mean of the last stage's tokens)
 *
 * A picture may have any size that leaves at least one token in every stage and one key in every
 * block. Convolutions ignore the pixels of an incomplete last step, as in the official code.
 * Position tables follow the official code's rule: they are resized bilinearly (align_corners
 * False), except that the tables of the first stage and of the keys are used unchanged on any grid
 * with the same number of tokens. The official code refuses another number of keys. Here, the table
 * of the keys is then resized like those of the tokens. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "models/layer.h"
#include "models/model.h"
#include "models/pyramid/polaformer.h"

#define WIDTH 65536

/* ---- reading ---- */

/* The factors by which linear and softmax blocks of each stage reduce the grid of their keys. */
struct reductions {
    uint32_t linear[FV_POLA_STAGES], softmax[FV_POLA_STAGES];
};

static fovea_status read_reductions(struct reductions *out, const fv_pola_reader *r)
{
    static const uint32_t usual[] = {8, 4, 2, 1};
    const uint32_t n = r->p->stages;
    const char *digits = NULL;
    for (uint32_t i = 0; i < n; i++) {
        out->linear[i] = 1;
        out->softmax[i] = i < 4 ? usual[i] : 1;
    }
    if (fv_config_get(&r->config, "sr_ratios"))
        FV_TRY(fv_config_u32s(out->softmax, n, &r->config, "sr_ratios", 1, 64));
    FV_TRY(fv_config_text(&digits, &r->config, "la_sr_ratios"));
    if (!digits)
        return FOVEA_OK;
    if (strlen(digits) != n || strspn(digits, "123456789") != n)
        return fv_config_fail(&r->config, "la_sr_ratios",
                              "a string with one digit from 1 to 9 for each stage");
    for (uint32_t i = 0; i < n; i++)
        out->linear[i] = (uint32_t)(digits[i] - '0');
    return FOVEA_OK;
}

/* Computes the numbers of tokens as the official constructor does, with its rounding. */
static fovea_status read_grids(fv_pola_reader *r)
{
    const fovea_model_info *info = &r->t.m->info;
    uint32_t width = info->native_width / 4, height = info->native_height / 4;
    for (uint32_t i = 1; i < r->p->stages; i++) {
        fv_pola_stage *s = &r->p->stage[i];
        s->native_width = width /= 2;
        s->native_height = height /= 2;
        if (s->native_width == 0 || s->native_height == 0)
            return fv_fail(FOVEA_EFORMAT, "%s: with \"img_size\" %u x %u, stage %u has no tokens",
                           r->config.file, info->native_width, info->native_height, i + 1);
    }
    return FOVEA_OK;
}

static fovea_status read_embedding(fv_pola_reader *r, uint32_t i)
{
    fv_pola_stage *s = &r->p->stage[i];
    const uint32_t from = i ? s[-1].width : 3, side = i ? 2 : r->p->patch;
    const uint32_t shape[3] = {s->width, from, side};
    char prefix[32];
    snprintf(prefix, sizeof prefix, "patch_embed%u.", i + 1);
    FV_TRY(fv_pola_read_conv(&s->embed, r, prefix, "proj.", shape, i > 0));
    FV_TRY(fv_reader_norm(&s->embed_ln, &r->t, prefix, "norm.", s->width));
    snprintf(prefix, sizeof prefix, "pos_embed%u", i + 1);
    return fv_reader_matrix(&s->positions, &r->t, "", prefix, "",
                            s->native_width * s->native_height, s->width);
}

static fovea_status read_block(fv_pola_reader *r, uint32_t i, uint32_t j,
                               const struct reductions *by)
{
    const fv_pola_stage *s = &r->p->stage[i];
    fv_pola_block *b = &s->block[j];
    const uint32_t c = s->width;
    fv_pola_fused first, kv;
    char prefix[32];
    snprintf(prefix, sizeof prefix, "block%u.", i + 1);
    FV_TRY(fv_pola_find_block(r, i, j, prefix, "attn.qg.", "attn.q."));
    b->reduction = b->linear ? by->linear[i] : by->softmax[i];
    const uint64_t keys =
        (uint64_t)s->native_width * s->native_height / (b->reduction * b->reduction);
    b->keys_width = s->native_width / b->reduction;
    b->keys_height = s->native_height / b->reduction;
    if (keys == 0)
        return fv_fail(FOVEA_EFORMAT, "%s: \"%s\": with a reduction by %u, stage %u has no keys",
                       r->config.file, b->linear ? "la_sr_ratios" : "sr_ratios", b->reduction,
                       i + 1);
    FV_TRY(fv_pola_read_fused(&first, r, s, b->linear ? "attn.qg." : "attn.q.", b->linear ? 2 : 1));
    FV_TRY(fv_pola_read_fused(&kv, r, s, "attn.kv.", 2));
    fv_pola_empty(&b->kv, 2, c, kv.b != NULL);
    fv_pola_cut(&b->kv, &kv, 0, 0, 2);
    /* v is computed together with q */
    const bool joint = b->linear && b->reduction == 1;
    const uint32_t rows = !b->linear ? 1 : joint ? 3 : 2;
    fv_pola_empty(&b->q, rows, c, first.b != NULL);
    fv_pola_cut(&b->q, &first, 0, 0, 1);
    if (joint)
        fv_pola_cut(&b->q, &kv, 1, 1, 1);
    if (b->linear)
        fv_pola_cut(&b->q, &first, 1, rows - 1, 1);
    if (b->reduction > 1) {
        const uint32_t shape[3] = {c, c, b->reduction};
        FV_TRY(fv_pola_read_conv(&b->reduce, r, r->block, "attn.sr.", shape, true));
        FV_TRY(fv_reader_norm(&b->reduce_ln, &r->t, r->block, "attn.norm.", c));
    }
    return fv_pola_read_block(r, s, b, keys);
}

static fovea_status read_roles(fv_pola_reader *r)
{
    fv_pola *p = r->p;
    uint32_t width[FV_POLA_STAGES];
    struct reductions by;
    p->block_eps = 1e-6f;
    p->by_count = true;
    FV_TRY(fv_pola_read_sizes(r));
    FV_TRY(fv_config_u32s(width, p->stages, &r->config, "embed_dims", 1, WIDTH));
    FV_TRY(fv_pola_read_widths(r, width, "mlp_ratios"));
    FV_TRY(read_reductions(&by, r));
    FV_TRY(read_grids(r));
    for (uint32_t i = 0; i < p->stages; i++) {
        fv_pola_stage *s = &p->stage[i];
        FV_TRY(read_embedding(r, i));
        FV_TRY(FV_MEM_ARRAY(&s->block, s->depth, FV_MEM_MODEL, "blocks"));
        for (uint32_t j = 0; j < s->depth; j++)
            FV_TRY(read_block(r, i, j, &by));
    }
    /* The official constructor makes this norm, but does not use it. */
    if (fv_reader_find(&r->t, "", "norm.", "weight"))
        FV_TRY(fv_reader_norm(&p->norm, &r->t, "", "norm.", p->stage[p->stages - 1].width));
    return fv_pola_finish(r);
}

static fovea_status read_model(fovea_model *m, const fv_source *source, const fv_config *config)
{
    fv_pola_reader r;
    FV_TRY(fv_pola_start(&r, m, source, config, "patch_embed1.proj."));
    FV_TRY(read_roles(&r));
    if (r.p->head.w.rows)
        FV_TRY(fv_model_add_output(m, "logits"));
    else
        FV_TRY(fv_model_add_output(m, "stage%u", r.p->stages));
    for (uint32_t i = 1; i <= r.p->stages; i++)
        FV_TRY(fv_model_add_output(m, "embed%u", i));
    for (uint32_t i = 1; i <= r.p->stages; i++)
        FV_TRY(fv_model_add_output(m, "stage%u", i));
    return fv_pola_list_blocks(&r);
}

/* ---- grids ---- */

/* Returns the grid of stage i + 1 from that of stage i. */
static fv_grid next_grid(const fv_grid *g)
{
    return (fv_grid){g->width / 2, g->height / 2, g->stride * 2, 0};
}

static fovea_status check_keys(const fovea_model *m, const fv_emit_options *o, uint32_t i,
                               const fv_grid *g)
{
    const fv_pola_stage *s = &((const fv_pola *)m->roles)->stage[i];
    for (uint32_t j = 0; j < s->depth; j++) {
        const fv_pola_block *w = &s->block[j];
        const fv_grid key_grid = fv_pola_key_grid(w, g);
        const uint32_t keys = fv_grid_tokens(&key_grid);
        if (keys == 0)
            return fv_fail(FOVEA_EINVAL,
                           "the picture of %u x %u pixels gives stage %u only %u x %u tokens, "
                           "which cannot be reduced by %u; use a larger size",
                           o->width, o->height, i + 1, g->width, g->height, w->reduction);
        /* The official constructor divides the number of tokens, but its forward function divides
         * both sides. The keys' positions are on a grid only if both agree. */
        const bool grid = w->keys_width * w->keys_height == w->positions.rows;
        if (w->linear && keys != w->positions.rows && !grid)
            return fv_fail(FOVEA_ENOTSUP,
                           "the picture of %u x %u pixels gives block %u of stage %u %u keys, but "
                           "its positional_encoding has %u, which are not a grid of %u x %u tokens "
                           "reduced by %u and cannot be resized; use a size that gives %u keys",
                           o->width, o->height, j, i + 1, keys, w->positions.rows, s->native_width,
                           s->native_height, w->reduction, w->positions.rows);
    }
    return FOVEA_OK;
}

static fovea_status check_grids(const fovea_model *m, fv_emit_options *o)
{
    const fv_pola *p = m->roles;
    fv_grid g = o->grid;
    for (uint32_t i = 0; i < p->stages; i++) {
        if (g.width == 0 || g.height == 0)
            return fv_fail(
                FOVEA_EINVAL,
                "the picture of %u x %u pixels gives stage %u no tokens; use a larger size",
                o->width, o->height, i + 1);
        FV_TRY(check_keys(m, o, i, &g));
        g = next_grid(&g);
    }
    return FOVEA_OK;
}

/* ---- computing ---- */

/* Emits the stage's tokens, normalised, and sets c->x. */
static void embed(fv_pola_context *c)
{
    fv_builder *b = c->b;
    const fv_pola_stage *s = c->s;
    const fv_grid from = c->grid;
    if (c->stage > 0)
        c->grid = next_grid(&from);
    const uint32_t n = fv_grid_tokens(&c->grid), patch = c->p->patch;
    const fv_view made = fv_emit_rows(b, n, s->width), normed = fv_emit_rows(b, n, s->width);
    if (c->stage == 0) {
        fv_view patches = fv_emit_rows(b, n, 3 * patch * patch);
        fv_emit_patches(b, &c->grid, patch, patch, 0, patches);
        fv_layer_write(b, "embed", &s->embed, patches, made, n);
    } else {
        const fv_conv conv = {.w = &s->embed.w,
                              .bias = &s->embed.b,
                              .in = c->x,
                              .out = made,
                              .from = from,
                              .to = c->grid,
                              .channels = s[-1].width,
                              .size = 2,
                              .stride = 2,
                              .trunk = true};
        fv_emit_conv(b, "embed", &conv);
    }
    fv_emit_layernorm(b, "norm of the embedding", made, &s->embed_ln.w, &s->embed_ln.b, 1e-5f,
                      normed, n);
    c->x = normed;
}

static void add_positions(fv_pola_context *c)
{
    const fv_pola_stage *s = c->s;
    const uint32_t n = fv_grid_tokens(&c->grid);
    const fv_posemb trained = {.table = &s->positions,
                               .table_width = s->native_width,
                               .table_height = s->native_height,
                               .rule = FV_POS_BILINEAR};
    const fv_posemb p = fv_pola_positions(trained, &c->grid, c->stage == 0);
    fv_view out = fv_emit_rows(c->b, n, s->width);
    fv_emit_posemb(c->b, "positions", &p, &c->grid, c->x, out);
    c->x = out;
}

static fovea_status emit(const fovea_model *m, fv_builder *b)
{
    const fv_pola *p = m->roles;
    fv_pola_context c = {.b = b, .m = m, .p = p, .grid = b->options->grid};
    FV_TRY(fv_pola_check_attention(b));
    for (uint32_t i = 0; i < p->stages && b->status == FOVEA_OK; i++) {
        c.s = &p->stage[i];
        c.stage = i;
        embed(&c);
        fv_pola_offer(&c, "embed", c.x);
        add_positions(&c);
        for (uint32_t j = 0; j < c.s->depth; j++) {
            fv_pola_enter_block(&c, j);
            fv_pola_attend(&c);
            fv_pola_mlp(&c);
        }
        fv_pola_offer_stage(&c, c.p->block_eps);
    }
    fv_pola_classify(&c, c.x);
    fv_decoder_emit(m, b, c.feature);
    return b->status;
}

FV_DEFINE_FAMILY(pola_pvt, .name = "pola_pvt", .types = "pola_pvt", .attention = "pola",
                 .read = read_model, .grid = check_grids, .emit = emit, .weights = fv_pola_weights,
                 .release = fv_pola_release, .synthetic = &fv_pola_pvt_synthetics, .decodes = true)
