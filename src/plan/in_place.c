/* in_place.c: values that take the place of one that their sweep reads for the last time.
 *
 * A block of a hierarchical model reads its residual stream with a halo, and writes it without: two
 * values, each of all tokens. But a unit of a streamed sweep reads a row for the last time before
 * it writes that row of the new value, so that both can have one place. Only rows at the ends of a
 * unit are read by its neighbours too, who may be behind. Before the sweep begins, every unit saves
 * its own:
 *
 *     own rows of unit 0                | own rows of unit 1
 *     |####|......................|####|####|..........................|####|
 *       head                        tail  head                           tail
 *                                    |     '-- unit 0 reads the saved copy
 *                                    '-- unit 1 reads the saved copy
 */
#include "device/sweep_calls.h"
#include "plan/plan.h"

/* Whether operand o of step s may be what the step writes. */
static bool may_be_out(const fv_step *s, uint32_t o)
{
    return fv_op_table[s->prob.op]->operand[o].in_place;
}

/* A value of all rows that the plan itself keeps. */
static bool kept_whole(const fv_value *v)
{
    return v->kind == FV_VALUE_ROWS && !v->staging && v->first_step != UINT32_MAX;
}

/* Whether step i reads no row of x after that row of y is written; *ahead: at least the grid rows
 * by which it is before its tile. */
static bool reads_in_time(const fv_graph *g, uint32_t i, fv_id x, fv_id y, uint32_t *ahead)
{
    const fv_step *s = &g->step[i];
    for (uint32_t o = 0; !s->dead && o < FV_OPERANDS; o++) {
        const fv_use *u = &s->use[o];
        if (u->view.id == y && (u->kind != FV_KIND_ROW || s->ahead > 0))
            return false;
        if (u->view.id != x)
            continue;
        const uint32_t written = g->value[y].first_step;
        if (u->kind != FV_KIND_ROW || o == s->out || u->view.col > 0 || i > written ||
            (i == written && !may_be_out(s, o)))
            return false;
        *ahead = s->ahead > *ahead ? s->ahead : *ahead;
    }
    return true;
}

/* Whether every unit has rows for both its borders, so that no neighbour reads beyond them. */
static bool has_borders(const fv_plan_sweep *w, uint32_t rows)
{
    for (uint32_t u = 0; rows > 0 && u < w->runs; u++) {
        const fv_rows own = fv_sweep_calls_own(w->rows, w->chunk, w->groups, w->runs, u);
        if (own.end - own.first < rows)
            return false;
    }
    return true;
}

/* Whether steps [first, end), if they are a sweep, read x for the last time before they write y;
 * *ahead: grid rows by which they do. */
static bool in_time(const fv_graph *g, uint32_t first, uint32_t end, fv_id x, fv_id y,
                    uint32_t *ahead)
{
    const fv_value *old = &g->value[x], *new = &g->value[y];
    *ahead = 0;
    if (!kept_whole(old) || old->first_step >= first || old->last_step >= end ||
        old->last_step < first || old->need != new->need || old->type != new->type ||
        fv_value_stride(old) != fv_value_stride(new))
        return false;
    for (uint32_t i = first; i < end; i++)
        if (!reads_in_time(g, i, x, y, ahead))
            return false;
    return true;
}

/* Whether steps [first, end), if they are a sweep, leave y for others. */
static bool leaves(const fv_graph *g, uint32_t first, uint32_t end, fv_id y)
{
    const fv_value *v = &g->value[y];
    return kept_whole(v) && v->first_step >= first && v->first_step < end && v->last_step >= end;
}

bool fv_in_place_likely(const fv_graph *g, uint32_t first, uint32_t end, fv_id y)
{
    uint32_t ahead;
    for (uint32_t x = 0; leaves(g, first, end, y) && x < g->values; x++)
        if (in_time(g, first, end, (fv_id)x, y, &ahead))
            return true;
    return false;
}

void fv_in_place_find(fovea_plan *p)
{
    fv_graph *g = &p->graph;
    for (uint32_t i = 0; i < g->values; i++) {
        g->value[i].heir = FV_NO_VALUE;
        g->value[i].inherits = false;
        g->value[i].border = 0;
    }
    for (uint32_t i = 0; i < p->sweeps; i++)
        p->sweep[i].saves = false;
    if (p->limits.throughput || p->options.training)
        return;
    for (uint32_t y = 0; y < g->values; y++) {
        fv_value *new = &g->value[y];
        if (!kept_whole(new))
            continue;
        fv_plan_sweep *w = &p->sweep[new->first_sweep];
        const uint32_t end = w->first + w->count;
        const bool may = w->streamed && !w->bands && leaves(g, w->first, end, (fv_id)y);
        for (uint32_t x = 0; may && !new->inherits &&x < g->values; x++) {
            fv_value *old = &g->value[x];
            uint32_t ahead;
            if (old->heir >= 0 || !in_time(g, w->first, end, (fv_id)x, (fv_id)y, &ahead) ||
                !has_borders(w, ahead * w->width))
                continue;
            old->heir = (fv_id)y;
            old->border = ahead * w->width;
            new->inherits = true;
            w->saves |= old->border > 0;
        }
    }
}
