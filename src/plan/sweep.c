/* sweep.c: which rows are needed, where the step list is cut into sweeps, and how each sweep runs.
 */
#include <assert.h>
#include <string.h>

#include "base/mem.h"
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
    return fv_op_table[s->prob.op]->span;
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
        if (span(s) == FV_SPAN_TOKEN || span(s) == FV_SPAN_LOCAL) {
            if (s->align) /* whole windows, whatever is read of them */
                out->need = least(rows, round_up(out->need, s->align));
            rows = s->prob.dim[FV_DIM_ROWS] = least(rows, out->need);
        }
        for (uint32_t k = 0; k < FV_OPERANDS; k++) {
            const fv_use *use = &s->use[k];
            if (k == s->out || use->view.id < 0)
                continue;
            fv_value *in = &b->value[use->view.id];
            uint32_t need = rows;
            if (use->kind == FV_KIND_WHOLE || use->kind == FV_KIND_LOCAL)
                need = fv_op_table[s->prob.op]->operand[k].picked ? s->u[0] + rows : in->rows;
            if (use->kind == FV_KIND_STATE || use->kind == FV_KIND_PARTIAL)
                need = 1;
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

static bool reads_rows(const fv_builder *b, uint32_t i, fv_id id)
{
    const fv_step *s = &b->step[i];
    for (uint32_t k = 0; !s->dead && k < FV_OPERANDS; k++)
        if (k != s->out && s->use[k].view.id == id &&
            (s->use[k].kind == FV_KIND_ROW || s->use[k].kind == FV_KIND_LOCAL))
            return true;
    return false;
}

/* Bytes per row of the values that are there at `cut` and are read row by row in [cut, end]. */
static uint64_t crossing(const fv_builder *b, uint32_t cut, uint32_t end)
{
    uint64_t bytes = 0;
    for (uint32_t i = cut; i <= end; i++) {
        for (uint32_t k = 0; !b->step[i].dead && k < FV_OPERANDS; k++) {
            const fv_id id = b->step[i].use[k].view.id;
            if (id < 0 || b->value[id].kind == FV_VALUE_INPUT || b->value[id].first_step >= cut ||
                !reads_rows(b, i, id))
                continue;
            bool counted = false;
            for (uint32_t j = cut; j < i; j++)
                counted |= reads_rows(b, j, id);
            for (uint32_t o = 0; o < k; o++)
                counted |= b->step[i].use[o].view.id == id;
            if (!counted)
                bytes += b->value[id].cols * fv_type_size(b->value[id].type);
        }
    }
    return bytes;
}

uint32_t fv_sweep_best_cut(const fv_builder *b, uint32_t after, uint32_t at, uint32_t to)
{
    uint32_t best = at;
    uint64_t least_bytes = UINT64_MAX;
    for (uint32_t cut = after + 1; cut <= at; cut++) {
        if (b->step[cut].dead)
            continue;
        uint64_t bytes = crossing(b, cut, to);
        if (bytes < least_bytes) {
            least_bytes = bytes;
            best = cut;
        }
    }
    return best;
}

/* Makes a sweep of the steps [first, end), or of fewer; returns where it ends. */
static uint32_t close_sweep(fovea_plan *p, uint32_t first, uint32_t end)
{
    end = fv_halo_assign(&p->b, first, end);
    fv_plan_sweep *w = &p->sweep[p->sweeps];
    *w = (fv_plan_sweep){.first = first, .align = 1};
    for (uint32_t i = first; i < end; i++) {
        fv_step *s = &p->b.step[i];
        if (s->dead)
            continue;
        s->sweep = p->sweeps;
        const uint32_t width = fv_halo_width(&p->b, first, i), unit = fv_halo_unit(&p->b, first, i);
        w->width = width ? width : w->width;
        w->align = unit > w->align ? unit : w->align;
        w->reach = s->ahead > w->reach ? s->ahead : w->reach;
        w->alone |= alone(s);
        w->rows = s->prob.dim[FV_DIM_ROWS];
        w->reduces |= span(s) == FV_SPAN_REDUCE;
        w->count = i + 1 - first;
    }
    if (w->count)
        p->sweeps++;
    return end;
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
    if (closed || other_rows || alone(s) || !fv_halo_fits(b, first, i))
        return true;
    if (last_write < 0)
        return false;
    /* Before a step that reads as finished something that the sweep writes. */
    *cut = fv_sweep_best_cut(b, (uint32_t)last_write, i, i);
    return true;
}

/* First and last step that uses each value. */
static void live(fv_builder *b)
{
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
            if (v->first_step == UINT32_MAX)
                v->first_step = i;
            v->last_step = i;
        }
    }
}

