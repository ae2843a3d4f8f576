/* add_tmpl.c: implements ADD with vec.h's vector functions. */
#include "ops/contracts/rows.h"
#include "platform/cpu/cpu_kernels.h"
#include "platform/cpu/vec/vec.h"

FV_FN void add_rows(const fv_args *a, const fv_call *c, bool scaled, bool residual)
{
    const size_t n = a->prob.dim[FV_ROW_C];
    const float *scale = c->p[FV_ADD_SCALE], *all = c->p[FV_ADD_RES];
    for (size_t r = 0; r < c->rows; r++) {
        const float *in = (const float *)c->p[FV_ADD_IN] + r * a->ld[FV_ADD_IN];
        const float *res = residual ? all + r * a->ld[FV_ADD_RES] : NULL;
        float *out = (float *)c->p[FV_ADD_OUT] + r * a->ld[FV_ADD_OUT];
        for (size_t i = 0; i < n; i += FV_W) {
            const int lanes = fv_lanes(n - i);
            fv_v x = fv_load_n(in + i, lanes);
            if (scaled && residual)
                x = fv_fma(fv_load_n(scale + i, lanes), x, fv_load_n(res + i, lanes));
            else if (scaled)
                x = fv_mul(fv_load_n(scale + i, lanes), x);
            else if (residual)
                x = fv_add(x, fv_load_n(res + i, lanes));
            fv_store_n(out + i, x, lanes);
        }
    }
}

void FV_NAME(fv_k_add_f32)(const fv_args *a, const fv_call *c)
{
    const bool scaled = c->p[FV_ADD_SCALE] != NULL, residual = c->p[FV_ADD_RES] != NULL;
    if (scaled && residual)
        add_rows(a, c, true, true);
    else if (scaled)
        add_rows(a, c, true, false);
    else
        add_rows(a, c, false, residual);
}
