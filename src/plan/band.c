/* band.c: decides which steps make a banded sweep, and which rows each step computes for a band.
 *
 *     lines of the last grid          what a 3 x 3 convolution before it  what upsampling by two
 *                                     has to give                         before that has to give
 *        |  band 0  |                    |############|                      |#######|
 *        |##########|                    |##########..|                      |#####..|
 *        |  band 1  |                    |..##########|                      |..#####|
 *
 * A band is a unit of work: a worker runs all steps for it, each over the rows that later steps
 * read, and keeps the values between them in memory of its own. At the borders of bands rows are
 * computed twice (dots). Row r of a value is computed by the same kernel from the same rows
 * whatever the bands are, so the result does not depend on the bands.
 *
 * A value that leaves the sweep, or comes from outside and is changed, must be written by each band
 * in rows of its own; else the steps do not make a banded sweep. */
#include "plan/band.h"

#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "plan/halo.h"
#include "plan/plan.h"

/* maximum number of steps of a sweep */
#define MOST_STEPS 64

/* Maximum share of the work that may be repeated. In sweeps where bands are chosen, they cost one
 * or two percent of a frame's measured time, because better use of the caches compensates for part
 * of the repeated work. */
#define MOST_REPEATED 0.12

/* Minimum bytes of the largest value inside a banded sweep. Smaller values stay in the caches of
 * larger devices and are a small part of the memory, so chunks or row tiles suit them better. */
#define LARGE (8u << 20)

typedef struct band {
    const fv_cut *c;
    uint32_t first, end;
    fv_rows row[MOST_STEPS]; /* rows that each step computes; first >= end: no rows so far */
} band;

/* ---- steps ---- */

static fv_id written(const fv_step *s)
{
    return s->use[s->out].view.id;
}

/* Returns whether a row of the step's result depends only on rows of its operands, and not on how
 * the rows are split over calls. */
static bool can_be_banded(const fv_step *s)
{
    const fv_op *op = fv_op_table[s->prob.op];
    const bool picks = op->operand[0].picked;
    return (op->span == FV_SPAN_TOKEN || op->span == FV_SPAN_LOCAL || picks) &&
           op->cols != FV_COLS_HEAD && s->align <= 1;
}

/* Returns the number of tokens in a line of the grid that a step writes, or 0 if its rows may not
 * be a grid. */
static uint32_t line_of(const fv_step *s)
{
    const fv_op *op = fv_op_table[s->prob.op];
    return op->line ? op->line(&s->prob, s->u) : 0;
}

/* Computes which rows of operand o step s reads to compute the rows r. Returns false if it reads
 * all rows. */
static bool rows_read(fv_rows *out, const fv_step *s, uint32_t o, fv_rows r)
{
    const fv_op *op = fv_op_table[s->prob.op];
    *out = r;
    if (s->use[o].kind == FV_KIND_ROW)
        return true;
    if (op->operand[o].picked) {
        *out = (fv_rows){s->u[0] + r.first, s->u[0] + r.end};
        return true;
    }
    if (o != 0 || !op->reads)
        return false;
    *out = op->reads(&s->prob, s->u, r);
    return true;
}

/* ---- one band ---- */

/* Returns the last step before `step` that writes a value, or -1 if no step of the sweep does. */
static int64_t writer(const band *k, uint32_t step, fv_id id)
{
    for (int64_t j = (int64_t)step - 1; j >= k->first; j--)
        if (!k->c->graph->step[j].dead && written(&k->c->graph->step[j]) == id)
            return j;
    return -1;
}

static bool is_written_later(const band *k, uint32_t step, fv_id id)
{
    for (uint32_t j = step + 1; j < k->end; j++)
        if (!k->c->graph->step[j].dead && written(&k->c->graph->step[j]) == id)
            return true;
    return false;
}

static void add_rows(fv_rows *to, fv_rows r)
{
    if (r.first >= r.end)
        return;
    if (to->first >= to->end)
        *to = r;
    to->first = fv_min_u32(to->first, r.first);
    to->end = to->end > r.end ? to->end : r.end;
}

/* Adds the rows that step i reads to those that earlier steps must compute. Returns false if the
 * sweep cannot be banded. */
