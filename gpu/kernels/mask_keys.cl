/* mask_keys.cl: MASK_KEYS. A work-item computes four keys of a query; the third dimension counts
 * heads. */

#define FV_MASK_HIDDEN -8192.f /* src/ops/op.h */

FV_KERNEL void mask_keys(FV_IN(0), FV_IN(1), FV_OUT(2), FV_CALL)
{
    const uint before = dim.s2, end = before + dim.s1, columns = end + 1, runs = (columns + 3) / 4;
    const uint2 me = fv_spread(runs);
    if (me.x >= rows || me.y >= runs)
        return;
    const uint c = 4 * me.y;
    float added[4], most = 0.f;
    if (FV_HAS1)
        most = FV_GET(1, FV_AT(1, me.x));
    for (uint i = 0; i < 4; i++) {
        const uint at = c + i, inside = at >= before && at < end;
        const float x = FV_GET(0, FV_AT(0, me.x) + (inside ? at - before : 0));
        const uint hidden = FV_HAS1 ? x < 0.f && most >= 0.f : !(x > 0.f);
        added[i] = inside && hidden ? FV_MASK_HIDDEN : 0.f;
    }
    FV_PUT_RUN(2, FV_AT(2, me.x) + get_group_id(2) * columns + c,
               (float4)(added[0], added[1], added[2], added[3]), columns - c);
}
