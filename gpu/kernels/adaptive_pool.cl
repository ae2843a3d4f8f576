/* adaptive_pool.cl: ADAPTIVE_POOL: means or maxima over areas of a grid. A work-item has four
 * channels of an output pixel.
 *
 * FV_LARGEST  FV_FLAG_LARGEST
 */

FV_KERNEL void adaptive_pool(FV_IN(0), FV_OUT(1), FV_CALL)
{
    const uint runs = (dim.s1 + 3) / 4, width = dim.s2, columns = dim.s4;
    const uint2 me = fv_spread(runs);
    if (me.x >= rows || me.y >= runs)
        return;
    const uint c = 4 * me.y, left = dim.s1 - c, row = row0 + me.x;
    const ulong lines = dim.s0 / columns, y = row / columns, x = row % columns;
    const uint y0 = (uint)(y * dim.s3 / lines), x0 = (uint)(x * width / columns);
    const uint y1 = (uint)(((y + 1) * dim.s3 + lines - 1) / lines);
    const uint x1 = (uint)(((x + 1) * width + columns - 1) / columns);
#ifdef FV_LARGEST
    float4 sum = -INFINITY;
#else
    float4 sum = 0.f;
#endif
    for (uint i = y0; i < y1; i++) {
        for (uint k = x0; k < x1; k++) {
            global const FV_CELL(0) *in = FV_AT(0, (size_t)i * width + k) + c;
#ifdef FV_LARGEST
            sum = fmax(sum, FV_GET_RUN(0, in, left, 0.f));
#else
            sum += FV_GET_RUN(0, in, left, 0.f);
#endif
        }
    }
#ifndef FV_LARGEST
    sum /= (float)((y1 - y0) * (x1 - x0));
#endif
    FV_PUT_RUN(1, FV_AT(1, me.x) + c, sum, left);
}
