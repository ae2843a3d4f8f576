/* check_softmax.c: cases and definition of SOFTMAX. */
#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "ops/contracts/softmax_attention.h"
#include "tests/kernels/check_keys_i8.h"
#include "tests/kernels/check_run.h"
#include "tests/kernels/check_softmax.h"

/* Relative error of the weights of int8 products before they are rounded. */
#define ROUGH 0x1p-9

/* Relative error of a weight that is rounded to bfloat16, including the error of its exponential.
 */
#define WEIGHT 0x1.1p-9

void check_softmax_types(check_case *c, const uint8_t types[4])
{
    if (types[0] == FV_NONE)
        return;
    c->args.prob.acc = types[1] == FV_U8 ? FV_I32 : FV_BF16;
    for (int i = 0; i < 3; i++)
        c->operand[i].storage = types[i];
    c->operand[fv_op_out(fv_op_table[c->args.prob.op])].storage = types[3];
}

static double rounding_of(const check_case *c, double x)
{
    return c->args.prob.acc == FV_BF16 ? fabs(x - check_round(FV_BF16, x)) : 0.;
}

static bool make(check_case *c, uint32_t index)
{
    static const struct {
        uint32_t rows, heads, d, dv, keys, gap, flags;
        uint8_t types[4]; /* types of Q, K, V and OUT, with bfloat16 products; FV_NONE: float32 */
        uint32_t columns; /* columns of the keys' grid, with relative positions; 0: no relative
                             positions */
    } sizes[] = {
        {1, 1, 1, 1, 1, 0, 0},
        {5, 2, 3, 7, 65, 1, 0},
        {17, 1, 16, 16, 17, 0, FV_FLAG_CAUSAL},
        {33, 3, 64, 64, 63, 5, 0},
        {31, 2, 9, 1, 129, 0, 0},
        {1, 4, 32, 48, 200, 0, 0},
        {130, 1, 72, 33, 130, 2, FV_FLAG_CAUSAL},
        {259, 1, 5, 9, 37, 0, 0},
        {300, 1, 8, 8, 300, 0, FV_FLAG_CAUSAL},
        {3, 1, 256, 255, 67, 0, 0},
        {1, 1, 1, 1, 1, 0, 0, {FV_F32, FV_F32, FV_F32, FV_F32}},
        {17, 2, 3, 7, 65, 1, FV_FLAG_CAUSAL, {FV_BF16, FV_BF16, FV_BF16, FV_BF16}},
        {33, 3, 64, 64, 63, 5, 0, {FV_BF16, FV_BF16, FV_BF16, FV_BF16}},
        {31, 2, 9, 1, 129, 0, 0, {FV_F32, FV_BF16, FV_BF16, FV_BF16}},
        {130, 1, 72, 33, 130, 3, FV_FLAG_CAUSAL, {FV_BF16, FV_F32, FV_BF16, FV_F32}},
        {259, 1, 5, 9, 37, 0, 0, {FV_BF16, FV_BF16, FV_F32, FV_F32}},
        {300, 1, 8, 8, 300, 0, FV_FLAG_CAUSAL, {FV_F32, FV_F32, FV_F32, FV_BF16}},
        {3, 2, 255, 254, 67, 1, 0, {FV_BF16, FV_BF16, FV_BF16, FV_F32}},
        {1, 2, 1, 3, 1, 0, 0, {0}, 1},
        {37, 2, 9, 12, 35, 2, 0, {0}, 7},
        {130, 3, 64, 64, 130, 0, 0, {0}, 13},
        {259, 1, 32, 33, 259, 1, 0, {0}, 37},
        {61, 2, 64, 64, 67, 3, 0, {0}, 67},
        {130, 2, 24, 64, 130, 0, 0, {FV_BF16, FV_BF16, FV_BF16, FV_BF16}, 10},
        {256, 3, 64, 64, 4096, 0, 0, {0}, 64},
        {256, 3, 64, 64, 5477, 0, 0},
        {256, 3, 64, 64, 5477, 0, 0, {FV_BF16, FV_BF16, FV_BF16, FV_BF16}},
        {1, 1, 1, 1, 1, 0, 0, {FV_F32, FV_U8, FV_NONE, FV_F32}},
        {17, 2, 3, 7, 65, 1, 0, {FV_BF16, FV_U8, FV_NONE, FV_BF16}},
        {33, 3, 64, 64, 63, 5, 0, {FV_BF16, FV_U8, FV_NONE, FV_F32}},
        {49, 2, 9, 1, 129, 0, 0, {FV_F32, FV_U8, FV_NONE, FV_BF16}},
        {130, 1, 72, 33, 190, 3, 0, {FV_BF16, FV_U8, FV_NONE, FV_F32}},
        {259, 1, 5, 9, 37, 0, 0, {FV_F32, FV_U8, FV_NONE, FV_F32}},
        {3, 2, 255, 254, 67, 1, 0, {FV_BF16, FV_U8, FV_NONE, FV_F32}},
        {37, 2, 9, 12, 35, 2, 0, {FV_BF16, FV_U8, FV_NONE, FV_BF16}, 7},
        {130, 3, 64, 64, 130, 0, 0, {FV_F32, FV_U8, FV_NONE, FV_BF16}, 13},
        {61, 2, 64, 64, 67, 3, 0, {FV_BF16, FV_U8, FV_NONE, FV_BF16}, 67},
        {256, 3, 64, 64, 4096, 0, 0, {FV_BF16, FV_U8, FV_NONE, FV_BF16}, 64},
        {256, 3, 64, 64, 5477, 0, 0, {FV_BF16, FV_U8, FV_NONE, FV_BF16}},
    };
    if (index >= sizeof sizes / sizeof *sizes)
        return false;
    const uint32_t heads = sizes[index].heads, d = sizes[index].d, dv = sizes[index].dv;
    c->args.prob.heads = (uint16_t)heads;
    c->args.prob.flags = sizes[index].flags;
    c->args.prob.dim[FV_DIM_ROWS] = sizes[index].rows;
    c->args.prob.dim[FV_ATTN_D] = d;
    c->args.prob.dim[FV_ATTN_DV] = dv;
    c->args.prob.dim[FV_ATTN_KEYS] = sizes[index].keys;
    c->args.f[0] = 1.f / sqrtf((float)d);
    check_matrix(c, FV_SOFTMAX_Q, CHECK_ROW, sizes[index].rows, heads * d, sizes[index].gap);
    if (sizes[index].types[1] == FV_U8) {
        const size_t bytes = fv_keys_i8_of(sizes[index].keys, d, dv).bytes;
        check_matrix(c, FV_SOFTMAX_K, CHECK_BASE, heads, (uint32_t)bytes, 64 * sizes[index].gap);
        c->operand[FV_SOFTMAX_K].type = FV_U8;
    } else {
        check_matrix(c, FV_SOFTMAX_K, CHECK_BASE, sizes[index].keys, heads * d, sizes[index].gap);
        check_matrix(c, FV_SOFTMAX_V, CHECK_BASE, sizes[index].keys, heads * dv, sizes[index].gap);
    }
    c->args.prob.dim[FV_REL_POS_COLUMNS] = sizes[index].columns;
    if (sizes[index].columns)
        check_matrix(c, FV_SOFTMAX_REL_POS, CHECK_ROW, sizes[index].rows,
                     fv_columns_rel_pos(&c->args.prob), sizes[index].gap);
    c->operand[FV_SOFTMAX_REL_POS].huge = 1e3f;
    check_matrix(c, FV_SOFTMAX_OUT, CHECK_ROW, sizes[index].rows, heads * dv, sizes[index].gap);
    check_softmax_types(c, sizes[index].types);
    /* Scores are far outside the range of exp, but still determine which key has the largest
     * weight. */
    c->operand[FV_SOFTMAX_Q].huge = c->operand[FV_SOFTMAX_K].huge = 30.f;
    c->bench = sizes[index].rows == 256;
    return true;
}

