/* patch_tmpl.c: PATCH, in plain loops that the compiler vectorises for its ISA level. */
#include <string.h>

#include "ops/contracts/picture.h"
#include "ops/preprocess.h"
#include "platform/cpu/cpu_kernels.h"
#include "platform/cpu/tmpl/yuv_line.h"

/* Defines a function that normalises `height` x `width` pixels of one channel of a patch; pixels
 * are `step` elements from each other. */
#define CHANNEL(name, type)                                                                        \
    FV_FN void name(float *restrict out, const type *restrict in, size_t ld, size_t step,          \
                    size_t side, size_t height, size_t width, float scale, float shift)            \
    {                                                                                              \
        for (size_t y = 0; y < height; y++)                                                        \
            for (size_t x = 0; x < width; x++)                                                     \
                out[y * side + x] = (float)in[y * ld + x * step] * scale + shift;                  \
    }
CHANNEL(channel_of_bytes, uint8_t)
CHANNEL(channel_of_floats, float)

/* Normalises pixels that begin at element `at` of an interleaved frame: of bytes or, if `real`, of
 * floats. */
FV_FN void interleaved(float *out, const void *in, size_t at, size_t ld, size_t side, size_t height,
                       size_t width, uint32_t flags, bool real, const fv_patch_table *t)
{
    const size_t step = flags & FV_FLAG_GRAY ? 1 : 3;
    for (size_t c = 0; c < 3; c++) {
        float *to = out + c * side * side;
        const size_t from = at + (flags & FV_FLAG_GRAY ? 0 : flags & FV_FLAG_BGR ? 2 - c : c);
        if (real)
            channel_of_floats(to, (const float *)in + from, ld, step, side, height, width,
                              t->scale[c], t->shift[c]);
        else if (step == 1)
            channel_of_bytes(to, (const uint8_t *)in + from, ld, 1, side, height, width,
                             t->scale[c], t->shift[c]);
        else
            channel_of_bytes(to, (const uint8_t *)in + from, ld, 3, side, height, width,
                             t->scale[c], t->shift[c]);
    }
}

/* Normalises a patch that is entirely inside the picture. The 3 x 3 windows of a stem have a branch
 * of their own, so that the compiler sees loops of constant length. */
static void whole_patch(float *out, const void *in, size_t at, size_t ld, size_t side,
                        uint32_t flags, bool real, const fv_patch_table *t)
{
    if (side == 3)
        interleaved(out, in, at, ld, 3, 3, 3, flags, real, t);
    else
        interleaved(out, in, at, ld, side, side, side, flags, real, t);
}

static void planes(float *out, const float *in, size_t ld, size_t plane, size_t side, size_t height,
                   size_t width)
{
    for (size_t c = 0; c < 3; c++)
        for (size_t y = 0; y < height; y++)
            memcpy(out + (c * side + y) * side, in + c * plane + y * ld, width * sizeof *out);
}

/* Clips `side` pixels that begin at `at`, counted from `pad` pixels before the picture: finds the
 * pixels that are inside the picture. */
static void clip(size_t *begin, size_t *count, size_t at, size_t side, size_t pad, size_t size)
{
    const size_t end = at + side < pad + size ? at + side : pad + size;
    *begin = at < pad ? pad - at : 0;
    *count = at + *begin < end ? end - at - *begin : 0;
}

/* ---- luma and chroma ---- */

enum { LINE = 256 }; /* pixels that are converted at a time */

FV_FN void copy(float *out, const float *in, size_t n)
{
    for (size_t i = 0; i < n; i += FV_W)
        fv_store_n(out + i, fv_load_n(in + i, fv_lanes(n - i)), fv_lanes(n - i));
}

/* Converts `count` pixels of line y, from column x on, to normalised R, G and B. */
static void yuv_floats(float (*out)[LINE], const fv_yuv_frame *f, const fv_args *a, size_t y,
                       size_t x, size_t count)
{
    const fv_patch_table *t = a->table;
    uint8_t line[3][LINE];
    yuv_line((yuv_bytes){line[0], line[1], line[2]}, f, &fv_yuv_table[a->u[3]], y, x, count);
    for (size_t c = 0; c < 3; c++) {
        const float scale = t->scale[c], shift = t->shift[c];
        for (size_t i = 0; i < count; i++)
            out[c][i] = (float)line[c][i] * scale + shift;
    }
}

/* Fills `count` patches that are next to each other. (x, y) is the first pixel of the first patch,
 * counted from the start of the padding. Each line is converted once, although patches may overlap.
 */
