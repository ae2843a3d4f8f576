/* sam_decoder_synthetic.c: makes decoders of masks of SAM and SAM 2 with random weights and
 * transformers' names. */
#include <stdio.h>

#include "models/synthetic.h"
#include "models/vit/sam_decoder.h"

enum { NECK = 256, LAYERS = 2, INNER = NECK / 2, HIDDEN = 2048, MASK_PROMPT = 16 };

static void attention(fv_synthetic *m, const char *name, uint32_t inner, bool second)
{
    const char *const parts[] = {"q_proj.", "k_proj.", "v_proj.", second ? "o_proj." : "out_proj."};
    for (uint32_t i = 0; i < 4; i++) {
        char stem[64];
        snprintf(stem, sizeof stem, "%s%s", name, parts[i]);
        fv_synthetic_linear(m, stem, i < 3 ? inner : NECK, i < 3 ? NECK : inner, 1, 1);
    }
}

static void decoder_layer(fv_synthetic *m, uint32_t i, bool second)
{
    static const char *const norms[] = {"layer_norm1.", "layer_norm2.", "layer_norm3.",
                                        "layer_norm4."};
    fv_synthetic_under(m, "mask_decoder.transformer.layers.%u.", i);
    attention(m, "self_attn.", NECK, second);
    attention(m, "cross_attn_token_to_image.", INNER, second);
    attention(m, "cross_attn_image_to_token.", INNER, second);
    fv_synthetic_linear(m, second ? "mlp.proj_in." : "mlp.lin1.", HIDDEN, NECK, 1, 1);
    fv_synthetic_linear(m, second ? "mlp.proj_out." : "mlp.lin2.", NECK, HIDDEN, 1, 1);
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

static void decoder(fv_synthetic *m, bool second)
{
    for (uint32_t i = 0; i < LAYERS; i++)
        decoder_layer(m, i, second);
    for (uint32_t i = 0; i < FV_SAM_MASKS; i++) {
        char name[40];
        snprintf(name, sizeof name, "output_hypernetworks_mlps.%u", i);
        head(m, name, NECK / 8);
    }
    head(m, "iou_prediction_head", FV_SAM_MASKS);
    fv_synthetic_under(m, "mask_decoder.");
    attention(m, "transformer.final_attn_token_to_image.", INNER, second);
    fv_synthetic_norm(m, "transformer.layer_norm_final_attn.", NECK);
    fv_synthetic_table(m, "iou_token.weight", 1, NECK, 1);
    fv_synthetic_table(m, "mask_tokens.weight", FV_SAM_MASKS, NECK, 1);
    /* each output pixel is a sum over only one of the 2 x 2 taps */
    fv_synthetic_deconv(m, "upscale_conv1.", NECK, NECK / 4, 2, NECK);
    fv_synthetic_bias(m, "upscale_conv1.", NECK / 4);
    fv_synthetic_norm(m, "upscale_layer_norm.", NECK / 4);
    fv_synthetic_deconv(m, "upscale_conv2.", NECK / 4, NECK / 8, 2, NECK / 4);
    fv_synthetic_bias(m, "upscale_conv2.", NECK / 8);
    if (!second)
        return;
    fv_synthetic_table(m, "obj_score_token.weight", 1, NECK, 1);
    fv_synthetic_linear(m, "conv_s0.", NECK / 8, NECK, 1, 1);
    fv_synthetic_linear(m, "conv_s1.", NECK / 4, NECK, 1, 1);
    head(m, "pred_obj_score_head", 1);
}

static void prompts(fv_synthetic *m, bool second)
{
    fv_synthetic_under(m, "%s", "");
    fv_synthetic_table(m, "shared_image_embedding.positional_embedding", 2, NECK / 2, 1);
    fv_synthetic_under(m, "prompt_encoder.");
    if (second)
        fv_synthetic_table(m, "point_embed.weight", FV_PROMPT_NOTHING, NECK, 1);
    for (uint32_t i = 0; !second && i < FV_PROMPT_NOTHING; i++) {
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

void fv_sam_synthetic_decoder(fv_synthetic *m, bool second)
{
    decoder(m, second);
    prompts(m, second);
}
