/* act_grad_tmpl.c: ACT_GRAD in vec.h's vector functions. */
#include "platform/cpu/vec/act.h"
#include "train/cpu/train_cpu_kernels.h"
#include "train/ref/training.h"

FV_FN void grad_rows(const fv_args *a, const fv_call *c, uint32_t act)
{
    const size_t n = a->prob.dim[FV_ROW_C];
    for (size_t r = 0; r < c->rows; r++) {
        const float *in = (const float *)c->p[FV_ACT_GRAD_IN] + r * a->ld[FV_ACT_GRAD_IN];
        const float *dout = (const float *)c->p[FV_ACT_GRAD_DOUT] + r * a->ld[FV_ACT_GRAD_DOUT];
        float *out = (float *)c->p[FV_ACT_GRAD_OUT] + r * a->ld[FV_ACT_GRAD_OUT];
        for (size_t i = 0; i < n; i += FV_W) {
            const int lanes = fv_lanes(n - i);
            const fv_v x = fv_load_n(in + i, lanes), g = fv_load_n(dout + i, lanes);
            if (act == FV_EPI_SWIGLU) {
                const fv_v gate = fv_load_n(in + n + i, lanes);
                fv_store_n(out + i, fv_mul(fv_mul(g, gate), fv_activate_slope(x, FV_EPI_SILU)),
                           lanes);
                fv_store_n(out + n + i, fv_mul(g, fv_activate(x, FV_EPI_SILU)), lanes);
            } else {
                fv_store_n(out + i, fv_mul(g, fv_activate_slope(x, act)), lanes);
            }
        }
    }
}

void FV_NAME(fv_k_act_grad_f32)(const fv_args *a, const fv_call *c)
{
    switch (a->prob.epi & (FV_EPI_ACT | FV_EPI_SWIGLU)) {
#define ACT(NAME)                                                                                  \
    case NAME:                                                                                     \
        grad_rows(a, c, NAME);                                                                     \
        break;
#define FV_ACTIVATION(NAME, ...) ACT(FV_EPI_##NAME)
#include "act/activations.inc"
#undef FV_ACTIVATION
        ACT(FV_EPI_SWIGLU)
#undef ACT
    }
}
