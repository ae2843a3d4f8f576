/* abi.c: copies structs between the library and callers that were compiled with fewer, or more,
 * fields. */
#include "base/abi.h"

#include <string.h>

#define LARGEST 4096 /* bytes; a larger struct_size means that the struct was not initialised */

static size_t size_of(const void *caller)
{
    size_t size;
    memcpy(&size, caller, sizeof size);
    return size;
}

static size_t common(const void *caller, size_t size)
{
    return size_of(caller) < size ? size_of(caller) : size;
}

fovea_status fv_abi_check(const void *caller, const char *init)
{
    if (caller && (size_of(caller) < sizeof(size_t) || size_of(caller) > LARGEST))
        return fv_fail(FOVEA_EINVAL, "struct_size is %zu; initialise the struct with %s",
                       size_of(caller), init);
    return FOVEA_OK;
}

fovea_status fv_dtype_known(const char *what, fovea_dtype dtype)
{
    return (unsigned)dtype <= FOVEA_DTYPE_BF16
               ? FOVEA_OK
               : fv_fail(FOVEA_EINVAL,
                         "%s has type %d, which is unknown; choose FOVEA_DTYPE_F32, F16 or BF16",
                         what, (int)dtype);
}

fovea_status fv_abi_read(void *own, size_t size, const void *caller, const char *init)
{
    FV_TRY(fv_abi_check(caller, init));
    if (!caller)
        return FOVEA_OK;
    for (size_t i = size; i < size_of(caller); i++)
        if (((const char *)caller)[i])
            return fv_fail(
                FOVEA_EINVAL,
                "the options have %zu bytes and were initialised with %s, but this library knows "
                "only %zu bytes; set the newer fields to 0 or use a newer library",
                size_of(caller), init, size);
    memcpy((char *)own + sizeof(size_t), (const char *)caller + sizeof(size_t),
           common(caller, size) - sizeof(size_t));
    return FOVEA_OK;
}

fovea_status fv_abi_write(void *caller, const void *own, size_t size, const char *init)
{
    FV_TRY(fv_abi_check(caller, init));
    if (caller)
        memcpy((char *)caller + sizeof(size_t), (const char *)own + sizeof(size_t),
               common(caller, size) - sizeof(size_t));
    return FOVEA_OK;
}
