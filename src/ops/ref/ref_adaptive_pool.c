/* ref_adaptive_pool.c: ADAPTIVE_POOL: means, or maxima, of a complete grid over areas of nearly
 * equal size.
 *
 *   dim    rows (= output pixels, a multiple of columns), C, width, height (of the grid), columns
 *   IN     WHOLE: width x height pixels of C channels, row by row, no prefix
 *   OUT    ROW, C wide: a grid of `columns` columns; not IN
 *   type   of each operand: F32 or BF16
 *   flags  FV_FLAG_LARGEST: the maximum instead of the mean; or none
 *
 *   out[y][x] = mean of in[i][k] over floor(y height / lines) <= i < ceil((y + 1) height / lines)
 *               and floor(x width / columns) <= k < ceil((x + 1) width / columns)
 *
 * with lines = rows / columns, as torch's adaptive_avg_pool2d. Areas overlap if sizes do not divide
 * evenly, and repeat if the output is the larger grid. Sums are float32, over an area's pixels in
 * order. With FV_FLAG_LARGEST and sizes that divide evenly, as torch's max_pool2d.
 */
#include "ops/ref/ref_adaptive_pool.h"

#include <math.h>

#include "base/half.h"
#include "ops/ref/ref_kernels.h"

static double area_most(const fv_problem *p)
{
    const double lines = (double)p->dim[FV_DIM_ROWS] / p->dim[FV_POOL_COLUMNS];
    return (p->dim[FV_POOL_WIDTH] / (double)p->dim[FV_POOL_COLUMNS] + 1) *
           (p->dim[FV_POOL_HEIGHT] / lines + 1);
}

static double flops(const fv_problem *p)
{
    return (double)p->dim[FV_DIM_ROWS] * p->dim[FV_ROW_C] * area_most(p);
}

const fv_op fv_op_adaptive_pool = {
    .dim = {{"rows", FV_DIM_TOKENS},
            [FV_ROW_C] = {"C"},
            [FV_POOL_WIDTH] = {"width", FV_DIM_TOKENS},
            [FV_POOL_HEIGHT] = {"height", FV_DIM_TOKENS},
            [FV_POOL_COLUMNS] = {"columns"}},
    .operand = {[FV_POOL_IN] = {"IN", FV_ROW_C, .narrow = true},
                [FV_POOL_OUT] = {"OUT", FV_ROW_C, .narrow = true}},
    .flops = flops,
    .terms = area_most,
};

void fv_k_adaptive_pool_f32_ref(const fv_args *a, const fv_call *c)
{
    const uint32_t width = a->prob.dim[FV_POOL_WIDTH];
    const bool largest = a->prob.flags & FV_FLAG_LARGEST;
    for (uint32_t r = 0; r < c->rows; r++) {
        const fv_pool_area area = fv_pool_area_of(&a->prob, c->row0 + r);
        const uint32_t pixels = (area.y1 - area.y0) * (area.x1 - area.x0);
        for (uint32_t i = 0; i < a->prob.dim[FV_ROW_C]; i++) {
            float sum = largest ? -INFINITY : 0.f;
            for (uint32_t y = area.y0; y < area.y1; y++)
                for (uint32_t x = area.x0; x < area.x1; x++) {
                    const float value =
                        fv_value_get(c->p[FV_POOL_IN], a->type[FV_POOL_IN],
                                     ((size_t)y * width + x) * a->ld[FV_POOL_IN] + i);
                    sum = largest ? fmaxf(sum, value) : sum + value;
                }
            fv_value_put(c->p[FV_POOL_OUT], a->type[FV_POOL_OUT],
                         (size_t)r * a->ld[FV_POOL_OUT] + i, largest ? sum : sum / (float)pixels);
        }
    }
}
