/* fold.h: what inference need not compute, worked into the weights at load: BatchNorm after a
 * convolution, LayerScale, and the residual around a depthwise convolution.
 */
#ifndef FOVEA_SRC_MODELS_FOLD_H
#define FOVEA_SRC_MODELS_FOLD_H

#include "models/tensor_reader.h"

/* A convolution or linear layer with bias, and what its result goes through:
 *
 *     BatchNorm    (y - mean) / sqrt(var + 1e-5) * weight + bias
 *     LayerScale   y * gamma
 */
typedef struct fv_fold_layer {
    const char *stem;              /* of "weight" and "bias" */
    const char *norm;              /* stem of the BatchNorm, or NULL */
    const char *scale;             /* name of gamma, or NULL; not together with `norm` */
    bool unbiased;                 /* there is no bias, except that of the BatchNorm */
    uint32_t rows, channels, size; /* (rows, channels, size, size); size 1: (rows, channels) */
    bool by_tap; /* columns become (ky, kx, channel), as CONV has them; else they stay (channel, ky,
                    kx) */
} fv_fold_layer;

/* Makes one layer that computes all of these. */
fovea_status fv_fold(fv_layer *l, fv_tensor_reader *t, const char *prefix, const fv_fold_layer *f);

/* A transposed convolution, with a bias or without, and the BatchNorm after it: the layer that
 * fv_emit_deconv takes. Of size `stride` without pad, or with `overlap` of stride 2, size 4, pad 1.
 */
typedef struct fv_fold_deconv {
    const char *stem;                /* of "weight" and "bias" */
    const char *norm;                /* stem of the BatchNorm, or NULL */
    uint32_t channels, rows, stride; /* (channels, rows, size, size) */
    bool overlap;
} fv_fold_deconv;
fovea_status fv_fold_transposed(fv_layer *l, fv_tensor_reader *t, const char *prefix,
                                const fv_fold_deconv *f);

/* y = x + depthwise convolution of x as one convolution: 1 is added to the centre tap.
 * Its matrix is (channels, size * size). */
fovea_status fv_fold_residual(fv_layer *l, fv_tensor_reader *t, const char *prefix,
                              const char *stem, uint32_t channels, uint32_t size);

#endif
