/* resize_tmpl.c: RESIZE_X and RESIZE_Y.
 *
 * The horizontal pass processes as many rows at a time as fit a vector. They are interleaved in the
 * scratch, so that a vector holds the same pixel of all of them: four lanes each (R, G, B and an
 * unused one), or one lane if pixels are grey. Then a tap is a load and a multiply-add, whichever
 * pixel it begins at, without shuffles. The interleaved elements are floats, or whole numbers of 32
 * bits, or, where the weights fit 16 bits, pairs of neighbouring pixels.
 *
 * The vertical pass runs along the rows. */
#include "ops/contracts/picture.h"
#include "ops/preprocess.h"
#include "platform/cpu/cpu_kernels.h"
#include "platform/cpu/tmpl/yuv_line.h"
#include "platform/cpu/vec/taps.h"

/* ---- a row of pixels ---- */

/* A row of pixels as bytes, with a stride of `step`, or as floats. Luma and chroma are converted to
 * bytes in a buffer. */
typedef struct pixels {
    const uint8_t *bytes;
    const float *floats;
    size_t step;
} pixels;

/* Row y of the frame: `count` pixels from pixel `first` on. The buffer has 7 * count bytes. */
FV_FN pixels pixels_of(const fv_args *a, const fv_call *c, size_t y, size_t first, size_t count,
                       uint8_t *buffer)
{
    const size_t channels = a->prob.dim[FV_RESIZE_CHANNELS], ld = a->ld[FV_RESIZE_IN];
    if (a->prob.in == FV_F32)
        return (pixels){.floats = (const float *)c->p[FV_RESIZE_IN] + y * ld + first * channels,
                        .step = channels};
    if (!(a->prob.flags & FV_FLAG_YUV))
        return (pixels){.bytes = (const uint8_t *)c->p[FV_RESIZE_IN] + y * ld + first * channels,
                        .step = channels};
    const fv_yuv_frame f = fv_yuv_frame_of(a->prob.flags, c->p[FV_RESIZE_IN], ld,
                                           c->p[FV_RESIZE_CHROMA], a->ld[FV_RESIZE_CHROMA]);
    yuv_line_of_fours(buffer, buffer + 4 * count, &f, &fv_yuv_table[a->u[3]], y, first, count);
    return (pixels){.bytes = buffer, .step = 4};
}

/* ---- interleaving one of several rows ---- */

/* Returns how many pixels can be read as four bytes without reading beyond the end of the row. */
FV_FN size_t whole_pixels(const pixels *from, size_t count)
{
    return from->step == 4 ? count : count - 1;
}

/* Copies the last pixels of a row, beyond which nothing may be read, followed by zeros. */
FV_FN void last_pixels(uint8_t out[8], const pixels *from, size_t i, size_t count)
{
    memset(out, 0, 8);
    memcpy(out, from->bytes + i * from->step, (count - i) * from->step);
}

FV_FN void lay_pairs(int16_t *out, const pixels *from, size_t count, size_t ld)
{
    size_t i = 0;
    uint8_t end[8];
    if (from->step == 1) {
        for (; i < count; i += 2, out += ld) {
            out[0] = from->bytes[i];
            out[1] = i + 1 < count ? from->bytes[i + 1] : 0;
        }
        return;
    }
    /* Eight bytes are read for two pixels, so this many pixels must be left. */
    const size_t enough = from->step == 4 ? 2 : 3;
    if (from->step == 3)
        for (; i + enough <= count; i += 2, out += ld)
            fv_pair_of(out, from->bytes + 3 * i, 3);
    else
        for (; i + enough <= count; i += 2, out += ld)
            fv_pair_of(out, from->bytes + 4 * i, 4);
    for (; i < count; i += 2, out += ld) {
        last_pixels(end, from, i, count < i + 2 ? count : i + 2);
        fv_pair_of(out, end, from->step);
    }
}

FV_FN void lay_wide(int32_t *out, const pixels *from, size_t count)
{
    size_t i = 0;
    uint8_t end[8];
    if (from->step == 1) {
        for (; i < count; i++, out += FV_W)
            *out = from->bytes[i];
        return;
    }
    for (; i < whole_pixels(from, count); i++, out += FV_W)
        fv_lane_wide(out, from->bytes + i * from->step);
    for (; i < count; i++, out += FV_W) {
        last_pixels(end, from, i, count);
        fv_lane_wide(out, end);
    }
}

