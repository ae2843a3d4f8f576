/* gpu_finish.c: the epilogue after products by a library. */
#include "gpu/gpu_finish.h"

#include "base/half.h"

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

size_t fv_gpu_rows_packed(const fv_problem *p, const fv_knobs *knobs)
{
    (void)knobs;
    return fv_gpu_sums_width(p) * p->dim[FV_GEMM_K] * fv_type_size(p->weight);
}

void fv_gpu_rows_pack(void *dst, const float *src, uint32_t n0, uint32_t n, const fv_problem *p,
                      const fv_knobs *knobs)
{
    (void)knobs;
    const size_t k = p->dim[FV_GEMM_K], slab = n * k, sides = p->epi & FV_EPI_SWIGLU ? 2 : 1;
    for (size_t side = 0; side < sides; side++) {
        const size_t to = (side * p->dim[FV_GEMM_N] + n0) * k;
        for (size_t i = 0; i < slab; i++)
            fv_value_put(dst, p->weight, to + i, src[side * slab + i]);
    }
}
