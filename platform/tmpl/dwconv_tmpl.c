/* dwconv_tmpl.c: DWCONV over the vector vocabulary: vectors are channels, and TOKENS neighbours in
 * a row of the grid share every load of weights and of input.
 *
 *   one kernel row, size 3:      in   x-1  x  x+1 x+2 x+3        each vector of channels is
 *                                      |\ / \ / \ / \ /|         loaded once, and used by the up
 *                                out     x  x+1  x+2 ..          to 3 outputs that see it
 *
 * Channels are taken in strips whose weights, one vector after another for each tap, fit the first
 * level of the cache. An output's taps are summed in the order of the filter, whoever computes it.
 */
#include "cpu_kernels.h"
#include "vec/vec.h"

enum { STRIP = 128 }; /* channels, a multiple of every FV_W */
enum { TOKENS = 6 };  /* outputs in registers, besides a kernel row's weights */

struct conv {
    const float *in, *res, *bias; /* at the strip's first channel */
    float *out;                   /* res and out begin at the call's first row */
    const float *w;               /* [tap][channel of the strip] */
    size_t ld_in, ld_res, ld_out, row0;
    int width, height, size;
};

/* Outputs x .. x + tokens of grid row y, `lanes` channels from i. All their columns are inside the
 * grid, or `tokens` is 1. */
FV_FN void block(const struct conv *c, int y, int x, int tokens, int size, size_t i, int lanes)
{
    const int reach = size / 2;
    const int left = tokens > 1 || x >= reach ? 0 : reach - x;
    const int right = tokens > 1 || c->width - x > reach ? size : reach + c->width - x;
    const int above = y >= reach ? 0 : reach - y;
    const int below = c->height - y > reach ? size : reach + c->height - y;
    fv_v sum[TOKENS];
    FV_UNROLL
    for (int t = 0; t < tokens; t++)
        sum[t] = fv_load(c->bias + i);
    for (int ky = above; ky < below; ky++) {
        const float *in =
            c->in + ((size_t)(y + ky - reach) * c->width + x + left - reach) * c->ld_in + i;
        const float *w = c->w + (size_t)ky * size * STRIP + i;
        if (tokens == 1) {
            for (int kx = left; kx < right; kx++, in += c->ld_in)
                sum[0] = fv_fma(fv_load(w + (size_t)kx * STRIP), fv_load_n(in, lanes), sum[0]);
            continue;
        }
        FV_UNROLL
        for (int at = 0; at < tokens + size - 1; at++, in += c->ld_in) {
            const fv_v v = lanes == FV_W ? fv_load(in) : fv_load_n(in, lanes);
            FV_UNROLL
            for (int kx = 0; kx < size; kx++)
                if (at - kx >= 0 && at - kx < tokens)
                    sum[at - kx] = fv_fma(fv_load(w + (size_t)kx * STRIP), v, sum[at - kx]);
        }
    }
    const size_t row = (size_t)y * c->width + x - c->row0;
    FV_UNROLL
    for (int t = 0; t < tokens; t++) {
        if (c->res)
            sum[t] = fv_add(sum[t], fv_load_n(c->res + (row + t) * c->ld_res + i, lanes));
        fv_store_n(c->out + (row + t) * c->ld_out + i, sum[t], lanes);
    }
}

FV_FN void tokens_of(const struct conv *c, int y, int x, int tokens, int size, int channels)
{
    int i = 0;
    for (; i + FV_W <= channels; i += FV_W)
        block(c, y, x, tokens, size, (size_t)i, FV_W);
    if (i < channels)
        block(c, y, x, tokens, size, (size_t)i, channels - i);
}

/* Outputs [x, end) of grid row y. */
FV_FN void grid_row(const struct conv *c, int y, int x, int end, int size, int channels)
{
    const int reach = size / 2;
    while (x < end) {
        if (x >= reach && x + TOKENS <= end && x + TOKENS + reach <= c->width) {
            tokens_of(c, y, x, TOKENS, size, channels);
            x += TOKENS;
        } else {
            tokens_of(c, y, x, 1, size, channels);
            x++;
        }
    }
}

/* The strip's weights, and behind them its bias. */
static void pack(float *dst, const fv_args *a, const fv_call *c, size_t first, int channels)
{
    const float *w = c->p[FV_DWCONV_W], *bias = c->p[FV_DWCONV_BIAS];
    const size_t taps = (size_t)a->prob.dim[FV_DWCONV_SIZE] * a->prob.dim[FV_DWCONV_SIZE];
    for (int i = 0; i < STRIP; i++) {
        const size_t filter = (first + (size_t)i) % a->u[1];
        for (size_t t = 0; t < taps; t++)
            dst[t * STRIP + i] = i < channels ? w[filter * taps + t] : 0.f;
        dst[taps * STRIP + i] = bias && i < channels ? bias[filter] : 0.f;
    }
}

void FV_NAME(fv_k_dwconv_f32)(const fv_args *a, const fv_call *c)
{
    const size_t width = a->u[0], size = a->prob.dim[FV_DWCONV_SIZE];
    const size_t end = (size_t)c->row0 + c->rows;
    float *packed = c->scratch;
    for (size_t first = 0; first < a->prob.dim[FV_ROW_C]; first += STRIP) {
        const size_t left = a->prob.dim[FV_ROW_C] - first;
        const int channels = left < STRIP ? (int)left : STRIP;
        pack(packed, a, c, first, channels);
        const float *res = c->p[FV_DWCONV_RES];
        const struct conv conv = {.in = (const float *)c->p[FV_DWCONV_IN] + first,
                                  .res = res ? res + first : NULL,
                                  .bias = packed + size * size * STRIP,
                                  .out = (float *)c->p[FV_DWCONV_OUT] + first,
                                  .w = packed,
                                  .ld_in = a->ld[FV_DWCONV_IN],
                                  .ld_res = a->ld[FV_DWCONV_RES],
                                  .ld_out = a->ld[FV_DWCONV_OUT],
                                  .row0 = c->row0,
                                  .width = (int)width,
                                  .height = (int)(a->prob.dim[FV_DIM_ROWS] / width),
                                  .size = (int)size};
        for (size_t r = c->row0; r < end;) {
            const size_t y = r / width, x = r % width;
            const size_t stop = (y + 1) * width < end ? width : end - y * width;
            if (size == 3)
                grid_row(&conv, (int)y, (int)x, (int)stop, 3, channels);
            else if (size == 5)
                grid_row(&conv, (int)y, (int)x, (int)stop, 5, channels);
            else
                for (size_t t = x; t < stop; t++)
                    tokens_of(&conv, (int)y, (int)t, 1, (int)size, channels);
            r = y * width + stop;
        }
    }
}

static size_t scratch(const fv_problem *p, const fv_knobs *knobs, uint32_t rows)
{
    (void)knobs, (void)rows;
    const size_t size = p->dim[FV_DWCONV_SIZE];
    return (size * size + 1) * STRIP * sizeof(float);
}

const fv_kernel_hooks FV_NAME(fv_h_dwconv_f32) = {.scratch = scratch};
