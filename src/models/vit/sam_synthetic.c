/* sam_synthetic.c: makes SAMs of the published sizes with random weights and transformers'
 * names. */
#include <stdio.h>

#include "models/synthetic.h"
#include "models/vit/sam.h"

enum { PATCH = 16, SIDE = 64, WINDOW = 14, NECK = 256 };
enum { LAYERS = 2, HEADS = 8, INNER = NECK / 2, HIDDEN = 2048, MASK_PROMPT = 16 };

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

static void attention(fv_synthetic *m, const char *name, uint32_t inner, float gain)
{
    static const char *const parts[] = {"q_proj.", "k_proj.", "v_proj.", "out_proj."};
    for (uint32_t i = 0; i < 4; i++) {
        char stem[64];
        snprintf(stem, sizeof stem, "%s%s", name, parts[i]);
        fv_synthetic_linear(m, stem, i < 3 ? inner : NECK, i < 3 ? NECK : inner, 1,
                            i < 3 ? 1 : gain);
    }
}

static void decoder_layer(fv_synthetic *m, uint32_t i)
{
    static const char *const norms[] = {"layer_norm1.", "layer_norm2.", "layer_norm3.",
                                        "layer_norm4."};
    fv_synthetic_under(m, "mask_decoder.transformer.layers.%u.", i);
    attention(m, "self_attn.", NECK, 1);
    attention(m, "cross_attn_token_to_image.", INNER, 1);
    attention(m, "cross_attn_image_to_token.", INNER, 1);
    fv_synthetic_linear(m, "mlp.lin1.", HIDDEN, NECK, 1, 1);
    fv_synthetic_linear(m, "mlp.lin2.", NECK, HIDDEN, 1, 1);
    for (uint32_t k = 0; k < 4; k++)
        fv_synthetic_norm(m, norms[k], NECK);
}

/* Adds a head of three layers. */
static void head(fv_synthetic *m, const char *name, uint32_t out)
{
    fv_synthetic_under(m, "mask_decoder.%s.", name);
    fv_synthetic_linear(m, "proj_in.", NECK, NECK, 1, 1);
    fv_synthetic_linear(m, "layers.0.", NECK, NECK, 1, 1);
    fv_synthetic_linear(m, "proj_out.", out, NECK, 1, 1);
}

static void decoder(fv_synthetic *m)
{
    for (uint32_t i = 0; i < LAYERS; i++)
        decoder_layer(m, i);
    for (uint32_t i = 0; i < FV_SAM_MASKS; i++) {
        char name[40];
        snprintf(name, sizeof name, "output_hypernetworks_mlps.%u", i);
        head(m, name, NECK / 8);
    }
    head(m, "iou_prediction_head", FV_SAM_MASKS);
    fv_synthetic_under(m, "mask_decoder.");
    attention(m, "transformer.final_attn_token_to_image.", INNER, 1);
    fv_synthetic_norm(m, "transformer.layer_norm_final_attn.", NECK);
    fv_synthetic_table(m, "iou_token.weight", 1, NECK, 1);
    fv_synthetic_table(m, "mask_tokens.weight", FV_SAM_MASKS, NECK, 1);
    /* each output pixel is a sum over only one of the 2 x 2 taps */
    fv_synthetic_deconv(m, "upscale_conv1.", NECK, NECK / 4, 2, NECK);
    fv_synthetic_bias(m, "upscale_conv1.", NECK / 4);
    fv_synthetic_norm(m, "upscale_layer_norm.", NECK / 4);
    fv_synthetic_deconv(m, "upscale_conv2.", NECK / 4, NECK / 8, 2, NECK / 4);
    fv_synthetic_bias(m, "upscale_conv2.", NECK / 8);
}

static void prompts(fv_synthetic *m)
{
    fv_synthetic_under(m, "%s", "");
    fv_synthetic_table(m, "shared_image_embedding.positional_embedding", 2, NECK / 2, 1);
    fv_synthetic_under(m, "prompt_encoder.");
    for (uint32_t i = 0; i < FV_PROMPT_NOTHING; i++) {
        char name[32];
        snprintf(name, sizeof name, "point_embed.%u.weight", i);
        fv_synthetic_table(m, name, 1, NECK, 1);
    }
    fv_synthetic_table(m, "not_a_point_embed.weight", 1, NECK, 1);
    fv_synthetic_table(m, "no_mask_embed.weight", 1, NECK, 1);
    fv_synthetic_linear(m, "mask_embed.conv1.", MASK_PROMPT / 4, 1, 2, 1);
    fv_synthetic_norm(m, "mask_embed.layer_norm1.", MASK_PROMPT / 4);
    fv_synthetic_linear(m, "mask_embed.conv2.", MASK_PROMPT, MASK_PROMPT / 4, 2, 1);
    fv_synthetic_norm(m, "mask_embed.layer_norm2.", MASK_PROMPT);
    fv_synthetic_linear(m, "mask_embed.conv3.", NECK, MASK_PROMPT, 1, 1);
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
    decoder(m);
    prompts(m);
    return json_pack("{s:s, s:{s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:o}}", "model_type", "sam",
                     "vision_config", "hidden_size", (int)s->width, "num_hidden_layers",
                     (int)s->depth, "num_attention_heads", (int)s->heads, "image_size",
                     PATCH * SIDE, "patch_size", PATCH, "window_size", WINDOW, "output_channels",
                     NECK, "global_attn_indexes", fv_synthetic_four(all));
}

const fv_synthetic_list fv_sam_synthetics = {FV_SYNTHETIC_SIZES(sizes), .make = make};
