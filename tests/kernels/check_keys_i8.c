/* check_keys_i8.c: cases and definition of KEYS_I8, byte by byte, and int8 keys for checks of ops
 * that read them. */
#include "tests/kernels/check_keys_i8.h"
#include "ops/contracts/softmax_attention.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/kernels/check_run.h"

static bool make(check_case *c, uint32_t index)
{
    static const struct {
        uint32_t heads, d, dv, keys, cells, gap;
        uint8_t types[2]; /* types of K and V; FV_NONE means float32 */
    } sizes[] = {
        {1, 1, 1, 1, 0, 0},
        {2, 3, 7, 65, 0, 1},
        {3, 64, 64, 63, 0, 5, {FV_BF16, FV_BF16}},
        {2, 9, 1, 129, 21, 0},
        {4, 33, 48, 20, 7, 2, {FV_F32, FV_BF16}},
        {1, 255, 254, 67, 0, 0, {FV_BF16, FV_F32}},
        {3, 64, 64, 1370, 0, 0},
        {3, 64, 64, 1370, 85, 0, {FV_BF16, FV_BF16}},
    };
    if (index >= sizeof sizes / sizeof *sizes)
        return false;
    const uint32_t heads = sizes[index].heads, d = sizes[index].d, dv = sizes[index].dv;
    const uint32_t keys = sizes[index].keys, cells = sizes[index].cells, gap = sizes[index].gap;
    uint32_t *dim = c->args.prob.dim;
    c->args.prob.heads = (uint16_t)heads;
    c->args.prob.acc = FV_I32;
    dim[FV_DIM_ROWS] = heads;
    dim[FV_ATTN_D] = d;
    dim[FV_ATTN_DV] = dv;
    dim[FV_ATTN_KEYS] = keys;
    dim[FV_KEYS_CELLS] = cells;
    check_matrix(c, FV_KEYS_K, CHECK_BASE, keys, heads * d, gap);
    check_matrix(c, FV_KEYS_V, CHECK_BASE, keys, heads * dv, 2 * gap);
    if (cells) {
        check_matrix(c, FV_KEYS_CELL_K, CHECK_BASE, cells, heads * d, 0);
        check_matrix(c, FV_KEYS_CELL_V, CHECK_BASE, cells, heads * dv, gap);
    }
    check_matrix(c, FV_KEYS_OUT, CHECK_ROW, heads, fv_keys_i8_bytes(&c->args.prob), 64 * gap);
    c->operand[FV_KEYS_OUT].type = c->operand[FV_KEYS_OUT].storage = FV_U8;
    for (int i = FV_KEYS_K; i <= FV_KEYS_CELL_V; i++)
        if (sizes[index].types[i % 2] != FV_NONE && c->operand[i].kind != CHECK_ABSENT)
            c->operand[i].storage = sizes[index].types[i % 2];
    c->bench = keys == 1370;
    return true;
}

/* Makes one channel equal in all keys, and one that makes a head's scales NaN. */
static void prepare(check_case *c, check_random *r)
{
    const uint32_t keys = c->args.prob.dim[FV_ATTN_KEYS], heads = c->args.prob.heads;
    for (uint32_t j = 0; j < keys; j++)
        *check_value(c, FV_KEYS_K, j, 0) = 3.f;
    if (heads > 2) {
        *check_value(c, FV_KEYS_K, check_below(r, keys), c->args.prob.dim[FV_ATTN_D]) = INFINITY;
        *check_value(c, FV_KEYS_V, check_below(r, keys), 2 * c->args.prob.dim[FV_ATTN_DV]) = NAN;
    }
}

static double row_at(const check_case *c, const check_key_rows *r, uint32_t j, uint32_t column)
{
    return j < r->n ? check_at(c, r->tokens, r->first + j, column)
                    : check_at(c, r->cells, j - r->n, column);
}

static void keys_of(uint8_t *row, const check_case *c, const fv_keys_i8 *l, uint32_t head,
                    const check_key_rows *r)
{
    const uint32_t d = (uint32_t)l->d;
    float *mean = check_must(calloc(2 * d, sizeof *mean)), *x = mean + d;
    for (uint32_t j = 0; j < r->n; j++)
        for (uint32_t i = 0; i < d; i++)
            mean[i] += (float)row_at(c, r, j, head * d + i);
    for (uint32_t i = 0; i < d; i++)
        mean[i] /= (float)r->n;
    for (uint32_t j = 0; j < l->n; j++) {
        int8_t *q = (int8_t *)row + l->k + j * l->d;
        int32_t sum = 0;
        for (uint32_t i = 0; i < d; i++)
            x[i] = (float)row_at(c, r, j, head * d + i) - mean[i];
        const float scale = check_int8_numbers(q, x, d, 1);
        for (uint32_t i = 0; i < d; i++)
            sum += q[i];
        memcpy(row + l->key_scale + j * sizeof scale, &scale, sizeof scale);
        memcpy(row + l->key_sum + j * sizeof sum, &sum, sizeof sum);
    }
    free(mean);
}

