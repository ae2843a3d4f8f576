/* decoder.c: determines the neck and head that config.json describes, and connects them to the
 * backbone and the outputs. */
#include "models/dense/decoder.h"

#include <stdio.h>
#include <string.h>

#include <fovea/adapt.h>

#include "base/mem.h"
#include "base/num.h"

static const fv_decoder_head *const heads[] = {&fv_head_semantic_fpn, &fv_head_uper_net,
                                               &fv_head_retina_net};
#define HEADS (sizeof heads / sizeof *heads)

/* ---- config.json ---- */

/* Finds the head that config.json describes. Sets *out to NULL if it describes none or its
 * description is ignored. */
static fovea_status find_head(const fv_decoder_head **out, fv_config *section,
                              const fv_config *config)
{
    static const char *const keys[] = {"bbox_head", "decode_head"};
    *out = NULL;
    for (size_t k = 0; k < 2 && !*out; k++) {
        const char *type = NULL;
        bool ignored;
        FV_TRY(fv_fields_ignored(&ignored, config, keys[k]));
        if (ignored || !fv_config_get(config, keys[k]))
            continue;
        FV_TRY(fv_config_section(section, config, keys[k]));
        FV_TRY(fv_config_text(&type, section, "type"));
        for (size_t i = 0; i < HEADS && type; i++)
            if (strcmp(heads[i]->section, keys[k]) == 0 && strcmp(heads[i]->type, type) == 0)
                *out = heads[i];
        /* A decode_head of another type may be a linear head on a stage, which its tensors show. */
        if (!*out && (k == 0 || fv_config_get(config, "neck")))
            return fv_fail(FOVEA_ENOTSUP,
                           "%s: \"%s.type\" is \"%.60s\"; only %s supported. To load only the "
                           "backbone, add \"fovea\": {\"ignore\": [\"%s\"]}",
                           config->file, keys[k], type ? type : "",
                           k ? "FPNHead and UPerHead are" : "RetinaHead is", keys[k]);
    }
    return FOVEA_OK;
}

/* ---- reading ---- */

/* Reads "out_indices", the stages that the backbone outputs. If it is absent, the backbone outputs
 * all stages. */
static fovea_status pick_stages(fv_decoder_reader *r, const uint32_t *widths, uint32_t n)
{
    static const char key[] = "out_indices";
    fv_decoder *d = r->d;
    if (n > FV_LEVELS)
        return fv_fail(FOVEA_ENOTSUP,
                       "%s: the backbone has %u stages, but a neck or head reads at most %u",
                       r->config->file, n, FV_LEVELS);
    d->stages = n;
    for (uint32_t i = 0; i < n; i++)
        d->stage[i] = i;
    if (fv_config_get(r->config, key)) {
        FV_TRY(fv_config_count(&d->stages, r->config, key, n));
        FV_TRY(fv_config_u32s(d->stage, d->stages, r->config, key, 0, n - 1));
    }
    for (uint32_t i = 0; i < d->stages; i++) {
        if (i > 0 && d->stage[i] <= d->stage[i - 1])
            return fv_config_fail(r->config, key,
                                  "a list of stages, from the finest to the coarsest");
        r->channels[i] = widths[d->stage[i]];
    }
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
    FV_TRY(fv_config_section(&neck, r->config, "neck"));
    FV_TRY(pick_stages(r, widths, n));
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
    if (m->additions && m->additions->head == FOVEA_HEAD_FPN)
        FV_TRY(fv_decoder_new(m, source, config, widths, n));
    FV_TRY(find_head(&head, &section, config));
    if (!head)
        return FOVEA_OK;
    if (m->segmentation_source)
        return fv_fail(FOVEA_ENOTSUP, "%s: %s also has a head, \"%s\"; remove one of the two",
                       m->segmentation_source->name, config->file, head->section);
    FV_TRY(FV_MEM_NEW(&m->decoder, FV_MEM_MODEL, "a neck and a head"));
    m->decoder->head = head;
    fv_decoder_reader r = {
        .t = {.m = m, .source = source, .config = config->file}, .config = config, .d = m->decoder};
    fv_reader_begin(&r.t);
    fv_reader_unwrap(&r.t, "", head->last, "weight"); /* if it is missing, its reader fails */
    FV_TRY(read_parts(&r, &section, widths, n));
    if (m->additions && m->additions->head == FOVEA_HEAD_FPN && m->decoder->group_norms)
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
    fv_mem_free(m->decoder);
    m->decoder = NULL;
}

/* ---- outputs ---- */

fovea_status fv_decoder_list(fovea_model *m)
{
    const fv_decoder *d = m->decoder;
    if (!d)
        return FOVEA_OK;
    if (d->detection.levels == 0)
        return fv_model_add_output(m, "seg_logits");
    for (uint32_t i = 0; i < d->detection.levels; i++)
        FV_TRY(fv_model_add_output(m, "%s", fv_detection_logits(&d->detection, i).text));
    for (uint32_t i = 0; i < d->detection.levels; i++)
        FV_TRY(fv_model_add_output(m, "%s", fv_detection_boxes(&d->detection, i).text));
    return FOVEA_OK;
}

bool fv_decoder_wants(const fovea_model *m, const fv_builder *b)
{
    for (uint32_t i = 0; m->decoder && i < b->graph->n_wanted; i++) {
        const char *name = b->graph->wanted[i].name;
        if (strcmp(name, "seg_logits") == 0 || fv_begins_with(name, "cls.") ||
            fv_begins_with(name, "box."))
            return true;
    }
    return false;
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
