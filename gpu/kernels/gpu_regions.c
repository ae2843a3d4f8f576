/* gpu_regions.c: launch code of regions.cl. */
#include <string.h>

#include "gpu/gpu_code.h"
#include "ops/contracts/rows.h"
#include "ops/ref/ref_regions.h"

static uint64_t copy_table(const fv_launch *l, uint32_t *out, uint64_t bytes)
{
    if (out)
        memcpy(out, l->args.table, (size_t)bytes);
    return bytes;
}

/* Regions that are moved need no anchors. */
static uint64_t coder_table(const fv_launch *l, uint32_t *out)
{
    const uint32_t *dim = l->args.prob.dim;
    const uint32_t anchors = l->args.u[0] ? dim[FV_ROW_C] : 0;
    return copy_table(l, out, sizeof(fv_region_coder) + (uint64_t)anchors * 4 * sizeof(float));
}

FV_GPU_CODE(fv_gpu_candidates, "regions", "candidates", 64, .shape = fv_gpu_shape_rows,
            .table = coder_table, .align = 1)

/* One work-group. */
static void suppress_shape(const fv_launch *l, const fv_gpu_piece *p, size_t count[3])
{
    (void)l, (void)p;
    count[0] = 1;
}

/* Each region may be considered: all are searched for it, and it is compared with those kept. */
static uint64_t suppress_loops(const fv_launch *l, uint32_t group)
{
    const uint32_t *dim = l->args.prob.dim;
    const uint64_t from = dim[FV_SUPPRESS_FROM];
    return from * ((from + dim[FV_DIM_ROWS]) / group + 32);
}

FV_GPU_CODE(fv_gpu_suppress, "regions", "suppress", 256, .shape = suppress_shape,
            .loops = suppress_loops)

static uint64_t roi_table(const fv_launch *l, uint32_t *out)
{
    return copy_table(l, out, l->args.prob.dim[FV_ROI_COUNT] * sizeof(fv_roi_level));
}

FV_GPU_CODE(fv_gpu_roi_align, "regions", "roi_align", 64, .shape = fv_gpu_shape_columns,
            .table = roi_table, .align = 1)
FV_GPU_CODE(fv_gpu_class_mask, "regions", "class_mask", 64, .shape = fv_gpu_shape_rows, .align = 1)
