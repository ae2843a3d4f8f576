/* sweep.c: which rows are needed, where the step list is cut into sweeps, and how each sweep runs.
 */
#include <assert.h>
#include <string.h>

#include "plan.h"

/* Groups of a reduction: enough for the cores of an edge device to share it, few enough that the
 * partial states stay small. A function of the problem alone, so that results do not depend on the
 * number of threads. */
#define GROUPS 16

/* Rows of a unit of a stepwise sweep: at most what GEMM reads its weights once for, at least what
 * keeps its tiles full. */
#define ROWS_MOST 168
#define ROWS_LEAST 84

/* Share of the workers' time that a streamed sweep must use. */
#define BALANCE 0.85

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static uint32_t ceil_div(uint32_t a, uint32_t b)
{
    return a / b + (a % b != 0);
}

static uint32_t round_up(uint32_t a, uint32_t to)
{
    return ceil_div(a, to) * to;
}

static int span(const fv_step *s)
{
    return fv_op_table[s->prob.op].span;
}

/* Whether a step stands between two barriers, in a sweep of its own. */
static bool alone(const fv_step *s)
{
    return span(s) == FV_SPAN_ALL || span(s) == FV_SPAN_SCAN;
}

/* ---- demand ---- */

void fv_sweep_demand(fv_builder *b)
{
    for (uint32_t i = 0; i < b->values; i++)
        b->value[i].need = b->value[i].kind == FV_VALUE_OUTPUT ? b->value[i].rows : 0;
    /* need[] below is what steps further down read; a value's own need is its maximum over time. */
    for (uint32_t i = b->steps; i-- > 0;) {
        fv_step *s = &b->step[i];
        fv_value *out = &b->value[s->use[s->out].view.id];
        uint32_t rows = s->prob.dim[FV_DIM_ROWS];
        if (out->need == 0) {
            s->dead = true;
            continue;
        }
        if (span(s) == FV_SPAN_TOKEN || span(s) == FV_SPAN_LOCAL)
            rows = s->prob.dim[FV_DIM_ROWS] = least(rows, out->need);
        for (uint32_t k = 0; k < FV_OPERANDS; k++) {
            const fv_use *use = &s->use[k];
            if (k == s->out || use->view.id < 0)
                continue;
            fv_value *in = &b->value[use->view.id];
            uint32_t need = rows;
            if (use->kind == FV_KIND_WHOLE)
                need = s->prob.op == FV_OP_TAKE ? s->u[0] + rows : in->rows;
            if (use->kind == FV_KIND_STATE || use->kind == FV_KIND_PARTIAL)
                need = 1;
            if (s->prob.op == FV_OP_RESIZE_Y)
                need = in->rows;
            if (need > in->need)
                in->need = need;
        }
    }
}

/* ---- cutting ---- */

static bool reads_finished(const fv_use *u)
{
    return u->view.id >= 0 && (u->kind == FV_KIND_WHOLE || u->kind == FV_KIND_STATE);
}

static bool writes(const fv_builder *b, uint32_t i, fv_id id)
{
    const fv_step *s = &b->step[i];
    return !s->dead && s->use[s->out].view.id == id;
}

static bool reads_rows(const fv_builder *b, uint32_t i, fv_id id)
{
    const fv_step *s = &b->step[i];
    for (uint32_t k = 0; !s->dead && k < FV_OPERANDS; k++)
        if (k != s->out && s->use[k].view.id == id && s->use[k].kind == FV_KIND_ROW)
            return true;
    return false;
}

/* Bytes per row of the values that are written in [first, cut) and read in [cut, end]. */
static uint64_t crossing(const fv_builder *b, uint32_t first, uint32_t cut, uint32_t end)
{
    uint64_t bytes = 0;
    for (uint32_t i = first; i < cut; i++) {
        fv_id id = b->step[i].use[b->step[i].out].view.id;
        bool counted = b->step[i].dead, read = false;
        for (uint32_t j = first; j < i; j++)
            counted |= writes(b, j, id);
        for (uint32_t j = cut; j <= end && !counted; j++)
            read |= reads_rows(b, j, id);
        if (read)
            bytes += (uint64_t)b->value[id].cols * b->value[id].elem;
    }
    return bytes;
}

/* Where to cut before step `at`, which reads as finished something that the sweep from `first` on
 * writes: the place after the last such write that lets the fewest bytes cross. */
static uint32_t best_cut(const fv_builder *b, uint32_t first, uint32_t last_write, uint32_t at)
{
    uint32_t best = at;
    uint64_t least_bytes = UINT64_MAX;
    for (uint32_t cut = last_write + 1; cut <= at; cut++) {
        if (b->step[cut].dead)
            continue;
        uint64_t bytes = crossing(b, first, cut, at);
        if (bytes < least_bytes) {
            least_bytes = bytes;
            best = cut;
        }
    }
    return best;
}

static void close_sweep(fovea_plan *p, uint32_t first, uint32_t end)
{
    fv_plan_sweep *w = &p->sweep[p->sweeps];
    *w = (fv_plan_sweep){.first = first};
    for (uint32_t i = first; i < end; i++) {
        fv_step *s = &p->b.step[i];
        if (s->dead)
            continue;
        s->sweep = p->sweeps;
        w->rows = s->prob.dim[FV_DIM_ROWS];
        w->reduces |= span(s) == FV_SPAN_REDUCE;
        w->count = i + 1 - first;
    }
    if (w->count)
        p->sweeps++;
}

