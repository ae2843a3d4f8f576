/* gates.cl: GATES: the softmax of each row, which has one value per head, times f.s0. A work-item
 * computes a row. */

FV_KERNEL void gates(FV_IN(0), FV_OUT(1), FV_CALL)
{
    const uint r = get_global_id(0);
    if (r >= rows)
        return;
    global const FV_CELL(0) *x = FV_AT(0, r);
    global FV_CELL(1) *y = FV_AT(1, r);
    float top = -INFINITY, sum = 0.f;
    for (uint i = 0; i < dim.s1; i++) {
        const float value = FV_GET(0, x + i);
        top = value > top ? value : top;
    }
    for (uint i = 0; i < dim.s1; i++)
        sum += exp(FV_GET(0, x + i) - top);
    /* y may be x, since each value is read before it is written. */
    for (uint i = 0; i < dim.s1; i++)
        FV_PUT(1, y + i, exp(FV_GET(0, x + i) - top) / sum * f.s0);
}