FV_FN void lay_floats(float *out, const pixels *from, size_t count, float scale)
{
    size_t i = 0;
    uint8_t end[8];
    if (from->step == 1) {
        for (; i < count; i++, out += FV_W)
            *out = from->floats ? from->floats[i] : (float)from->bytes[i] * scale;
        return;
    }
    if (from->floats) {
        for (; i + 1 < count; i++, out += FV_W)
            memcpy(out, from->floats + 3 * i, 4 * sizeof *out);
        for (; i < count; i++, out += FV_W)
            memcpy(out, from->floats + 3 * i, 3 * sizeof *out);
        return;
    }
    for (; i < whole_pixels(from, count); i++, out += FV_W)
        fv_lane_floats(out, from->bytes + i * from->step, scale);
    for (; i < count; i++, out += FV_W) {
        last_pixels(end, from, i, count);
        fv_lane_floats(out, end, scale);
    }
}

/* ---- sums of interleaved rows ---- */

/* Where results are stored: position o of each of `rows` rows. */
typedef struct target {
    void *out;
    size_t ld, rows, channels, width;
} target;

FV_FN void put(const target *to, const void *from, size_t size, size_t o)
{
    const bool grey = to->channels == 1;
    for (size_t r = 0; r < to->rows; r++) {
        const char *pixel = (const char *)from + (grey ? r : 4 * r) * size;
        char *out = (char *)to->out + (r * to->ld + o * to->channels) * size;
        /* Stores four values and advances by three: the fourth belongs to the next pixel, which is
         * stored afterwards. */
        if (grey)
            memcpy(out, pixel, size);
        else if (o + 1 < to->width)
            memcpy(out, pixel, 4 * size);
        else
            memcpy(out, pixel, 3 * size);
    }
}

FV_FN void sum_pairs(const target *to, const int16_t *line, const fv_resize_table *t)
{
    const size_t base = t->first / 2, pairs = t->pairs;
    const int16_t *weight = t->narrow;
    uint8_t bytes[FV_W];
    for (size_t o = 0; o < t->size; o++, weight += 2 * pairs) {
        const int16_t *from = line + (t->start[o] / 2 - base) * 2 * FV_W;
        fv_sums sum = fv_sums_set(1 << (t->bits - 1));
        for (size_t k = 0; k < pairs; k++)
            sum = fv_sums_pairs(sum, from + k * 2 * FV_W, weight + 2 * k);
        fv_sums_bytes(bytes, sum, t->bits);
        put(to, bytes, 1, o);
    }
}

FV_FN void sum_wide(const target *to, const int32_t *line, const fv_resize_table *t)
{
    uint8_t bytes[FV_W];
    for (size_t o = 0; o < t->size; o++) {
        const int32_t *from = line + (t->start[o] - t->first) * FV_W;
        const int32_t *weight = t->whole + o * t->taps;
        fv_sums sum = fv_sums_set(1 << (t->bits - 1));
        for (size_t k = 0; k < t->count[o]; k++)
            sum = fv_sums_wide(sum, from + k * FV_W, weight[k]);
        fv_sums_bytes(bytes, sum, t->bits);
        put(to, bytes, 1, o);
    }
}

FV_FN void sum_floats(const target *to, const float *line, const fv_resize_table *t)
{
    float lanes[FV_W];
    for (size_t o = 0; o < t->size; o++) {
        const float *from = line + (t->start[o] - t->first) * FV_W, *weight = t->real + o * t->taps;
        fv_v sum = fv_set(0.f);
        for (size_t k = 0; k < t->count[o]; k++)
            sum = fv_fma(fv_set(weight[k]), fv_load(from + k * FV_W), sum);
        fv_store(lanes, sum);
        put(to, lanes, sizeof(float), o);
    }
}

/* ---- the horizontal pass ---- */

/* Returns the number of pairs of pixels in a line of `from` pixels, plus those after the line that
 * a position reads with weights of 0. */
FV_FN size_t line_pairs(size_t from)
{
    return 2 * (from / 2 + 2);
}

