/* ref_resize_x.c: RESIZE_X: horizontal pass of the picture resize.
 *
 *   dim    rows (of the whole pass), width (output pixels per row), channels, pixels per row of IN
 *   IN     u8, at its base: interleaved rows of the frame, ld bytes apart; or luma and chroma
 *          (FV_FLAG_NV12, FV_FLAG_YUYV; channels 3), which become R, G, B bytes first, see yuv.h
 *   CHROMA NV12: u8, at its base, ld in bytes; else absent
 *   OUT    u8, ROW: width * channels bytes per row
 *   u[0]   first row of IN that is read: output row y comes from input row y + u[0]
 *   u[3]   NV12 and YUYV: fovea_yuv
 *   table  const fv_resize_table of `width` positions
 *
 *   out[y][o][c] = clip8((sum_{t < count[o]} in[y + u0][start[o] + t][c] * weight[o * taps + t]
 *                         + 2^21) >> 22)
 *
 * Pillow's fixed point, bit for bit: each weight is rounded to 22 fractional bits and the sum fits
 * 32 bits. A position with no taps (outside the resized picture) is black.
 */
#include <string.h>

#include "ops/preprocess.h"
#include "ops/ref/ref_kernels.h"
#include "ops/yuv.h"

const fv_op fv_op_resize_x = {
    .span = FV_SPAN_ALL,
    .dim = {{"rows", FV_DIM_TOKENS},
            [FV_RESIZE_WIDTH] = {"width", FV_DIM_TOKENS},
            [FV_RESIZE_CHANNELS] = {"channels"},
            [FV_RESIZE_FROM] = {"from", FV_DIM_TOKENS}},
    .operand = {[FV_RESIZE_IN] = {"IN"},
                [FV_RESIZE_CHROMA] = {"CHROMA"},
                [FV_RESIZE_OUT] = {"OUT", .columns = fv_columns_pixels}},
    .element_flops = 2,
};

static uint8_t clip8(int32_t v)
{
    v >>= 22;
    return (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : v);
}

static void pixel(uint8_t out[3], const fv_args *a, const fv_call *c, size_t y, size_t x)
{
    const uint32_t channels = a->prob.dim[FV_RESIZE_CHANNELS];
    const uint8_t *in = c->p[FV_RESIZE_IN];
    const fv_yuv_frame f = fv_yuv_frame_of(a->prob.flags, in, a->ld[FV_RESIZE_IN],
                                           c->p[FV_RESIZE_CHROMA], a->ld[FV_RESIZE_CHROMA]);
    if (a->prob.flags & FV_FLAG_YUV)
        fv_yuv_pixel(out, &f, &fv_yuv_table[a->u[3]], y, x);
    else
        memcpy(out, in + y * a->ld[FV_RESIZE_IN] + x * channels, channels);
}

void fv_k_resize_x_u8_ref(const fv_args *a, const fv_call *c)
{
    const fv_resize_table *t = a->table;
    const uint32_t width = a->prob.dim[FV_RESIZE_WIDTH];
    const uint32_t channels = a->prob.dim[FV_RESIZE_CHANNELS];
    for (uint32_t r = 0; r < c->rows; r++) {
        const size_t y = (size_t)c->row0 + r + a->u[0];
        uint8_t *out = (uint8_t *)c->p[FV_RESIZE_OUT] + (size_t)r * a->ld[FV_RESIZE_OUT];
        for (uint32_t o = 0; o < width; o++) {
            const int32_t *weight = t->weight + (size_t)o * t->taps;
            int32_t sum[3] = {1 << 21, 1 << 21, 1 << 21};
            for (uint32_t k = 0; k < t->count[o]; k++) {
                uint8_t in[3] = {0};
                pixel(in, a, c, y, (size_t)t->start[o] + k);
                for (uint32_t ch = 0; ch < channels; ch++)
                    sum[ch] += in[ch] * weight[k];
            }
            for (uint32_t ch = 0; ch < channels; ch++)
                out[(size_t)o * channels + ch] = clip8(sum[ch]);
        }
    }
}
