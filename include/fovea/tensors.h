/* tensors.h: element types, conversion of 16-bit floats, and safetensors files. This header is part
 * of fovea.h, whose rules apply here. All functions are thread-safe. */
#ifndef FOVEA_TENSORS_H
#define FOVEA_TENSORS_H

#include <fovea/errors.h>

FOVEA_BEGIN_DECLS

typedef enum fovea_dtype {
    FOVEA_DTYPE_F32,
    FOVEA_DTYPE_F16,
    FOVEA_DTYPE_BF16,
    FOVEA_DTYPE_I8, /* for weights in memory: 8-bit integers with a float32 scale for each row */
} fovea_dtype;

/* Converts n floats to `dtype`, rounding to nearest, ties to even. Values beyond the range become
 * infinite. Returns EINVAL for a type that is not floating-point. */
FOVEA_API fovea_status fovea_floats_encode(void *out, fovea_dtype dtype, const float *in, size_t n);
/* Converts n values of `dtype` to floats, exactly. Returns EINVAL for a type that is not
 * floating-point. */
FOVEA_API fovea_status fovea_floats_decode(float *out, fovea_dtype dtype, const void *in, size_t n);

/* An opened safetensors file. */
typedef struct fovea_tensors fovea_tensors;

typedef struct fovea_tensor {
    const char *name;
    const char *dtype; /* as in the file: "F32", "F16", "BF16", "I64", ... */
    uint32_t rank;     /* number of dimensions */
    uint64_t shape[8]; /* `rank` dimensions, the slowest first */
    uint64_t elements; /* product of the shape */
    const void *data;
    size_t size; /* bytes of `data` */
} fovea_tensor;

/* Maps a safetensors file and checks its header. Returns EIO if the file cannot be read, or EFORMAT
 * if the header is malformed. */
FOVEA_API fovea_status fovea_tensors_open(fovea_tensors **out, const char *path);
FOVEA_API void fovea_tensors_close(fovea_tensors *file);
/* Describes tensor `index`, from 0, in the order of the file. Returns nonzero, or 0 past the end.
 * The strings and the data belong to the file. */
FOVEA_API int fovea_tensors_get(const fovea_tensors *file, size_t index, fovea_tensor *out);
/* Describes the tensor with this name. Returns nonzero, or 0 if there is no such tensor. The
 * strings and the data belong to the file. */
FOVEA_API int fovea_tensors_find(const fovea_tensors *file, const char *name, fovea_tensor *out);
/* Returns the value of `key` in the file's __metadata__, or NULL. The string belongs to the file.
 */
FOVEA_API const char *fovea_tensors_metadata(const fovea_tensors *file, const char *key);
/* Converts elements [first, first + n) to float32 and writes them to `out`. Supports F32, F16,
 * BF16, F64 and integers. Returns ENOTSUP for another type, or EINVAL for elements past the end. */
FOVEA_API fovea_status fovea_tensors_read(const fovea_tensor *tensor, uint64_t first, uint64_t n,
                                          float *out);
/* Writes a safetensors file with n tensors, of which name, dtype, rank, shape, data and size are
 * read, and with n_metadata pairs of key and value in __metadata__. The file is written under a
 * temporary name and then renamed to `path`: after a failure, `path` is unchanged. Returns EINVAL
 * for invalid tensors, or EIO if the file cannot be written. */
FOVEA_API fovea_status fovea_tensors_write(const char *path, const fovea_tensor *tensors, size_t n,
                                           const char *const (*metadata)[2], size_t n_metadata);

FOVEA_END_DECLS

#endif
