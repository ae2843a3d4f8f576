/* check_foveated.c: cases and definitions of FOVEATED and CELLS. */
#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "ops/contracts/softmax_attention.h"
#include "tests/kernels/check_keys_i8.h"
#include "tests/kernels/oracle_fovea.h"

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
    {0, 1, 1, 4, 1, 1, 1, 0, {FV_F32, FV_U8, FV_NONE, FV_F32}},
    {1, 5, 3, 1, 2, 3, 7, 1, {FV_BF16, FV_U8, FV_NONE, FV_BF16}},
    {5, 37, 23, 4, 2, 17, 9, 2, {FV_F32, FV_U8, FV_NONE, FV_BF16}},
    {1, 21, 21, 2, 1, 64, 33, 0, {FV_BF16, FV_U8, FV_NONE, FV_F32}},
    {1, 37, 37, 4, 3, 64, 64, 0, {FV_BF16, FV_U8, FV_NONE, FV_BF16}},
};
/* The last sizes are for int8 products of FOVEATED. */
enum { SIZES = sizeof sizes / sizeof *sizes, WHOLE = 5, BENCHED = 10 };

static uint32_t set_grid(check_case *c, uint32_t index)
{
    return fovea_grid_set(c, sizes[index].prefix, sizes[index].width, sizes[index].height);
}

static bool make_cells(check_case *c, uint32_t index)
{
    if (index >= SIZES - WHOLE)
        return false;
    const uint32_t tokens = set_grid(c, index), width = sizes[index].d;
    const fovea_grid g = fovea_grid_of(c);
    c->args.prob.dim[FV_DIM_ROWS] = fovea_grid_cells(&g);
    c->args.prob.dim[FV_ROW_C] = width;
    check_matrix(c, FV_CELLS_IN, CHECK_BASE, tokens, width, sizes[index].gap);
    check_matrix(c, FV_CELLS_OUT, CHECK_ROW, fovea_grid_cells(&g), width, 2 * sizes[index].gap);
    if (sizes[index].types[0] != FV_NONE) {
        c->operand[FV_CELLS_IN].storage = sizes[index].types[1];
        c->operand[FV_CELLS_OUT].storage = sizes[index].types[2];
    }
    c->bench = index >= BENCHED;
    return true;
}

static void cells(const check_case *c, uint32_t row, double *want, double *allowed)
{
    const fovea_grid g = fovea_grid_of(c);
    fovea_area a;
    fovea_grid_cell(&g, row, &a);
    const double tokens = fovea_area_tokens(&a);
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
    const fovea_grid g = fovea_grid_of(c);
    c->args.prob.heads = (uint16_t)heads;
    c->args.prob.dim[FV_DIM_ROWS] = tokens;
    c->args.prob.dim[FV_ATTN_D] = d;
    c->args.prob.dim[FV_ATTN_DV] = dv;
    c->args.prob.dim[FV_FOVEA_MARGIN] = sizes[index].margin;
    c->args.f[0] = 1.f / sqrtf((float)d);
    check_matrix(c, FV_FOVEATED_Q, CHECK_ROW, tokens, heads * d, gap);
    const bool whole = sizes[index].types[1] == FV_U8;
    if (whole) {
        const fv_keys_i8 l = fv_keys_i8_of((size_t)tokens + fovea_grid_cells(&g), d, dv);
        check_matrix(c, FV_FOVEATED_K, CHECK_BASE, heads, (uint32_t)l.bytes, 64 * gap);
        c->operand[FV_FOVEATED_K].type = FV_U8;
    } else {
        check_matrix(c, FV_FOVEATED_K, CHECK_BASE, tokens, heads * d, gap);
        check_matrix(c, FV_FOVEATED_V, CHECK_BASE, tokens, heads * dv, gap);
        check_matrix(c, FV_FOVEATED_CELL_K, CHECK_BASE, fovea_grid_cells(&g), heads * d, 2 * gap);
        check_matrix(c, FV_FOVEATED_CELL_V, CHECK_BASE, fovea_grid_cells(&g), heads * dv, gap);
    }
    check_matrix(c, FV_FOVEATED_OUT, CHECK_ROW, tokens, heads * dv, gap);
    check_softmax_types(c, sizes[index].types);
    if (sizes[index].types[0] != FV_NONE &&
        !whole) { /* cells and tokens may have different types */
        c->operand[FV_FOVEATED_CELL_K].storage = sizes[index].types[0];
        c->operand[FV_FOVEATED_CELL_V].storage = sizes[index].types[3];
    }
    /* Scores are far outside the range of exp, but still determine which key has the largest
     * weight. */
    c->operand[FV_FOVEATED_Q].huge = c->operand[FV_FOVEATED_K].huge = 30.f;
    c->operand[FV_FOVEATED_CELL_K].huge = 30.f;
    c->bench = index >= BENCHED;
    return true;
}

