/* op_attention.c: emits one attention as steps: inputs, gates, attention, then norm and output
 * gate. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "base/abi.h"
#include "ops/contracts/linear_attention.h"
#include "ops/mech_traits.h"
#include "ops/rope.h"
#include "plan/op_plan.h"

struct op {
    fv_builder *b;
    const fovea_attention_options *o;
    const fv_attention_name *name;
    uint32_t rows, keys, heads, d, dv;
    enum fv_type in, out;
    fv_view q, k, v, decay, beta, gate_q, gate_k, x, factor; /* inputs; unused ones are absent */
};

/* Declares the inputs in the order that attention.h documents. `keys` is the number of rows of k
 * and v. */
static void inputs(struct op *op, uint32_t keys)
{
    const enum fv_attention_kind kind = op->name->kind;
    fv_builder *b = op->b;
    op->q = fv_emit_input(b, "q", op->rows, op->heads * op->d, op->in);
    op->k = fv_emit_input(b, "k", keys, op->heads * op->d, op->in);
    op->v = fv_emit_input(b, "v", keys, op->heads * op->dv, op->in);
    if (kind == FV_ATTENTION_GLA)
        op->decay = fv_emit_input(b, "log_decay", op->rows, op->heads * op->d, FV_F32);
    if (kind == FV_ATTENTION_GATED_DELTA)
        op->decay = fv_emit_input(b, "log_decay", op->rows, op->heads, FV_F32);
    if (kind == FV_ATTENTION_DELTA || kind == FV_ATTENTION_GATED_DELTA)
        op->beta = fv_emit_input(b, "beta", op->rows, op->heads, FV_F32);
    if (op->name->gated && op->o->gates <= FOVEA_GATES_LOGITS) {
        op->gate_q = fv_emit_input(b, "gate_q", op->rows, op->heads, FV_F32);
        op->gate_k = fv_emit_input(b, "gate_k", keys, op->heads, FV_F32);
    }
    if (op->name->gated && op->o->gates == FOVEA_GATES_X_DENSE)
        op->x = fv_emit_input(b, "x", op->rows, op->o->gate_width, FV_F32);
    if (op->o->out_gate)
        op->factor = fv_emit_input(b, "out_gate", op->rows, op->heads * op->dv, FV_F32);
}

/* ---- maps ---- */

/* Multiplies the float32 rows of q or k by a matrix of each head. */
static fv_view mapped(const struct op *op, const char *label, fv_view x, const float *map,
                      uint32_t rows)
{
    const uint32_t d = op->d, wide = op->heads * d;
    fv_builder *b = op->b;
    float *data;
    x = fv_emit_floats(b, label, x, op->in, rows, wide);
    if (!map)
        return x;
    const fv_weight w = fv_emit_constant(b, wide, wide, &data);
    for (size_t i = 0; data && i < wide; i++) /* the matrices are blocks on the diagonal */
        memcpy(data + i * wide + i / d * d, map + i * d, d * sizeof *data);
    const fv_gemm g = {
        .w = &w, .in = x, .res = FV_NO_VIEW, .out = fv_emit_rows(b, rows, wide), .rows = rows};
    if (b->status == FOVEA_OK)
        fv_emit_gemm(b, label, &g);
    return g.out;
}

/* Applies the learned maps to q and k. Afterwards q, k and v are all float32. */
static void map_inputs(struct op *op)
{
    const fovea_attention_options *o = op->o;
    if (!o->map_q && !o->map_k)
        return;
    op->q = mapped(op, "map of q", op->q, o->map_q, op->rows);
    op->k = mapped(op, "map of k", op->k, o->map_k, op->keys);
    op->v = fv_emit_floats(op->b, "v to float", op->v, op->in, op->keys, op->heads * op->dv);
    op->in = FV_F32;
}

/* ---- gates ---- */