void check_score_add_relative(check_score *s, const check_case *c, int operand, uint32_t row,
                              uint32_t head, uint32_t key)
{
    const uint32_t width = c->args.prob.dim[FV_REL_POS_COLUMNS];
    if (!width)
        return;
    const uint32_t height = c->args.prob.dim[FV_ATTN_KEYS] / width;
    const uint32_t own = head * (height + width), col[] = {key / width, height + key % width};
    for (uint32_t i = 0; i < 2; i++) {
        const double x = check_at(c, operand, row, own + col[i]);
        s->sum += x;
        s->size += fabs(x);
    }
}

void check_score_add(check_score *s, const check_case *c, double q, double k)
{
    const double x = q * k * c->args.f[0], scale = fabs((double)c->args.f[0]);
    const double off_q = rounding_of(c, q), off_k = rounding_of(c, k);
    s->sum += x;
    s->size += fabs(x);
    s->rounding += scale * (off_q * (fabs(k) + off_k) + fabs(q) * off_k);
}

/* Computes the scores of all keys before `keys`; returns the largest error of a score. */
static double scores(const check_case *c, uint32_t row, uint32_t head, uint32_t keys, double *s)
{
    const uint32_t d = c->args.prob.dim[FV_ATTN_D];
    double error = 0.;
    for (uint32_t j = 0; j < keys; j++) {
        check_score x = {0};
        for (uint32_t i = 0; i < d; i++)
            check_score_add(&x, c, check_at(c, FV_SOFTMAX_Q, row, head * d + i),
                            check_at(c, FV_SOFTMAX_K, j, head * d + i));
        check_score_add_relative(&x, c, FV_SOFTMAX_REL_POS, row, head, j);
        s[j] = x.sum;
        error = fmax(error, check_allowed(d + 6., x.size) + x.rounding);
    }
    return error;
}

