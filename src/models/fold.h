/* fold.h: folds operations into the weights when a model is loaded, so that inference need not
 * compute them: BatchNorm after a convolution, LayerScale, and the residual around a depthwise
 * convolution. */
#ifndef FOVEA_SRC_MODELS_FOLD_H
#define FOVEA_SRC_MODELS_FOLD_H

#include "models/tensor_reader.h"

/* A convolution or linear layer with bias, followed by one of these:
 *
 *     BatchNorm    (y - mean) / sqrt(var + 1e-5) * weight + bias
 *     LayerScale   y * gamma */
typedef struct fv_fold_layer {
    const char *stem;  /* stem of the names of "weight" and "bias" */
    const char *norm;  /* stem of the BatchNorm, or NULL */
    const char *scale; /* name of gamma, or NULL; not together with `norm` */
    bool unbiased;     /* the layer has no bias of its own */
    /* shape (rows, channels, size, size); (rows, channels) if size is 1 */
    uint32_t rows, channels, size;
    /* reorder columns to (ky, kx, channel), as CONV reads them; otherwise they stay (channel, ky,
     * kx) */
    bool by_tap;
} fv_fold_layer;

/* Reads the tensors, and makes one layer that computes the layer and the operation after it. */
fovea_status fv_fold(fv_layer *l, fv_tensor_reader *t, const char *prefix, const fv_fold_layer *f);

/* A transposed convolution, with or without a bias, and the BatchNorm after it, which become one
 * layer for fv_emit_deconv. Its size is `stride`, without padding. With `overlap`, it has stride 2,
 * size 4 and padding 1. */
typedef struct fv_fold_deconv {
    const char *stem;                /* stem of the names of "weight" and "bias" */
    const char *norm;                /* stem of the BatchNorm, or NULL */
    uint32_t channels, rows, stride; /* shape (channels, rows, size, size) */
    bool overlap;
} fv_fold_deconv;
fovea_status fv_fold_transposed(fv_layer *l, fv_tensor_reader *t, const char *prefix,
                                const fv_fold_deconv *f);

/* Makes y = x + (depthwise convolution of x) one convolution, by adding 1 to the centre tap. Its
 * matrix is (channels, size * size). */
fovea_status fv_fold_residual(fv_layer *l, fv_tensor_reader *t, const char *prefix,
                              const char *stem, uint32_t channels, uint32_t size);

#endif
