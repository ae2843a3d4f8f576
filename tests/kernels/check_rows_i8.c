/* check_rows_i8.c: cases and definition of ROWS_I8, byte by byte, and int8 rows for checks of ops
 * that read them. */
#include "tests/kernels/check_rows_i8.h"
#include "ops/contracts/rows.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/kernels/check_run.h"

/* Bytes of a row: values in multiples of eight, then their scale and their sum. */
static uint32_t eights(uint32_t k)
{
    return (k + 7) / 8 * 8;
}

static bool make(check_case *c, uint32_t index)
{
    static const struct {
        uint32_t rows, k, gap;
        enum fv_type in;
        bool bench;
    } sizes[] = {
        {1, 1, 0, FV_F32, false},    {5, 7, 1, FV_F32, false},     {9, 8, 0, FV_BF16, false},
        {13, 24, 3, FV_F32, false},  {6, 32, 0, FV_BF16, false},   {7, 48, 1, FV_F32, false},
        {11, 64, 0, FV_F32, false},  {10, 64, 2, FV_BF16, false},  {4, 96, 0, FV_F32, false},
        {5, 200, 5, FV_F32, false},  {3, 256, 0, FV_BF16, false},  {4, 1023, 0, FV_F32, false},
        {4096, 64, 0, FV_F32, true}, {4096, 32, 0, FV_BF16, true}, {1369, 384, 0, FV_F32, true},
    };
    if (index >= sizeof sizes / sizeof *sizes)
        return false;
    const uint32_t k = sizes[index].k, rows = sizes[index].rows;
    c->args.prob.dim[FV_DIM_ROWS] = rows;
    c->args.prob.dim[FV_ROW_C] = k;
    check_matrix(c, FV_ROWS_IN, CHECK_ROW, rows, k, sizes[index].gap);
    check_matrix(c, FV_ROWS_OUT, CHECK_ROW, rows, eights(k) + 8, 8 * sizes[index].gap);
    c->operand[FV_ROWS_IN].storage = sizes[index].in;
    c->operand[FV_ROWS_OUT].type = c->operand[FV_ROWS_OUT].storage = FV_U8;
    c->bench = sizes[index].bench;
    return true;
}

/* Makes a row of zeros, a row that is too small to quantise, and two rows whose scale is NaN. */
static void prepare(check_case *c, check_random *r)
{
    const uint32_t rows = c->args.prob.dim[FV_DIM_ROWS], k = c->args.prob.dim[FV_ROW_C];
    for (uint32_t i = 0; rows > 3 && i < k; i++) {
        *check_value(c, FV_ROWS_IN, 0, i) = 0;
        *check_value(c, FV_ROWS_IN, 1, i) = 0x1p-110f;
    }
    if (rows > 3) {
        *check_value(c, FV_ROWS_IN, 2, check_below(r, k)) = INFINITY;
        *check_value(c, FV_ROWS_IN, 3, check_below(r, k)) = NAN;
    }
}

static void oracle(const check_case *c, uint32_t row, double *want, double *allowed)
{
    const uint32_t k = c->args.prob.dim[FV_ROW_C], bytes = eights(k) + 8;
    uint8_t *out = check_must(calloc(bytes, 1));
    float *x = check_must(malloc(k * sizeof *x));
    int32_t sum = 0;
    for (uint32_t i = 0; i < k; i++)
        x[i] = (float)check_at(c, FV_ROWS_IN, row, i);
    check_int8_rotate(x, k, k);
    const float scale = check_int8_numbers((int8_t *)out, x, k, 1);
    for (uint32_t i = 0; i < k; i++)
        sum += (int8_t)out[i];
    memcpy(out + eights(k), &scale, sizeof scale);
    memcpy(out + eights(k) + sizeof scale, &sum, sizeof sum);
    for (uint32_t i = 0; i < bytes; i++) {
        want[i] = out[i];
        allowed[i] = 0;
    }
    free(x);
    free(out);
}

const check_op check_rows_i8 = {.make = make, .prepare = prepare, .oracle = oracle};

/* ---- int8 rows for other checks ---- */

void check_rows_i8_draw(check_case *c, int operand, uint32_t k, check_random *r)
{
    const check_operand *o = &c->operand[operand];
    for (uint32_t i = 0; i < o->rows; i++) {
        uint8_t *row = (uint8_t *)o->data + (size_t)i * o->ld;
        const float scale = check_below(r, 16) ? (float)exp(check_normal(r)) / 64 : 0.f;
        const bool extreme = check_below(r, 8) == 0;
        int32_t sum = 0;
        for (uint32_t j = 0; j < k; j++) {
            const int q = extreme ? 127 : (int)check_below(r, 255) - 127;
            row[j] = (uint8_t)(int8_t)q;
            sum += q;
        }
        memset(row + k, 0, eights(k) - k);
        memcpy(row + eights(k), &scale, sizeof scale);
        memcpy(row + eights(k) + sizeof scale, &sum, sizeof sum);
    }
}

double check_rows_i8_at(const check_case *c, int operand, uint32_t row, uint32_t k, uint32_t i)
{
    const check_operand *o = &c->operand[operand];
    const uint8_t *at = (const uint8_t *)o->data + (size_t)row * o->ld;
    float scale;
    memcpy(&scale, at + eights(k), sizeof scale);
    return (double)scale * ((const int8_t *)at)[i];
}
