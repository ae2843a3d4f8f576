/* emit_boxes.c: emits steps of detectors: choosing the rows with the best scores, and attention to
 * a few samples. */
#include <math.h>

#include "graph/emit.h"
#include "ops/contracts/rows.h"
#include "ops/contracts/softmax_attention.h"
#include "ops/ref/ref_deform.h"

fv_view fv_emit_row_max(fv_builder *b, const char *label, fv_view in, uint32_t rows, uint32_t cols)
{
    const fv_view out = fv_emit_rows(b, rows, 1);
    fv_emit_row_step(b, FV_OP_ROW_MAX, label, in, FV_KIND_ROW, out, rows, cols);
    return out;
}

fv_view fv_emit_topk(fv_builder *b, const char *label, fv_view in, uint32_t from, uint32_t columns,
                     uint32_t k, const uint32_t *table, uint32_t count)
{
    const fv_view out = fv_emit_rows(b, k, 1);
    fv_step *s = fv_emit_step(b, FV_OP_TOPK, k, label);
    s->prob.dim[FV_TOPK_FROM] = from;
    s->prob.dim[FV_TOPK_COLUMNS] = columns;
    s->u[0] = table ? count : from * columns;
    s->u[1] = table != NULL;
    s->table = table;
    s->align = k; /* one call selects all k rows */
    fv_use_value(s, FV_TOPK_IN, in, FV_KIND_WHOLE);
    fv_use_value(s, FV_TOPK_OUT, out, FV_KIND_ROW);
    return out;
}

fv_view fv_emit_pick(fv_builder *b, const char *label, const fv_pick *p)
{
    const fv_view out = fv_emit_rows(b, p->rows, p->cols);
    fv_step *s = fv_emit_step(b, FV_OP_PICK, p->rows, label);
    s->prob.dim[FV_ROW_C] = p->cols;
    s->prob.dim[FV_PICK_FROM] = p->from;
    if (p->w)
        fv_use_weight(s, FV_PICK_IN, p->w);
    else
        fv_use_value(s, FV_PICK_IN, p->in, FV_KIND_WHOLE);
    fv_use_value(s, FV_PICK_INDEX, p->index, FV_KIND_ROW);
    fv_use_value(s, FV_PICK_OUT, out, FV_KIND_ROW);
    return out;
}

fv_view fv_emit_weight_rows(fv_builder *b, const char *label, const fv_weight *w, uint32_t rows)
{
    const fv_pick p = {.w = w,
                       .in = FV_NO_VIEW,
                       .index = FV_NO_VIEW,
                       .from = w->rows,
                       .rows = rows,
                       .cols = w->cols};
    return fv_emit_pick(b, label, &p);
}

fv_view fv_emit_sine(fv_builder *b, const char *label, fv_view in, uint32_t parts,
                     const fv_weight *rate, const fv_weight *phase, uint32_t rows)
{
    const fv_view out = fv_emit_rows(b, rows, parts * rate->cols);
    fv_step *s = fv_emit_row_step(b, FV_OP_SINE, label, in, FV_KIND_ROW, out, rows, rate->cols);
    s->prob.dim[FV_SINE_PARTS] = parts;
    s->u[0] = rate->rows == 2;
    fv_use_weight(s, FV_SINE_RATE, rate);
    fv_use_weight(s, FV_SINE_PHASE, phase);
    return out;
}

fv_view fv_emit_frequencies(fv_builder *b, const char *label, fv_view in, uint32_t parts,
                            uint32_t n, uint32_t rows)
{
    float *rate, *phase;
    const fv_weight rates = fv_emit_constant(b, 1, n, &rate);
    const fv_weight phases = fv_emit_constant(b, 1, n, &phase);
    for (uint32_t i = 0; b->status == FOVEA_OK && i < n; i++) {
        rate[i] = (float)pow(10000, -(double)(i / 2 * 2) / n);
        phase[i] = i % 2 ? 0.25f : 0.f;
    }
    return fv_emit_sine(b, label, in, parts, &rates, &phases, rows);
}

fv_view fv_emit_deform(fv_builder *b, const char *label, const fv_deform *d)
{
    const fv_view out = fv_emit_rows(b, d->rows, d->heads * d->d);
    uint32_t *const table = fv_emit_table(b, d->levels * 3);
    fv_step *s = fv_emit_step(b, FV_OP_DEFORM, d->rows, label);
    s->prob.heads = (uint16_t)d->heads;
    s->prob.flags = d->centres ? FV_FLAG_CENTRES : 0;
    s->prob.dim[FV_ATTN_D] = d->d;
    s->prob.dim[FV_DEFORM_POINTS] = d->points;
    s->prob.dim[FV_DEFORM_LEVELS] = d->levels;
    fv_deform_level *level = (fv_deform_level *)table;
    for (uint32_t i = 0; level && i < d->levels; i++) {
        const fv_grid *g = &d->level[i];
        level[i] = (fv_deform_level){g->width, g->height, s->prob.dim[FV_DEFORM_FROM]};
        s->prob.dim[FV_DEFORM_FROM] += g->width * g->height;
    }
    s->table = table;
    s->f[0] = d->centres ? 1.f : 0.5f / (float)d->points;
    fv_use_value(s, FV_DEFORM_VALUES, d->values, FV_KIND_WHOLE);
    fv_use_value(s, FV_DEFORM_BOX, d->box, FV_KIND_ROW);
    fv_use_value(s, FV_DEFORM_OFFSET, d->offset, FV_KIND_ROW);
    fv_use_value(s, FV_DEFORM_WEIGHT, d->weight, FV_KIND_ROW);
    fv_use_value(s, FV_DEFORM_OUT, out, FV_KIND_ROW);
    return out;
}

void fv_emit_refine(fv_builder *b, const char *label, fv_view box, fv_view delta, fv_view out,
                    uint32_t rows)
{
    fv_step *s = fv_emit_row_step(b, FV_OP_REFINE, label, box, FV_KIND_ROW, out, rows, 4);
    fv_use_value(s, FV_REFINE_DELTA, delta, FV_KIND_ROW);
}
