/* emit_attention.c: emits the steps of an attention: a reduction over keys and an application to
 * queries, attention in windows, or a causal scan. */
#include <float.h>

#include "base/mem.h"
#include "graph/emit.h"
#include "ops/contracts/linear_attention.h"
#include "ops/contracts/sequence.h"
#include "ops/foveated.h"
#include "ops/keys_i8.h"
#include "ops/mech_traits.h"
#include "ops/quantise.h"

void fv_attention_scales(fv_attention *a, const fv_attention_name *name, double scale, double eps)
{
    const double keys = a->keys;
    const bool centred = (fv_mech_table[a->mech]->wants & FV_WANT_CENTRED) != 0;
    a->scale = 1;
    a->eps = eps;
    switch (name->kind) {
    case FV_ATTENTION_LINEAR:
        /* Kernels compute means over the N keys, but the equation has sums: sum = N mean. */
        if (a->flags & FV_FLAG_UNNORMALISED)
            a->scale = scale * keys;
        a->eps = eps / (scale * keys);
        break;
    case FV_ATTENTION_MALA_PAPER:
        a->scale = keys;
        a->eps = FLT_MIN; /* the equation has no eps, but all features may underflow to 0 */
        break;
    default:
        if (a->mech == FV_MECH_ANY || centred)
            a->scale = scale;
        break;
    }
}

static fv_lattn_state layout(const fv_attention *a)
{
    const fv_mech_traits *t = fv_mech_table[a->mech];
    return fv_lattn_layout(t->blocks, t->wants, a->d, a->dv);
}

static void set_sizes(fv_step *s, uint32_t mech, uint32_t heads, uint32_t flags, uint32_t d,
                      uint32_t dv, uint32_t keys)
{
    s->prob.mech = (uint16_t)mech;
    s->prob.heads = (uint16_t)heads;
    s->prob.flags = flags;
    s->prob.dim[FV_ATTN_D] = d;
    s->prob.dim[FV_ATTN_DV] = dv;
    s->prob.dim[FV_ATTN_KEYS] = keys;
}

static fv_step *step(fv_builder *b, enum fv_op op, const char *label, const fv_attention *a,
                     uint32_t rows, uint32_t keys)
{
    fv_step *s = fv_emit_step(b, op, rows, label);
    set_sizes(s, a->mech, a->heads, a->flags, a->d, a->dv, keys);
    if (b->options->narrow_only && fv_op_table[op]->operand[0].narrow)
        s->prob.acc = FV_BF16;
    return s;
}

/* Returns the mechanism's constant as kernels read it. */
static float constant(const fv_attention *a)
{
    return a->alpha > 0 ? (float)a->alpha : fv_mech_table[a->mech]->alpha;
}

static void set_grid(fv_step *s, const fv_attention *a)
{
    s->prob.dim[FV_ATTN_KEYS] = a->keys;
    s->prob.dim[FV_FOVEA_WIDTH] = a->grid->width;
    s->prob.dim[FV_FOVEA_HEIGHT] = a->grid->height;
}

/* Computes the means of the rows of `in` (keys or values, `width` channels) over cells of the grid.
 */
static fv_view cells(fv_builder *b, const char *label, const fv_attention *a, fv_view in,
                     uint32_t width)
{
    const fv_grid *g = a->grid;
    const fv_fovea f = {g->prefix, g->width, g->height, fv_fovea_levels(g->width, g->height),
                        a->margin};
    const uint32_t rows = fv_fovea_first(&f, f.levels + 1);
    const fv_view out = fv_emit_rows(b, rows, width);
    set_grid(fv_emit_row_step(b, FV_OP_CELLS, label, in, FV_KIND_WHOLE, out, rows, width), a);
    return out;
}

/* Returns whether softmax attention may be int8. In blocks it may, because the residual stream
 * averages out the errors. Causal attention may not, because scales shared by several tokens would
 * depend on later tokens. Foveated attention has int8 kernels only on the CPU. */
static bool may_be_int8(const fv_builder *b, const fv_attention *a)
{
    return b->options->int8_attention && b->in_block && a->mech == FV_MECH_ANY &&
           !(a->flags & FV_FLAG_CAUSAL) && a->d <= FV_INT8_DEEPEST &&
           (!a->margin || b->options->narrow_only);
}

