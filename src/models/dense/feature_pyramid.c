/* feature_pyramid.c: FPN, the neck of mmsegmentation and mmdetection.
 *
 *     lateral_i = 1x1 convolution of input i;  lateral_i += lateral_{i+1}, resized
 *     output_i  = 3x3 convolution of lateral_i
 *
 * Additional outputs follow, each half the size of the previous one. */
#include <stdio.h>
#include <string.h>

#include "base/num.h"
#include "models/dense/decoder.h"

/* "no_norm_on_lateral" is not read, because the tensors determine it. */
static const char fields[] =
    "act_cfg add_extra_convs conv_cfg={} end_level in_channels init_cfg no_norm_on_lateral "
    "norm_cfg num_outs out_channels relu_before_extra_convs=false start_level type=FPN "
    "upsample_cfg";

/* ---- config.json ---- */

static fovea_status read_inputs(fv_feature_pyramid *f, const fv_decoder_reader *r,
                                const fv_config *c)
{
    uint32_t n, channels[FV_LEVELS];
    FV_TRY(fv_config_count(&n, c, "in_channels", FV_LEVELS));
    FV_TRY(fv_config_u32s(channels, n, c, "in_channels", 1, FV_DECODER_WIDTH));
    if (n != r->levels || memcmp(channels, r->channels, n * sizeof *channels) != 0)
        return fv_fail(FOVEA_EFORMAT,
                       "%s: \"neck.in_channels\" must list the widths of the backbone's %u stages",
                       c->file, r->levels);
    FV_TRY(fv_config_u32(&f->first, c, "start_level", 0, n - 1));
    f->laterals = n - f->first;
    const json_t *last = fv_config_get(c, "end_level");
    int64_t end = -1;
    if ((last && !fv_json_whole(&end, last)) || end < -1 || end >= n ||
        (end >= 0 && end < f->first))
        return fv_config_fail(c, "end_level", "-1, or a stage that is not before start_level");
    if (end >= 0)
        f->laterals = (uint32_t)end + 1 - f->first;
    return FOVEA_OK;
}

static fovea_status read_extra(fv_feature_pyramid *f, const fv_decoder_reader *r,
                               const fv_config *c)
{
    static const char *const names[] = {"on_input", "on_lateral", "on_output"};
    static const char key[] = "add_extra_convs";
    const json_t *value = fv_config_get(c, key);
    const char *text = json_string_value(value);
    const int i = text ? fv_index_of(text, names, 3) : -1;
    bool added = false;
    if (i >= 0)
        f->extra = (enum fv_extra_levels)(FV_EXTRA_OF_INPUT + i);
    else if (value && (!fv_json_flag(&added, value) ||
                       (added && strcmp(r->d->head->section, "bbox_head") != 0)))
        return fv_config_fail(c, key, "false, \"on_input\", \"on_lateral\" or \"on_output\"");
    if (added)
        f->extra = FV_EXTRA_OF_INPUT; /* mmdetection's meaning; versions of mmsegmentation differ */
    return FOVEA_OK;
}

static fovea_status read_resize(fv_feature_pyramid *f, const fv_decoder_reader *r,
                                const fv_config *c)
{
    static const char list[] = "align_corners mode";
    fv_config upsample;
    const char *mode = "nearest";
    bool corners = false;
    FV_TRY(fv_decoder_section(&upsample, r, c, "upsample_cfg", "neck.upsample_cfg", list));
    if (upsample.object) {
        FV_TRY(fv_config_text(&mode, &upsample, "mode"));
        FV_TRY(fv_config_bool(&corners, &upsample, "align_corners"));
    }
    if (strcmp(mode, "nearest") == 0)
        f->rule = FV_FLAG_NEAREST;
    else if (strcmp(mode, "bilinear") == 0)
        f->rule = corners ? FV_FLAG_ALIGN_CORNERS : 0;
    else
        return fv_config_fail(&upsample, "mode", "\"nearest\" or \"bilinear\"");
    return FOVEA_OK;
}

/* ---- tensors ---- */

static fovea_status read_convs(fv_feature_pyramid *f, fv_decoder_reader *r)
{
    char name[48];
    for (uint32_t i = 0; i < f->laterals; i++) {
        snprintf(name, sizeof name, "neck.lateral_convs.%u.", i);
        FV_TRY(fv_conv_module_read(&f->lateral[i], r, name, f->channels, r->channels[f->first + i],
                                   1, 0));
    }
    const uint32_t convs = f->extra == FV_EXTRA_POOLED ? f->laterals : f->outs;
    for (uint32_t i = 0; i < convs; i++) {
        const bool of_input = i == f->laterals && f->extra == FV_EXTRA_OF_INPUT;
        snprintf(name, sizeof name, "neck.fpn_convs.%u.", i);
        FV_TRY(fv_conv_module_read(&f->conv[i], r, name, f->channels,
                                   of_input ? r->channels[f->first + i - 1] : f->channels, 3, 0));
    }
    return FOVEA_OK;
}

