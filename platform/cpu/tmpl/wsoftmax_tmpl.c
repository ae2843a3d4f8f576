/* wsoftmax_tmpl.c: computes WSOFTMAX in float32. */
#define FV_OPERANDS_EXACT
#include "platform/cpu/tmpl/wsoftmax_rows.h"

void FV_NAME(fv_k_wsoftmax_f32)(const fv_args *a, const fv_call *c)
{
    attend_windows(a, c);
}

static bool applies(const fv_problem *p)
{
    return p->acc == FV_F32 && p->in == FV_F32 && p->out == FV_F32;
}

const fv_kernel_hooks FV_NAME(fv_h_wsoftmax_f32) = {.applies = applies, .scratch = scratch_bytes};