static void use_whole(fv_builder *b, const char *label, fv_attention *a)
{
    fv_step *s = fv_emit_step(b, FV_OP_KEYS_I8, a->heads, label);
    set_sizes(s, FV_MECH_ANY, a->heads, 0, a->d, a->dv, a->keys);
    s->prob.acc = FV_I32;
    fv_use_value(s, FV_KEYS_K, a->k, FV_KIND_WHOLE);
    fv_use_value(s, FV_KEYS_V, a->v, FV_KIND_WHOLE);
    if (a->margin && a->prepared.cell_k.id >= 0) {
        s->prob.dim[FV_KEYS_CELLS] = b->graph->value[a->prepared.cell_k.id].rows;
        fv_use_value(s, FV_KEYS_CELL_K, a->prepared.cell_k, FV_KIND_WHOLE);
        fv_use_value(s, FV_KEYS_CELL_V, a->prepared.cell_v, FV_KIND_WHOLE);
    }
    a->prepared.packed =
        fv_emit_value(b, FV_VALUE_ROWS, a->heads, fv_keys_i8_bytes(&s->prob), FV_U8);
    fv_use_value(s, FV_KEYS_OUT, a->prepared.packed, FV_KIND_ROW);
}

void fv_emit_keys(fv_builder *b, const char *label, fv_attention *a)
{
    const uint32_t params = fv_mech_table[a->mech]->params;
    a->prepared.state.id = a->prepared.packed.id = FV_NO_VALUE;
    if (a->margin) {
        a->prepared.cell_k = cells(b, "cells of k", a, a->k, a->heads * a->d);
        a->prepared.cell_v = cells(b, "cells of v", a, a->v, a->heads * a->dv);
    }
    if (may_be_int8(b, a) && fv_use_int8(b))
        use_whole(b, label, a);
    if (a->mech == FV_MECH_ANY)
        return;
    if (params && !fv_weight_present(&a->param)) {
        float *zeros;
        a->param = fv_emit_constant(b, params, a->heads * a->d, &zeros);
    }
    const uint64_t floats = fv_size_mul(a->heads, layout(a).floats);
    if (floats > FV_STATE_MOST) {
        b->status = fv_fail(FOVEA_ENOTSUP,
                            "%s%s%s: %u heads of %u channels have states of %llu values, but at "
                            "most 2^30 are supported; use more heads, or softmax attention",
                            b->scope, *b->scope ? " " : "", label, a->heads, a->d,
                            (unsigned long long)floats);
        return;
    }
    const uint32_t size = (uint32_t)floats;
    fv_view partial = fv_emit_value(b, FV_VALUE_PARTIAL, 1, size, FV_F32);
    fv_step *s = step(b, FV_OP_LATTN_REDUCE, label, a, a->keys, a->keys);
    s->f[0] = 1.0f / (float)a->keys;
    s->f[1] = constant(a);
    fv_use_value(s, FV_REDUCE_K, a->k, FV_KIND_ROW);
    fv_use_value(s, FV_REDUCE_V, a->v, FV_KIND_ROW);
    fv_use_weight(s, FV_REDUCE_PARAM, &a->param);
    fv_use_weight(s, FV_REDUCE_COS, &a->cos);
    fv_use_weight(s, FV_REDUCE_SIN, &a->sin);
    s->u[0] = a->rope_width;
    if (a->flags & FV_FLAG_GATED)
        fv_use_value(s, FV_REDUCE_GATE, a->gate_k, FV_KIND_ROW);
    fv_use_value(s, FV_REDUCE_PARTIAL, partial, FV_KIND_PARTIAL);

    a->prepared.state = fv_emit_value(b, FV_VALUE_STATE, 1, size, FV_F32);
    s = step(b, FV_OP_LATTN_MERGE, label, a, 1, a->keys);
    fv_use_value(s, FV_MERGE_PARTIAL, partial, FV_KIND_STATE);
    fv_use_value(s, FV_MERGE_STATE, a->prepared.state, FV_KIND_STATE);
}

static void use_rel_pos(fv_step *s, uint32_t operand, const fv_attention *a)
{
    s->prob.dim[FV_REL_POS_COLUMNS] = a->rel_columns;
    if (a->rel_columns)
        fv_use_value(s, operand, a->rel_pos, FV_KIND_ROW);
}

void fv_emit_mask_keys(fv_builder *b, const char *label, fv_attention *a, fv_view masks, uint32_t n,
                       bool spare)
{
    /* REL_POS for a grid of one column: each of its rows is a single key. */
    const uint64_t columns = a->heads * ((uint64_t)a->keys + 1);
    if (columns > UINT32_MAX) {
        FV_THEN(b->status, fv_fail(FOVEA_ENOTSUP,
                                   "%s: %u heads with %u keys need %llu numbers, but at most 2^32 "
                                   "- 1 are supported; use a smaller picture",
                                   label, a->heads, a->keys, (unsigned long long)columns));
        return;
    }
    const fv_view most =
        spare ? fv_emit_row_max(b, "largest of masks", masks, a->queries, n) : FV_NO_VIEW;
    const fv_view out = fv_emit_rows(b, a->queries, (uint32_t)columns);
    fv_step *s =
        fv_emit_row_step(b, FV_OP_MASK_KEYS, label, masks, FV_KIND_ROW, out, a->queries, n);
    s->prob.heads = (uint16_t)a->heads;
    s->prob.dim[FV_MASK_BEFORE] = a->keys - n;
    fv_use_value(s, FV_MASK_MOST, most, FV_KIND_ROW);
    a->rel_pos = out;
    a->rel_columns = 1;
}

