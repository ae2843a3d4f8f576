/* weight.c: reads weights that are assembled from tensors. */
#include "checkpoint/weight.h"

#include <assert.h>
#include <string.h>

#include "base/half.h"
#include "base/mem.h"
#include "checkpoint/safetensors.h"

/* Number of floats that are read at a time through a buffer, if they cannot be read in place. */
#define PIECE 256

fv_weight fv_weight_of(const fv_tensor *tensor, uint32_t rows, uint32_t cols)
{
    fv_weight w = {.rows = rows, .cols = cols};
    fv_weight_add(&w, (fv_weight_part){.tensor = tensor, .rows = rows, .cols = cols});
    return w;
}

fv_weight fv_weight_deconv(const fv_tensor *tensor, uint32_t channels, uint32_t out,
                           uint32_t stride, uint32_t reach)
{
    fv_weight w = {.rows = stride * stride * out, .cols = reach * reach * channels};
    assert(reach == 1 || (reach == 2 && stride == 2));
    fv_weight_add(&w, (fv_weight_part){.tensor = tensor,
                                       .rows = w.rows,
                                       .cols = w.cols,
                                       .taps = reach * reach,
                                       .stride = stride});
    return w;
}

void fv_weight_add(fv_weight *w, fv_weight_part part)
{
    assert(w->parts < FV_WEIGHT_PARTS);
    assert(part.row0 + part.rows <= w->rows && part.col0 + part.cols <= w->cols);
    assert(!(part.sum && (part.row_scale || part.taps > 1)));
    assert(!(part.taps > 1 && part.paired_cols));
    assert(!(part.taps > 1 && part.mirrored && !part.channel_stride));
    assert(!part.diagonal || (part.row_stride && part.rows == part.cols && !part.sum));
    if (part.row_stride == 0)
        part.row_stride = part.cols;
    if (part.col_stride == 0)
        part.col_stride = 1;
    if (part.factor == 0)
        part.factor = 1;
    w->part[w->parts++] = part;
}

static uint32_t mixed_rows(const fv_tensor *mix)
{
    return (uint32_t)mix->shape[mix->rank - 1];
}

bool fv_weight_mix(fv_weight *w, const fv_tensor *mix)
{
    const uint32_t d = mixed_rows(mix);
    for (uint32_t i = 0; i < w->parts; i++) {
        const fv_weight_part *p = &w->part[i];
        const uint32_t first = w->rows == 1 ? p->col0 : p->row0;
        const uint32_t n = w->rows == 1 ? p->cols : p->rows;
        if (first % d || n % d || p->sum || p->taps > 1 || p->repeats > 1 || p->mirrored ||
            p->stride || p->row_scale || p->diagonal)
            return false;
    }
    w->mix = mix;
    return true;
}

/* Returns whether the part is a vector whose groups of columns are repeated. */
static bool repeats_columns(const fv_weight_part *p)
{
    return p->repeats > 1 && p->rows == 1;
}

/* Returns the index in the tensor of a row of the part. */
static uint32_t source_row(const fv_weight_part *p, uint32_t row)
{
    if (p->rows > 1)
        row = fv_weight_repeated(row, p->repeats, p->repeated);
    return fv_weight_paired(row, p->paired_rows);
}

/* Reads columns [col, col + n) of the part's row that begins at element `first` of the tensor; n is
 * at most PIECE. */
static void read_piece(const fv_weight_part *p, uint64_t first, uint32_t col, uint32_t n,
                       float *out)
{
    if (p->mirrored)
        for (uint32_t i = 0; i < n; i++)
            fv_tensor_read(p->tensor, first + (p->cols - 1 - col - i) * p->col_stride, 1, out + i);
    else if (repeats_columns(p))
        for (uint32_t i = 0; i < n; i++)
            fv_tensor_read(p->tensor, first + fv_weight_repeated(col + i, p->repeats, p->repeated),
                           1, out + i);
    else if (p->col_stride == 1 && !p->paired_cols)
        fv_tensor_read(p->tensor, first + col, n, out);
    else
        for (uint32_t i = 0; i < n; i++)
            fv_tensor_read(p->tensor,
                           first + fv_weight_paired(col + i, p->paired_cols) * p->col_stride, 1,
                           out + i);
    for (uint32_t i = 0; i < n && p->factor != 1; i++)
        out[i] *= p->factor;
}

/* Reads a row of a convolution's weight, and reorders it from (channel, tap) to (tap, channel). */
static void read_taps(const fv_weight_part *p, uint64_t first, float *out)
{
    const uint32_t channels = p->cols / p->taps;
    for (uint32_t c = 0; c < p->cols; c += PIECE) {
        float piece[PIECE];
        uint32_t n = p->cols - c < PIECE ? p->cols - c : PIECE;
        read_piece(p, first, c, n, piece);
        for (uint32_t i = 0; i < n; i++)
            out[(c + i) % p->taps * channels + (c + i) / p->taps] = piece[i];
    }
}

