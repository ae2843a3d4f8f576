/* sam_synthetic.c: makes SAMs of the published sizes with random weights and transformers'
 * names. */
#include "models/synthetic.h"
#include "models/vit/sam.h"

enum { PATCH = 16, SIDE = 64, WINDOW = 14, NECK = 256 };

static const struct size {
    const char *name;
    uint32_t width, depth, heads;
} sizes[] = {{"sam-b16", 768, 12, 12}, {"sam-l16", 1024, 24, 16}, {"sam-h16", 1280, 32, 16}};

static void block(fv_synthetic *m, const struct size *s, uint32_t i)
{
    const uint32_t c = s->width, side = (i + 1) % (s->depth / 4) ? WINDOW : SIDE;
    const float added = fv_synthetic_added(2 * s->depth);
    fv_synthetic_under(m, "vision_encoder.layers.%u.", i);
    fv_synthetic_norm(m, "layer_norm1.", c);
    fv_synthetic_linear(m, "attn.qkv.", 3 * c, c, 1, 1);
    fv_synthetic_table(m, "attn.rel_pos_h", 2 * side - 1, c / s->heads, 0.1f);
    fv_synthetic_table(m, "attn.rel_pos_w", 2 * side - 1, c / s->heads, 0.1f);
    fv_synthetic_linear(m, "attn.proj.", c, c, 1, added);
    fv_synthetic_norm(m, "layer_norm2.", c);
    fv_synthetic_linear(m, "mlp.lin1.", 4 * c, c, 1, 1);
    fv_synthetic_linear(m, "mlp.lin2.", c, 4 * c, 1, added);
}

static json_t *make(fv_synthetic *m, const void *size)
{
    const struct size *s = size;
    const uint64_t positions[4] = {1, SIDE, SIDE, s->width};
    const uint32_t every = s->depth / 4;
    const uint32_t all[4] = {every - 1, 2 * every - 1, 3 * every - 1, s->depth - 1};
    for (uint32_t i = 0; i < s->depth; i++)
        block(m, s, i);
    fv_synthetic_under(m, "vision_encoder.");
    fv_synthetic_linear(m, "patch_embed.projection.", s->width, 3, PATCH, 1);
    fv_synthetic_tensor(m, "pos_embed", 4, positions, 0, 0.1f);
    fv_synthetic_matrix(m, "neck.conv1.", NECK, s->width, 1, 1);
    fv_synthetic_norm(m, "neck.layer_norm1.", NECK);
    fv_synthetic_matrix(m, "neck.conv2.", NECK, NECK, 3, 1);
    fv_synthetic_norm(m, "neck.layer_norm2.", NECK);
    fv_sam_synthetic_decoder(m, false);
    return json_pack("{s:s, s:{s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:o}}", "model_type", "sam",
                     "vision_config", "hidden_size", (int)s->width, "num_hidden_layers",
                     (int)s->depth, "num_attention_heads", (int)s->heads, "image_size",
                     PATCH * SIDE, "patch_size", PATCH, "window_size", WINDOW, "output_channels",
                     NECK, "global_attn_indexes", fv_synthetic_four(all));
}

const fv_synthetic_list fv_sam_synthetics = {FV_SYNTHETIC_SIZES(sizes), .make = make};
