/* gpu_finish.c: the epilogue after matrix products by a library. */
#include "gpu/gpu_finish.h"
#include "ops/contracts/product.h"

size_t fv_gpu_sums_width(const fv_problem *p)
{
    return (size_t)p->dim[FV_GEMM_N] * (p->epi & FV_EPI_SWIGLU ? 2 : 1);
}

void fv_gpu_finish_define(const fv_launch *l, uint32_t group, fv_gpu_text *out)
{
    (void)l, (void)group;
    fv_gpu_define(out, "FV_SUMS", 1);
    fv_gpu_define(out, "FV_TN", 4);
}

void fv_gpu_finish_shape(const fv_launch *l, const fv_gpu_piece *p, size_t count[3])
{
    fv_gpu_spread(count, p->rows, (l->args.prob.dim[FV_GEMM_N] + 3) / 4, p->group);
}
