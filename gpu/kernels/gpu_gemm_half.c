/* gpu_gemm_half.c: launch code of gemm_half.cl: GEMM in float16 arithmetic, with scales of rows and
 * columns. */
#include <math.h>
#include <string.h>

#include "base/half.h"
#include "base/num.h"
#include "gpu/kernels/gpu_gemm_half.h"
#include "ops/contracts/product.h"

enum {
    PANEL = FV_GPU_PANEL,
    STAGE = 32, /* steps of k are filled up to a multiple of this, as in gemm_half.cl */
    RUN = 16,   /* numbers of a row that a work-item of row_scales reads, and */
    PART = 8,   /* of row_panels moves */
};

bool fv_gpu_half_applies(const fv_problem *p)
{
    return p->weight == FV_F16 && p->acc == FV_F16;
}

static size_t steps(const fv_problem *p)
{
    return fv_round_up(p->dim[FV_GEMM_K], STAGE);
}

/* ---- the packed weight: panels, a scale for each column ---- */

static uint32_t packed_columns(const fv_problem *p)
{
    return fv_round_up(p->dim[FV_GEMM_N] * fv_gpu_gemm_sides(p), PANEL);
}

size_t fv_gpu_half_packed(const fv_problem *p, const fv_knobs *knobs)
{
    (void)knobs;
    return packed_columns(p) * (steps(p) * sizeof(uint16_t) + sizeof(float));
}

/* Rounds a row to float16 and scales it by a power of two. Only numbers that are small compared
 * with the largest lose digits. Returns the factor that undoes the scaling. */
static float pack_column(uint16_t *to, uint32_t second, const float *row, size_t k)
{
    float top = 0;
    int exponent = 0;
    for (size_t i = 0; i < k; i++) {
        const float x = fabsf(fv_float_of_f16(fv_f16_of_float(row[i])));
        top = x > top ? x : top; /* not fmaxf, at which gcc 12.2 for aarch64 crashes */
    }
    if (isfinite(top))
        frexpf(top, &exponent);
    for (size_t i = 0; i < k; i++) {
        const float x = fv_float_of_f16(fv_f16_of_float(row[i]));
        to[i / 2 * 2 * PANEL + i % 2 * second] = fv_f16_of_float(ldexpf(x, -exponent));
    }
    return ldexpf(1, exponent);
}

void fv_gpu_half_pack(void *dst, const float *src, uint32_t n0, uint32_t n, const fv_problem *p,
                      const fv_gpu_half_order *order)
{
    const uint32_t both = fv_gpu_gemm_sides(p), columns = n * both;
    const size_t depth = p->dim[FV_GEMM_K], all = fv_round_up(columns, PANEL);
    uint16_t *panels = (uint16_t *)dst + (size_t)n0 * both * steps(p);
    float *scale = (float *)(void *)((uint16_t *)dst + packed_columns(p) * steps(p)) + n0 * both;
    memset(panels, 0, all * steps(p) * sizeof *panels);
    for (uint32_t i = 0; i < all; i++) {
        uint16_t *to = panels + i / PANEL * PANEL * steps(p) + order->place(i % PANEL);
        scale[i] = i < columns
                       ? pack_column(to, order->second,
                                     src + ((size_t)(i % both) * n + i / both) * depth, depth)
                       : 0;
    }
}

/* Position of a column: four columns of each of the two steps, then the next four. */
static uint32_t place_in_fours(uint32_t column)
{
    return column / 4 * 8 + column % 4;
}

static void pack(void *dst, const float *src, uint32_t n0, uint32_t n, const fv_problem *p,
                 const fv_knobs *knobs)
{
    static const fv_gpu_half_order fours = {place_in_fours, 4};
    (void)knobs;
    fv_gpu_half_pack(dst, src, n0, n, p, &fours);
}

/* ---- rows ---- */

size_t fv_gpu_half_scratch(const fv_problem *p, const fv_knobs *knobs, uint32_t rows)
{
    (void)knobs;
    return fv_round_up(rows, PANEL) * (steps(p) * sizeof(uint16_t) + sizeof(float));
}

/* All runs of a row are in one work-group. */
void fv_gpu_half_shape_scales(const fv_launch *l, const fv_gpu_piece *p, size_t count[3])
{
    fv_gpu_spread(count, p->rows, (l->args.prob.dim[FV_GEMM_K] + RUN - 1) / RUN, p->group);
    count[1] = 1;
}

void fv_gpu_half_shape_panels(const fv_launch *l, const fv_gpu_piece *p, size_t count[3])
{
    count[0] = fv_gpu_groups(fv_round_up(p->rows, PANEL), p->group);
    count[1] = steps(&l->args.prob) / PART;
}

/* ---- tiles ---- */

enum { WIDE = 64 }; /* columns of a work-group that stages operands */

