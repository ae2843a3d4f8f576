/* cut.c: cuts the list of steps into sweeps: a sweep ends before a step that needs all rows of a
 * value that the sweep writes. */
#include <assert.h>

#include "base/mem.h"
#include "base/num.h"
#include "plan/band.h"
#include "plan/halo.h"
#include "plan/plan.h"

/* Returns whether the step needs a sweep of its own, with a barrier before and after it. */
static bool alone(const fv_step *s)
{
    return fv_step_span(s) == FV_SPAN_ALL || fv_step_span(s) == FV_SPAN_SCAN;
}

/* Makes a sweep of the steps [first, end), or of fewer if the halo of row tiles requires a cut.
 * Returns where it ends. */
static uint32_t close_sweep(fv_cut *c, uint32_t first, uint32_t end)
{
    end = fv_halo_assign(c, first, end);
    fv_plan_sweep *w = &c->sweep[c->sweeps];
    *w = (fv_plan_sweep){.first = first, .align = 1};
    for (uint32_t i = first; i < end; i++) {
        const fv_step *s = &c->graph->step[i];
        if (s->dead)
            continue;
        c->step[i].sweep = c->sweeps;
        const uint32_t width = fv_halo_width(c, first, i), unit = fv_halo_unit(c, first, i);
        w->width = width ? width : w->width;
        w->align = unit > w->align ? unit : w->align;
        w->reach = c->step[i].halo > w->reach ? c->step[i].halo : w->reach;
        w->alone |= alone(s);
        w->rows = s->prob.dim[FV_DIM_ROWS];
        w->reduces |= fv_step_span(s) == FV_SPAN_REDUCE;
        w->count = i + 1 - first;
    }
    if (w->count)
        c->sweeps++;
    return end;
}

/* Makes the best banded sweep that begins with step `first`, if there is one. Sets *end to where
 * the sweep ends, or to `first` if there is no such sweep. */
static fovea_status close_banded(fv_cut *c, const fv_cut_request *r, uint32_t first, uint32_t *end)
{
    uint32_t bands = 0;
    *end = r->bands ? fv_band_end(c, first, r->threads, &bands) : first;
    if (*end == first)
        return FOVEA_OK;
    fv_plan_sweep *w = &c->sweep[c->sweeps];
    *w = (fv_plan_sweep){.first = first, .count = *end - first, .align = 1, .bands = bands};
    FV_TRY(FV_MEM_ARRAY(&w->band, (uint64_t)w->count * bands, FV_MEM_PLAN, "the plan's bands"));
    for (uint32_t i = first; i < *end; i++)
        c->step[i] = (fv_step_cut){.sweep = c->sweeps};
    w->rows = c->graph->step[*end - 1].prob.dim[FV_DIM_ROWS];
    fv_band_rows(c, w);
    c->sweeps++;
    return FOVEA_OK;
}

/* Returns whether step i cannot be in the sweep that begins with step `first`. If it cannot, sets
 * *cut to where to cut. */
static bool must_cut(const fv_cut *c, uint32_t first, uint32_t i, uint32_t *cut)
{
    const fv_step *s = &c->graph->step[i];
    bool closed = false, other_rows = false;
    int64_t last_write = -1;
    for (uint32_t j = first; j < i; j++) {
        const fv_step *t = &c->graph->step[j];
        if (t->dead)
            continue;
        closed |= alone(t) || fv_op_table[t->prob.op]->block_lines ||
                  (fv_step_span(t) == FV_SPAN_REDUCE && fv_step_span(s) != FV_SPAN_REDUCE);
        other_rows |= t->prob.dim[FV_DIM_ROWS] != s->prob.dim[FV_DIM_ROWS];
        for (uint32_t k = 0; k < FV_OPERANDS; k++)
            if (fv_reads_finished(&s->use[k]) && s->use[k].view.id == t->use[t->out].view.id)
                last_write = j;
    }
    *cut = i;
    if (closed || other_rows || alone(s) || !fv_halo_fits(c, first, i))
        return true;
    if (last_write < 0)
        return false;
    /* Step i needs all rows of a value that the sweep writes: cut between the writer and step i. */
    *cut = fv_sweep_best_cut(c, (uint32_t)last_write, i);
    return true;
}

/* Returns the last possible end of a sweep of chunks or row tiles that begins with step `first`. */
static uint32_t next_cut(const fv_cut *c, const fv_cut_request *r, uint32_t first)
{
    for (uint32_t i = first + 1; i < c->graph->steps; i++) {
        uint32_t cut;
        if (!c->graph->step[i].dead && must_cut(c, first, i, &cut))
            return r->bands ? fv_band_begin(c, first, cut) : cut;
    }
    return c->graph->steps;
}

/* Finds the first and the last step that use each value. */
static void find_lives(fv_cut *c)
{
    for (uint32_t i = 0; i < c->graph->values; i++)
        c->life[i].first_step = UINT32_MAX;
    for (uint32_t i = 0; i < c->graph->steps; i++) {
        const fv_step *s = &c->graph->step[i];
        for (uint32_t k = 0; !s->dead && k < FV_OPERANDS; k++) {
            if (s->use[k].view.id < 0)
                continue;
            fv_value_life *l = &c->life[s->use[k].view.id];
            if (l->first_step == UINT32_MAX)
                l->first_step = i;
            l->last_step = i;
        }
    }
}

fovea_status fv_cut_make(fv_cut *c, const fv_graph *g, const fv_cut_request *r)
{
    *c = (fv_cut){.graph = g};
    FV_TRY(FV_MEM_ARRAY(&c->step, g->steps, FV_MEM_PLAN, "the plan's sweeps"));
    FV_TRY(FV_MEM_ARRAY(&c->life, g->values, FV_MEM_PLAN, "the plan's sweeps"));
    FV_TRY(FV_MEM_ARRAY(&c->sweep, (uint64_t)g->steps + 1, FV_MEM_PLAN, "the plan's sweeps"));
    find_lives(c);
    for (uint32_t first = 0, end; first < g->steps; first = end) {
        end = first + 1;
        if (g->step[first].dead)
            continue;
        FV_TRY(close_banded(c, r, first, &end));
        if (end == first)
            end = close_sweep(c, first, next_cut(c, r, first));
    }
    for (uint32_t i = 0; i < g->values; i++) {
        fv_value_life *l = &c->life[i];
        if (l->first_step == UINT32_MAX)
            continue;
        l->first_sweep = c->step[l->first_step].sweep;
        l->last_sweep = c->step[l->last_step].sweep;
    }
    return FOVEA_OK;
}

void fv_cut_free(fv_cut *c)
{
    for (uint32_t i = 0; i < c->sweeps; i++)
        fv_mem_free(c->sweep[i].band);
    fv_mem_free(c->sweep);
    fv_mem_free(c->life);
    fv_mem_free(c->step);
    *c = (fv_cut){.sweeps = 0};
}
