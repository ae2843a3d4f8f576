/* ref_resize_y.c: RESIZE_Y: vertical pass of the picture resize.
 *
 *   dim    rows (output rows), width (pixels per row), channels
 *   IN     u8, at its base: rows of the horizontal pass, ld bytes apart
 *   OUT    u8, ROW: width * channels bytes per row
 *   table  const fv_resize_table of `rows` positions; starts count from row 0 of IN
 *
 *   out[o][b] = clip8((sum_{t < count[o]} in[start[o] + t][b] * weight[o * taps + t] + 2^21) >> 22)
 *
 * for every byte b of a row; the arithmetic is that of ref_resize_x.c.
 */
#include "ops/preprocess.h"
#include "ops/ref/ref_kernels.h"

const fv_op fv_op_resize_y = {
    .span = FV_SPAN_ALL,
    .dim = {{"rows", FV_DIM_TOKENS},
            [FV_RESIZE_WIDTH] = {"width", FV_DIM_TOKENS},
            [FV_RESIZE_CHANNELS] = {"channels"}},
    .operand = {[FV_RESIZE_IN] = {"IN", .columns = fv_columns_pixels},
                [FV_RESIZE_OUT] = {"OUT", .columns = fv_columns_pixels}},
    .element_flops = 2,
};

void fv_k_resize_y_u8_ref(const fv_args *a, const fv_call *c)
{
    const fv_resize_table *t = a->table;
    const size_t bytes = (size_t)a->prob.dim[FV_RESIZE_WIDTH] * a->prob.dim[FV_RESIZE_CHANNELS];
    const size_t ld = a->ld[FV_RESIZE_IN];
    for (uint32_t r = 0; r < c->rows; r++) {
        const size_t o = (size_t)c->row0 + r;
        const int32_t *weight = t->weight + o * t->taps;
        const uint8_t *in = (const uint8_t *)c->p[FV_RESIZE_IN] + t->start[o] * ld;
        uint8_t *out = (uint8_t *)c->p[FV_RESIZE_OUT] + (size_t)r * a->ld[FV_RESIZE_OUT];
        for (size_t b = 0; b < bytes; b++) {
            int32_t sum = 1 << 21;
            for (uint32_t k = 0; k < t->count[o]; k++)
                sum += in[k * ld + b] * weight[k];
            sum >>= 22;
            out[b] = (uint8_t)(sum < 0 ? 0 : sum > 255 ? 255 : sum);
        }
    }
}