static bool trace_back(band *k, uint32_t i)
{
    const fv_step *s = &k->c->graph->step[i];
    for (uint32_t o = 0; o < FV_OPERANDS; o++) {
        const fv_id id = s->use[o].view.id;
        if (o == s->out || id < 0)
            continue;
        const int64_t from = writer(k, i, id);
        fv_rows r;
        if (from < 0) { /* from outside the sweep: must not change until all bands have read it */
            if (is_written_later(k, i, id) && id != written(s))
                return false;
            continue;
        }
        if (!rows_read(&r, s, o, k->row[i - k->first]))
            return false;
        add_rows(&k->row[from - k->first], r);
    }
    return true;
}

/* Returns whether all steps that write a value compute the same rows of it. Then every row of the
 * band is complete before another step changes it in place. */
static bool writers_agree(const band *k)
{
    for (uint32_t i = k->first; i < k->end; i++) {
        const fv_step *s = &k->c->graph->step[i];
        const int64_t before = s->dead ? -1 : writer(k, i, written(s));
        if (before >= 0 && (k->row[before - k->first].first != k->row[i - k->first].first ||
                            k->row[before - k->first].end != k->row[i - k->first].end))
            return false;
    }
    return true;
}

/* Finds the rows of all steps that are needed for the rows r of the last step. Returns false if the
 * steps cannot be a banded sweep. */
static bool find_rows(band *k, fv_rows r)
{
    memset(k->row, 0, sizeof k->row);
    k->row[k->end - 1 - k->first] = r;
    for (uint32_t i = k->end; i-- > k->first;) {
        const fv_rows *own = &k->row[i - k->first];
        if (k->c->graph->step[i].dead)
            continue;
        if (own->first >= own->end || !trace_back(k, i))
            return false;
    }
    return writers_agree(k);
}

/* Returns the number of tokens in a line of the last step's grid, or 1 if it is not known. */
static uint32_t last_width(const fv_cut *c, uint32_t first, uint32_t end)
{
    const uint32_t rows = c->graph->step[end - 1].prob.dim[FV_DIM_ROWS];
    for (uint32_t i = end; i-- > first;) {
        const uint32_t width = c->graph->step[i].dead ? 0 : line_of(&c->graph->step[i]);
        if (width && c->graph->step[i].prob.dim[FV_DIM_ROWS] == rows)
            return width;
    }
    return 1;
}

/* Returns the rows of the last step that form band i of n, in whole lines. */
static fv_rows part(const fv_cut *c, uint32_t first, uint32_t end, uint32_t i, uint32_t n)
{
    const uint32_t rows = c->graph->step[end - 1].prob.dim[FV_DIM_ROWS];
    const uint32_t width = last_width(c, first, end), all = fv_ceil_div(rows, width);
    return (fv_rows){fv_min_u32(rows, (uint32_t)((uint64_t)all * i / n) * width),
                     fv_min_u32(rows, (uint32_t)((uint64_t)all * (i + 1) / n) * width)};
}

/* ---- the choice ---- */

/* Returns whether the step writes a value that is used outside the sweep. No row of such a value
 * may be written by two bands. */
static bool leaves(const fv_cut *c, uint32_t first, uint32_t end, uint32_t i)
{
    return !c->graph->step[i].dead && !fv_halo_inside(c, first, end, written(&c->graph->step[i]));
}

/* The cost of running a sweep in n bands. */
typedef struct cost {
    double work;              /* relative to computing all rows once; 0: cannot be a banded sweep */
    uint32_t row[MOST_STEPS]; /* number of rows of each step's result that a worker's buffer
                                 holds */
} cost;

static cost cost_of(const fv_cut *c, uint32_t first, uint32_t end, uint32_t n)
{
    band before = {c, first, end, {{0, 0}}}, now = before;
    double once = 0, done = 0;
    cost all = {0};
    for (uint32_t u = 0; u < n; u++, before = now) {
        if (!find_rows(&now, part(c, first, end, u, n)))
            return (cost){0};
        for (uint32_t i = first; i < end; i++) {
            const fv_rows *r = &now.row[i - first];
            const double flops =
                c->graph->step[i].dead ? 0 : fv_problem_flops(&c->graph->step[i].prob);
            const uint32_t rows = c->graph->step[i].prob.dim[FV_DIM_ROWS],
                           *most = &all.row[i - first];
            if (leaves(c, first, end, i) &&
                (r->first != (u ? before.row[i - first].end : 0) || (u + 1 == n && r->end != rows)))
                return (cost){0};
            all.row[i - first] = r->end - r->first > *most ? r->end - r->first : *most;
            done += flops * (r->end - r->first) / rows;
            once += u ? 0 : flops;
        }
    }
    all.work = once > 0 ? done / once : 1;
    return all;
}