/* Sets the operands from which softmax reads keys and values. */
static void use_keys(fv_step *s, uint32_t k, uint32_t v, const fv_attention *a)
{
    if (a->prepared.packed.id >= 0) {
        s->prob.acc = FV_I32;
        fv_use_value(s, k, a->prepared.packed, FV_KIND_WHOLE);
        return;
    }
    fv_use_value(s, k, a->k, FV_KIND_WHOLE);
    fv_use_value(s, v, a->v, FV_KIND_WHOLE);
}

static void foveated(fv_builder *b, const char *label, const fv_attention *a, fv_view q,
                     fv_view out)
{
    fv_step *s = step(b, FV_OP_FOVEATED, label, a, a->queries, a->keys);
    s->f[0] = (float)a->scale;
    s->prob.dim[FV_FOVEA_MARGIN] = a->margin;
    set_grid(s, a);
    fv_use_value(s, FV_FOVEATED_Q, q, FV_KIND_ROW);
    use_keys(s, FV_FOVEATED_K, FV_FOVEATED_V, a);
    if (a->prepared.packed.id < 0) {
        fv_use_value(s, FV_FOVEATED_CELL_K, a->prepared.cell_k, FV_KIND_WHOLE);
        fv_use_value(s, FV_FOVEATED_CELL_V, a->prepared.cell_v, FV_KIND_WHOLE);
    }
    fv_use_value(s, FV_FOVEATED_OUT, out, FV_KIND_ROW);
}

void fv_emit_queries(fv_builder *b, const char *label, const fv_attention *a, fv_view q,
                     fv_view out)
{
    if (a->margin) {
        foveated(b, label, a, q, out);
        return;
    }
    const bool softmax = a->mech == FV_MECH_ANY;
    const enum fv_op op = softmax ? FV_OP_SOFTMAX : FV_OP_LATTN_APPLY;
    fv_step *s = step(b, op, label, a, a->queries, a->keys);
    s->f[0] = (float)a->scale;
    if (softmax) {
        fv_use_value(s, FV_SOFTMAX_Q, q, FV_KIND_ROW);
        use_keys(s, FV_SOFTMAX_K, FV_SOFTMAX_V, a);
        use_rel_pos(s, FV_SOFTMAX_REL_POS, a);
        fv_use_value(s, FV_SOFTMAX_OUT, out, FV_KIND_ROW);
        return;
    }
    s->f[1] = (float)a->eps;
    s->f[2] = constant(a);
    fv_use_value(s, FV_APPLY_Q, q, FV_KIND_ROW);
    fv_use_value(s, FV_APPLY_STATE, a->prepared.state, FV_KIND_STATE);
    fv_use_weight(s, FV_APPLY_PARAM, &a->param);
    fv_use_weight(s, FV_APPLY_COS, &a->cos);
    fv_use_weight(s, FV_APPLY_SIN, &a->sin);
    s->u[0] = a->rope_width;
    if (a->flags & FV_FLAG_GATED)
        fv_use_value(s, FV_APPLY_GATE, a->gate_q, FV_KIND_ROW);
    fv_use_value(s, FV_APPLY_OUT, out, FV_KIND_ROW);
}

/* In smaller windows, quantising keys and values takes about as long as int8 products save. */
#define LEAST_INT8_WINDOW 128

/* Returns whether a window's attention may be int8. The int8 kernels support neither a table of
 * biases nor the penalty between regions. */
static bool window_may_be_int8(const fv_builder *b, const fv_attention *a, uint32_t window,
                               const uint32_t *regions)
{
    return may_be_int8(b, a) && window >= LEAST_INT8_WINDOW && !fv_weight_present(&a->param) &&
           !regions;
}

