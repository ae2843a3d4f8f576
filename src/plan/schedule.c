/* schedule.c: decides how each sweep runs: streamed or stepwise, in which chunks, over how many
 * partials. */
#include <assert.h>
#include <math.h>

#include "base/mem.h"
#include "base/num.h"
#include "ops/contracts/product.h"
#include "ops/contracts/softmax_attention.h"
#include "plan/halo.h"
#include "plan/plan.h"

/* Number of reduction groups: enough for the cores of an edge device, and few enough that the
 * partial states stay small. Not measured. The number must not depend on the number of threads,
 * because the results would then depend on it. */
#define REDUCTION_GROUPS 16

/* Minimum rows per partial state on throughput devices. With it, for head dims up to 128, all
 * partial states together are not larger than the rows. fv_limits.partials is the maximum number of
 * partial states. */
#define PARTIAL_ROWS_MIN 128

/* Maximum rows per partial state if the device computes several states at once. With fewer rows, a
 * float32 sum loses less to rounding, but there are more states to merge. */
#define PARTIAL_ROWS_MAX 1024

/* Maximum and minimum rows of a tile in a stepwise sweep. Half a block still fills the row tiles of
 * a GEMM, so a step with fewer rows than that is not split. */
#define ROWS_MAX FV_CHUNK_ROWS
#define ROWS_MIN (FV_CHUNK_ROWS / 2)

/* Foveated attention: the cost of gathering and packing the keys of a block of queries, relative to
 * the time of one grid row of the block. Measured with DINOv2-S at 1036 px, chunks of 8 and 2.2
 * grid rows, and AVX-512. */
#define BLOCK_START 2.5

/* Replaces FV_CHUNK_ROWS for a chunk with softmax attention, whose queries are spread across lanes:
 * 162 to 176 rows cost the same 11 vectors of 16. GEMM still reads its weights once (the knob mc).
 * A sweep that reduces keeps FV_CHUNK_ROWS, because the rounding of its sums depends on it. */
#define QUERIES_MAX 176

/* Minimum utilisation of the workers for which a sweep is streamed. The minimum is lower
 * (BALANCE_LARGE) if a value inside the sweep has at least LARGE bytes, which is more than the
 * caches of edge devices hold: stepwise would move such a value through main memory at each step.
 * Not measured one by one, because the tuner compares both schedules. */
#define BALANCE 0.85
#define BALANCE_LARGE 0.5
#define LARGE (32u << 20)

/* Row tiles: maximum units of work per thread, and the utilisation that may be lost to more units.
 * Smaller units absorb jitter when a worker is preempted. Not measured. */
#define ROUNDS 4
#define EVENNESS 0.02

fv_step_tiles fv_sweep_tile(const fv_step *s, uint32_t threads)
{
    fv_step_tiles t = {.all_cols = 1};
    uint32_t rows = s->prob.dim[FV_DIM_ROWS];
    uint32_t align = 1;
    switch (fv_op_table[s->prob.op]->cols) {
    case FV_COLS_COLUMN:
        t.all_cols = s->prob.dim[FV_GEMM_N];
        align = FV_COL_ALIGN;
        break;
    case FV_COLS_HEAD:
        t.all_cols = s->prob.heads;
        break;
    }
    const fv_op *op = fv_op_table[s->prob.op];
    const uint32_t most = op->most_rows ? op->most_rows : ROWS_MAX;
    const uint32_t block = op->block_lines * s->prob.dim[FV_FOVEA_WIDTH];
    uint32_t row_tiles = threads * fv_ceil_div(rows, threads * most);
    if (block)
        row_tiles = fv_ceil_div(rows, block);
    else if (fv_step_span(s) == FV_SPAN_SCAN)
        row_tiles = 1;
    else if (rows / row_tiles < ROWS_MIN)
        row_tiles = rows < ROWS_MIN ? 1 : rows / ROWS_MIN;
    const uint32_t units = block ? ROUNDS * threads : threads;
    uint32_t col_tiles = row_tiles < units ? fv_ceil_div(units, row_tiles) : 1;
    t.rows = block ? block : fv_ceil_div(rows, row_tiles);
    t.rows = fv_round_up(t.rows, s->align ? s->align : 1);
    t.cols = fv_min_u32(t.all_cols, fv_round_up(fv_ceil_div(t.all_cols, col_tiles), align));
    return t;
}

