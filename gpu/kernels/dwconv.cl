/* dwconv.cl: depthwise convolution over grids of tokens. SIZE: of the filters, of which the packed
 * weight has tap after tap, CHANNELS each, zeros after those that there are: neighbouring channels
 * have neighbouring numbers. LINES: the kernel for devices whose work-items run one after the
 * other.
 */
#define CHANNELS ((channels + 15) / 16 * 16)

/* Where the grid row `line`, counted through all grids, begins in operand 0, in rows. */
static inline size_t line_begin(uint line, uint width, uint2 ring)
{
    return (size_t)(ring.s0 ? (line + ring.s1) % ring.s0 : line) * width;
}

#if !LINES
/* A work-item has four channels of TILE tokens next to each other. */
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
    const bool apart = period < channels && period % 4 != 0; /* filters that are shared */
    float4 sum[TILE], bias = 0.f;
    if (FV_HAS2) {
        global const FV_CELL(2) *from = base2 + at2.x;
        bias = (float4)(FV_GET(2, from + filter.s0), FV_GET(2, from + filter.s1),
                        FV_GET(2, from + filter.s2), FV_GET(2, from + filter.s3));
    }
    FV_TIMES(t, TILE)
        sum[t] = bias;
    for (uint i = 0; i < SIZE; i++) {
        /* From SIZE / 2 above the grid and to its left on, to stay with whole numbers. */
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
            const float4 w = apart
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

#else
/* A work-item has 16 channels, or those that are left, of the tokens of a grid row. */
#define WIDE 16
FV_KERNEL void dwconv_line(FV_IN(0), FV_IN(1), FV_IN(2), FV_IN(3), FV_IN(4), FV_OUT(5), FV_CALL)
{
    const uint channels = dim.s1, height = dim.s3, width = u.s0, period = u.s1;
    const uint runs = (channels + WIDE - 1) / WIDE;
    const uint2 me = fv_spread(runs);
    const uint line = row0 / width + me.x;
    if (me.y >= runs || line > (row0 + rows - 1) / width)
        return;
    const uint c = WIDE * me.y, left = min(channels - c, (uint)WIDE), y = line % height;
    const uint left_end = line * width;
    const uint begin = max(left_end, row0), end = min(left_end + width, row0 + rows);
    const uint i0 = y < SIZE / 2 ? SIZE / 2 - y : 0, i1 = min(height + SIZE / 2 - y, (uint)SIZE);
    const bool apart = period < channels && period % WIDE != 0; /* filters that are shared */
    float16 bias = 0.f, w[SIZE * SIZE];
    for (uint k = 0; FV_HAS2 && k < left; k++)
        ((float *)&bias)[k] = FV_GET(2, base2 + at2.x + (c + k) % period);
    for (uint tap = 0; tap < SIZE * SIZE; tap++) {
        global const FV_CELL(1) *from = base1 + at1.x + tap * CHANNELS;
        if (!apart)
            w[tap] = FV_GET16(1, FV_ALIGNED(16, from + c % period));
        for (uint k = 0; apart && k < left; k++)
            ((float *)&w[tap])[k] = FV_GET(1, from + (c + k) % period);
    }
    for (uint token = begin; token < end; token++) {
        const uint x = token - left_end, r = token - row0;
        const uint j0 = x < SIZE / 2 ? SIZE / 2 - x : 0;
        const uint j1 = min(width + SIZE / 2 - x, (uint)SIZE);
        float16 sum = bias;
        if (left == WIDE) {
            for (uint i = i0; i < i1; i++) {
                global const FV_CELL(0) *from =
                    FV_AT(0, line_begin(line + i - SIZE / 2, width, ring) + x) + c;
                from -= (size_t)(SIZE / 2) * at0.y;
                for (uint j = j0; j < j1; j++)
                    sum += w[i * SIZE + j] * FV_GET16(0, from + (size_t)j * at0.y);
            }
            if (FV_HAS3)
                sum += FV_GET16(3, FV_AT(3, r) + c);
            if (FV_HAS4)
                sum *= FV_GET16(4, FV_AT(4, r) + c);
            FV_PUT16(5, FV_AT(5, r) + c, sum);
            continue;
        }
        for (uint k = 0; k < left; k++) {
            float one = ((float *)&sum)[k];
            for (uint i = i0; i < i1; i++)
                for (uint j = j0; j < j1; j++) {
                    const size_t from =
                        line_begin(line + i - SIZE / 2, width, ring) + (x + j - SIZE / 2);
                    one += ((float *)&w[i * SIZE + j])[k] * FV_GET(0, FV_AT(0, from) + c + k);
                }
            if (FV_HAS3)
                one += FV_GET(3, FV_AT(3, r) + c + k);
            if (FV_HAS4)
                one *= FV_GET(4, FV_AT(4, r) + c + k);
            FV_PUT(5, FV_AT(5, r) + c + k, one);
        }
    }
}
#endif
