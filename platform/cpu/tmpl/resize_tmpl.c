/* resize_tmpl.c: RESIZE_X and RESIZE_Y: plain loops, which the compiler turns into the instructions
 * of its ISA level. A row of luma and chroma is converted to R, G, B bytes first, because each is
 * read by several taps. */
#include "ops/preprocess.h"
#include "platform/cpu/cpu_kernels.h"
#include "platform/cpu/tmpl/yuv_line.h"

enum { RUN = 256 }; /* bytes whose sums are kept at a time, so that each tap reads along a row */

FV_FN uint8_t clip8(int32_t v)
{
    v >>= 22;
    return (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : v);
}

/* A row of pixels `step` bytes apart whose channels are `plane` bytes apart. */
FV_FN void row(uint8_t *restrict out, const uint8_t *restrict in, size_t step, size_t plane,
               size_t channels, const fv_resize_table *t)
{
    for (size_t o = 0; o < t->size; o++, out += channels) {
        const int32_t *weight = t->weight + o * t->taps;
        const uint8_t *from = in + t->start[o] * step;
        int32_t sum[3] = {1 << 21, 1 << 21, 1 << 21};
        for (size_t k = 0; k < t->count[o]; k++)
            for (size_t c = 0; c < channels; c++)
                sum[c] += from[k * step + c * plane] * weight[k];
        for (size_t c = 0; c < channels; c++)
            out[c] = clip8(sum[c]);
    }
}

static void yuv_rows(const fv_args *a, const fv_call *c)
{
    const fv_yuv_frame f = fv_yuv_frame_of(a->prob.flags, c->p[FV_RESIZE_IN], a->ld[FV_RESIZE_IN],
                                           c->p[FV_RESIZE_CHROMA], a->ld[FV_RESIZE_CHROMA]);
    const fv_resize_table *t = a->table;
    const size_t width = a->prob.dim[FV_RESIZE_FROM];
    uint8_t *line = c->scratch, *from = line + t->first;
    for (size_t r = 0; r < c->rows; r++) {
        yuv_line((yuv_bytes){from, from + width, from + 2 * width}, &f, &fv_yuv_table[a->u[3]],
                 c->row0 + r + a->u[0], t->first, t->used);
        row((uint8_t *)c->p[FV_RESIZE_OUT] + r * a->ld[FV_RESIZE_OUT], line, 1, width, 3, t);
    }
}

void FV_NAME(fv_k_resize_x_u8)(const fv_args *a, const fv_call *c)
{
    if (a->prob.flags & FV_FLAG_YUV) {
        yuv_rows(a, c);
        return;
    }
    for (size_t r = 0; r < c->rows; r++) {
        const uint8_t *in =
            (const uint8_t *)c->p[FV_RESIZE_IN] + (c->row0 + r + a->u[0]) * a->ld[FV_RESIZE_IN];
        uint8_t *out = (uint8_t *)c->p[FV_RESIZE_OUT] + r * a->ld[FV_RESIZE_OUT];
        if (a->prob.dim[FV_RESIZE_CHANNELS] == 1)
            row(out, in, 1, 0, 1, a->table);
        else
            row(out, in, 3, 1, 3, a->table);
    }
}

static size_t scratch_bytes(const fv_problem *p, const fv_knobs *k, uint32_t rows)
{
    (void)k, (void)rows;
    return p->flags & FV_FLAG_YUV ? (size_t)3 * p->dim[FV_RESIZE_FROM] : 0;
}

const fv_kernel_hooks FV_NAME(fv_h_resize_x_u8) = {.scratch = scratch_bytes};

void FV_NAME(fv_k_resize_y_u8)(const fv_args *a, const fv_call *c)
{
    const fv_resize_table *t = a->table;
    const size_t bytes = (size_t)a->prob.dim[FV_RESIZE_WIDTH] * a->prob.dim[FV_RESIZE_CHANNELS];
    const size_t ld = a->ld[FV_RESIZE_IN];
    for (size_t r = 0; r < c->rows; r++) {
        const size_t o = c->row0 + r;
        const int32_t *weight = t->weight + o * t->taps;
        const uint8_t *in = (const uint8_t *)c->p[FV_RESIZE_IN] + t->start[o] * ld;
        uint8_t *out = (uint8_t *)c->p[FV_RESIZE_OUT] + r * a->ld[FV_RESIZE_OUT];
        for (size_t b0 = 0; b0 < bytes; b0 += RUN) {
            const size_t n = bytes - b0 < RUN ? bytes - b0 : RUN;
            int32_t sum[RUN];
            for (size_t b = 0; b < n; b++)
                sum[b] = 1 << 21;
            for (size_t k = 0; k < t->count[o]; k++)
                for (size_t b = 0; b < n; b++)
                    sum[b] += in[k * ld + b0 + b] * weight[k];
            for (size_t b = 0; b < n; b++)
                out[b0 + b] = clip8(sum[b]);
        }
    }
}
