/* backbone.c: reads the backbone of a dense model, and emits its steps. */
#include "models/vit/backbone.h"

#include <stdio.h>
#include <string.h>

#include "models/layer.h"
#include "models/vit/vit_reader.h"

/* ---- reading ---- */

static fovea_status check_type(const fv_vit_reader *r, const char *types)
{
    char word[48];
    if (r->type && strlen(r->type) < sizeof word - 2) {
        snprintf(word, sizeof word, " %s ", r->type);
        if (strstr(types, word))
            return FOVEA_OK;
    }
    return fv_fail(FOVEA_ENOTSUP,
                   "%s: \"backbone_config.model_type\" is \"%.40s\"; a %.40s needs a backbone of "
                   "one of these types:%.*s",
                   r->config->file, r->type ? r->type : "", r->t.m->info.type,
                   (int)strlen(types) - 1, types);
}

/* Checks whether the rows of DINOv2 are reshaped to grids as the head requires. */
static fovea_status check_grids(const fv_vit_reader *r, bool grids)
{
    bool reshaped = grids;
    if (r->kind != FV_VIT_DINOV2 && r->kind != FV_VIT_REGISTERS)
        return FOVEA_OK;
    FV_TRY(fv_config_bool(&reshaped, &r->vision, "reshape_hidden_states"));
    return reshaped == grids
               ? FOVEA_OK
               : fv_config_fail(&r->vision, "reshape_hidden_states", grids ? "true" : "false");
}

fovea_status fv_backbone_read(fv_backbone *out, fv_tensor_reader *t, const fv_config *config,
                              const fv_backbone_form *form)
{
    fv_vit_reader r = {.t = *t, .config = config, .prefix = form->prefix, .v = &out->vit};
    FV_TRY(fv_config_section(&r.vision, config, "backbone_config"));
    FV_TRY(fv_config_section(&r.own, config, "fovea"));
    if (!r.vision.object)
        return fv_config_fail(config, "backbone_config", "an object that describes the backbone");
    FV_TRY(fv_config_text(&r.type, &r.vision, "model_type"));
    FV_TRY(check_type(&r, form->types));
    r.known = fv_vit_find_type(r.type);
    r.kind = r.known->kind;
    FV_TRY(fv_fields_check(config, &r.vision, &r.own, form->fields));
    FV_TRY(check_grids(&r, form->grids));
    FV_TRY(fv_vit_read_encoder(&r));
    FV_TRY(
        fv_backbone_read_taps(out->tap, &out->taps, FV_BACKBONE_TAPS, &r.vision, out->vit.depth));
    out->normed = true;
    FV_TRY(fv_config_bool(&out->normed, &r.vision, "apply_layernorm"));
    *t = r.t;
    return FOVEA_OK;
}

fovea_status fv_backbone_read_plain(fv_backbone *out, fv_tensor_reader *t, const fv_config *config,
                                    const char *prefix, const char *taps)
{
    fv_vit_reader r = {.t = *t,
                       .config = config,
                       .vision = *config,
                       .type = "vit",
                       .known = fv_vit_find_type("vit"),
                       .kind = FV_VIT_PLAIN,
                       .prefix = prefix,
                       .v = &out->vit};
    FV_TRY(fv_config_section(&r.own, config, "fovea"));
    FV_TRY(fv_vit_read_encoder(&r));
    if (!fv_config_get(&r.own, "pos_interp"))
        out->vit.pos_rule = FV_POS_BILINEAR;
    FV_TRY(fv_config_count(&out->taps, config, taps, FV_BACKBONE_TAPS));
    FV_TRY(fv_config_u32s(out->tap, out->taps, config, taps, 0, out->vit.depth - 1));
    for (uint32_t i = 0; i < out->taps; i++) {
        out->tap[i]++;
        if (i > 0 && out->tap[i] <= out->tap[i - 1])
            return fv_config_fail(config, taps, "a list of ascending numbers of blocks");
    }
    *t = r.t;
    return FOVEA_OK;
}

fovea_status fv_backbone_list_outputs(fovea_model *m, const fv_backbone *n, const char *main,
                                      const char *second)
{
    FV_TRY(FV_MEM_ARRAY(&m->outputs, 3ull * n->vit.depth + 4, FV_MEM_MODEL, "list of outputs"));
    FV_TRY(fv_model_add_output(m, "%s", main));
    if (second)
        FV_TRY(fv_model_add_output(m, "%s", second));
    return fv_vit_list_blocks(m, &n->vit);
}

/* ---- computing ---- */

struct context {
    const fv_backbone *n;
    fv_backbone_give *give;
    void *ctx;
};

static void after(void *ctx, fv_builder *b, uint32_t i, fv_view x)
{
    const struct context *c = ctx;
    const fv_vit *v = &c->n->vit;
    for (uint32_t k = 0; k < c->n->taps; k++) {
        if (c->n->tap[k] != i)
            continue;
        c->give(c->ctx, b, k, fv_vit_emit_stage(v, b, x, c->n->normed));
    }
}

void fv_backbone_emit(const fv_backbone *n, fv_builder *b, fv_backbone_give *give, void *ctx)
{
    struct context c = {n, give, ctx};
    fv_vit_emit_blocks(&n->vit, b, after, &c);
}
