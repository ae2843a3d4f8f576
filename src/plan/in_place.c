/* in_place.c: finds values that can be written over a value which their sweep reads for the last
 * time.
 *
 * A block of a hierarchical model reads its residual stream with a halo, and writes a new stream
 * without one: two values, each of all tokens. But a unit of a streamed sweep reads a row of the
 * old value for the last time before it writes that row of the new one, so both can use the same
 * memory. Only the rows at the ends of a unit are also read by its neighbours, which may run later.
 * Therefore every unit saves these rows before the sweep begins:
 *
 *     own rows of unit 0                | own rows of unit 1
 *     |####|......................|####|####|..........................|####|
 *       head                        tail  head                           tail
 *                                    |     '-- unit 0 reads the saved copy
 *                                    '-- unit 1 reads the saved copy */
#include "device/sweep_calls.h"
#include "plan/plan.h"

/* Returns whether step s may write its result over operand o. */
static bool may_be_out(const fv_step *s, uint32_t o)
{
    return fv_op_table[s->prob.op]->operand[o].in_place;
}

/* Returns whether the plan's own memory holds all rows of the value. */
static bool kept_whole(const fv_cut *c, fv_id id)
{
    const fv_value *v = &c->graph->value[id];
    return v->kind == FV_VALUE_ROWS && !v->staging && c->life[id].first_step != UINT32_MAX;
}

/* Returns whether step i reads no row of x after that row of y is written. Raises *halo to the
 * step's halo. */
static bool reads_in_time(const fv_cut *c, uint32_t i, fv_id x, fv_id y, uint32_t *halo)
{
    const fv_step *s = &c->graph->step[i];
    for (uint32_t o = 0; !s->dead && o < FV_OPERANDS; o++) {
        const fv_use *u = &s->use[o];
        if (u->view.id == y && (u->kind != FV_KIND_ROW || c->step[i].halo > 0))
            return false;
        if (u->view.id != x)
            continue;
        const uint32_t written = c->life[y].first_step;
        if (u->kind != FV_KIND_ROW || o == s->out || u->view.col > 0 || i > written ||
            (i == written && !may_be_out(s, o)))
            return false;
        *halo = c->step[i].halo > *halo ? c->step[i].halo : *halo;
    }
    return true;
}

/* Returns whether every unit has at least `rows` rows, so that no unit reads beyond its direct
 * neighbours. */
static bool has_borders(const fv_plan_sweep *w, uint32_t rows)
{
    for (uint32_t u = 0; rows > 0 && u < w->runs; u++) {
        const fv_rows own = fv_sweep_calls_own(w->rows, w->chunk, w->groups, w->runs, u);
        if (own.end - own.first < rows)
            return false;
    }
    return true;
}

/* Returns whether steps [first, end), if they form one sweep, read x for the last time before they
 * write y. Sets *halo to the largest halo of the steps that read x. */
static bool in_time(const fv_cut *c, uint32_t first, uint32_t end, fv_id x, fv_id y, uint32_t *halo)
{
    const fv_value *old = &c->graph->value[x], *new = &c->graph->value[y];
    *halo = 0;
    const fv_value_life *l = &c->life[x];
    if (!kept_whole(c, x) || l->first_step >= first || l->last_step >= end ||
        l->last_step < first || old->need != new->need || old->type != new->type ||
        fv_value_stride(old) != fv_value_stride(new))
        return false;
    for (uint32_t i = first; i < end; i++)
        if (!reads_in_time(c, i, x, y, halo))
            return false;
    return true;
}

/* Returns whether steps [first, end), if they form one sweep, write y and later steps read it. */
static bool leaves(const fv_cut *c, uint32_t first, uint32_t end, fv_id y)
{
    const fv_value_life *l = &c->life[y];
    return kept_whole(c, y) && l->first_step >= first && l->first_step < end && l->last_step >= end;
}

bool fv_in_place_likely(const fv_cut *c, uint32_t first, uint32_t end, fv_id y)
{
    uint32_t halo;
    for (uint32_t x = 0; leaves(c, first, end, y) && x < c->graph->values; x++)
        if (in_time(c, first, end, (fv_id)x, y, &halo))
            return true;
    return false;
}

/* Finds a value over which y can be written, in the sweep w that writes y. */
static void find_place(const fv_cut *cut, fv_plan_candidate *c, fv_plan_sweep *w, fv_id y)
{
    const uint32_t end = w->first + w->count;
    for (uint32_t x = 0; !c->place[y].reuses && x < cut->graph->values; x++) {
        fv_value_place *old = &c->place[x];
        uint32_t halo;
        if (old->reused_by >= 0 || !in_time(cut, w->first, end, (fv_id)x, y, &halo) ||
            !has_borders(w, halo * w->width))
            continue;
        old->reused_by = y;
        old->saved_rows = halo * w->width;
        c->place[y].reuses = true;
        w->saves |= old->saved_rows > 0;
    }
}

void fv_in_place_find(const fovea_plan *p, fv_plan_candidate *c)
{
    const fv_cut *cut = &p->cut;
    for (uint32_t i = 0; i < p->graph.values; i++)
        c->place[i].reused_by = FV_NO_VALUE;
    if (p->limits.throughput || p->options.training)
        return;
    for (uint32_t y = 0; y < p->graph.values; y++) {
        if (!kept_whole(cut, (fv_id)y))
            continue;
        fv_plan_sweep *w = &c->sweep[cut->life[y].first_sweep];
        if (w->streamed && !w->bands && leaves(cut, w->first, w->first + w->count, (fv_id)y))
            find_place(cut, c, w, (fv_id)y);
    }
}
