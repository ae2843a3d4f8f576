/* gpu_rows.c: launch code of rows.cl, rel_pos.cl, layernorm.cl and rmsnorm.cl. */
#include <string.h>

#include "gpu/gpu_code.h"
#include "ops/contracts/grid.h"
#include "ops/contracts/rows.h"
#include "ops/contracts/softmax_attention.h"

FV_GPU_CODE(fv_gpu_take, "rows", "take", 64, .shape = fv_gpu_shape_columns, .align = 1)
FV_GPU_CODE(fv_gpu_convert, "rows", "convert", 64, .shape = fv_gpu_shape_columns, .align = 1)

FV_GPU_CODE(fv_gpu_lerp, "rows", "lerp", 64, .shape = fv_gpu_shape_columns, .align = 1)
FV_GPU_CODE(fv_gpu_rope, "rows", "rope", 64, .shape = fv_gpu_shape_columns, .align = 1)
FV_GPU_CODE(fv_gpu_pixel_shuffle, "rows", "pixel_shuffle", 64, .shape = fv_gpu_shape_columns,
            .align = 1)

/* ---- rows in another order ---- */

static void gather_shape(const fv_launch *l, const fv_gpu_piece *p, size_t count[3])
{
    fv_gpu_shape_columns(l, p, count);
    count[2] = l->args.prob.dim[FV_GATHER_PARTS];
}

static uint64_t gather_table(const fv_launch *l, uint32_t *out)
{
    const uint64_t bytes = (uint64_t)l->rows * l->args.prob.dim[FV_GATHER_PARTS] * sizeof *out;
    if (out)
        memcpy(out, l->args.table, (size_t)bytes);
    return bytes;
}

FV_GPU_CODE(fv_gpu_gather, "rows", "gather", 64, .shape = gather_shape, .align = 1,
            .table = gather_table)

/* ---- relative positions ---- */

static void rel_pos_shape(const fv_launch *l, const fv_gpu_piece *p, size_t count[3])
{
    const uint32_t *dim = l->args.prob.dim;
    const uint32_t quads = (dim[FV_REL_POS_HEIGHT] + 3) / 4 + (dim[FV_REL_POS_WIDTH] + 3) / 4;
    fv_gpu_spread(count, p->rows, quads, p->group);
    count[2] = l->args.prob.heads;
}

FV_GPU_CODE(fv_gpu_rel_pos, "rel_pos", "rel_pos", 64, .shape = rel_pos_shape, .align = 1)

/* ---- norms of rows ---- */

static uint32_t norm_local(const fv_launch *l, uint32_t group)
{
    (void)l;
    return group > 1 ? group * (uint32_t)sizeof(float) : 0;
}

static void norm_shape(const fv_launch *l, const fv_gpu_piece *p, size_t count[3])
{
    (void)l;
    count[0] = p->rows;
}

FV_GPU_CODE(fv_gpu_layernorm, "layernorm", "layernorm", 64, .local = norm_local,
            .shape = norm_shape, .align = 1)
/* For CPUs, where a barrier costs more than a row: a work-item has a whole row. */
FV_GPU_CODE(fv_gpu_layernorm_wide, "layernorm", "layernorm", 1, .shape = norm_shape, .align = 1)

static void norm_groups_shape(const fv_launch *l, const fv_gpu_piece *p, size_t count[3])
{
    count[0] = p->rows;
    count[1] = l->args.prob.dim[FV_ROW_C] / l->args.prob.dim[FV_RMS_D];
}

FV_GPU_CODE(fv_gpu_rmsnorm, "rmsnorm", "rmsnorm", 64, .local = norm_local,
            .shape = norm_groups_shape, .align = 1)
FV_GPU_CODE(fv_gpu_rmsnorm_wide, "rmsnorm", "rmsnorm", 1, .shape = norm_groups_shape, .align = 1)
