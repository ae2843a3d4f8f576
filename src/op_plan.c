/* op_plan.c: plans of one operation, for callers who want one attention or one GEMM. */
#include <string.h>

#include "plan.h"

static const struct {
    const char *name;
    uint32_t epi;
} activations[] = {
    {"gelu", FV_EPI_GELU}, {"gelu_tanh", FV_EPI_GELU_TANH}, {"gelu_quick", FV_EPI_GELU_QUICK},
    {"silu", FV_EPI_SILU}, {"relu", FV_EPI_RELU},           {"tanh", FV_EPI_TANH},
};

static fovea_status emit_attention(fovea_plan *p, const fovea_op_options *o)
{
    fv_builder *b = &p->b;
    fv_attention a = {.heads = o->heads,
                      .d = o->head_dim,
                      .dv = o->value_dim,
                      .queries = o->rows,
                      .keys = o->keys,
                      .scale = o->scale};
    FV_TRY(fv_attention_parse(&a.mech, o->attention ? o->attention : "softmax"));
    uint64_t widest = o->head_dim > o->value_dim ? o->head_dim : o->value_dim;
    if (o->heads == 0 || o->head_dim == 0 || o->value_dim == 0 || o->keys == 0 || o->heads > 4096 ||
        widest * o->heads > 1u << 20)
        return fv_fail(FOVEA_EINVAL,
                       "attention of %u heads, dims %u and %u, %u keys: each must be at "
                       "least 1, heads at most 4096, channels at most 2^20",
                       o->heads, o->head_dim, o->value_dim, o->keys);
    if (a.mech == FV_MECH_ANY) {
        a.flags = o->causal ? FV_FLAG_CAUSAL : 0;
    } else {
        if (o->causal)
            return fv_fail(FOVEA_ENOTSUP, "causal %s attention is not supported; softmax is",
                           o->attention);
        /* The states are means over the keys, the equation has sums: N s_mean = s_sum. */
        a.flags = o->normalise ? 0 : FV_FLAG_UNNORMALISED;
        a.scale = o->scale * o->keys;
        a.eps = o->eps / (o->scale * o->keys);
    }
    fv_view q = fv_emit_value(b, FV_VALUE_INPUT, o->rows, o->heads * o->head_dim, sizeof(float));
    a.k = fv_emit_value(b, FV_VALUE_INPUT, o->keys, o->heads * o->head_dim, sizeof(float));
    a.v = fv_emit_value(b, FV_VALUE_INPUT, o->keys, o->heads * o->value_dim, sizeof(float));
    p->n_inputs = 3;
    fv_view out = fv_emit_output(b, "out", o->rows, o->heads * o->value_dim, false, 0, true);
    fv_emit_keys(b, "attention", &a);
    fv_emit_queries(b, "attention", &a, q, out);
    return b->status;
}

static fovea_status emit_gemm(fovea_plan *p, const fovea_op_options *o)
{
    fv_builder *b = &p->b;
    if (o->in == 0 || o->out == 0 || o->in > 1u << 20 || o->out > 1u << 20 || !o->weight)
        return fv_fail(FOVEA_EINVAL,
                       "gemm of %u to %u channels: a weight and 1 to 2^20 channels are needed",
                       o->in, o->out);
    uint32_t act = 0;
    for (size_t i = 0; o->activation && i < sizeof activations / sizeof *activations; i++)
        if (strcmp(o->activation, activations[i].name) == 0)
            act = activations[i].epi;
    if (o->activation && !act)
        return fv_fail(FOVEA_EINVAL,
                       "activation '%s' is unknown; choose gelu, gelu_tanh, gelu_quick, silu, relu "
                       "or tanh",
                       o->activation);
    float *w, *bias = NULL;
    fv_weight weight = fv_emit_constant(b, o->out, o->in, &w), bias_weight = {0};
    if (w)
        memcpy(w, o->weight, (size_t)o->out * o->in * sizeof *w);
    if (o->bias)
        bias_weight = fv_emit_constant(b, 1, o->out, &bias);
    if (bias)
        memcpy(bias, o->bias, o->out * sizeof *bias);
    fv_gemm g = {
        .w = &weight, .bias = &bias_weight, .act = act, .rows = o->rows, .res = {FV_NO_VALUE, 0}};
    g.in = fv_emit_value(b, FV_VALUE_INPUT, o->rows, o->in, sizeof(float));
    p->n_inputs = 1;
    g.out = fv_emit_output(b, "out", o->rows, o->out, false, 0, true);
    if (b->status == FOVEA_OK)
        fv_emit_gemm(b, "gemm", &g);
    return b->status;
}

static fovea_status build(fovea_plan *p, const fovea_op_options *o)
{
    void *memory;
    FV_TRY(fv_model_blank(&p->model));
    FV_TRY(fv_mem_alloc(&memory, sizeof *p->b.wanted, FV_MEM_PLAN, "the plan's outputs"));
    p->b.wanted = memory;
    p->b.wanted[0] = (fv_wanted){.name = "out", .value = FV_NO_VALUE};
    p->b.n_wanted = 1;
    if (o->rows == 0)
        return fv_fail(FOVEA_EINVAL, "an operation on 0 rows; give at least 1");
    FV_TRY(o->kind == FOVEA_OP_GEMM ? emit_gemm(p, o) : emit_attention(p, o));
    p->info.tokens = o->rows;
    fv_plan_request r = {.schedule = o->schedule, .chunk = o->chunk};
    return fv_plan_finish(p, &r);
}

fovea_status fovea_op_plan_create(fovea_plan **out, fovea_device *device,
                                  const fovea_op_options *options)
{
    static const fovea_op_options defaults = FOVEA_OP_OPTIONS_INIT;
    if (options->version != defaults.version)
        return fv_fail(FOVEA_EINVAL,
                       "op options of version %u; initialise them with FOVEA_OP_OPTIONS_INIT",
                       options->version);
    fovea_plan *p;
    FV_TRY(fv_plan_alloc(&p, device));
    fovea_status status = build(p, options);
    if (status != FOVEA_OK) {
        fovea_plan_free(p);
        return status;
    }
    *out = p;
    return FOVEA_OK;
}
