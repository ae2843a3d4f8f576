/* dwconv_tmpl.c: implements DWCONV with vec.h's vector functions. A vector holds channels, and
 * TOKENS neighbours in a row of the grid share every load of weights and of input.
 *
 *   one kernel row, size 3:      in   x-1  x  x+1 x+2 x+3        each vector of channels is
 *                                      |\ / \ / \ / \ /|         loaded once, and used by the up
 *                                out     x  x+1  x+2 ..          to 3 outputs that see it
 *
 * Channels are processed in strips whose weights, packed as one vector after another for each tap,
 * fit L1. An output's taps are summed in the order of the filter, whichever call computes it.
 */
#include "ops/contracts/grid.h"
#include "platform/cpu/cpu_kernels.h"
#include "platform/cpu/vec/row.h"

enum { STRIP = 128 }; /* channels, a multiple of every FV_W */
/* Outputs whose accumulators stay in registers, together with the weights of a filter row. */
enum { TOKENS = 6 };

/* A row of a grid, for one strip of channels. Pointers are at the strip's first channel. */
struct conv {
    const float *in;
    const float *res, *gate; /* of the call's first token, or NULL */
    void *out;
    enum fv_type type;     /* of out */
    const float *w, *bias; /* [tap][channel of the strip], [channel of the strip] */
    ptrdiff_t ld_in, ld_res, ld_gate, ld_out;
    ptrdiff_t row; /* the row of token x = 0, counted from the call's first row; may be negative */
    int width, height, window, shift;
    int y, line; /* line: the row of `in` that holds the first grid row needed for y */
};

/* Computes outputs [x, x + tokens) of the grid row, `lanes` channels from channel i on. Unless
 * `tokens` is 1, all columns that they need must be inside the grid. */
