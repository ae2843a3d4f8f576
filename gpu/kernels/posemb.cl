/* posemb.cl: POSEMB: writes prefix rows, and adds the position table, which is resized to the grid
 * on the fly. A work-item computes four columns of a row.
 *
 * TAPS 1: the step's table has the number of taps of a column and of a row. Then for every grid
 * column the columns of the position table and their weights, and likewise for every grid row. */

FV_KERNEL void posemb(FV_IN(0), FV_IN(1), FV_IN(2), FV_OUT(3), FV_CALL)
{
    const uint columns = dim.s1, prefix = u.s0, grid = u.s1, runs = (columns + 3) / 4;
    const uint2 me = fv_spread(runs);
    if (me.x >= rows || me.y >= runs)
        return;
    const uint token = row0 + me.x, c = 4 * me.y, left = columns - c;
    float4 sum;
    if (FV_HAS1 && token < prefix)
        sum = FV_GET_RUN(1, base1 + at1.x + (size_t)token * columns + c, left, 0.f);
    else
        sum = FV_GET_RUN(0, FV_AT(0, me.x) + c, left, 0.f);
#if FV_HAS2
    if (token >= prefix) {
        global const FV_CELL(2) *positions = base2 + at2.x + c;
#if TAPS
        const uint taps_x = table[0], taps_y = table[1], height = (dim.s0 - prefix) / grid;
        global const uint *in_x = table + 2, *in_y = in_x + 2 * grid * taps_x;
        const uint x = (token - prefix) % grid * taps_x, y = (token - prefix) / grid * taps_y;
        for (uint ty = y; ty < y + taps_y; ty++)
            for (uint tx = x; tx < x + taps_x; tx++) {
                const float w =
                    as_float(in_y[height * taps_y + ty]) * as_float(in_x[grid * taps_x + tx]);
                if (w == 0.f)
                    continue;
                const size_t from = ((size_t)in_y[ty] * u.s2 + in_x[tx]) * columns;
                sum += w * FV_GET_RUN(2, positions + from, left, 0.f);
            }
#else
        sum += FV_GET_RUN(2, positions + (size_t)(token - prefix) * columns, left, 0.f);
#endif
    }
#endif
    FV_PUT_RUN(3, FV_AT(3, me.x) + c, sum, left);
}