void check_softmax_weigh(double *s, uint32_t keys)
{
    double max = s[0], sum = 0.;
    for (uint32_t j = 0; j < keys; j++)
        max = fmax(max, s[j]);
    for (uint32_t j = 0; j < keys; j++)
        sum += s[j] = exp(s[j] - max);
    for (uint32_t j = 0; j < keys; j++)
        s[j] /= sum;
}

void check_softmax_column(const check_case *c, const double *x, const double *p, uint32_t keys,
                          double error, double *want, double *allowed)
{
    double out = 0., size = 0., largest = 0., rounding = 0.;
    for (uint32_t j = 0; j < keys; j++) {
        out += p[j] * x[j];
        size += p[j] * fabs(x[j]);
        largest = fmax(largest, fabs(x[j]));
        rounding += p[j] * rounding_of(c, x[j]);
    }
    /* Their sum uses the rounded weights, too, so a constant value in all keys is preserved. */
    for (uint32_t j = 0; c->args.prob.acc == FV_BF16 && j < keys; j++)
        rounding += WEIGHT * p[j] * fabs(x[j] - out);
    *want = out;
    /* Each weight, and therefore their sum, has a relative error of at most e^error. */
    *allowed =
        fmin(expm1(2. * error) * size + 2. * check_allowed(keys, size) + rounding, 2. * largest) +
        FLT_MIN * (keys + largest);
}

void check_softmax_mean(const check_case *c, const check_spot *x, uint32_t keys, uint32_t col,
                        uint32_t n, double *s, double error, double *want, double *allowed)
{
    double *column = malloc(keys * sizeof *column);
    check_softmax_weigh(s, keys);
    for (uint32_t i = 0; i < n; i++) {
        for (uint32_t j = 0; j < keys; j++)
            column[j] = check_at(c, x[j].operand, x[j].row, col + i);
        check_softmax_column(c, column, s, keys, error, &want[i], &allowed[i]);
    }
    free(column);
}

void check_softmax_rows(const check_case *c, int v, uint32_t row0, uint32_t keys, uint32_t col,
                        uint32_t n, double *s, double error, double *want, double *allowed)
{
    check_spot *x = malloc(keys * sizeof *x);
    for (uint32_t j = 0; j < keys; j++)
        x[j] = (check_spot){v, row0 + j};
    check_softmax_mean(c, x, keys, col, n, s, error, want, allowed);
    free(x);
}

/* ---- int8 products ---- */

static void prepare(check_case *c, check_random *r)
{
    if (c->args.prob.acc == FV_I32)
        check_keys_i8_draw(c, FV_SOFTMAX_K, c->args.prob.dim[FV_ATTN_KEYS], r);
}

/* Quantises the query of a head (operand 0); returns its scale. */
static double query_of(const check_case *c, uint32_t row, uint32_t head, double *number)
{
    const uint32_t d = c->args.prob.dim[FV_ATTN_D];
    float top = 0;
    for (uint32_t i = 0; i < d; i++)
        top = fmaxf(top, fabsf((float)check_at(c, 0, row, head * d + i)));
    for (uint32_t i = 0; i < d; i++) {
        const float x = (float)check_at(c, 0, row, head * d + i);
        number[i] = top < 0x1p-100f ? 0 : nearbyint((double)(x * (127 / top)));
    }
    return top < 0x1p-100f ? 0 : (double)(top / 127);
}

/* Computes scores from int8 products; returns the largest error of a score. */
static double scores_i8(const check_case *c, const fv_keys_i8 *l, const uint8_t *whole,
                        uint32_t row, uint32_t head, const check_key_i8 *seen, uint32_t keys,
                        double *s)
{
    double *number = check_must(malloc(l->d * sizeof *number)), error = 0;
    const double scale = query_of(c, row, head, number) * (double)c->args.f[0];
    for (uint32_t j = 0; j < keys; j++) {
        const int8_t *k = (const int8_t *)whole + l->k + seen[j].key * l->d;
        check_score x = {0};
        for (size_t i = 0; i < l->d; i++)
            x.sum += number[i] * k[i];
        x.sum *= scale * (double)check_keys_i8_float(whole, l->key_scale, seen[j].key);
        x.size = fabs(x.sum) + fabs(seen[j].bias);
        x.sum += seen[j].bias;
        if (c->args.prob.op != FV_OP_FOVEATED)
            check_score_add_relative(&x, c, FV_SOFTMAX_REL_POS, row, head, j);
        s[j] = x.sum;
        error = fmax(error, check_allowed(8, x.size));
    }
    free(number);
    return error;
}

