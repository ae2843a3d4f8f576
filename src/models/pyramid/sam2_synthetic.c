/* sam2_synthetic.c: makes SAM 2.1 in its published sizes, with random weights and transformers'
 * names. */
#include <stdio.h>

#include "models/pyramid/sam2.h"
#include "models/synthetic.h"

enum { SIDE = 1024, NECK = 256, GLOBAL = 3 };

static const struct size {
    const char *name;
    uint32_t width, heads, depth[FV_SAM2_STAGES], window[FV_SAM2_STAGES], table, all[GLOBAL];
} sizes[] = {
    {"sam2-t", 96, 1, {1, 2, 7, 2}, {8, 4, 14, 7}, 7, {5, 7, 9}},
    {"sam2-s", 96, 1, {1, 2, 11, 2}, {8, 4, 14, 7}, 7, {7, 10, 13}},
    {"sam2-b-plus", 112, 2, {2, 3, 16, 3}, {8, 4, 14, 7}, 14, {12, 16, 20}},
    {"sam2-l", 144, 2, {2, 6, 36, 4}, {8, 4, 16, 8}, 7, {23, 33, 43}},
};

static void block(fv_synthetic *m, uint32_t i, uint32_t in, uint32_t width, float added)
{
    fv_synthetic_under(m, "vision_encoder.backbone.blocks.%u.", i);
    fv_synthetic_norm(m, "layer_norm1.", in);
    fv_synthetic_linear(m, "attn.qkv.", 3 * width, in, 1, 1);
    fv_synthetic_linear(m, "attn.proj.", width, width, 1, added);
    if (in != width)
        fv_synthetic_linear(m, "proj.", width, in, 1, 1);
    fv_synthetic_norm(m, "layer_norm2.", width);
    fv_synthetic_linear(m, "mlp.proj_in.", 4 * width, width, 1, 1);
    fv_synthetic_linear(m, "mlp.proj_out.", width, 4 * width, 1, added);
}

static uint32_t blocks(fv_synthetic *m, const struct size *s)
{
    uint32_t all = 0, i = 0;
    for (uint32_t k = 0; k < FV_SAM2_STAGES; k++)
        all += s->depth[k];
    for (uint32_t k = 0; k < FV_SAM2_STAGES; k++)
        for (uint32_t n = 0; n < s->depth[k]; n++)
            block(m, i++, s->width << (n == 0 && k > 0 ? k - 1 : k), s->width << k,
                  fv_synthetic_added(2 * all));
    return all;
}

static json_t *make(fv_synthetic *m, const void *size)
{
    const struct size *s = size;
    const uint64_t table[4] = {1, s->width, s->table, s->table},
                   tile[4] = {1, s->width, s->window[0], s->window[0]}, none[3] = {1, 1, NECK};
    uint32_t width[FV_SAM2_STAGES], heads[FV_SAM2_STAGES];
    blocks(m, s);
    fv_synthetic_under(m, "vision_encoder.backbone.");
    fv_synthetic_linear(m, "patch_embed.projection.", s->width, 3, FV_SAM2_PATCH, 1);
    fv_synthetic_tensor(m, "pos_embed", 4, table, 0, 0.1f);
    fv_synthetic_tensor(m, "pos_embed_window", 4, tile, 0, 0.1f);
    for (uint32_t k = 0; k < FV_SAM2_STAGES; k++) {
        char stem[24];
        width[k] = s->width << k;
        heads[k] = s->heads << k;
        snprintf(stem, sizeof stem, "convs.%u.", FV_SAM2_STAGES - 1 - k);
        fv_synthetic_under(m, "vision_encoder.neck.");
        fv_synthetic_linear(m, stem, NECK, width[k], 1, 1);
    }
    fv_synthetic_under(m, "%s", "");
    fv_synthetic_tensor(m, "no_memory_embedding", 3, none, 0, 0.1f);
    fv_sam_synthetic_decoder(m, true);
    return json_pack("{s:s, s:{s:{s:o, s:o, s:o, s:o, s:[i, i], s:[i, i, i]}}}", "model_type",
                     "sam2", "vision_config", "backbone_config", "embed_dim_per_stage",
                     fv_synthetic_four(width), "num_attention_heads_per_stage",
                     fv_synthetic_four(heads), "blocks_per_stage", fv_synthetic_four(s->depth),
                     "window_size_per_stage", fv_synthetic_four(s->window),
                     "window_positional_embedding_background_size", (int)s->table, (int)s->table,
                     "global_attention_blocks", (int)s->all[0], (int)s->all[1], (int)s->all[2]);
}

const fv_synthetic_list fv_sam2_synthetics = {FV_SYNTHETIC_SIZES(sizes), .make = make};
