/* pyramid_synthetic.c: makes MAViT and NaLaFormer checkpoints of the published sizes with random
 * weights. */
#include "models/dense/decoder_synthetic.h"
#include "models/pyramid/pyramid.h"

#define CLASSES 1000

static void block(fv_synthetic *m, uint32_t c, uint32_t hidden, float added)
{
    const fv_pyramid_form *f = m->form;
    fv_synthetic_linear(m, f->cpe1, c, 1, 3, added);
    fv_synthetic_norm(m, "norm1.norm.", c);
    fv_synthetic_linear(m, f->fused, 4 * c, c, 1, 1);
    fv_synthetic_linear(m, "attn.lepe.", c, 1, 5, 1);
    fv_synthetic_norm(m, f->inner, c);
    fv_synthetic_linear(m, f->proj, c, c, 1, 1);
    fv_synthetic_vector(m, "gamma_1", c, added, added / 2);
    fv_synthetic_linear(m, f->cpe2, c, 1, 3, added);
    fv_synthetic_norm(m, "norm2.norm.", c);
    fv_synthetic_linear(m, "ffn.fc1.", hidden, c, 1, 1);
    fv_synthetic_linear(m, "ffn.dwconv.", hidden, 1, 3, 1);
    fv_synthetic_linear(m, "ffn.fc2.", c, hidden, 1, 1);
    fv_synthetic_vector(m, "gamma_2", c, added, added / 2);
}

static void stage(fv_synthetic *m, const fv_pyramid_spec *s, uint32_t i, float added)
{
    const uint32_t width = s->width[i];
    for (uint32_t k = 0; k < s->depth[i]; k++) {
        fv_synthetic_under(m, "layers.%u.blocks.%u.", i, k);
        block(m, width, (uint32_t)(width * s->ratio), added);
    }
    if (i + 1 == FV_PYRAMID_STAGES)
        return;
    fv_synthetic_under(m, "layers.%u.downsample.", i);
    fv_synthetic_linear(m, "reduction.", s->width[i + 1], width, 3, 1);
    fv_synthetic_batchnorm(m, "norm.", s->width[i + 1], 0.035f);
}

static void stem(fv_synthetic *m, uint32_t width)
{
    for (uint32_t i = 0; i < FV_PYRAMID_STEM; i++) {
        const uint32_t rows = i + 1 < FV_PYRAMID_STEM ? width / 2 : width;
        fv_synthetic_under(m, "patch_embed.proj.%u.", 3 * i);
        fv_synthetic_linear(m, "", rows, i == 0 ? 3 : width / 2, 3, 1);
        fv_synthetic_under(m, "patch_embed.proj.%u.", 3 * i + 1);
        fv_synthetic_batchnorm(m, "", rows, 0.035f);
    }
}

/* Returns the kinds of the blocks, which are linear in the first two stages. */
static json_t *flags(const fv_pyramid_spec *s)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < FV_PYRAMID_STAGES; i++) {
        json_t *stage = json_array();
        for (uint32_t k = 0; k < s->depth[i]; k++)
            json_array_append_new(stage, json_string(i < 2 ? "l" : "v"));
        json_array_append_new(list, stage);
    }
    return list;
}

/* Adds the classification head; or, for a dense model, the norms of the backbone, and the neck and
 * head that the name's ending selects. Returns their part of config.json. */
static json_t *head(fv_synthetic *m, const fv_pyramid_spec *s)
{
    if (*m->ending) {
        for (uint32_t i = 0; i < FV_PYRAMID_STAGES; i++) {
            fv_synthetic_under(m, "extra_norms.%u.", i);
            fv_synthetic_norm(m, "norm.", s->width[i]);
        }
        return fv_decoder_synthetic(m, s->width);
    }
    fv_synthetic_under(m, "%s", "");
    fv_synthetic_linear(m, "proj.", s->projection, s->width[FV_PYRAMID_STAGES - 1], 1, 1);
    fv_synthetic_batchnorm(m, "norm.", s->projection, 0.035f);
    fv_synthetic_linear(m, "head.", CLASSES, s->projection, 1, 1);
    return json_pack("{s:i, s:i}", "projection", (int)s->projection, "num_classes", CLASSES);
}

json_t *fv_pyramid_make_synthetic(fv_synthetic *m, const void *size)
{
    const fv_pyramid_spec *s = size;
    const fv_pyramid_form *form = m->form;
    uint32_t depth = 0;
    for (uint32_t i = 0; i < FV_PYRAMID_STAGES; i++)
        depth += s->depth[i];
    stem(m, s->width[0]);
    for (uint32_t i = 0; i < FV_PYRAMID_STAGES; i++) /* a block has three or four additions */
        stage(m, s, i, fv_synthetic_added(3 * depth));
    json_t *config =
        json_pack("{s:s, s:o, s:o, s:o, s:o, s:[f, f, f, f]}", "model_type", form->type, "flagss",
                  flags(s), "embed_dims", fv_synthetic_four(s->width), "depths",
                  fv_synthetic_four(s->depth), "num_heads", fv_synthetic_four(s->heads),
                  "mlp_ratios", s->ratio, s->ratio, s->ratio, s->ratio);
    return fv_synthetic_join(config, head(m, s));
}
