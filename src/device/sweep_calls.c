/* sweep_calls.c: makes the kernel calls of a sweep, for chunks, row tiles with halo, bands, or
 * units of a step. */
#include "device/sweep_calls.h"

#include "base/num.h"

/* for calls whose operands do not depend on the position in the sweep */
static const fv_call_place nowhere;

static bool grouped(const fv_bound *b)
{
    return fv_op_table[b->l.args.prob.op]->span == FV_SPAN_REDUCE;
}

/* Makes the calls of steps [first, first + count) of a sweep for the chunks of one reduction group.
 */
static void group_calls(const fv_sweep *s, uint32_t first, uint32_t count, uint32_t group,
                        uint32_t frame_rows, fv_sweep_calls_fn *fn, void *ctx)
{
    uint32_t all = fv_min_u32(s->rows, frame_rows), chunks = fv_ceil_div(all, s->chunk);
    uint32_t begin = (uint32_t)((uint64_t)group * chunks / s->groups);
    uint32_t end = (uint32_t)((uint64_t)(group + 1) * chunks / s->groups);
    for (uint32_t chunk = begin; chunk < end; chunk++) {
        uint32_t row0 = chunk * s->chunk;
        for (uint32_t k = first; k < first + count; k++) {
            fv_call c = {.row0 = row0,
                         .rows = fv_min_u32(all - row0, s->chunk),
                         .cols = s->step[k]->l.cols,
                         .group = group,
                         .partials = s->partials,
                         .first = chunk == begin};
            fn(ctx, s->step[k], &nowhere, &c);
        }
    }
}

/* Returns the number of grid rows from `line` on, at most `lines`, that are contiguous in every
 * ring. */
static uint32_t contiguous_lines(const fv_launch *l, uint32_t line, uint32_t lines)
{
    for (uint32_t o = 0; o < FV_OPERANDS; o++) {
        const fv_operand *op = &l->operand[o];
        if (!op->ring || op->kind != FV_KIND_ROW)
            continue;
        const uint32_t left = op->ring - (line + op->shift) % op->ring;
        lines = lines < left ? lines : left;
    }
    return lines;
}

/* Returns the number of grid rows from `line` on, at most `lines`, that all belong to the unit, or
 * all to one neighbour. */
static uint32_t lines_of_one(const fv_call_place *at, uint32_t line, uint32_t lines)
{
    const uint32_t first = at->own.first / at->width, end = at->own.end / at->width;
    const uint32_t left = line < first ? first - line : line < end ? end - line : lines;
    return lines < left ? lines : left;
}

static bool has_border(const fv_launch *l)
{
    for (uint32_t o = 0; o < FV_OPERANDS; o++)
        if (l->operand[o].border)
            return true;
    return false;
}

/* Makes the calls for the reduction groups of one unit of a sweep of row tiles. */
static void row_tile_calls(const fv_sweep *s, uint32_t run, fv_sweep_calls_fn *fn, void *ctx)
{
    const uint32_t chunks = fv_ceil_div(s->rows, s->chunk);
    uint32_t group = (uint32_t)((uint64_t)run * s->groups / s->runs);
    const int64_t tile = s->chunk / s->width, height = s->rows / s->width;
    const fv_call_place at = {s->width, run,
                              fv_sweep_calls_own(s->rows, s->chunk, s->groups, s->runs, run)};
    const int64_t begin = at.own.first / s->width, end = at.own.end / s->width;
    bool first = true;
    /* Begins with row tiles before the first one, in which steps with a halo compute the halo. */
    for (int64_t y = begin - (2 * (int64_t)s->reach + tile - 1) / tile * tile; y < end; y += tile) {
        if (y >= begin && (uint64_t)(y / tile) >= (uint64_t)(group + 1) * chunks / s->groups) {
            group++;
            first = true;
        }
        for (uint32_t k = 0; k < s->steps; k++) {
            const fv_launch *l = &s->step[k]->l;
            const int64_t halo = l->halo, from = begin - halo > 0 ? begin - halo : 0;
            int64_t line = y + halo > from ? y + halo : from;
            int64_t to = (y + tile < end ? y + tile : end) + halo;
            to = to < height ? to : height;
            for (uint32_t n; line < to; line += n) {
                n = contiguous_lines(l, (uint32_t)line, (uint32_t)(to - line));
                n = has_border(l) ? lines_of_one(&at, (uint32_t)line, n) : n;
                fv_call c = {.row0 = (uint32_t)line * s->width,
                             .rows = n * s->width,
                             .cols = l->cols,
                             .group = group,
                             .partials = s->partials,
                             .first = first && line == y};
                fn(ctx, s->step[k], &at, &c);
            }
        }
        first = first && y < begin;
    }
}

