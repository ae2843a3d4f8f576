/* ref_resize_x.c: RESIZE_X: the horizontal pass of a picture's resize.
 *
 *   dim    rows (of the whole pass), width (output pixels per row), channels, pixels per row of IN
 *   IN     at its base: interleaved rows of u8 or float32 with a stride of ld elements; or luma and
 *          chroma of u8 (FV_FLAG_NV12, FV_FLAG_YUYV; channels 3), which become R, G, B bytes first,
 *          see yuv.h
 *   CHROMA NV12: u8, at its base, ld in bytes; else absent
 *   OUT    ROW: width * channels of u8 or float32; u8 from u8 only
 *   u[0]   first row of IN that is read: output row y comes from input row y + u[0]
 *   u[3]   NV12 and YUYV: fovea_yuv_matrix
 *   table  const fv_resize_table of `width` positions: integers if OUT is u8, else floats
 *
 *   out[y][o][c] = sum_{t < count[o]} in[y + u0][start[o] + t][c] * weight[o * taps + t]
 *
 * If OUT is float, bytes of IN are first multiplied by table->scale, and the result is the sum. If
 * OUT is u8, the result is clip8((sum + (1 << (bits - 1))) >> bits), with the same bits as in the
 * library that defines the weights; the sum fits 32 bits. A position without taps is black.
 */
#include <string.h>

#include "ops/contracts/picture.h"
#include "ops/preprocess.h"
#include "ops/ref/ref_kernels.h"
#include "ops/ref/ref_resize.h"
#include "ops/yuv.h"

const fv_op fv_op_resize_x = {
    .span = FV_SPAN_ALL,
    .dim = {{"rows", FV_DIM_TOKENS},
            [FV_RESIZE_WIDTH] = {"width", FV_DIM_TOKENS},
            [FV_RESIZE_CHANNELS] = {"channels"},
            [FV_RESIZE_FROM] = {"from", FV_DIM_TOKENS}},
    .operand = {[FV_RESIZE_IN] = {"IN", .exact = true},
                [FV_RESIZE_CHROMA] = {"CHROMA"},
                [FV_RESIZE_OUT] = {"OUT", .columns = fv_columns_pixels, .exact = true}},
    .element_flops = 2,
};

/* Returns channel `ch` of the pixel in column x of line y. */
static float pixel(const fv_args *a, const fv_call *c, size_t y, size_t x, uint32_t ch)
{
    const uint32_t channels = a->prob.dim[FV_RESIZE_CHANNELS];
    const uint8_t *in = c->p[FV_RESIZE_IN];
    const size_t at = y * a->ld[FV_RESIZE_IN] + x * channels + ch;
    if (a->prob.flags & FV_FLAG_YUV) {
        const fv_yuv_frame f = fv_yuv_frame_of(a->prob.flags, in, a->ld[FV_RESIZE_IN],
                                               c->p[FV_RESIZE_CHROMA], a->ld[FV_RESIZE_CHROMA]);
        uint8_t rgb[3];
        fv_yuv_pixel(rgb, &f, &fv_yuv_table[a->u[3]], y, x);
        return rgb[ch];
    }
    return a->prob.in == FV_F32 ? ((const float *)c->p[FV_RESIZE_IN])[at] : in[at];
}

static float scaled(const fv_args *a, const fv_resize_table *t, float value)
{
    return a->prob.in == FV_F32 || t->bits ? value : value * t->scale;
}

void fv_k_resize_x_ref(const fv_args *a, const fv_call *c)
{
    const fv_resize_table *t = a->table;
    const uint32_t channels = a->prob.dim[FV_RESIZE_CHANNELS];
    for (uint32_t r = 0; r < c->rows; r++) {
        const size_t y = (size_t)c->row0 + r + a->u[0];
        for (uint32_t o = 0; o < t->size; o++)
            for (uint32_t ch = 0; ch < channels; ch++) {
                const size_t at = (size_t)r * a->ld[FV_RESIZE_OUT] + (size_t)o * channels + ch;
                fv_resize_sum sum = fv_resize_begin(t);
                for (uint32_t k = 0; k < t->count[o]; k++)
                    fv_resize_add(&sum, t, o, k,
                                  scaled(a, t, pixel(a, c, y, (size_t)t->start[o] + k, ch)));
                fv_resize_put(c->p[FV_RESIZE_OUT], at, &sum, t);
            }
    }
}
