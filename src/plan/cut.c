/* cut.c: cuts the list of steps into sweeps: a sweep ends before a step that needs all rows of a
 * value that the sweep writes. */
#include <assert.h>

#include "base/mem.h"
#include "base/num.h"
#include "plan/band.h"
#include "plan/halo.h"
#include "plan/plan.h"

/* True if the step needs a sweep of its own, with a barrier before and after it. */
static bool alone(const fv_step *s)
{
    return fv_step_span(s) == FV_SPAN_ALL || fv_step_span(s) == FV_SPAN_SCAN;
}

/* Makes a sweep of the steps [first, end), or of fewer if row tiles with halo need a cut; returns
 * its end. */
static uint32_t close_sweep(fovea_plan *p, uint32_t first, uint32_t end)
{
    end = fv_halo_assign(&p->graph, first, end);
    fv_plan_sweep *w = &p->sweep[p->sweeps];
    *w = (fv_plan_sweep){.first = first, .align = 1};
    for (uint32_t i = first; i < end; i++) {
        fv_step *s = &p->graph.step[i];
        if (s->dead)
            continue;
        s->sweep = p->sweeps;
        const uint32_t width = fv_halo_width(&p->graph, first, i),
                       unit = fv_halo_unit(&p->graph, first, i);
        w->width = width ? width : w->width;
        w->align = unit > w->align ? unit : w->align;
        w->reach = s->ahead > w->reach ? s->ahead : w->reach;
        w->alone |= alone(s);
        w->rows = s->prob.dim[FV_DIM_ROWS];
        w->reduces |= fv_step_span(s) == FV_SPAN_REDUCE;
        w->count = i + 1 - first;
    }
    if (w->count)
        p->sweeps++;
    return end;
}

/* On throughput devices each step has all rows, and no chunks are in between; training keeps what
 * lies between. */
static bool has_bands(const fovea_plan *p)
{
    return !p->limits.throughput && !p->options.training;
}

/* Makes the best banded sweep that begins with step `first`, if there is one; *end: its end, else
 * `first`. */
static fovea_status close_banded(fovea_plan *p, uint32_t first, uint32_t *end)
{
    uint32_t bands = 0;
    *end = has_bands(p) ? fv_band_end(&p->graph, first, p->info.threads, &bands) : first;
    if (*end == first)
        return FOVEA_OK;
    fv_plan_sweep *w = &p->sweep[p->sweeps];
    *w = (fv_plan_sweep){.first = first, .count = *end - first, .align = 1, .bands = bands};
    FV_TRY(FV_MEM_ARRAY(&w->band, (uint64_t)w->count * bands, FV_MEM_PLAN, "the plan's bands"));
    for (uint32_t i = first; i < *end; i++) {
        p->graph.step[i].sweep = p->sweeps;
        p->graph.step[i].ahead = 0;
    }
    w->rows = p->graph.step[*end - 1].prob.dim[FV_DIM_ROWS];
    p->sweeps++;
    return FOVEA_OK;
}

/* Whether step i must not share a sweep with what runs from `first` on; *cut is where to cut. */
static bool must_cut(const fv_graph *g, uint32_t first, uint32_t i, uint32_t *cut)
{
    const fv_step *s = &g->step[i];
    bool closed = false, other_rows = false;
    int64_t last_write = -1;
    for (uint32_t j = first; j < i; j++) {
        const fv_step *t = &g->step[j];
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
    if (closed || other_rows || alone(s) || !fv_halo_fits(g, first, i))
        return true;
    if (last_write < 0)
        return false;
    /* Cut before a step that needs all rows of something that the sweep writes. */
    *cut = fv_sweep_best_cut(g, (uint32_t)last_write, i);
    return true;
}

/* Where a sweep of chunks or row tiles that begins with step `first` ends at the latest. */
static uint32_t next_cut(const fovea_plan *p, uint32_t first)
{
    for (uint32_t i = first + 1; i < p->graph.steps; i++) {
        uint32_t cut;
        if (!p->graph.step[i].dead && must_cut(&p->graph, first, i, &cut))
            return has_bands(p) ? fv_band_begin(&p->graph, first, cut) : cut;
    }
    return p->graph.steps;
}

/* First and last step that uses each value. */
static void live(fv_graph *g)
{
    for (uint32_t i = 0; i < g->values; i++) {
        g->value[i].first_step = UINT32_MAX;
        g->value[i].last_step = 0;
    }
    for (uint32_t i = 0; i < g->steps; i++) {
        const fv_step *s = &g->step[i];
        for (uint32_t k = 0; !s->dead && k < FV_OPERANDS; k++) {
            if (s->use[k].view.id < 0)
                continue;
            fv_value *v = &g->value[s->use[k].view.id];
            if (v->first_step == UINT32_MAX)
                v->first_step = i;
            v->last_step = i;
        }
    }
}

fovea_status fv_sweep_cut(fovea_plan *p)
{
    const fv_graph *g = &p->graph;
    FV_TRY(FV_MEM_ARRAY(&p->sweep, (uint64_t)g->steps + 1, FV_MEM_PLAN, "the plan's sweeps"));
    live(&p->graph);
    for (uint32_t first = 0, end; first < g->steps; first = end) {
        end = first + 1;
        if (g->step[first].dead)
            continue;
        FV_TRY(close_banded(p, first, &end));
        if (end == first)
            end = close_sweep(p, first, next_cut(p, first));
    }
    for (uint32_t i = 0; i < g->values; i++) {
        fv_value *v = &g->value[i];
        if (v->first_step == UINT32_MAX)
            continue;
        v->first_sweep = g->step[v->first_step].sweep;
        v->last_sweep = g->step[v->last_step].sweep;
    }
    return FOVEA_OK;
}