fovea_status fv_feature_pyramid_read(fv_feature_pyramid *f, fv_decoder_reader *r,
                                     const fv_config *neck)
{
    static const char *const names[2] = {"neck.norm_cfg", "neck.act_cfg"};
    FV_TRY(fv_fields_check_section(neck, r->config, fields));
    FV_TRY(fv_decoder_check_convs(r, neck, names, true));
    FV_TRY(read_inputs(f, r, neck));
    FV_TRY(fv_config_u32(&f->channels, neck, "out_channels", 1, FV_DECODER_WIDTH));
    if (f->channels == 0)
        return fv_config_fail(neck, "out_channels", "given");
    f->outs = f->laterals;
    FV_TRY(fv_config_u32(&f->outs, neck, "num_outs", f->laterals, FV_LEVELS));
    FV_TRY(read_extra(f, r, neck));
    FV_TRY(read_resize(f, r, neck));
    FV_TRY(read_convs(f, r));
    r->levels = f->outs;
    for (uint32_t i = 0; i < f->outs; i++)
        r->channels[i] = f->channels;
    return FOVEA_OK;
}

void fv_feature_pyramid_weights(const fv_feature_pyramid *f, fv_weight_visit *visit, void *ctx)
{
    for (uint32_t i = 0; i < f->laterals; i++)
        fv_conv_module_weights(&f->lateral[i], visit, ctx);
    const uint32_t convs = f->extra == FV_EXTRA_POOLED ? f->laterals : f->outs;
    for (uint32_t i = 0; i < convs; i++)
        fv_conv_module_weights(&f->conv[i], visit, ctx);
}

/* ---- computing ---- */

/* Returns a level with every second pixel of every second line. */
static fv_level halve(fv_builder *b, const fv_level *in)
{
    fv_level out = {.grid = fv_conv_module_grid(&in->grid, 2), .channels = in->channels};
    const uint32_t n = fv_grid_tokens(&out.grid);
    uint32_t *table = fv_emit_table(b, n);
    for (uint32_t i = 0; table && i < n; i++)
        table[i] = i / out.grid.width * 2 * in->grid.width + i % out.grid.width * 2;
    out.rows = fv_emit_rows(b, n, in->channels);
    if (table)
        fv_emit_gather(b, "every second pixel", in->rows, table, 1, FV_NO_VIEW, out.rows, n,
                       in->channels);
    return out;
}

static fv_level extra(const fv_feature_pyramid *f, fv_builder *b, uint32_t i,
                      const fv_level *source, const fv_level *before)
{
    char label[48];
    if (f->extra == FV_EXTRA_POOLED)
        return halve(b, before);
    snprintf(label, sizeof label, "neck output %u", i);
    return fv_conv_module_emit(b, label, &f->conv[i], i == f->laterals ? source : before, 2);
}

fv_level fv_feature_pyramid_level(fv_builder *b, const fv_level *level)
{
    char label[48];
    snprintf(label, sizeof label, "neck output %u", level->index);
    return level->pending ? fv_conv_module_emit(b, label, level->pending, level, 1) : *level;
}

void fv_feature_pyramid_emit(const fv_feature_pyramid *f, fv_builder *b, fv_level level[FV_LEVELS])
{
    const uint32_t n = f->laterals;
    fv_level lateral[FV_LEVELS];
    char label[48];
    for (uint32_t i = 0; i < n; i++) {
        snprintf(label, sizeof label, "neck lateral %u", i);
        lateral[i] = fv_conv_module_emit(b, label, &f->lateral[i], &level[f->first + i], 1);
    }
    for (uint32_t i = n - 1; i > 0; i--) {
        snprintf(label, sizeof label, "neck lateral %u to %u", i, i - 1);
        fv_level_add(b, label, &lateral[i], &lateral[i - 1], f->rule);
    }
    const fv_level input = level[f->first + n - 1], top = lateral[n - 1];
    for (uint32_t i = 0; i < n; i++) {
        level[i] = lateral[i];
        level[i].pending = &f->conv[i];
        level[i].index = i;
    }
    if (f->outs > n) /* additional outputs read the last output */
        level[n - 1] = fv_feature_pyramid_level(b, &level[n - 1]);
    const fv_level last = level[n - 1];
    const fv_level *source = f->extra == FV_EXTRA_OF_INPUT     ? &input
                             : f->extra == FV_EXTRA_OF_LATERAL ? &top
                                                               : &last;
    for (uint32_t i = n; i < f->outs; i++)
        level[i] = extra(f, b, i, source, &level[i - 1]);
}
