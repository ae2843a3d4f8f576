/* softmax_i8_tmpl.c: computes SOFTMAX attention with products of 8-bit integers. */
#include "platform/cpu/tmpl/softmax_i8_rows.h"

void FV_NAME(fv_k_softmax_i8)(const fv_args *a, const fv_call *c)
{
    const layout l = lay_out_panel(&a->prob, c->rows);
    for (size_t first = 0; first < c->rows; first += PANEL) {
        const size_t rows = c->rows - first < PANEL ? c->rows - first : PANEL;
        for (size_t h = c->col0; h < (size_t)c->col0 + c->cols; h++) {
            const char *row = (const char *)c->p[FV_SOFTMAX_K] + h * a->ld[FV_SOFTMAX_K];
            attend_panel(a, c, &l, row, first, rows, h);
        }
    }
}

static bool applies(const fv_problem *p)
{
    return p->acc == FV_I32;
}

static size_t scratch_bytes(const fv_problem *p, const fv_knobs *k, uint32_t rows)
{
    (void)k;
    return lay_out_panel(p, rows).bytes;
}

const fv_kernel_hooks FV_NAME(fv_h_softmax_i8) = {
    .applies = applies, .rate = FV_WHOLE_RATE * FV_W * 6e9, .scratch = scratch_bytes};
