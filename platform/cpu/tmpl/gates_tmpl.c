/* gates_tmpl.c: implements GATES with vec.h's vector functions. */
#include <float.h>
#include <math.h>

#include "ops/contracts/linear_attention.h"
#include "platform/cpu/cpu_kernels.h"
#include "platform/cpu/vec/math.h"

/* Loads the vector at i of n values. Lanes beyond n get a value so small that its exponential is 0.
 */
FV_FN fv_v logits(const float *x, size_t i, int lanes)
{
    const fv_v low = fv_set(FLT_MAX);
    return fv_sub(fv_load_n(x + i, lanes), fv_sub(low, fv_first_n(low, lanes)));
}

/* Computes the gates of at most FV_W heads, which is the usual case: the row stays in one register.
 */
FV_FN void gates_one(float *y, const float *x, int n, fv_v total)
{
    const fv_v v = logits(x, 0, n);
    const fv_v e = fv_first_n(fv_exp(fv_sub(v, fv_set(fv_hmax(v)))), n);
    fv_store_n(y, fv_mul(fv_div(e, fv_set(fv_hsum(e))), total), n);
}

FV_FN void gates(float *y, const float *x, size_t n, fv_v total)
{
    fv_v max = fv_set(-INFINITY), sum = fv_set(0.f);
    for (size_t i = 0; i < n; i += FV_W)
        max = fv_max(max, logits(x, i, fv_lanes(n - i)));
    const fv_v m = fv_set(fv_hmax(max));
    for (size_t i = 0; i < n; i += FV_W) {
        const int lanes = fv_lanes(n - i);
        const fv_v e = fv_exp(fv_sub(fv_load_n(x + i, lanes), m));
        fv_store_n(y + i, e, lanes);
        sum = fv_add(sum, fv_first_n(e, lanes));
    }
    const fv_v s = fv_set(fv_hsum(sum));
    for (size_t i = 0; i < n; i += FV_W) {
        const int lanes = fv_lanes(n - i);
        fv_store_n(y + i, fv_mul(fv_div(fv_load_n(y + i, lanes), s), total), lanes);
    }
}

void FV_NAME(fv_k_gates_f32)(const fv_args *a, const fv_call *c)
{
    const size_t n = a->prob.dim[FV_ROW_C];
    const fv_v total = fv_set(a->f[0]);
    for (size_t r = 0; r < c->rows; r++) {
        const float *x = (const float *)c->p[FV_GATES_IN] + r * a->ld[FV_GATES_IN];
        float *y = (float *)c->p[FV_GATES_OUT] + r * a->ld[FV_GATES_OUT];
        if (n <= FV_W)
            gates_one(y, x, (int)n, total);
        else
            gates(y, x, n, total);
    }
}
