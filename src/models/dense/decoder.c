/* decoder.c: determines the neck and head that config.json describes, and connects them to the
 * backbone and the outputs. */
#include "models/dense/decoder.h"

#include <stdio.h>
#include <string.h>

#include <fovea/adapt.h>

#include "base/mem.h"
#include "base/num.h"
#include "models/vit/backbone.h"

static const fv_decoder_head *const heads[] = {
    &fv_head_semantic_fpn, &fv_head_uper_net,
    &fv_head_retina_net,   &fv_head_uper_net_of_transformers,
    &fv_head_mask2former,  &fv_head_mask_rcnn,
    &fv_head_cascade_rcnn};
#define HEADS (sizeof heads / sizeof *heads)

/* ---- config.json ---- */

/* Finds the head of a model whose section "backbone_config" describes the pyramid. */
static fovea_status find_whole(const fv_decoder_head **out, const fv_config *config,
                               const char *name)
{
    const char *type;
    FV_TRY(fv_config_type(&type, config));
    for (size_t i = 0; i < HEADS; i++) {
        *out = heads[i];
        if (type && heads[i]->backbone && strcmp(heads[i]->type, type) == 0)
            return FOVEA_OK;
    }
    *out = NULL;
    return fv_fail(FOVEA_ENOTSUP,
                   "%s: model type \"%.60s\" with a backbone of type \"%.60s\" is not supported; "
                   "mask2former and upernet are",
                   config->file, type ? type : "", name);
}

fovea_status fv_decoder_backbone(fv_config *out, const char **prefix, const fv_config *config,
                                 const char *name)
{
    const fv_decoder_head *head;
    *prefix = "";
    FV_TRY(fv_config_section(out, config, "backbone_config"));
    if (!out->object) {
        *out = *config;
        return FOVEA_OK;
    }
    FV_TRY(find_whole(&head, config, name));
    *prefix = head->backbone;
    return FOVEA_OK;
}

/* Finds the head that config.json describes. Sets *out to NULL if it describes none or its
 * description is ignored. */
static fovea_status find_head(const fv_decoder_head **out, fv_config *section,
                              const fv_config *config)
{
    static const char *const keys[] = {"roi_head", "bbox_head", "decode_head"};
    static const char *const known[] = {"StandardRoIHead and CascadeRoIHead are", "RetinaHead is",
                                        "FPNHead and UPerHead are"};
    enum { DECODE_HEAD = 2 };
    *out = NULL;
    FV_TRY(fv_config_section(section, config, "backbone_config"));
    if (section->object) {
        *section = *config;
        return find_whole(out, config, "");
    }
    for (size_t k = 0; k <= DECODE_HEAD && !*out; k++) {
        const char *type = NULL;
        bool ignored;
        FV_TRY(fv_fields_ignored(&ignored, config, keys[k]));
        if (ignored || !fv_config_get(config, keys[k]))
            continue;
        FV_TRY(fv_config_section(section, config, keys[k]));
        FV_TRY(fv_config_text(&type, section, "type"));
        for (size_t i = 0; i < HEADS && type; i++)
            if (heads[i]->section && strcmp(heads[i]->section, keys[k]) == 0 &&
                strcmp(heads[i]->type, type) == 0)
                *out = heads[i];
        /* A decode_head of another type may be a linear head on a stage, which its tensors show. */
        if (!*out && (k != DECODE_HEAD || fv_config_get(config, "neck")))
            return fv_fail(FOVEA_ENOTSUP,
                           "%s: \"%s.type\" is \"%.60s\"; only %s supported. To load only the "
                           "backbone, add \"fovea\": {\"ignore\": [\"%s\"]}",
                           config->file, keys[k], type ? type : "", known[k], keys[k]);
    }
    return FOVEA_OK;
}

/* ---- reading ---- */