FV_FN size_t line_bytes(size_t from)
{
    const size_t pairs = line_pairs(from) * 2 * FV_W * sizeof(int16_t);
    const size_t wide = from * FV_W * sizeof(int32_t);
    return pairs > wide ? pairs : wide;
}

static size_t scratch_bytes(const fv_problem *p, const fv_knobs *k, uint32_t rows)
{
    (void)k, (void)rows;
    const size_t from = p->dim[FV_RESIZE_FROM];
    return line_bytes(from) + (p->flags & FV_FLAG_YUV ? 7 * from : 0);
}

const fv_kernel_hooks FV_NAME(fv_h_resize_x) = {.scratch = scratch_bytes};

void FV_NAME(fv_k_resize_x)(const fv_args *a, const fv_call *c)
{
    const fv_resize_table *t = a->table;
    const size_t channels = a->prob.dim[FV_RESIZE_CHANNELS], lanes = channels == 1 ? 1 : 4;
    const size_t size = t->bits ? 1 : sizeof(float);
    const size_t first = t->narrow ? t->first & ~1u : t->first;
    const size_t count = t->first + t->used - first;
    uint8_t *buffer = (uint8_t *)c->scratch + line_bytes(a->prob.dim[FV_RESIZE_FROM]);
    if (t->narrow) /* lanes that no row fills, and the pairs after the line */
        memset(c->scratch, 0, ((count + 1) / 2 + t->pairs) * 2 * FV_W * sizeof(int16_t));
    for (size_t r = 0; r < c->rows; r += FV_W / lanes) {
        const size_t rows = c->rows - r < FV_W / lanes ? c->rows - r : FV_W / lanes;
        const target to = {(char *)c->p[FV_RESIZE_OUT] + r * a->ld[FV_RESIZE_OUT] * size,
                           a->ld[FV_RESIZE_OUT], rows, channels, t->size};
        for (size_t i = 0; i < rows; i++) {
            const pixels from = pixels_of(a, c, c->row0 + a->u[0] + r + i, first, count, buffer);
            if (t->narrow)
                lay_pairs((int16_t *)c->scratch + 2 * lanes * i, &from, count, 2 * FV_W);
            else if (t->bits)
                lay_wide((int32_t *)c->scratch + lanes * i, &from, count);
            else
                lay_floats((float *)c->scratch + lanes * i, &from, count, t->scale);
        }
        if (t->narrow)
            sum_pairs(&to, c->scratch, t);
        else if (t->bits)
            sum_wide(&to, c->scratch, t);
        else
            sum_floats(&to, c->scratch, t);
    }
}

/* ---- the vertical pass ---- */

/* Weights k and k + 1 of a position; 0 in place of the second if there is none. */
FV_FN void pair_weights(int16_t w[2], const int32_t *weight, size_t k, size_t count)
{
    w[0] = (int16_t)weight[k];
    w[1] = k + 1 < count ? (int16_t)weight[k + 1] : 0;
}

/* Computes FV_BLOCK bytes of an output row; input rows have a stride of `ld`. */
FV_FN void column_pairs(uint8_t *out, const uint8_t *in, size_t ld, const int32_t *weight,
                        size_t count, uint32_t bits)
{
    fv_block sum = fv_block_set(1 << (bits - 1));
    for (size_t k = 0; k < count; k += 2) {
        int16_t w[2];
        pair_weights(w, weight, k, count);
        const uint8_t *row = in + k * ld;
        sum = fv_block_rows(sum, row, k + 1 < count ? row + ld : row, w);
    }
    fv_block_bytes(out, &sum, bits);
}

/* Does the same for fewer than FV_BLOCK bytes. */
static void short_column(uint8_t *out, const uint8_t *in, size_t ld, const int32_t *weight,
                         size_t count, uint32_t bits, size_t bytes)
{
    uint8_t rows[2][FV_BLOCK] = {{0}}, block[FV_BLOCK];
    fv_block sum = fv_block_set(1 << (bits - 1));
    for (size_t k = 0; k < count; k += 2) {
        int16_t w[2];
        pair_weights(w, weight, k, count);
        memcpy(rows[0], in + k * ld, bytes);
        if (k + 1 < count)
            memcpy(rows[1], in + (k + 1) * ld, bytes);
        sum = fv_block_rows(sum, rows[0], rows[1], w);
    }
    fv_block_bytes(block, &sum, bits);
    memcpy(out, block, bytes);
}

