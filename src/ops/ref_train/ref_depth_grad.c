/* ref_depth_grad.c: DEPTH_GRAD: gradient of what was found, of the sum of DEPTH_LOSS.
 *
 *   dim, FOUND, TRUTH, WEIGHT, MEAN, f, calls  as DEPTH_LOSS; MEAN is there
 *   OUT     ROW: tokens, one float each; not FOUND
 *
 *   out[t] = weight sum over pixels p of  b_p(t) 2 (d_p - lambda mean) / z_p
 *
 * with b_p(t) the bilinear weight of token t at pixel p; 0 where z_p is 1e-6 by force.
 */
#include "ops/ref_train/depth_pixels.h"

const fv_op fv_op_depth_grad = {
    .span = FV_SPAN_ALL,
    .dim = {FV_DEPTH_SIZES},
    .operand = {FV_DEPTH_OPERANDS},
    .flops = fv_depth_flops,
    .terms = fv_depth_terms,
};

/* What pixel (y, x) gives to `token`. */
static double slope(const fv_args *a, const fv_call *c, uint32_t y, uint32_t x, uint32_t token)
{
    const fv_depth_pixel p = fv_depth_pixel_at(a, c, y, x);
    const double mean = (double)*(const float *)c->p[FV_DEPTH_MEAN];
    double share = 0;
    for (int i = 0; i < 4; i++)
        share += p.token[i] == token ? p.share[i] : 0;
    return p.known && !p.least ? share * 2 * (p.distance - (double)a->f[0] * mean) / p.found : 0;
}

void fv_k_depth_grad_f32_ref(const fv_args *a, const fv_call *c)
{
    const uint32_t *dim = a->prob.dim, across = dim[FV_SEGMENT_GRID], down = dim[0] / across;
    for (uint32_t r = 0; r < c->rows; r++) {
        const uint32_t token = c->row0 + r;
        uint32_t top, bottom, left, right;
        double sum = 0;
        fv_segment_reach(&top, &bottom, token / across, down, dim[FV_SEGMENT_HEIGHT]);
        fv_segment_reach(&left, &right, token % across, across, dim[FV_SEGMENT_WIDTH]);
        for (uint32_t y = top; y < bottom; y++)
            for (uint32_t x = left; x < right; x++)
                sum += slope(a, c, y, x, token);
        ((float *)c->p[FV_DEPTH_OUT])[(size_t)r * a->ld[FV_DEPTH_OUT]] =
            (float)(sum * (double)*(const float *)c->p[FV_DEPTH_WEIGHT]);
    }
}
