/* uper_net.c: UPerHead of mmsegmentation and UperNetHead of transformers, the head of UperNet.
 *
 *     top       = 3x3 convolution of [last level, its means over s x s areas, convolved, resized]
 *     lateral_i = 1x1 convolution of level i;   lateral_i += lateral_{i+1}, resized
 *     logits    = 1x1 of 3x3 of [3x3 convolution of lateral_i, resized to the first level's size]
 */
#include <stdio.h>

#include "checkpoint/processor.h"
#include "models/dense/decoder.h"

static const char fields[] = FV_DECODE_HEAD_FIELDS " pool_scales type=UPerHead";

/* Fields of transformers' UperNetConfig, in addition to those of every transformers configuration.
 * Those of the auxiliary head matter only in training. */
static const char fields_of_transformers[] =
    "auxiliary_channels auxiliary_concat_input auxiliary_in_channels auxiliary_loss_weight "
    "auxiliary_num_convs backbone=null backbone_config backbone_kwargs={} loss_ignore_index "
    "pool_scales use_auxiliary_head use_pretrained_backbone=false use_timm_backbone=false";

#define AREAS 64      /* most areas along a side */
#define CLASSES 65536 /* most classes */

/* ---- reading ---- */

static fovea_status read_pools(fv_uper_net *u, const fv_config *head)
{
    static const uint32_t usual[] = {1, 2, 3, 6};
    for (u->pools = 0; u->pools < 4; u->pools++)
        u->pool[u->pools] = usual[u->pools];
    if (!fv_config_get(head, "pool_scales"))
        return FOVEA_OK;
    FV_TRY(fv_config_count(&u->pools, head, "pool_scales", FV_POOLS));
    return fv_config_u32s(u->pool, u->pools, head, "pool_scales", 1, AREAS);
}

static fovea_status read_config(fv_uper_net *u, fv_decoder_reader *r, const fv_config *head)
{
    static const char *const names[2] = {"decode_head.norm_cfg", "decode_head.act_cfg"};
    bool corners = false;
    FV_TRY(fv_fields_check_section(head, r->config, fields));
    FV_TRY(fv_decoder_check_convs(r, head, names, false));
    FV_TRY(fv_decoder_inputs(u->index, &u->levels, r, head));
    if (u->levels < 2)
        return fv_config_fail(head, "in_index", "a list of at least two levels");
    FV_TRY(fv_decoder_channels(&u->channels, head));
    FV_TRY(fv_config_bool(&corners, head, "align_corners"));
    u->rule = corners ? FV_FLAG_ALIGN_CORNERS : 0;
    return read_pools(u, head);
}

/* Reads the module `name` of the head. It has as many outputs as the head has channels. */
static fovea_status read_module(fv_conv_module *out, fv_decoder_reader *r, const char *name,
                                uint32_t channels, uint32_t size)
{
    return fv_conv_module_read(out, r, name, r->d->uper.channels, channels, size, FV_EPI_RELU);
}

/* Reads the modules, which have the same names in both libraries. */
static fovea_status read_modules(fv_decoder_reader *r)
{
    fv_uper_net *u = &r->d->uper;
    char name[64];
    const uint32_t c = u->channels, top = r->channels[u->index[u->levels - 1]];
    for (uint32_t i = 0; i < u->pools; i++) {
        snprintf(name, sizeof name, "decode_head.psp_modules.%u.1.", i);
        FV_TRY(read_module(&u->pooled[i], r, name, top, 1));
    }
    FV_TRY(read_module(&u->bottleneck, r, "decode_head.bottleneck.", top + u->pools * c, 3));
    for (uint32_t i = 0; i + 1 < u->levels; i++) {
        snprintf(name, sizeof name, "decode_head.lateral_convs.%u.", i);
        FV_TRY(read_module(&u->lateral[i], r, name, r->channels[u->index[i]], 1));
        snprintf(name, sizeof name, "decode_head.fpn_convs.%u.", i);
        FV_TRY(read_module(&u->conv[i], r, name, c, 3));
    }
    return read_module(&u->fuse, r, "decode_head.fpn_bottleneck.", u->levels * c, 3);
}

