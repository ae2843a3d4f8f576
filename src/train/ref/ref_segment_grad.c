/* ref_segment_grad.c: SEGMENT_GRAD: gradient of SEGMENT_LOSS's logits.
 *
 *   dim, LOGITS, MASK, WEIGHT, calls  as in SEGMENT_LOSS
 *   OUT     ROW: tokens x classes; not LOGITS
 *
 *   out[t][c] = weight sum over pixels p of  b_p(t) (softmax(z_p)[c] - (c == class of p))
 *
 * with b_p(t) the bilinear weight of the logits of token t at pixel p.
 */
#include "train/ref/ref_loss.h"
#include "train/ref/segment_lines.h"
#include "train/ref/train_ref_kernels.h"

const fv_op fv_op_segment_grad = {
    .span = FV_SPAN_ALL,
    .dim = {FV_SEGMENT_SIZES},
    .operand = {FV_SEGMENT_OPERANDS, [FV_SEGMENT_OUT] = {"OUT", FV_ROW_C}},
    .flops = fv_segment_flops,
    .terms = fv_segment_terms,
};

enum { CLASSES = 256 };

/* Adds the contribution of pixel (y, x) to `token`, times the pixel's weight. */
static void add_pixel(const fv_args *a, const fv_call *c, uint32_t y, uint32_t x, uint32_t token,
                      float *out)
{
    const size_t n = a->prob.dim[FV_ROW_C];
    const uint8_t *mask = (const uint8_t *)c->p[FV_SEGMENT_MASK];
    const uint8_t class = mask[(size_t)y * a->ld[FV_SEGMENT_MASK] + x];
    const fv_segment_pixel p = fv_segment_pixel_at(a->prob.dim, y, x);
    const double share = fv_segment_share(&p, token);
    const float *near[4];
    if (class >= n || class == FV_SEGMENT_IGNORED || share == 0)
        return;
    float z[CLASSES];
    for (int i = 0; i < 4; i++)
        near[i] =
            (const float *)c->p[FV_SEGMENT_LOGITS] + (size_t)p.token[i] * a->ld[FV_SEGMENT_LOGITS];
    for (size_t i = 0; i < n; i++)
        z[i] = (float)(p.share[0] * near[0][i] + p.share[1] * near[1][i] + p.share[2] * near[2][i] +
                       p.share[3] * near[3][i]);
    const double all = fv_ref_log_sum(z, n), weight = *(const float *)c->p[FV_SEGMENT_WEIGHT];
    for (size_t i = 0; i < n; i++)
        out[i] += (float)(weight * share * (exp(z[i] - all) - (i == class)));
}

void fv_k_segment_grad_f32_ref(const fv_args *a, const fv_call *c)
{
    for (uint32_t r = 0; r < c->rows; r++) {
        const uint32_t token = c->row0 + r;
        float *out = (float *)c->p[FV_SEGMENT_OUT] + (size_t)r * a->ld[FV_SEGMENT_OUT];
        const fv_segment_area seen = fv_segment_seen(a->prob.dim, token);
        for (uint32_t i = 0; i < a->prob.dim[FV_ROW_C]; i++)
            out[i] = 0.f;
        for (uint32_t y = seen.top; y < seen.bottom; y++)
            for (uint32_t x = seen.left; x < seen.right; x++)
                add_pixel(a, c, y, x, token, out);
    }
}