/* Returns the weight of the gates' logits, with one row per head. */
static fv_weight gate_weight(const struct op *op, const float *values)
{
    const uint32_t wide = op->heads * op->d;
    float *data;
    if (op->o->gates == FOVEA_GATES_X_DENSE)
        return fv_op_constant(op->b, op->heads, op->o->gate_width, values);
    if (op->o->gates == FOVEA_GATES_Q_DENSE)
        return fv_op_constant(op->b, op->heads, wide, values);
    fv_weight w = fv_emit_constant(op->b, op->heads, wide, &data);
    for (size_t h = 0; data && h < op->heads; h++)
        memcpy(data + h * wide + h * op->d, values + h * op->d, op->d * sizeof *data);
    return w;
}

/* Returns the gates of q or k: the input `given` (gates or their logits), or gates computed from x,
 * or from `floats`, the float32 rows of q or k. */
static fv_view gates(const struct op *op, const char *label, fv_view given, fv_view floats,
                     const float *weight, uint32_t rows)
{
    fv_builder *b = op->b;
    if (op->o->gates == FOVEA_GATES_READY)
        return given;
    if (op->o->gates != FOVEA_GATES_LOGITS) {
        const fv_weight w = gate_weight(op, weight);
        given = fv_emit_rows(b, rows, op->heads);
        const fv_gemm g = {.w = &w,
                           .in = op->o->gates == FOVEA_GATES_X_DENSE ? op->x : floats,
                           .res = FV_NO_VIEW,
                           .out = given,
                           .rows = rows};
        if (b->status == FOVEA_OK)
            fv_emit_gemm(b, label, &g);
    }
    return fv_emit_gates(b, label, given, 1.f, op->heads, rows);
}

/* Returns whether gates are computed from q and k, which must then be converted to float32. */
static bool gates_of_q(const struct op *op)
{
    return op->name->gated && op->o->gates >= FOVEA_GATES_Q_DENSE;
}

/* ---- norm and output gate ---- */

static void convolve(const struct op *op, fv_view v, fv_view y)
{
    const fovea_attention_options *o = op->o;
    const uint32_t wide = op->heads * op->dv, period = o->local_shared ? op->dv : wide;
    const fv_weight w =
        fv_op_constant(op->b, period, o->local_size * o->local_size, o->local_weight);
    fv_weight bias = {0};
    if (o->local_bias)
        bias = fv_op_constant(op->b, 1, period, o->local_bias);
    const fv_dwconv c = {.w = &w,
                         .bias = &bias,
                         .in = v,
                         .res = y,
                         .gate = FV_NO_VIEW,
                         .out = y,
                         .width = o->grid_width,
                         .height = o->grid_height,
                         .count = 1,
                         .channels = wide,
                         .size = o->local_size};
    fv_emit_dwconv(op->b, "convolution of v", &c);
}

/* Applies normalisation and output gate in place to the float32 rows `y`; then copies them to the
 * output, unless y is the output. */
static void finish(const struct op *op, fv_view y, fv_view out)
{
    const fovea_attention_options *o = op->o;
    fv_builder *b = op->b;
    const uint32_t wide = op->heads * op->dv;
    if (o->norm_weight) {
        const fv_weight w = fv_op_constant(b, 1, wide, o->norm_weight);
        const fv_weight bias = fv_op_constant(b, 1, wide, o->norm_bias);
        fv_emit_layernorm(b, "norm", y, &w, &bias, (float)(o->norm_eps ? o->norm_eps : 1e-5), y,
                          op->rows);
    }
    if (o->out_gate)
        fv_emit_mul(b, "gate of the output", y, op->factor, o->out_gate == FOVEA_OUT_GATE_SILU, y,
                    op->rows, wide);
    if (y.id != out.id)
        fv_emit_convert(b, "output", y, FV_F32, out, op->out, op->rows, wide);
}

/* ---- bidirectional, and softmax ---- */

