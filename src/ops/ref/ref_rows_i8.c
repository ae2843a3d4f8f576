/* ref_rows_i8.c: ROWS_I8: quantises rows to int8.
 *
 *   dim    rows, C
 *   IN     ROW, C wide: F32 or BF16
 *   OUT    ROW, bytes in the layout of ops/rows_i8.h
 *
 * Every kernel computes the same bytes, as ops/quantise.h defines. A row with an infinity or NaN
 * gives zeros with the scale NaN.
 */
#include "ops/rows_i8.h"

#include "base/half.h"
#include "ops/contracts/rows.h"
#include "ops/quantise.h"
#include "ops/ref/ref_kernels.h"

static uint32_t bytes(const fv_problem *p)
{
    return fv_rows_i8_bytes(p->dim[FV_ROW_C]);
}

const fv_op fv_op_rows_i8 = {
    .dim = {{"rows", FV_DIM_TOKENS}, [FV_ROW_C] = {"C"}},
    .operand = {[FV_ROWS_IN] = {"IN", FV_ROW_C, .narrow = true},
                [FV_ROWS_OUT] = {"OUT", .columns = bytes}},
    .element_flops = 8,
};

void fv_k_rows_i8_ref(const fv_args *a, const fv_call *c)
{
    const uint32_t k = a->prob.dim[FV_ROW_C];
    float *y = c->scratch;
    for (size_t r = 0; r < c->rows; r++) {
        int8_t *q = (int8_t *)c->p[FV_ROWS_OUT] + r * a->ld[FV_ROWS_OUT];
        int32_t sum = 0;
        for (uint32_t i = 0; i < k; i++)
            y[i] = fv_value_get(c->p[FV_ROWS_IN], a->prob.in, r * a->ld[FV_ROWS_IN] + i);
        fv_int8_rotate(y, k, fv_int8_block(k));
        const float scale = fv_int8_row(q, y, k);
        for (uint32_t i = 0; i < k; i++)
            sum += q[i];
        fv_rows_i8_finish(q, k, scale, sum);
    }
}

static size_t scratch_bytes(const fv_problem *p, const fv_knobs *knobs, uint32_t rows)
{
    (void)knobs, (void)rows;
    return p->dim[FV_ROW_C] * sizeof(float);
}

const fv_kernel_hooks fv_h_rows_i8_ref = {.scratch = scratch_bytes};
