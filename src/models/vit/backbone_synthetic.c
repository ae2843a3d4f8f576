/* backbone_synthetic.c: backbones of dense models with random weights, in transformers' names. */
#include <math.h>
#include <stdio.h>

#include "models/synthetic.h"
#include "models/vit/backbone.h"

static void block(fv_synthetic *m, const fv_backbone_spec *s, uint32_t i)
{
    static const char *const inputs[] = {"query.", "key.", "value."};
    char p[64];
    const uint32_t c = s->width;
    const uint64_t n = c;
    const float added = 1 / sqrtf(2 * (float)s->depth), gain = s->dinov2 ? 1 : added;
    snprintf(p, sizeof p, "backbone.encoder.layer.%u.", i);
    fv_synthetic_norm(m, p, s->dinov2 ? "norm1." : "layernorm_before.", c);
    for (int k = 0; k < 3; k++) {
        char stem[48];
        snprintf(stem, sizeof stem, "attention.attention.%s", inputs[k]);
        fv_synthetic_linear(m, p, stem, c, c, 1, 1);
    }
    fv_synthetic_linear(m, p, "attention.output.dense.", c, c, 1, gain);
    fv_synthetic_norm(m, p, s->dinov2 ? "norm2." : "layernorm_after.", c);
    fv_synthetic_linear(m, p, "mlp.fc1.", s->ratio * c, c, 1, 1);
    fv_synthetic_linear(m, p, "mlp.fc2.", c, s->ratio * c, 1, gain);
    if (!s->dinov2)
        return;
    fv_synthetic_tensor(m, p, "layer_scale1.lambda1", 1, &n, added, added / 2);
    fv_synthetic_tensor(m, p, "layer_scale2.lambda1", 1, &n, added, added / 2);
}

void fv_backbone_synthetic(fv_synthetic *m, const fv_backbone_spec *s)
{
    const char *p = "backbone.";
    const uint64_t patches = (uint64_t)(s->image_width / s->patch) * (s->image_height / s->patch);
    const uint64_t positions[3] = {1, 1 + patches, s->width}, row[3] = {1, 1, s->width};
    if (s->dinov2)
        fv_synthetic_tensor(m, p, "embeddings.cls_token", 3, row, 0, 0.035f);
    fv_synthetic_tensor(m, p, "embeddings.position_embeddings", 3, positions, 0, 0.035f);
    fv_synthetic_linear(m, p, "embeddings.patch_embeddings.projection.", s->width, 3, s->patch, 1);
    for (uint32_t i = 0; i < s->depth; i++)
        block(m, s, i);
    fv_synthetic_norm(m, p, "layernorm.", s->width);
}

json_t *fv_backbone_describe(const fv_backbone_spec *s)
{
    json_t *taps = json_array();
    for (uint32_t i = 0; i < s->n_taps; i++)
        json_array_append_new(taps, json_integer(s->taps[i]));
    return json_pack("{s:s, s:i, s:i, s:i, s:i, s:[i, i], s:o}", "model_type",
                     s->dinov2 ? "dinov2" : "vitpose_backbone", "hidden_size", (int)s->width,
                     "num_hidden_layers", (int)s->depth, "num_attention_heads", (int)s->heads,
                     "patch_size", (int)s->patch, "image_size", (int)s->image_height,
                     (int)s->image_width, "out_indices", taps);
}