static void learned(const struct op *op, fv_attention *a)
{
    const uint32_t params = fv_mech_table[a->mech]->params, wide = op->heads * op->d;
    const float *const given[2] = {op->o->channel_scale, op->o->power};
    float *data = NULL;
    a->alpha = op->o->alpha;
    if (params)
        a->param = fv_emit_constant(op->b, params, wide, &data);
    for (uint32_t i = 0; data && i < params; i++)
        if (given[i])
            memcpy(data + (size_t)i * wide, given[i], wide * sizeof *data);
}

static void rotation(const struct op *op, fv_attention *a)
{
    const fovea_attention_options *o = op->o;
    float *cosines, *sines;
    if (!o->rope_cos && !o->rope_width)
        return;
    a->flags |= FV_FLAG_ROPE;
    if (o->rope_cos) {
        a->cos = fv_op_constant(op->b, op->rows, op->d, o->rope_cos);
        a->sin = fv_op_constant(op->b, op->rows, op->d, o->rope_sin);
        return;
    }
    a->cos = fv_emit_constant(op->b, op->rows, op->d, &cosines);
    a->sin = fv_emit_constant(op->b, op->rows, op->d, &sines);
    if (cosines && sines)
        fv_rope_grid(cosines, sines, o->rope_width, o->rope_height, op->d);
}

/* Returns q, k and v in the types that the steps which read them accept. */
static fv_view rows_of_q(const struct op *op)
{
    const bool softmax = op->name->mech == FV_MECH_ANY;
    return fv_op_rows(op->b, "q", op->q, op->in, op->rows, op->heads * op->d,
                      softmax ? FV_OP_SOFTMAX : FV_OP_LATTN_APPLY,
                      softmax ? FV_SOFTMAX_Q : FV_APPLY_Q);
}

static fv_view rows_of_k(const struct op *op)
{
    const bool softmax = op->name->mech == FV_MECH_ANY;
    return fv_op_rows(op->b, "k", op->k, op->in, op->keys, op->heads * op->d,
                      softmax ? FV_OP_SOFTMAX : FV_OP_LATTN_REDUCE,
                      softmax ? FV_SOFTMAX_K : FV_REDUCE_K);
}

static fv_view rows_of_v(const struct op *op)
{
    const bool softmax = op->name->mech == FV_MECH_ANY;
    const uint32_t wide = op->heads * op->dv;
    if (op->o->local_size) /* the convolution reads float32 rows too */
        return fv_emit_floats(op->b, "v to float", op->v, op->in, op->keys, wide);
    return fv_op_rows(op->b, "v", op->v, op->in, op->keys, wide,
                      softmax ? FV_OP_SOFTMAX : FV_OP_LATTN_REDUCE,
                      softmax ? FV_SOFTMAX_V : FV_REDUCE_V);
}

/* Emits only the attention if it reads the caller's types directly. Returns false if it needs
 * conversions. */
static bool attend_directly(const struct op *op, fv_attention *a, fv_view out)
{
    const fovea_attention_options *o = op->o;
    if (!op->b->options->any_type || op->name->gated || o->local_size || o->norm_weight ||
        o->out_gate)
        return false;
    a->k = op->b->options->compute ? rows_of_k(op) : op->k;
    a->v = op->b->options->compute ? rows_of_v(op) : op->v;
    fv_emit_keys(op->b, "attention", a);
    fv_emit_queries(op->b, "attention", a, op->b->options->compute ? rows_of_q(op) : op->q, out);
    fv_emit_types(op->b->graph, op->b->options);
    return true;
}