FV_FN void block(const struct conv *c, int x, int tokens, int size, size_t i, int lanes)
{
    const int reach = size / 2, y = c->y;
    const int left = tokens > 1 || x >= reach ? 0 : reach - x;
    const int right = tokens > 1 || c->width - x > reach ? size : reach + c->width - x;
    const int above = y >= reach ? 0 : reach - y;
    const int below = c->height - y > reach ? size : reach + c->height - y;
    fv_v sum[TOKENS];
    FV_UNROLL
    for (int t = 0; t < tokens; t++)
        sum[t] = fv_load(c->bias + i);
    int line = c->line;
    for (int ky = above; ky < below; ky++) {
        const float *in = c->in + ((ptrdiff_t)line * c->width + x + left - reach) * c->ld_in + i;
        line = line + 1 == c->window ? 0 : line + 1;
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
    FV_UNROLL
    for (int t = 0; t < tokens; t++) {
        if (c->res)
            sum[t] = fv_add(sum[t], fv_load_n(c->res + (c->row + x + t) * c->ld_res + i, lanes));
        if (c->gate)
            sum[t] = fv_mul(sum[t], fv_load_n(c->gate + (c->row + x + t) * c->ld_gate + i, lanes));
        const size_t at = (size_t)((c->row + x + t) * c->ld_out) + i;
        fv_row_store(c->out, c->type, at, sum[t], lanes);
    }
}

FV_FN void tokens_of(const struct conv *c, int x, int tokens, int size, int channels)
{
    int i = 0;
    for (; i + FV_W <= channels; i += FV_W)
        block(c, x, tokens, size, (size_t)i, FV_W);
    if (i < channels)
        block(c, x, tokens, size, (size_t)i, channels - i);
}

/* Outputs [x, end). */
FV_FN void grid_row(const struct conv *c, int x, int end, int size, int channels)
{
    const int reach = size / 2;
    while (x < end) {
        if (x >= reach && x + TOKENS <= end && x + TOKENS + reach <= c->width) {
            tokens_of(c, x, TOKENS, size, channels);
            x += TOKENS;
        } else {
            tokens_of(c, x, 1, size, channels);
            x++;
        }
    }
}

/* Packs the weights of a strip of channels, followed by its biases. */
static void pack(float *dst, const fv_args *a, const fv_call *c, size_t first, int channels)
{
    const float *w = c->p[FV_DWCONV_W], *bias = c->p[FV_DWCONV_BIAS];
    const size_t taps = (size_t)a->prob.dim[FV_DWCONV_SIZE] * a->prob.dim[FV_DWCONV_SIZE];
    size_t filter = first % a->u[1];
    for (int i = 0; i < STRIP; i++, filter = filter + 1 == a->u[1] ? 0 : filter + 1) {
        for (size_t t = 0; t < taps; t++)
            dst[t * STRIP + i] = i < channels ? w[filter * taps + t] : 0.f;
        dst[taps * STRIP + i] = bias && i < channels ? bias[filter] : 0.f;
    }
}

/* Computes the part of grid row `line` that belongs to the call; rows are counted through all
 * grids. */
FV_FN void part_of_row(struct conv *c, const fv_call *call, size_t line, int size, int channels)
{
    const size_t begin = line * (size_t)c->width, end = (size_t)call->row0 + call->rows;
    const int x = begin < call->row0 ? (int)(call->row0 - begin) : 0;
    const int stop = end - begin < (size_t)c->width ? (int)(end - begin) : c->width;
    c->y = (int)(line % (size_t)c->height);
    c->line = (int)line - (c->y < size / 2 ? c->y : size / 2);
    if (c->window)
        c->line = (c->line + c->shift) % c->window;
    c->row = (ptrdiff_t)begin - (ptrdiff_t)call->row0;
    if (size == 3)
        grid_row(c, x, stop, 3, channels);
    else if (size == 5)
        grid_row(c, x, stop, 5, channels);
    else
        for (int t = x; t < stop; t++)
            tokens_of(c, t, 1, size, channels);
}

void FV_NAME(fv_k_dwconv_f32)(const fv_args *a, const fv_call *c)
{
    const size_t width = a->u[0], size = a->prob.dim[FV_DWCONV_SIZE];
    const float *in = c->p[FV_DWCONV_IN], *res = c->p[FV_DWCONV_RES], *gate = c->p[FV_DWCONV_GATE];
    float *packed = c->scratch;
    struct conv conv = {.type = a->prob.out,
                        .bias = packed + size * size * STRIP,
                        .w = packed,
                        .ld_in = a->ld[FV_DWCONV_IN],
                        .ld_res = a->ld[FV_DWCONV_RES],
                        .ld_gate = a->ld[FV_DWCONV_GATE],
                        .ld_out = a->ld[FV_DWCONV_OUT],
                        .width = (int)width,
                        .height = (int)a->prob.dim[FV_DWCONV_HEIGHT],
                        .window = (int)a->window,
                        .shift = (int)a->shift};
    for (size_t first = 0; first < a->prob.dim[FV_ROW_C]; first += STRIP) {
        const size_t left = a->prob.dim[FV_ROW_C] - first;
        const int channels = left < STRIP ? (int)left : STRIP;
        pack(packed, a, c, first, channels);
        conv.in = in + first;
        conv.res = res ? res + first : NULL;
        conv.gate = gate ? gate + first : NULL;
        conv.out = fv_element(c->p[FV_DWCONV_OUT], a->prob.out, first);
        for (size_t line = c->row0 / width; line * width < (size_t)c->row0 + c->rows; line++)
            part_of_row(&conv, c, line, (int)size, channels);
    }
}

static size_t scratch(const fv_problem *p, const fv_knobs *knobs, uint32_t rows)
{
    (void)knobs, (void)rows;
    const size_t size = p->dim[FV_DWCONV_SIZE];
    return (size * size + 1) * STRIP * sizeof(float);
}

const fv_kernel_hooks FV_NAME(fv_h_dwconv_f32) = {.scratch = scratch};
