/* mul_tmpl.c: implements MUL with vec.h's vector functions. */
#include "ops/contracts/rows.h"
#include "platform/cpu/cpu_kernels.h"
#include "platform/cpu/vec/math.h"
#include "platform/cpu/vec/row.h"

FV_FN void some(void *y, enum fv_type type, const float *x, const float *b, size_t i, int lanes,
                bool silu)
{
    fv_v gate = fv_load_n(b + i, lanes);
    if (silu)
        gate = fv_mul(gate, fv_sigmoid(gate));
    fv_row_store(y, type, i, fv_mul(fv_load_n(x + i, lanes), gate), lanes);
}

FV_FN void rows(const fv_args *a, const fv_call *c, bool silu)
{
    const enum fv_type type = a->prob.out;
    const size_t n = a->prob.dim[FV_ROW_C];
    for (size_t r = 0; r < c->rows; r++) {
        const float *x = (const float *)c->p[FV_MUL_A] + r * a->ld[FV_MUL_A];
        const float *b = (const float *)c->p[FV_MUL_B] + r * a->ld[FV_MUL_B];
        void *y = fv_element(c->p[FV_MUL_OUT], type, r * a->ld[FV_MUL_OUT]);
        size_t i = 0;
        for (; i + FV_W <= n; i += FV_W)
            some(y, type, x, b, i, FV_W, silu);
        if (i < n)
            some(y, type, x, b, i, (int)(n - i), silu);
    }
}

void FV_NAME(fv_k_mul_f32)(const fv_args *a, const fv_call *c)
{
    if (a->prob.flags & FV_FLAG_SILU)
        rows(a, c, true);
    else
        rows(a, c, false);
}