/* Reads the stages that the section "backbone_config" names: transformers counts them from 1. */
static fovea_status pick_named(fv_decoder *d, const fv_config *config, uint32_t n)
{
    fv_config backbone;
    FV_TRY(fv_config_section(&backbone, config, "backbone_config"));
    FV_TRY(fv_backbone_read_taps(d->stage, &d->stages, FV_LEVELS, &backbone, n));
    if (d->stage[0] == 0)
        return fv_config_fail(
            &backbone, fv_config_get(&backbone, "out_indices") ? "out_indices" : "out_features",
            "a list of stages, without the stem");
    for (uint32_t i = 0; i < d->stages; i++)
        d->stage[i]--;
    return FOVEA_OK;
}

/* Reads "out_indices", the stages that the backbone outputs. If it is absent, the backbone outputs
 * all stages. With "out_features", both lists are those of transformers' backbones, which this head
 * does not read. */
static fovea_status pick_indices(fv_decoder *d, const fv_config *config, uint32_t n)
{
    static const char key[] = "out_indices";
    d->stages = n;
    for (uint32_t i = 0; i < n; i++)
        d->stage[i] = i;
    if (fv_config_get(config, key) && !fv_config_get(config, "out_features")) {
        FV_TRY(fv_config_count(&d->stages, config, key, n));
        FV_TRY(fv_config_u32s(d->stage, d->stages, config, key, 0, n - 1));
    }
    for (uint32_t i = 1; i < d->stages; i++)
        if (d->stage[i] <= d->stage[i - 1])
            return fv_config_fail(config, key, "a list of stages, from the finest to the coarsest");
    return FOVEA_OK;
}

static fovea_status pick_stages(fv_decoder_reader *r, const uint32_t *widths, uint32_t n)
{
    fv_decoder *d = r->d;
    if (n > FV_LEVELS)
        return fv_fail(FOVEA_ENOTSUP,
                       "%s: the backbone has %u stages, but a neck or head reads at most %u",
                       r->config->file, n, FV_LEVELS);
    FV_TRY((d->head->section ? pick_indices : pick_named)(d, r->config, n));
    for (uint32_t i = 0; i < d->stages; i++)
        r->channels[i] = widths[d->stage[i]];
    r->levels = d->stages;
    return FOVEA_OK;
}

/* Skips the heads that are only for training. */
static void ignore_others(fv_decoder_reader *r)
{
    static const char part[] = "auxiliary_head";
    char name[FV_READER_NAME];
    const int n = snprintf(name, sizeof name, "%s%s", r->t.root, part);
    for (uint32_t i = 0; i < r->t.source->count; i++)
        if (strncmp(r->t.source->by_name[i]->plain, name, (size_t)n) == 0) {
            fv_log("%s: \"%s\" is used only in training and is ignored", r->t.source->name, part);
            break;
        }
    fv_reader_leave(&r->t, "", "_head");
}

static fovea_status read_parts(fv_decoder_reader *r, const fv_config *head, const uint32_t *widths,
                               uint32_t n)
{
    fv_decoder *d = r->d;
    char text[32];
    fv_config neck;
    FV_TRY(pick_stages(r, widths, n));
    if (!d->head->section) {
        FV_TRY(d->head->read(r, head));
        FV_TRY(fv_reader_all_used(&r->t, "decode_head."));
        ignore_others(r);
        return fv_reader_all_used(&r->t, "");
    }
    FV_TRY(fv_config_section(&neck, r->config, "neck"));
    d->has_neck = neck.object != NULL;
    if (d->has_neck)
        FV_TRY(fv_feature_pyramid_read(&d->neck, r, &neck));
    FV_TRY(d->head->read(r, head));
    FV_TRY(fv_reader_all_used(&r->t, "neck."));
    snprintf(text, sizeof text, "%s.", d->head->section);
    FV_TRY(fv_reader_all_used(&r->t, text));
    ignore_others(r);
    return FOVEA_OK;
}