/* Returns the utilisation of the threads, from 0 to 1, when the sweep's groups are split into
 * `runs` units. Halo rows that are computed again at unit borders (`halo` grid rows each) and idle
 * time at the end count as wasted. */
static double utilisation(const fv_plan_sweep *w, uint32_t threads, uint32_t runs, double halo)
{
    const double lines = w->width ? (double)w->rows / w->width : w->groups;
    const double longest =
        lines * fv_ceil_div(w->groups, runs) / w->groups + halo * fv_min_u32(runs - 1, 2);
    return lines / (threads * fv_ceil_div(runs, threads) * longest);
}

/* Returns the number of grid rows of the whole sweep, weighted by flops, that a unit computes again
 * at one border. */
static double halo_rows(const fovea_plan *p, const fv_plan_sweep *w)
{
    double all = 0, halo = 0;
    for (uint32_t k = w->first; w->width && k < w->first + w->count; k++) {
        const fv_step *s = &p->graph.step[k];
        const double flops = s->dead ? 0 : fv_problem_flops(&s->prob);
        all += flops;
        halo += flops * p->cut.step[k].halo;
    }
    return all > 0 ? halo / all : 0;
}

/* Splits the sweep into units of work for streaming, and returns the utilisation. Reduction groups
 * depend only on the problem; the number of groups per unit does not change the result. */
static double split_units(const fovea_plan *p, fv_plan_sweep *w, uint32_t threads)
{
    w->runs = w->groups;
    if (!w->width)
        return utilisation(w, threads, w->runs, 0);
    const double halo = halo_rows(p, w);
    double best = 0;
    for (uint32_t rounds = 1; rounds <= ROUNDS; rounds++) {
        const uint32_t runs = fv_min_u32(rounds * threads, w->groups);
        const double share = utilisation(w, threads, runs, halo);
        if (share < best * (1 - EVENNESS))
            continue;
        best = share > best ? share : best;
        w->runs = runs;
    }
    return utilisation(w, threads, w->runs, halo);
}

/* Returns the bytes of the largest value that only this sweep uses, with all of its rows. */
static uint64_t largest_inside(const fovea_plan *p, const fv_plan_sweep *w)
{
    uint64_t most = 0;
    for (uint32_t i = 0; i < p->graph.values; i++) {
        const fv_value *v = &p->graph.value[i];
        if (p->cut.life[i].first_step == UINT32_MAX ||
            !fv_halo_inside(&p->cut, w->first, w->first + w->count, (fv_id)i))
            continue;
        const uint64_t bytes = fv_size_mul(v->need, fv_value_stride(v));
        most = bytes > most ? bytes : most;
    }
    return most;
}

/* Chooses chunks of equal size unless the caller has chosen the size, so that the last chunk is not
 * much smaller. */
static void equal_chunks(fv_plan_sweep *w, uint32_t wanted, bool chosen, uint32_t threads)
{
    const uint32_t unit = w->width ? w->width : w->align, units = fv_ceil_div(w->rows, unit);
    uint32_t each = chosen ? fv_ceil_div(wanted, unit) : wanted / unit;
    each = fv_min_u32(each ? each : 1, units);
    uint32_t count = fv_ceil_div(units, each);
    /* The number of chunks becomes a multiple of the threads. If it changes the rounding of a sum,
     * it must not depend on the threads, so it becomes even, or from 8 on a multiple of 4. */
    if (w->reduces && !chosen && count > 1)
        count = fv_round_up(count, count < 8 ? 2 : 4);
    else if (!w->reduces && count >= 4 * threads)
        count = fv_round_up(count, threads);
    if (!chosen)
        each = fv_ceil_div(units, count);
    w->chunk = each * unit;
    w->chunks = fv_ceil_div(units, each);
    w->groups = w->reduces ? fv_min_u32(w->chunks, REDUCTION_GROUPS) : w->chunks;
    w->partials = 1;
}

