/* check_wsoftmax.c: cases and definition of WSOFTMAX. */
#include <math.h>
#include <stdlib.h>

#include "ops/contracts/softmax_attention.h"
#include "tests/kernels/check_keys_i8.h"
#include "tests/kernels/check_run.h"
#include "tests/kernels/check_softmax.h"

static bool make(check_case *c, uint32_t index)
{
    static const struct {
        uint32_t windows, window, heads, d, dv, gap, regions; /* 0: none are given */
        bool bias;
        uint8_t types[4]; /* types as in check_softmax.c */
        uint32_t
            columns; /* columns of a window, with relative positions; 0: no relative positions */
        bool int8;   /* int8 products, independent of `types` */
    } sizes[] = {
        {1, 1, 1, 1, 1, 0, 0, false},
        {5, 1, 2, 8, 8, 1, 2, true},
        {3, 4, 3, 12, 7, 0, 0, true},
        {6, 4, 1, 16, 16, 2, 3, false},
        {2, 49, 2, 32, 32, 0, 0, true},
        {3, 49, 3, 32, 32, 5, 3, true},
        {2, 50, 2, 24, 40, 1, 2, false},
        {1, 50, 1, 64, 64, 0, 0, false},
        {2, 144, 2, 32, 32, 0, 4, true},
        {1, 144, 1, 96, 96, 3, 0, false},
        {9, 16, 5, 9, 33, 0, 2, true},
        {1, 400, 1, 20, 20, 0, 2, true},
        {16, 49, 12, 32, 32, 0, 4, true},
        {16, 49, 12, 32, 32, 0, 0, true},
        {4, 144, 12, 32, 32, 0, 4, true},
        {1, 1, 2, 3, 3, 0, 0, false, {0}, 1},
        {3, 12, 2, 8, 8, 1, 0, false, {0}, 4},
        {2, 49, 3, 64, 64, 0, 2, false, {0}, 7},
        {5, 70, 1, 33, 9, 2, 0, false, {0}, 14},
        {2, 196, 2, 64, 64, 3, 0, false, {FV_BF16, FV_BF16, FV_BF16, FV_BF16}, 14},
        {4, 196, 12, 64, 64, 0, 0, false, {0}, 14},
        {1, 1, 1, 1, 1, 0, 0, false, {FV_F32, FV_F32, FV_F32, FV_F32}},
        {5, 1, 2, 8, 8, 1, 2, true, {FV_BF16, FV_BF16, FV_BF16, FV_BF16}},
        {3, 49, 3, 32, 32, 5, 3, true, {FV_BF16, FV_BF16, FV_BF16, FV_BF16}},
        {2, 50, 2, 23, 40, 1, 2, false, {FV_F32, FV_BF16, FV_BF16, FV_F32}},
        {9, 16, 5, 9, 33, 0, 2, true, {FV_BF16, FV_F32, FV_F32, FV_BF16}},
        {1, 143, 1, 96, 95, 3, 0, false, {FV_BF16, FV_BF16, FV_F32, FV_BF16}},
        {16, 49, 12, 32, 32, 0, 4, true, {FV_BF16, FV_BF16, FV_BF16, FV_BF16}},
        {1, 1, 1, 1, 1, 0, 0, false, {0}, 0, true},
        {5, 1, 2, 8, 8, 1, 0, false, {FV_BF16, FV_BF16, FV_BF16, FV_BF16}, 0, true},
        {3, 49, 3, 32, 32, 5, 0, false, {FV_BF16, FV_BF16, FV_BF16, FV_BF16}, 7, true},
        {2, 50, 2, 23, 40, 1, 0, false, {FV_F32, FV_BF16, FV_BF16, FV_F32}, 0, true},
        {1, 143, 1, 96, 95, 3, 0, false, {FV_BF16, FV_BF16, FV_F32, FV_BF16}, 11, true},
        {2, 300, 2, 17, 9, 2, 0, false, {FV_BF16, FV_F32, FV_F32, FV_BF16}, 20, true},
        {1, 257, 1, 64, 64, 0, 0, false, {0}, 0, true},
        {4, 196, 12, 64, 64, 0, 0, false, {FV_BF16, FV_BF16, FV_BF16, FV_BF16}, 14, true},
        {4, 144, 12, 64, 64, 0, 0, false, {FV_BF16, FV_BF16, FV_BF16, FV_BF16}, 0, true},
        {4, 64, 12, 64, 64, 0, 0, false, {FV_BF16, FV_BF16, FV_BF16, FV_BF16}, 0, true},
        {4, 144, 12, 64, 64, 0, 0, false, {FV_BF16, FV_BF16, FV_BF16, FV_BF16}},
        {4, 64, 12, 64, 64, 0, 0, false, {FV_BF16, FV_BF16, FV_BF16, FV_BF16}},
        {4, 144, 12, 64, 64, 0, 0, false},
        {4, 64, 12, 64, 64, 0, 0, false},
    };
    if (index >= sizeof sizes / sizeof *sizes)
        return false;
    const uint32_t heads = sizes[index].heads, d = sizes[index].d, dv = sizes[index].dv;
    const uint32_t window = sizes[index].window, rows = sizes[index].windows * window;
    c->args.prob.heads = (uint16_t)heads;
    c->args.prob.dim[FV_DIM_ROWS] = rows;
    c->args.prob.dim[FV_ATTN_D] = d;
    c->args.prob.dim[FV_ATTN_DV] = dv;
    c->args.prob.dim[FV_ATTN_KEYS] = window;
    c->args.prob.dim[FV_REL_POS_COLUMNS] = sizes[index].columns;
    c->args.f[0] = 1.f / sqrtf((float)d);
    c->align = window;
    if (sizes[index].regions) {
        uint32_t *region = malloc(rows * sizeof *region);
        if (!region)
            abort();
        check_random r = {index};
        for (uint32_t i = 0; i < rows; i++) /* all tokens of some windows are in one region */
            region[i] = i / window % 3 ? check_below(&r, sizes[index].regions) : 1;
        c->args.table = region;
    }
    check_matrix(c, FV_WINDOW_Q, CHECK_ROW, rows, heads * d, sizes[index].gap);
    check_matrix(c, FV_WINDOW_K, CHECK_ROW, rows, heads * d, 0);
    check_matrix(c, FV_WINDOW_V, CHECK_ROW, rows, heads * dv, sizes[index].gap);
    if (sizes[index].bias)
        check_matrix(c, FV_WINDOW_PARAM, CHECK_BASE, heads * window, window, sizes[index].gap);
    if (sizes[index].columns)
        check_matrix(c, FV_WINDOW_PARAM, CHECK_ROW, rows, fv_columns_rel_pos(&c->args.prob),
                     sizes[index].gap);
    check_matrix(c, FV_WINDOW_OUT, CHECK_ROW, rows, heads * dv, sizes[index].gap);
    check_softmax_types(c, sizes[index].types);
    if (sizes[index].int8)
        c->args.prob.acc = FV_I32;
    /* Scores are far outside the range of exp, but still determine which key has the largest
     * weight. */
    c->operand[FV_WINDOW_Q].huge = c->operand[FV_WINDOW_K].huge = 30.f;
    c->operand[FV_WINDOW_PARAM].huge = 1e3f;
    c->bench = heads == 12;
    return true;
}

