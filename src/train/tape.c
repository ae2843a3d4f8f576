/* tape.c: emits recomputed forward steps, gradients, and the sinks for gradients of weights. */
#include "train/tape.h"
#include "ops/contracts/product.h"
#include "ops/contracts/rows.h"
#include "train/ref/training.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"

const char *fv_tape_label(fv_tape *t, const fv_step *s, const char *what)
{
    snprintf(t->label, sizeof t->label, "%.*s, %s", (int)(37 - strlen(what)), s->label, what);
    return t->label;
}

/* ---- arrays ---- */

static bool grow(fv_tape *t, void *array, uint32_t used, uint32_t *capacity, uint32_t need,
                 uint64_t size)
{
    if (t->b->status == FOVEA_OK && need > *capacity)
        t->b->status = fv_mem_grow(array, used, capacity, need < 128 ? 256 : 2 * need, size,
                                   FV_MEM_PLAN, "the gradients' steps");
    return t->b->status == FOVEA_OK;
}

/* Grows value[] to the builder's number of values. Returns false after a failure. */
static bool keep_up(fv_tape *t)
{
    const bool ok =
        grow(t, &t->value, t->values, &t->value_capacity, t->b->graph->values, sizeof *t->value);
    for (; ok && t->values < t->b->graph->values; t->values++)
        t->value[t->values] = (fv_tape_value){.grad = FV_NO_VIEW,
                                              .current = (fv_id)t->values,
                                              .twin = FV_NO_VALUE,
                                              .state = FV_NO_VALUE};
    return ok;
}

static fv_view new_value(fv_tape *t, enum fv_value_kind kind, uint32_t rows, uint32_t cols,
                         enum fv_type type)
{
    const fv_view v = fv_emit_value(t->b, kind, rows, cols, type);
    return keep_up(t) ? v : FV_NO_VIEW;
}

fv_view fv_tape_rows(fv_tape *t, uint32_t rows, uint32_t cols)
{
    return new_value(t, FV_VALUE_ROWS, rows, cols, FV_F32);
}

/* ---- the forward list ---- */

/* Returns the number of columns that a step writes. */
static uint32_t width(const fv_builder *b, const fv_step *s)
{
    const uint32_t all = b->graph->value[s->use[s->out].view.id].cols;
    const uint32_t own = fv_problem_columns(&s->prob, s->out);
    return own < all ? own : all;
}

/* Gives every write its own value. Afterwards, a value is written by one step, or by several in
 * different columns. */
static void write_once(fv_tape *t, fv_step *s)
{
    fv_builder *b = t->b;
    for (uint32_t o = 0; o < FV_OPERANDS; o++)
        if (o != s->out && s->use[o].view.id >= 0)
            s->use[o].view.id = t->value[s->use[o].view.id].current;
    fv_view *out = &s->use[s->out].view;
    const fv_id was = out->id;
    out->id = t->value[was].current;
    const fv_value v = b->graph->value[out->id];
    if (t->value[out->id].written && width(b, s) == v.cols) {
        const fv_view next = new_value(t, v.kind, v.rows, v.cols, v.type);
        if (next.id < 0)
            return;
        t->value[was].current = out->id = next.id;
    }
    t->value[out->id].written = true;
}

/* Determines whether a trained weight needs the gradient of the step's output. */
static void find_need(fv_tape *t, const fv_step *s)
{
    bool needs = false;
    for (uint32_t o = 0; o < FV_OPERANDS; o++) {
        const fv_use *u = &s->use[o];
        if (fv_weight_present(&u->weight))
            needs |= fv_masters_want(t->masters, &u->weight);
        else if (o != s->out && u->view.id >= 0)
            needs |= t->value[u->view.id].needs;
    }
    t->value[s->use[s->out].view.id].needs |= needs;
}

fovea_status fv_tape_begin(fv_tape *t, fv_builder *b, const fv_masters *masters)
{
    FV_TRY(b->status);
    *t = (fv_tape){.b = b, .masters = masters, .step = b->graph->step, .steps = b->graph->steps};
    b->graph->step = NULL;
    b->graph->steps = b->graph->step_capacity = 0;
    if (!keep_up(t))
        return b->status;
    for (uint32_t i = 0; i < t->steps && b->status == FOVEA_OK; i++) {
        write_once(t, &t->step[i]);
        if (b->status == FOVEA_OK)
            find_need(t, &t->step[i]);
    }
    return b->status;
}

void fv_tape_end(fv_tape *t)
{
    fv_mem_free(t->step);
    fv_mem_free(t->value);
    fv_mem_free(t->sink);
}

