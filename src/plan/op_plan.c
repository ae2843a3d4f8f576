/* op_plan.c: plans of one operation: an attention or a GEMM. */
#include "plan/op_plan.h"

#include "base/abi.h"
#include "base/mem.h"
#include "models/model.h"
#include "ops/contracts/product.h"

/* Maximum rows: row numbers and strides must fit in 32 bits. */
#define MAX_ROWS (1u << 28)
#define LONG 4096 /* tokens */

static fovea_status emit_gemm(fovea_plan *p, fv_builder *b, const fovea_gemm_options *o)
{
    if (o->in == 0 || o->out == 0 || o->in > 1u << 20 || o->out > 1u << 20 || !o->weight)
        return fv_fail(FOVEA_EINVAL,
                       "gemm has %u inputs and %u outputs; both must be from 1 to 2^20, and "
                       "`weight` must be set",
                       o->in, o->out);
    const fv_activation *act = o->activation ? fv_activation_named(o->activation) : NULL;
    if (o->activation && !act)
        return fv_fail(FOVEA_EINVAL, "activation '%s' is unknown; choose one of %s", o->activation,
                       fv_activation_list);
    fv_emit_compute(b->options, o->compute, &p->limits);
    b->in_block = true; /* so that it may be INT8 */
    const fv_weight weight = fv_op_constant(b, o->out, o->in, o->weight);
    const fv_weight bias = o->bias ? fv_op_constant(b, 1, o->out, o->bias) : (fv_weight){.rows = 0};
    fv_gemm g = {
        .w = &weight, .bias = &bias, .act = act ? act->epi : 0, .rows = o->rows, .res = FV_NO_VIEW};
    const enum fv_type in = fv_type_of(o->storage), out = fv_type_of(o->out_storage);
    g.in = fv_emit_input(b, "a", o->rows, o->in, in);
    g.in = fv_op_rows(b, "a", g.in, in, o->rows, o->in, FV_OP_GEMM, FV_GEMM_A);
    fv_view result = fv_emit_result(b, o->rows, o->out, out);
    const bool direct = out == FV_F32 || (b->options->compute && out == FV_BF16);
    g.out = direct ? result : fv_emit_rows(b, o->rows, o->out);
    if (b->status == FOVEA_OK)
        fv_emit_gemm(b, "gemm", &g);
    if (!direct)
        fv_emit_convert(b, "output", g.out, FV_F32, result, out, o->rows, o->out);
    return b->status;
}

fovea_status fv_op_options_check(const fv_op_options *o)
{
    FV_TRY(fv_known("schedule", (int)o->schedule, FOVEA_SCHEDULE_STEPWISE));
    if ((unsigned)o->storage > FOVEA_DTYPE_BF16 || (unsigned)o->out_storage > FOVEA_DTYPE_BF16)
        return fv_fail(
            FOVEA_EINVAL,
            "storage is %d and out_storage is %d; both must be FOVEA_DTYPE_F32, F16 or BF16",
            (int)o->storage, (int)o->out_storage);
    if (o->rows == 0 || o->rows > MAX_ROWS)
        return fv_fail(FOVEA_EINVAL, "the operation has %u rows; it must have from 1 to %u",
                       o->rows, MAX_ROWS);
    return fv_known("compute", (int)o->compute, FOVEA_COMPUTE_AUTO);
}

static fovea_status emit_attention(fovea_plan *p, fv_builder *b, const fv_op_options *options,
                                   fv_plan_request *r)
{
    const fovea_attention_options *o = options->attention;
    fv_attention_name name;
    FV_TRY(fv_attention_parse(&name, o->attention ? o->attention : "softmax"));
    FV_TRY(fv_op_check(o, &name, options->remembers));
    /* Linear attention over many tokens is streamed even with one worker, because its memory then
     * does not grow with the number of tokens. */
    if (!p->limits.throughput && name.mech != FV_MECH_ANY && (o->rows >= LONG || o->keys >= LONG) &&
        r->schedule == FOVEA_SCHEDULE_AUTO) {
        r->schedule = FOVEA_SCHEDULE_STREAMED;
        r->source = "cost";
    }
    p->options.any_type = p->limits.throughput;
    const bool scan = name.kind != FV_ATTENTION_SOFTMAX || options->remembers;
    const bool int8 = name.mech == FV_MECH_ANY && !o->causal && p->limits.int8_attention;
    b->in_block = true;      /* so that it may be INT8 */
    if (!o->causal || !scan) /* scans exist in float32 only */
        fv_emit_compute(b->options,
                        o->compute == FOVEA_COMPUTE_INT8 && !int8 ? FOVEA_COMPUTE_BF16 : o->compute,
                        &p->limits);
    return fv_op_attention(b, o, &name, options->remembers);
}

static fovea_status build(fovea_plan *p, const fv_op_options *o, const fovea_plan *kept)
{
    fv_plan_request r = {
        .schedule = o->schedule, .chunk = o->chunk, .memory_limit = o->memory_limit, .kept = kept};
    fv_builder b = fv_builder_of(&p->graph, &p->options);
    FV_TRY(fv_model_blank(&p->model));
    FV_TRY(FV_MEM_NEW(&p->graph.wanted, FV_MEM_PLAN, "the plan's outputs"));
    p->graph.wanted[0] = (fv_wanted){.name = "out", .value = FV_NO_VALUE};
    p->graph.n_wanted = 1;
    FV_TRY(o->gemm ? emit_gemm(p, &b, o->gemm) : emit_attention(p, &b, o, &r));
    p->info.tokens = o->rows;
    p->info.compute = p->options.compute;
    return fv_plan_finish(p, &r);
}

fovea_status fv_op_plan(fovea_plan **out, fovea_device *device, const fv_op_options *options,
                        const fovea_plan *kept, fv_wisdom *wisdom)
{
    fovea_plan *p;
    FV_TRY(fv_op_options_check(options));
    FV_TRY(fv_plan_alloc(&p, device, wisdom));
    FV_RETURN_MADE(out, p, fv_plan_free, build(p, options, kept));
}

#define COMMON(o)                                                                                  \
    .rows = (o)->rows, .chunk = (o)->chunk, .storage = (o)->storage,                               \
    .out_storage = (o)->out_storage, .schedule = (o)->schedule, .memory_limit = (o)->memory_limit, \
    .rigor = (o)->rigor, .tune_seconds = (o)->tune_seconds, .compute = (o)->compute

fv_op_options fv_op_of_attention(const fovea_attention_options *attention)
{
    return (fv_op_options){.attention = attention, COMMON(attention)};
}

fv_op_options fv_op_of_gemm(const fovea_gemm_options *gemm)
{
    return (fv_op_options){.gemm = gemm, COMMON(gemm)};
}

uint64_t fv_op_state_floats(const fovea_plan *p)
{
    for (uint32_t i = 0; i < p->graph.values; i++)
        if (p->graph.value[i].kind == FV_VALUE_KEPT)
            return p->graph.value[i].cols;
    return 0;
}

const fv_value *fv_op_position(const fovea_plan *p)
{
    for (uint32_t i = 0; i < p->graph.values; i++)
        if (p->graph.value[i].kind == FV_VALUE_INPUT && !p->graph.value[i].name)
            return &p->graph.value[i];
    return NULL;
}
