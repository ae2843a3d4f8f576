/* halo.c: row tiles with a halo: the halo of each step in a sweep that has LOCAL steps, and the
 * ring buffers between the steps.
 *
 * A LOCAL step reads rows beyond its chunk. Where its own sweep writes them, chunks are row tiles
 * (whole grid rows), and the step that writes them computes some grid rows beyond the tile: its
 * halo is the halo of its reader plus the reader's radius.
 *
 *                     run's first row  v         current tile  v
 *     halo 0                           |## ## ## ## ## ## ## ##|
 *     halo 1, read with radius 1     o |## ## ## ## ## ## ## ##|#
 *     halo 3, read with radius 2   ooo |## ## ## ## ## ## ## ##|###
 *
 * Values between two steps are ring buffers of grid rows that move with the tile. A unit of work
 * (run) computes the halo (o) at its borders a second time: the units on both sides compute it.
 * Values that leave the sweep are written by steps without a halo.
 */
#include "plan/halo.h"
#include "ops/contracts/grid.h"

/* Maximum halo of a step, in grid rows. A sweep that needs a larger one is cut, because every unit
 * of work computes its halo again. The limit trades this repeated work against one more pass
 * through memory; not measured. */
#define MAX_HALO 16

static uint32_t grid_rows(const fv_step *s)
{
    return s->u[0] * s->prob.dim[FV_DWCONV_HEIGHT];
}

static bool wrote(const fv_cut *c, uint32_t first, uint32_t end, fv_id id)
{
    for (uint32_t i = first; i < end; i++)
        if (!c->graph->step[i].dead && c->graph->step[i].use[c->graph->step[i].out].view.id == id)
            return true;
    return false;
}

/* Returns whether step i is LOCAL and reads a value that the steps [first, i) write. */
static bool reads_own(const fv_cut *c, uint32_t first, uint32_t i)
{
    const fv_step *s = &c->graph->step[i];
    for (uint32_t o = 0; fv_step_span(s) == FV_SPAN_LOCAL && o < FV_OPERANDS; o++)
        if (s->use[o].kind == FV_KIND_LOCAL && wrote(c, first, i, s->use[o].view.id))
            return true;
    return false;
}

uint32_t fv_halo_width(const fv_cut *c, uint32_t first, uint32_t i)
{
    const fv_step *s = &c->graph->step[i];
    return reads_own(c, first, i) && grid_rows(s) == s->prob.dim[FV_DIM_ROWS] ? s->u[0] : 0;
}

uint32_t fv_halo_unit(const fv_cut *c, uint32_t first, uint32_t i)
{
    const fv_step *s = &c->graph->step[i];
    if (reads_own(c, first, i) && grid_rows(s) < s->prob.dim[FV_DIM_ROWS])
        return grid_rows(s);
    return s->align > 1 ? s->align : 1;
}

bool fv_halo_fits(const fv_cut *c, uint32_t first, uint32_t i)
{
    const uint32_t width = fv_halo_width(c, first, i), unit = fv_halo_unit(c, first, i);
    for (uint32_t j = first; j < i; j++) {
        if (c->graph->step[j].dead)
            continue;
        const uint32_t w = fv_halo_width(c, first, j), u = fv_halo_unit(c, first, j);
        if ((width && w && width != w) || (unit > 1 && u > 1 && unit != u) || (width && u > 1) ||
            (w && unit > 1))
            return false;
    }
    return true;
}

static uint32_t radius(const fv_step *s, uint32_t operand)
{
    if (s->use[operand].kind != FV_KIND_LOCAL || grid_rows(s) < s->prob.dim[FV_DIM_ROWS])
        return 0;
    return s->prob.dim[FV_DWCONV_SIZE] / 2;
}

/* Returns the number of grid rows by which the halo of step i must exceed that of the later step t,
 * because t reads or overwrites a value that i writes or reads. Returns a negative number if the
 * steps share no value that one of them writes. */
static int64_t lead(const fv_cut *c, uint32_t i, uint32_t t)
{
    const fv_step *x = &c->graph->step[i], *y = &c->graph->step[t];
    int64_t most = -1;
    for (uint32_t o = 0; o < FV_OPERANDS; o++)
        for (uint32_t q = 0; x->use[o].view.id >= 0 && q < FV_OPERANDS; q++) {
            if (x->use[o].view.id != y->use[q].view.id || (o != x->out && q != y->out))
                continue;
            const int64_t r = (int64_t)radius(x, o) + radius(y, q);
            most = r > most ? r : most;
        }
    return most;
}

