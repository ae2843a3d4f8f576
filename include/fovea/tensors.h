/* tensors.h: element types, conversion of 16-bit floats, and safetensors files. A part of fovea.h,
 * whose rules hold here. All functions are thread-safe.
 */
#ifndef FOVEA_TENSORS_H
#define FOVEA_TENSORS_H

#include <fovea/errors.h>

FOVEA_BEGIN_DECLS

typedef enum fovea_dtype {
    FOVEA_DTYPE_F32,
    FOVEA_DTYPE_F16,
    FOVEA_DTYPE_BF16,
    FOVEA_DTYPE_I8, /* of weights in memory only: whole numbers, each row with a scale of its own */
} fovea_dtype;

/* Converts n floats to `dtype`. Rounds to the nearest, ties to even; values beyond the range become
 * infinite. EINVAL for a type that is not of floats. */
FOVEA_API fovea_status fovea_floats_encode(void *out, fovea_dtype dtype, const float *in, size_t n);
/* Converts n values of `dtype` to floats, which is exact. EINVAL for a type that is not of floats.
 */
FOVEA_API fovea_status fovea_floats_decode(float *out, fovea_dtype dtype, const void *in, size_t n);

/* An opened safetensors file. */
typedef struct fovea_tensors fovea_tensors;

typedef struct fovea_tensor {
    const char *name;
    const char *dtype; /* as the file has it: "F32", "F16", "BF16", "I64", ... */
    uint32_t rank;
    uint64_t shape[8];
    uint64_t elements;
    const void *data;
    size_t size; /* bytes */
} fovea_tensor;

/* Maps and checks a safetensors file. EIO, EFORMAT. */
FOVEA_API fovea_status fovea_tensors_open(fovea_tensors **out, const char *path);
FOVEA_API void fovea_tensors_close(fovea_tensors *file);
/* Tensor `index` in file order, from 0; returns 0 past the end. Texts and data belong to the file.
 */
FOVEA_API int fovea_tensors_get(const fovea_tensors *file, size_t index, fovea_tensor *out);
/* The tensor of that name; returns 0 if there is none. Texts and data belong to the file. */
FOVEA_API int fovea_tensors_find(const fovea_tensors *file, const char *name, fovea_tensor *out);
/* Text of key `key` in __metadata__, or NULL. Belongs to the file. */
FOVEA_API const char *fovea_tensors_metadata(const fovea_tensors *file, const char *key);
/* Reads elements [first, first + n) as float32: of F32, F16, BF16, F64 and integers. ENOTSUP for
 * other types, EINVAL past the end. */
FOVEA_API fovea_status fovea_tensors_read(const fovea_tensor *tensor, uint64_t first, uint64_t n,
                                          float *out);
/* Writes n tensors (of each: name, dtype, rank, shape, data, size) and n_metadata pairs of key and
 * text to a temporary file, then renames it to `path`: on failure `path` is as it was. */
FOVEA_API fovea_status fovea_tensors_write(const char *path, const fovea_tensor *tensors, size_t n,
                                           const char *const (*metadata)[2], size_t n_metadata);

FOVEA_END_DECLS

#endif
