/* rmsnorm.cl: divides groups of channels by their root mean square, then scales and gates them. */

#define FV_GATED(gate) (FV_FLAGS & FV_FLAG_SILU ? (gate) / (1.f + exp(-(gate))) : (gate))

/* A work-group normalises a group of channels of a row; a work-item has every FV_GROUPth run of
 * four. */
FV_KERNEL void rmsnorm(FV_IN(0), FV_IN(1), FV_IN(2), FV_IN(3), FV_OUT(4), FV_CALL)
{
    SHARED_VAR float scratch[FV_GROUP];
    const uint d = dim.s2, begin = 4 * get_local_id(0), step = 4 * FV_GROUP;
    const uint r = get_group_id(0), head = get_group_id(1);
    global const FV_CELL(0) *in = FV_AT(0, r) + head * d;
    global FV_CELL(4) *out = FV_AT(4, r) + head * d;
    float4 sum = 0.f;
    for (uint c = begin; c < d; c += step) {
        const float4 x = FV_GET_RUN(0, in + c, d - c, 0.f);
        sum += x * x;
    }
    const float square = fv_group_sum(sum.s0 + sum.s1 + (sum.s2 + sum.s3), scratch);
    const float scale = 1.f / sqrt(square / (float)d + f.s0);
    const float of_head = FV_HAS3 ? FV_GET(3, FV_AT(3, r) + head) : 1.f;
    for (uint c = begin; c < d; c += step) {
        const uint left = d - c;
        float4 x = FV_GET_RUN(0, in + c, left, 0.f) * scale;
        x *= FV_GET_RUN(1, base1 + at1.x + c, left, 0.f);
        if (FV_HAS2) {
            const float4 gate = FV_GET_RUN(2, FV_AT(2, r) + head * d + c, left, 0.f);
            x *= FV_GATED(gate);
        }
        FV_PUT_RUN(4, out + c, x * of_head, left);
    }
}
