/* check_foveated.c: FOVEATED and CELLS: every cell of every level is looked at, and taken if it
 * lies between the two regions. */
#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "tests/kernels/check_softmax.h"

/* Cells of all levels of a grid, counted by hand: levels are added until the last has at most ten
 * on a side. */
typedef struct grid {
    uint32_t prefix, width, height, margin, levels;
} grid;

typedef struct area {
    int64_t y0, y1, x0, x1;
} area;

static grid grid_of(const check_case *c)
{
    const uint32_t *dim = c->args.prob.dim;
    grid g = {.width = dim[FV_FOVEA_WIDTH],
              .height = dim[FV_FOVEA_HEIGHT],
              .margin = dim[FV_FOVEA_MARGIN]};
    const double side = fmax(g.width, g.height);
    g.prefix = dim[FV_ATTN_KEYS] - g.width * g.height;
    for (g.levels = 1; ceil(side / pow(2, g.levels)) > 10;)
        g.levels++;
    return g;
}

static int64_t lesser(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Cell number `cell` of all levels; its level, 0: there are no more. */
static uint32_t cell_area(const grid *g, uint32_t cell, area *out)
{
    for (uint32_t level = 1; level <= g->levels; level++) {
        const int64_t side = 1 << level;
        for (int64_t y = 0; y < g->height; y += side)
            for (int64_t x = 0; x < g->width; x += side, cell--) {
                *out = (area){y, lesser(y + side, g->height), x, lesser(x + side, g->width)};
                if (cell == 0)
                    return level;
            }
    }
    return 0;
}

static uint32_t cell_count(const grid *g)
{
    area a;
    uint32_t n = 0;
    while (cell_area(g, n, &a))
        n++;
    return n;
}

/* ---- CELLS ---- */

static const struct {
    uint32_t prefix, width, height, margin, heads, d, dv, gap;
    uint8_t types[4];
} sizes[] = {
    {0, 1, 1, 4, 1, 1, 1, 0},
    {1, 5, 3, 1, 2, 3, 7, 1},
    {1, 9, 17, 1, 1, 16, 16, 0},
    {5, 37, 23, 4, 2, 17, 9, 2},
    {1, 21, 21, 2, 1, 64, 33, 0},
    {0, 90, 7, 3, 1, 5, 8, 3},
    {2, 16, 16, 4, 3, 64, 64, 0},
    {1, 9, 17, 1, 1, 16, 16, 0, {FV_BF16, FV_BF16, FV_BF16, FV_BF16}},
    {1, 21, 21, 2, 2, 63, 34, 1, {FV_F32, FV_BF16, FV_BF16, FV_F32}},
    {4, 37, 11, 4, 1, 9, 2, 0, {FV_BF16, FV_F32, FV_BF16, FV_BF16}},
    {1, 37, 37, 4, 3, 64, 64, 0},
    {1, 37, 37, 4, 3, 64, 64, 0, {FV_BF16, FV_BF16, FV_BF16, FV_BF16}},
};
enum { SIZES = sizeof sizes / sizeof *sizes, BENCHED = 10 };

static uint32_t set_grid(check_case *c, uint32_t index)
{
    uint32_t *dim = c->args.prob.dim;
    dim[FV_ATTN_KEYS] = sizes[index].prefix + sizes[index].width * sizes[index].height;
    dim[FV_FOVEA_WIDTH] = sizes[index].width;
    dim[FV_FOVEA_HEIGHT] = sizes[index].height;
    return dim[FV_ATTN_KEYS];
}

static bool make_cells(check_case *c, uint32_t index)
{
    if (index >= SIZES)
        return false;
    const uint32_t tokens = set_grid(c, index), width = sizes[index].d;
    const grid g = grid_of(c);
    c->args.prob.dim[FV_DIM_ROWS] = cell_count(&g);
    c->args.prob.dim[FV_ROW_C] = width;
    check_matrix(c, FV_CELLS_IN, CHECK_BASE, tokens, width, sizes[index].gap);
    check_matrix(c, FV_CELLS_OUT, CHECK_ROW, cell_count(&g), width, 2 * sizes[index].gap);
    if (sizes[index].types[0] != FV_NONE) {
        c->operand[FV_CELLS_IN].storage = sizes[index].types[1];
        c->operand[FV_CELLS_OUT].storage = sizes[index].types[2];
    }
    c->bench = index >= BENCHED;
    return true;
}

static void cells(const check_case *c, uint32_t row, double *want, double *allowed)
{
    const grid g = grid_of(c);
    area a = {0};
    cell_area(&g, row, &a);
    const double tokens = (double)((a.y1 - a.y0) * (a.x1 - a.x0));
    for (uint32_t i = 0; i < c->args.prob.dim[FV_ROW_C]; i++) {
        double sum = 0., size = 0.;
        for (int64_t y = a.y0; y < a.y1; y++)
            for (int64_t x = a.x0; x < a.x1; x++) {
                const double at =
                    check_at(c, FV_CELLS_IN, g.prefix + (uint32_t)(y * g.width + x), i);
                sum += at;
                size += fabs(at);
            }
        want[i] = sum / tokens;
        allowed[i] = check_allowed(tokens + 1, size / tokens) + FLT_MIN;
    }
}

const check_op check_cells = {.make = make_cells, .oracle = cells};

/* ---- FOVEATED ---- */

static bool make(check_case *c, uint32_t index)
{
    if (index >= SIZES)
        return false;
    const uint32_t tokens = set_grid(c, index), gap = sizes[index].gap;
    const uint32_t heads = sizes[index].heads, d = sizes[index].d, dv = sizes[index].dv;
    const grid g = grid_of(c);
    c->args.prob.heads = (uint16_t)heads;
    c->args.prob.dim[FV_DIM_ROWS] = tokens;
    c->args.prob.dim[FV_ATTN_D] = d;
    c->args.prob.dim[FV_ATTN_DV] = dv;
    c->args.prob.dim[FV_FOVEA_MARGIN] = sizes[index].margin;
    c->args.f[0] = 1.f / sqrtf((float)d);
    check_matrix(c, FV_FOVEATED_Q, CHECK_ROW, tokens, heads * d, gap);
    check_matrix(c, FV_FOVEATED_K, CHECK_BASE, tokens, heads * d, gap);
    check_matrix(c, FV_FOVEATED_V, CHECK_BASE, tokens, heads * dv, gap);
    check_matrix(c, FV_FOVEATED_CELL_K, CHECK_BASE, cell_count(&g), heads * d, 2 * gap);
    check_matrix(c, FV_FOVEATED_CELL_V, CHECK_BASE, cell_count(&g), heads * dv, gap);
    check_matrix(c, FV_FOVEATED_OUT, CHECK_ROW, tokens, heads * dv, gap);
    check_softmax_types(c, sizes[index].types);
    if (sizes[index].types[0] != FV_NONE) { /* types of cells and of tokens may differ */
        c->operand[FV_FOVEATED_CELL_K].storage = sizes[index].types[0];
        c->operand[FV_FOVEATED_CELL_V].storage = sizes[index].types[3];
    }
    /* Scores far beyond the range of exp, while one can still say which key wins. */
    c->operand[FV_FOVEATED_Q].huge = c->operand[FV_FOVEATED_K].huge = 30.f;
    c->operand[FV_FOVEATED_CELL_K].huge = 30.f;
    c->bench = index >= BENCHED;
    return true;
}

/* [from, from + 8) with `margin` on both sides, in whole multiples of `unit`. */
static void widen(int64_t *low, int64_t *high, int64_t from, int64_t margin, int64_t unit,
                  int64_t end)
{
    *low = (int64_t)fmax(0., floor((double)(from - margin) / (double)unit) * (double)unit);
    *high = lesser((int64_t)(ceil((double)(from + 8 + margin) / (double)unit) * (double)unit), end);
}

/* The region up to which the block at (y, x) sees cells of a level; nothing for level -1. */
static area region(const grid *g, int64_t level, int64_t y, int64_t x)
{
    area a = {0, g->height, 0, g->width};
    if (level < 0)
        return (area){0, 0, 0, 0};
    if (level == g->levels)
        return a;
    const int64_t unit = (int64_t)1 << (level + 1), margin = g->margin * (unit - 1);
    widen(&a.y0, &a.y1, y, margin, unit, g->height);
    widen(&a.x0, &a.x1, x, margin, unit, g->width);
    return a;
}

static bool inside(const area *a, const area *of)
{
    return a->y0 >= of->y0 && a->y1 <= of->y1 && a->x0 >= of->x0 && a->x1 <= of->x1;
}

/* A key: where its value is, where the key itself, and the tokens that it stands for. */
typedef struct key {
    check_spot k, v;
    double tokens;
} key;

static uint32_t keys_of(const grid *g, uint32_t row, key *out)
{
    const uint32_t tokens = g->prefix + g->width * g->height;
    uint32_t n = 0, level;
    area a;
    const int64_t at = (int64_t)row - g->prefix;
    const int64_t y = at / g->width / 8 * 8, x = at % g->width / 8 * 8;
    const area near = region(g, 0, y, x);
    for (uint32_t j = 0; j < tokens; j++) {
        const int64_t ty = ((int64_t)j - g->prefix) / g->width, tx = (j - g->prefix) % g->width;
        const area token = {ty, ty + 1, tx, tx + 1};
        if (row < g->prefix || j < g->prefix || inside(&token, &near))
            out[n++] = (key){{FV_FOVEATED_K, j}, {FV_FOVEATED_V, j}, 1};
    }
    for (uint32_t j = 0; row >= g->prefix && (level = cell_area(g, j, &a)) > 0; j++) {
        const area outer = region(g, level, y, x), inner = region(g, (int64_t)level - 1, y, x);
        if (inside(&a, &outer) && !inside(&a, &inner))
            out[n++] = (key){{FV_FOVEATED_CELL_K, j},
                             {FV_FOVEATED_CELL_V, j},
                             (double)((a.y1 - a.y0) * (a.x1 - a.x0))};
    }
    return n;
}

/* Scores of the keys, and the largest error that one may have. */
static double scores(const check_case *c, uint32_t row, uint32_t head, const key *seen,
                     uint32_t keys, double *s)
{
    const uint32_t d = c->args.prob.dim[FV_ATTN_D];
    double error = 0.;
    for (uint32_t j = 0; j < keys; j++) {
        check_score x = {0};
        const double bias = log(seen[j].tokens);
        for (uint32_t i = 0; i < d; i++)
            check_score_add(&x, c, check_at(c, FV_FOVEATED_Q, row, head * d + i),
                            check_at(c, seen[j].k.operand, seen[j].k.row, head * d + i));
        s[j] = x.sum + bias;
        error = fmax(error, check_allowed(d + 6., x.size + bias) + x.rounding);
    }
    return error;
}

static void oracle(const check_case *c, uint32_t row, double *want, double *allowed)
{
    const uint32_t dv = c->args.prob.dim[FV_ATTN_DV];
    const grid g = grid_of(c);
    const uint32_t most = c->args.prob.dim[FV_ATTN_KEYS] + cell_count(&g);
    key *seen = malloc(most * sizeof *seen);
    check_spot *v = malloc(most * sizeof *v);
    double *s = malloc(most * sizeof *s);
    const uint32_t keys = keys_of(&g, row, seen);
    for (uint32_t j = 0; j < keys; j++)
        v[j] = seen[j].v;
    for (uint32_t h = 0; h < c->args.prob.heads; h++) {
        const double error = scores(c, row, h, seen, keys, s);
        check_softmax_mean(c, v, keys, h * dv, dv, s, error, want + h * dv, allowed + h * dv);
    }
    free(seen);
    free(v);
    free(s);
}

const check_op check_foveated = {.make = make, .oracle = oracle};