fv_id fv_tape_last(const fv_tape *t, fv_id id)
{
    return t->value[id].current;
}

/* ---- recomputed steps ---- */

fv_view fv_tape_now(const fv_tape *t, fv_view v)
{
    if (v.id >= 0 && t->value[v.id].twin >= 0)
        v.id = t->value[v.id].twin;
    return v;
}

bool fv_tape_needs(const fv_tape *t, fv_view v)
{
    return v.id >= 0 && t->value[v.id].needs;
}

/* Makes a new value for the output of a recomputed forward step, and records it as twin. */
static fv_view make_twin(fv_tape *t, fv_view out)
{
    if (t->value[out.id].twin < 0) {
        const fv_value v = t->b->graph->value[out.id];
        const fv_view again = new_value(t, v.kind, v.rows, v.cols, v.type);
        if (again.id < 0)
            return FV_NO_VIEW;
        t->value[again.id].needs = t->value[out.id].needs;
        t->value[out.id].twin = again.id;
    }
    return fv_tape_now(t, out);
}

static void copy(fv_tape *t, const fv_step *s, bool again)
{
    const fv_view out =
        again ? make_twin(t, s->use[s->out].view) : fv_tape_now(t, s->use[s->out].view);
    fv_step *c = fv_emit_step(t->b, s->prob.op, s->prob.dim[FV_DIM_ROWS], s->label);
    *c = *s;
    for (uint32_t o = 0; o < FV_OPERANDS; o++)
        c->use[o].view = fv_tape_now(t, s->use[o].view);
    c->use[c->out].view = out;
}

/* Returns true if the same norm of the same rows was already emitted in this segment, because the
 * norm for keys and values also serves the queries. */
static bool same_norm(fv_tape *t, const fv_step *s, uint32_t first)
{
    const fv_view in = fv_tape_now(t, s->use[FV_LN_IN].view);
    for (uint32_t i = first; i < t->b->graph->steps; i++) {
        const fv_step *c = &t->b->graph->step[i];
        const fv_view was = c->use[FV_LN_IN].view;
        if (c->prob.op != FV_OP_LAYERNORM || was.id != in.id || was.col != in.col ||
            c->use[FV_LN_OUT].view.col != 0 || s->use[FV_LN_OUT].view.col != 0 ||
            c->prob.dim[FV_DIM_ROWS] != s->prob.dim[FV_DIM_ROWS] ||
            !fv_weight_same(&c->use[FV_LN_WEIGHT].weight, &s->use[FV_LN_WEIGHT].weight))
            continue;
        t->value[s->use[FV_LN_OUT].view.id].twin = c->use[FV_LN_OUT].view.id;
        return true;
    }
    return false;
}

/* Emits scale and residual of a product as a separate step. */
static void add_step(fv_tape *t, const fv_step *s, fv_view in, fv_view out)
{
    fv_step *c = fv_emit_row_step(t->b, FV_OP_ADD, s->label, in, FV_KIND_ROW, out,
                                  s->prob.dim[FV_DIM_ROWS], s->prob.dim[FV_GEMM_N]);
    c->checkpoint_segment = s->checkpoint_segment;
    if (s->prob.epi & FV_EPI_SCALE)
        fv_use_weight(c, FV_ADD_SCALE, &s->use[FV_GEMM_SCALE].weight);
    if (s->prob.epi & FV_EPI_RESIDUAL)
        fv_use_value(c, FV_ADD_RES, fv_tape_now(t, s->use[FV_GEMM_RES].view), FV_KIND_ROW);
}

/* Splits a product or convolution whose gradient needs intermediate results into separate steps:
 * product, activation, scale and residual. */
static void split_product(fv_tape *t, const fv_step *s)
{
    const uint32_t rows = s->prob.dim[FV_DIM_ROWS], n = s->prob.dim[FV_GEMM_N];
    const uint32_t act = s->prob.epi & (FV_EPI_ACT | FV_EPI_SWIGLU);
    const uint32_t behind = s->prob.epi & (FV_EPI_SCALE | FV_EPI_RESIDUAL);
    const uint32_t wide = act & FV_EPI_SWIGLU ? 2 * n : n;
    const fv_view out = make_twin(t, s->use[s->out].view);
    const fv_view inner = fv_tape_rows(t, rows, wide);
    const fv_view middle = act && behind ? fv_tape_rows(t, rows, n) : act ? out : inner;
    fv_step *c = fv_emit_step(t->b, FV_OP_GEMM, rows, s->label);
    if (t->b->status != FOVEA_OK)
        return;
    *c = *s;
    c->prob.epi = s->prob.epi & FV_EPI_BIAS;
    c->prob.dim[FV_GEMM_N] = wide;
    c->use[FV_GEMM_SCALE] = c->use[FV_GEMM_RES] = (fv_use){.view = FV_NO_VIEW};
    c->use[FV_GEMM_A].view = fv_tape_now(t, s->use[FV_GEMM_A].view);
    c->use[FV_GEMM_OUT].view = inner;
    t->value[inner.id].needs = t->value[middle.id].needs = true;
    if (act) {
        c = fv_emit_row_step(t->b, FV_OP_ACT, s->label, inner, FV_KIND_ROW, middle, rows, n);
        c->checkpoint_segment = s->checkpoint_segment;
        c->prob.epi = act;
    }
    if (behind)
        add_step(t, s, middle, out);
}

