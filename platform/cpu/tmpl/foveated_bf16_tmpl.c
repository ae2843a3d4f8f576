/* foveated_bf16_tmpl.c: computes FOVEATED attention with products of bfloat16. */
#include "platform/cpu/tmpl/foveated_rows.h"

void FV_NAME(fv_k_foveated_bf16)(const fv_args *a, const fv_call *c)
{
    attend(a, c);
}

static bool applies(const fv_problem *p)
{
    return p->acc == FV_BF16;
}

const fv_kernel_hooks FV_NAME(fv_h_foveated_bf16) = {
    .applies = applies, .rate = FV_W * 5e9, .scratch = scratch_bytes, .knobs = knobs};
