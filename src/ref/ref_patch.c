/* ref_patch.c: pixels to normalised patch rows.
 *
 *   dim    rows (tokens, prefix included), 3 * P * P, P (pixels of a patch's side)
 *   IN     at its base. u8 pixels, ld in bytes: R,G,B interleaved, or B,G,R (FV_FLAG_BGR), or one
 *          channel that stands for all three (FV_FLAG_GRAY). FV_FLAG_PLANAR: three float planes
 *          R, G, B, normalised already, ld in floats
 *   OUT    ROW, float: [channel][py][px], channels in R,G,B order
 *   u      prefix, patches per grid row, PLANAR: floats from plane to plane
 *   table  const fv_patch_table; not read when PLANAR
 *
 * Token i < prefix: a row of zeros. Token i >= prefix: patch i - prefix of the grid, row by row,
 *   out[ch][py][px] = pixel(ch) * scale[ch] + shift[ch]
 */
#include <string.h>

#include "cpu_kernels.h"
#include "preprocess.h"

void fv_k_patch_f32_ref(const fv_args *a, const fv_call *c)
{
    const fv_patch_table *t = a->table;
    const uint32_t side = a->prob.dim[2], flags = a->prob.flags;
    const uint32_t prefix = a->u[0], grid = a->u[1];
    const size_t ld = a->ld[FV_PATCH_IN], pixel = flags & FV_FLAG_GRAY ? 1 : 3;
    for (uint32_t r = 0; r < c->rows; r++) {
        float *out = (float *)c->p[FV_PATCH_OUT] + (size_t)r * a->ld[FV_PATCH_OUT];
        const uint32_t token = c->row0 + r;
        if (token < prefix) {
            memset(out, 0, a->prob.dim[1] * sizeof *out);
            continue;
        }
        const size_t y0 = (size_t)((token - prefix) / grid) * side;
        const size_t x0 = (size_t)((token - prefix) % grid) * side;
        for (uint32_t ch = 0; ch < 3; ch++)
            for (uint32_t y = 0; y < side; y++)
                for (uint32_t x = 0; x < side; x++, out++) {
                    if (flags & FV_FLAG_PLANAR) {
                        const float *plane =
                            (const float *)c->p[FV_PATCH_IN] + a->u[2] * (size_t)ch;
                        *out = plane[(y0 + y) * ld + x0 + x];
                    } else {
                        const uint8_t *at =
                            (const uint8_t *)c->p[FV_PATCH_IN] + (y0 + y) * ld + (x0 + x) * pixel;
                        const uint32_t from = flags & FV_FLAG_GRAY  ? 0
                                              : flags & FV_FLAG_BGR ? 2 - ch
                                                                    : ch;
                        *out = at[from] * t->scale[ch] + t->shift[ch];
                    }
                }
    }
}