/* Bounds the error of the mean of values x when the weights p of n keys are rounded to bytes: each
 * error is at most half a step of the largest weight's byte, and the errors add up like a random
 * walk. */
static double rounding_i8(const double *p, double largest, const double *x, uint32_t n)
{
    double squares = 0, all = 0;
    for (uint32_t j = 0; j < n; j++) {
        squares += x[j] * x[j] / 12;
        all += fabs(x[j]) / 2;
        largest = fmax(largest, p[j]);
    }
    return fmin(6 * sqrt(squares), all) * (largest / 255);
}

void check_softmax_i8(const check_case *c, const fv_keys_i8 *l, const uint8_t *whole, uint32_t row,
                      uint32_t head, const check_key_i8 *seen, uint32_t keys, bool in_order,
                      double *want, double *allowed)
{
    double *s = check_must(malloc(2 * keys * sizeof *s)), *x = s + keys, largest = 0;
    const int8_t *v = (const int8_t *)whole + l->v;
    const double error = scores_i8(c, l, whole, row, head, seen, keys, s);
    check_softmax_weigh(s, keys);
    for (uint32_t j = 0; !in_order && j < keys; j++)
        largest = fmax(largest, s[j]);
    for (uint32_t i = 0; i < l->dv; i++) {
        const double scale = (double)check_keys_i8_float(whole, l->value_scale, i);
        double squares = 0;
        for (uint32_t j = 0; j < keys; j++)
            x[j] = scale * v[seen[j].key * l->dv + i];
        check_softmax_column(c, x, s, keys, error, &want[i], &allowed[i]);
        for (uint32_t j = 0; j < keys; j += FV_SOFTMAX_BLOCK) {
            const uint32_t n = keys - j < FV_SOFTMAX_BLOCK ? keys - j : FV_SOFTMAX_BLOCK;
            squares += pow(rounding_i8(s + j, largest, x + j, n), 2);
        }
        for (uint32_t j = 0; j < keys; j++)
            allowed[i] += ROUGH * s[j] * fabs(x[j] - want[i]);
        allowed[i] += sqrt(squares);
    }
    free(s);
}

void check_softmax_i8_all(const check_case *c, const fv_keys_i8 *l, const uint8_t *whole,
                          uint32_t row, uint32_t head, double *want, double *allowed)
{
    check_key_i8 *seen = check_must(calloc(l->n, sizeof *seen));
    for (size_t j = 0; j < l->n; j++)
        seen[j].key = j;
    check_softmax_i8(c, l, whole, row, head, seen, (uint32_t)l->n, true, want, allowed);
    free(seen);
}

static void oracle_i8(const check_case *c, uint32_t row, double *want, double *allowed)
{
    const uint32_t *dim = c->args.prob.dim, dv = dim[FV_ATTN_DV];
    const fv_keys_i8 l = fv_keys_i8_of(dim[FV_ATTN_KEYS], dim[FV_ATTN_D], dv);
    for (uint32_t h = 0; h < c->args.prob.heads; h++)
        check_softmax_i8_all(c, &l, check_keys_i8_row(c, FV_SOFTMAX_K, h), row, h, want + h * dv,
                             allowed + h * dv);
}

static void oracle(const check_case *c, uint32_t row, double *want, double *allowed)
{
    const uint32_t dv = c->args.prob.dim[FV_ATTN_DV];
    uint32_t keys = c->args.prob.dim[FV_ATTN_KEYS];
    if (c->args.prob.acc == FV_I32) {
        oracle_i8(c, row, want, allowed);
        return;
    }
    if (c->args.prob.flags & FV_FLAG_CAUSAL && row < keys)
        keys = row + 1;
    double *s = malloc(keys * sizeof *s);
    for (uint32_t h = 0; h < c->args.prob.heads; h++) {
        const double error = scores(c, row, h, keys, s);
        check_softmax_rows(c, FV_SOFTMAX_V, 0, keys, h * dv, dv, s, error, want + h * dv,
                           allowed + h * dv);
    }
    free(s);
}

const check_op check_softmax = {.make = make, .prepare = prepare, .oracle = oracle};
