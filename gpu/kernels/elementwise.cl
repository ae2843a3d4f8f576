/* elementwise.cl: ops on single elements: MUL, ACT, ADD. A work-item computes four columns of a
 * row. */

#include "gpu/kernels/activation.cl"

#if FV_COMPILES(mul)
FV_KERNEL void mul(FV_IN(0), FV_IN(1), FV_OUT(2), FV_CALL)
{
    const uint runs = (dim.s1 + 3) / 4;
    const uint2 me = fv_spread(runs);
    if (me.x >= rows || me.y >= runs)
        return;
    const uint c = 4 * me.y, left = dim.s1 - c;
    const float4 a = FV_GET_RUN(0, FV_AT(0, me.x) + c, left, 0.f);
    const float4 b = FV_GET_RUN(1, FV_AT(1, me.x) + c, left, 0.f);
    const float4 factor = FV_FLAGS & FV_FLAG_SILU ? b / (1.f + exp(-b)) : b;
    FV_PUT_RUN(2, FV_AT(2, me.x) + c, a * factor, left);
}
#endif

#if FV_COMPILES(act)
FV_KERNEL void act(FV_IN(0), FV_OUT(1), FV_CALL)
{
    const uint runs = (dim.s1 + 3) / 4;
    const uint2 me = fv_spread(runs);
    if (me.x >= rows || me.y >= runs)
        return;
    const uint c = 4 * me.y, left = dim.s1 - c;
    const float4 x = FV_GET_RUN(0, FV_AT(0, me.x) + c, left, 0.f);
#if FV_EPI & FV_EPI_SWIGLU
    const float4 y = FV_SILU(x) * FV_GET_RUN(0, FV_AT(0, me.x) + dim.s1 + c, left, 0.f);
#else
    const float4 y = FV_ACT(4, x);
#endif
    FV_PUT_RUN(1, FV_AT(1, me.x) + c, y, left);
}
#endif

#if FV_COMPILES(add)
FV_KERNEL void add(FV_IN(0), FV_IN(1), FV_IN(2), FV_OUT(3), FV_CALL)
{
    const uint runs = (dim.s1 + 3) / 4;
    const uint2 me = fv_spread(runs);
    if (me.x >= rows || me.y >= runs)
        return;
    const uint c = 4 * me.y, left = dim.s1 - c;
    float4 x = FV_GET_RUN(0, FV_AT(0, me.x) + c, left, 0.f);
    if (FV_HAS1)
        x *= FV_GET_RUN(1, base1 + at1.x + c, left, 0.f);
    if (FV_HAS2)
        x += FV_GET_RUN(2, FV_AT(2, me.x) + c, left, 0.f);
    FV_PUT_RUN(3, FV_AT(3, me.x) + c, x, left);
}
#endif
