/* ref_resize_x.c: horizontal pass of the picture resize.
 *
 *   dim    rows (of the whole pass), width (output pixels per row), channels
 *   IN     u8, at its base: interleaved rows of the frame, ld bytes apart
 *   OUT    u8, ROW: width * channels bytes per row
 *   u[0]   first row of IN that is read: output row y comes from input row y + u[0]
 *   table  const fv_resize_table of `width` positions
 *
 *   out[y][o][c] = clip8((sum_{t < count[o]} in[y + u0][start[o] + t][c] * weight[o * taps + t]
 *                         + 2^21) >> 22)
 *
 * Pillow's fixed point, bit for bit: each weight is rounded to 22 fractional bits and the sum fits
 * 32 bits. A position with no taps (outside the resized picture) is black.
 */
#include "cpu_kernels.h"
#include "preprocess.h"

static uint8_t clip8(int32_t v)
{
    v >>= 22;
    return (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : v);
}

void fv_k_resize_x_u8_ref(const fv_args *a, const fv_call *c)
{
    const fv_resize_table *t = a->table;
    const uint32_t width = a->prob.dim[1], channels = a->prob.dim[2];
    for (uint32_t r = 0; r < c->rows; r++) {
        const uint8_t *in = (const uint8_t *)c->p[FV_RESIZE_IN] +
                            ((size_t)c->row0 + r + a->u[0]) * a->ld[FV_RESIZE_IN];
        uint8_t *out = (uint8_t *)c->p[FV_RESIZE_OUT] + (size_t)r * a->ld[FV_RESIZE_OUT];
        for (uint32_t o = 0; o < width; o++) {
            const int32_t *weight = t->weight + (size_t)o * t->taps;
            const uint8_t *from = in + (size_t)t->start[o] * channels;
            for (uint32_t ch = 0; ch < channels; ch++) {
                int32_t sum = 1 << 21;
                for (uint32_t k = 0; k < t->count[o]; k++)
                    sum += from[(size_t)k * channels + ch] * weight[k];
                out[(size_t)o * channels + ch] = clip8(sum);
            }
        }
    }
}
