/* gpu_gemm_subgroup.c: launch code of gemm_subgroup.cl: GEMM in float16 arithmetic by subgroups of
 * 16 lanes. */
#include <math.h>

#include "base/num.h"
#include "gpu/kernels/gpu_gemm_half.h"
#include "ops/contracts/product.h"

enum { LANES = 16, HEIGHT = 16, PANEL = FV_GPU_PANEL };

static fv_gpu_tile tile_of(const fv_launch *l)
{
    return fv_gpu_tile_of(l, LANES, PANEL);
}

static void define(const fv_launch *l, uint32_t group, fv_gpu_text *out)
{
    const fv_gpu_tile t = tile_of(l);
    (void)group;
    fv_gpu_define(out, "FV_HALVES", 1);
    fv_gpu_define(out, "FV_SUBGROUP", 1);
    fv_gpu_define_tile(l, &t, out);
}

static void shape(const fv_launch *l, const fv_gpu_piece *p, size_t count[3])
{
    fv_gpu_cover_product(l, p->rows, tile_of(l).rows, PANEL, count);
}

FV_GPU_CODE(fv_gpu_gemm_subgroup, FV_GPU_HALF_CODE, .group = LANES,
            .local = fv_gpu_half_local_scales, .define = define, .shape = shape)

/* ---- the packed weight ---- */

/* Position of a column: for each of the two steps the lanes' first columns, then their second
 * ones. */
static uint32_t place_by_lanes(uint32_t column)
{
    return column % 2 * LANES + column / 2;
}

static void pack(void *dst, const float *src, uint32_t n0, uint32_t n, const fv_problem *p,
                 const fv_knobs *knobs)
{
    static const fv_gpu_half_order lanes = {place_by_lanes, PANEL};
    (void)knobs;
    fv_gpu_half_pack(dst, src, n0, n, p, &lanes);
}

/* ---- when ---- */

/* More rows would not fit the registers; fewer would read more numbers per product. */
static const fv_knob knobs[] = {{"rows", {HEIGHT}, 1}, {"cols", {2}, 1}, {NULL, {0}, 0}};

/* Devices on which subgroups were not measured to be faster do not have the feature that this
 * kernel needs (cl_probe.c). A tile is computed by one subgroup, so 192 tiles have as many
 * work-items as gpu_gemm.c considers enough. */
static double cost(const fv_problem *p, const fv_knobs *of)
{
    const uint32_t rows = p->dim[FV_DIM_ROWS], down = fv_ceil_div(rows, HEIGHT);
    const double columns = (double)p->dim[FV_GEMM_N] * fv_gpu_gemm_sides(p), enough = 192;
    const double tiles = down * ceil(columns / PANEL);
    (void)of;
    return fv_gpu_half_cost(p, 400e9) * down * HEIGHT / rows *
           (tiles < enough ? enough / tiles : 1);
}

const fv_kernel_hooks fv_h_gpu_gemm_subgroup = {.applies = fv_gpu_half_applies,
                                                .cost = cost,
                                                .scratch = fv_gpu_half_scratch,
                                                .packed = fv_gpu_half_packed,
                                                .pack = pack,
                                                .format = "gpu_lanes_f16",
                                                .knobs = knobs};
