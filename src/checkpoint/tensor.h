/* tensor.h: one tensor of a checkpoint, whichever file stores it, and its values. */
#ifndef FOVEA_SRC_TENSOR_H
#define FOVEA_SRC_TENSOR_H

#include <stdbool.h>
#include <stdint.h>

/* Mapped data, or none: then values come from a generator keyed by (seed, element), so that a
 * synthetic model of any size takes no memory. */
typedef struct fv_tensor {
    const char *name;
    const char *plain; /* in a checkpoint: the name without the words of wrappers.h, or `name` */
    uint8_t dtype;     /* enum fv_file_type in safetensors.h */
    uint8_t rank;
    uint64_t shape[8];
    uint64_t elements;
    const void *data;
    const struct fv_blob *file; /* whose pages the data are, to be released once they are packed;
                                   NULL: they are memory */
    uint64_t seed;              /* synthetic: of this tensor */
    float mean, spread;         /* synthetic: values are mean + spread * (uniform in [-1, 1)) */
    uint32_t identity; /* synthetic, d: 1 is added on the diagonals of its blocks of d x d */
    uint32_t shard; /* 1 + the number of a file that is not open yet: all but the name is unknown */
} fv_tensor;

/* Elements [first, first + n) as float32. The tensor's type is a floating one (checked at load). */
void fv_tensor_read(const fv_tensor *t, uint64_t first, uint64_t n, float *out);

/* A tensor of floats in memory, which stay the caller's. */
fv_tensor fv_tensor_of_floats(const float *data, uint32_t rows, uint32_t cols);

#endif
