/* gpu_boxes.c: launch code of boxes.cl and topk.cl. */
#include <string.h>

#include "gpu/gpu_code.h"
#include "ops/contracts/rows.h"
#include "ops/contracts/softmax_attention.h"
#include "ops/ref/ref_deform.h"

FV_GPU_CODE(fv_gpu_row_max, "boxes", "row_max", 64, .shape = fv_gpu_shape_rows, .align = 1)
FV_GPU_CODE(fv_gpu_pick, "boxes", "pick", 64, .shape = fv_gpu_shape_columns, .align = 1)
FV_GPU_CODE(fv_gpu_refine, "boxes", "refine", 64, .shape = fv_gpu_shape_rows, .align = 1)

/* ---- the best ---- */

/* One work-item for each candidate, and for each position that no candidate takes. */
static void topk_shape(const fv_launch *l, const fv_gpu_piece *p, size_t count[3])
{
    const uint32_t candidates = l->args.u[0], end = p->row0 + p->rows;
    count[0] = fv_gpu_groups(candidates > end ? candidates : end, p->group);
}

static uint64_t topk_table(const fv_launch *l, uint32_t *out)
{
    const uint64_t bytes = (uint64_t)l->args.u[0] * sizeof *out;
    if (out)
        memcpy(out, l->args.table, (size_t)bytes);
    return bytes;
}

static uint64_t topk_loops(const fv_launch *l, uint32_t group)
{
    (void)group;
    return l->args.u[0];
}

FV_GPU_CODE(fv_gpu_topk, "topk", "topk", 64, .shape = topk_shape, .loops = topk_loops,
            .table = topk_table)

static void select_shape(const fv_launch *l, const fv_gpu_piece *p, size_t count[3])
{
    (void)l, (void)p;
    count[0] = 1;
}

static void ranked_shape(const fv_launch *l, const fv_gpu_piece *p, size_t count[3])
{
    (void)l;
    count[0] = fv_gpu_groups(p->row0 + p->rows, p->group);
}

/* The pre-pass reads all values for each bit of a key, and then twice more. */
static uint64_t ranked_loops(const fv_launch *l, uint32_t group)
{
    const uint64_t all = l->args.u[0], chosen = l->args.prob.dim[FV_DIM_ROWS];
    return 34 * (all / group + 32) + group + chosen;
}

FV_GPU_CODE(fv_gpu_topk_ranked, "topk", "topk_ranked", 256, .shape = ranked_shape,
            .loops = ranked_loops, .pre_pass = {{"topk_select", select_shape}})

/* Values of several columns have no table, whose place the scratch takes. */
static bool has_columns(const fv_problem *p)
{
    return p->dim[FV_TOPK_COLUMNS] > 1;
}

static size_t ranked_scratch(const fv_problem *p, const fv_knobs *knobs, uint32_t rows)
{
    (void)knobs, (void)rows;
    return p->dim[FV_DIM_ROWS] * sizeof(uint32_t);
}

const fv_kernel_hooks fv_h_gpu_topk_ranked = {.applies = has_columns, .scratch = ranked_scratch};

/* ---- SINE and DEFORM ---- */

static void sine_shape(const fv_launch *l, const fv_gpu_piece *p, size_t count[3])
{
    const uint32_t *dim = l->args.prob.dim;
    fv_gpu_spread(count, p->rows, dim[FV_ROW_C] * dim[FV_SINE_PARTS], p->group);
}

FV_GPU_CODE(fv_gpu_sine, "boxes", "sine", 64, .shape = sine_shape, .align = 1)

static void deform_shape(const fv_launch *l, const fv_gpu_piece *p, size_t count[3])
{
    fv_gpu_spread(count, p->rows, (l->args.prob.dim[FV_ATTN_D] + 3) / 4, p->group);
    count[2] = l->args.prob.heads;
}

static uint64_t deform_table(const fv_launch *l, uint32_t *out)
{
    const uint64_t bytes = l->args.prob.dim[FV_DEFORM_LEVELS] * sizeof(fv_deform_level);
    if (out)
        memcpy(out, l->args.table, (size_t)bytes);
    return bytes;
}

FV_GPU_CODE(fv_gpu_deform, "boxes", "deform", 64, .shape = deform_shape, .table = deform_table,
            .align = 1)