fovea_status fv_decoder_read(fovea_model *m, const fv_source *source, const fv_config *config,
                             const uint32_t *widths, uint32_t n)
{
    const fv_decoder_head *head;
    fv_config section;
    const bool added = m->additions && m->additions->head == FOVEA_HEAD_FPN;
    FV_TRY(fv_config_section(&section, config, "backbone_config"));
    if (added && section.object)
        return fv_fail(
            FOVEA_ENOTSUP,
            "%s: the model has a head already, which cannot be trained; FPN can be added "
            "only to a backbone",
            config->file);
    if (added)
        FV_TRY(fv_decoder_new(m, source, config, widths, n));
    FV_TRY(find_head(&head, &section, config));
    if (!head)
        return FOVEA_OK;
    if (m->segmentation_source)
        return fv_fail(FOVEA_ENOTSUP, "%s: %s also has a head, \"%s\"; remove one of the two",
                       m->segmentation_source->name, config->file, fv_decoder_head_name(head));
    FV_TRY(FV_MEM_NEW(&m->decoder, FV_MEM_MODEL, "a neck and a head"));
    m->decoder->head = head;
    fv_decoder_reader r = {
        .t = {.m = m, .source = source, .config = config->file}, .config = config, .d = m->decoder};
    fv_reader_begin(&r.t);
    fv_reader_unwrap(&r.t, "", head->last, "weight"); /* if it is missing, its reader fails */
    if (!head->section)
        snprintf(m->info.type, sizeof m->info.type, "%s", head->type);
    FV_TRY(read_parts(&r, &section, widths, n));
    if (added && m->decoder->group_norms)
        return fv_fail(FOVEA_ENOTSUP,
                       "%s: the %s or its neck has group normalisation, which cannot be trained",
                       config->file, head->type);
    return FOVEA_OK;
}

bool fv_decoder_weights(const fv_decoder *d, fv_weight_visit *visit, void *ctx)
{
    if (!d->head->weights || d->group_norms)
        return false;
    if (d->has_neck)
        fv_feature_pyramid_weights(&d->neck, visit, ctx);
    d->head->weights(d, visit, ctx);
    return true;
}

void fv_decoder_release(fovea_model *m)
{
    if (m->decoder && m->decoder->head->release)
        m->decoder->head->release(m->decoder);
    fv_mem_free(m->decoder);
    m->decoder = NULL;
}

/* ---- outputs ---- */

fovea_status fv_decoder_list(fovea_model *m)
{
    const fv_decoder *d = m->decoder;
    if (!d)
        return FOVEA_OK;
    for (const char *const *name = d->head->outputs; *name; name++)
        FV_TRY(fv_model_add_output(m, "%s", *name));
    for (uint32_t i = 0; i < d->detection.levels; i++)
        FV_TRY(fv_model_add_output(m, "%s", fv_detection_logits(&d->detection, i).text));
    for (uint32_t i = 0; i < d->detection.levels; i++)
        FV_TRY(fv_model_add_output(m, "%s", fv_detection_boxes(&d->detection, i).text));
    return d->detection.mask_size ? fv_model_add_output(m, "pred_masks") : FOVEA_OK;
}

bool fv_decoder_wants(const fovea_model *m, const fv_builder *b)
{
    const fv_decoder *d = m->decoder;
    for (const char *const *name = d ? d->head->outputs : NULL; name && *name; name++)
        if (fv_emit_wants(b, *name))
            return true;
    for (uint32_t i = 0; d && i < d->detection.levels; i++)
        if (fv_emit_wants(b, fv_detection_logits(&d->detection, i).text) ||
            fv_emit_wants(b, fv_detection_boxes(&d->detection, i).text))
            return true;
    return d && d->detection.mask_size && fv_emit_wants(b, "pred_masks");
}

void fv_decoder_emit(const fovea_model *m, fv_builder *b, const fv_level *stage)
{
    const fv_decoder *d = m->decoder;
    fv_level level[FV_LEVELS];
    if (!fv_decoder_wants(m, b) || b->status != FOVEA_OK)
        return;
    for (uint32_t i = 0; i < d->stages; i++)
        level[i] = stage[d->stage[i]];
    if (d->has_neck)
        fv_feature_pyramid_emit(&d->neck, b, level);
    d->head->emit(d, b, level);
}