static void define_direct(const fv_launch *l, uint32_t group, fv_gpu_text *out)
{
    const fv_gpu_tile t = fv_gpu_tile_of(l, group, PANEL);
    fv_gpu_define(out, "FV_HALVES", 1);
    fv_gpu_define_tile(l, &t, out);
}

static void shape_direct(const fv_launch *l, const fv_gpu_piece *p, size_t count[3])
{
    const fv_gpu_tile t = fv_gpu_tile_of(l, p->group, PANEL);
    fv_gpu_cover_product(l, p->rows, t.down * t.rows, t.across * t.cols, count);
}

static void define_image(const fv_launch *l, uint32_t group, fv_gpu_text *out)
{
    define_direct(l, group, out);
    fv_gpu_define(out, "FV_IMAGE", 1);
}

static void define_tile(const fv_launch *l, uint32_t group, fv_gpu_text *out)
{
    const fv_gpu_tile t = fv_gpu_tile_of(l, group, WIDE);
    fv_gpu_define(out, "FV_HALVES", 1);
    fv_gpu_define(out, "FV_TILE", 1);
    fv_gpu_define_tile(l, &t, out);
}

static void shape_tile(const fv_launch *l, const fv_gpu_piece *p, size_t count[3])
{
    const fv_gpu_tile t = fv_gpu_tile_of(l, p->group, WIDE);
    fv_gpu_cover_product(l, p->rows, t.down * t.rows, t.across * t.cols, count);
}

uint32_t fv_gpu_half_local_scales(const fv_launch *l, uint32_t group)
{
    (void)l;
    return group * (uint32_t)sizeof(uint32_t);
}

static uint32_t local_tile(const fv_launch *l, uint32_t group)
{
    const fv_gpu_tile t = fv_gpu_tile_of(l, group, WIDE);
    return STAGE * (t.down * t.rows + t.across * t.cols) * (uint32_t)sizeof(uint16_t);
}

#define CODE(name, KIND, items, bytes, operand)                                                    \
    const fv_gpu_code fv_gpu_gemm_half_##name = {FV_GPU_HALF_CODE,      .group = items,            \
                                                 .local = bytes,        .define = define_##name,   \
                                                 .shape = shape_##KIND, .image = operand};
CODE(direct, direct, 64, fv_gpu_half_local_scales, 0)
CODE(image, direct, 64, fv_gpu_half_local_scales, FV_GEMM_W)
CODE(tile, tile, 128, local_tile, 0)

/* ---- which of them ---- */

static const fv_knob knobs_direct[] = {{"rows", {4, 8}, 2}, {"cols", {4, 8}, 2}, {NULL, {0}, 0}};
static const fv_knob knobs_image[] = {{"rows", {4, 8}, 2}, {"cols", {8, 4}, 2}, {NULL, {0}, 0}};
static const fv_knob knobs_tile[] = {{"rows", {8, 4}, 2}, {"cols", {4, 8}, 2}, {NULL, {0}, 0}};

/* Costs as in gpu_gemm.c, where only the ratios to other kernels matter. The pre-passes take as
 * long as products with some 30 columns. */
double fv_gpu_half_cost(const fv_problem *p, double rate)
{
    const double pre_pass = 60. * p->dim[FV_DIM_ROWS] * p->dim[FV_GEMM_K];
    return (fv_problem_flops(p) + pre_pass) / rate;
}

static double cost_direct(const fv_problem *p, const fv_knobs *knobs)
{
    (void)knobs;
    return fv_gpu_half_cost(p, 240e9);
}

static double cost_tile(const fv_problem *p, const fv_knobs *knobs)
{
    (void)knobs;
    return fv_gpu_half_cost(p, 320e9) * fv_gpu_gemm_idle(p);
}

/* Left to the tuner, except if images were measured to be read faster than buffers and at least as
 * fast as local memory. Staging in local memory then only adds barriers. */
static double cost_image(const fv_problem *p, const fv_knobs *knobs)
{
    (void)knobs;
    return fv_gpu_half_cost(p, 230e9);
}

static double cost_image_first(const fv_problem *p, const fv_knobs *knobs)
{
    (void)knobs;
    return fv_gpu_half_cost(p, 340e9);
}

#define HOOKS(name, KNOBS)                                                                         \
    const fv_kernel_hooks fv_h_gpu_gemm_half_##name = {.applies = fv_gpu_half_applies,             \
                                                       .cost = cost_##name,                        \
                                                       .scratch = fv_gpu_half_scratch,             \
                                                       .packed = fv_gpu_half_packed,               \
                                                       .pack = pack,                               \
                                                       .format = "gpu_scaled_f16",                 \
                                                       .knobs = knobs_##KNOBS};
HOOKS(direct, direct)
HOOKS(image, image)
HOOKS(image_first, image)
HOOKS(tile, tile)
