/* gpu_groupnorm.c: launch code of groupnorm.cl. */
#include "gpu/gpu_code.h"
#include "ops/contracts/rows.h"

static void shape_reduce(const fv_launch *l, const fv_gpu_piece *p, size_t count[3])
{
    count[0] = fv_gpu_groups(l->args.prob.dim[FV_ROW_C], p->group);
    count[1] = p->groups;
}

static void shape_merge(const fv_launch *l, const fv_gpu_piece *p, size_t count[3])
{
    (void)p;
    count[0] = l->args.prob.dim[FV_GROUPNORM_GROUPS];
}

static uint32_t local_merge(const fv_launch *l, uint32_t group)
{
    (void)l;
    return group > 1 ? group * (uint32_t)sizeof(float) : 0;
}

FV_GPU_CODE(fv_gpu_groupnorm_reduce, "groupnorm", "groupnorm_reduce", 64, .shape = shape_reduce,
            .align = 1)
FV_GPU_CODE(fv_gpu_groupnorm_merge, "groupnorm", "groupnorm_merge", 64, .local = local_merge,
            .shape = shape_merge)
FV_GPU_CODE(fv_gpu_groupnorm, "groupnorm", "groupnorm", 64, .shape = fv_gpu_shape_columns,
            .align = 1)
