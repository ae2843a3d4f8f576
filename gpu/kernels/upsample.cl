/* upsample.cl: UPSAMPLE: resizes a grid of tokens. A work-item computes four columns of a row. The
 * kernel's name is one that OpenCL C does not reserve. */
#define uint32_t uint

#include "src/ops/upsample.h"

FV_KERNEL void resample(FV_IN(0), FV_IN(1), FV_OUT(2), FV_CALL)
{
    const uint runs = (dim.s1 + 3) / 4, width = u.s0, wide = u.s2;
    const uint2 me = fv_spread(runs);
    if (me.x >= rows || me.y >= runs)
        return;
    const uint c = 4 * me.y, left = dim.s1 - c, pixel = row0 + me.x;
    const fv_upsample_source x = fv_upsample_at(pixel % wide, wide, width, FV_FLAGS);
    const fv_upsample_source y = fv_upsample_at(pixel / wide, dim.s0 / wide, u.s1, FV_FLAGS);
    const size_t upper = (size_t)y.low * width, lower = (size_t)y.high * width;
    float4 up = FV_GET_RUN(0, FV_AT(0, upper + x.low) + c, left, 0.f);
    if (!(FV_FLAGS & FV_FLAG_NEAREST)) {
        const float4 first = FV_GET_RUN(0, FV_AT(0, lower + x.low) + c, left, 0.f);
        const float4 above = FV_GET_RUN(0, FV_AT(0, upper + x.high) + c, left, 0.f);
        const float4 below = FV_GET_RUN(0, FV_AT(0, lower + x.high) + c, left, 0.f);
        up += x.part * (above - up);
        up += y.part * (first + x.part * (below - first) - up);
    }
    if (FV_HAS1)
        up += FV_GET_RUN(1, FV_AT(1, me.x) + c, left, 0.f);
    FV_PUT_RUN(2, FV_AT(2, me.x) + c, up, left);
}
