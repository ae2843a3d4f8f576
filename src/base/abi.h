/* abi.h: converts types of the public interface to those of the library; copies structs between
 * callers and a library of another version.
 *
 * A struct begins with `struct_size`, its size when the caller was compiled. A new field must begin
 * after the old end of the struct, padding included, because older callers leave padding undefined.
 */
#ifndef FOVEA_SRC_ABI_H
#define FOVEA_SRC_ABI_H

#include <fovea/tensors.h>

#include "base/status.h"
#include "base/type.h"

/* Copies the options that the caller knows to `own`, which holds the defaults; if `caller` is NULL,
 * `own` keeps them. Returns FOVEA_EINVAL for a struct without a size (the message names INIT), and
 * for set options that this library does not know. */
#define FV_ABI_READ(own, caller, INIT)                                                             \
    ((void)((caller) == &(own)), fv_abi_read(&(own), sizeof(own), caller, #INIT))
/* Copies the results that the caller knows to its struct; does nothing if `caller` is NULL. Returns
 * FOVEA_EINVAL for a struct without a size (the message names INIT). A function that changes
 * anything must call FV_ABI_CHECK first. */
#define FV_ABI_WRITE(caller, own, INIT)                                                            \
    ((void)((caller) == &(own)), fv_abi_write(caller, &(own), sizeof(own), #INIT))
#define FV_ABI_CHECK(caller, INIT) fv_abi_check(caller, #INIT)

fovea_status fv_abi_read(void *own, size_t size, const void *caller, const char *init);
fovea_status fv_abi_write(void *caller, const void *own, size_t size, const char *init);
fovea_status fv_abi_check(const void *caller, const char *init);

/* Returns FOVEA_EINVAL if `dtype` is not a float type. */
fovea_status fv_dtype_known(const char *what, fovea_dtype dtype);

static inline enum fv_type fv_type_of(fovea_dtype dtype)
{
    static const enum fv_type types[] = {[FOVEA_DTYPE_F32] = FV_F32,
                                         [FOVEA_DTYPE_F16] = FV_F16,
                                         [FOVEA_DTYPE_BF16] = FV_BF16,
                                         [FOVEA_DTYPE_I8] = FV_I8};
    return types[dtype];
}
static inline fovea_dtype fv_dtype_of(enum fv_type type)
{
    switch (type) {
    case FV_F16:
        return FOVEA_DTYPE_F16;
    case FV_BF16:
        return FOVEA_DTYPE_BF16;
    case FV_I8:
        return FOVEA_DTYPE_I8;
    default:
        return FOVEA_DTYPE_F32;
    }
}

#endif