/* Splits the activation from a group normalisation, as split_product does from a product. */
static void split_norm(fv_tape *t, const fv_step *s)
{
    const uint32_t rows = s->prob.dim[FV_DIM_ROWS], n = s->prob.dim[FV_ROW_C];
    const fv_view out = make_twin(t, s->use[s->out].view), inner = fv_tape_rows(t, rows, n);
    fv_step *c = fv_emit_step(t->b, FV_OP_GROUPNORM, rows, s->label);
    if (t->b->status != FOVEA_OK)
        return;
    *c = *s;
    c->prob.epi = 0;
    for (uint32_t o = 0; o < FV_OPERANDS; o++)
        c->use[o].view = fv_tape_now(t, s->use[o].view);
    c->use[c->out].view = inner;
    t->value[inner.id].needs = true;
    c = fv_emit_row_step(t->b, FV_OP_ACT, s->label, inner, FV_KIND_ROW, out, rows, n);
    c->checkpoint_segment = s->checkpoint_segment;
    c->prob.epi = s->prob.epi;
}

static void recompute_segment(fv_tape *t, uint32_t segment)
{
    const uint32_t first = t->b->graph->steps;
    for (uint32_t i = 0; i < t->steps && t->b->status == FOVEA_OK; i++) {
        const fv_step *s = &t->step[i];
        if (s->checkpoint_segment != segment ||
            (s->prob.op == FV_OP_LAYERNORM && same_norm(t, s, first)))
            continue;
        const bool inside = s->prob.epi & (FV_EPI_ACT | FV_EPI_SWIGLU | FV_EPI_SCALE) &&
                            fv_tape_needs(t, s->use[s->out].view);
        if ((s->prob.op == FV_OP_GEMM || s->prob.op == FV_OP_CONV) && inside)
            split_product(t, s);
        else if (s->prob.op == FV_OP_GROUPNORM && inside)
            split_norm(t, s);
        else
            copy(t, s, true);
    }
}

void fv_tape_forward(fv_tape *t, uint32_t segment)
{
    if (segment >= t->keep_from) {
        recompute_segment(t, segment);
        return;
    }
    for (uint32_t i = 0; i < t->steps && t->b->status == FOVEA_OK; i++)
        if (t->step[i].checkpoint_segment == segment)
            copy(t, &t->step[i], false);
}

/* ---- gradients ---- */

fv_view fv_tape_gradient(const fv_tape *t, fv_view v)
{
    if (v.id < 0 || t->value[v.id].grad.id < 0)
        return FV_NO_VIEW;
    const fv_view g = t->value[v.id].grad;
    return (fv_view){g.id, g.col + v.col};
}

static bool whole(const fv_tape *t, fv_view v, uint32_t cols)
{
    return v.col == 0 && t->b->graph->value[v.id].cols == cols;
}

void fv_tape_add(fv_tape *t, fv_view v, uint32_t cols, fv_view *res, fv_view *out)
{
    const fv_value value = t->b->graph->value[v.id];
    *res = fv_tape_gradient(t, v);
    *out = *res;
    if (res->id >= 0 && t->value[v.id].own)
        return; /* the step adds in place */
    const fv_view fresh = fv_tape_rows(t, value.rows, value.cols);
    if (fresh.id < 0)
        return;
    if (!whole(t, v, cols)) {
        /* The other columns keep their gradients. These exist for a value that is read column by
         * column, because the last reader in the list reads all columns. */
        assert(res->id >= 0);
        fv_emit_copy(t->b, "gradient", fv_tape_gradient(t, (fv_view){v.id, 0}), fresh, value.rows,
                     value.cols);
    }
    t->value[v.id].grad = fresh;
    t->value[v.id].own = true;
    *out = (fv_view){fresh.id, v.col};
    if (!whole(t, v, cols))
        *res = *out;
}