static void attend(const struct op *op)
{
    const fovea_attention_options *o = op->o;
    fv_builder *b = op->b;
    const uint32_t out_wide = op->heads * op->dv;
    fv_attention a = {.mech = op->name->mech,
                      .heads = op->heads,
                      .d = op->d,
                      .dv = op->dv,
                      .queries = op->rows,
                      .keys = op->keys};
    if (o->causal)
        a.flags |= FV_FLAG_CAUSAL;
    if (op->name->gated)
        a.flags |= FV_FLAG_GATED;
    if (!o->normalise)
        a.flags |= FV_FLAG_UNNORMALISED;
    fv_attention_scales(&a, op->name, o->scale, o->eps);
    learned(op, &a);
    rotation(op, &a);
    fv_view out = fv_emit_result(b, op->rows, out_wide, op->out);
    if (attend_directly(op, &a, out))
        return;
    fv_view y = op->out == FV_F32 ? out : fv_emit_rows(b, op->rows, out_wide);

    a.k = rows_of_k(op);
    a.v = rows_of_v(op);
    if (op->name->gated)
        a.gate_k = gates(op, "gates of k", op->gate_k, a.k, o->gate_k, op->keys);
    fv_emit_keys(b, "attention", &a);

    const fv_view q = rows_of_q(op);
    if (op->name->gated)
        a.gate_q = gates(op, "gates of q", op->gate_q, q, o->gate_q, op->rows);
    fv_emit_queries(b, "attention", &a, q, y);
    if (o->local_size)
        convolve(op, a.v, y);
    finish(op, y, out);
}

/* ---- causal ---- */

static uint32_t scan_flags(const struct op *op)
{
    static const uint32_t of_kind[] = {
        [FV_ATTENTION_LINEAR] = 0,
        [FV_ATTENTION_MECHANISM] = FV_FLAG_CENTRED,
        [FV_ATTENTION_MALA_PAPER] = FV_FLAG_CENTRED,
        [FV_ATTENTION_RETENTION] = FV_FLAG_DECAY,
        [FV_ATTENTION_GLA] = FV_FLAG_DECAY_CHANNEL,
        [FV_ATTENTION_DELTA] = FV_FLAG_DELTA,
        [FV_ATTENTION_GATED_DELTA] = FV_FLAG_DECAY | FV_FLAG_DELTA,
    };
    const fovea_attention_options *o = op->o;
    uint32_t flags = of_kind[op->name->kind];
    if (op->name->gated)
        flags |= FV_FLAG_GATED;
    if (o->l2norm)
        flags |= FV_FLAG_L2;
    if (o->form == FOVEA_FORM_RECURRENT)
        flags |= FV_FLAG_RECURRENT;
    if (o->form == FOVEA_FORM_CHUNK)
        flags |= FV_FLAG_CHUNKWISE;
    /* Only linear attention and MALA have a denominator. */
    if (op->name->kind >= FV_ATTENTION_RETENTION || !o->normalise)
        flags |= FV_FLAG_UNNORMALISED;
    return flags;
}

/* Returns the log decay of each head, which is constant over the tokens; the default is RetNet's.
 */
static fv_weight retention_decay(const struct op *op)
{
    float *decay;
    fv_weight w = fv_emit_constant(op->b, 1, op->heads, &decay);
    for (uint32_t h = 0; decay && h < op->heads; h++)
        decay[h] = op->o->log_decay ? op->o->log_decay[h] : (float)log1p(-exp2(-5.0 - h));
    return w;
}

/* Sets scale and eps. The paper divides by the number of tokens without an eps; an eps is added
 * because all features may underflow to 0. */
static void centred_scales(fv_scan *s, bool paper)
{
    if (paper)
        s->scale = s->eps = 0;
    s->scale_by_tokens = paper;
    s->eps = fmax(s->eps, (double)FLT_MIN);
}

