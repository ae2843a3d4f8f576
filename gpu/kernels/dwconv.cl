/* dwconv.cl: depthwise convolution over grids of tokens. SIZE: the filters' side. The packed weight
 * has tap after tap, each with CHANNELS numbers, zeros beyond the channels that exist. So
 * neighbouring channels read neighbouring numbers. */
#define CHANNELS ((channels + 15) / 16 * 16)

/* The row of operand 0 at which grid row `line` begins; grid rows are counted through all grids. */
static inline size_t line_begin(uint line, uint width, uint2 ring)
{
    return (size_t)(ring.s0 ? (line + ring.s1) % ring.s0 : line) * width;
}

/* A work-item computes four channels of TILE tokens that are next to each other. */
#define TILE 4
FV_KERNEL void dwconv(FV_IN(0), FV_IN(1), FV_IN(2), FV_IN(3), FV_IN(4), FV_OUT(5), FV_CALL)
{
    const uint channels = dim.s1, height = dim.s3, width = u.s0, period = u.s1;
    const uint tiles = (width + TILE - 1) / TILE, runs = (channels + 3) / 4;
    const uint2 me = fv_spread(runs);
    const uint line = row0 / width + me.x / tiles, x0 = me.x % tiles * TILE;
    if (me.y >= runs || line > (row0 + rows - 1) / width)
        return;
    const uint c = 4 * me.y, left = channels - c, y = line % height;
    const uint4 filter = min((uint4)(c, c + 1, c + 2, c + 3), (uint4)(channels - 1)) % period;
    const bool gathered = period < channels && period % 4 != 0; /* filters that are shared */
    float4 sum[TILE], bias = 0.f;
    if (FV_HAS2) {
        global const FV_CELL(2) *from = base2 + at2.x;
        bias = (float4)(FV_GET(2, from + filter.s0), FV_GET(2, from + filter.s1),
                        FV_GET(2, from + filter.s2), FV_GET(2, from + filter.s3));
    }
    FV_TIMES(t, TILE)
        sum[t] = bias;
    for (uint i = 0; i < SIZE; i++) {
        /* Counted from SIZE / 2 rows above the grid and columns to its left, so that numbers stay
         * unsigned. */
        if (y + i < SIZE / 2 || y + i - SIZE / 2 >= height)
            continue;
        global const FV_CELL(0) *from = FV_AT(0, line_begin(line + i - SIZE / 2, width, ring)) + c;
        float4 in[TILE + SIZE - 1];
        FV_TIMES(t, TILE + SIZE - 1) {
            const uint x = x0 + t;
            in[t] = 0.f;
            if (x >= SIZE / 2 && x - SIZE / 2 < width)
                in[t] = FV_GET_RUN(0, from + (size_t)(x - SIZE / 2) * at0.y, left, 0.f);
        }
        FV_TIMES(j, SIZE) {
            global const FV_CELL(1) *tap = base1 + at1.x + (i * SIZE + j) * CHANNELS;
            const float4 w = gathered
                                 ? (float4)(FV_GET(1, tap + filter.s0), FV_GET(1, tap + filter.s1),
                                            FV_GET(1, tap + filter.s2), FV_GET(1, tap + filter.s3))
                                 : FV_GET4(1, FV_ALIGNED(4, tap + filter.s0));
            FV_TIMES(t, TILE)
                sum[t] += w * in[t + j];
        }
    }
    FV_TIMES(t, TILE) {
        const uint token = line * width + x0 + t, r = token - row0;
        if (x0 + t >= width || token < row0 || r >= rows)
            continue;
        if (FV_HAS3)
            sum[t] += FV_GET_RUN(3, FV_AT(3, r) + c, left, 0.f);
        if (FV_HAS4)
            sum[t] *= FV_GET_RUN(4, FV_AT(4, r) + c, left, 0.f);
        FV_PUT_RUN(5, FV_AT(5, r) + c, sum[t], left);
    }
}