void fv_tape_pass(fv_tape *t, fv_view v, fv_view rows)
{
    if (!fv_tape_needs(t, v))
        return;
    const fv_value value = t->b->graph->value[v.id];
    assert(v.col == 0);
    if (fv_tape_gradient(t, v).id < 0) {
        t->value[v.id].grad = rows;
        t->value[v.id].own = false;
        return;
    }
    fv_view res, out;
    fv_tape_add(t, v, value.cols, &res, &out);
    fv_step *s = fv_emit_row_step(t->b, FV_OP_ADD, "sum of gradients", rows, FV_KIND_ROW, out,
                                  value.rows, value.cols);
    fv_use_value(s, FV_ADD_RES, res, FV_KIND_ROW);
}

static void run_rules(fv_tape *t, uint32_t first, uint32_t end)
{
    for (uint32_t i = end; i-- > first && t->b->status == FOVEA_OK;) {
        const fv_step s =
            /* a copy, because the array is reallocated when steps are added */
            t->b->graph->step[i];
        const fv_view out = s.use[s.out].view;
        if (!fv_tape_needs(t, out) || fv_tape_gradient(t, out).id < 0)
            continue;
        fv_tape_rule *rule = fv_tape_rules[s.prob.op];
        if (rule)
            rule(t, &s);
        else
            t->b->status =
                fv_fail(FOVEA_ENOTSUP, "%s: %s has no gradient", s.label, fv_op_names[s.prob.op]);
    }
}

/* Finds the steps of a segment that is not recomputed. */
static bool find_segment(const fv_tape *t, uint32_t segment, uint32_t *first, uint32_t *end)
{
    *first = *end = 0;
    for (uint32_t i = t->b->graph->steps; i-- > 0;)
        if (t->b->graph->step[i].checkpoint_segment == segment) {
            *end = *end ? *end : i + 1;
            *first = i;
        }
    return *end != 0;
}

void fv_tape_backward(fv_tape *t, uint32_t segment)
{
    uint32_t first = t->b->graph->steps, end;
    bool any = false;
    for (uint32_t i = 0; i < t->steps; i++)
        any |= t->step[i].checkpoint_segment == segment &&
               fv_tape_needs(t, t->step[i].use[t->step[i].out].view);
    if (!any || t->b->status != FOVEA_OK)
        return;
    t->b->checkpoint_segment = FV_TAPE_GRADIENTS;
    if (segment < t->keep_from) {
        recompute_segment(t, segment);
        end = t->b->graph->steps;
        for (uint32_t i = first; i < end; i++)
            t->b->graph->step[i].checkpoint_segment = FV_TAPE_AGAIN;
    } else if (!find_segment(t, segment, &first, &end)) {
        return;
    }
    /* Passes the gradients that later segments have computed to the recomputed values. */
    for (uint32_t i = 0; i < t->steps && t->b->status == FOVEA_OK; i++) {
        const fv_view out = t->step[i].use[t->step[i].out].view;
        if (t->step[i].checkpoint_segment != segment || t->value[out.id].twin < 0)
            continue;
        fv_tape_value *from = &t->value[out.id], *to = &t->value[from->twin];
        if (from->grad.id >= 0 && to->grad.id < 0) {
            to->grad = from->grad;
            to->own = from->own;
        }
    }
    run_rules(t, first, end);
}

/* ---- weights ---- */

static fv_sink *new_sink(fv_tape *t, uint32_t rows, uint32_t cols)
{
    if (!grow(t, &t->sink, t->sinks, &t->sink_capacity, t->sinks + 1, sizeof *t->sink))
        return NULL;
    const fv_view v = new_value(t, FV_VALUE_OUTPUT, rows, cols, FV_F32);
    fv_sink *s = &t->sink[t->sinks];
    *s = (fv_sink){.value = v.id};
    if (v.id < 0)
        return NULL;
    t->sinks++;
    return s;
}

static fv_master *trained(const fv_tape *t, const fv_weight_part *p)
{
    fv_master *m = fv_masters_of(t->masters, p->tensor);
    return m && m->wanted ? m : NULL;
}

/* Returns whether the weight's trained tensors have the weight's own layout, so that its gradients
 * need no scatter. */
static bool direct(const fv_tape *t, const fv_weight *w)
{
    for (uint32_t i = 0; i < w->parts; i++) {
        const fv_weight_part *p = &w->part[i];
        if (!trained(t, p))
            continue;
        if (p->col_stride != 1 || p->factor != 1 || p->taps > 1 || p->mirrored || p->row_scale ||
            p->paired_rows || p->paired_cols || p->diagonal ||
            (w->rows > 1 && (p->col0 != 0 || p->cols != w->cols || p->row_stride != p->cols)))
            return false;
    }
    return true;
}