/* Makes the calls of all steps for one band, with at most tile_rows rows each. */
static void band_calls(const fv_sweep *s, uint32_t band, fv_sweep_calls_fn *fn, void *ctx)
{
    for (uint32_t k = 0; k < s->steps; k++) {
        const fv_launch *l = &s->step[k]->l;
        for (uint32_t row = l->band[band].first, end = l->band[band].end; row < end;) {
            fv_call c = {.row0 = row,
                         .rows = fv_min_u32(end - row, l->tile_rows),
                         .cols = l->cols,
                         .group = band,
                         .first = 1};
            row += c.rows;
            fn(ctx, s->step[k], &nowhere, &c);
        }
    }
}

static void unit_calls(fv_bound *step, uint32_t unit, uint32_t frame_rows, fv_sweep_calls_fn *fn,
                       void *ctx)
{
    const fv_launch *l = &step->l;
    uint32_t across = fv_ceil_div(l->cols, l->tile_cols), rows = fv_min_u32(l->rows, frame_rows);
    uint32_t row0 = unit / across * l->tile_rows, col0 = unit % across * l->tile_cols;
    fv_call c = {.row0 = row0,
                 .rows = fv_min_u32(rows - row0, l->tile_rows),
                 .col0 = col0,
                 .cols = fv_min_u32(l->cols - col0, l->tile_cols),
                 .first = 1};
    fn(ctx, step, &nowhere, &c);
}

fv_rows fv_sweep_calls_own(uint32_t rows, uint32_t chunk, uint32_t groups, uint32_t runs,
                           uint32_t unit)
{
    const uint64_t chunks = fv_ceil_div(rows, chunk);
    const uint64_t first = (uint64_t)unit * groups / runs * chunks / groups * chunk;
    const uint64_t end = (uint64_t)(unit + 1) * groups / runs * chunks / groups * chunk;
    return (fv_rows){(uint32_t)first, end < rows ? (uint32_t)end : rows};
}

static uint32_t units_of_one(const fv_sweep *s, uint32_t step, uint32_t rows)
{
    const fv_launch *l = &s->step[step]->l;
    if (s->streamed)
        return s->runs;
    if (grouped(s->step[step]))
        return s->groups;
    return fv_ceil_div(fv_min_u32(rows, l->rows), l->tile_rows) *
           fv_ceil_div(l->cols, l->tile_cols);
}

uint32_t fv_sweep_calls_batch(const fv_sweep *s, fv_portion most)
{
    return fv_min_u32(s->batch ? s->batch : 1, most.batch);
}

uint32_t fv_sweep_calls_units(const fv_sweep *s, uint32_t step, fv_portion most)
{
    return fv_sweep_calls_batch(s, most) * units_of_one(s, step, most.rows);
}

/* Makes the calls of one unit of one frame. */
static void frame_calls(const fv_sweep *s, uint32_t step, uint32_t unit, uint32_t rows,
                        fv_sweep_calls_fn *fn, void *ctx)
{
    if (s->banded)
        band_calls(s, unit, fn, ctx);
    else if (s->streamed && s->width)
        row_tile_calls(s, unit, fn, ctx);
    else if (s->streamed)
        group_calls(s, 0, s->steps, unit, rows, fn, ctx);
    else if (grouped(s->step[step]))
        group_calls(s, step, 1, unit, rows, fn, ctx);
    else
        unit_calls(s->step[step], unit, rows, fn, ctx);
}

void fv_sweep_calls_unit(const fv_sweep *s, uint32_t step, uint32_t unit, fv_portion most,
                         fv_sweep_calls_fn *fn, void *ctx)
{
    fv_sweep of_frame = *s;
    const uint32_t units = units_of_one(s, step, most.rows);
    of_frame.step += unit / units * s->frame_stride;
    frame_calls(&of_frame, step, unit % units, most.rows, fn, ctx);
}

void fv_sweep_calls_sweep(const fv_sweep *s, fv_portion most, fv_sweep_calls_fn *fn, void *ctx)
{
    for (uint32_t k = 0; k < (s->streamed ? 1 : s->steps); k++) {
        const uint32_t units = fv_sweep_calls_units(s, k, most);
        for (uint32_t u = 0; u < units; u++)
            fv_sweep_calls_unit(s, k, u, most, fn, ctx);
    }
}

uint64_t fv_sweep_calls_saved_row(const fv_operand *o, uint32_t row, const fv_call_place *at)
{
    if (row >= at->own.end)
        return 2 * (uint64_t)(at->unit + 1) * o->border + row - at->own.end;
    return 2 * (uint64_t)at->unit * o->border + row - at->own.first; /* before the unit's own
                                                                        head */
}

uint64_t fv_sweep_calls_ring_row(const fv_operand *o, uint32_t row0, uint32_t width)
{
    return (uint64_t)(row0 / width + o->shift) % o->ring * width;
}
