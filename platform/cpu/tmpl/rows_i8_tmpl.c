/* rows_i8_tmpl.c: ROWS_I8: rows quantised to int8. */
#include "ops/contracts/rows.h"
#include "ops/rows_i8.h"

#include "platform/cpu/cpu_kernels.h"
#include "platform/cpu/vec/butterfly.h"
#include "platform/cpu/vec/bytes.h"

/* Quantises a row. `block` is a constant where this is inlined, at least if it is 64. */
FV_FN void quantise(int8_t *q, const void *row, enum fv_type type, uint32_t k, uint32_t block,
                    float *rotated)
{
    float factor;
    const float top = type == FV_BF16 ? fv_rotate_row(rotated, row, FV_BF16, k, block)
                                      : fv_rotate_row(rotated, row, FV_F32, k, block);
    const float scale = fv_int8_scale(&factor, top);
    fv_rows_i8_finish(q, k, scale, fv_i8_numbers(q, rotated, k, factor));
}

void FV_NAME(fv_k_rows_i8)(const fv_args *a, const fv_call *c)
{
    const uint32_t k = a->prob.dim[FV_ROW_C], block = fv_int8_block(k);
    const enum fv_type type = (enum fv_type)a->prob.in;
    int8_t *q = c->p[FV_ROWS_OUT];
    for (size_t r = 0; r < c->rows; r++, q += a->ld[FV_ROWS_OUT]) {
        const void *row = fv_element(c->p[FV_ROWS_IN], type, r * a->ld[FV_ROWS_IN]);
        if (block == 64)
            quantise(q, row, type, k, 64, c->scratch);
        else
            quantise(q, row, type, k, block, c->scratch);
    }
}

static size_t scratch_bytes(const fv_problem *p, const fv_knobs *knobs, uint32_t rows)
{
    (void)knobs, (void)rows;
    return fv_round_up(p->dim[FV_ROW_C], 64) * sizeof(float);
}

static bool applies(const fv_problem *p)
{
    return p->in == FV_F32 || p->in == FV_BF16;
}

const fv_kernel_hooks FV_NAME(fv_h_rows_i8) = {
    .applies = applies, .rate = FV_W * 1e9, .scratch = scratch_bytes};
