/* weight.h: the weight of a step, assembled from tensors of a checkpoint. */
#ifndef FOVEA_SRC_WEIGHT_H
#define FOVEA_SRC_WEIGHT_H

#include "base/status.h"
#include "base/type.h"
#include "checkpoint/tensor.h"

/* A part of a weight. A weight is a matrix (rows, cols) that is assembled from parts of tensors: a
 * third of a fused QKV, K and V stacked, two heads averaged. Each row of the matrix belongs to a
 * part; parts may also be adjacent in columns (col0 > 0). A vector is a matrix of one row. */
typedef struct fv_weight_part {
    const fv_tensor *tensor;
    uint64_t offset;     /* index of the first element that is used */
    uint32_t row0, rows; /* rows of the weight that the part fills */
    uint32_t col0, cols; /* columns of the weight that the part fills */
    uint64_t row_stride; /* row stride in the tensor in elements */
    uint64_t col_stride; /* column stride in the tensor: 1, or more for a transposed source */
    float factor;        /* factor of the elements */
    bool sum;            /* adds to the values of earlier parts */
    /* Columns are in reverse order. With `taps`, the taps of each channel are in reverse order,
     * which rotates the filter by 180 degrees. */
    bool mirrored;
    uint32_t stride; /* > 0: stride of a transposed convolution, see fv_weight_deconv; its rows
                        are contiguous */
    /* taps > 1: the weight of a convolution. A row is (channel, tap) in the tensor and (tap,
     * channel) in the weight, and cols = channels * taps. channel_stride is the stride between
     * channels in the tensor in elements; 0: `taps`, contiguous. */
    uint32_t taps;
    uint64_t channel_stride;
    const float *row_scale; /* a scale per row of the part, or NULL; lives as long as the model */
    uint32_t paired_rows, paired_cols; /* d: the halves of every d rows (columns) are
                                          interleaved, see fv_weight_paired; 0: not interleaved */
    /* repeats > 1: each group of `repeated` rows of the tensor occurs `repeats` times before the
     * next group, as for heads that share keys. In a vector, which is a single row, the groups
     * consist of columns. */
    uint32_t repeats, repeated;
    /* d > 0: the tensor's rows, of d columns, fill blocks of d x d on the diagonal, and all other
     * elements are 0. Such a weight maps each head's channels to themselves. Strides are those
     * within a block. */
    uint32_t diagonal;
} fv_weight_part;

/* Returns the index in the tensor of row i of the matrix when the halves of every d rows are
 * interleaved: row 2j is row j of the tensor, and row 2j + 1 is row j + d/2. The two channels that
 * a rotation of halves combines become neighbours. */
static inline uint32_t fv_weight_paired(uint32_t i, uint32_t d)
{
    const uint32_t k = d ? i % d : 0;
    return d ? i - k + k / 2 + k % 2 * (d / 2) : i;
}

/* Returns the index in the tensor of row i of the matrix when each group of n rows occurs `times`
 * times. */
static inline uint32_t fv_weight_repeated(uint32_t i, uint32_t times, uint32_t n)
{
    return times > 1 ? i / n / times * n + i % n : i;
}

#define FV_WEIGHT_PARTS 4
typedef struct fv_weight {
    uint32_t rows, cols; /* 0 rows: absent */
    uint8_t type; /* storage type of an unpacked weight's rows (enum fv_type): FV_NONE means F32;
                     F16 or BF16 if the step's kernel reads them */
    uint32_t parts;
    fv_weight_part part[FV_WEIGHT_PARTS];
    /* (n, d, d), or NULL. Replaces every d rows (of a vector: columns) by combinations of them: row
     * r is the sum over j of mix[r / d][r % d][j] times row j of the same group of d. A map of each
     * head's channels after a product then costs nothing. Parts with `sum` are added without the
     * mix. The paired_rows (paired_cols) of a part also apply to the mix. */
    const fv_tensor *mix;
    /* Powers of two that multiply rows and columns of the whole weight, or NULL. They make the
     * sizes of the channels that int8 products read similar (plan/equalise_channels.c). They live
     * as long as the model. */
    const float *row_factor, *col_factor;
} fv_weight;

/* The weight and the bias of a linear layer or a normalisation; the bias may be absent. */
typedef struct fv_layer {
    fv_weight w, b;
} fv_layer;

/* Makes a weight of the first rows * cols elements of `tensor`, row by row. */
fv_weight fv_weight_of(const fv_tensor *tensor, uint32_t rows, uint32_t cols);
/* Makes the weight of a transposed convolution of this stride, (channels, out, size, size) in
 * torch, as a product that computes a block of stride x stride pixels for each input pixel. Its
 * rows are (row in the block, column in the block, out). Its columns are `reach` x `reach` input
 * pixels in the order of CONV: (row, column, channel). With reach 1, size is stride and pad is 0.
 * With reach 2, stride is 2, size is 4 and pad is 1; the second row (column) of the block then
 * reads pixels one row (column) after those of the first (ref_pixel_shuffle.c). */
fv_weight fv_weight_deconv(const fv_tensor *tensor, uint32_t channels, uint32_t out,
                           uint32_t stride, uint32_t reach);
/* Adds a part. Strides of 0 mean contiguous rows; a factor of 0 means 1. */
void fv_weight_add(fv_weight *w, fv_weight_part part);
/* Sets the mix. Returns false if that is not possible, because the parts are not whole, unchanged
 * groups of d rows. */
bool fv_weight_mix(fv_weight *w, const fv_tensor *mix);

/* Returns whether both weights are assembled from the same elements in the same way. */
bool fv_weight_same(const fv_weight *a, const fv_weight *b);

/* Reads rows [r0, r0 + n) as n * cols floats. Elements that no part fills are 0, such as a missing
 * bias. */
void fv_weight_read(const fv_weight *w, uint32_t r0, uint32_t n, float *out);
/* Reads the whole weight, rounded to the precision of `type`. Free it with fv_mem_free. Returns
 * FOVEA_ENOMEM if memory runs out. */
fovea_status fv_weight_rounded(float **out, const fv_weight *w, enum fv_type type);
/* Returns the type of the weight's rows if they are not packed. */
static inline enum fv_type fv_weight_type(const fv_weight *w)
{
    return w->type == FV_NONE ? FV_F32 : (enum fv_type)w->type;
}
static inline bool fv_weight_present(const fv_weight *w)
{
    return w->rows != 0;
}

#endif
