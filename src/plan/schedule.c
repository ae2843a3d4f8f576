/* schedule.c: how each sweep runs: streamed or stepwise, in which chunks, over how many partials.
 */
#include <assert.h>
#include <math.h>

#include "base/mem.h"
#include "base/num.h"
#include "plan/halo.h"
#include "plan/plan.h"

/* Groups of a reduction: enough for the cores of an edge device to share it, few enough that the
 * partial states stay small. A function of the problem alone, so that results do not depend on the
 * number of threads. */
#define GROUPS 16

/* Throughput devices: rows of a partial state at least, so that all states together are no larger
 * than the rows. fv_limits.parts says how many there are at most. */
#define PART_ROWS 128

/* And at most, where parts are computed at once: sums of that many rows lose little by rounding. */
#define PART_ROWS_MOST 1024

/* Rows of a unit of a stepwise sweep: at most what GEMM reads its weights once for, at least what
 * keeps its tiles full. */
#define ROWS_MOST 168
#define ROWS_LEAST 84

/* Share of the workers' time that a streamed sweep must use. */
#define BALANCE 0.85
#define BALANCE_LARGE 0.5
#define LARGE (32u << 20)

/* Bands: units of a sweep per thread at most, and what having more of them may cost: they even out
 * what disturbs a worker. */
#define ROUNDS 4
#define EVENNESS 0.02

void fv_sweep_tile(fv_step *s, uint32_t threads)
{
    uint32_t rows = s->prob.dim[FV_DIM_ROWS];
    uint32_t align = 1;
    s->cols = 1;
    switch (fv_op_table[s->prob.op]->cols) {
    case FV_COLS_COLUMN:
        s->cols = s->prob.dim[FV_GEMM_N];
        align = FV_COL_ALIGN;
        break;
    case FV_COLS_HEAD:
        s->cols = s->prob.heads;
        break;
    }
    const uint32_t own = fv_op_table[s->prob.op]->most_rows, most = own ? own : ROWS_MOST;
    uint32_t row_tiles = threads * fv_ceil_div(rows, threads * most);
    if (fv_step_span(s) == FV_SPAN_SCAN)
        row_tiles = 1;
    else if (rows / row_tiles < ROWS_LEAST)
        row_tiles = rows < ROWS_LEAST ? 1 : rows / ROWS_LEAST;
    uint32_t col_tiles = row_tiles < threads ? fv_ceil_div(threads, row_tiles) : 1;
    s->tile_rows = fv_round_up(fv_ceil_div(rows, row_tiles), s->align ? s->align : 1);
    s->tile_cols = fv_min_u32(s->cols, fv_round_up(fv_ceil_div(s->cols, col_tiles), align));
}

/* Share of the threads' time that is well spent when the sweep's groups go to `runs` units: the
 * `repeated` grid rows at an end of a unit that is not the grid's are not, nor is waiting for the
 * last one. */
static double well_spent(const fv_plan_sweep *w, uint32_t threads, uint32_t runs, double repeated)
{
    const double lines = w->width ? (double)w->rows / w->width : w->groups;
    const double longest =
        lines * fv_ceil_div(w->groups, runs) / w->groups + repeated * fv_min_u32(runs - 1, 2);
    return lines / (threads * fv_ceil_div(runs, threads) * longest);
}

/* Grid rows of the whole sweep that a unit computes at an end beside its own. */
static double repeated_rows(const fovea_plan *p, const fv_plan_sweep *w)
{
    double all = 0, ahead = 0;
    for (uint32_t k = w->first; w->width && k < w->first + w->count; k++) {
        const fv_step *s = &p->b.step[k];
        const double flops = s->dead ? 0 : fv_problem_flops(&s->prob);
        all += flops;
        ahead += flops * s->ahead;
    }
    return all > 0 ? ahead / all : 0;
}

/* Units of the sweep, were it streamed. Groups are the problem's; how many of them a worker takes
 * in one go is not seen in the result. Returns well_spent. */
static double deal(const fovea_plan *p, fv_plan_sweep *w)
{
    const uint32_t threads = p->info.threads;
    w->runs = w->groups;
    if (!w->width)
        return well_spent(w, threads, w->runs, 0);
    const double repeated = repeated_rows(p, w);
    double best = 0;
    for (uint32_t rounds = 1; rounds <= ROUNDS; rounds++) {
        const uint32_t runs = fv_min_u32(rounds * threads, w->groups);
        const double share = well_spent(w, threads, runs, repeated);
        if (share < best * (1 - EVENNESS))
            continue;
        best = share > best ? share : best;
        w->runs = runs;
    }
    return well_spent(w, threads, w->runs, repeated);
}

/* Bytes of the largest value that lives inside a sweep, all of its rows. */
static uint64_t largest_inside(const fovea_plan *p, const fv_plan_sweep *w)
{
    uint64_t most = 0;
    for (uint32_t i = 0; i < p->b.values; i++) {
        const fv_value *v = &p->b.value[i];
        if (v->first_step == UINT32_MAX ||
            !fv_halo_inside(&p->b, w->first, w->first + w->count, (fv_id)i))
            continue;
        const uint64_t bytes = fv_size_mul(v->need, fv_value_stride(v));
        most = bytes > most ? bytes : most;
    }
    return most;
}

