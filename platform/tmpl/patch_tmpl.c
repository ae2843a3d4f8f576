/* patch_tmpl.c: PATCH: plain loops, which the compiler turns into the shuffles of its ISA level. */
#include <string.h>

#include "cpu_kernels.h"
#include "preprocess.h"
#include "vec/vec.h"

/* `height` x `width` pixels of one channel of a patch, `step` bytes from pixel to pixel. */
FV_FN void channel(float *restrict out, const uint8_t *restrict in, size_t ld, size_t step,
                   size_t side, size_t height, size_t width, float scale, float shift)
{
    for (size_t y = 0; y < height; y++)
        for (size_t x = 0; x < width; x++)
            out[y * side + x] = (float)in[y * ld + x * step] * scale + shift;
}

FV_FN void bytes(float *out, const uint8_t *in, size_t ld, size_t side, size_t height, size_t width,
                 uint32_t flags, const fv_patch_table *t)
{
    for (size_t c = 0; c < 3; c++) {
        float *to = out + c * side * side;
        if (flags & FV_FLAG_GRAY)
            channel(to, in, ld, 1, side, height, width, t->scale[c], t->shift[c]);
        else
            channel(to, in + (flags & FV_FLAG_BGR ? 2 - c : c), ld, 3, side, height, width,
                    t->scale[c], t->shift[c]);
    }
}

/* A patch that lies in the picture; the windows of a stem apart, for loops of known length. */
static void whole_bytes(float *out, const uint8_t *in, size_t ld, size_t side, uint32_t flags,
                        const fv_patch_table *t)
{
    if (side == 3)
        bytes(out, in, ld, 3, 3, 3, flags, t);
    else
        bytes(out, in, ld, side, side, side, flags, t);
}

static void planes(float *out, const float *in, size_t ld, size_t plane, size_t side, size_t height,
                   size_t width)
{
    for (size_t c = 0; c < 3; c++)
        for (size_t y = 0; y < height; y++)
            memcpy(out + (c * side + y) * side, in + c * plane + y * ld, width * sizeof *out);
}

/* Of the `side` pixels from `at`, counted from `pad` before the picture, those inside it. */
static void clip(size_t *begin, size_t *count, size_t at, size_t side, size_t pad, size_t size)
{
    const size_t end = at + side < pad + size ? at + side : pad + size;
    *begin = at < pad ? pad - at : 0;
    *count = at + *begin < end ? end - at - *begin : 0;
}

void FV_NAME(fv_k_patch_f32)(const fv_args *a, const fv_call *c)
{
    const uint32_t *dim = a->prob.dim, flags = a->prob.flags, prefix = a->u[0], grid = a->u[1];
    const size_t side = dim[FV_PATCH_SIZE], stride = dim[FV_PATCH_STRIDE], pad = dim[FV_PATCH_PAD];
    const size_t ld = a->ld[FV_PATCH_IN], step = flags & (FV_FLAG_GRAY | FV_FLAG_PLANAR) ? 1 : 3;
    for (size_t r = 0; r < c->rows; r++) {
        float *out = (float *)c->p[FV_PATCH_OUT] + r * a->ld[FV_PATCH_OUT];
        const size_t token = c->row0 + r;
        size_t above = 0, left = 0, height = 0, width = 0; /* of what the picture has of it */
        size_t y = 0, x = 0;
        if (token >= prefix) {
            y = (token - prefix) / grid * stride;
            x = (token - prefix) % grid * stride;
            clip(&above, &height, y, side, pad, dim[FV_PATCH_HEIGHT]);
            clip(&left, &width, x, side, pad, dim[FV_PATCH_WIDTH]);
        }
        const bool whole = height == side && width == side;
        if (!whole)
            memset(out, 0, dim[FV_ROW_C] * sizeof *out);
        if (height == 0 || width == 0)
            continue;
        const size_t at = (y + above - pad) * ld + (x + left - pad) * step;
        out += above * side + left;
        if (flags & FV_FLAG_PLANAR)
            planes(out, (const float *)c->p[FV_PATCH_IN] + at, ld, a->u[2], side, height, width);
        else if (whole)
            whole_bytes(out, (const uint8_t *)c->p[FV_PATCH_IN] + at, ld, side, flags, a->table);
        else
            bytes(out, (const uint8_t *)c->p[FV_PATCH_IN] + at, ld, side, height, width, flags,
                  a->table);
    }
}
