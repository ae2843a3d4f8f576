/* mul_tmpl.c: MUL over the vector vocabulary. */
#include "platform/cpu/cpu_kernels.h"
#include "platform/cpu/vec/math.h"

FV_FN void some(float *y, const float *x, const float *b, int lanes, int silu)
{
    fv_v gate = fv_load_n(b, lanes);
    if (silu)
        gate = fv_mul(gate, fv_sigmoid(gate));
    fv_store_n(y, fv_mul(fv_load_n(x, lanes), gate), lanes);
}

FV_FN void rows(const fv_args *a, const fv_call *c, int silu)
{
    const size_t n = a->prob.dim[FV_ROW_C];
    for (size_t r = 0; r < c->rows; r++) {
        const float *x = (const float *)c->p[FV_MUL_A] + r * a->ld[FV_MUL_A];
        const float *b = (const float *)c->p[FV_MUL_B] + r * a->ld[FV_MUL_B];
        float *y = (float *)c->p[FV_MUL_OUT] + r * a->ld[FV_MUL_OUT];
        size_t i = 0;
        for (; i + FV_W <= n; i += FV_W)
            some(y + i, x + i, b + i, FV_W, silu);
        if (i < n)
            some(y + i, x + i, b + i, (int)(n - i), silu);
    }
}

void FV_NAME(fv_k_mul_f32)(const fv_args *a, const fv_call *c)
{
    if (a->prob.flags & FV_FLAG_SILU)
        rows(a, c, 1);
    else
        rows(a, c, 0);
}