/* Chunks of equal size, where the caller has not chosen: the last one should not be a sliver. */
static void cut_chunks(fv_plan_sweep *w, uint32_t wanted, bool chosen, uint32_t threads)
{
    const uint32_t unit = w->width ? w->width : w->align, units = fv_ceil_div(w->rows, unit);
    uint32_t each = chosen ? fv_ceil_div(wanted, unit) : wanted / unit;
    each = fv_min_u32(each ? each : 1, units);
    uint32_t count = fv_ceil_div(units, each);
    /* As many for every thread; where the result depends on their size, for two and four. */
    if (w->reduces && !chosen && count > 1)
        count = fv_round_up(count, count < 8 ? 2 : 4);
    else if (!w->reduces && count >= 4 * threads)
        count = fv_round_up(count, threads);
    if (!chosen)
        each = fv_ceil_div(units, count);
    w->chunk = each * unit;
    w->chunks = fv_ceil_div(units, each);
    w->groups = w->reduces ? fv_min_u32(w->chunks, GROUPS) : w->chunks;
    w->parts = 1;
}

/* Heads of the reduction of a sweep. */
static uint32_t reduced_heads(const fovea_plan *p, const fv_plan_sweep *w)
{
    for (uint32_t k = w->first; k < w->first + w->count; k++) {
        const fv_step *s = &p->b.step[k];
        if (!s->dead && fv_step_span(s) == FV_SPAN_REDUCE && s->prob.heads)
            return s->prob.heads;
    }
    return 1;
}

/* Partial states of `rows` rows. Where it is known how many a device computes at once, no more than
 * that, or so many times that: the last ones would have it for themselves, and each is written,
 * read and merged. */
static uint32_t parts_of(const fovea_plan *p, const fv_plan_sweep *w, uint32_t rows)
{
    const uint32_t most = fv_min_u32(fv_ceil_div(rows, PART_ROWS), p->limits.parts);
    const uint32_t round = p->limits.at_once / reduced_heads(p, w);
    if (round == 0 || round >= most)
        return most;
    return fv_min_u32(most / round, fv_ceil_div(fv_ceil_div(rows, PART_ROWS_MOST), round)) * round;
}

/* One call has all rows, or a super-chunk of them where that is asked for, and deals them itself to
 * as many partial states as keep a device busy. */
static void cut_wide(const fovea_plan *p, fv_plan_sweep *w, const fv_plan_request *r,
                     uint32_t chunk)
{
    w->streamed = r->schedule == FOVEA_SCHEDULE_STREAMED && !w->alone && w->rows > 1;
    w->chunk = w->rows;
    if (w->streamed)
        cut_chunks(w, chunk, r->chunk, 1);
    w->chunks = fv_ceil_div(w->rows, w->chunk);
    w->groups = w->runs = 1;
    w->parts = w->reduces ? parts_of(p, w, w->chunk) : 1;
}

/* Streaming pays where steps share a sweep and few workers idle in its last round; with large
 * values inside, whose rows would go through memory at each step, even where more do. */
static bool stream(const fovea_plan *p, fv_plan_sweep *w, fovea_schedule schedule)
{
    const double share = deal(p, w);
    if (w->alone || w->rows == 1 || schedule == FOVEA_SCHEDULE_STEPWISE)
        return false;
    if (schedule == FOVEA_SCHEDULE_STREAMED)
        return true;
    const double enough = w->width && largest_inside(p, w) >= LARGE ? BALANCE_LARGE : BALANCE;
    return w->count > 1 && w->chunks >= 2 && share >= enough;
}

/* How wisdom wants the sweep to run, if it may be asked: in *r and *chunk. Says who decides. */
static const char *settle(const fovea_plan *p, const fv_plan_sweep *w, fv_plan_request *r,
                          uint32_t *chunk)
{
    bool streamed;
    uint32_t advised;
    if (r->source)
        return r->source;
    const char *source = fv_advice_sweep(&p->advice, &p->b, w, &streamed, &advised);
    if (!source)
        return "cost";
    r->schedule = streamed ? FOVEA_SCHEDULE_STREAMED : FOVEA_SCHEDULE_STEPWISE;
    *chunk = advised;
    return source;
}

void fv_sweep_schedule(fovea_plan *p, const fv_plan_request *request, uint32_t usual)
{
    for (uint32_t i = 0; i < p->b.values; i++) {
        p->b.value[i].ring = p->b.value[i].shift = 0;
        p->b.value[i].lasting = false;
    }
    for (uint32_t i = 0; i < p->sweeps; i++) {
        fv_plan_sweep *w = &p->sweep[i];
        fv_plan_request r = *request;
        uint32_t chunk = w->reduces && r.reduced ? r.reduced : usual;
        w->source = settle(p, w, &r, &chunk);
        w->target = chunk;
        if (p->limits.throughput) {
            cut_wide(p, w, &r, chunk);
        } else {
            cut_chunks(w, chunk, r.chunk, p->info.threads);
            w->streamed = stream(p, w, r.schedule);
        }
        if (w->streamed && w->width)
            fv_halo_rings(&p->b, w);
        for (uint32_t k = w->first; k < w->first + w->count; k++) {
            fv_step *s = &p->b.step[k];
            if (s->dead)
                continue;
            fv_sweep_tile(s, p->info.threads);
            if (p->limits.throughput) {
                s->tile_rows = s->prob.dim[FV_DIM_ROWS];
                s->tile_cols = s->cols;
            }
            if (w->streamed || fv_step_span(s) == FV_SPAN_REDUCE)
                s->tile_rows = w->chunk;
            for (uint32_t o = 0; o < FV_OPERANDS; o++) {
                const fv_view v = s->use[o].view;
                if (v.id < 0 || p->b.value[v.id].kind != FV_VALUE_PARTIAL)
                    continue;
                const fv_plan_sweep *writer = &p->sweep[p->b.value[v.id].first_sweep];
                const uint32_t groups = writer->groups * writer->parts;
                s->prob.dim[fv_op_table[s->prob.op]->groups] = groups;
                p->b.value[v.id].rows = groups;
            }
        }
    }
}
