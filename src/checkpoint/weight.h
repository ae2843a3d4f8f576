/* weight.h: a weight as a step needs it, put together from tensors of a checkpoint. */
#ifndef FOVEA_SRC_WEIGHT_H
#define FOVEA_SRC_WEIGHT_H

#include "base/status.h"
#include "base/type.h"
#include "checkpoint/tensor.h"

/* A matrix (rows, cols) assembled from parts of tensors: a third of a fused QKV, K and V stacked,
 * two heads averaged side by side. Row r of the matrix comes from the part that owns it; parts may
 * also be side by side (col0 > 0). A vector is a matrix of one row. */
typedef struct fv_weight_part {
    const fv_tensor *tensor;
    uint64_t offset;     /* first element used */
    uint32_t row0, rows; /* rows of the whole that it fills */
    uint32_t col0, cols; /* columns of the whole that it fills */
    uint64_t row_stride; /* elements from row to row in the tensor */
    uint64_t col_stride; /* 1, or more for a transposed source */
    float factor;        /* multiplies */
    bool sum;            /* adds to what earlier parts have stored there */
    /* Columns are in reverse order; with `taps`, the taps of each channel are: the filter is
     * rotated by 180 degrees. */
    bool mirrored;
    uint32_t stride; /* > 0: stride of a transposed convolution, see fv_weight_deconv; its rows are
                        contiguous */
    /* taps > 1: the weight of a convolution; a row is (channel, tap) in the tensor, (tap, channel)
     * in the whole, and cols = channels * taps. channel_stride: elements from channel to channel in
     * the tensor; 0: `taps`, contiguous. */
    uint32_t taps;
    uint64_t channel_stride;
    const float *row_scale; /* a factor per row of the part, or NULL; lives as long as the model */
    uint32_t paired_rows, paired_cols; /* d: the halves of every d rows (columns) are interleaved,
                                          see fv_weight_paired; 0: they are not */
    /* repeats > 1: each group of `repeated` rows of the tensor occurs `repeats` times before the
     * next group, as for heads that share keys. In a vector, which is a single row, these are
     * groups of columns. */
    uint32_t repeats, repeated;
    /* d > 0: the tensor's rows, of d columns, fill blocks of d x d on the diagonal, and all other
     * elements are 0: a map of each head's channels to themselves. Strides are those within a
     * block. */
    uint32_t diagonal;
} fv_weight_part;

/* Index in the tensor of row i of the matrix when the halves of every d rows are interleaved: row
 * 2j comes from j, row 2j + 1 from j + d/2. The two channels that a rotation of halves combines
 * become neighbours. */
static inline uint32_t fv_weight_paired(uint32_t i, uint32_t d)
{
    const uint32_t k = d ? i % d : 0;
    return d ? i - k + k / 2 + k % 2 * (d / 2) : i;
}

/* Index in the tensor of row i of the matrix when each group of n rows occurs `times` times. */
static inline uint32_t fv_weight_repeated(uint32_t i, uint32_t times, uint32_t n)
{
    return times > 1 ? i / n / times * n + i % n : i;
}

#define FV_WEIGHT_PARTS 4
typedef struct fv_weight {
    uint32_t rows, cols; /* 0 rows: absent */
    uint8_t type; /* enum fv_type of its rows if they are packed plainly: FV_NONE for F32; F16 or
                     BF16 if the step's kernel reads that */
    uint32_t parts;
    fv_weight_part part[FV_WEIGHT_PARTS];
    /* (n, d, d), or NULL. Replaces every d rows (of a vector: columns) by combinations of them: row
     * r is the sum over j of mix[r / d][r % d][j] times row j of the same group of d. A map of each
     * head's channels after a product then costs nothing. Parts with `sum` are added without the
     * mix. A part's paired_rows (paired_cols) apply to the mix, too. */
    const fv_tensor *mix;
    /* Powers of two that multiply rows and columns of the whole, or NULL. They make the channels
     * that int8 products read alike in size (plan/equalise_channels.c). They live as long as the
     * model. */
    const float *row_factor, *col_factor;
} fv_weight;

/* The weight and the bias of a linear layer or a normalisation; the bias may be absent. */
typedef struct fv_layer {
    fv_weight w, b;
} fv_layer;

/* The first rows * cols elements of `tensor`, row after row. */
fv_weight fv_weight_of(const fv_tensor *tensor, uint32_t rows, uint32_t cols);
/* The weight of a transposed convolution of this stride, (channels, out, size, size) in torch, as a
 * product that computes a block of stride x stride pixels for each input pixel. Its rows are (row
 * in the block, column in the block, out), its columns `reach` x `reach` input pixels as CONV has
 * them: (row, column, channel). reach 1: size is stride, pad 0. reach 2: stride 2, size 4, pad 1;
 * the second row (column) of the block then reads pixels one row (column) further on than the first
 * (ref_pixel_shuffle.c). */
fv_weight fv_weight_deconv(const fv_tensor *tensor, uint32_t channels, uint32_t out,
                           uint32_t stride, uint32_t reach);
/* Adds a part. Strides of 0 mean contiguous rows, a factor of 0 means 1. */
void fv_weight_add(fv_weight *w, fv_weight_part part);
/* Sets the mix. False: that is not possible, because the parts are not whole, unchanged groups of d
 * rows. */
bool fv_weight_mix(fv_weight *w, const fv_tensor *mix);

/* Whether both are put together from the same elements in the same way. */
bool fv_weight_same(const fv_weight *a, const fv_weight *b);

/* Rows [r0, r0 + n) as n * cols floats. Elements that no part fills are 0, such as a missing bias.
 */
void fv_weight_read(const fv_weight *w, uint32_t r0, uint32_t n, float *out);
/* All of it, rounded to the precision of `type`; to be freed with fv_mem_free. ENOMEM. */
fovea_status fv_weight_rounded(float **out, const fv_weight *w, enum fv_type type);
/* Type of the weight's rows if they are packed plainly. */
static inline enum fv_type fv_weight_type(const fv_weight *w)
{
    return w->type == FV_NONE ? FV_F32 : (enum fv_type)w->type;
}
static inline bool fv_weight_present(const fv_weight *w)
{
    return w->rows != 0;
}

#endif
