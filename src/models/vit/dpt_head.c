/* dpt_head.c: adds and reads the DPT-lite head of a ViT, and emits its steps. */
#include "models/vit/dpt_head.h"

#include <stdio.h>

#include <fovea/adapt.h>

#include "models/layer.h"
#include "models/vit/backbone.h"

#define OWN "dpt_head."
#define CHANNELS 128 /* channels of a new head */
#define LEVELS 4     /* most levels of a new head */
#define CLASSES 65536
#define WIDTH 65536

#define FARTHEST 1e6 /* metres */

/* ---- a new one ---- */

static fovea_status put(fv_tensor_reader *t, const char *name, uint64_t channels, uint64_t size,
                        bool bent)
{
    const uint64_t shape[4] = {CHANNELS, channels, size, size};
    return fv_reader_put_conv(t, OWN, name, shape, false, bent);
}

static fovea_status put_unit(fv_tensor_reader *t, uint32_t layer, uint32_t number)
{
    for (int i = 1; i <= 2; i++) {
        char name[72];
        snprintf(name, sizeof name, "neck.fusion_stage.layers.%u.residual_layer%u.convolution%d.",
                 layer, number, i);
        FV_TRY(put(t, name, CHANNELS, 3, true));
    }
    return FOVEA_OK;
}

static fovea_status put_tensors(fv_tensor_reader *t, uint32_t levels, uint32_t width)
{
    char name[72];
    for (uint32_t i = 0; i < levels; i++) {
        snprintf(name, sizeof name, "neck.reassemble_stage.layers.%u.projection.", i);
        FV_TRY(put(t, name, width, 1, false));
        snprintf(name, sizeof name, "neck.convs.%u.", i);
        FV_TRY(put(t, name, CHANNELS, 3, false));
        if (i > 0) /* the deepest level has no deeper level to add */
            FV_TRY(put_unit(t, i, 1));
        FV_TRY(put_unit(t, i, 2));
        snprintf(name, sizeof name, "neck.fusion_stage.layers.%u.projection.", i);
        FV_TRY(put(t, name, CHANNELS, 1, false));
    }
    return put(t, "conv.", CHANNELS, 3, false);
}

/* Adds the section to config.json: {"out_indices": the ends of equal parts of the blocks,
 * "reassemble_factors": ones, "max_depth"}. */
static fovea_status describe(json_t *config, const char *file, uint32_t levels, uint32_t depth,
                             float max_depth)
{
    json_t *taps = json_array(), *scales = json_array();
    for (uint32_t i = 1; i <= levels; i++) {
        json_array_append_new(taps, json_integer(depth * i / levels));
        json_array_append_new(scales, json_integer(1));
    }
    if (!json_object_get(config, "fovea"))
        json_object_set_new(config, "fovea", json_object());
    json_t *own = json_object_get(config, "fovea"),
           *head = json_pack("{s:o, s:o}", "out_indices", taps, "reassemble_factors", scales);
    if (max_depth > 0)
        json_object_set_new(head, "max_depth", json_real((double)max_depth));
    return head && own && json_object_set_new(own, "dpt_head", head) == 0
               ? FOVEA_OK
               : fv_fail(FOVEA_ENOMEM, "%s: not enough memory for a head", file);
}

static fovea_status put_head(fv_tensor_reader *t, const fv_config *config, const fv_vit *v)
{
    const fv_additions *more = t->m->additions;
    const uint32_t levels = v->depth < LEVELS ? v->depth : LEVELS;
    const uint32_t rows = more->max_depth > 0 ? 1 : more->segments;
    const json_t *head = json_object_get(json_object_get(config->object, "fovea"), "dpt_head");
    if (!head) {
        FV_TRY(describe(config->object, config->file, levels, v->depth, more->max_depth));
        FV_TRY(put_tensors(t, levels, v->width));
    }
    const fv_tensor *last = fv_reader_find(t, OWN, "classify.", "weight");
    if (rows == 0 || fv_tensor_dimension(last, 0) == rows || json_object_get(head, "max_depth"))
        return FOVEA_OK;
    const fv_tensor *conv = fv_reader_find(t, OWN, "conv.", "weight");
    return fv_reader_put_head(t, OWN "classify.", rows, fv_tensor_dimension(conv, 0));
}

/* ---- reading ---- */

static const char fields[] = "max_depth neck_hidden_sizes out_indices reassemble_factors";

static fovea_status find_section(fv_config *out, const fv_config *config)
{
    fv_config own;
    FV_TRY(fv_config_section(&own, config, "fovea"));
    *out = (fv_config){.file = config->file};
    if (own.object)
        FV_TRY(fv_config_section(out, &own, "dpt_head"));
    out->section = "fovea.dpt_head";
    return out->object ? fv_fields_check_section(out, config, fields) : FOVEA_OK;
}

/* Reads "max_depth" of a head that computes depth. */
static fovea_status read_max_depth(fv_dpt_head *h, fv_tensor_reader *t, const fv_config *section,
                                   uint32_t rows)
{
    const fv_tensor *scale;
    float *data, most = 0;
    FV_TRY(fv_config_float(&most, section, "max_depth", 0, FARTHEST));
    if (!(most > 0))
        return fv_config_fail(section, "max_depth", "a positive number of metres");
    if (rows != 1)
        return fv_fail(FOVEA_EFORMAT, "%s: the head has %u outputs; a head for depth must have 1",
                       t->source->name, rows);
    FV_TRY(fv_model_floats(&data, &scale, t->m, 1, 1));
    *data = most;
    h->max_depth = fv_weight_of(scale, 1, 1);
    t->m->info.metric = 1;
    return FOVEA_OK;
}

