/* ref_resize_y.c: RESIZE_Y: the vertical pass of a picture's resize.
 *
 *   dim    rows (output rows), width (pixels per row), channels
 *   IN     at its base: rows of the horizontal pass, u8 or float32, with a stride of ld elements
 *   OUT    ROW: width * channels of the same type
 *   table  const fv_resize_table of `rows` positions; starts count from row 0 of IN
 *
 *   out[o][i] = sum_{t < count[o]} in[start[o] + t][i] * weight[o * taps + t]
 *
 * for every element i of a row. Bytes are rounded as in ref_resize_x.c.
 */
#include "ops/contracts/picture.h"
#include "ops/preprocess.h"
#include "ops/ref/ref_kernels.h"
#include "ops/ref/ref_resize.h"

const fv_op fv_op_resize_y = {
    .span = FV_SPAN_ALL,
    .dim = {{"rows", FV_DIM_TOKENS},
            [FV_RESIZE_WIDTH] = {"width", FV_DIM_TOKENS},
            [FV_RESIZE_CHANNELS] = {"channels"}},
    .operand = {[FV_RESIZE_IN] = {"IN", .columns = fv_columns_pixels, .exact = true},
                [FV_RESIZE_OUT] = {"OUT", .columns = fv_columns_pixels, .exact = true}},
    .element_flops = 2,
};

void fv_k_resize_y_ref(const fv_args *a, const fv_call *c)
{
    const fv_resize_table *t = a->table;
    const size_t count = (size_t)a->prob.dim[FV_RESIZE_WIDTH] * a->prob.dim[FV_RESIZE_CHANNELS];
    for (uint32_t r = 0; r < c->rows; r++) {
        const size_t o = (size_t)c->row0 + r;
        for (size_t i = 0; i < count; i++) {
            fv_resize_sum sum = fv_resize_begin(t);
            for (uint32_t k = 0; k < t->count[o]; k++) {
                const size_t at = (t->start[o] + k) * (size_t)a->ld[FV_RESIZE_IN] + i;
                const float value = t->bits ? ((const uint8_t *)c->p[FV_RESIZE_IN])[at]
                                            : ((const float *)c->p[FV_RESIZE_IN])[at];
                fv_resize_add(&sum, t, o, k, value);
            }
            fv_resize_put(c->p[FV_RESIZE_OUT], (size_t)r * a->ld[FV_RESIZE_OUT] + i, &sum, t);
        }
    }
}
