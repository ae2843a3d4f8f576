/* attention.c: attention as steps: the names of the mechanisms, keys, queries. */
#include <string.h>

#include "emit.h"

const char *const fv_mech_names[FV_MECH_COUNT] = {
    "any",
#define FV_MECH(NAME, name) #name,
#include "mech/mech.inc"
#undef FV_MECH
};

fovea_status fv_attention_parse(uint32_t *out, const char *name)
{
    static const char linear[] = "linear:";
    if (strcmp(name, "softmax") == 0) {
        *out = FV_MECH_ANY;
        return FOVEA_OK;
    }
    if (strcmp(name, "linear") == 0 || strcmp(name, "linear:elu+1") == 0)
        name = "linear:elu1";
    for (uint32_t m = FV_MECH_ANY + 1; m < FV_MECH_COUNT; m++) {
        if (strncmp(name, linear, sizeof linear - 1) == 0 &&
            strcmp(name + sizeof linear - 1, fv_mech_names[m]) == 0) {
            *out = m;
            return FOVEA_OK;
        }
    }
    return fv_fail(FOVEA_ENOTSUP, "attention '%s' is not supported; choose softmax or linear:elu1",
                   name);
}

static void fill(fv_step *s, const fv_attention *a)
{
    s->prob.mech = (uint16_t)a->mech;
    s->prob.heads = (uint16_t)a->heads;
    s->prob.flags = a->flags;
    s->prob.dim[FV_ATTN_D] = a->d;
    s->prob.dim[FV_ATTN_DV] = a->dv;
    s->prob.dim[FV_ATTN_KEYS] = a->keys;
}

void fv_emit_keys(fv_builder *b, const char *label, fv_attention *a)
{
    a->state.id = FV_NO_VALUE;
    if (a->mech == FV_MECH_ANY)
        return;
    uint32_t size = a->heads * (a->d * a->dv + a->d);
    fv_view partial = fv_emit_value(b, FV_VALUE_PARTIAL, 1, size, sizeof(float));
    fv_step *s = fv_emit_step(b, FV_OP_LATTN_REDUCE, a->keys, label);
    if (!s)
        return;
    fill(s, a);
    s->f[0] = 1.0f / (float)a->keys;
    fv_use_value(s, FV_REDUCE_K, a->k, FV_KIND_ROW);
    fv_use_value(s, FV_REDUCE_V, a->v, FV_KIND_ROW);
    fv_use_value(s, FV_REDUCE_PARTIAL, partial, FV_KIND_PARTIAL);
    s->out = FV_REDUCE_PARTIAL;

    a->state = fv_emit_value(b, FV_VALUE_STATE, 1, size, sizeof(float));
    s = fv_emit_step(b, FV_OP_LATTN_MERGE, 1, label);
    if (!s)
        return;
    fill(s, a);
    fv_use_value(s, FV_MERGE_PARTIAL, partial, FV_KIND_STATE);
    fv_use_value(s, FV_MERGE_STATE, a->state, FV_KIND_STATE);
    s->out = FV_MERGE_STATE;
}

void fv_emit_queries(fv_builder *b, const char *label, const fv_attention *a, fv_view q,
                     fv_view out)
{
    bool softmax = a->mech == FV_MECH_ANY;
    fv_step *s = fv_emit_step(b, softmax ? FV_OP_SOFTMAX : FV_OP_LATTN_APPLY, a->queries, label);
    if (!s)
        return;
    fill(s, a);
    s->f[0] = (float)a->scale;
    if (softmax) {
        fv_use_value(s, FV_SOFTMAX_Q, q, FV_KIND_ROW);
        fv_use_value(s, FV_SOFTMAX_K, a->k, FV_KIND_WHOLE);
        fv_use_value(s, FV_SOFTMAX_V, a->v, FV_KIND_WHOLE);
        fv_use_value(s, FV_SOFTMAX_OUT, out, FV_KIND_ROW);
        s->out = FV_SOFTMAX_OUT;
    } else {
        s->f[1] = (float)a->eps;
        fv_use_value(s, FV_APPLY_Q, q, FV_KIND_ROW);
        fv_use_value(s, FV_APPLY_STATE, a->state, FV_KIND_STATE);
        fv_use_value(s, FV_APPLY_OUT, out, FV_KIND_ROW);
        s->out = FV_APPLY_OUT;
    }
}
