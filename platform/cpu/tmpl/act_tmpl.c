/* act_tmpl.c: implements ACT with vec.h's vector functions. */
#include "ops/contracts/rows.h"
#include "platform/cpu/cpu_kernels.h"
#include "platform/cpu/vec/act.h"
#include "platform/cpu/vec/row.h"

FV_FN void act_rows(const fv_args *a, const fv_call *c, uint32_t act)
{
    const size_t n = a->prob.dim[FV_ROW_C];
    for (size_t r = 0; r < c->rows; r++) {
        const float *in = (const float *)c->p[FV_ACT_IN] + r * a->ld[FV_ACT_IN];
        void *out = fv_element(c->p[FV_ACT_OUT], a->prob.out, r * a->ld[FV_ACT_OUT]);
        for (size_t i = 0; i < n; i += FV_W) {
            const int lanes = fv_lanes(n - i);
            fv_v x = fv_load_n(in + i, lanes);
            if (act == FV_EPI_SWIGLU)
                x = fv_mul(fv_activate(x, FV_EPI_SILU), fv_load_n(in + n + i, lanes));
            else
                x = fv_activate(x, act);
            fv_row_store(out, a->prob.out, i, x, lanes);
        }
    }
}

void FV_NAME(fv_k_act_f32)(const fv_args *a, const fv_call *c)
{
    switch (a->prob.epi & (FV_EPI_ACT | FV_EPI_SWIGLU)) {
#define ACT(NAME)                                                                                  \
    case NAME:                                                                                     \
        act_rows(a, c, NAME);                                                                      \
        break;
#define FV_ACTIVATION(NAME, ...) ACT(FV_EPI_##NAME)
#include "act/activations.inc"
#undef FV_ACTIVATION
        ACT(FV_EPI_SWIGLU)
#undef ACT
    }
}
