/* short_conv.cl: SHORT_CONV: causal depthwise convolution over rows, with a state. SIZE: length of
 * the filters. */

#define SEGMENT 16 /* rows per work-item; at least as many as the state has */

/* Four channels, from `c` on, of row r of x; rows before row 0 are in the state. */
#define INPUT(r)                                                                                   \
    ((r) < 0 ? FV_GET_RUN(3, base3 + at3.x + (size_t)((r) + SIZE - 1) * channels + c, left, 0.f)   \
             : FV_GET_RUN(0, FV_AT(0, r) + c, left, 0.f))

/* A work-item computes four channels of SEGMENT rows. Only the first segment reads the state, and
 * writes the new one. */
FV_KERNEL void short_conv(FV_IN(0), FV_IN(1), FV_IN(2), FV_OUT(3), FV_OUT(4), FV_CALL)
{
    const uint channels = dim.s1, runs = (channels + 3) / 4;
    const uint2 me = fv_spread(runs);
    const uint begin = me.x * SEGMENT, end = min(begin + SEGMENT, rows);
    if (begin >= rows || me.y >= runs)
        return;
    const uint c = 4 * me.y, left = channels - c;
    const uint4 filter = min((uint4)(c, c + 1, c + 2, c + 3), (uint4)(channels - 1)) * SIZE;
    float4 w[SIZE], x[SIZE];
    for (uint j = 0; j < SIZE; j++) {
        global const FV_CELL(1) *tap = base1 + at1.x + j;
        w[j] = (float4)(FV_GET(1, tap + filter.s0), FV_GET(1, tap + filter.s1),
                        FV_GET(1, tap + filter.s2), FV_GET(1, tap + filter.s3));
    }
    for (uint j = 0; j < SIZE - 1; j++) {
        const int r = (int)(begin + j) - (SIZE - 1);
        x[j] = INPUT(r);
    }
    float4 bias = 0.f;
    if (FV_HAS2)
        bias = FV_GET_RUN(2, base2 + at2.x + c, left, 0.f);
    for (uint r = begin; r < end; r++) {
        x[SIZE - 1] = FV_GET_RUN(0, FV_AT(0, r) + c, left, 0.f);
        float4 y = bias;
        for (uint j = 0; j < SIZE; j++)
            y += w[j] * x[j];
        if (FV_FLAGS & FV_FLAG_SILU)
            y = y / (1.f + exp(-y));
        FV_PUT_RUN(4, FV_AT(4, r) + c, y, left);
        for (uint j = 0; j < SIZE - 1; j++)
            x[j] = x[j + 1];
    }
    for (uint j = 0; begin == 0 && j < SIZE - 1; j++) {
        const int r = (int)(rows + j) - (SIZE - 1);
        const float4 kept = INPUT(r);
        FV_PUT_RUN(3, base3 + at3.x + (size_t)j * channels + c, kept, left);
    }
}
