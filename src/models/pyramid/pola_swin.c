/* pola_swin.c: reads Pola-Swin: linear attention and attention in windows; four tokens are merged
 * into one between stages.
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
#include "models/pyramid/swin.h"

#define EPS 1e-5f
#define WIDTH 65536
#define WINDOW 65536

/* ---- reading ---- */

static fovea_status read_grids(fv_pola_reader *r)
{
    for (uint32_t i = 1; i < r->p->stages; i++) {
        fv_pola_stage *s = &r->p->stage[i];
        if (s[-1].native_width % 2 || s[-1].native_height % 2)
            return fv_fail(FOVEA_EFORMAT,
                           "%s: with \"img_size\" %u x %u, stage %u has %u x %u tokens; both "
                           "numbers must be even, because tokens are merged 2 x 2",
                           r->config.file, r->t.m->info.native_width, r->t.m->info.native_height, i,
                           s[-1].native_width, s[-1].native_height);
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
    FV_TRY(fv_config_bool(&normed, &r->config, "patch_norm"));
    FV_TRY(fv_config_bool(&positions, &r->config, "ape"));
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
    FV_TRY(fv_config_u32(&width[0], &r->config, "embed_dim", 1, WIDTH >> (p->stages - 1)));
    FV_TRY(fv_config_u32(&window, &r->config, "window_size", 1, WINDOW));
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
    return fv_swin_list_outputs(&r);
}

static fovea_status emit(const fovea_model *m, fv_builder *b)
{
    FV_TRY(fv_pola_check_attention(b));
    return fv_swin_emit(m, b);
}

FV_DEFINE_FAMILY(pola_swin, .name = "pola_swin", .types = "pola_swin", .attention = "pola",
                 .read = read_model, .grid = fv_swin_check_grids, .emit = emit,
                 .weights = fv_pola_weights, .release = fv_pola_release,
                 .synthetic = &fv_pola_swin_synthetics, .decodes = true)