/* Sets the halos of steps [first, end); returns whether any step has one. */
static bool set_halos(fv_cut *c, uint32_t first, uint32_t end)
{
    bool any = false;
    for (uint32_t i = end; i-- > first;) {
        c->step[i].halo = 0;
        for (uint32_t t = i + 1; !c->graph->step[i].dead && t < end; t++) {
            const int64_t rows = c->graph->step[t].dead ? -1 : lead(c, i, t);
            if (rows >= 0 && rows + c->step[t].halo > c->step[i].halo)
                c->step[i].halo = (uint32_t)rows + c->step[t].halo;
        }
        any |= c->step[i].halo > 0;
    }
    return any;
}

/* Returns the nearest later step that makes step i need a halo. */
static uint32_t cause(const fv_cut *c, uint32_t i, uint32_t end)
{
    for (uint32_t t = i + 1; t < end; t++) {
        const int64_t rows = c->graph->step[t].dead ? -1 : lead(c, i, t);
        if (rows >= 0 && rows + c->step[t].halo == c->step[i].halo)
            return rows ? t : cause(c, t, end);
    }
    return end - 1;
}

/* Returns the first later step of the sweep that overwrites a value which step i reads and which is
 * also used outside the sweep, or 0 if there is no such step. */
static uint32_t overwritten(const fv_cut *c, uint32_t first, uint32_t end, uint32_t i)
{
    for (uint32_t o = 0; o < FV_OPERANDS; o++) {
        const fv_id id = c->graph->step[i].use[o].view.id;
        if (id < 0 || fv_halo_inside(c, first, end, id))
            continue;
        for (uint32_t t = i + 1; t < end; t++)
            if (wrote(c, t, t + 1, id))
                return t;
    }
    return 0;
}

/* Returns where the sweep must be cut because step i may not have the halo that it would need, or
 * `end` if no cut is needed. */
static uint32_t cut_for(const fv_cut *c, uint32_t first, uint32_t end, uint32_t i)
{
    const fv_step *s = &c->graph->step[i];
    const uint32_t writer = overwritten(c, first, end, i);
    if (writer)
        return fv_sweep_best_cut(c, i, writer);
    if (fv_halo_inside(c, first, end, s->use[s->out].view.id) && c->step[i].halo <= MAX_HALO &&
        !fv_op_table[s->prob.op]->costly)
        return end;
    return fv_sweep_best_cut(c, i, cause(c, i, end));
}

bool fv_halo_inside(const fv_cut *c, uint32_t first, uint32_t end, fv_id id)
{
    const fv_value *v = &c->graph->value[id];
    const fv_value_life *l = &c->life[id];
    return v->kind == FV_VALUE_ROWS && !v->staging && l->first_step >= first && l->last_step < end;
}

uint32_t fv_halo_assign(fv_cut *c, uint32_t first, uint32_t end)
{
    while (set_halos(c, first, end)) {
        uint32_t cut = end;
        for (uint32_t i = end; cut == end && i-- > first;)
            if (c->step[i].halo)
                cut = cut_for(c, first, end, i);
        if (cut == end)
            break;
        end = cut;
    }
    return end;
}

void fv_halo_rings(fv_value_place *place, const fv_cut *c, const fv_plan_sweep *w)
{
    const uint32_t tile_height = w->chunk / w->width, height = w->rows / w->width;
    for (uint32_t k = 0; k < c->graph->values; k++) {
        const fv_value_life *l = &c->life[k];
        fv_value_place *v = &place[k];
        int64_t front = 0, back = INT64_MAX;
        bool reduced = false;
        if (l->first_step == UINT32_MAX ||
            !fv_halo_inside(c, w->first, w->first + w->count, (fv_id)k))
            continue;
        for (uint32_t i = l->first_step; i <= l->last_step; i++) {
            const fv_step *s = &c->graph->step[i];
            const uint32_t halo = c->step[i].halo;
            for (uint32_t o = 0; !s->dead && o < FV_OPERANDS; o++) {
                if (s->use[o].view.id != (fv_id)k)
                    continue;
                const int64_t oldest = (int64_t)halo - radius(s, o);
                back = oldest < back ? oldest : back;
                reduced |= fv_step_span(s) == FV_SPAN_REDUCE;
                if (o == s->out && halo > front)
                    front = halo;
            }
        }
        /* The ring holds whole tiles, so that no call of the writer wraps around its end. In a
         * reduction no call of the reader may wrap either, because splitting its rows would change
         * the rounding of the sum. */
        const uint32_t tiles =
            (uint32_t)((tile_height + front - back + tile_height - 1) / tile_height);
        const uint32_t all = (height + tile_height - 1) / tile_height;
        v->ring = tile_height * (tiles < all ? tiles : all);
        v->shift = reduced ? 0 : (uint32_t)(v->ring - front % v->ring) % v->ring;
        v->persistent = front > back;
    }
}