static void scan(const struct op *op)
{
    const fovea_attention_options *o = op->o;
    fv_builder *b = op->b;
    const uint32_t wide = op->heads * op->d, out_wide = op->heads * op->dv;
    /* The scan writes the output itself, unless a norm or gate follows, because these read float32.
     */
    const bool direct = op->out == FV_F32 || !(o->norm_weight || o->out_gate);
    fv_scan s = {.mech = fv_attention_map(op->name),
                 .heads = op->heads,
                 .d = op->d,
                 .dv = op->dv,
                 .rows = op->rows,
                 .flags = scan_flags(op),
                 .in = op->in,
                 .out = direct ? op->out : FV_F32,
                 .scale = o->scale,
                 .eps = o->eps,
                 .chunk = o->chunk,
                 .q = op->q,
                 .k = op->k,
                 .v = op->v,
                 .decay = op->decay,
                 .beta = op->beta};
    if (op->name->kind == FV_ATTENTION_RETENTION)
        s.same_decay = retention_decay(op);
    if (s.flags & FV_FLAG_CENTRED)
        centred_scales(&s, op->name->kind == FV_ATTENTION_MALA_PAPER);
    s.state = fv_emit_value(b, FV_VALUE_KEPT, 1, (uint32_t)fv_scan_floats(&s), FV_F32);
    fv_view out = fv_emit_result(b, op->rows, out_wide, op->out);
    fv_view y = direct ? out : fv_emit_rows(b, op->rows, out_wide);

    fv_view q = op->q, k = op->k;
    if (gates_of_q(op)) {
        q = fv_emit_floats(b, "q to float", op->q, op->in, op->rows, wide);
        k = fv_emit_floats(b, "k to float", op->k, op->in, op->rows, wide);
    }
    if (op->name->gated) {
        s.gate_k = gates(op, "gates of k", op->gate_k, k, o->gate_k, op->rows);
        s.gate_q = gates(op, "gates of q", op->gate_q, q, o->gate_q, op->rows);
    }
    fv_emit_scan(b, "attention", &s, y);
    finish(op, y, out);
}

/* Emits softmax attention with a cache of op->keys tokens. */
static void scan_softmax(const struct op *op)
{
    fv_builder *b = op->b;
    const uint32_t wide = op->heads * op->d, out_wide = op->heads * op->dv;
    fv_softmax_scan s = {.heads = op->heads,
                         .kv_heads = op->heads,
                         .d = op->d,
                         .dv = op->dv,
                         .rows = op->rows,
                         .capacity = op->keys,
                         .scale = op->o->scale};
    s.position = fv_emit_input(b, NULL, op->rows, 1, FV_F32);
    s.cache = fv_emit_value(b, FV_VALUE_KEPT, 1, (uint32_t)fv_cache_floats(&s), FV_F32);
    fv_view out = fv_emit_result(b, op->rows, out_wide, op->out);
    s.out = op->out == FV_F32 ? out : fv_emit_rows(b, op->rows, out_wide);
    s.q = fv_emit_floats(b, "q to float", op->q, op->in, op->rows, wide);
    s.k = fv_emit_floats(b, "k to float", op->k, op->in, op->rows, wide);
    s.v = fv_emit_floats(b, "v to float", op->v, op->in, op->rows, out_wide);
    fv_emit_softmax_scan(b, "attention", &s);
    finish(op, s.out, out);
}

fovea_status fv_op_attention(fv_builder *b, const fovea_attention_options *o,
                             const fv_attention_name *name, bool remembers)
{
    const bool softmax = name->kind == FV_ATTENTION_SOFTMAX, cached = softmax && remembers;
    struct op op = {.b = b,
                    .o = o,
                    .name = name,
                    .rows = o->rows,
                    .keys = o->keys ? o->keys : o->rows,
                    .heads = o->heads,
                    .d = o->head_dim,
                    .dv = o->value_dim,
                    .in = fv_type_of(o->storage),
                    .out = fv_type_of(o->out_storage)};
    inputs(&op, o->causal && cached ? op.rows : op.keys);
    map_inputs(&op);
    if (o->causal && cached)
        scan_softmax(&op);
    else if (o->causal && !softmax)
        scan(&op);
    else
        attend(&op);
    return b->status;
}