/* Whether step i must not share a sweep with what runs from `first` on; *cut is where to cut. */
static bool must_cut(const fv_builder *b, uint32_t first, uint32_t i, uint32_t *cut)
{
    const fv_step *s = &b->step[i];
    bool closed = false, other_rows = false;
    int64_t last_write = -1;
    for (uint32_t j = first; j < i; j++) {
        const fv_step *t = &b->step[j];
        if (t->dead)
            continue;
        closed |= alone(t) || (span(t) == FV_SPAN_REDUCE && span(s) != FV_SPAN_REDUCE);
        other_rows |= t->prob.dim[FV_DIM_ROWS] != s->prob.dim[FV_DIM_ROWS];
        for (uint32_t k = 0; k < FV_OPERANDS; k++)
            if (reads_finished(&s->use[k]) && s->use[k].view.id == t->use[t->out].view.id)
                last_write = j;
    }
    *cut = i;
    if (closed || other_rows || alone(s))
        return true;
    if (last_write < 0)
        return false;
    *cut = best_cut(b, first, (uint32_t)last_write, i);
    return true;
}

fovea_status fv_sweep_cut(fovea_plan *p)
{
    const fv_builder *b = &p->b;
    void *memory;
    FV_TRY(fv_mem_array(&memory, (uint64_t)b->steps + 1, sizeof *p->sweep, FV_MEM_PLAN,
                        "the plan's sweeps"));
    p->sweep = memory;
    uint32_t first = 0;
    for (uint32_t i = 0; i < b->steps; i++) {
        uint32_t cut;
        if (b->step[i].dead)
            continue;
        if (must_cut(b, first, i, &cut)) {
            close_sweep(p, first, cut);
            first = cut;
            if (cut < i)
                i = cut - 1; /* look again at what moved into the new sweep */
        }
    }
    close_sweep(p, first, b->steps);

    for (uint32_t i = 0; i < b->values; i++) {
        b->value[i].first_step = UINT32_MAX;
        b->value[i].last_step = 0;
    }
    for (uint32_t i = 0; i < b->steps; i++) {
        const fv_step *s = &b->step[i];
        for (uint32_t k = 0; !s->dead && k < FV_OPERANDS; k++) {
            if (s->use[k].view.id < 0)
                continue;
            fv_value *v = &b->value[s->use[k].view.id];
            if (v->first_step == UINT32_MAX) {
                v->first_step = i;
                v->first_sweep = s->sweep;
            }
            v->last_step = i;
            v->last_sweep = s->sweep;
        }
    }
    return FOVEA_OK;
}

/* ---- schedule ---- */

/* Splits a step of a stepwise sweep over the workers: rows first, because a kernel prepares its
 * rows once per call; columns where there are too few rows, or where rows come in order. */
static void tile(fv_step *s, uint32_t threads)
{
    uint32_t rows = s->prob.dim[FV_DIM_ROWS];
    uint32_t align = 1;
    s->cols = 1;
    switch (fv_op_table[s->prob.op].cols) {
    case FV_COLS_COLUMN:
        s->cols = s->prob.dim[FV_GEMM_N];
        align = FV_COL_ALIGN;
        break;
    case FV_COLS_HEAD:
        s->cols = s->prob.heads;
        break;
    }
    uint32_t row_tiles = threads * ceil_div(rows, threads * ROWS_MOST);
    if (span(s) == FV_SPAN_SCAN)
        row_tiles = 1;
    else if (rows / row_tiles < ROWS_LEAST)
        row_tiles = rows < ROWS_LEAST ? 1 : rows / ROWS_LEAST;
    uint32_t col_tiles = row_tiles < threads ? ceil_div(threads, row_tiles) : 1;
    s->tile_rows = ceil_div(rows, row_tiles);
    s->tile_cols = least(s->cols, round_up(ceil_div(s->cols, col_tiles), align));
}

void fv_sweep_schedule(fovea_plan *p, const fv_plan_request *r, uint32_t chunk)
{
    uint32_t threads = p->info.threads;
    for (uint32_t i = 0; i < p->sweeps; i++) {
        fv_plan_sweep *w = &p->sweep[i];
        /* Chunks of equal size: the last one should not be a sliver. */
        w->chunk = r->chunk ? least(chunk, w->rows) : ceil_div(w->rows, ceil_div(w->rows, chunk));
        w->chunks = ceil_div(w->rows, w->chunk);
        w->groups = w->reduces ? least(w->chunks, GROUPS) : w->chunks;
        uint32_t rounds = ceil_div(w->groups, threads);
        /* Streaming pays where steps share a sweep and few workers idle in its last round. */
        bool balanced =
            w->count > 1 && w->chunks >= 2 && w->groups >= BALANCE * (double)rounds * threads;
        w->streamed = !alone(&p->b.step[w->first]) && w->rows > 1 &&
                      (r->schedule == FOVEA_SCHEDULE_STREAMED ||
                       (r->schedule == FOVEA_SCHEDULE_AUTO && balanced));
        for (uint32_t k = w->first; k < w->first + w->count; k++) {
            fv_step *s = &p->b.step[k];
            if (s->dead)
                continue;
            tile(s, threads);
            if (w->streamed || span(s) == FV_SPAN_REDUCE)
                s->tile_rows = w->chunk;
            for (uint32_t o = 0; o < FV_OPERANDS; o++) {
                const fv_view v = s->use[o].view;
                if (v.id < 0 || p->b.value[v.id].kind != FV_VALUE_PARTIAL)
                    continue;
                uint32_t groups = p->sweep[p->b.value[v.id].first_sweep].groups;
                bool mean = s->prob.op == FV_OP_MEAN_REDUCE || s->prob.op == FV_OP_MEAN_MERGE;
                s->prob.dim[mean ? FV_MEAN_GROUPS : FV_ATTN_GROUPS] = groups;
                p->b.value[v.id].rows = groups;
            }
        }
    }
}
