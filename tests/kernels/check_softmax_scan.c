/* check_softmax_scan.c: cases and definition of SOFTMAX_SCAN. */
#include <math.h>
#include <stdlib.h>

#include "ops/contracts/sequence.h"
#include "tests/kernels/check_softmax.h"

static bool make(check_case *c, uint32_t index)
{
    static const struct {
        uint32_t rows, heads, kv_heads, d, dv, capacity, held, window, gap;
    } sizes[] = {
        {1, 1, 1, 1, 1, 1, 0, 0, 0},           {1, 2, 2, 16, 16, 40, 17, 0, 0},
        {1, 6, 2, 33, 65, 200, 150, 0, 1},     {1, 3, 1, 9, 7, 300, 290, 60, 0},
        {3, 4, 2, 20, 12, 100, 65, 0, 2},      {5, 2, 2, 17, 40, 90, 70, 9, 1},
        {6, 2, 1, 64, 64, 130, 128, 0, 0},     {4, 2, 2, 8, 8, 16, 16, 0, 0},
        {2, 2, 2, 5, 3, 10, 30, 12, 0},        {7, 2, 2, 9, 5, 7, 0, 0, 0},
        {33, 3, 3, 15, 17, 64, 0, 0, 1},       {70, 2, 1, 64, 64, 300, 130, 0, 0},
        {50, 4, 2, 24, 33, 70, 40, 0, 3},      {130, 2, 2, 16, 9, 400, 200, 37, 0},
        {90, 2, 1, 32, 16, 200, 100, 1, 0},    {300, 1, 1, 8, 8, 400, 65, 100, 0},
        {40, 2, 2, 12, 20, 30, 55, 64, 1},     {9, 2, 2, 256, 255, 80, 66, 0, 0},
        {1, 8, 8, 64, 64, 4096, 4000, 0, 0},   {1, 8, 2, 64, 64, 4096, 4000, 0, 0},
        {256, 3, 3, 64, 64, 4096, 3800, 0, 0},
    };
    if (index >= sizeof sizes / sizeof *sizes)
        return false;
    const uint32_t rows = sizes[index].rows, heads = sizes[index].heads, d = sizes[index].d;
    const uint32_t kv_heads = sizes[index].kv_heads, dv = sizes[index].dv, gap = sizes[index].gap;
    fv_problem *p = &c->args.prob;
    p->heads = (uint16_t)heads;
    p->dim[FV_DIM_ROWS] = rows;
    p->dim[FV_ATTN_D] = d;
    p->dim[FV_ATTN_DV] = dv;
    p->dim[FV_ATTN_KEYS] = sizes[index].capacity;
    p->dim[FV_CACHE_KV_HEADS] = kv_heads;
    c->args.f[0] = 1.f / sqrtf((float)d);
    c->args.u[0] = sizes[index].window;
    c->args.u[1] = sizes[index].held; /* for `prepare`; the op does not use this argument */
    check_matrix(c, FV_CACHE_Q, CHECK_ROW, rows, heads * d, gap);
    check_matrix(c, FV_CACHE_K, CHECK_ROW, rows, kv_heads * d, gap);
    check_matrix(c, FV_CACHE_V, CHECK_ROW, rows, kv_heads * dv, gap);
    check_matrix(c, FV_CACHE_POSITION, CHECK_ROW, rows, 1, gap);
    check_vector(c, FV_CACHE_STATE, kv_heads * sizes[index].capacity * (d + dv));
    check_matrix(c, FV_CACHE_OUT, CHECK_ROW, rows, heads * dv, gap);
    c->operand[FV_CACHE_Q].huge = c->operand[FV_CACHE_K].huge = 30.f;
    c->operand[FV_CACHE_V].huge = c->operand[FV_CACHE_STATE].huge = 30.f;
    c->state = FV_CACHE_STATE;
    /* Calls for other heads of the same kv head read what the call for the first head wrote. Beyond
     * the capacity, one call of all rows sees tokens that later calls no longer find. */
    if (kv_heads < heads || sizes[index].held + rows > sizes[index].capacity)
        c->align = rows;
    c->bench = sizes[index].capacity == 4096;
    return true;
}

static void prepare(check_case *c, check_random *r)
{
    (void)r;
    for (uint32_t y = 0; y < c->args.prob.dim[FV_DIM_ROWS]; y++)
        *check_value(c, FV_CACHE_POSITION, y, 0) = (float)(c->args.u[1] + y);
}

/* Returns the number of tokens in the cache, according to the case's positions. */
static uint32_t held(const check_case *c)
{
    return (uint32_t)check_at(c, FV_CACHE_POSITION, 0, 0);
}

