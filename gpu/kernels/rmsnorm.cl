/* rmsnorm.cl: groups of channels divided by their root mean square, scaled, gated. */

#define FV_GATED(gate) (FV_FLAGS & FV_FLAG_SILU ? (gate) / (1.f + exp(-(gate))) : (gate))

/* A work-group has a group of channels of a row; a work-item, every FV_GROUPth run of four. */
FV_KERNEL void rmsnorm(FV_IN(0), FV_IN(1), FV_IN(2), FV_IN(3), FV_OUT(4), FV_CALL)
{
    SHARED_ROOM float room[FV_GROUP];
    const uint d = dim.s2, begin = 4 * get_local_id(0), step = 4 * FV_GROUP;
    const uint r = get_group_id(0), head = get_group_id(1);
    global const FV_CELL(0) *in = FV_AT(0, r) + head * d;
    global FV_CELL(4) *out = FV_AT(4, r) + head * d;
    float4 sum = 0.f;
    for (uint c = begin; c < d; c += step) {
        const float4 x = FV_GET_RUN(0, in + c, d - c, 0.f);
        sum += x * x;
    }
    const float square = fv_group_sum(sum.s0 + sum.s1 + (sum.s2 + sum.s3), room);
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

/* A work-item has a row, in runs of 16 channels of a group. */
FV_KERNEL void rmsnorm_row(FV_IN(0), FV_IN(1), FV_IN(2), FV_IN(3), FV_OUT(4), FV_CALL)
{
    const uint r = get_global_id(0), d = dim.s2, heads = dim.s1 / d, whole = d / 16 * 16;
    if (r >= rows)
        return;
    global const FV_CELL(1) *weight = base1 + at1.x;
    for (uint head = 0; head < heads; head++) {
        global const FV_CELL(0) *in = FV_AT(0, r) + head * d;
        global const FV_CELL(2) *gate = FV_AT(2, r) + head * d;
        global FV_CELL(4) *out = FV_AT(4, r) + head * d;
        float16 wide = 0.f;
        for (uint c = 0; c < whole; c += 16) {
            const float16 x = FV_GET16(0, in + c);
            wide += x * x;
        }
        const float8 eight = wide.lo + wide.hi;
        const float4 four = eight.lo + eight.hi;
        float sum = four.s0 + four.s1 + (four.s2 + four.s3);
        for (uint c = whole; c < d; c++) {
            const float x = FV_GET(0, in + c);
            sum += x * x;
        }
        const float scale = 1.f / sqrt(sum / (float)d + f.s0);
        const float of_head = FV_HAS3 ? FV_GET(3, FV_AT(3, r) + head) : 1.f;
        for (uint c = 0; c < whole; c += 16) {
            float16 x = FV_GET16(0, in + c) * scale * FV_GET16(1, weight + c);
            if (FV_HAS2) {
                const float16 factor = FV_GET16(2, gate + c);
                x *= FV_GATED(factor);
            }
            FV_PUT16(4, out + c, x * of_head);
        }
        for (uint c = whole; c < d; c++) {
            float x = FV_GET(0, in + c) * scale * FV_GET(1, weight + c);
            if (FV_HAS2) {
                const float factor = FV_GET(2, gate + c);
                x *= FV_GATED(factor);
            }
            FV_PUT(4, out + c, x * of_head);
        }
    }
}
