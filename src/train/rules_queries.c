/* rules_queries.c: computes gradients of the operations of decoders of queries: products of two
 * activations, learned rows, deformable attention. */
#include "ops/contracts/product.h"
#include "ops/contracts/rows.h"
#include "train/ref/training.h"
#include "train/tape.h"

/* Returns `rows` rows of n columns transposed: the product of a unit matrix with them. */
static fv_view transposed(fv_tape *t, const char *label, fv_view x, uint32_t rows, uint32_t n)
{
    float *unit;
    const fv_weight w = fv_emit_constant(t->b, n, n, &unit);
    for (uint32_t i = 0; t->b->status == FOVEA_OK && i < n; i++)
        unit[(size_t)i * n + i] = 1.f;
    const fv_view out = fv_tape_rows(t, n, rows);
    fv_emit_matmul(t->b, label, fv_emit_weight_rows(t->b, label, &w, n), x, rows, n, out, n);
    return out;
}

/* out = a bt: da = dout b, db = doutt a. */
void fv_rule_matmul(fv_tape *t, const fv_step *s)
{
    const fv_view a = s->use[FV_MATMUL_A].view, b = s->use[FV_MATMUL_B].view;
    const fv_view dout = fv_tape_gradient(t, s->use[FV_MATMUL_OUT].view);
    const uint32_t rows = s->prob.dim[FV_DIM_ROWS], n = s->prob.dim[FV_GEMM_N];
    const uint32_t k = s->prob.dim[FV_GEMM_K];
    const char *label = fv_tape_label(t, s, "gradient");
    if (fv_tape_needs(t, a)) {
        const fv_view da = fv_tape_rows(t, rows, k);
        fv_emit_matmul(t->b, label, dout, transposed(t, label, b, n, k), k, n, da, rows);
        fv_tape_pass(t, a, da);
    }
    if (fv_tape_needs(t, b)) {
        const fv_view db = fv_tape_rows(t, n, k);
        fv_step *g = fv_tape_product_into(t, label, n, k, dout, a, rows, db);
        g->prob.flags = 0; /* the product is not added to an earlier one */
        fv_tape_pass(t, b, db);
    }
}

void fv_rule_pick(fv_tape *t, const fv_step *s)
{
    const fv_weight *w = &s->use[FV_PICK_IN].weight;
    if (s->use[FV_PICK_IN].view.id >= 0) {
        t->b->status = fv_fail(FOVEA_ENOTSUP,
                               "%s: rows that a step computed and another picks have no gradient; "
                               "train other tensors or another model",
                               s->label);
        return;
    }
    if (!fv_masters_want(t->masters, w))
        return;
    const fv_view dout = fv_tape_gradient(t, s->use[FV_PICK_OUT].view);
    fv_step *g = fv_emit_row_step(t->b, FV_OP_PICK_GRAD, fv_tape_label(t, s, "gradient"),
                                  s->use[FV_PICK_INDEX].view, FV_KIND_WHOLE,
                                  fv_tape_gather(t, w, NULL), w->rows, w->cols);
    g->prob.dim[FV_GRAD_TOKENS] = s->prob.dim[FV_DIM_ROWS];
    g->prob.flags = FV_FLAG_ACCUMULATE;
    fv_use_value(g, FV_PICK_GRAD_DOUT, dout, FV_KIND_WHOLE);
}

/* Copies what DEFORM and both of its gradients have in common. */
static void like(fv_step *g, const fv_step *s)
{
    g->prob.heads = s->prob.heads;
    g->prob.flags = s->prob.flags;
    for (int i = 1; i < FV_DIMS; i++)
        g->prob.dim[i] = s->prob.dim[i];
    g->f[0] = s->f[0];
    g->table = s->table;
}

/* Offsets and weights must be adjacent columns of one value. Boxes get no gradient. */
void fv_rule_deform(fv_tape *t, const fv_step *s)
{
    const fv_view values = s->use[FV_DEFORM_VALUES].view, where = s->use[FV_DEFORM_OFFSET].view;
    const fv_view weight = s->use[FV_DEFORM_WEIGHT].view;
    const fv_view dout = fv_tape_gradient(t, s->use[FV_DEFORM_OUT].view);
    const uint32_t rows = s->prob.dim[FV_DIM_ROWS], from = s->prob.dim[FV_DEFORM_FROM];
    const uint32_t d = s->prob.heads * s->prob.dim[FV_ATTN_D];
    const uint32_t samples =
        s->prob.heads * s->prob.dim[FV_DEFORM_LEVELS] * s->prob.dim[FV_DEFORM_POINTS];
    if (fv_tape_needs(t, s->use[FV_DEFORM_BOX].view) || weight.id != where.id || where.col != 0 ||
        weight.col != 2 * samples) {
        t->b->status = fv_fail(FOVEA_ENOTSUP,
                               "%s: deformable attention with learned boxes, or with separate "
                               "offsets and weights, has no gradient; train another model",
                               s->label);
        return;
    }
    const char *label = fv_tape_label(t, s, "gradient");
    if (fv_tape_needs(t, where)) {
        const fv_view out = fv_tape_rows(t, rows, 3 * samples);
        fv_step *g = fv_emit_step(t->b, FV_OP_DEFORM_GRAD, rows, label);
        like(g, s);
        fv_use_value(g, FV_DEFORM_GRAD_VALUES, values, FV_KIND_WHOLE);
        fv_use_value(g, FV_DEFORM_GRAD_BOX, s->use[FV_DEFORM_BOX].view, FV_KIND_ROW);
        fv_use_value(g, FV_DEFORM_GRAD_OFFSET, where, FV_KIND_ROW);
        fv_use_value(g, FV_DEFORM_GRAD_WEIGHT, weight, FV_KIND_ROW);
        fv_use_value(g, FV_DEFORM_GRAD_DOUT, dout, FV_KIND_ROW);
        fv_use_value(g, FV_DEFORM_GRAD_OUT, out, FV_KIND_ROW);
        fv_tape_pass(t, where, out);
    }
    if (!fv_tape_needs(t, values))
        return;
    const fv_view out = fv_tape_rows(t, from, d);
    fv_step *g = fv_emit_step(t->b, FV_OP_DEFORM_GRAD_VALUES, from, label);
    like(g, s);
    g->prob.dim[FV_DEFORM_QUERIES] = rows;
    fv_use_value(g, FV_VALUES_GRAD_BOX, s->use[FV_DEFORM_BOX].view, FV_KIND_WHOLE);
    fv_use_value(g, FV_VALUES_GRAD_OFFSET, where, FV_KIND_WHOLE);
    fv_use_value(g, FV_VALUES_GRAD_WEIGHT, weight, FV_KIND_WHOLE);
    fv_use_value(g, FV_VALUES_GRAD_DOUT, dout, FV_KIND_WHOLE);
    fv_use_value(g, FV_VALUES_GRAD_OUT, out, FV_KIND_ROW);
    fv_tape_pass(t, values, out);
}
