/* ref_deform.c: DEFORM: deformable attention: the result for each query is a weighted mean of a few
 * samples of each of several grids of values, the levels.
 *
 *   dim     rows, d, points (of each level), levels, from (values of all levels); heads
 *   VALUES  WHOLE, `from` rows, heads * d wide
 *   BOX     ROW, 4 wide: cx, cy, w, h as fractions of the grids' sides; 2 wide with CENTRES
 *   OFFSET  ROW, heads * levels * points * 2 wide: x, y of each point
 *   WEIGHT  ROW, heads * levels * points wide
 *   OUT     ROW, heads * d wide; not another operand
 *   table   fv_deform_level of each level
 *   f[0]    unit of an offset, as a fraction of the box's sides; with CENTRES, in values
 *
 * For point p of a level and a head:
 *
 *   x_p = (cx + f0 offset_x w) width - 1/2;   y_p = (cy + f0 offset_y h) height - 1/2
 *   x_p = cx width + f0 offset_x - 1/2;       y_p = cy height + f0 offset_y - 1/2     CENTRES
 *   v_p = the level's values of the head at (x_p, y_p), interpolated linearly between the nearest
 *         four; 0 beyond the grid, and if a coordinate is NaN
 *   out = sum_p e_p v_p / sum_p e_p,   e_p = exp(weight_p - max weight)    over all levels
 *
 * Coordinates refer to the centres of values, as in torch's grid_sample with padding_mode "zeros"
 * and align_corners False.
 */
#include <math.h>

#include "base/half.h"
#include "ops/contracts/softmax_attention.h"
#include "ops/ref/ref_deform.h"
#include "ops/ref/ref_kernels.h"

static double flops(const fv_problem *p)
{
    return (double)p->dim[FV_DIM_ROWS] * fv_deform_samples(p) * (8. * p->dim[FV_ATTN_D] + 40);
}

static double terms(const fv_problem *p)
{
    return 4. * p->dim[FV_DEFORM_LEVELS] * p->dim[FV_DEFORM_POINTS];
}

const fv_op fv_op_deform = {
    .dim = {{"rows", FV_DIM_TOKENS},
            [FV_ATTN_D] = {"d"},
            [FV_DEFORM_POINTS] = {"points"},
            [FV_DEFORM_LEVELS] = {"levels"},
            [FV_DEFORM_FROM] = {"from", FV_DIM_TOKENS}},
    .operand = {[FV_DEFORM_VALUES] = {"VALUES", FV_ATTN_D, .heads = true, .narrow = true},
                [FV_DEFORM_BOX] = {"BOX", .columns = fv_deform_places, .nature = FV_NATURE_FRACTION,
                                   .exact = true},
                [FV_DEFORM_OFFSET] = {"OFFSET", .columns = fv_deform_offsets, .exact = true},
                [FV_DEFORM_WEIGHT] = {"WEIGHT", .columns = fv_deform_samples},
                [FV_DEFORM_OUT] = {"OUT", FV_ATTN_D, .heads = true}},
    .flops = flops,
    .terms = terms,
};

/* Computes one head of a row from its offsets and weights. */
static void attend(const fv_args *a, const void *values, uint32_t head, const float *box,
                   const float *offset, const float *weight, float *out)
{
    const fv_deform_level *level = a->table;
    const uint32_t d = a->prob.dim[FV_ATTN_D], points = a->prob.dim[FV_DEFORM_POINTS];
    const uint32_t samples = points * a->prob.dim[FV_DEFORM_LEVELS];
    float max = -INFINITY, sum = 0.f;
    for (uint32_t p = 0; p < samples; p++)
        max = weight[p] > max ? weight[p] : max;
    for (uint32_t i = 0; i < d; i++)
        out[i] = 0.f;
    for (uint32_t p = 0; p < samples; p++) {
        const fv_deform_level *l = &level[p / points];
        const float e = expf(weight[p] - max);
        float x, y;
        fv_deform_place(&x, &y, a, l, box, offset + 2 * (size_t)p);
        const fv_deform_corners k = fv_deform_at(x, y, l->width, l->height);
        sum += e;
        for (int n = 0; n < k.count; n++)
            for (uint32_t i = 0; i < d; i++)
                out[i] +=
                    e * k.part[n] *
                    fv_value_get(values, a->prob.in,
                                 (l->first + k.row[n]) * a->ld[FV_DEFORM_VALUES] + head * d + i);
    }
    for (uint32_t i = 0; i < d; i++)
        out[i] /= sum;
}

void fv_k_deform_f32_ref(const fv_args *a, const fv_call *c)
{
    const size_t d = a->prob.dim[FV_ATTN_D];
    const size_t samples = (size_t)a->prob.dim[FV_DEFORM_LEVELS] * a->prob.dim[FV_DEFORM_POINTS];
    for (size_t r = 0; r < c->rows; r++)
        for (size_t h = 0; h < a->prob.heads; h++)
            attend(a, c->p[FV_DEFORM_VALUES], (uint32_t)h,
                   (const float *)c->p[FV_DEFORM_BOX] + r * a->ld[FV_DEFORM_BOX],
                   (const float *)c->p[FV_DEFORM_OFFSET] + r * a->ld[FV_DEFORM_OFFSET] +
                       h * 2 * samples,
                   (const float *)c->p[FV_DEFORM_WEIGHT] + r * a->ld[FV_DEFORM_WEIGHT] +
                       h * samples,
                   (float *)c->p[FV_DEFORM_OUT] + r * a->ld[FV_DEFORM_OUT] + h * d);
}
