/* ref_depth_loss.c: DEPTH_LOSS: the distance of a grid's depths, interpolated to the pixels of a
 * map, from the true depths, up to a common factor (Eigen et al., 2014).
 *
 *   dim     tokens (of the grid, no prefix), unused, tokens per grid row, the map's width, its
 *           height
 *   FOUND   WHOLE: tokens, one float each
 *   TRUTH   WHOLE: height x width floats; a pixel counts only if it is positive and finite
 *   WEIGHT  one float: the weight of every pixel, 1 / the number of pixels that count
 *   MEAN    absent, or one float: the sum of OUT of a step without MEAN
 *   OUT     ROW: tokens, one float each
 *   f[0]    lambda
 *   calls   begin and end at multiples of a grid row (fv_step.align)
 *
 * The depth z of a pixel is interpolated between the four tokens around it (segment_lines.h), and
 * is at least 1e-6. The distance is d = log z - log z*, where z* is the true depth.
 *
 *   out[t] = weight sum over the pixels p of token t of  d_p                      without MEAN
 *   out[t] = weight sum over the pixels p of token t of  d_p (d_p - lambda mean)  with MEAN
 *
 * With MEAN, the sum over all tokens is mean of d^2 - lambda (mean of d)^2. A pixel belongs to the
 * token whose cell contains the pixel's centre. The grid is stretched over the map. */
#include "train/ref/depth_pixels.h"

const fv_op fv_op_depth_loss = {
    .span = FV_SPAN_ALL,
    .dim = {FV_DEPTH_SIZES},
    .operand = {FV_DEPTH_OPERANDS},
    .flops = fv_depth_flops,
    .terms = fv_depth_terms,
};

void fv_k_depth_loss_f32_ref(const fv_args *a, const fv_call *c)
{
    const float *mean = c->p[FV_DEPTH_MEAN];
    for (uint32_t r = 0; r < c->rows; r++) {
        const fv_segment_area own = fv_segment_own(a->prob.dim, c->row0 + r);
        double sum = 0;
        for (uint32_t y = own.top; y < own.bottom; y++)
            for (uint32_t x = own.left; x < own.right; x++) {
                const double d = fv_depth_pixel_at(a, c, y, x).distance;
                sum += mean ? d * (d - (double)a->f[0] * (double)*mean) : d;
            }
        ((float *)c->p[FV_DEPTH_OUT])[(size_t)r * a->ld[FV_DEPTH_OUT]] =
            (float)(sum * (double)*(const float *)c->p[FV_DEPTH_WEIGHT]);
    }
}
