/* backbone_taps.c: reads which stages of its backbone a dense model uses. */
#include <stdio.h>
#include <string.h>

#include <jansson.h>

#include "models/vit/backbone.h"

/* Reads the number in a name such as "stage4". The number of "stem" is 0. */
static bool stage_number(uint32_t *out, const json_t *name)
{
    const char *text = json_string_value(name);
    int end = 0;
    *out = 0;
    if (text && strcmp(text, "stem") == 0)
        return true;
    return text && sscanf(text, "stage%6u%n", out, &end) == 1 && !text[end];
}

/* Reads "out_features". `given` means that "out_indices" has been read, and must agree. */
static fovea_status read_names(uint32_t *tap, uint32_t taps, const fv_config *c, bool given)
{
    const json_t *names = fv_config_get(c, "out_features");
    bool same = json_array_size(names) == taps;
    for (uint32_t i = 0; i < taps && same; i++) {
        uint32_t stage;
        if (!stage_number(&stage, json_array_get(names, i)))
            return fv_config_fail(c, "out_features", "a list of \"stage1\", \"stage2\" and so on");
        same = !given || stage == tap[i];
        tap[i] = stage;
    }
    return same ? FOVEA_OK
                : fv_config_fail(c, "out_features", "the same stages as \"out_indices\"");
}

fovea_status fv_backbone_read_taps(uint32_t *tap, uint32_t *taps, uint32_t most, const fv_config *c,
                                   uint32_t depth)
{
    const bool given = fv_config_get(c, "out_indices"), named = fv_config_get(c, "out_features");
    const char *key = given ? "out_indices" : "out_features";
    tap[0] = depth;
    *taps = 1;
    if (given || named)
        FV_TRY(fv_config_count(taps, c, key, most));
    if (given)
        FV_TRY(fv_config_u32s(tap, *taps, c, key, 0, depth));
    if (named)
        FV_TRY(read_names(tap, *taps, c, given));
    for (uint32_t i = 0; i < *taps; i++)
        if (tap[i] > depth || (i > 0 && tap[i] <= tap[i - 1]))
            return fv_fail(FOVEA_EFORMAT,
                           "%s: \"%s.%s\" has stage %u at index %u; stages must ascend, and the "
                           "backbone has %u stages",
                           c->file, c->section, key, tap[i], i, depth);
    return FOVEA_OK;
}
