/* tensor.h: one tensor of a checkpoint and its values, whichever file stores it. */
#ifndef FOVEA_SRC_TENSOR_H
#define FOVEA_SRC_TENSOR_H

#include <stdbool.h>
#include <stdint.h>

/* A tensor with data in a mapped file or in memory, or without data. Without data, a generator
 * computes each value from (seed, element), so that a synthetic model of any size needs no memory.
 */
typedef struct fv_tensor {
    const char *name;
    const char *plain; /* in a checkpoint: the name without the components that wrappers.h removes,
                          or `name` */
    uint8_t dtype;     /* enum fv_file_type in safetensors.h */
    uint8_t rank;
    uint64_t shape[8];
    uint64_t elements;
    const void *data;
    const struct fv_blob *file; /* the mapped file that contains the data, whose pages are
                                   released after packing; NULL: the data is in memory */
    uint64_t seed;              /* synthetic: seed of this tensor */
    float mean, spread;         /* synthetic: values are mean + spread * (uniform in [-1, 1)) */
    uint32_t identity; /* synthetic: if d > 0, 1 is added to the diagonal of each d x d block of
                          elements */
    uint32_t shard;    /* 1 + the number of its shard, if that is not open yet; then only the name
                          is known */
} fv_tensor;

/* Reads elements [first, first + n) as float32. The tensor's type is floating-point, which loading
 * has checked. */
void fv_tensor_read(const fv_tensor *t, uint64_t first, uint64_t n, float *out);

/* Makes a tensor of floats in memory, which stay the caller's. */
fv_tensor fv_tensor_of_floats(const float *data, uint32_t rows, uint32_t cols);

#endif
