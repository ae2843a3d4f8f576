/* ref_depth_grad.c: DEPTH_GRAD: gradient of the sum of DEPTH_LOSS with respect to FOUND.
 *
 *   dim, FOUND, TRUTH, WEIGHT, MEAN, f, calls  as in DEPTH_LOSS; MEAN is present
 *   OUT     ROW: tokens, one float each; not FOUND
 *
 *   out[t] = weight sum over pixels p of  b_p(t) 2 (d_p - lambda mean) / z_p
 *
 * with b_p(t) the bilinear weight of token t at pixel p; 0 where z_p was raised to 1e-6.
 */
#include "train/ref/depth_pixels.h"

const fv_op fv_op_depth_grad = {
    .span = FV_SPAN_ALL,
    .dim = {FV_DEPTH_SIZES},
    .operand = {FV_DEPTH_OPERANDS},
    .flops = fv_depth_flops,
    .terms = fv_depth_terms,
};

/* Returns the contribution of pixel (y, x) to the gradient of `token`. */
static double slope(const fv_args *a, const fv_call *c, uint32_t y, uint32_t x, uint32_t token)
{
    const fv_depth_pixel p = fv_depth_pixel_at(a, c, y, x);
    const double mean = (double)*(const float *)c->p[FV_DEPTH_MEAN];
    const double share = fv_segment_share(&p.around, token);
    return p.known && !p.least ? share * 2 * (p.distance - (double)a->f[0] * mean) / p.found : 0;
}

void fv_k_depth_grad_f32_ref(const fv_args *a, const fv_call *c)
{
    for (uint32_t r = 0; r < c->rows; r++) {
        const fv_segment_area seen = fv_segment_seen(a->prob.dim, c->row0 + r);
        double sum = 0;
        for (uint32_t y = seen.top; y < seen.bottom; y++)
            for (uint32_t x = seen.left; x < seen.right; x++)
                sum += slope(a, c, y, x, c->row0 + r);
        ((float *)c->p[FV_DEPTH_OUT])[(size_t)r * a->ld[FV_DEPTH_OUT]] =
            (float)(sum * (double)*(const float *)c->p[FV_DEPTH_WEIGHT]);
    }
}
