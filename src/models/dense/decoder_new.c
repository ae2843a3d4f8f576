/* decoder_new.c: adds a neck and a head for training to a pyramid without them: FPN, and Semantic
 * FPN's head. They have no normalisations, because statistics of small batches are inaccurate. */
#include <jansson.h>
#include <stdio.h>

#include "models/dense/decoder.h"

#define CHANNELS 128 /* channels of the neck and the head */

static fovea_status put(fv_tensor_reader *t, const char *name, uint64_t channels, uint64_t size,
                        bool bent)
{
    const uint64_t shape[4] = {CHANNELS, channels, size, size};
    return fv_reader_put_conv(t, "", name, shape, true, bent);
}

static fovea_status put_tensors(fv_tensor_reader *t, const uint32_t *widths, uint32_t n)
{
    char name[64];
    for (uint32_t i = 0; i < n; i++) {
        snprintf(name, sizeof name, "neck.lateral_convs.%u.conv.", i);
        FV_TRY(put(t, name, widths[i], 1, false));
        snprintf(name, sizeof name, "neck.fpn_convs.%u.conv.", i);
        FV_TRY(put(t, name, CHANNELS, 3, false));
        for (uint32_t k = 0; k < (i ? i : 1); k++) {
            snprintf(name, sizeof name, "decode_head.scale_heads.%u.%u.conv.", i, 2 * k);
            FV_TRY(put(t, name, CHANNELS, 3, true));
        }
    }
    return FOVEA_OK;
}

static json_t *list(const uint32_t *of, uint32_t n)
{
    json_t *x = json_array();
    for (uint32_t i = 0; i < n; i++)
        json_array_append_new(x, json_integer(of[i]));
    return x;
}

static fovea_status describe(json_t *config, const char *file, const uint32_t *widths, uint32_t n)
{
    uint32_t place[FV_LEVELS], channels[FV_LEVELS], stride[FV_LEVELS];
    if (n > FV_LEVELS)
        return fv_fail(FOVEA_ENOTSUP,
                       "%s: the backbone has %u stages, but a neck or head reads at most %u", file,
                       n, FV_LEVELS);
    for (uint32_t i = 0; i < n; i++) {
        place[i] = i;
        channels[i] = CHANNELS;
        stride[i] = 4u << i;
    }
    json_t *neck = json_pack("{s:s, s:o, s:i, s:i}", "type", "FPN", "in_channels", list(widths, n),
                             "out_channels", CHANNELS, "num_outs", (int)n);
    json_t *head = json_pack("{s:s, s:o, s:o, s:i, s:o}", "type", "FPNHead", "in_channels",
                             list(channels, n), "in_index", list(place, n), "channels", CHANNELS,
                             "feature_strides", list(stride, n));
    const bool ok = neck && head && json_object_set_new(config, "neck", neck) == 0;
    if (ok && json_object_set_new(config, "decode_head", head) == 0)
        return FOVEA_OK;
    return fv_fail(FOVEA_ENOMEM, "%s: not enough memory for a neck and a head", file);
}

/* Changes the number of classes of an existing head by replacing its last layer. */
static fovea_status put_classes(fv_tensor_reader *t, const fv_config *config, uint32_t classes)
{
    fv_config head;
    uint32_t now = 0, in = CHANNELS;
    FV_TRY(fv_config_section(&head, config, "decode_head"));
    FV_TRY(fv_config_u32(&now, &head, "num_classes", 0, UINT32_MAX));
    FV_TRY(fv_config_u32(&in, &head, "channels", 1, UINT16_MAX));
    if (now == classes)
        return FOVEA_OK;
    json_object_set_new(head.object, "num_classes", json_integer(classes));
    const uint64_t shape[4] = {classes, in, 1, 1};
    t->m->new_head = true;
    FV_TRY(fv_reader_put(t, "", "decode_head.conv_seg.", "weight", 4, shape, 0, FV_NEW_HEAD));
    return fv_reader_put(t, "", "decode_head.conv_seg.", "bias", 1, shape, 0, 0);
}

fovea_status fv_decoder_new(fovea_model *m, const fv_source *source, const fv_config *config,
                            const uint32_t *widths, uint32_t n)
{
    fv_tensor_reader t = {.m = m, .source = source, .config = config->file};
    json_t *own = m->config; /* equals config->object, unless the model is a part of another */
    if (m->segmentation_source || own != config->object)
        return fv_fail(FOVEA_ENOTSUP,
                       "%s: a neck and a head can be added only to a pyramid that has its own "
                       "checkpoint, in a folder without another file that has a head",
                       config->file);
    fv_reader_begin(&t);
    fv_reader_unwrap(&t, "", "decode_head.conv_seg.", "weight");
    if (!json_object_get(own, "decode_head")) {
        if (json_object_get(own, "neck") || json_object_get(own, "bbox_head"))
            return fv_fail(FOVEA_ENOTSUP,
                           "%s has a neck or a bbox_head; FPN can be added only to a backbone",
                           config->file);
        FV_TRY(describe(own, config->file, widths, n));
        FV_TRY(put_tensors(&t, widths, n));
    }
    return put_classes(&t, config, m->additions->segments);
}
