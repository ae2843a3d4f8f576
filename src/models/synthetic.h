/* synthetic.h: makes synthetic checkpoints: the config.json and the tensors of a model of a
 * published size, with random weights.
 *
 * Random weights keep activations near 1 at any depth: a matrix is scaled by 1 / sqrt(number of
 * inputs), times `gain`.
 */
#ifndef FOVEA_SRC_MODELS_SYNTHETIC_H
#define FOVEA_SRC_MODELS_SYNTHETIC_H

#include <jansson.h>

#include "checkpoint/source.h"

/* A checkpoint that is being made. */
typedef struct fv_synthetic {
    const char *name;   /* name of the model, as in "synthetic:NAME" */
    const char *ending; /* ending of the name that selects a neck or head, or "" */
    const void *form;   /* the family's fv_family.form */
    const char *root;   /* begins all prefixes */
    fv_source *source;
    fovea_status status; /* the first failure, after which the functions do nothing */
    char prefix[96];     /* prefix of the names of tensors */
} fv_synthetic;

/* A family's synthetic checkpoints. */
typedef struct fv_synthetic_list {
    const void *sizes; /* an array of structs whose first member is the name */
    size_t size, count;
    bool (*has)(const char *name); /* recognises additional names; NULL if there are none */
    /* Adds the tensors, and returns config.json, or NULL if memory runs out. `size` is an element
     * of `sizes`, or NULL if m->name is an additional name. */
    json_t *(*make)(fv_synthetic *m, const void *size);
} fv_synthetic_list;
#define FV_SYNTHETIC_SIZES(array)                                                                  \
    .sizes = (array), .size = sizeof *(array), .count = sizeof(array) / sizeof *(array)

/* These functions return size `index` and its name. They return NULL after the last size, or if
 * `list` is NULL. */
const void *fv_synthetic_size(const fv_synthetic_list *list, size_t index);
const char *fv_synthetic_name(const fv_synthetic_list *list, size_t index);

/* Sets the prefix of the tensors that are added next: the root, followed by the text. */
void fv_synthetic_under(fv_synthetic *m, const char *format, ...) FV_PRINTF(2, 3);
/* Adds a tensor whose name is the prefix followed by `name`. A NULL name adds nothing, so that a
 * table of names need not have every tensor. Values are uniform in mean - spread ... mean + spread.
 */
void fv_synthetic_tensor(fv_synthetic *m, const char *name, uint32_t rank, const uint64_t *shape,
                         float mean, float spread);
void fv_synthetic_vector(fv_synthetic *m, const char *name, uint64_t n, float mean, float spread);
void fv_synthetic_table(fv_synthetic *m, const char *name, uint64_t rows, uint64_t cols,
                        float spread);
/* Adds stem + "weight" (rows, channels, size, size), or (rows, channels) if size is 1. */
void fv_synthetic_matrix(fv_synthetic *m, const char *stem, uint32_t rows, uint32_t channels,
                         uint32_t size, float gain);
/* Adds stem + "weight" and stem + "bias". */
void fv_synthetic_linear(fv_synthetic *m, const char *stem, uint32_t rows, uint32_t channels,
                         uint32_t size, float gain);
/* Adds stem + "weight" (channels, rows, size, size) of a transposed convolution. Each of its
 * outputs is a sum of `inputs` products. */
void fv_synthetic_deconv(fv_synthetic *m, const char *stem, uint32_t channels, uint32_t rows,
                         uint32_t size, uint32_t inputs);
/* Adds stem + "bias". */
void fv_synthetic_bias(fv_synthetic *m, const char *stem, uint32_t rows);
/* Adds stem + "weight" and stem + "bias" of a normalisation. */
void fv_synthetic_norm(fv_synthetic *m, const char *stem, uint32_t width);
/* Adds the "weight", "bias", "running_mean" and "running_var" of a batch normalisation, each after
 * the stem. */
void fv_synthetic_batchnorm(fv_synthetic *m, const char *stem, uint32_t width, float spread);
/* Returns the gain of layers whose output is added to the residual stream. `times` is the number of
 * additions in the model. */
float fv_synthetic_added(uint32_t times);

/* Returns four numbers as a list. */
json_t *fv_synthetic_four(const uint32_t n[4]);
/* Adds fields to a configuration, and returns it. If either is NULL or there is not enough memory,
 * releases both and returns NULL. */
json_t *fv_synthetic_join(json_t *config, json_t *more);

#endif
