/* gpu_softmax.c: launch code of softmax.cl and softmax_scan.cl, with softmax_tiles.cl, and of
 * softmax_wide.cl. */
#include <string.h>

#include "gpu/gpu_code.h"
#include "ops/contracts/sequence.h"

enum { ACROSS = 16, KEYS = 32, SLICE = 64, PITCH = 5, QUAD = 4 * sizeof(float) };

static void softmax_define(const fv_launch *l, uint32_t group, fv_gpu_text *out)
{
    (void)group;
    fv_gpu_define(out, "FV_D", l->args.prob.dim[FV_ATTN_D]);
    fv_gpu_define(out, "FV_DV", l->args.prob.dim[FV_ATTN_DV]);
    fv_gpu_define(out, "FV_WINDOW", fv_gpu_is_window(l));
    fv_gpu_define(out, "FV_REGIONS", fv_gpu_is_window(l) && l->args.table);
    fv_gpu_define(out, "FV_REL_POS", l->args.prob.dim[FV_REL_POS_COLUMNS] > 0);
}

uint32_t fv_gpu_tile_queries(uint32_t group)
{
    return group < ACROSS ? 4 : group / ACROSS * 4;
}

uint32_t fv_gpu_tile_local(uint32_t group, bool staged)
{
    const uint32_t queries = fv_gpu_tile_queries(group);
    const uint32_t weights = group + KEYS * (queries / 4 + 1);
    return group == 1 ? 0 : (weights + (staged ? (queries + KEYS) * PITCH : 0)) * QUAD;
}

static uint32_t local_plain(const fv_launch *l, uint32_t group)
{
    (void)l;
    return fv_gpu_tile_local(group, false);
}

static uint32_t local_staged(const fv_launch *l, uint32_t group)
{
    (void)l;
    return fv_gpu_tile_local(group, true);
}

void fv_gpu_cover_queries(const fv_launch *l, uint32_t rows, uint32_t queries, size_t count[3])
{
    const uint32_t window = l->args.prob.dim[FV_ATTN_KEYS];
    count[0] = fv_gpu_is_window(l) ? (size_t)(rows / window) * fv_gpu_groups(window, queries)
                                   : fv_gpu_groups(rows, queries);
    count[1] = l->args.prob.heads;
}

uint32_t fv_gpu_tile_slices(const fv_launch *l)
{
    return (uint32_t)fv_gpu_groups(l->args.prob.dim[FV_ATTN_DV], SLICE);
}

static void softmax_shape(const fv_launch *l, const fv_gpu_piece *p, size_t count[3])
{
    fv_gpu_cover_queries(l, p->rows, fv_gpu_tile_queries(p->group), count);
    count[2] = fv_gpu_tile_slices(l);
}

uint64_t fv_gpu_regions(const fv_launch *l, uint32_t *out)
{
    const uint64_t size = l->args.table ? l->rows * sizeof(uint32_t) : 0;
    if (out && size)
        memcpy(out, l->args.table, size);
    return size;
}

FV_GPU_CODE(fv_gpu_softmax, "softmax", "softmax", 64, .local = local_plain,
            .define = softmax_define, .shape = softmax_shape, .align = 32)
FV_GPU_CODE(fv_gpu_softmax_local, "softmax", "softmax", 128, .local = local_staged,
            .macros = " -DFV_STAGE=1", .define = softmax_define, .shape = softmax_shape,
            .align = 32)

FV_GPU_CODE(fv_gpu_wsoftmax, "softmax", "wsoftmax", 64, .local = local_plain,
            .define = softmax_define, .shape = softmax_shape, .table = fv_gpu_regions,
            .align = FV_GPU_WINDOWS)
FV_GPU_CODE(fv_gpu_wsoftmax_local, "softmax", "wsoftmax", 128, .local = local_staged,
            .macros = " -DFV_STAGE=1", .define = softmax_define, .shape = softmax_shape,
            .table = fv_gpu_regions, .align = FV_GPU_WINDOWS)

/* softmax_wide.cl: a work-item has a block of LANES queries of a head. */
static void shape_wide(const fv_launch *l, const fv_gpu_piece *p, size_t count[3])
{
    enum { LANES = 16 };
    fv_gpu_cover_queries(l, p->rows, LANES, count);
}

FV_GPU_CODE(fv_gpu_softmax_wide, "softmax_wide", "softmax", 1, .define = softmax_define,
            .shape = shape_wide, .align = 16)
FV_GPU_CODE(fv_gpu_wsoftmax_wide, "softmax_wide", "wsoftmax", 1, .define = softmax_define,
            .shape = shape_wide, .table = fv_gpu_regions, .align = FV_GPU_WINDOWS)

static void scan_define(const fv_launch *l, uint32_t group, fv_gpu_text *out)
{
    (void)group;
    fv_gpu_define(out, "FV_D", l->args.prob.dim[FV_ATTN_D]);
    fv_gpu_define(out, "FV_DV", l->args.prob.dim[FV_ATTN_DV]);
    fv_gpu_define(out, "FV_SHARING", l->args.prob.heads / l->args.prob.dim[FV_CACHE_KV_HEADS]);
}

static void shape_remember(const fv_launch *l, const fv_gpu_piece *p, size_t count[3])
{
    count[0] = p->rows;
    count[1] = l->args.prob.dim[FV_CACHE_KV_HEADS];
}

FV_GPU_CODE(fv_gpu_softmax_scan, "softmax_scan", "softmax_scan", 64, .local = local_plain,
            .define = scan_define, .shape = softmax_shape,
            .pre_pass = {{"softmax_scan_remember", shape_remember}}, .align = 32)
FV_GPU_CODE(fv_gpu_softmax_scan_local, "softmax_scan", "softmax_scan", 128, .local = local_staged,
            .macros = " -DFV_STAGE=1", .define = scan_define, .shape = softmax_shape,
            .pre_pass = {{"softmax_scan_remember", shape_remember}}, .align = 32)

/* Products of whole numbers are those of softmax_i8.cl; of foveated attention the CPU's. */
static bool is_of_floats(const fv_problem *p)
{
    return p->acc != FV_I32;
}

const fv_kernel_hooks fv_h_gpu_softmax = {.applies = is_of_floats};