/* Computes the scores of the keys; returns the largest error of a score. */
static double scores(const check_case *c, uint32_t row, uint32_t head, const fovea_key *seen,
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

static void prepare(check_case *c, check_random *r)
{
    const fovea_grid g = fovea_grid_of(c);
    if (c->args.prob.acc == FV_I32)
        check_keys_i8_draw(c, FV_FOVEATED_K,
                           (size_t)c->args.prob.dim[FV_ATTN_KEYS] + fovea_grid_cells(&g), r);
}

/* Computes a row with int8 keys. In the operand the cells follow the tokens. */
static void oracle_i8(const check_case *c, uint32_t row, const fovea_key *key, uint32_t keys,
                      double *want, double *allowed)
{
    const uint32_t *dim = c->args.prob.dim, dv = dim[FV_ATTN_DV];
    const fovea_grid g = fovea_grid_of(c);
    const fv_keys_i8 l =
        fv_keys_i8_of((size_t)dim[FV_ATTN_KEYS] + fovea_grid_cells(&g), dim[FV_ATTN_D], dv);
    check_key_i8 *seen = malloc(keys * sizeof *seen);
    for (uint32_t j = 0; j < keys; j++) {
        const bool cell = key[j].k.operand == FV_FOVEATED_CELL_K;
        seen[j] = (check_key_i8){key[j].k.row + (cell ? dim[FV_ATTN_KEYS] : 0), log(key[j].tokens)};
    }
    for (uint32_t h = 0; h < c->args.prob.heads; h++)
        check_softmax_i8(c, &l, check_keys_i8_row(c, FV_FOVEATED_K, h), row, h, seen, keys, false,
                         want + h * dv, allowed + h * dv);
    free(seen);
}

static void oracle(const check_case *c, uint32_t row, double *want, double *allowed)
{
    const uint32_t dv = c->args.prob.dim[FV_ATTN_DV];
    const fovea_grid g = fovea_grid_of(c);
    const uint32_t most = c->args.prob.dim[FV_ATTN_KEYS] + fovea_grid_cells(&g);
    fovea_key *seen = malloc(most * sizeof *seen);
    check_spot *v = malloc(most * sizeof *v);
    double *s = malloc(most * sizeof *s);
    const uint32_t keys = fovea_grid_keys(&g, row, seen);
    for (uint32_t j = 0; j < keys; j++)
        v[j] = seen[j].v;
    if (c->args.prob.acc == FV_I32)
        oracle_i8(c, row, seen, keys, want, allowed);
    for (uint32_t h = 0; c->args.prob.acc != FV_I32 && h < c->args.prob.heads; h++) {
        const double error = scores(c, row, h, seen, keys, s);
        check_softmax_mean(c, v, keys, h * dv, dv, s, error, want + h * dv, allowed + h * dv);
    }
    free(seen);
    free(v);
    free(s);
}

const check_op check_foveated = {.make = make, .prepare = prepare, .oracle = oracle};
