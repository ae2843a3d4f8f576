/* gpu_masks.c: launch code of matmul.cl and mask_keys.cl. */
#include "gpu/gpu_code.h"
#include "ops/contracts/product.h"
#include "ops/contracts/softmax_attention.h"

enum { MATMUL_ROWS = 4 }; /* of a work-item */

static void matmul_shape(const fv_launch *l, const fv_gpu_piece *p, size_t count[3])
{
    fv_gpu_spread(count, fv_gpu_groups(p->rows, MATMUL_ROWS),
                  (uint32_t)fv_gpu_groups(l->args.prob.dim[FV_GEMM_N], 4), p->group);
}

FV_GPU_CODE(fv_gpu_matmul, "matmul", "matmul", 64, .shape = matmul_shape, .align = 1)

static void mask_keys_shape(const fv_launch *l, const fv_gpu_piece *p, size_t count[3])
{
    const uint32_t columns = l->args.prob.dim[FV_MASK_BEFORE] + l->args.prob.dim[FV_ROW_C] + 1;
    fv_gpu_spread(count, p->rows, (uint32_t)fv_gpu_groups(columns, 4), p->group);
    count[2] = l->args.prob.heads;
}

FV_GPU_CODE(fv_gpu_mask_keys, "mask_keys", "mask_keys", 64, .shape = mask_keys_shape, .align = 1)