/* Returns the largest number of bands whose repeated work is within MOST_REPEATED, or 0 if bands
 * are not possible. The result does not depend on the number of threads, because the choice of a
 * sweep's steps must not depend on it. */
static uint32_t count(cost *out, const fv_cut *c, uint32_t first, uint32_t end)
{
    static const uint32_t counts[] = {4, 6, 8, 12, 16, 24, 32};
    const uint32_t all = c->graph->step[end - 1].prob.dim[FV_DIM_ROWS] / last_width(c, first, end);
    uint32_t n = 0;
    for (size_t i = 0; i < sizeof counts / sizeof *counts && counts[i] <= all; i++) {
        const cost more = cost_of(c, first, end, counts[i]);
        if (more.work == 0 || more.work > 1 + MOST_REPEATED)
            break;
        *out = more;
        n = counts[i];
    }
    return n;
}

static uint64_t bytes_of(const fv_value *v)
{
    return fv_size_mul(v->need, fv_value_stride(v));
}

/* Returns the bytes of the largest value that only these steps use, with all of its rows. */
static uint64_t largest_inside(const fv_cut *c, uint32_t first, uint32_t end)
{
    uint64_t most = 0;
    for (uint32_t i = first; i < end; i++) {
        const fv_id id = c->graph->step[i].dead ? FV_NO_VALUE : written(&c->graph->step[i]);
        if (id >= 0 && fv_halo_inside(c, first, end, id) && bytes_of(&c->graph->value[id]) > most)
            most = bytes_of(&c->graph->value[id]);
    }
    return most;
}

/* Returns the maximum bytes of the values inside the sweep that are alive at the same time. The
 * result of step i has rows[i - first] rows. */
static uint64_t bytes_inside(const fv_cut *c, uint32_t first, uint32_t end, const uint32_t *rows)
{
    uint64_t most = 0;
    for (uint32_t i = first; i < end; i++) {
        uint64_t bytes = 0;
        for (uint32_t j = first; j <= i; j++) {
            const fv_id id = c->graph->step[j].dead ? FV_NO_VALUE : written(&c->graph->step[j]);
            if (id < 0 || c->life[id].first_step != j || c->life[id].last_step < i ||
                !fv_halo_inside(c, first, end, id))
                continue;
            const uint64_t stride = fv_value_stride(&c->graph->value[id]);
            bytes = fv_size_add(bytes, fv_size_mul(rows[j - first], stride));
        }
        most = bytes > most ? bytes : most;
    }
    return most;
}

/* Returns the bytes of the values outside the sweep that are alive in steps [first, end). */
static uint64_t bytes_outside(const fv_cut *c, uint32_t first, uint32_t end)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < c->graph->values; i++) {
        const fv_value *v = &c->graph->value[i];
        const fv_value_life *l = &c->life[i];
        if (v->kind == FV_VALUE_ROWS && l->first_step < end && l->last_step >= first &&
            !fv_halo_inside(c, first, end, (fv_id)i))
            bytes = fv_size_add(bytes, bytes_of(v));
    }
    return bytes;
}

/* Returns the bytes of all values that are alive at one step, with all of their rows. */
static uint64_t bytes_at(const fv_cut *c, uint32_t step)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < c->graph->values; i++) {
        const fv_value *v = &c->graph->value[i];
        const fv_value_life *l = &c->life[i];
        if (v->kind == FV_VALUE_ROWS && l->first_step <= step && l->last_step >= step)
            bytes = fv_size_add(bytes, bytes_of(v));
    }
    return bytes;
}

/* Returns whether a step inside the sweep reads a whole grid, for instance at another resolution,
 * which chunks and row tiles do not allow. */
static bool needs_bands(const fv_cut *c, uint32_t first, uint32_t end)
{
    for (uint32_t i = first; i < end; i++)
        if (!c->graph->step[i].dead && line_of(&c->graph->step[i]) &&
            fv_step_span(&c->graph->step[i]) != FV_SPAN_LOCAL &&
            writer(&(band){c, first, end, {{0, 0}}}, i, c->graph->step[i].use[0].view.id) >= 0)
            return true;
    return false;
}