void fv_emit_window(fv_builder *b, const char *label, const fv_attention *a, fv_view q,
                    uint32_t window, const uint32_t *regions, fv_view out)
{
    const enum fv_op op = a->mech == FV_MECH_ANY ? FV_OP_WSOFTMAX : FV_OP_WLATTN;
    fv_step *s = step(b, op, label, a, a->queries, window);
    if (window_may_be_int8(b, a, window, regions) && fv_use_int8(b))
        s->prob.acc = FV_I32;
    s->align = window;
    s->f[0] = (float)a->scale;
    s->f[1] = (float)a->eps;
    s->f[2] = constant(a);
    s->table = regions;
    fv_use_value(s, FV_WINDOW_Q, q, FV_KIND_ROW);
    fv_use_value(s, FV_WINDOW_K, a->k, FV_KIND_ROW);
    fv_use_value(s, FV_WINDOW_V, a->v, FV_KIND_ROW);
    fv_use_weight(s, FV_WINDOW_PARAM, &a->param);
    use_rel_pos(s, FV_WINDOW_PARAM, a);
    fv_use_value(s, FV_WINDOW_OUT, out, FV_KIND_ROW);
}

fv_view fv_emit_pool(fv_builder *b, const char *label, const char *merge, const fv_attention *a,
                     fv_view q)
{
    fv_view partial = fv_emit_value(b, FV_VALUE_PARTIAL, 1, a->heads * (2 + a->d), FV_F32);
    fv_step *s = step(b, FV_OP_MAP_REDUCE, label, a, a->keys, a->keys);
    s->f[0] = (float)a->scale;
    fv_use_value(s, FV_MAP_Q, q, FV_KIND_WHOLE);
    fv_use_value(s, FV_MAP_K, a->k, FV_KIND_ROW);
    fv_use_value(s, FV_MAP_V, a->v, FV_KIND_ROW);
    fv_use_value(s, FV_MAP_PARTIAL, partial, FV_KIND_PARTIAL);

    fv_view out = fv_emit_rows(b, 1, a->heads * a->d);
    s = step(b, FV_OP_MAP_MERGE, merge, a, 1, a->keys);
    fv_use_value(s, FV_MERGE_PARTIAL, partial, FV_KIND_STATE);
    fv_use_value(s, FV_MERGE_STATE, out, FV_KIND_ROW);
    return out;
}

fv_view fv_emit_gates(fv_builder *b, const char *label, fv_view logits, float total, uint32_t heads,
                      uint32_t rows)
{
    fv_view out = fv_emit_rows(b, rows, heads);
    fv_emit_row_step(b, FV_OP_GATES, label, logits, FV_KIND_ROW, out, rows, heads)->f[0] = total;
    return out;
}

uint64_t fv_scan_floats(const fv_scan *s)
{
    const uint64_t width = (uint64_t)fv_mech_table[s->mech]->blocks * s->d;
    const uint64_t columns = s->dv + !(s->flags & FV_FLAG_UNNORMALISED);
    return s->heads * (width * columns + (s->flags & FV_FLAG_CENTRED ? s->dv + 1 : 0));
}

void fv_emit_scan(fv_builder *b, const char *label, const fv_scan *a, fv_view out)
{
    fv_step *s = fv_emit_step(b, FV_OP_SCAN, a->rows, label);
    set_sizes(s, a->mech, a->heads, a->flags, a->d, a->dv, a->rows);
    s->prob.in = (uint8_t)a->in;
    s->prob.out = (uint8_t)a->out;
    s->f[0] = (float)a->scale;
    s->f[1] = (float)a->eps;
    s->f[2] = (float)a->scale_by_tokens;
    s->u[0] = a->chunk;
    fv_use_value(s, FV_SCAN_Q, a->q, FV_KIND_ROW);
    fv_use_value(s, FV_SCAN_K, a->k, FV_KIND_ROW);
    fv_use_value(s, FV_SCAN_V, a->v, FV_KIND_ROW);
    if (fv_weight_present(&a->same_decay))
        fv_use_weight(s, FV_SCAN_DECAY, &a->same_decay);
    else if (a->flags & (FV_FLAG_DECAY | FV_FLAG_DECAY_CHANNEL))
        fv_use_value(s, FV_SCAN_DECAY, a->decay, FV_KIND_ROW);
    if (a->flags & FV_FLAG_DELTA)
        fv_use_value(s, FV_SCAN_BETA, a->beta, FV_KIND_ROW);
    if (a->flags & FV_FLAG_GATED) {
        fv_use_value(s, FV_SCAN_GATE_Q, a->gate_q, FV_KIND_ROW);
        fv_use_value(s, FV_SCAN_GATE_K, a->gate_k, FV_KIND_ROW);
    }
    fv_use_value(s, FV_SCAN_STATE, a->state, FV_KIND_STATE);
    fv_use_value(s, FV_SCAN_OUT, out, FV_KIND_ROW);
}