static void values_of(uint8_t *row, const check_case *c, const fv_keys_i8 *l, uint32_t head,
                      const check_key_rows *r)
{
    const uint32_t dv = (uint32_t)l->dv;
    float *x = check_must(malloc(l->n * sizeof *x));
    for (uint32_t i = 0; i < dv; i++) {
        for (uint32_t j = 0; j < l->n; j++)
            x[j] = (float)row_at(c, r, j, head * dv + i);
        const float scale = check_int8_numbers((int8_t *)row + l->v + i, x, (uint32_t)l->n, dv);
        memcpy(row + l->value_scale + i * sizeof scale, &scale, sizeof scale);
    }
    free(x);
}

void check_keys_i8_quantise(uint8_t *row, const check_case *c, const fv_keys_i8 *l, uint32_t head,
                            check_key_rows keys, check_key_rows values)
{
    keys_of(row, c, l, head, &keys);
    values_of(row, c, l, head, &values);
}

static void oracle(const check_case *c, uint32_t head, double *want, double *allowed)
{
    const uint32_t *dim = c->args.prob.dim, n = dim[FV_ATTN_KEYS];
    const fv_keys_i8 l =
        fv_keys_i8_of((size_t)n + dim[FV_KEYS_CELLS], dim[FV_ATTN_D], dim[FV_ATTN_DV]);
    uint8_t *row = check_must(calloc(l.bytes, 1));
    check_keys_i8_quantise(row, c, &l, head, (check_key_rows){FV_KEYS_K, FV_KEYS_CELL_K, 0, n},
                           (check_key_rows){FV_KEYS_V, FV_KEYS_CELL_V, 0, n});
    for (size_t i = 0; i < l.bytes; i++) {
        want[i] = row[i];
        allowed[i] = 0;
    }
    free(row);
}

const check_op check_keys_i8 = {.make = make, .prepare = prepare, .oracle = oracle};

/* ---- int8 keys for other checks ---- */

void check_keys_i8_draw(check_case *c, int operand, size_t n, check_random *r)
{
    const check_operand *o = &c->operand[operand];
    const fv_keys_i8 l =
        fv_keys_i8_of(n, c->args.prob.dim[FV_ATTN_D], c->args.prob.dim[FV_ATTN_DV]);
    for (uint32_t h = 0; h < o->rows; h++) {
        uint8_t *row = (uint8_t *)o->data + (size_t)h * o->ld;
        const bool equal = check_below(r, 4) == 0; /* all keys of a head */
        for (size_t i = 0; i < l.dv; i++) {
            const float scale = (float)exp(check_normal(r)) / 127;
            memcpy(row + l.value_scale + i * sizeof scale, &scale, sizeof scale);
        }
        for (size_t j = 0; j < l.n; j++) {
            const float scale = check_below(r, 16) ? (float)exp(0.5 * check_normal(r)) / 64 : 0.f;
            int32_t sum = 0;
            int8_t *q = (int8_t *)row + l.k + j * l.d;
            for (size_t i = 0; i < l.d; i++)
                sum += q[i] = equal && j ? q[i - l.d] : (int8_t)((int)check_below(r, 255) - 127);
            memcpy(row + l.key_scale + j * sizeof scale, &scale, sizeof scale);
            memcpy(row + l.key_sum + j * sizeof sum, &sum, sizeof sum);
        }
        for (size_t i = 0; i < l.n * l.dv; i++)
            row[l.v + i] = (uint8_t)(int8_t)((int)check_below(r, 255) - 127);
    }
}

const uint8_t *check_keys_i8_row(const check_case *c, int operand, uint32_t head)
{
    const check_operand *o = &c->operand[operand];
    return (const uint8_t *)o->data + (size_t)head * o->ld;
}

float check_keys_i8_float(const uint8_t *row, size_t at, size_t i)
{
    float x;
    memcpy(&x, row + at + i * sizeof x, sizeof x);
    return x;
}