static fv_view into_tensor(fv_tape *t, const fv_weight_part *p)
{
    fv_master *m = trained(t, p);
    fv_sink *s = new_sink(t, p->rows, p->cols);
    if (!s)
        return FV_NO_VIEW;
    m->trained = true;
    s->direct = m;
    s->offset = p->offset;
    return (fv_view){s->value, 0};
}

static void add_part(fv_tape *t, fv_sink *s, const fv_weight *w, uint32_t row0)
{
    if (!w || !fv_masters_want(t->masters, w))
        return;
    for (uint32_t i = 0; i < w->parts; i++) {
        fv_master *m = trained(t, &w->part[i]);
        if (m)
            m->trained = true;
    }
    s->part[s->parts].weight = *w;
    s->part[s->parts++].row0 = row0;
}

fv_view fv_tape_gather(fv_tape *t, const fv_weight *first, const fv_weight *second)
{
    fv_sink *s = new_sink(t, first->rows + (second ? second->rows : 0),
                          first->rows ? first->cols : second->cols);
    if (!s)
        return FV_NO_VIEW;
    add_part(t, s, first, 0);
    add_part(t, s, second, first->rows);
    return (fv_view){s->value, 0};
}

static fv_step *product(fv_tape *t, const char *label, fv_view dout, fv_view in, fv_view out,
                        uint32_t m, uint32_t k, uint32_t tokens, enum fv_type type)
{
    fv_step *s = fv_emit_step(t->b, FV_OP_GEMM_GRAD_W, m, label);
    s->prob.in = (uint8_t)type;
    s->prob.dim[FV_GEMM_N] = k;
    s->prob.dim[FV_GEMM_K] = tokens;
    s->prob.flags = FV_FLAG_ACCUMULATE;
    fv_use_value(s, FV_GRAD_W_DOUT, dout, FV_KIND_WHOLE);
    fv_use_value(s, FV_GRAD_W_IN, in, FV_KIND_WHOLE);
    fv_use_value(s, FV_GRAD_W_OUT, out, FV_KIND_ROW);
    return s;
}

void fv_tape_product(fv_tape *t, const char *label, const fv_weight *w, fv_view dout, fv_view in,
                     uint32_t tokens, enum fv_type type)
{
    if (!fv_masters_want(t->masters, w))
        return;
    if (!direct(t, w)) {
        product(t, label, dout, in, fv_tape_gather(t, w, NULL), w->rows, w->cols, tokens, type);
        return;
    }
    for (uint32_t i = 0; i < w->parts; i++) {
        const fv_weight_part *p = &w->part[i];
        if (trained(t, p))
            product(t, label, fv_view_cols(dout, p->row0), in, into_tensor(t, p), p->rows, p->cols,
                    tokens, type);
    }
}

fv_step *fv_tape_product_into(fv_tape *t, const char *label, uint32_t m, uint32_t k, fv_view dout,
                              fv_view in, uint32_t tokens, fv_view out)
{
    return product(t, label, dout, in, out, m, k, tokens, FV_F32);
}

static void sums(fv_tape *t, const char *label, fv_view a, fv_view b, fv_view out, uint32_t cols,
                 uint32_t tokens)
{
    fv_step *s = fv_emit_row_step(t->b, FV_OP_SUM_ROWS, label, a, FV_KIND_WHOLE, out, 1, cols);
    s->prob.dim[FV_GRAD_TOKENS] = tokens;
    s->prob.flags = FV_FLAG_ACCUMULATE;
    fv_use_value(s, FV_SUM_B, b, FV_KIND_WHOLE);
}

void fv_tape_sums(fv_tape *t, const char *label, const fv_weight *w, fv_view a, fv_view b,
                  uint32_t tokens)
{
    if (!fv_weight_present(w) || !fv_masters_want(t->masters, w))
        return;
    if (!direct(t, w)) {
        sums(t, label, a, b, fv_tape_gather(t, w, NULL), w->cols, tokens);
        return;
    }
    for (uint32_t i = 0; i < w->parts; i++) {
        const fv_weight_part *p = &w->part[i];
        const fv_view of_b = b.id >= 0 ? fv_view_cols(b, p->col0) : b;
        if (trained(t, p))
            sums(t, label, fv_view_cols(a, p->col0), of_b, into_tensor(t, p), p->cols, tokens);
    }
}