/* Returns the bytes that are alive if steps [first, end) are a sweep of chunks or row tiles, or at
 * the step after them, whichever is more. */
static uint64_t bytes_tiled(const fv_cut *c, uint32_t first, uint32_t end)
{
    uint64_t bytes = bytes_outside(c, first, end);
    for (uint32_t y = 0; y < c->graph->values; y++)
        if (fv_in_place_likely(c, first, end, (fv_id)y))
            bytes -= bytes_of(&c->graph->value[y]);
    const uint64_t next = end < c->graph->steps ? bytes_at(c, end) : 0;
    return bytes > next ? bytes : next;
}

/* Does the same as fv_band_end. Sets *least to the bytes that are alive in the sweep or at the step
 * after it, whichever is more. */
static uint32_t best_end(const fv_cut *c, uint32_t first, uint32_t threads, uint32_t *bands,
                         uint64_t *least)
{
    enum {
        WORKERS = 2
    }; /* number of workers of a small board, which is assumed when memory is compared */
    uint32_t best = first;
    uint64_t whole = 0; /* maximum bytes at any step, without bands */
    *least = UINT64_MAX;
    for (uint32_t end = first + 1; end <= c->graph->steps && end - first <= MOST_STEPS; end++) {
        const fv_step *s = &c->graph->step[end - 1];
        cost of;
        if (s->dead)
            continue;
        const uint64_t now = bytes_at(c, end - 1);
        whole = now > whole ? now : whole;
        if (!can_be_banded(s))
            break;
        if (!needs_bands(c, first, end) || largest_inside(c, first, end) < LARGE)
            continue;
        const uint32_t n = count(&of, c, first, end);
        if (n == 0)
            continue;
        const uint64_t bytes =
            fv_size_add(bytes_outside(c, first, end),
                        fv_size_mul(WORKERS, bytes_inside(c, first, end, of.row)));
        /* the step after the sweep needs the values that the sweep leaves */
        const uint64_t next = end < c->graph->steps ? bytes_at(c, end) : 0;
        if (bytes >= whole || (bytes > next ? bytes : next) > *least)
            continue;
        *least = bytes > next ? bytes : next;
        best = end;
        *bands = n > threads ? n / threads * threads : n;
    }
    return best;
}

uint32_t fv_band_end(const fv_cut *c, uint32_t first, uint32_t threads, uint32_t *bands)
{
    uint64_t bytes;
    return best_end(c, first, threads, bands, &bytes);
}

uint32_t fv_band_begin(const fv_cut *c, uint32_t first, uint32_t cut)
{
    uint32_t best = cut, bands;
    uint64_t least = bytes_tiled(c, first, cut);
    for (uint32_t at = cut + 1; at-- > first + 1;) {
        uint64_t bytes;
        if (at < c->graph->steps && c->graph->step[at].dead)
            continue;
        if (at < cut && !can_be_banded(&c->graph->step[at]))
            break;
        const uint32_t end = best_end(c, at, 1, &bands, &bytes);
        const uint64_t before = bytes_tiled(c, first, at);
        bytes = before > bytes ? before : bytes;
        if (end <= cut || bytes >= least)
            continue;
        least = bytes;
        best = at;
    }
    return best;
}

/* ---- the sweep ---- */

void fv_band_rows(fv_cut *c, fv_plan_sweep *w)
{
    band k = {c, w->first, w->first + w->count, {{0, 0}}};
    for (uint32_t u = 0; u < w->bands; u++) {
        find_rows(&k, part(c, k.first, k.end, u, w->bands));
        for (uint32_t i = k.first; i < k.end; i++) {
            const fv_rows r = k.row[i - k.first];
            w->band[(size_t)(i - k.first) * w->bands + u] = r;
            const fv_id id = c->graph->step[i].dead ? FV_NO_VALUE : written(&c->graph->step[i]);
            if (id < 0 || !fv_halo_inside(c, k.first, k.end, id))
                continue;
            uint32_t *most = &c->life[id].band_rows;
            *most = *most > r.end - r.first ? *most : r.end - r.first;
        }
    }
}