FV_FN void row_pairs(uint8_t *out, const uint8_t *in, size_t ld, const int32_t *weight,
                     size_t count, uint32_t bits, size_t bytes)
{
    size_t b = 0;
    for (; b + FV_BLOCK <= bytes; b += FV_BLOCK)
        column_pairs(out + b, in + b, ld, weight, count, bits);
    if (b < bytes)
        short_column(out + b, in + b, ld, weight, count, bits, bytes - b);
}

/* Bytes whose sums are kept at a time; within them each tap reads along a row. */
enum { RUN = 256 };

FV_FN void row_wide(uint8_t *restrict out, const uint8_t *restrict in, size_t ld,
                    const int32_t *weight, size_t count, uint32_t bits, size_t bytes)
{
    for (size_t b0 = 0; b0 < bytes; b0 += RUN) {
        const size_t n = bytes - b0 < RUN ? bytes - b0 : RUN;
        int32_t sum[RUN];
        for (size_t b = 0; b < n; b++)
            sum[b] = 1 << (bits - 1);
        for (size_t k = 0; k < count; k++)
            for (size_t b = 0; b < n; b++)
                sum[b] += in[k * ld + b0 + b] * weight[k];
        for (size_t b = 0; b < n; b++) {
            const int32_t v = sum[b] >> bits;
            out[b0 + b] = (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : v);
        }
    }
}

FV_FN void row_floats(float *out, const float *in, size_t ld, const float *weight, size_t count,
                      size_t floats)
{
    size_t i = 0;
    for (; i + 4 * FV_W <= floats; i += 4 * FV_W) {
        fv_v sum[4] = {fv_set(0.f), fv_set(0.f), fv_set(0.f), fv_set(0.f)};
        for (size_t k = 0; k < count; k++) {
            const fv_v w = fv_set(weight[k]);
            FV_UNROLL
            for (int v = 0; v < 4; v++)
                sum[v] = fv_fma(w, fv_load(in + k * ld + i + (size_t)v * FV_W), sum[v]);
        }
        FV_UNROLL
        for (int v = 0; v < 4; v++)
            fv_store(out + i + (size_t)v * FV_W, sum[v]);
    }
    for (; i < floats; i += FV_W) {
        const int n = fv_lanes(floats - i);
        fv_v sum = fv_set(0.f);
        for (size_t k = 0; k < count; k++)
            sum = fv_fma(fv_set(weight[k]), fv_load_n(in + k * ld + i, n), sum);
        fv_store_n(out + i, sum, n);
    }
}

/* Returns whether all weights of a position fit 16 bits. */
FV_FN bool fit_narrow(const int32_t *weight, size_t count)
{
    int32_t over = 0;
    for (size_t k = 0; k < count; k++)
        over |= weight[k] != (int16_t)weight[k];
    return !over;
}

void FV_NAME(fv_k_resize_y)(const fv_args *a, const fv_call *c)
{
    const fv_resize_table *t = a->table;
    const size_t n = (size_t)a->prob.dim[FV_RESIZE_WIDTH] * a->prob.dim[FV_RESIZE_CHANNELS];
    const size_t ld = a->ld[FV_RESIZE_IN];
    for (size_t r = 0; r < c->rows; r++) {
        const size_t o = c->row0 + r, from = t->start[o] * ld, to = r * a->ld[FV_RESIZE_OUT];
        const size_t count = t->count[o], at = o * t->taps;
        if (!t->bits)
            row_floats((float *)c->p[FV_RESIZE_OUT] + to, (const float *)c->p[FV_RESIZE_IN] + from,
                       ld, t->real + at, count, n);
        else if (fit_narrow(t->whole + at, count))
            row_pairs((uint8_t *)c->p[FV_RESIZE_OUT] + to,
                      (const uint8_t *)c->p[FV_RESIZE_IN] + from, ld, t->whole + at, count, t->bits,
                      n);
        else
            row_wide((uint8_t *)c->p[FV_RESIZE_OUT] + to,
                     (const uint8_t *)c->p[FV_RESIZE_IN] + from, ld, t->whole + at, count, t->bits,
                     n);
    }
}
