/* ref_deform.c: DEFORM: deformable attention: the result for each query is a weighted mean of a few
 * samples of a grid of values.
 *
 *   dim     rows, d, points, width, height; heads
 *   VALUES  WHOLE, width * height rows, heads * d wide
 *   BOX     ROW, 4 wide: cx, cy, w, h as fractions of the grid's sides
 *   OFFSET  ROW, heads * points * 2 wide: x, y of each point
 *   WEIGHT  ROW, heads * points wide
 *   OUT     ROW, heads * d wide; not another operand
 *   f[0]    unit of an offset, as a fraction of the box's sides
 *
 * For point p of a head:
 *
 *   x_p = (cx + f0 offset_x w) width - 1/2;   y_p = (cy + f0 offset_y h) height - 1/2
 *   v_p = the head's values at (x_p, y_p), interpolated linearly between the nearest four; 0
 *         beyond the grid, and if a coordinate is NaN
 *   out = sum_p e_p v_p / sum_p e_p,   e_p = exp(weight_p - max weight)
 *
 * Coordinates refer to the centres of values, as in torch's grid_sample with padding_mode "zeros"
 * and align_corners False.
 */
#include <math.h>

#include "ops/contracts/softmax_attention.h"
#include "ops/ref/ref_deform.h"
#include "ops/ref/ref_kernels.h"

static uint32_t offsets(const fv_problem *p)
{
    return 2 * p->heads * p->dim[FV_DEFORM_POINTS];
}

static uint32_t corners(const fv_problem *p)
{
    (void)p;
    return 4;
}

static double flops(const fv_problem *p)
{
    const double samples = (double)p->dim[FV_DIM_ROWS] * p->heads * p->dim[FV_DEFORM_POINTS];
    return samples * (8. * p->dim[FV_ATTN_D] + 40);
}

static double terms(const fv_problem *p)
{
    return 4. * p->dim[FV_DEFORM_POINTS];
}

const fv_op fv_op_deform = {
    .dim = {{"rows", FV_DIM_TOKENS},
            [FV_ATTN_D] = {"d"},
            [FV_DEFORM_POINTS] = {"points"},
            [FV_DEFORM_WIDTH] = {"width", FV_DIM_TOKENS},
            [FV_DEFORM_HEIGHT] = {"height", FV_DIM_TOKENS}},
    .operand = {[FV_DEFORM_VALUES] = {"VALUES", FV_ATTN_D, .heads = true},
                [FV_DEFORM_BOX] = {"BOX", .columns = corners, .nature = FV_NATURE_FRACTION,
                                   .exact = true},
                [FV_DEFORM_OFFSET] = {"OFFSET", .columns = offsets, .exact = true},
                [FV_DEFORM_WEIGHT] = {"WEIGHT", FV_DEFORM_POINTS, .heads = true},
                [FV_DEFORM_OUT] = {"OUT", FV_ATTN_D, .heads = true}},
    .flops = flops,
    .terms = terms,
};

/* Computes one head of a row from its offsets and weights. */
static void attend(const fv_args *a, const float *values, const float *box, const float *offset,
                   const float *weight, float *out)
{
    const uint32_t *dim = a->prob.dim, width = dim[FV_DEFORM_WIDTH], height = dim[FV_DEFORM_HEIGHT];
    float max = -INFINITY, sum = 0.f;
    for (uint32_t p = 0; p < dim[FV_DEFORM_POINTS]; p++)
        max = weight[p] > max ? weight[p] : max;
    for (uint32_t i = 0; i < dim[FV_ATTN_D]; i++)
        out[i] = 0.f;
    for (uint32_t p = 0; p < dim[FV_DEFORM_POINTS]; p++) {
        const float e = expf(weight[p] - max);
        const fv_deform_corners k = fv_deform_at(
            (box[0] + a->f[0] * offset[2 * p] * box[2]) * (float)width - 0.5f,
            (box[1] + a->f[0] * offset[2 * p + 1] * box[3]) * (float)height - 0.5f, width, height);
        sum += e;
        for (int n = 0; n < k.count; n++)
            for (uint32_t i = 0; i < dim[FV_ATTN_D]; i++)
                out[i] += e * k.part[n] * values[k.row[n] * a->ld[FV_DEFORM_VALUES] + i];
    }
    for (uint32_t i = 0; i < dim[FV_ATTN_D]; i++)
        out[i] /= sum;
}

void fv_k_deform_f32_ref(const fv_args *a, const fv_call *c)
{
    const size_t d = a->prob.dim[FV_ATTN_D], points = a->prob.dim[FV_DEFORM_POINTS];
    for (size_t r = 0; r < c->rows; r++)
        for (size_t h = 0; h < a->prob.heads; h++)
            attend(a, (const float *)c->p[FV_DEFORM_VALUES] + h * d,
                   (const float *)c->p[FV_DEFORM_BOX] + r * a->ld[FV_DEFORM_BOX],
                   (const float *)c->p[FV_DEFORM_OFFSET] + r * a->ld[FV_DEFORM_OFFSET] +
                       h * 2 * points,
                   (const float *)c->p[FV_DEFORM_WEIGHT] + r * a->ld[FV_DEFORM_WEIGHT] + h * points,
                   (float *)c->p[FV_DEFORM_OUT] + r * a->ld[FV_DEFORM_OUT] + h * d);
}