/* Returns the number of heads of the first reduction of a sweep, or 1. */
static uint32_t reduced_heads(const fovea_plan *p, const fv_plan_sweep *w)
{
    for (uint32_t k = w->first; k < w->first + w->count; k++) {
        const fv_step *s = &p->graph.step[k];
        if (!s->dead && fv_step_span(s) == FV_SPAN_REDUCE && s->prob.heads)
            return s->prob.heads;
    }
    return 1;
}

/* Returns the number of partial states for `rows` rows. If the device reports how many it computes
 * at once, the result is a multiple of that number, because an incomplete last round would leave
 * most of the device idle. The number is small, because each state is written, read and merged. */
static uint32_t partials_of(const fovea_plan *p, const fv_plan_sweep *w, uint32_t rows)
{
    const uint32_t most = fv_min_u32(fv_ceil_div(rows, PARTIAL_ROWS_MIN), p->limits.partials);
    const uint32_t round = p->limits.at_once / reduced_heads(p, w);
    if (round == 0 || round >= most)
        return most;
    return fv_min_u32(most / round, fv_ceil_div(fv_ceil_div(rows, PARTIAL_ROWS_MAX), round)) *
           round;
}

/* Schedules a sweep on a throughput device. One call computes all rows, or a super-chunk if
 * streaming is asked for. The kernel splits the rows into as many partial states as keep the device
 * busy. */
static void schedule_throughput(const fovea_plan *p, fv_plan_sweep *w, const fv_plan_request *r,
                                uint32_t chunk)
{
    w->streamed = r->schedule == FOVEA_SCHEDULE_STREAMED && !w->alone && w->rows > 1;
    w->chunk = w->rows;
    if (w->streamed)
        equal_chunks(w, chunk, r->chunk, 1);
    w->chunks = fv_ceil_div(w->rows, w->chunk);
    w->groups = w->runs = 1;
    w->partials = w->reduces ? partials_of(p, w, w->chunk) : 1;
}

/* Returns whether the sweep is streamed. Streaming pays if several steps share the sweep and few
 * workers are idle at its end. With values of LARGE bytes inside, it pays with more idle workers
 * too, because stepwise would move the values through main memory at each step. */
static bool stream(const fovea_plan *p, fv_plan_sweep *w, fovea_schedule schedule, uint32_t threads)
{
    const double share = split_units(p, w, threads);
    if (w->alone || w->rows == 1 || schedule == FOVEA_SCHEDULE_STEPWISE)
        return false;
    if (schedule == FOVEA_SCHEDULE_STREAMED)
        return true;
    const double enough = w->width && largest_inside(p, w) >= LARGE ? BALANCE_LARGE : BALANCE;
    return w->count > 1 && w->chunks >= 2 && share >= enough;
}

/* Returns the number of rows of a chunk of the sweep, unless wisdom or the caller has chosen it. */
static uint32_t usual_chunk(const fovea_plan *p, const fv_plan_sweep *w, const fv_plan_request *r,
                            uint32_t usual)
{
    if (w->reduces)
        return r->reduced ? r->reduced : usual;
    if (r->chunk || usual != FV_CHUNK_ROWS) /* the caller chose the chunk, or it was reduced to
                                               fit the memory */
        return usual;
    for (uint32_t k = w->first; k < w->first + w->count; k++) {
        if (!p->graph.step[k].dead && p->graph.step[k].prob.op == FV_OP_SOFTMAX)
            return QUERIES_MAX;
    }
    return usual;
}

/* Returns the number of grid rows per chunk of a sweep whose last step computes blocks of grid
 * rows. A chunk is a whole block, or half, a quarter and so on of one if that keeps more threads
 * busy or the memory limit requires it. */
static uint32_t block_lines(const fv_plan_sweep *w, const fv_problem *p, uint32_t most,
                            uint32_t threads)
{
    uint32_t lines = fv_op_table[p->op]->block_lines, best = 1;
    double least = INFINITY;
    for (; lines > 0; lines /= 2) {
        const uint32_t rows = lines * p->dim[FV_FOVEA_WIDTH];
        const uint32_t rounds = fv_ceil_div(fv_ceil_div(w->rows, rows), threads);
        const double time = rounds * (lines + BLOCK_START);
        if (time >= least || rows > most)
            continue;
        least = time;
        best = lines;
    }
    return best;
}

/* Makes *chunk a multiple of the grid's width if the sweep's last step computes blocks of grid
 * rows. */
