/* mask_keys_tmpl.c: implements MASK_KEYS with vec.h's vector functions: computes the row of one
 * head, and copies it for the others. */
#include "ops/contracts/softmax_attention.h"
#include "platform/cpu/cpu_kernels.h"
#include "platform/cpu/vec/vec.h"

FV_FN void mask(float *out, const float *in, size_t n)
{
    const fv_v seen = fv_set(0.f), hidden = fv_set(FV_MASK_HIDDEN);
    for (size_t i = 0; i < n; i += FV_W) {
        const int lanes = fv_lanes(n - i);
        fv_store_n(out + i, fv_sel_lt(seen, fv_load_n(in + i, lanes), seen, hidden), lanes);
    }
}

/* Hides keys with negative numbers, which must not be all. */
FV_FN void mask_negative(float *out, const float *in, size_t n)
{
    const fv_v seen = fv_set(0.f), hidden = fv_set(FV_MASK_HIDDEN);
    for (size_t i = 0; i < n; i += FV_W) {
        const int lanes = fv_lanes(n - i);
        fv_store_n(out + i, fv_sel_lt(fv_load_n(in + i, lanes), seen, hidden, seen), lanes);
    }
}

void FV_NAME(fv_k_mask_keys_f32)(const fv_args *a, const fv_call *c)
{
    const size_t before = a->prob.dim[FV_MASK_BEFORE], n = a->prob.dim[FV_ROW_C];
    const size_t columns = before + n + 1;
    for (size_t r = 0; r < c->rows; r++) {
        const float *in = (const float *)c->p[FV_MASK_IN] + r * a->ld[FV_MASK_IN];
        const float *most = c->p[FV_MASK_MOST];
        float *out = (float *)c->p[FV_MASK_OUT] + r * a->ld[FV_MASK_OUT];
        memset(out, 0, columns * sizeof *out);
        if (!most)
            mask(out + before, in, n);
        else if (most[r * a->ld[FV_MASK_MOST]] >= 0.f)
            mask_negative(out + before, in, n);
        for (size_t h = 1; h < a->prob.heads; h++)
            memcpy(out + h * columns, out, columns * sizeof *out);
    }
}