fovea_status fv_sweep_cut(fovea_plan *p)
{
    const fv_builder *b = &p->b;
    void *memory;
    FV_TRY(fv_mem_array(&memory, (uint64_t)b->steps + 1, sizeof *p->sweep, FV_MEM_PLAN,
                        "the plan's sweeps"));
    p->sweep = memory;
    live(&p->b);
    uint32_t first = 0;
    for (uint32_t i = 0; i < b->steps; i++) {
        uint32_t cut;
        if (b->step[i].dead)
            continue;
        if (must_cut(b, first, i, &cut)) {
            first = close_sweep(p, first, cut);
            if (first < i)
                i = first - 1; /* look again at what moved into the new sweep */
        }
    }
    while (first < b->steps)
        first = close_sweep(p, first, b->steps);
    for (uint32_t i = 0; i < b->values; i++) {
        fv_value *v = &b->value[i];
        if (v->first_step == UINT32_MAX)
            continue;
        v->first_sweep = b->step[v->first_step].sweep;
        v->last_sweep = b->step[v->last_step].sweep;
    }
    return FOVEA_OK;
}

/* ---- schedule ---- */

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
    uint32_t row_tiles = threads * ceil_div(rows, threads * most);
    if (span(s) == FV_SPAN_SCAN)
        row_tiles = 1;
    else if (rows / row_tiles < ROWS_LEAST)
        row_tiles = rows < ROWS_LEAST ? 1 : rows / ROWS_LEAST;
    uint32_t col_tiles = row_tiles < threads ? ceil_div(threads, row_tiles) : 1;
    s->tile_rows = round_up(ceil_div(rows, row_tiles), s->align ? s->align : 1);
    s->tile_cols = least(s->cols, round_up(ceil_div(s->cols, col_tiles), align));
}

/* Share of the threads' time that is well spent when the sweep's groups go to `runs` units: the
 * `repeated` grid rows at an end of a unit that is not the grid's are not, nor is waiting for the
 * last one. */
static double well_spent(const fv_plan_sweep *w, uint32_t threads, uint32_t runs, double repeated)
{
    const double lines = w->width ? (double)w->rows / w->width : w->groups;
    const double longest =
        lines * ceil_div(w->groups, runs) / w->groups + repeated * least(runs - 1, 2);
    return lines / (threads * ceil_div(runs, threads) * longest);
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
        const uint32_t runs = least(rounds * threads, w->groups);
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
    const uint32_t unit = w->width ? w->width : w->align, units = ceil_div(w->rows, unit);
    uint32_t each = chosen ? ceil_div(wanted, unit) : wanted / unit;
    each = least(each ? each : 1, units);
    uint32_t count = ceil_div(units, each);
    /* As many for every thread; where the result depends on their size, for two and four. */
    if (w->reduces && !chosen && count > 1)
        count = round_up(count, count < 8 ? 2 : 4);
    else if (!w->reduces && count >= 4 * threads)
        count = round_up(count, threads);
    if (!chosen)
        each = ceil_div(units, count);
    w->chunk = each * unit;
    w->chunks = ceil_div(units, each);
    w->groups = w->reduces ? least(w->chunks, GROUPS) : w->chunks;
    w->parts = 1;
}

/* Heads of the reduction of a sweep. */
static uint32_t reduced_heads(const fovea_plan *p, const fv_plan_sweep *w)
{
    for (uint32_t k = w->first; k < w->first + w->count; k++) {
        const fv_step *s = &p->b.step[k];
        if (!s->dead && span(s) == FV_SPAN_REDUCE && s->prob.heads)
            return s->prob.heads;
    }
    return 1;
}

/* Partial states of `rows` rows. Where it is known how many a device computes at once, no more than
 * that, or so many times that: the last ones would have it for themselves, and each is written,
 * read and merged. */
static uint32_t parts_of(const fovea_plan *p, const fv_plan_sweep *w, uint32_t rows)
{
    const uint32_t most = least(ceil_div(rows, PART_ROWS), p->limits.parts);
    const uint32_t round = p->limits.at_once / reduced_heads(p, w);
    if (round == 0 || round >= most)
        return most;
    return least(most / round, ceil_div(ceil_div(rows, PART_ROWS_MOST), round)) * round;
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
    w->chunks = ceil_div(w->rows, w->chunk);
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
            if (w->streamed || span(s) == FV_SPAN_REDUCE)
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
