/* fold.h: folds into the weights at load what inference then need not compute: BatchNorm after a
 * convolution, LayerScale, and the residual around a depthwise convolution. */
#ifndef FOVEA_SRC_MODELS_FOLD_H
#define FOVEA_SRC_MODELS_FOLD_H

#include "models/tensor_reader.h"

/* A convolution or linear layer with bias, and one of these after it:
 *
 *     BatchNorm    (y - mean) / sqrt(var + 1e-5) * weight + bias
 *     LayerScale   y * gamma
 */
typedef struct fv_fold_layer {
    const char *stem;              /* of "weight" and "bias" */
    const char *norm;              /* stem of the BatchNorm, or NULL */
    const char *scale;             /* name of gamma, or NULL; not together with `norm` */
    bool unbiased;                 /* the layer has no bias of its own */
    uint32_t rows, channels, size; /* (rows, channels, size, size); size 1: (rows, channels) */
    bool by_tap; /* columns become (ky, kx, channel), as CONV has them; else they stay (channel, ky,
                    kx) */
} fv_fold_layer;

/* Reads the tensors and makes one layer that computes all of this. */
fovea_status fv_fold(fv_layer *l, fv_tensor_reader *t, const char *prefix, const fv_fold_layer *f);

/* A transposed convolution, with or without a bias, and the BatchNorm after it, to be made one
 * layer for fv_emit_deconv. Its size is `stride`, without padding; with `overlap`: stride 2, size
 * 4, padding 1. */
typedef struct fv_fold_deconv {
    const char *stem;                /* of "weight" and "bias" */
    const char *norm;                /* stem of the BatchNorm, or NULL */
    uint32_t channels, rows, stride; /* (channels, rows, size, size) */
    bool overlap;
} fv_fold_deconv;
fovea_status fv_fold_transposed(fv_layer *l, fv_tensor_reader *t, const char *prefix,
                                const fv_fold_deconv *f);

/* Makes y = x + (depthwise convolution of x) one convolution, by adding 1 to the centre tap. Its
 * matrix is (channels, size * size). */
fovea_status fv_fold_residual(fv_layer *l, fv_tensor_reader *t, const char *prefix,
                              const char *stem, uint32_t channels, uint32_t size);

#endif
