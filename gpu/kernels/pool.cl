/* pool.cl: pooling over all tokens: MEAN_REDUCE, MEAN_MERGE, MAP_REDUCE, MAP_MERGE. The rows of a
 * call are distributed over partial states; a work-group computes one of them.
 *
 * FV_LARGEST  MEAN: FV_FLAG_LARGEST
 * FV_D        MAP: width of a head
 */

/* Rows [x, y) of the call belong to part `part`. */
static inline uint2 part_rows(uint part, uint rows, uint groups)
{
    return (uint2)((uint)((ulong)part * rows / groups), (uint)((ulong)(part + 1) * rows / groups));
}

/* ---- mean, or largest: a work-item has a column ---- */

#ifdef FV_LARGEST
#define FV_NOTHING (-INFINITY)
#define FV_WITH(a, b) fmax(a, b)
#else
#define FV_NOTHING 0.f
#define FV_WITH(a, b) ((a) + (b))
#endif

#if FV_COMPILES(mean_reduce)
FV_KERNEL void mean_reduce(FV_IN(0), FV_OUT(1), FV_CALL)
{
    const uint c = get_group_id(0) * FV_GROUP + get_local_id(0), part = get_group_id(1);
    const uint skip = row0 < u.s0 ? u.s0 - row0 : 0;
    const uint2 range = part_rows(part, rows, groups);
    float sum = FV_NOTHING;
    if (c >= dim.s1)
        return;
    for (uint r = max(range.x, skip); r < range.y; r++)
        sum = FV_WITH(sum, FV_GET(0, FV_AT(0, r) + c));
    sum *= f.s0;
    FV_PUT(1, FV_AT(1, part) + c, first ? sum : FV_WITH(FV_GET(1, FV_AT(1, part) + c), sum));
}
#endif

#if FV_COMPILES(mean_merge)
FV_KERNEL void mean_merge(FV_IN(0), FV_OUT(1), FV_CALL)
{
    const uint c = get_group_id(0) * FV_GROUP + get_local_id(0);
    float sum = FV_NOTHING;
    if (c >= dim.s1)
        return;
    for (uint g = 0; g < dim.s2; g++)
        sum = FV_WITH(sum, FV_GET(0, base0 + at0.x + (size_t)g * dim.s1 + c));
    FV_PUT(1, FV_AT(1, 0) + c, sum);
}
#endif

/* ---- attention pooling: a work-group has a head ---- */

#ifdef FV_D
#define CHANNELS ((FV_D + FV_GROUP - 1) / FV_GROUP) /* of a work-item */

/* e^(m - top), the factor of a sum whose maximum was m. 0 for m = -INFINITY, but 1 if both are. */
static inline float faded(float m, float top)
{
    return m == top ? 1.f : exp(m - top);
}

#if FV_COMPILES(map_reduce)
FV_KERNEL void map_reduce(FV_IN(0), FV_IN(1), FV_IN(2), FV_OUT(3), FV_CALL)
{
    const uint me = get_local_id(0), part = get_group_id(0), head = get_group_id(1);
    const uint2 range = part_rows(part, rows, groups);
    global const FV_CELL(0) *q = base0 + at0.x + head * FV_D;
    global FV_CELL(3) *state = FV_AT(3, part) + head * (2 + FV_D);
    SHARED_VAR float weights[FV_GROUP], scratch[FV_GROUP];
    float top = -INFINITY, sum = 0.f, acc[CHANNELS];
    for (uint i = 0; i < CHANNELS; i++) {
        const uint c = me + i * FV_GROUP;
        acc[i] = !first && c < FV_D ? FV_GET(3, state + 2 + c) : 0.f;
    }
    if (!first) {
        top = FV_GET(3, state);
        sum = FV_GET(3, state + 1);
    }
    for (uint r0 = range.x; r0 < range.y; r0 += FV_GROUP) {
        const uint n = min(range.y - r0, (uint)FV_GROUP);
        global const FV_CELL(1) *k = FV_AT(1, r0 + min(me, n - 1)) + head * FV_D;
        float s = 0.f;
        for (uint i = 0; i < FV_D / 4; i++)
            s += dot(FV_GET4(0, q + 4 * i), FV_GET4(1, k + 4 * i));
        for (uint i = FV_D / 4 * 4; i < FV_D; i++)
            s += FV_GET(0, q + i) * FV_GET(1, k + i);
        s = me < n ? s * f.s0 : -INFINITY;
        const float high = fmax(top, fv_group_max(s, scratch)), fade = faded(top, high);
        const float p = me < n ? faded(s, high) : 0.f;
        sum = sum * fade + fv_group_sum(p, scratch);
        top = high;
        weights[me] = p;
        FV_BARRIER();
        for (uint i = 0; i < CHANNELS; i++) {
            const uint c = me + i * FV_GROUP;
            acc[i] *= fade;
            for (uint j = 0; c < FV_D && j < n; j++)
                acc[i] += weights[j] * FV_GET(2, FV_AT(2, r0 + j) + head * FV_D + c);
        }
    }
    /* A part without rows leaves the state unchanged. */
    if (range.x == range.y && !first)
        return;
    FV_STATE_BARRIER();
    for (uint i = 0; i < CHANNELS; i++) {
        const uint c = me + i * FV_GROUP;
        if (c < FV_D)
            FV_PUT(3, state + 2 + c, acc[i]);
    }
    if (me == 0) {
        FV_PUT(3, state, top);
        FV_PUT(3, state + 1, sum);
    }
}
#endif

#if FV_COMPILES(map_merge)
FV_KERNEL void map_merge(FV_IN(0), FV_OUT(1), FV_CALL)
{
    const uint head = get_group_id(0), parts = dim.s4;
    const size_t stride = get_num_groups(0) * (2 + FV_D);
    global const FV_CELL(0) *state = base0 + at0.x + head * (2 + FV_D);
    float top = -INFINITY, sum = 0.f;
    for (uint g = 0; g < parts; g++)
        top = fmax(top, FV_GET(0, state + g * stride));
    for (uint g = 0; g < parts; g++)
        sum += faded(FV_GET(0, state + g * stride), top) * FV_GET(0, state + g * stride + 1);
    for (uint c = get_local_id(0); c < FV_D; c += FV_GROUP) {
        float out = 0.f;
        for (uint g = 0; g < parts; g++)
            out +=
                faded(FV_GET(0, state + g * stride), top) * FV_GET(0, state + g * stride + 2 + c);
        FV_PUT(1, FV_AT(1, 0) + head * FV_D + c, out / sum);
    }
}
#endif
#endif
