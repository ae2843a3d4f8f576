/* gpu_foveated.c: launch code of cells.cl and of foveated.cl. */
#include "gpu/gpu_code.h"
#include "ops/contracts/softmax_attention.h"
#include "ops/foveated.h"

enum {
    QUERIES = FV_FOVEA_BLOCK * FV_FOVEA_BLOCK,
    KEYS = 32,
    SEEN = 11 * sizeof(uint32_t), /* of a level */
    LISTS = ((FV_FOVEA_LEVELS + 1) * SEEN + 2 * KEYS * sizeof(uint32_t) + 15) / 16 * 16,
};

FV_GPU_CODE(fv_gpu_cells, "cells", "cells", 64, .shape = fv_gpu_shape_columns, .align = 1)

static uint32_t local_plain(const fv_launch *l, uint32_t group)
{
    (void)l;
    return group == 1 ? 0 : fv_gpu_tile_local(group, false) + LISTS;
}

static uint32_t local_staged(const fv_launch *l, uint32_t group)
{
    (void)l;
    return group == 1 ? 0 : fv_gpu_tile_local(group, true) + LISTS;
}

static void foveated_define(const fv_launch *l, uint32_t group, fv_gpu_text *out)
{
    (void)group;
    fv_gpu_define(out, "FV_D", l->args.prob.dim[FV_ATTN_D]);
    fv_gpu_define(out, "FV_DV", l->args.prob.dim[FV_ATTN_DV]);
}

/* Counts work-groups for the blocks of the call's prefix rows, followed by those of the grid;
 * foveated_common.cl has the same order. */
void fv_gpu_cover_blocks(const fv_launch *l, const fv_gpu_piece *p, uint32_t queries,
                         size_t count[3])
{
    const fv_fovea f = fv_fovea_of(&l->args.prob);
    const uint32_t left = p->row0 < f.prefix ? f.prefix - p->row0 : 0;
    const uint32_t prefix_rows = fv_min_u32(left, p->rows), rows = p->rows - prefix_rows;
    const uint32_t from = p->row0 + prefix_rows - f.prefix;
    size_t blocks = fv_gpu_groups(prefix_rows, QUERIES);
    if (rows > 0) {
        const uint32_t top = from / f.width / FV_FOVEA_BLOCK;
        const uint32_t bottom = (from + rows - 1) / f.width / FV_FOVEA_BLOCK;
        blocks += (bottom - top + 1) * fv_gpu_groups(f.width, FV_FOVEA_BLOCK);
    }
    count[0] = blocks * fv_gpu_groups(QUERIES, queries);
    count[1] = l->args.prob.heads;
}

static void foveated_shape(const fv_launch *l, const fv_gpu_piece *p, size_t count[3])
{
    fv_gpu_cover_blocks(l, p, fv_gpu_tile_queries(p->group), count);
    count[2] = fv_gpu_tile_slices(l);
}

FV_GPU_CODE(fv_gpu_foveated, "foveated", "foveated", 64, .local = local_plain,
            .define = foveated_define, .shape = foveated_shape, .align = 32)
FV_GPU_CODE(fv_gpu_foveated_local, "foveated", "foveated", 128, .local = local_staged,
            .macros = " -DFV_STAGE=1", .define = foveated_define, .shape = foveated_shape,
            .align = 32)
