/* attended.c: records which attention a block computes, for outputs with its queries. */
#include "graph/attended.h"

#include <string.h>

#include "base/mem.h"

/* Returns a copy of rows [first, first + rows) of w, or NULL if w is absent or memory runs out. */
static float *copy_rows(fv_builder *b, const fv_weight *w, uint32_t first, uint32_t rows)
{
    float *out = NULL;
    if (!fv_weight_present(w) || first + rows > w->rows)
        return NULL;
    FV_THEN(b->status, FV_MEM_ARRAY(&out, (uint64_t)rows * w->cols, FV_MEM_PLAN, "an attention"));
    if (b->status == FOVEA_OK)
        fv_weight_read(w, first, rows, out);
    return out;
}

static void copy_parameters(fv_builder *b, fv_attended *at)
{
    const fv_attention *a = &at->a;
    if (a->mech == FV_MECH_ANY)
        return;
    at->scale = copy_rows(b, &a->param, 0, 1);
    at->power = copy_rows(b, &a->param, 1, 1);
    if (!(a->flags & FV_FLAG_ROPE) || a->rope_width)
        return;
    at->cos = copy_rows(b, &a->cos, 0, a->cos.rows);
    at->sin = copy_rows(b, &a->sin, 0, a->sin.rows);
}

fv_attended *fv_attended_note(fv_builder *b, const char *name, const fv_attention_name *kind,
                              const fv_attention *a, uint32_t rows)
{
    for (uint32_t i = 0; i < b->graph->n_wanted && b->status == FOVEA_OK; i++) {
        fv_wanted *w = &b->graph->wanted[i];
        if (strcmp(w->name, name) != 0)
            continue;
        fv_attended_free(w->attended); /* made by an earlier attempt to make the plan */
        w->attended = NULL;
        FV_THEN(b->status, FV_MEM_NEW(&w->attended, FV_MEM_PLAN, "an attention"));
        if (b->status != FOVEA_OK)
            return NULL;
        w->attended->a = *a;
        w->attended->kind = kind->kind;
        w->attended->rows = rows;
        fv_attention_text(kind, w->attended->text);
        copy_parameters(b, w->attended);
        return w->attended;
    }
    return NULL;
}

void fv_attended_in_windows(fv_builder *b, fv_attended *at, uint32_t window, const uint32_t *row,
                            const uint32_t *region)
{
    at->window = window;
    at->row = row;
    at->region = region;
    if (at->a.mech == FV_MECH_ANY)
        at->bias = copy_rows(b, &at->a.param, 0, at->a.param.rows);
}

void fv_attended_free(fv_attended *at)
{
    if (!at)
        return;
    fv_mem_free(at->scale);
    fv_mem_free(at->power);
    fv_mem_free(at->cos);
    fv_mem_free(at->sin);
    fv_mem_free(at->bias);
    fv_mem_free(at);
}
