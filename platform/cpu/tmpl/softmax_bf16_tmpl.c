/* softmax_bf16_tmpl.c: computes SOFTMAX attention with products of bfloat16. */
#include "platform/cpu/tmpl/softmax_rows.h"

void FV_NAME(fv_k_softmax_bf16)(const fv_args *a, const fv_call *c)
{
    attend(a, c);
}

static bool applies(const fv_problem *p)
{
    return p->acc == FV_BF16;
}

const fv_kernel_hooks FV_NAME(fv_h_softmax_bf16) = {
    .applies = applies, .rate = FV_PAIR * FV_W * 6e9, .scratch = scratch_bytes, .knobs = knobs};
