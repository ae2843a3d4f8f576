/* pyramid_synthetic.c: MAViT and NaLaFormer checkpoints of the published sizes with random weights.
 *
 * Random weights keep activations near 1 at any depth: a matrix is scaled by 1/sqrt(number of
 * inputs), and one whose output is added to the residual stream also by 1/sqrt(3 depth), because a
 * block adds three or four times.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "models/dense/decoder_synthetic.h"
#include "models/pyramid/pyramid.h"
#include "models/synthetic.h"

#define CLASSES 1000

const char *fv_pyramid_synthetic(const fv_pyramid_form *form, size_t index)
{
    size_t n = 0;
    while (n < index && form->sizes[n].name)
        n++;
    return form->sizes[n].name;
}

/* The size whose name is the first n characters of `name`. */
static const fv_pyramid_spec *find_size(const fv_pyramid_form *form, const char *name, size_t n)
{
    const fv_pyramid_spec *s = form->sizes;
    while (strlen(s->name) != n || strncmp(s->name, name, n) != 0)
        s++;
    return s;
}

struct maker {
    fv_synthetic m;
    const fv_pyramid_form *form;
    const fv_pyramid_spec *spec;
    float added; /* standard deviation of what a branch adds */
};

static void vector(struct maker *m, const char *prefix, const char *name, uint64_t n, float mean,
                   float spread)
{
    fv_synthetic_tensor(&m->m, prefix, name, 1, &n, mean, spread);
}

static void linear(struct maker *m, const char *prefix, const char *stem, uint32_t rows,
                   uint32_t cols)
{
    fv_synthetic_linear(&m->m, prefix, stem, rows, cols, 1, 1);
}

static void batchnorm(struct maker *m, const char *prefix, const char *stem, uint32_t n)
{
    char name[64];
    fv_synthetic_norm(&m->m, prefix, stem, n);
    snprintf(name, sizeof name, "%srunning_mean", stem);
    vector(m, prefix, name, n, 0, 0.035f);
    snprintf(name, sizeof name, "%srunning_var", stem);
    vector(m, prefix, name, n, 1, 0.1f);
}

static void block(struct maker *m, const char *prefix, uint32_t c, uint32_t hidden)
{
    const fv_pyramid_form *f = m->form;
    fv_synthetic_linear(&m->m, prefix, f->cpe1, c, 1, 3, m->added);
    fv_synthetic_norm(&m->m, prefix, "norm1.norm.", c);
    linear(m, prefix, f->fused, 4 * c, c);
    fv_synthetic_linear(&m->m, prefix, "attn.lepe.", c, 1, 5, 1);
    if (f->inner)
        fv_synthetic_norm(&m->m, prefix, f->inner, c);
    linear(m, prefix, f->proj, c, c);
    vector(m, prefix, "gamma_1", c, m->added, m->added / 2);
    if (f->cpe2)
        fv_synthetic_linear(&m->m, prefix, f->cpe2, c, 1, 3, m->added);
    fv_synthetic_norm(&m->m, prefix, "norm2.norm.", c);
    linear(m, prefix, "ffn.fc1.", hidden, c);
    fv_synthetic_linear(&m->m, prefix, "ffn.dwconv.", hidden, 1, 3, 1);
    linear(m, prefix, "ffn.fc2.", c, hidden);
    vector(m, prefix, "gamma_2", c, m->added, m->added / 2);
}

static void stage(struct maker *m, uint32_t i)
{
    const fv_pyramid_spec *s = m->spec;
    const uint32_t width = s->width[i];
    char prefix[40];
    for (uint32_t k = 0; k < s->depth[i]; k++) {
        snprintf(prefix, sizeof prefix, "layers.%u.blocks.%u.", i, k);
        block(m, prefix, width, (uint32_t)(width * s->ratio));
    }
    if (i + 1 == FV_PYRAMID_STAGES)
        return;
    snprintf(prefix, sizeof prefix, "layers.%u.downsample.", i);
    fv_synthetic_linear(&m->m, prefix, "reduction.", s->width[i + 1], width, 3, 1);
    batchnorm(m, prefix, "norm.", s->width[i + 1]);
}

static void stem(struct maker *m)
{
    static const char prefix[] = "patch_embed.proj.";
    const uint32_t width = m->spec->width[0];
    char part[8];
    for (uint32_t i = 0; i < FV_PYRAMID_STEM; i++) {
        const uint32_t rows = i + 1 < FV_PYRAMID_STEM ? width / 2 : width;
        snprintf(part, sizeof part, "%u.", 3 * i);
        fv_synthetic_linear(&m->m, prefix, part, rows, i == 0 ? 3 : width / 2, 3, 1);
        snprintf(part, sizeof part, "%u.", 3 * i + 1);
        batchnorm(m, prefix, part, rows);
    }
}

/* ---- config.json ---- */

/* Makes the kinds of blocks: linear in the first two stages. */
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

static json_t *make_config(const struct maker *m)
{
    const fv_pyramid_spec *s = m->spec;
    return json_pack("{s:s, s:o, s:o, s:o, s:o, s:[f, f, f, f]}", "model_type", m->form->type,
                     "flagss", flags(s), "embed_dims", fv_synthetic_list(s->width), "depths",
                     fv_synthetic_list(s->depth), "num_heads", fv_synthetic_list(s->heads),
                     "mlp_ratios", s->ratio, s->ratio, s->ratio, s->ratio);
}

static void head(struct maker *m, json_t *made)
{
    const fv_pyramid_spec *s = m->spec;
    linear(m, "", "proj.", s->projection, s->width[FV_PYRAMID_STAGES - 1]);
    batchnorm(m, "", "norm.", s->projection);
    linear(m, "", "head.", CLASSES, s->projection);
    json_object_set_new(made, "projection", json_integer(s->projection));
    json_object_set_new(made, "num_classes", json_integer(CLASSES));
}

/* Adds the norms that dense backbones have instead of the head. */
static void extra_norms(struct maker *m)
{
    char prefix[40];
    for (uint32_t i = 0; i < FV_PYRAMID_STAGES; i++) {
        snprintf(prefix, sizeof prefix, "extra_norms.%u.", i);
        fv_synthetic_norm(&m->m, prefix, "norm.", m->spec->width[i]);
    }
}

fovea_status fv_pyramid_make_synthetic(json_t **config, fv_source *source,
                                       const fv_pyramid_form *form, const char *name)
{
    size_t base;
    const int decoder = fv_decoder_suffix(&base, name);
    const fv_pyramid_spec *spec = find_size(form, name, base);
    struct maker m = {.m = {source, FOVEA_OK}, .form = form, .spec = spec};
    uint32_t depth = 0;
    for (uint32_t i = 0; i < FV_PYRAMID_STAGES; i++)
        depth += spec->depth[i];
    m.added = 1 / sqrtf(3 * (float)depth);
    json_t *made = make_config(&m);
    stem(&m);
    for (uint32_t i = 0; i < FV_PYRAMID_STAGES; i++)
        stage(&m, i);
    if (decoder >= 0) {
        extra_norms(&m);
        fv_decoder_synthetic_tensors(&m.m, decoder, spec->width);
        fv_decoder_synthetic_config(made, decoder, spec->width);
    } else {
        head(&m, made);
    }
    return fv_synthetic_end(config, name, m.m.status, made);
}
