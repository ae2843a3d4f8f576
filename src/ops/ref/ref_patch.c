/* ref_patch.c: PATCH: converts pixels to normalised patch rows.
 *
 *   dim    rows (tokens, prefix included), 3 * P * P, P (pixels of a patch's side), stride (pixels
 *          from patch to patch), pixels of padding at the left, picture width, picture
 *          height, pixels of padding above
 *   IN     at its base. Pixels of u8 or float32, ld in elements: R,G,B interleaved, or B,G,R
 *          (FV_FLAG_BGR), or one channel that is used for all three (FV_FLAG_GRAY); or luma and
 *          chroma of u8 (FV_FLAG_NV12, FV_FLAG_YUYV), which become R, G, B bytes, see yuv.h.
 *          FV_FLAG_PLANAR: three float planes R, G, B, already normalised, ld in floats
 *   CHROMA NV12: u8, at its base, ld in bytes; else absent
 *   OUT    ROW, float: [channel][py][px], channels in R,G,B order
 *   u      prefix, patches per grid row; PLANAR: plane stride in floats; NV12, YUYV:
 *          fovea_yuv_matrix
 *   table  const fv_patch_table; not read when PLANAR
 *
 * Token i < prefix: a row of zeros. Token i >= prefix: patch i - prefix of the grid, row by row,
 * grid row y and column x,
 *   out[ch][py][px] = pixel(y stride - pad_y + py, x stride - pad_x + px, ch) * scale[ch]
 *                     + shift[ch]
 * and 0 for pixels outside the picture.
 */
#include <string.h>

#include "ops/contracts/picture.h"
#include "ops/preprocess.h"
#include "ops/ref/ref_kernels.h"
#include "ops/yuv.h"

const fv_op fv_op_patch = {
    .dim = {{"rows", FV_DIM_TOKENS},
            [FV_ROW_C] = {"C"},
            [FV_PATCH_SIZE] = {"size"},
            [FV_PATCH_STRIDE] = {"stride"},
            [FV_PATCH_PAD_X] = {"pad_x"},
            [FV_PATCH_WIDTH] = {"width", FV_DIM_TOKENS},
            [FV_PATCH_HEIGHT] = {"height", FV_DIM_TOKENS},
            [FV_PATCH_PAD_Y] = {"pad_y"}},
    .operand = {[FV_PATCH_IN] = {"IN"},
                [FV_PATCH_CHROMA] = {"CHROMA"},
                [FV_PATCH_OUT] = {"OUT", FV_ROW_C}},
    .element_flops = 2,
    .table_floats = sizeof(fv_patch_table) / sizeof(float),
    .addend = offsetof(fv_patch_table, shift) / sizeof(float),
};

static uint8_t yuv_byte(const fv_args *a, const fv_call *c, size_t y, size_t x, uint32_t ch)
{
    const fv_yuv_frame f = fv_yuv_frame_of(a->prob.flags, c->p[FV_PATCH_IN], a->ld[FV_PATCH_IN],
                                           c->p[FV_PATCH_CHROMA], a->ld[FV_PATCH_CHROMA]);
    uint8_t rgb[3];
    fv_yuv_pixel(rgb, &f, &fv_yuv_table[a->u[3]], y, x);
    return rgb[ch];
}

static float pixel(const fv_args *a, const fv_call *c, size_t y, size_t x, uint32_t ch)
{
    const fv_patch_table *t = a->table;
    const uint32_t flags = a->prob.flags;
    const size_t ld = a->ld[FV_PATCH_IN];
    if (flags & FV_FLAG_PLANAR)
        return ((const float *)c->p[FV_PATCH_IN] + a->u[2] * (size_t)ch)[y * ld + x];
    const size_t at = y * ld + (flags & FV_FLAG_GRAY  ? x
                                : flags & FV_FLAG_BGR ? 3 * x + 2 - ch
                                                      : 3 * x + ch);
    const float value = flags & FV_FLAG_YUV    ? yuv_byte(a, c, y, x, ch)
                        : a->prob.in == FV_F32 ? ((const float *)c->p[FV_PATCH_IN])[at]
                                               : ((const uint8_t *)c->p[FV_PATCH_IN])[at];
    return value * t->scale[ch] + t->shift[ch];
}

void fv_k_patch_f32_ref(const fv_args *a, const fv_call *c)
{
    const uint32_t *dim = a->prob.dim, side = dim[FV_PATCH_SIZE];
    const uint32_t pad_x = dim[FV_PATCH_PAD_X], pad_y = dim[FV_PATCH_PAD_Y];
    const uint32_t prefix = a->u[0], grid = a->u[1];
    for (uint32_t r = 0; r < c->rows; r++) {
        float *out = (float *)c->p[FV_PATCH_OUT] + (size_t)r * a->ld[FV_PATCH_OUT];
        const uint32_t token = c->row0 + r;
        if (token < prefix) {
            memset(out, 0, dim[FV_ROW_C] * sizeof *out);
            continue;
        }
        /* Both count from pad_x pixels left of the picture and from pad_y pixels above it. */
        const size_t y0 = (size_t)((token - prefix) / grid) * dim[FV_PATCH_STRIDE];
        const size_t x0 = (size_t)((token - prefix) % grid) * dim[FV_PATCH_STRIDE];
        for (uint32_t ch = 0; ch < 3; ch++)
            for (size_t y = y0; y < y0 + side; y++)
                for (size_t x = x0; x < x0 + side; x++) {
                    const bool inside = y >= pad_y && y - pad_y < dim[FV_PATCH_HEIGHT] &&
                                        x >= pad_x && x - pad_x < dim[FV_PATCH_WIDTH];
                    *out++ = inside ? pixel(a, c, y - pad_y, x - pad_x, ch) : 0.f;
                }
    }
}