/* Reads a row of a convolution's weight whose channels have a stride. */
static void read_strided(const fv_weight_part *p, uint64_t first, float *out)
{
    const uint32_t channels = p->cols / p->taps;
    for (uint32_t c = 0; c < channels; c++)
        for (uint32_t tap = 0; tap < p->taps; tap++) {
            float *to = &out[(p->mirrored ? p->taps - 1 - tap : tap) * channels + c];
            fv_tensor_read(p->tensor, first + c * p->channel_stride + tap, 1, to);
            *to *= p->factor;
        }
}

/* Returns the index of the tap of a transposed convolution, along one side, through which input
 * pixel `at` (of `reach`) contributes to row or column i of an output block. */
static uint32_t deconv_tap(uint32_t i, uint32_t at, uint32_t reach)
{
    return reach == 1 ? i : 3 - i - 2 * at;
}

/* Reads a row of a transposed convolution's weight. */
static void read_deconv(const fv_weight_part *p, uint32_t row, float *out)
{
    const uint32_t s = p->stride, reach = p->taps > 1 ? 2 : 1, size = s * reach;
    const uint32_t rows = p->rows / (s * s), channels = p->cols / p->taps;
    const uint32_t i = row / rows / s, j = row / rows % s;
    for (uint32_t c = 0; c < p->cols; c++) {
        const uint32_t tap = c / channels;
        const uint64_t filter = (uint64_t)(c % channels) * rows + row % rows;
        const uint64_t at = (filter * size + deconv_tap(i, tap / reach, reach)) * size +
                            deconv_tap(j, tap % reach, reach);
        fv_tensor_read(p->tensor, p->offset + at, 1, out + c);
    }
}

/* Reads a row of a weight that consists of blocks on its diagonal. */
static void read_diagonal(const fv_weight_part *p, uint32_t row, float *out)
{
    const uint32_t d = p->diagonal, block = row / d;
    const uint64_t first = p->offset + (uint64_t)block * d * d +
                           fv_weight_paired(row % d, p->paired_rows) * p->row_stride;
    for (uint32_t c = 0; c < d; c++) {
        float *to = out + (uint64_t)block * d + c;
        fv_tensor_read(p->tensor, first + fv_weight_paired(c, p->paired_cols) * p->col_stride, 1,
                       to);
        *to *= p->factor;
    }
}

/* Returns the factor by which row (column) j of a group contributes to row (column) `at` of the
 * whole. */
static float mix_of(const fv_tensor *mix, uint32_t at, uint32_t j, uint32_t paired)
{
    const uint32_t d = mixed_rows(mix);
    const uint64_t row = at / d * d + fv_weight_paired(at % d, paired);
    float x;
    fv_tensor_read(mix, row * d + fv_weight_paired(j, paired), 1, &x);
    return x;
}

/* Adds row `row` of a mixed part to `out`: a combination of the rows of its group. */
static void read_mixed(const fv_weight_part *p, const fv_tensor *mix, uint32_t row, float *out)
{
    const uint32_t d = mixed_rows(mix), at = p->row0 + row;
    for (uint32_t j = 0; j < d; j++) {
        const float factor = mix_of(mix, at, j, p->paired_rows);
        const uint64_t first = p->offset + source_row(p, row - at % d + j) * p->row_stride;
        for (uint32_t c = 0; c < p->cols; c += PIECE) {
            float piece[PIECE];
            const uint32_t n = p->cols - c < PIECE ? p->cols - c : PIECE;
            read_piece(p, first, c, n, piece);
            for (uint32_t i = 0; i < n; i++)
                out[c + i] += factor * piece[i];
        }
    }
}

/* Adds all columns of a mixed part of a vector to `out`. */
static void read_mixed_columns(const fv_weight_part *p, const fv_tensor *mix, float *out)
{
    const uint32_t d = mixed_rows(mix);
    for (uint32_t c = 0; c < p->cols; c++)
        for (uint32_t j = 0; j < d; j++) {
            float x;
            read_piece(p, p->offset, c - c % d + j, 1, &x);
            out[c] += mix_of(mix, p->col0 + c, j, p->paired_cols) * x;
        }
}

static void read_part_row(const fv_weight_part *p, uint32_t row, float *out)
{
    if (p->stride) {
        read_deconv(p, row, out);
        return;
    }
    if (p->diagonal) {
        read_diagonal(p, row, out);
        return;
    }
    const uint64_t first = p->offset + source_row(p, row) * p->row_stride;
    if (p->taps > 1) {
        (p->channel_stride ? read_strided : read_taps)(p, first, out);
        return;
    }
    if (p->col_stride == 1 && p->factor == 1 && !p->sum && !p->paired_cols && !p->mirrored &&
        !repeats_columns(p)) {
        fv_tensor_read(p->tensor, first, p->cols, out);
        return;
    }
    for (uint32_t c = 0; c < p->cols; c += PIECE) {
        float piece[PIECE];
        uint32_t n = p->cols - c < PIECE ? p->cols - c : PIECE;
        read_piece(p, first, c, n, piece);
        for (uint32_t i = 0; i < n; i++)
            out[c + i] = p->sum ? out[c + i] + piece[i] : piece[i];
    }
}

