/* decoder_config.c: reads fields of config.json that all necks and heads have. */
#include <math.h>

#include "base/num.h"
#include "models/dense/decoder.h"

#define CLASSES 65536u

fovea_status fv_decoder_section(fv_config *out, const fv_decoder_reader *r, const fv_config *from,
                                const char *key, const char *name, const char *list)
{
    FV_TRY(fv_config_section(out, from, key));
    out->section = name;
    return out->object ? fv_fields_check_section(out, r->config, list) : FOVEA_OK;
}

/* Reads the number of groups from "norm_cfg", or else from "fovea", for checkpoints without a
 * configuration. */
static fovea_status read_norm_groups(fv_decoder_reader *r, const fv_config *norm)
{
    static const char key[] = "num_groups";
    fv_config own;
    r->norm_groups = 32;
    FV_TRY(fv_config_section(&own, r->config, "fovea"));
    if (own.object)
        FV_TRY(fv_config_u32(&r->norm_groups, &own, key, 1, FV_DECODER_WIDTH));
    return norm->object ? fv_config_u32(&r->norm_groups, norm, key, 1, FV_DECODER_WIDTH) : FOVEA_OK;
}

fovea_status fv_decoder_check_convs(fv_decoder_reader *r, const fv_config *c,
                                    const char *const names[2], bool plain)
{
    static const char norms[] = "eps momentum num_groups requires_grad type";
    static const char acts[] = "inplace type=ReLU";
    static const char *const known[] = {"BN", "SyncBN", "GN"};
    fv_config norm, act;
    const char *type = NULL;
    float eps = 1e-5f;
    FV_TRY(fv_decoder_section(&norm, r, c, "norm_cfg", names[0], norms));
    if (norm.object) {
        FV_TRY(fv_config_text(&type, &norm, "type"));
        if (!type || fv_index_of(type, known, 3) < 0)
            return fv_fail(FOVEA_ENOTSUP,
                           "%s: \"%s.type\" is \"%.40s\"; only BN, SyncBN and GN are supported",
                           c->file, names[0], type ? type : "");
        FV_TRY(fv_config_float(&eps, &norm, "eps", 0, 1));
        if (fabsf(eps - 1e-5f) > 1e-9f)
            return fv_fail(FOVEA_ENOTSUP, "%s: \"%s.eps\" is %g; only 1e-05 is supported", c->file,
                           names[0], (double)eps);
    }
    FV_TRY(read_norm_groups(r, &norm));
    FV_TRY(fv_decoder_section(&act, r, c, "act_cfg", names[1], acts));
    /* If the field is absent, a neck has no activation and a head has ReLU. null means no
     * activation. */
    if (plain ? act.object != NULL : json_is_null(json_object_get(c->object, "act_cfg")))
        return fv_fail(FOVEA_ENOTSUP, "%s: \"%s\" must be %s", c->file, names[1],
                       plain ? "absent or null" : "ReLU");
    return FOVEA_OK;
}

fovea_status fv_decoder_inputs(uint32_t *index, uint32_t *n, const fv_decoder_reader *r,
                               const fv_config *c)
{
    uint32_t channels[FV_LEVELS];
    FV_TRY(fv_config_count(n, c, "in_index", FV_LEVELS));
    FV_TRY(fv_config_u32s(index, *n, c, "in_index", 0, r->levels - 1));
    FV_TRY(fv_config_u32s(channels, *n, c, "in_channels", 1, FV_DECODER_WIDTH));
    for (uint32_t i = 0; i < *n; i++) {
        if (i > 0 && index[i] <= index[i - 1])
            return fv_config_fail(c, "in_index",
                                  "a list of levels, from the finest to the coarsest");
        if (channels[i] != r->channels[index[i]])
            return fv_fail(
                FOVEA_EFORMAT,
                "%s: \"%s.in_channels\" has %u channels for level %u, but the level has %u",
                c->file, c->section, channels[i], index[i], r->channels[index[i]]);
    }
    return FOVEA_OK;
}

fovea_status fv_decoder_classes(uint32_t *classes, const fv_config *c)
{
    *classes = 0;
    FV_TRY(fv_config_u32(classes, c, "num_classes", 1, CLASSES));
    return *classes ? FOVEA_OK : fv_config_fail(c, "num_classes", "given");
}

fovea_status fv_decoder_channels(uint32_t *channels, const fv_config *c)
{
    *channels = 0;
    FV_TRY(fv_config_u32(channels, c, "channels", 1, FV_DECODER_WIDTH));
    return *channels ? FOVEA_OK : fv_config_fail(c, "channels", "given");
}
