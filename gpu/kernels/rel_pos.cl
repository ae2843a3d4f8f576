/* rel_pos.cl: REL_POS. A work-item computes four positions of a row and a head. Of each head, the
 * last quad of grid rows may be incomplete, and so may the last quad of grid columns. */

FV_KERNEL void rel_pos(FV_IN(0), FV_IN(1), FV_IN(2), FV_OUT(3), FV_CALL)
{
    const uint d = dim.s1, height = dim.s2, width = dim.s3, head = get_group_id(2);
    const uint downs = (height + 3) / 4, runs = downs + (width + 3) / 4;
    const uint2 me = fv_spread(runs);
    if (me.x >= rows || me.y >= runs)
        return;
    const uint at = row0 + me.x, right = me.y >= downs;
    const uint n = right ? width : height, from = 4 * (me.y - right * downs);
    const uint own = right ? at % width : at / width % height;
    const uint column = n - 1 - own + from, left = min(n - from, 4u);
    global const FV_CELL(0) *q = FV_AT(0, me.x) + head * d;
    float4 sum = 0.f;
    for (uint k = 0; k < d; k++) {
        const float4 positions = right ? FV_GET_RUN(2, FV_AT(2, k) + column, (int)left, 0.f)
                                       : FV_GET_RUN(1, FV_AT(1, k) + column, (int)left, 0.f);
        sum += FV_GET(0, q + k) * positions;
    }
    FV_PUT_RUN(3, FV_AT(3, me.x) + head * (height + width) + right * height + from, sum, left);
}