/* Returns whether the part is a transposed weight, whose rows are columns of a float32 tensor. */
static bool is_transposed(const fv_weight_part *p)
{
    return p->row_stride == 1 && p->col_stride > 1 && p->taps <= 1 && !p->stride && !p->sum &&
           !p->paired_rows && p->repeats <= 1 && !p->diagonal && p->tensor->data &&
           p->tensor->dtype == FV_FILE_F32;
}

/* Reads n rows of a transposed part, beginning with `row`, to `out` with a row stride of `ld`
 * floats. Reads square tiles, so that reads and writes both use whole cache lines. */
static void read_transposed(const fv_weight_part *p, uint32_t row, uint32_t n, float *out,
                            size_t ld)
{
    enum { SIDE = 16 };
    for (uint32_t r = 0; r < n; r += SIDE) {
        const uint32_t rows = n - r < SIDE ? n - r : SIDE;
        for (uint32_t c = 0; c < p->cols; c++) {
            float line[SIDE];
            fv_tensor_read(p->tensor,
                           p->offset + row + r +
                               fv_weight_paired(c, p->paired_cols) * p->col_stride,
                           rows, line);
            for (uint32_t i = 0; i < rows; i++)
                out[(r + i) * ld + c] = p->factor * line[i];
        }
    }
}

/* Multiplies rows [r0, r0 + n) by the row and column scales of the whole weight. */
static void scale_whole(const fv_weight *w, uint32_t r0, uint32_t n, float *out)
{
    for (uint32_t r = 0; w->row_factor && r < n; r++)
        for (uint32_t c = 0; c < w->cols; c++)
            out[(size_t)r * w->cols + c] *= w->row_factor[r0 + r];
    for (uint32_t r = 0; w->col_factor && r < n; r++)
        for (uint32_t c = 0; c < w->cols; c++)
            out[(size_t)r * w->cols + c] *= w->col_factor[c];
}

void fv_weight_read(const fv_weight *w, uint32_t r0, uint32_t n, float *out)
{
    assert(r0 <= w->rows && n <= w->rows - r0);
    memset(out, 0, (size_t)n * w->cols * sizeof *out);
    for (uint32_t i = 0; i < w->parts; i++) {
        const fv_weight_part *p = &w->part[i];
        const bool mixed = w->mix && !p->sum, transposed = !mixed && is_transposed(p);
        uint32_t begin = p->row0 > r0 ? p->row0 : r0;
        uint32_t end = p->row0 + p->rows < r0 + n ? p->row0 + p->rows : r0 + n;
        if (begin < end && transposed)
            read_transposed(p, begin - p->row0, end - begin,
                            out + (size_t)(begin - r0) * w->cols + p->col0, w->cols);
        for (uint32_t r = begin; r < end; r++) {
            float *row = out + (size_t)(r - r0) * w->cols + p->col0;
            if (mixed && w->rows == 1)
                read_mixed_columns(p, w->mix, row);
            else if (mixed)
                read_mixed(p, w->mix, r - p->row0, row);
            else if (!transposed)
                read_part_row(p, r - p->row0, row);
            for (uint32_t c = 0; p->row_scale && c < p->cols; c++)
                row[c] *= p->row_scale[r - p->row0];
        }
    }
    scale_whole(w, r0, n, out);
}

fovea_status fv_weight_rounded(float **out, const fv_weight *w, enum fv_type type)
{
    const uint64_t count = fv_size_mul(w->rows, w->cols);
    FV_TRY(FV_MEM_ARRAY(out, count, FV_MEM_PLAN, "a weight's rows"));
    float *x = *out;
    fv_weight_read(w, 0, w->rows, x);
    for (uint64_t i = 0; (type == FV_F16 || type == FV_BF16) && i < count; i++) {
        fv_value_put(&x[i], type, 0, x[i]);
        x[i] = fv_value_get(&x[i], type, 0);
    }
    return FOVEA_OK;
}

static bool same_part(const fv_weight_part *a, const fv_weight_part *b)
{
    return a->tensor == b->tensor && a->offset == b->offset && a->row0 == b->row0 &&
           a->rows == b->rows && a->col0 == b->col0 && a->cols == b->cols &&
           a->row_stride == b->row_stride && a->col_stride == b->col_stride &&
           a->factor == b->factor && a->sum == b->sum && a->taps == b->taps &&
           a->channel_stride == b->channel_stride && a->mirrored == b->mirrored &&
           a->stride == b->stride && a->row_scale == b->row_scale &&
           a->paired_rows == b->paired_rows && a->paired_cols == b->paired_cols &&
           a->repeats == b->repeats && a->repeated == b->repeated && a->diagonal == b->diagonal;
}

bool fv_weight_same(const fv_weight *a, const fv_weight *b)
{
    if (a->rows != b->rows || a->cols != b->cols || a->parts != b->parts || a->mix != b->mix ||
        a->row_factor != b->row_factor || a->col_factor != b->col_factor ||
        fv_weight_type(a) != fv_weight_type(b))
        return false;
    for (uint32_t i = 0; i < a->parts; i++)
        if (!same_part(&a->part[i], &b->part[i]))
            return false;
    return true;
}