static fovea_status read_head(fv_decoder_reader *r, const fv_config *head)
{
    fv_uper_net *u = &r->d->uper;
    uint32_t classes;
    FV_TRY(read_config(u, r, head));
    FV_TRY(fv_decoder_classes(&classes, head));
    FV_TRY(read_modules(r));
    r->t.m->info.segments = classes;
    return fv_conv_plain_read(&u->classify, &r->t, "decode_head.conv_seg.", classes, u->channels,
                              1);
}

/* Reads the head of transformers, which reads every level. */
static fovea_status read_head_of_transformers(fv_decoder_reader *r, const fv_config *config)
{
    static const char classifier[] = "decode_head.classifier.";
    fv_uper_net *u = &r->d->uper;
    fovea_model *m = r->t.m;
    fv_config own;
    uint32_t classes;
    FV_TRY(fv_config_section(&own, config, "fovea"));
    FV_TRY(fv_fields_check(config, config, &own, fields_of_transformers));
    if (r->levels < 2)
        return fv_fail(
            FOVEA_EFORMAT,
            "%s: \"backbone_config.out_features\" has %u stage; UperNet needs at least 2",
            config->file, r->levels);
    for (u->levels = 0; u->levels < r->levels; u->levels++)
        u->index[u->levels] = u->levels;
    u->channels = 512;
    FV_TRY(fv_config_u32(&u->channels, config, "hidden_size", 1, FV_DECODER_WIDTH));
    FV_TRY(read_pools(u, config));
    FV_TRY(read_modules(r));
    FV_TRY(fv_reader_dimension(&classes, &r->t, "", classifier, "weight", 0, "number of classes",
                               CLASSES));
    m->info.segments = classes;
    m->preprocess =
        fv_processor_default(FV_PROCESSOR_SEGFORMER, m->info.native_width, m->info.native_height);
    return fv_conv_plain_read(&u->classify, &r->t, classifier, classes, u->channels, 1);
}

/* ---- computing ---- */

/* Returns the last level and its means over areas, concatenated. */
static fv_level pool(const fv_uper_net *u, fv_builder *b, const fv_level *in)
{
    const uint32_t n = fv_grid_tokens(&in->grid), c = u->channels;
    fv_level all = {.grid = in->grid, .channels = in->channels + u->pools * c};
    char label[48];
    all.rows = fv_emit_rows(b, n, all.channels);
    fv_emit_copy(b, "pooled 0", in->rows, all.rows, n, in->channels);
    for (uint32_t i = 0; i < u->pools; i++) {
        const uint32_t side = u->pool[i];
        fv_level mean = {.grid = {side, side, in->grid.stride, 0}, .channels = in->channels};
        mean.rows = fv_emit_rows(b, side * side, in->channels);
        snprintf(label, sizeof label, "means of %u x %u areas", side, side);
        fv_emit_adaptive_pool(b, label, in->rows, &in->grid, side, side, mean.rows, in->channels);
        snprintf(label, sizeof label, "conv of %u x %u areas", side, side);
        const fv_level x = fv_conv_module_emit(b, label, &u->pooled[i], &mean, 1);
        snprintf(label, sizeof label, "pooled %u", i + 1);
        fv_level_resize(b, label, &x, &in->grid, u->rule, FV_NO_VIEW,
                        fv_view_cols(all.rows, in->channels + i * c));
    }
    return all;
}

/* Returns the part of the last convolution's weights that multiplies the channels of level i. */
static fv_weight fuse_weight(const fv_uper_net *u, uint32_t i)
{
    const fv_weight *all = &u->fuse.l.w;
    fv_weight w = {.rows = all->rows, .cols = all->cols / u->levels};
    fv_weight_part part = all->part[0];
    part.offset += (uint64_t)i * w.cols;
    part.cols = w.cols;
    fv_weight_add(&w, part);
    return w;
}

