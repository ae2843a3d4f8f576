/* vit_rotations.c: reads the rotary positions of a ViT from config.json or the name of the model,
 * because tensors do not show them. */
#include <math.h>
#include <string.h>

#include "base/num.h"
#include "models/vit/vit_reader.h"

/* Rotations in timm's definitions. The first line that fits a name applies. `reference` is the side
 * of the grid to which positions are scaled. */
static const struct {
    const char *begin, *part;
    fv_rope rope;
} timm[] = {
    {"vit_pe_", "_gigantic_patch14_448", {FV_ROPE_INDEX, 1e4, 0, 32, true}},
    {"vit_pe_core_", "_224", {FV_ROPE_INDEX, 1e4, 1, 14, true}},
    {"vit_pe_core_", "", {FV_ROPE_INDEX, 1e4, 1, 24, true}},
    {"vit_pe_", "", {FV_ROPE_INDEX, 1e4, 1, 32, true}},
    {"eva02_", "", {FV_ROPE_INDEX, 1e4, 0, 16, false}},
    {"vit_", "_rope_mixed_", {.rule = FV_ROPE_MIXED}},
    {"vit_", "_rope_reg", {FV_ROPE_INDEX, 1e4, 0, 16, false}},
    {"vit_", "_rope_", {FV_ROPE_INDEX, 100, 0, 0, true}},
    {"vit_", "_dinov3", {FV_ROPE_CENTRES, 100, 0, 0, false}},
    {"vit_", "_lingbot", {FV_ROPE_CENTRES, 100, 0, 0, false}},
};

/* Reads the periods in a checkpoint. Those of DINOv3's authors are rounded to bfloat16. */
static fovea_status read_periods(fv_vit_reader *r, uint32_t n)
{
    const fv_tensor *t, *kept;
    float *period;
    if (!fv_reader_find(&r->t, r->prefix, r->n->periods, ""))
        return FOVEA_OK;
    FV_TRY(fv_reader_buffer(&t, &r->t, r->prefix, r->n->periods, "", n));
    FV_TRY(fv_model_floats(&period, &kept, r->t.m, 1, n));
    fv_tensor_read(t, 0, n, period);
    for (uint32_t i = 0; i < n; i++)
        if (!(period[i] > 0 && isfinite(period[i])))
            return fv_fail(FOVEA_EFORMAT, "%s: tensor \"%s\" holds %g, which is not a period",
                           r->t.source->name, t->name, (double)period[i]);
    r->v->rope.periods = period;
    return FOVEA_OK;
}

/* Reads the angles by which the class is rotated. */
static fovea_status read_class_angles(fv_vit_reader *r, uint32_t n)
{
    const uint64_t shape[1] = {n};
    const fv_tensor *t, *kept;
    float *angle;
    FV_TRY(fv_reader_tensor(&t, &r->t, r->prefix, r->n->class_angles, "", 1, shape));
    FV_TRY(fv_model_floats(&angle, &kept, r->t.m, 1, n));
    fv_tensor_read(t, 0, n, angle);
    for (uint32_t i = 0; i < n; i++)
        if (!isfinite(angle[i]))
            return fv_fail(FOVEA_EFORMAT, "%s: tensor \"%s\" holds %g, which is not an angle",
                           r->t.source->name, t->name, (double)angle[i]);
    r->v->rope.class_angles = angle;
    return FOVEA_OK;
}

/* Reads the base of the periods, which transformers 5 writes to a separate section. `usual` is the
 * type of the rotation there. */
static fovea_status read_theta(fv_vit_reader *r, const char *usual, float *theta)
{
    const char *type = usual;
    fv_config section;
    FV_TRY(fv_config_section(&section, &r->vision, "rope_parameters"));
    FV_TRY(fv_config_text(&type, &section, "rope_type"));
    if (strcmp(type, usual) != 0)
        return fv_fail(FOVEA_ENOTSUP,
                       "%s: \"rope_parameters.rope_type\" is \"%.40s\"; only \"%s\" is supported",
                       r->config->file, type, usual);
    FV_TRY(fv_config_float(theta, &r->vision, "rope_theta", 1, 1e9));
    return fv_config_float(theta, &section, "rope_theta", 1, 1e9);
}

/* Reads the frequencies that each block and head has learned. */
static fovea_status read_frequencies(fv_vit_reader *r, uint32_t n)
{
    fv_vit *v = r->v;
    const fv_tensor *t;
    const uint64_t shape[4] = {2, v->depth, v->heads, n};
    FV_TRY(fv_reader_tensor(&t, &r->t, r->prefix, r->n->frequencies, "", 4, shape));
    v->frequencies = fv_weight_of(t, 2 * v->depth * v->heads, n);
    return FOVEA_OK;
}

fovea_status fv_vit_read_rotation(fv_vit_reader *r)
{
    fv_vit *v = r->v;
    const uint32_t d = v->width / v->heads;
    if (r->n->origin != FV_VIT_TIMM && r->kind == FV_VIT_DINOV3) {
        float theta = 100;
        FV_TRY(read_theta(r, "default", &theta));
        v->rope = (fv_rope){.rule = FV_ROPE_CENTRES, .base = (double)theta};
    }
    const bool axial = fv_vit_kinds[r->kind].parts & FV_VIT_HAS_AXIAL;
    if (axial) {
        float theta = 1e4f;
        FV_TRY(read_theta(r, "axial", &theta));
        v->rope = (fv_rope){.rule = FV_ROPE_INDEX,
                            .base = (double)theta,
                            .x_first = r->kind == FV_VIT_STEP,
                            .alternating = r->kind == FV_VIT_KIMI,
                            .column_shift = r->kind == FV_VIT_PIXTRAL ? 2 : 0};
    }
    if (r->kind == FV_VIT_MLCD)
        FV_TRY(read_class_angles(r, d / 2));
    for (size_t i = 0; r->n->origin == FV_VIT_TIMM && i < sizeof timm / sizeof *timm; i++)
        if (fv_begins_with(r->type, timm[i].begin) && strstr(r->type, timm[i].part)) {
            v->rope = timm[i].rope;
            break;
        }
    r->paired = v->rope.rule == FV_ROPE_CENTRES || (axial && !r->n->neighbours) ? d : 0;
    if (v->rope.rule != FV_ROPE_NONE && d % 4)
        return fv_fail(FOVEA_EFORMAT,
                       "%s: heads have %u channels, but rotary positions need a multiple of 4",
                       r->config->file, d);
    return v->rope.rule == FV_ROPE_MIXED ? read_frequencies(r, d / 2) : read_periods(r, d / 4);
}
