/* boxes.cl: what detectors choose: ROW_MAX, TOPK, PICK. */

/* A work-item has a row. */
kernel void row_max(FV_IN(0), FV_OUT(1), FV_CALL)
{
    const uint r = get_global_id(0), columns = dim.s1;
    global const FV_CELL(0) *in = FV_AT(0, min(r, rows - 1));
    float most = -INFINITY;
    for (uint c = 0; c < columns; c++) {
        const float x = FV_GET(0, in + c);
        most = x > most ? x : most; /* NaN is not */
    }
    if (r < rows)
        FV_PUT(1, FV_AT(1, r), most);
}

/* As fv_topk_before() of src/ops/ref/ref_topk.h. */
static inline uint before(float x, uint i, float y, uint k)
{
    const uint lost = isnan(x) ? 1 : 0, other = isnan(y) ? 1 : 0;
    if (lost != other)
        return other;
    return x > y || (!(x < y) && i < k);
}

/* A work-item counts the candidates before its own, which is that one's place. u.s1: there is a
 * table of their rows. */
kernel void topk(FV_IN(0), FV_OUT(1), FV_CALL)
{
    const uint me = get_global_id(0), count = u.s0;
    const uint mine = min(me, count - 1), own = u.s1 ? table[mine] : mine;
    const float x = FV_GET(0, FV_AT(0, own));
    uint rank = 0;
    for (uint k = 0; k < count; k++) {
        const uint row = u.s1 ? table[k] : k;
        rank += before(FV_GET(0, FV_AT(0, row)), row, x, own);
    }
    if (me >= count)
        rank = me;
    if (rank >= row0 && rank - row0 < rows)
        FV_PUT(1, FV_AT(1, rank - row0), me < count ? (float)own : -1.f);
}

/* A work-item has four columns of a row. */
kernel void pick(FV_IN(0), FV_IN(1), FV_OUT(2), FV_CALL)
{
    const uint runs = (dim.s1 + 3) / 4;
    const uint2 me = fv_spread(runs);
    if (me.x >= rows || me.y >= runs)
        return;
    const uint c = 4 * me.y, left = dim.s1 - c;
    uint from = row0 + me.x;
    if (FV_HAS1) {
        const float index = FV_GET(1, FV_AT(1, me.x));
        from = index >= 0.f && index < (float)dim.s2 ? (uint)index : 0xffffffffu;
    }
    float4 x = 0.f;
    if (from != 0xffffffffu)
        x = FV_GET_RUN(0, FV_AT(0, from) + c, left, 0.f);
    FV_PUT_RUN(2, FV_AT(2, me.x) + c, x, left);
}