static void align_blocks(const fovea_plan *p, fv_plan_sweep *w, const fv_plan_request *r,
                         uint32_t threads, uint32_t *chunk)
{
    const fv_step *s = &p->graph.step[w->first + w->count - 1];
    if (!fv_op_table[s->prob.op]->block_lines)
        return;
    const uint32_t most = r->chunk || *chunk != FV_CHUNK_ROWS ? *chunk : UINT32_MAX;
    w->align = block_lines(w, &s->prob, most, threads) * s->prob.dim[FV_FOVEA_WIDTH];
    *chunk = w->align;
}

/* Stores the schedule and the chunk that wisdom has for the sweep in *r and *chunk, unless the
 * request sets them. Returns the origin of the choice, as in fv_plan_sweep.source. */
static const char *ask_wisdom(const fovea_plan *p, const fv_plan_sweep *w, fv_plan_request *r,
                              uint32_t *chunk)
{
    bool streamed;
    uint32_t advised;
    if (r->source)
        return r->source;
    const char *source = fv_advice_sweep(&p->advice, &p->graph, w, &streamed, &advised);
    if (!source)
        return "cost";
    r->schedule = streamed ? FOVEA_SCHEDULE_STREAMED : FOVEA_SCHEDULE_STEPWISE;
    *chunk = advised;
    return source;
}

/* Streams the sweep by bands, unless the request asks for one step at a time. */
static void schedule_bands(fv_plan_sweep *w, const fv_plan_request *r, uint32_t chunk)
{
    w->chunk = chunk;
    w->chunks = w->groups = w->runs = w->bands;
    w->partials = 1;
    w->streamed = r->schedule != FOVEA_SCHEDULE_STEPWISE && !r->unbanded;
}

static void schedule_sweep(const fovea_plan *p, const fv_plan_candidate *c, fv_plan_sweep *w,
                           const fv_plan_request *request, uint32_t usual)
{
    fv_plan_request r = *request;
    const uint32_t threads = c->info.threads;
    uint32_t chunk = usual_chunk(p, w, &r, usual);
    w->source = w->bands ? "cost" : ask_wisdom(p, w, &r, &chunk);
    w->target = chunk;
    if (p->limits.throughput) {
        schedule_throughput(p, w, &r, chunk);
    } else if (w->bands) {
        schedule_bands(w, &r, usual);
    } else {
        align_blocks(p, w, &r, threads, &chunk);
        equal_chunks(w, chunk, r.chunk, threads);
        w->streamed = stream(p, w, r.schedule, threads);
    }
}

/* Sets the tiles of step k of the sweep, and the number of its partials. */
static void schedule_step(const fovea_plan *p, fv_plan_candidate *c, const fv_plan_sweep *w,
                          uint32_t k)
{
    const fv_step *s = &p->graph.step[k];
    fv_step_plan *sp = &c->step[k];
    sp->tiles = fv_sweep_tile(s, c->info.threads);
    if (p->limits.throughput) {
        sp->tiles.rows = s->prob.dim[FV_DIM_ROWS];
        sp->tiles.cols = sp->tiles.all_cols;
    }
    if (w->streamed || fv_step_span(s) == FV_SPAN_REDUCE)
        sp->tiles.rows = w->chunk;
    for (uint32_t o = 0; o < FV_OPERANDS; o++) {
        const fv_view v = s->use[o].view;
        if (v.id < 0 || p->graph.value[v.id].kind != FV_VALUE_PARTIAL)
            continue;
        const fv_plan_sweep *writer = &c->sweep[p->cut.life[v.id].first_sweep];
        sp->groups = c->place[v.id].groups = writer->groups * writer->partials;
    }
}

void fv_sweep_schedule(const fovea_plan *p, fv_plan_candidate *c, const fv_plan_request *r,
                       uint32_t usual)
{
    for (uint32_t i = 0; i < p->cut.sweeps; i++) {
        fv_plan_sweep *w = &c->sweep[i];
        schedule_sweep(p, c, w, r, usual);
        if (w->streamed && w->width)
            fv_halo_rings(c->place, &p->cut, w);
        for (uint32_t k = w->first; k < w->first + w->count; k++)
            if (!p->graph.step[k].dead)
                schedule_step(p, c, w, k);
    }
}
