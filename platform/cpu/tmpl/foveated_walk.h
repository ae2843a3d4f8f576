/* foveated_walk.h: visits the blocks of queries of a FOVEATED call, and for each block the keys
 * that it sees. The including file must define the types head and `gathered` and the functions
 * add_run(), attend_gathered() and write_part().
 */
#ifndef FOVEA_PLATFORM_FOVEATED_WALK_H
#define FOVEA_PLATFORM_FOVEATED_WALK_H

#include "base/num.h"
#include "ops/contracts/softmax_attention.h"
#include "ops/foveated.h"

/* Consecutive rows of a call that are queries [first, first + count) of a block: tokens next to
 * each other in a line of the grid. */
typedef struct part {
    size_t row, first, count;
} part;

static void attend_parts(const head *h, const part *p, size_t parts, fv_fovea_walk walk)
{
    gathered g = {.n = 0};
    fv_fovea_run run;
    const size_t queries = p[parts - 1].first + p[parts - 1].count;
    begin_queries(h->scratch, &h->l);
    for (size_t i = 0; i < parts; i++)
        pack_queries(h->scratch, &h->l, row_of(h, FV_FOVEATED_Q, p[i].row), h->type[FV_FOVEATED_Q],
                     h->ld[FV_FOVEATED_Q], p[i].first, p[i].first + p[i].count, h->scale);
    while (run = fv_fovea_next(&walk), run.count > 0)
        add_run(h, &g, run, queries);
    attend_gathered(h, &g, queries);
    for (size_t i = 0; i < parts; i++)
        write_part(h, row_of(h, FV_FOVEATED_OUT, p[i].row), p[i].first, p[i].first + p[i].count);
}

/* Attends the prefix tokens among the call's rows, which see all tokens; returns their number. */
static size_t attend_prefix(const head *h, const fv_call *c)
{
    const size_t left = c->row0 < h->fovea.prefix ? h->fovea.prefix - c->row0 : 0;
    const size_t rows = left < c->rows ? left : c->rows;
    fv_fovea_walk walk;
    fv_fovea_begin_prefix(&walk, &h->fovea);
    for (size_t r = 0; r < rows; r += QUERIES) {
        const part all = {r, 0, rows - r < QUERIES ? rows - r : QUERIES};
        attend_parts(h, &all, 1, walk);
    }
    return rows;
}

/* Attends those queries of the block at token (y, x) that are among tokens [from, end) of the grid.
 * Token `from` is row `row` of the call. */
static void attend_at(const head *h, uint32_t y, uint32_t x, size_t from, size_t end, size_t row)
{
    const fv_fovea *f = &h->fovea;
    const uint32_t bottom = fv_min_u32(y + FV_FOVEA_BLOCK, f->height);
    const uint32_t right = fv_min_u32(x + FV_FOVEA_BLOCK, f->width);
    part p[FV_FOVEA_BLOCK];
    size_t parts = 0, queries = 0;
    fv_fovea_walk walk;
    for (uint32_t i = y; i < bottom; i++) {
        const size_t line = (size_t)i * f->width;
        const size_t low = line + x > from ? line + x : from;
        const size_t high = line + right < end ? line + right : end;
        if (low >= high)
            continue;
        p[parts++] = (part){row + low - from, queries, high - low};
        queries += high - low;
    }
    if (parts == 0)
        return;
    fv_fovea_begin(&walk, f, y, x);
    attend_parts(h, p, parts, walk);
}

static void attend(const fv_args *a, const fv_call *c)
{
    for (size_t number = c->col0; number < (size_t)c->col0 + c->cols; number++) {
        const head h = head_of(a, c, number);
        const size_t skipped = attend_prefix(&h, c);
        const size_t from = c->row0 + skipped - h.fovea.prefix, end = from + c->rows - skipped;
        if (skipped == c->rows)
            continue;
        const uint32_t width = h.fovea.width;
        const uint32_t top = (uint32_t)(from / width) / FV_FOVEA_BLOCK * FV_FOVEA_BLOCK;
        for (uint32_t y = top; (size_t)y * width < end; y += FV_FOVEA_BLOCK)
            for (uint32_t x = 0; x < width; x += FV_FOVEA_BLOCK)
                attend_at(&h, y, x, from, end, skipped);
    }
}

#endif
