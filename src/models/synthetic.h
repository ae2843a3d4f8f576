/* synthetic.h: makes tensors and layers of synthetic checkpoints.
 *
 * Random weights keep activations near 1 at any depth: a matrix is scaled by 1 / sqrt(number of
 * inputs), times `gain`.
 */
#ifndef FOVEA_SRC_MODELS_SYNTHETIC_H
#define FOVEA_SRC_MODELS_SYNTHETIC_H

#include <jansson.h>

#include "checkpoint/source.h"

typedef struct fv_synthetic {
    fv_source *source;
    fovea_status status; /* the first failure, after which the functions do nothing */
} fv_synthetic;

/* Adds a tensor whose name is prefix + stem + part. */
void fv_synthetic_tensor(fv_synthetic *m, const char *prefix, const char *stem, uint32_t rank,
                         const uint64_t *shape, float mean, float spread);
/* Adds stem + "weight" (rows, channels, size, size), or (rows, channels) if size is 1. */
void fv_synthetic_matrix(fv_synthetic *m, const char *prefix, const char *stem, uint32_t rows,
                         uint32_t channels, uint32_t size, float gain);
/* Adds stem + "weight" and stem + "bias". */
void fv_synthetic_linear(fv_synthetic *m, const char *prefix, const char *stem, uint32_t rows,
                         uint32_t channels, uint32_t size, float gain);
/* Adds stem + "weight" (channels, rows, size, size) of a transposed convolution. Each of its
 * outputs is a sum of `inputs` products. */
void fv_synthetic_deconv(fv_synthetic *m, const char *prefix, const char *stem, uint32_t channels,
                         uint32_t rows, uint32_t size, uint32_t inputs);
/* Adds stem + "bias". */
void fv_synthetic_bias(fv_synthetic *m, const char *prefix, const char *stem, uint32_t rows);
/* Returns four numbers as a list. */
struct json_t *fv_synthetic_list(const uint32_t n[4]);
/* Completes a checkpoint by setting its configuration. If `made` is NULL, there was not enough
 * memory for the configuration. */
fovea_status fv_synthetic_end(struct json_t **config, const char *name, fovea_status status,
                              struct json_t *made);
/* Adds stem + "weight" and stem + "bias" of a normalisation. */
void fv_synthetic_norm(fv_synthetic *m, const char *prefix, const char *stem, uint32_t width);

#endif
