/* ref_segment_loss.c: SEGMENT_LOSS: cross-entropy of the logits of a grid, interpolated to the
 * pixels of a mask.
 *
 *   dim     tokens (of the grid, no prefix), classes (at most 255), tokens per grid row,
 *           the mask's width, its height
 *   LOGITS  WHOLE: tokens x classes
 *   MASK    WHOLE: u8, height x width: class of every pixel; pixels with 255 or no valid class are
 * ignored WEIGHT  one float: the weight of every pixel OUT     ROW: tokens, one float each calls
 * begin and end at multiples of a grid row (fv_step.align)
 *
 * The logits z of a pixel are interpolated between the four tokens around it (segment_lines.h).
 *
 *   out[t] = weight sum over the pixels p of token t of  log sum_c exp(z_p[c]) - z_p[class of p]
 *
 * A pixel belongs to the token whose cell contains the pixel's centre. The grid is stretched over
 * the mask. If there are fewer pixels than tokens, some tokens have no pixel. */
#include "train/ref/ref_loss.h"
#include "train/ref/segment_lines.h"
#include "train/ref/train_ref_kernels.h"

const fv_op fv_op_segment_loss = {
    .span = FV_SPAN_ALL,
    .dim = {FV_SEGMENT_SIZES},
    .operand = {FV_SEGMENT_OPERANDS, [FV_SEGMENT_OUT] = {"OUT", .columns = fv_columns_one}},
    .flops = fv_segment_flops,
    .terms = fv_segment_terms,
};

static double blended(const float *const near[4], fv_segment_place y, fv_segment_place x,
                      size_t class)
{
    const double left = near[0][class] + (double)y.part * (near[2][class] - near[0][class]);
    const double right = near[1][class] + (double)y.part * (near[3][class] - near[1][class]);
    return left + (double)x.part * (right - left);
}

static double pixel_loss(const fv_args *a, const fv_call *c, uint32_t y, uint32_t x)
{
    const uint32_t *dim = a->prob.dim, across = dim[FV_SEGMENT_GRID];
    const uint8_t *mask = (const uint8_t *)c->p[FV_SEGMENT_MASK];
    const uint8_t class = mask[(size_t)y * a->ld[FV_SEGMENT_MASK] + x];
    const fv_segment_place v = fv_segment_between(y, dim[0] / across, dim[FV_SEGMENT_HEIGHT]);
    const fv_segment_place u = fv_segment_between(x, across, dim[FV_SEGMENT_WIDTH]);
    const size_t ld = a->ld[FV_SEGMENT_LOGITS];
    const float *up = (const float *)c->p[FV_SEGMENT_LOGITS] + (size_t)v.first * across * ld;
    const float *down = (const float *)c->p[FV_SEGMENT_LOGITS] + (size_t)v.second * across * ld;
    const float *const near[4] = {up + u.first * ld, up + u.second * ld, down + u.first * ld,
                                  down + u.second * ld};
    double max = -INFINITY, sum = 0;
    if (class >= dim[FV_ROW_C] || class == FV_SEGMENT_IGNORED)
        return 0;
    for (size_t i = 0; i < dim[FV_ROW_C]; i++)
        max = fmax(max, blended(near, v, u, i));
    for (size_t i = 0; i < dim[FV_ROW_C]; i++)
        sum += exp(blended(near, v, u, i) - max);
    return max + log(sum) - blended(near, v, u, class);
}

void fv_k_segment_loss_f32_ref(const fv_args *a, const fv_call *c)
{
    for (uint32_t r = 0; r < c->rows; r++) {
        const fv_segment_area own = fv_segment_own(a->prob.dim, c->row0 + r);
        double sum = 0;
        for (uint32_t y = own.top; y < own.bottom; y++)
            for (uint32_t x = own.left; x < own.right; x++)
                sum += pixel_loss(a, c, y, x);
        ((float *)c->p[FV_SEGMENT_OUT])[(size_t)r * a->ld[FV_SEGMENT_OUT]] =
            (float)(sum * *(const float *)c->p[FV_SEGMENT_WEIGHT]);
    }
}