/* Resizes the levels to the size of the first and convolves them. Each level's part is added to the
 * sum, because a concatenation of the levels would be by far the largest value in memory. */
static fv_level fuse(const fv_uper_net *u, fv_builder *b, const fv_level *lateral)
{
    const uint32_t n = u->levels, tokens = fv_grid_tokens(&lateral[0].grid);
    const fv_level sum = {.rows = fv_emit_rows(b, tokens, u->channels),
                          .grid = lateral[0].grid,
                          .channels = u->channels};
    char label[48];
    for (uint32_t i = 0; i < n; i++) {
        const fv_weight w = fuse_weight(u, i);
        fv_level x = lateral[i];
        snprintf(label, sizeof label, "head level %u", i);
        if (i + 1 < n)
            x = fv_conv_module_emit(b, label, &u->conv[i], &x, 1);
        if (i > 0) {
            const fv_view large = fv_emit_rows(b, tokens, u->channels);
            snprintf(label, sizeof label, "head level %u resized", i);
            fv_level_resize(b, label, &x, &sum.grid, u->rule, FV_NO_VIEW, large);
            x.rows = large;
        }
        const fv_conv conv = {.w = &w,
                              .bias = i ? NULL : &u->fuse.l.b,
                              .in = x.rows,
                              .res = i ? &sum.rows : NULL,
                              .out = sum.rows,
                              .from = sum.grid,
                              .to = sum.grid,
                              .channels = u->channels,
                              .size = 3,
                              .stride = 1,
                              .pad = 1};
        snprintf(label, sizeof label, "head level %u fused", i);
        fv_emit_conv(b, label, &conv);
    }
    return fv_conv_module_finish(b, "levels fused", &u->fuse, &sum);
}

static void emit(const fv_decoder *d, fv_builder *b, const fv_level *level)
{
    const fv_uper_net *u = &d->uper;
    const uint32_t n = u->levels;
    fv_level lateral[FV_LEVELS];
    char label[48];
    const fv_level last = fv_feature_pyramid_level(b, &level[u->index[n - 1]]);
    const fv_level pooled = pool(u, b, &last);
    lateral[n - 1] = fv_conv_module_emit(b, "bottleneck", &u->bottleneck, &pooled, 1);
    for (uint32_t i = 0; i + 1 < n; i++) {
        const fv_level in = fv_feature_pyramid_level(b, &level[u->index[i]]);
        snprintf(label, sizeof label, "head lateral %u", i);
        lateral[i] = fv_conv_module_emit(b, label, &u->lateral[i], &in, 1);
    }
    for (uint32_t i = n - 1; i > 0; i--) {
        snprintf(label, sizeof label, "head lateral %u to %u", i, i - 1);
        fv_level_add(b, label, &lateral[i], &lateral[i - 1], u->rule);
    }
    const fv_level fused = fuse(u, b, lateral);
    const fv_view out =
        fv_emit_task_output(b, "seg_logits", FOVEA_OUTPUT_CLASS_MAP, fv_grid_tokens(&fused.grid),
                            u->classify.l.w.rows, &fused.grid, false);
    if (out.id >= 0)
        fv_conv_module_write(b, "classes", &u->classify, &fused, 1, out);
}

const fv_decoder_head fv_head_uper_net = {.type = "UPerHead",
                                          .section = "decode_head",
                                          .outputs = {"seg_logits"},
                                          .last = "decode_head.conv_seg.",
                                          .read = read_head,
                                          .emit = emit};

const fv_decoder_head fv_head_uper_net_of_transformers = {.type = "upernet",
                                                          .backbone = "backbone.",
                                                          .last = "decode_head.classifier.",
                                                          .outputs = {"seg_logits"},
                                                          .read = read_head_of_transformers,
                                                          .emit = emit};
