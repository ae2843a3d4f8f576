/* softmax_tmpl.c: computes SOFTMAX attention in float32. */
#define FV_OPERANDS_EXACT
#include "platform/cpu/tmpl/softmax_rows.h"

void FV_NAME(fv_k_softmax_f32)(const fv_args *a, const fv_call *c)
{
    attend(a, c);
}

static bool applies(const fv_problem *p)
{
    return p->acc == FV_F32 && p->in == FV_F32 && p->out == FV_F32;
}

const fv_kernel_hooks FV_NAME(fv_h_softmax_f32) = {
    .applies = applies, .rate = FV_W * 6e9, .scratch = scratch_bytes, .knobs = knobs};
