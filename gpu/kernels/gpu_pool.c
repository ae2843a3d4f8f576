/* gpu_pool.c: launch code of pool.cl. */
#include "gpu/gpu_code.h"
#include "ops/contracts/softmax_attention.h"

static uint32_t columns(const fv_launch *l, uint32_t group)
{
    return (uint32_t)fv_gpu_groups(l->args.prob.dim[FV_ROW_C], group);
}

static void shape_mean_reduce(const fv_launch *l, const fv_gpu_piece *p, size_t count[3])
{
    count[0] = columns(l, p->group);
    count[1] = p->groups;
}

static void shape_mean_merge(const fv_launch *l, const fv_gpu_piece *p, size_t count[3])
{
    count[0] = columns(l, p->group);
}

static void define_mean(const fv_launch *l, uint32_t group, fv_gpu_text *out)
{
    (void)group;
    if (l->args.prob.flags & FV_FLAG_LARGEST)
        fv_gpu_define(out, "FV_LARGEST", 1);
}

static void define_map(const fv_launch *l, uint32_t group, fv_gpu_text *out)
{
    (void)group;
    fv_gpu_define(out, "FV_D", l->args.prob.dim[FV_ATTN_D]);
}

static uint32_t local_map(const fv_launch *l, uint32_t group)
{
    (void)l;
    return group == 1 ? 0 : 2 * group * (uint32_t)sizeof(float);
}

FV_GPU_CODE(fv_gpu_mean_reduce, "pool", "mean_reduce", 64, .define = define_mean,
            .shape = shape_mean_reduce, .align = 1)
FV_GPU_CODE(fv_gpu_mean_merge, "pool", "mean_merge", 64, .define = define_mean,
            .shape = shape_mean_merge)
FV_GPU_CODE(fv_gpu_map_reduce, "pool", "map_reduce", 64, .local = local_map, .define = define_map,
            .shape = fv_gpu_shape_parts, .align = 1)
FV_GPU_CODE(fv_gpu_map_merge, "pool", "map_merge", 64, .define = define_map,
            .shape = fv_gpu_shape_heads)