static fovea_status read_last(fv_dpt_head *h, fv_tensor_reader *t, const fv_config *section)
{
    const uint32_t width = fv_tensor_dimension(fv_reader_find(t, OWN, "conv.", "weight"), 0);
    const uint32_t classes = fv_tensor_dimension(fv_reader_find(t, OWN, "classify.", "weight"), 0);
    if (width > WIDTH || classes > CLASSES)
        return fv_fail(FOVEA_EFORMAT,
                       "%s: the head has %u classes after %u channels, which is out of range",
                       t->source->name, classes, width);
    FV_TRY(fv_reader_conv(&h->conv, t, OWN, "conv.", width, h->neck.width, 3));
    FV_TRY(fv_reader_linear(&h->classify, t, OWN, "classify.", classes, width));
    if (fv_config_get(section, "max_depth"))
        FV_TRY(read_max_depth(h, t, section, classes));
    else
        t->m->info.segments = classes;
    return fv_reader_all_used(t, OWN);
}

fovea_status fv_dpt_head_read(fovea_model *m, const fv_source *source, const fv_config *config,
                              const fv_vit *v)
{
    fv_tensor_reader t = {.m = m, .source = source, .config = config->file};
    fv_config section;
    uint32_t taps;
    fv_reader_begin(&t);
    if (m->additions && m->additions->head == FOVEA_HEAD_DPT_LITE)
        FV_TRY(put_head(&t, config, v));
    FV_TRY(find_section(&section, config));
    if (!section.object)
        return FOVEA_OK;
    if (m->segmentation_source)
        return fv_fail(FOVEA_ENOTSUP, "%s: %s also has a head, \"%s\"; remove one of the two",
                       m->segmentation_source->name, config->file, section.section);
    FV_TRY(FV_MEM_NEW(&m->dpt_head, FV_MEM_MODEL, "a head"));
    fv_dpt_head *h = m->dpt_head;
    FV_TRY(fv_backbone_read_taps(h->tap, &taps, FV_DPT_LEVELS, &section, v->depth));
    FV_TRY(fv_dpt_read(&h->neck, &t, OWN, &section, v->width));
    if (h->neck.levels != taps)
        return fv_fail(
            FOVEA_EFORMAT,
            "%s: \"%s.out_indices\" has %u indices, but the head's tensors have %u levels",
            config->file, section.section, taps, h->neck.levels);
    return read_last(h, &t, &section);
}

void fv_dpt_head_release(fovea_model *m)
{
    fv_mem_free(m->dpt_head);
    m->dpt_head = NULL;
}

void fv_dpt_head_weights(const fv_dpt_head *h, fv_weight_visit *visit, void *ctx)
{
    fv_dpt_weights(&h->neck, visit, ctx);
    fv_layer_visit(&h->conv, visit, ctx);
    fv_layer_visit(&h->classify, visit, ctx);
}

/* ---- computing ---- */

const char *fv_dpt_head_output(const fv_dpt_head *h)
{
    return fv_weight_present(&h->max_depth) ? "predicted_depth" : "seg_logits";
}

void fv_dpt_taps_begin(fv_dpt_taps *t, const fovea_model *m, const fv_builder *b)
{
    const bool wanted = m->dpt_head && fv_emit_wants(b, fv_dpt_head_output(m->dpt_head));
    *t = (fv_dpt_taps){.head = wanted ? m->dpt_head : NULL, .vit = m->roles};
}

void fv_dpt_taps_after(void *ctx, fv_builder *b, uint32_t i, fv_view x)
{
    fv_dpt_taps *t = ctx;
    const fv_vit *v = t->vit;
    const bool normed = !v->post_on_pooled && fv_weight_present(&v->post.w);
    for (uint32_t k = 0; t->head && k < t->head->neck.levels; k++) {
        if (t->head->tap[k] != i)
            continue;
        const fv_view rows = fv_vit_emit_stage(v, b, x, normed);
        t->projected[k] = fv_dpt_project(&t->head->neck, b, k, rows);
    }
}

void fv_dpt_taps_end(const fv_dpt_taps *t, fv_builder *b)
{
    const fv_dpt_head *h = t->head;
    fv_grid grid = b->options->grid;
    if (!h || b->status != FOVEA_OK)
        return;
    const fv_view fused = fv_dpt_fuse(&h->neck, b, t->projected, &grid);
    snprintf(b->scope, sizeof b->scope, "head");
    const fv_view x = fv_dpt_conv(b, "convolution", &h->conv, fused, &grid, FV_EPI_RELU, NULL);
    const uint32_t n = fv_grid_tokens(&grid);
    const bool depth = fv_weight_present(&h->max_depth);
    const fovea_output_kind kind = depth ? FOVEA_OUTPUT_DEPTH : FOVEA_OUTPUT_CLASS_MAP;
    grid.stride = t->vit->patch / 2;
    const fv_gemm g = {.w = &h->classify.w,
                       .bias = &h->classify.b,
                       .scale = &h->max_depth,
                       .in = x,
                       .res = FV_NO_VIEW,
                       .out = fv_emit_task_output(b, fv_dpt_head_output(h), kind, n,
                                                  h->classify.w.rows, &grid, false),
                       .act = depth ? FV_EPI_SIGMOID : 0,
                       .rows = n};
    fv_emit_gemm(b, depth ? "depth" : "classes", &g);
    b->scope[0] = 0;
}
