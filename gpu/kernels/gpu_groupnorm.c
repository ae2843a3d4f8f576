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

const fv_gpu_code fv_gpu_groupnorm_reduce = {.program = "groupnorm",
                                             .entry = "groupnorm_reduce",
                                             .group = 64,
                                             .shape = shape_reduce,
                                             .align = 1};
const fv_gpu_code fv_gpu_groupnorm_merge = {.program = "groupnorm",
                                            .entry = "groupnorm_merge",
                                            .group = 64,
                                            .local = local_merge,
                                            .shape = shape_merge};
const fv_gpu_code fv_gpu_groupnorm = {.program = "groupnorm",
                                      .entry = "groupnorm",
                                      .group = 64,
                                      .shape = fv_gpu_shape_columns,
                                      .align = 1};
