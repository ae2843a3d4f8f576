/* wsoftmax_bf16_tmpl.c: computes WSOFTMAX with products of bfloat16. */
#include "platform/cpu/tmpl/wsoftmax_rows.h"

void FV_NAME(fv_k_wsoftmax_bf16)(const fv_args *a, const fv_call *c)
{
    attend_windows(a, c);
}

static bool applies(const fv_problem *p)
{
    return p->acc == FV_BF16;
}

const fv_kernel_hooks FV_NAME(fv_h_wsoftmax_bf16) = {
    .applies = applies, .rate = FV_PAIR * FV_W * 2e9, .scratch = scratch_bytes};
