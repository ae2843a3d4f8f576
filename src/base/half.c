/* half.c: converts arrays of floats from and to the types of the public interface. */
#include "base/half.h"

#include "base/abi.h"

fovea_status fovea_floats_encode(void *out, fovea_dtype dtype, const float *in, size_t n)
{
    FV_TRY(fv_dtype_known("floats", dtype));
    for (size_t i = 0; i < n; i++)
        fv_value_put(out, fv_type_of(dtype), i, in[i]);
    return FOVEA_OK;
}

fovea_status fovea_floats_decode(float *out, fovea_dtype dtype, const void *in, size_t n)
{
    FV_TRY(fv_dtype_known("floats", dtype));
    for (size_t i = 0; i < n; i++)
        out[i] = fv_value_get(in, fv_type_of(dtype), i);
    return FOVEA_OK;
}
