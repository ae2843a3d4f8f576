/* backbone.c: reads the backbone of a dense model, and writes its steps. */
#include "models/backbone.h"

#include <stdio.h>
#include <string.h>

#include "models/layer.h"
#include "models/vit_reader.h"

/* ---- reading ---- */

/* "stem" and "stage1" on: 0 and on. */
static fovea_status read_names(fv_backbone *n, const fv_config *c)
{
    FV_TRY(fv_config_count(&n->taps, c, "out_features", FV_BACKBONE_TAPS));
    const json_t *list = fv_config_get(c, "out_features");
    for (uint32_t i = 0; i < n->taps; i++) {
        const char *name = json_string_value(json_array_get(list, i));
        int end = 0;
        n->tap[i] = 0;
        if (!name || (strcmp(name, "stem") != 0 &&
                      (sscanf(name, "stage%6u%n", &n->tap[i], &end) != 1 || name[end])))
            return fv_config_fail(c, "out_features", "a list of \"stage1\", \"stage2\" and so on");
    }
    return FOVEA_OK;
}

static fovea_status read_taps(fv_backbone *n, const fv_config *c)
{
    n->normed = true;
    n->tap[0] = n->vit.depth;
    n->taps = 1;
    FV_TRY(fv_config_bool(&n->normed, c, "apply_layernorm"));
    if (fv_config_get(c, "out_indices")) {
        FV_TRY(fv_config_count(&n->taps, c, "out_indices", FV_BACKBONE_TAPS));
        FV_TRY(fv_config_u32s(n->tap, n->taps, c, "out_indices", 0, n->vit.depth));
    } else if (fv_config_get(c, "out_features")) {
        FV_TRY(read_names(n, c));
    }
    for (uint32_t i = 0; i < n->taps; i++)
        if (n->tap[i] > n->vit.depth || (i > 0 && n->tap[i] <= n->tap[i - 1]))
            return fv_fail(FOVEA_EFORMAT,
                           "%s: \"%s\" wants stage %u at place %u; stages ascend, and the backbone "
                           "has %u",
                           c->file, c->section, n->tap[i], i, n->vit.depth);
    return FOVEA_OK;
}

static fovea_status check_type(const fv_vit_reader *r, const char *type)
{
    if (r->type && strcmp(r->type, type) == 0)
        return FOVEA_OK;
    return fv_fail(
        FOVEA_ENOTSUP,
        "%s: \"backbone_config.model_type\" is \"%.40s\"; a %.40s with a backbone of type "
        "\"%s\" is supported",
        r->config->file, r->type ? r->type : "", r->t.m->info.type, type);
}

fovea_status fv_backbone_read(fv_backbone *out, fv_tensor_reader *t, const fv_config *config,
                              const char *type, const fv_field *more)
{
    fv_vit_reader r = {.t = *t, .config = config, .prefix = "backbone.", .v = &out->vit};
    bool reshaped = false;
    FV_TRY(fv_config_section(&r.vision, config, "backbone_config"));
    FV_TRY(fv_config_section(&r.own, config, "fovea"));
    if (!r.vision.object)
        return fv_config_fail(config, "backbone_config", "an object that describes the backbone");
    FV_TRY(fv_config_text(&r.type, &r.vision, "model_type"));
    FV_TRY(check_type(&r, type));
    fv_vit_find_kind(&r.kind, r.type);
    FV_TRY(fv_fields_check(config, &r.vision, &r.own, more));
    FV_TRY(fv_config_bool(&reshaped, &r.vision, "reshape_hidden_states"));
    if (reshaped && r.kind == FV_VIT_DINOV2)
        return fv_config_fail(&r.vision, "reshape_hidden_states", "false");
    FV_TRY(fv_vit_read_encoder(&r));
    FV_TRY(read_taps(out, &r.vision));
    *t = r.t;
    return FOVEA_OK;
}

fovea_status fv_backbone_list_outputs(fovea_model *m, const fv_backbone *n, const char *main)
{
    FV_TRY(FV_MEM_ARRAY(&m->outputs, 3ull * n->vit.depth + 3, FV_MEM_MODEL, "list of outputs"));
    FV_TRY(fv_model_add_output(m, "%s", main));
    return fv_vit_list_blocks(m, n->vit.depth);
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
        const fv_view rows = c->n->normed ? fv_layer_norm(b, "norm of a stage", &v->post, x, v->eps,
                                                          fv_grid_tokens(&b->grid))
                                          : x;
        c->give(c->ctx, b, k, rows);
    }
}

void fv_backbone_emit(const fv_backbone *n, fv_builder *b, fv_backbone_give *give, void *ctx)
{
    struct context c = {n, give, ctx};
    fv_vit_emit_blocks(&n->vit, b, after, &c);
}