/* Returns the index of a row of K or V of a kv head in the cache. */
static uint32_t place(const check_case *c, bool value, uint32_t kv, uint32_t token)
{
    const uint32_t *dim = c->args.prob.dim, capacity = dim[FV_ATTN_KEYS];
    const uint32_t width = dim[value ? FV_ATTN_DV : FV_ATTN_D];
    const uint32_t behind = value ? dim[FV_CACHE_KV_HEADS] * capacity * dim[FV_ATTN_D] : 0;
    return behind + (kv * capacity + token) * width;
}

/* Returns element i of the key or value of token j. The first `cached` tokens are in the cache. */
static double element(const check_case *c, bool value, uint32_t kv, uint32_t j, uint32_t i)
{
    const uint32_t width = c->args.prob.dim[value ? FV_ATTN_DV : FV_ATTN_D];
    if (j < held(c))
        return check_at(c, FV_CACHE_STATE, 0, place(c, value, kv, j) + i);
    return check_at(c, value ? FV_CACHE_V : FV_CACHE_K, j - held(c), kv * width + i);
}

/* Stores the tokens that a row sees, in ascending order, in `seen`; returns their number. */
static uint32_t tokens_of(const check_case *c, uint32_t row, uint32_t *seen)
{
    const uint32_t position = held(c) + row, window = c->args.u[0];
    uint32_t n = 0;
    for (uint32_t j = 0; j <= position; j++)
        if ((j >= held(c) || j < c->args.prob.dim[FV_ATTN_KEYS]) &&
            (!window || position - j < window))
            seen[n++] = j;
    return n;
}

static void attend(const check_case *c, uint32_t row, uint32_t head, const uint32_t *seen,
                   uint32_t n, double *want, double *allowed)
{
    const uint32_t d = c->args.prob.dim[FV_ATTN_D], dv = c->args.prob.dim[FV_ATTN_DV];
    const uint32_t kv = head / (c->args.prob.heads / c->args.prob.dim[FV_CACHE_KV_HEADS]);
    double *s = malloc(n * sizeof *s), *x = malloc(n * sizeof *x), error = 0.;
    for (uint32_t j = 0; j < n; j++) {
        check_score score = {0};
        for (uint32_t i = 0; i < d; i++)
            check_score_add(&score, c, check_at(c, FV_CACHE_Q, row, head * d + i),
                            element(c, false, kv, seen[j], i));
        s[j] = score.sum;
        error = fmax(error, check_allowed(d + 6., score.size));
    }
    check_softmax_weigh(s, n);
    for (uint32_t i = 0; i < dv; i++) {
        for (uint32_t j = 0; j < n; j++)
            x[j] = element(c, true, kv, seen[j], i);
        check_softmax_column(c, x, s, n, error, &want[i], &allowed[i]);
    }
    free(s);
    free(x);
}

static void oracle(const check_case *c, uint32_t row, double *want, double *allowed)
{
    const uint32_t dv = c->args.prob.dim[FV_ATTN_DV];
    uint32_t *seen = malloc((held(c) + row + 1) * sizeof *seen);
    const uint32_t n = tokens_of(c, row, seen);
    for (uint32_t h = 0; h < c->args.prob.heads; h++)
        attend(c, row, h, seen, n, want + h * dv, allowed + h * dv);
    free(seen);
}

/* The kv head and the token of a value in the cache. */
typedef struct spot {
    bool value;
    uint32_t kv, token, i;
} spot;

static spot spot_of(const check_case *c, uint32_t col)
{
    const uint32_t *dim = c->args.prob.dim, capacity = dim[FV_ATTN_KEYS];
    const bool value = col >= place(c, true, 0, 0);
    const uint32_t width = dim[value ? FV_ATTN_DV : FV_ATTN_D];
    const uint32_t row = (value ? col - place(c, true, 0, 0) : col) / width;
    return (spot){value, row / capacity, row % capacity,
                  col - place(c, value, row / capacity, row % capacity)};
}

static void oracle_state(const check_case *c, double *want, double *allowed)
{
    const uint32_t end = held(c) + c->args.prob.dim[FV_DIM_ROWS];
    for (uint32_t col = 0; col < c->operand[FV_CACHE_STATE].cols; col++) {
        const spot s = spot_of(c, col);
        want[col] = s.token < end ? element(c, s.value, s.kv, s.token, s.i)
                                  : check_at(c, FV_CACHE_STATE, 0, col);
        allowed[col] = 0.;
    }
}

static uint32_t head(const check_case *c, uint32_t col)
{
    const fv_problem *p = &c->args.prob;
    return spot_of(c, col).kv * (p->heads / p->dim[FV_CACHE_KV_HEADS]);
}

const check_op check_softmax_scan = {
    .make = make, .prepare = prepare, .oracle = oracle, .oracle_state = oracle_state, .head = head};
