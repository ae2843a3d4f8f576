/* ref_act.c: ACT: an activation by itself, where training needs what goes into it.
 *
 *   dim    rows, C
 *   IN     ROW, C wide, with SWIGLU 2C    OUT  ROW, C wide; may be IN without SWIGLU
 *   epi    one FV_EPI_* activation, or FV_EPI_SWIGLU
 *
 *   out[c] = act(in[c]);   SWIGLU: out[c] = silu(in[c]) in[C + c]
 */
#include "cpu_kernels.h"
#include "ref/ref_gemm.h"

void fv_k_act_f32_ref(const fv_args *a, const fv_call *c)
{
    const size_t n = a->prob.dim[FV_ROW_C];
    const uint32_t epi = a->prob.epi;
    for (size_t r = 0; r < c->rows; r++) {
        const float *in = (const float *)c->p[FV_ACT_IN] + r * a->ld[FV_ACT_IN];
        float *out = (float *)c->p[FV_ACT_OUT] + r * a->ld[FV_ACT_OUT];
        for (size_t i = 0; i < n; i++)
            out[i] = (float)(epi & FV_EPI_SWIGLU ? fv_ref_silu(in[i]) * in[n + i]
                                                 : fv_ref_activate(in[i], epi));
    }
}
