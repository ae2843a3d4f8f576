/* emit_regions.c: emits steps of detectors with regions: proposals, their features, their masks. */
#include <math.h>

#include "graph/emit.h"
#include "ops/contracts/regions.h"
#include "ops/contracts/rows.h"
#include "ops/ref/ref_regions.h"

/* ---- tables ---- */

static fv_region_coder *make_coder(fv_builder *b, const fv_region_scores *k)
{
    const uint32_t anchors = k->anchor ? k->columns : 0;
    fv_region_coder *t = (fv_region_coder *)(void *)fv_emit_table(
        b, (uint32_t)(sizeof *t / sizeof(uint32_t)) + 4 * anchors);
    if (!t)
        return NULL;
    memcpy(t->mean, k->mean, sizeof t->mean);
    memcpy(t->std, k->std, sizeof t->std);
    t->stride = k->stride;
    if (anchors)
        memcpy(t->anchor, k->anchor, anchors * sizeof *t->anchor);
    return t;
}

/* mmdetection assigns a region to level l if the root of its area is at least 2^l times the scale,
 * except for an epsilon. */
static fv_roi_level *make_levels(fv_builder *b, const fv_roi_align *r)
{
    fv_roi_level *t = (fv_roi_level *)(void *)fv_emit_table(
        b, r->levels * (uint32_t)(sizeof *t / sizeof(uint32_t)));
    for (uint32_t l = 0; t && l < r->levels; l++)
        t[l] = (fv_roi_level){r->grid[l].width, r->grid[l].height, 1.f / r->stride[l],
                              (float)pow((exp2(l) - 1e-6) * (double)r->finest_scale, 2)};
    return t;
}

/* ---- steps ---- */

fv_view fv_emit_candidates(fv_builder *b, const char *label, const fv_region_scores *k)
{
    const fv_view out = fv_emit_rows(b, k->rows, FV_REGION_COLUMNS);
    const fv_region_coder *table = make_coder(b, k);
    fv_step *s = fv_emit_step(b, FV_OP_CANDIDATES, k->rows, label);
    s->prob.flags = k->largest ? FV_FLAG_LARGEST : 0;
    s->prob.dim[FV_ROW_C] = k->columns;
    s->prob.dim[FV_CANDIDATES_FROM] = k->from;
    s->prob.dim[FV_CANDIDATES_DELTAS] = k->deltas;
    s->table = table;
    s->u[0] = k->anchor ? k->width : 0;
    s->u[1] = k->of_class;
    s->f[0] = k->size[0];
    s->f[1] = k->size[1];
    s->f[2] = k->score;
    s->f[3] = k->side;
    fv_use_value(s, FV_CANDIDATES_INDEX, k->index, FV_KIND_ROW);
    fv_use_value(s, FV_CANDIDATES_SCORE, k->scores, FV_KIND_WHOLE);
    fv_use_value(s, FV_CANDIDATES_DELTA, k->delta, FV_KIND_WHOLE);
    fv_use_value(s, FV_CANDIDATES_REGION, k->region, FV_KIND_WHOLE);
    fv_use_value(s, FV_CANDIDATES_OUT, out, FV_KIND_ROW);
    return out;
}

fv_view fv_emit_suppress(fv_builder *b, const char *label, fv_view in, uint32_t from, uint32_t most,
                         float threshold)
{
    const fv_view out = fv_emit_rows(b, most, FV_REGION_COLUMNS);
    fv_step *s = fv_emit_step(b, FV_OP_SUPPRESS, most, label);
    s->prob.dim[FV_SUPPRESS_FROM] = from;
    s->align = most; /* one call finds all of them */
    s->f[0] = threshold;
    fv_use_value(s, FV_SUPPRESS_IN, in, FV_KIND_WHOLE);
    fv_use_value(s, FV_SUPPRESS_OUT, out, FV_KIND_ROW);
    return out;
}

fv_view fv_emit_roi_align(fv_builder *b, const char *label, const fv_roi_align *r)
{
    const uint32_t rows = r->regions * r->size * r->size;
    const fv_view out = fv_emit_rows(b, rows, r->channels);
    const fv_roi_level *table = make_levels(b, r);
    fv_step *s = fv_emit_step(b, FV_OP_ROI_ALIGN, rows, label);
    s->prob.dim[FV_ROW_C] = r->channels;
    s->prob.dim[FV_ROI_SIZE] = r->size;
    s->prob.dim[FV_ROI_REGIONS] = r->regions;
    s->prob.dim[FV_ROI_COUNT] = r->levels;
    s->table = table;
    fv_use_value(s, FV_ROI_REGION, r->region, FV_KIND_WHOLE);
    for (uint32_t l = 0; l < r->levels; l++)
        fv_use_value(s, FV_ROI_LEVEL + l, r->level[l], FV_KIND_WHOLE);
    fv_use_value(s, FV_ROI_OUT, out, FV_KIND_ROW);
    return out;
}

void fv_emit_class_mask(fv_builder *b, const char *label, const fv_class_mask *m)
{
    const uint32_t rows = m->regions * m->cells;
    fv_step *s =
        fv_emit_row_step(b, FV_OP_CLASS_MASK, label, m->in, FV_KIND_ROW, m->out, rows, m->classes);
    s->prob.dim[FV_CLASS_MASK_CELLS] = m->cells;
    s->prob.dim[FV_CLASS_MASK_REGIONS] = m->regions;
    s->f[0] = m->factor;
    fv_use_value(s, FV_CLASS_MASK_REGION, m->region, FV_KIND_WHOLE);
    fv_use_value(s, FV_CLASS_MASK_RES, m->res, FV_KIND_ROW);
}
