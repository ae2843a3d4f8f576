/* gpu_keys_i8.c: launch code of keys_i8.cl. */
#include "gpu/gpu_code.h"
#include "ops/contracts/softmax_attention.h"

static void shape_means(const fv_launch *l, const fv_gpu_piece *p, size_t count[3])
{
    count[0] = fv_gpu_groups((uint64_t)p->rows * l->args.prob.dim[FV_ATTN_D], p->group);
}

static void shape_scales(const fv_launch *l, const fv_gpu_piece *p, size_t count[3])
{
    count[0] = fv_gpu_groups((uint64_t)p->rows * l->args.prob.dim[FV_ATTN_DV], p->group);
}

static void shape(const fv_launch *l, const fv_gpu_piece *p, size_t count[3])
{
    const uint32_t *dim = l->args.prob.dim;
    const uint32_t d = dim[FV_ATTN_D], dv = dim[FV_ATTN_DV], widest = d > dv ? d : dv;
    fv_gpu_spread(count, (uint64_t)dim[FV_ATTN_KEYS] + dim[FV_KEYS_CELLS], (widest + 3) / 4,
                  p->group);
    count[1] = p->rows;
}

FV_GPU_CODE(fv_gpu_keys_i8, "keys_i8", "keys_i8", 64, .shape = shape,
            .pre_pass = {{"key_means", shape_means}, {"value_scales", shape_scales}})

/* The scratch has a mean for each channel of keys and an inverse scale for each of values. */
static size_t scratch_bytes(const fv_problem *p, const fv_knobs *knobs, uint32_t rows)
{
    (void)knobs;
    return (size_t)rows * (p->dim[FV_ATTN_D] + p->dim[FV_ATTN_DV]) * sizeof(float);
}

const fv_kernel_hooks fv_h_gpu_keys_i8 = {.scratch = scratch_bytes};