/* Computes the scores of a row's window; returns the largest error of a score. */
static double scores(const check_case *c, uint32_t row, uint32_t head, double *s)
{
    const uint32_t d = c->args.prob.dim[FV_ATTN_D], window = c->args.prob.dim[FV_ATTN_KEYS];
    const uint32_t base = row - row % window, *region = c->args.table;
    double error = 0.;
    for (uint32_t j = 0; j < window; j++) {
        check_score x = {0};
        for (uint32_t i = 0; i < d; i++)
            check_score_add(&x, c, check_at(c, FV_WINDOW_Q, row, head * d + i),
                            check_at(c, FV_WINDOW_K, base + j, head * d + i));
        check_score_add_relative(&x, c, FV_WINDOW_PARAM, row, head, j);
        if (c->operand[FV_WINDOW_PARAM].kind == CHECK_BASE) {
            const double bias = check_at(c, FV_WINDOW_PARAM, head * window + row % window, j);
            x.sum += bias;
            x.size += fabs(bias);
        }
        if (region && region[row] != region[base + j]) {
            x.sum -= 100.;
            x.size += 100.;
        }
        s[j] = x.sum;
        error = fmax(error, check_allowed(d + 8., x.size) + x.rounding);
    }
    return error;
}

/* ---- int8 products ---- */

static fv_keys_i8 layout(const check_case *c)
{
    const uint32_t *dim = c->args.prob.dim;
    return fv_keys_i8_of(dim[FV_ATTN_KEYS], dim[FV_ATTN_D], dim[FV_ATTN_DV]);
}

/* Quantises the keys and values of every window and head, one after the other. */
static void define(check_case *c)
{
    if (c->args.prob.acc != FV_I32)
        return;
    const uint32_t *dim = c->args.prob.dim, n = dim[FV_ATTN_KEYS], heads = c->args.prob.heads;
    const fv_keys_i8 l = layout(c);
    free(c->definition); /* defined for earlier values */
    uint8_t *row = check_must(calloc((size_t)dim[FV_DIM_ROWS] / n * heads, l.bytes));
    c->definition = row;
    for (uint32_t base = 0; base < dim[FV_DIM_ROWS]; base += n)
        for (uint32_t h = 0; h < heads; h++, row += l.bytes)
            check_keys_i8_quantise(row, c, &l, h,
                                   (check_key_rows){.tokens = FV_WINDOW_K, .first = base, .n = n},
                                   (check_key_rows){.tokens = FV_WINDOW_V, .first = base, .n = n});
}

static void release(check_case *c)
{
    free(c->definition);
    check_release_table(c);
}

static void oracle_i8(const check_case *c, uint32_t row, double *want, double *allowed)
{
    const fv_keys_i8 l = layout(c);
    const size_t first = row / l.n * c->args.prob.heads;
    for (uint32_t h = 0; h < c->args.prob.heads; h++)
        check_softmax_i8_all(c, &l, (const uint8_t *)c->definition + (first + h) * l.bytes, row, h,
                             want + h * l.dv, allowed + h * l.dv);
}

static void oracle(const check_case *c, uint32_t row, double *want, double *allowed)
{
    const uint32_t dv = c->args.prob.dim[FV_ATTN_DV], window = c->args.prob.dim[FV_ATTN_KEYS];
    if (c->args.prob.acc == FV_I32) {
        oracle_i8(c, row, want, allowed);
        return;
    }
    double *s = malloc(window * sizeof *s);
    for (uint32_t h = 0; h < c->args.prob.heads; h++) {
        const double error = scores(c, row, h, s);
        check_softmax_rows(c, FV_WINDOW_V, row - row % window, window, h * dv, dv, s, error,
                           want + h * dv, allowed + h * dv);
    }
    free(s);
}

const check_op check_wsoftmax = {
    .make = make, .define = define, .oracle = oracle, .release = release};
