/* half.c: arrays of floats to and from the types of the public interface. */
#include "base/half.h"

#include "base/abi.h"

static fovea_status check(fovea_dtype dtype)
{
    return (unsigned)dtype <= FOVEA_DTYPE_BF16
               ? FOVEA_OK
               : fv_fail(FOVEA_EINVAL, "floats of type %d; choose FOVEA_DTYPE_F32, F16 or BF16",
                         (int)dtype);
}

fovea_status fovea_floats_encode(void *out, fovea_dtype dtype, const float *in, size_t n)
{
    FV_TRY(check(dtype));
    for (size_t i = 0; i < n; i++)
        fv_value_put(out, fv_type_of(dtype), i, in[i]);
    return FOVEA_OK;
}

fovea_status fovea_floats_decode(float *out, fovea_dtype dtype, const void *in, size_t n)
{
    FV_TRY(check(dtype));
    for (size_t i = 0; i < n; i++)
        out[i] = fv_value_get(in, fv_type_of(dtype), i);
    return FOVEA_OK;
}
