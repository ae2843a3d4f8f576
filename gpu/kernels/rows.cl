/* rows.cl: moves rows, resizes them, rotates them or changes their type: TAKE, CONVERT (and COPY,
 * which is CONVERT to the same type), GATHER, PIXEL_SHUFFLE, LERP, ROPE. A work-item computes four
 * columns of a row. */

#define FV_GATHER_NONE 0xffffffffu /* src/ops/op.h */

#if FV_COMPILES(take)
FV_KERNEL void take(FV_IN(0), FV_OUT(1), FV_CALL)
{
    const uint runs = (dim.s1 + 3) / 4;
    const uint2 me = fv_spread(runs);
    if (me.x >= rows || me.y >= runs)
        return;
    const uint c = 4 * me.y, left = dim.s1 - c;
    global const FV_CELL(0) *in = FV_AT(0, (size_t)u.s0 + row0 + me.x) + c;
    FV_PUT_RUN(1, FV_AT(1, me.x) + c, FV_GET_RUN(0, in, left, 0.f), left);
}
#endif

#if FV_COMPILES(convert)
FV_KERNEL void convert(FV_IN(0), FV_OUT(1), FV_CALL)
{
    const uint runs = (dim.s1 + 3) / 4;
    const uint2 me = fv_spread(runs);
    if (me.x >= rows || me.y >= runs)
        return;
    const uint c = 4 * me.y, left = dim.s1 - c;
    FV_PUT_RUN(1, FV_AT(1, me.x) + c, FV_GET_RUN(0, FV_AT(0, me.x) + c, left, 0.f), left);
}
#endif

#if FV_COMPILES(gather)
/* The third dimension counts parts. The table is the op's. */
FV_KERNEL void gather(FV_IN(0), FV_IN(1), FV_OUT(2), FV_CALL)
{
    const uint columns = dim.s1, runs = (columns + 3) / 4, parts = dim.s2, part = get_group_id(2);
    const uint2 me = fv_spread(runs);
    if (me.x >= rows || me.y >= runs)
        return;
    const uint c = 4 * me.y, left = columns - c, at = part * columns + c;
    const uint from = table[((size_t)row0 + me.x) * parts + part];
    float4 x = 0.f;
    if (from != FV_GATHER_NONE)
        x = FV_GET_RUN(0, FV_AT(0, from) + c, left, 0.f);
    if (FV_HAS1)
        x += FV_GET_RUN(1, FV_AT(1, me.x) + at, left, 0.f);
    FV_PUT_RUN(2, FV_AT(2, me.x) + at, x, left);
}
#endif

#if FV_COMPILES(pixel_shuffle)
FV_KERNEL void pixel_shuffle(FV_IN(0), FV_OUT(1), FV_CALL)
{
    const uint runs = (dim.s1 + 3) / 4, s = dim.s2;
    const uint2 me = fv_spread(runs);
    if (me.x >= rows || me.y >= runs)
        return;
    const uint c = 4 * me.y, left = dim.s1 - c, pixel = row0 + me.x;
    const uint y = pixel / u.s1, x = pixel % u.s1, i = y % s, j = x % s;
    const size_t from = (size_t)(y / s + i * u.s2) * u.s0 + x / s + j * u.s2;
    global const FV_CELL(0) *in = FV_AT(0, from) + (i * s + j) * dim.s1 + c;
    FV_PUT_RUN(1, FV_AT(1, me.x) + c, FV_GET_RUN(0, in, left, 0.f), left);
}
#endif

#if FV_COMPILES(lerp)
FV_KERNEL void lerp(FV_IN(0), FV_OUT(1), FV_CALL)
{
    const uint runs = (dim.s1 + 3) / 4;
    const uint2 me = fv_spread(runs);
    if (me.x >= rows || me.y >= runs)
        return;
    const uint c = 4 * me.y, left = dim.s1 - c, last = dim.s2 - 1;
    /* The coordinate plus 1/2, in units of 1 / (2 rows); a float does not have enough digits. */
    const ulong unit = 2 * (ulong)dim.s0, at = (2 * ((ulong)row0 + me.x) + 1) * dim.s2;
    const ulong from = at > dim.s0 ? at - dim.s0 : 0;
    const uint low = (uint)min(from / unit, (ulong)last), high = min(low + 1, last);
    const float part = (float)((uint)(((from % unit << 24) + unit / 2) / unit)) * 0x1p-24f;
    const float4 a = FV_GET_RUN(0, FV_AT(0, low) + c, left, 0.f);
    const float4 b = FV_GET_RUN(0, FV_AT(0, high) + c, left, 0.f);
    FV_PUT_RUN(1, FV_AT(1, me.x) + c, a + part * (b - a), left);
}
#endif

#if FV_COMPILES(rope)
/* Two pairs of channels. */
FV_KERNEL void rope(FV_IN(0), FV_IN(1), FV_IN(2), FV_OUT(3), FV_CALL)
{
    const uint runs = (dim.s1 + 3) / 4, d = dim.s2, grid = u.s0;
    const uint2 me = fv_spread(runs);
    if (me.x >= rows || me.y >= runs)
        return;
    const uint c = 4 * me.y, left = dim.s1 - c, token = u.s1 ? me.x : row0 + me.x;
    const uint split = grid ? d / 2 : d, y = grid ? token / grid : token;
    float cosine[4] = {0.f, 0.f, 0.f, 0.f}, sine[4] = {0.f, 0.f, 0.f, 0.f};
    for (uint i = 0; i < min(left, 4u); i += 2) {
        const uint channel = (c + i) % d, late = channel >= split;
        const uint row = late ? token % grid : y, at = channel - late * split;
        for (uint k = 0; k < 2; k++) {
            cosine[i + k] = FV_GET(1, FV_AT(1, row) + at + k);
            sine[i + k] = FV_GET(2, FV_AT(2, row) + at + k);
        }
    }
    const float4 x = FV_GET_RUN(0, FV_AT(0, me.x) + c, left, 0.f);
    const float4 turned = (float4)(-x.s1, x.s0, -x.s3, x.s2);
    const float4 a = x * (float4)(cosine[0], cosine[1], cosine[2], cosine[3]);
    const float4 b = turned * (float4)(sine[0], sine[1], sine[2], sine[3]);
    FV_PUT_RUN(3, FV_AT(3, me.x) + c, a + b, left);
}
#endif
