/* sam_synthetic.c: encoders of SAM's published sizes with random weights, in transformers' names.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "models/synthetic.h"
#include "models/vit/sam.h"

enum { PATCH = 16, SIDE = 64, WINDOW = 14, NECK = 256 };

static const struct spec {
    const char *name;
    uint32_t width, depth, heads;
} specs[] = {{"sam-b16", 768, 12, 12}, {"sam-l16", 1024, 24, 16}, {"sam-h16", 1280, 32, 16}};

const char *fv_sam_synthetic(size_t index)
{
    return index < sizeof specs / sizeof *specs ? specs[index].name : NULL;
}

static void block(fv_synthetic *m, const struct spec *s, uint32_t i)
{
    char p[48];
    const uint32_t c = s->width, side = (i + 1) % (s->depth / 4) ? WINDOW : SIDE;
    const uint64_t positions[2] = {2 * side - 1, c / s->heads};
    const float added = 1 / sqrtf(2 * (float)s->depth);
    snprintf(p, sizeof p, "vision_encoder.layers.%u.", i);
    fv_synthetic_norm(m, p, "layer_norm1.", c);
    fv_synthetic_linear(m, p, "attn.qkv.", 3 * c, c, 1, 1);
    fv_synthetic_tensor(m, p, "attn.rel_pos_h", 2, positions, 0, 0.1f);
    fv_synthetic_tensor(m, p, "attn.rel_pos_w", 2, positions, 0, 0.1f);
    fv_synthetic_linear(m, p, "attn.proj.", c, c, 1, added);
    fv_synthetic_norm(m, p, "layer_norm2.", c);
    fv_synthetic_linear(m, p, "mlp.lin1.", 4 * c, c, 1, 1);
    fv_synthetic_linear(m, p, "mlp.lin2.", c, 4 * c, 1, added);
}

static json_t *describe(const struct spec *s)
{
    const uint32_t every = s->depth / 4;
    const uint32_t all[4] = {every - 1, 2 * every - 1, 3 * every - 1, s->depth - 1};
    return json_pack("{s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:o}", "model_type",
                     "sam_vision_model", "hidden_size", (int)s->width, "num_hidden_layers",
                     (int)s->depth, "num_attention_heads", (int)s->heads, "image_size",
                     PATCH * SIDE, "patch_size", PATCH, "window_size", WINDOW, "output_channels",
                     NECK, "global_attn_indexes", fv_synthetic_list(all));
}

fovea_status fv_sam_make_synthetic(json_t **config, fv_source *source, const char *name)
{
    fv_synthetic m = {.source = source};
    const char *p = "vision_encoder.";
    const struct spec *s = specs;
    while (strcmp(s->name, name) != 0)
        s++;
    const uint64_t positions[4] = {1, SIDE, SIDE, s->width};
    fv_synthetic_linear(&m, p, "patch_embed.projection.", s->width, 3, PATCH, 1);
    fv_synthetic_tensor(&m, p, "pos_embed", 4, positions, 0, 0.1f);
    for (uint32_t i = 0; i < s->depth; i++)
        block(&m, s, i);
    fv_synthetic_matrix(&m, p, "neck.conv1.", NECK, s->width, 1, 1);
    fv_synthetic_norm(&m, p, "neck.layer_norm1.", NECK);
    fv_synthetic_matrix(&m, p, "neck.conv2.", NECK, NECK, 3, 1);
    fv_synthetic_norm(&m, p, "neck.layer_norm2.", NECK);
    return fv_synthetic_end(config, name, m.status, describe(s));
}