static void yuv_strip(float *out, size_t ld, const fv_yuv_frame *f, const fv_args *a, size_t count,
                      size_t y, size_t x)
{
    const uint32_t *dim = a->prob.dim;
    const size_t side = dim[FV_PATCH_SIZE], stride = dim[FV_PATCH_STRIDE];
    const size_t pad_x = dim[FV_PATCH_PAD_X], pad_y = dim[FV_PATCH_PAD_Y];
    const size_t span = (count - 1) * stride + side;
    size_t above, left, height, width;
    float line[3][LINE];
    clip(&above, &height, y, side, pad_y, dim[FV_PATCH_HEIGHT]);
    clip(&left, &width, x, span, pad_x, dim[FV_PATCH_WIDTH]);
    for (size_t i = 0; i < count && (height != side || width != span); i++)
        memset(out + i * ld, 0, dim[FV_ROW_C] * sizeof *out);
    for (size_t py = above; py < above + height; py++)
        for (size_t begin = left; begin < left + width; begin += LINE) {
            const size_t rest = left + width - begin, end = begin + (rest < LINE ? rest : LINE);
            yuv_floats(line, f, a, y + py - pad_y, x + begin - pad_x, end - begin);
            for (size_t i = 0; i < count; i++) {
                const size_t own = i * stride, last = own + side < end ? own + side : end;
                const size_t px = own > begin ? own : begin;
                for (size_t c = 0; c < 3 && px < last; c++)
                    copy(out + i * ld + (c * side + py) * side + px - own, line[c] + px - begin,
                         last - px);
            }
        }
}

static void yuv_patches(const fv_args *a, const fv_call *c)
{
    const uint32_t *dim = a->prob.dim, prefix = a->u[0], grid = a->u[1];
    const size_t side = dim[FV_PATCH_SIZE], stride = dim[FV_PATCH_STRIDE];
    const size_t ld = a->ld[FV_PATCH_OUT], fit = side < LINE ? (LINE - side) / stride + 1 : 1;
    const fv_yuv_frame f = fv_yuv_frame_of(a->prob.flags, c->p[FV_PATCH_IN], a->ld[FV_PATCH_IN],
                                           c->p[FV_PATCH_CHROMA], a->ld[FV_PATCH_CHROMA]);
    for (size_t r = 0, count = 1; r < c->rows; r += count, count = 1) {
        float *out = (float *)c->p[FV_PATCH_OUT] + r * ld;
        const size_t token = c->row0 + r;
        if (token < prefix) {
            memset(out, 0, dim[FV_ROW_C] * sizeof *out);
            continue;
        }
        const size_t y = (token - prefix) / grid, x = (token - prefix) % grid;
        count = grid - x < c->rows - r ? grid - x : c->rows - r;
        count = count < fit ? count : fit;
        yuv_strip(out, ld, &f, a, count, y * stride, x * stride);
    }
}

void FV_NAME(fv_k_patch_f32)(const fv_args *a, const fv_call *c)
{
    if (a->prob.flags & FV_FLAG_YUV) {
        yuv_patches(a, c);
        return;
    }
    const uint32_t *dim = a->prob.dim, flags = a->prob.flags, prefix = a->u[0], grid = a->u[1];
    const size_t side = dim[FV_PATCH_SIZE], stride = dim[FV_PATCH_STRIDE];
    const size_t pad_x = dim[FV_PATCH_PAD_X], pad_y = dim[FV_PATCH_PAD_Y];
    const bool real = a->prob.in == FV_F32;
    const size_t ld = a->ld[FV_PATCH_IN], step = flags & (FV_FLAG_GRAY | FV_FLAG_PLANAR) ? 1 : 3;
    for (size_t r = 0; r < c->rows; r++) {
        float *out = (float *)c->p[FV_PATCH_OUT] + r * a->ld[FV_PATCH_OUT];
        const size_t token = c->row0 + r;
        /* Which part of the patch is inside the picture. */
        size_t above = 0, left = 0, height = 0, width = 0;
        size_t y = 0, x = 0;
        if (token >= prefix) {
            y = (token - prefix) / grid * stride;
            x = (token - prefix) % grid * stride;
            clip(&above, &height, y, side, pad_y, dim[FV_PATCH_HEIGHT]);
            clip(&left, &width, x, side, pad_x, dim[FV_PATCH_WIDTH]);
        }
        const bool whole = height == side && width == side;
        if (!whole)
            memset(out, 0, dim[FV_ROW_C] * sizeof *out);
        if (height == 0 || width == 0)
            continue;
        const size_t at = (y + above - pad_y) * ld + (x + left - pad_x) * step;
        out += above * side + left;
        if (flags & FV_FLAG_PLANAR)
            planes(out, (const float *)c->p[FV_PATCH_IN] + at, ld, a->u[2], side, height, width);
        else if (whole)
            whole_patch(out, c->p[FV_PATCH_IN], at, ld, side, flags, real, a->table);
        else
            interleaved(out, c->p[FV_PATCH_IN], at, ld, side, height, width, flags, real, a->table);
    }
}
