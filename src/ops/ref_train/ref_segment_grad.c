/* ref_segment_grad.c: SEGMENT_GRAD: gradient of SEGMENT_LOSS's logits.
 *
 *   dim, LOGITS, MASK, WEIGHT, calls  as SEGMENT_LOSS
 *   OUT     ROW: tokens x classes; not LOGITS
 *
 *   out[t][c] = weight sum over pixels p of  b_p(t) (softmax(z_p)[c] - (c == class of p))
 *
 * with b_p(t) the bilinear weight of the logits of token t at pixel p.
 */
#include "ops/ref/ref_kernels.h"
#include "ops/ref_train/ref_loss.h"
#include "ops/ref_train/segment_lines.h"

const fv_op fv_op_segment_grad = {
    .span = FV_SPAN_ALL,
    .dim = {FV_SEGMENT_SIZES},
    .operand = {FV_SEGMENT_OPERANDS, [FV_SEGMENT_OUT] = {"OUT", FV_ROW_C}},
    .flops = fv_segment_flops,
    .terms = fv_segment_terms,
};

enum { CLASSES = 256 };

typedef struct pixel {
    const float *near[4]; /* logits of the tokens around it, row by row */
    double share[4];
    uint32_t token[4];
} pixel;

static pixel pixel_at(const fv_args *a, const fv_call *c, uint32_t y, uint32_t x)
{
    const uint32_t *dim = a->prob.dim, across = dim[FV_SEGMENT_GRID];
    const fv_between v = fv_segment_between(y, dim[0] / across, dim[FV_SEGMENT_HEIGHT]);
    const fv_between u = fv_segment_between(x, across, dim[FV_SEGMENT_WIDTH]);
    pixel p;
    for (int i = 0; i < 4; i++) {
        p.token[i] = (i & 2 ? v.second : v.first) * across + (i & 1 ? u.second : u.first);
        p.share[i] = (double)(i & 2 ? v.part : 1 - v.part) * (double)(i & 1 ? u.part : 1 - u.part);
        p.near[i] =
            (const float *)c->p[FV_SEGMENT_LOGITS] + (size_t)p.token[i] * a->ld[FV_SEGMENT_LOGITS];
    }
    return p;
}

/* Adds what pixel (y, x) gives to `token`, times the pixel's weight. */
static void add_pixel(const fv_args *a, const fv_call *c, uint32_t y, uint32_t x, uint32_t token,
                      float *out)
{
    const size_t n = a->prob.dim[FV_ROW_C];
    const uint8_t *mask = (const uint8_t *)c->p[FV_SEGMENT_MASK];
    const uint8_t class = mask[(size_t)y * a->ld[FV_SEGMENT_MASK] + x];
    const pixel p = pixel_at(a, c, y, x);
    double share = 0;
    for (int i = 0; i < 4; i++)
        share += p.token[i] == token ? p.share[i] : 0;
    if (class >= n || class == FV_SEGMENT_IGNORED || share == 0)
        return;
    float z[CLASSES];
    for (size_t i = 0; i < n; i++)
        z[i] = (float)(p.share[0] * p.near[0][i] + p.share[1] * p.near[1][i] +
                       p.share[2] * p.near[2][i] + p.share[3] * p.near[3][i]);
    const double all = fv_ref_log_sum(z, n), weight = *(const float *)c->p[FV_SEGMENT_WEIGHT];
    for (size_t i = 0; i < n; i++)
        out[i] += (float)(weight * share * (exp(z[i] - all) - (i == class)));
}

void fv_k_segment_grad_f32_ref(const fv_args *a, const fv_call *c)
{
    const uint32_t *dim = a->prob.dim, across = dim[FV_SEGMENT_GRID], down = dim[0] / across;
    for (uint32_t r = 0; r < c->rows; r++) {
        const uint32_t token = c->row0 + r;
        float *out = (float *)c->p[FV_SEGMENT_OUT] + (size_t)r * a->ld[FV_SEGMENT_OUT];
        uint32_t top, bottom, left, right;
        fv_segment_reach(&top, &bottom, token / across, down, dim[FV_SEGMENT_HEIGHT]);
        fv_segment_reach(&left, &right, token % across, across, dim[FV_SEGMENT_WIDTH]);
        for (uint32_t i = 0; i < dim[FV_ROW_C]; i++)
            out[i] = 0.f;
        for (uint32_t y = top; y < bottom; y++)
            for (uint32_t x = left; x < right; x++)
                add_pixel(a, c, y, x, token, out);
    }
}
