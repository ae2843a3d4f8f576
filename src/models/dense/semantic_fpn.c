/* semantic_fpn.c: FPNHead of mmsegmentation, the head of Semantic FPN.
 *
 *     every level: (3x3 convolution, twice the size) until it has the first level's size
 *     logits = 1x1 convolution of their sum
 */
#include <stdio.h>

#include "models/dense/decoder.h"

static const char fields[] = FV_DECODE_HEAD_FIELDS " feature_strides type=FPNHead";

/* Reads the strides. A level whose stride is 2^k times that of the first is doubled k times. */
static fovea_status read_strides(fv_semantic_fpn *s, const fv_config *c)
{
    static const char key[] = "feature_strides";
    uint32_t stride[FV_LEVELS];
    FV_TRY(fv_config_u32s(stride, s->levels, c, key, 1, 1u << 16));
    for (uint32_t i = 0; i < s->levels; i++) {
        const uint32_t above = s->index[i] - s->index[0];
        if (above > FV_DOUBLINGS || stride[i] != (uint64_t)stride[0] << above)
            return fv_config_fail(
                c, key, "twice as large for each level of \"in_index\" as for the level before");
        s->convs[i] = above ? above : 1;
        s->doubled[i] = above > 0;
    }
    return FOVEA_OK;
}

static fovea_status read_head(fv_decoder_reader *r, const fv_config *head)
{
    static const char *const names[2] = {"decode_head.norm_cfg", "decode_head.act_cfg"};
    fv_semantic_fpn *s = &r->d->semantic;
    char name[64];
    bool corners = false;
    uint32_t classes;
    FV_TRY(fv_fields_check_section(head, r->config, fields));
    FV_TRY(fv_decoder_check_convs(r, head, names, false));
    FV_TRY(fv_decoder_inputs(s->index, &s->levels, r, head));
    FV_TRY(read_strides(s, head));
    FV_TRY(fv_decoder_channels(&s->channels, head));
    FV_TRY(fv_decoder_classes(&classes, head));
    FV_TRY(fv_config_bool(&corners, head, "align_corners"));
    s->rule = corners ? FV_FLAG_ALIGN_CORNERS : 0;
    for (uint32_t i = 0; i < s->levels; i++)
        for (uint32_t k = 0; k < s->convs[i]; k++) {
            const uint32_t from = k ? s->channels : r->channels[s->index[i]];
            snprintf(name, sizeof name, "decode_head.scale_heads.%u.%u.", i, 2 * k);
            FV_TRY(fv_conv_module_read(&s->conv[i][k], r, name, s->channels, from, 3, FV_EPI_RELU));
        }
    r->t.m->info.segments = classes;
    return fv_conv_plain_read(&s->classify, &r->t, "decode_head.conv_seg.", classes, s->channels,
                              1);
}

/* Scales level i of the head to the size of the first. The last resize is left to the caller,
 * because it also adds to the sum. */
static fv_level scale(const fv_semantic_fpn *s, fv_builder *b, uint32_t i, const fv_level *in,
                      const fv_grid *to)
{
    fv_level x = fv_feature_pyramid_level(b, in);
    char label[48];
    for (uint32_t k = 0; k < s->convs[i]; k++) {
        snprintf(label, sizeof label, "head level %u conv %u", i, k);
        x = fv_conv_module_emit(b, label, &s->conv[i][k], &x, 1);
        const fv_grid twice = {2 * x.grid.width, 2 * x.grid.height, x.grid.stride / 2, 0};
        if (!s->doubled[i] || (twice.width == to->width && twice.height == to->height))
            continue;
        fv_level large = {.grid = twice, .channels = x.channels};
        large.rows = fv_emit_rows(b, fv_grid_tokens(&twice), x.channels);
        snprintf(label, sizeof label, "head level %u times two", i);
        fv_level_resize(b, label, &x, &twice, s->rule, FV_NO_VIEW, large.rows);
        x = large;
    }
    return x;
}

static void emit(const fv_decoder *d, fv_builder *b, const fv_level *level)
{
    const fv_semantic_fpn *s = &d->semantic;
    char label[48];
    const fv_grid *grid = &level[s->index[0]].grid;
    fv_level sum = scale(s, b, 0, &level[s->index[0]], grid);
    for (uint32_t i = 1; i < s->levels; i++) {
        const fv_level x = scale(s, b, i, &level[s->index[i]], grid);
        snprintf(label, sizeof label, "head level %u added", i);
        fv_level_add(b, label, &x, &sum, s->rule);
    }
    const fv_view out =
        fv_emit_task_output(b, "seg_logits", FOVEA_OUTPUT_CLASS_MAP, fv_grid_tokens(grid),
                            s->classify.l.w.rows, grid, false);
    if (out.id >= 0)
        fv_conv_module_write(b, "classes", &s->classify, &sum, 1, out);
}

static void weights(const fv_decoder *d, fv_weight_visit *visit, void *ctx)
{
    const fv_semantic_fpn *s = &d->semantic;
    for (uint32_t i = 0; i < s->levels; i++)
        for (uint32_t k = 0; k < s->convs[i]; k++)
            fv_conv_module_weights(&s->conv[i][k], visit, ctx);
    fv_conv_module_weights(&s->classify, visit, ctx);
}

const fv_decoder_head fv_head_semantic_fpn = {.type = "FPNHead",
                                              .section = "decode_head",
                                              .outputs = {"seg_logits"},
                                              .last = "decode_head.conv_seg.",
                                              .read = read_head,
                                              .emit = emit,
                                              .weights = weights};
