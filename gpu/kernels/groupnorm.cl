/* groupnorm.cl: GROUPNORM_REDUCE, GROUPNORM_MERGE, GROUPNORM: normalises channels over a grid, in
 * groups of channels. The rows of a call are distributed over partial states. */

#include "gpu/kernels/activation.cl"

/* Rows whose moments are computed and merged at a time. */
#define RUN 64

/* Mean and variance of some rows, and their share of all rows. */
typedef struct moments {
    float mean, var, share;
} moments;

/* Merges two moments, at least one of which has rows. */
static inline moments merged(moments a, moments b)
{
    const float all = a.share + b.share, f = b.share / all, delta = b.mean - a.mean;
    const float step = delta * f;
    moments m;
    m.mean = a.mean + step;
    m.var = a.var * (1.f - f) + b.var * f + step * (1.f - f) * delta;
    m.share = all;
    return m;
}

#if FV_COMPILES(groupnorm_reduce)
/* A work-item reduces a channel. */
FV_KERNEL void groupnorm_reduce(FV_IN(0), FV_OUT(1), FV_CALL)
{
    const uint c = get_group_id(0) * FV_GROUP + get_local_id(0), part = get_group_id(1);
    const uint begin = (uint)((ulong)part * rows / groups);
    const uint end = (uint)((ulong)(part + 1) * rows / groups);
    global FV_CELL(1) *out = FV_AT(1, part) + c;
    moments all;
    all.mean = all.var = all.share = 0.f;
    if (c >= dim.s1)
        return;
    if (!first) {
        all.mean = FV_GET(1, out);
        all.var = FV_GET(1, out + dim.s1);
        all.share = FV_GET(1, out + 2 * dim.s1);
    }
    for (uint r0 = begin; r0 < end; r0 += RUN) {
        const uint r1 = min(end, r0 + RUN);
        const float from = FV_GET(0, FV_AT(0, r0) + c), count = (float)(r1 - r0);
        float sum = 0.f, square = 0.f;
        for (uint r = r0 + 1; r < r1; r++)
            sum += FV_GET(0, FV_AT(0, r) + c) - from;
        sum /= count;
        for (uint r = r0; r < r1; r++) {
            const float delta = FV_GET(0, FV_AT(0, r) + c) - from - sum;
            square += delta * delta;
        }
        moments run;
        run.mean = from + sum;
        run.var = square / count;
        run.share = count * f.s0;
        all = merged(all, run);
    }
    FV_PUT(1, out, all.mean);
    FV_PUT(1, out + dim.s1, all.var);
    FV_PUT(1, out + 2 * dim.s1, all.share);
}
#endif

#if FV_COMPILES(groupnorm_merge)
/* A work-group merges a group of channels; a work-item has every FV_GROUPth of them. It stores each
 * channel's own moments in the result until those of the group are known. */
FV_KERNEL void groupnorm_merge(FV_IN(0), FV_OUT(1), FV_CALL)
{
    SHARED_VAR float scratch[FV_GROUP];
    const uint width = dim.s1, parts = dim.s2, n = width / dim.s3;
    const uint begin = get_group_id(0) * n, me = get_local_id(0);
    global const FV_CELL(0) *in = base0 + at0.x;
    global FV_CELL(1) *out = FV_AT(1, 0);
    /* Sums are of differences to a mean that is near: the last partial's, which always has rows. */
    const float from = FV_GET(0, in + (size_t)(parts - 1) * 3 * width + begin);
    float sum = 0.f;
    /* The same number of iterations for all work-items, as PoCL requires. */
    for (uint i = 0; i < n; i += FV_GROUP) {
        const uint c = begin + min(i + me, n - 1);
        moments all;
        all.mean = all.var = all.share = 0.f;
        for (uint p = 0; p < parts; p++) {
            global const FV_CELL(0) *state = in + (size_t)p * 3 * width + c;
            moments one;
            one.mean = FV_GET(0, state);
            one.var = FV_GET(0, state + width);
            one.share = FV_GET(0, state + 2 * width);
            if (one.share > 0.f)
                all = merged(all, one);
        }
        if (i + me >= n)
            continue;
        FV_PUT(1, out + c, all.mean);
        FV_PUT(1, out + width + c, all.var);
        sum += all.mean - from;
    }
    const float off = fv_group_sum(sum, scratch) / (float)n;
    sum = 0.f;
    for (uint c = begin + me; c < begin + n; c += FV_GROUP) {
        const float delta = FV_GET(1, out + c) - from - off;
        sum += FV_GET(1, out + width + c) + delta * delta;
    }
    const float var = fv_group_sum(sum, scratch) / (float)n;
    for (uint c = begin + me; c < begin + n; c += FV_GROUP) {
        FV_PUT(1, out + c, from + off);
        FV_PUT(1, out + width + c, var);
        FV_PUT(1, out + 2 * width + c, 1.f);
    }
}
#endif

#if FV_COMPILES(groupnorm)
/* A work-item computes four columns of a row. */
FV_KERNEL void groupnorm(FV_IN(0), FV_IN(1), FV_IN(2), FV_IN(3), FV_OUT(4), FV_CALL)
{
    const uint runs = (dim.s1 + 3) / 4;
    const uint2 me = fv_spread(runs);
    if (me.x >= rows || me.y >= runs)
        return;
    const uint c = 4 * me.y, left = dim.s1 - c;
    global const FV_CELL(1) *state = base1 + at1.x + c;
    const float4 mean = FV_GET_RUN(1, state, left, 0.f);
    const float4 var = FV_GET_RUN(1, state + dim.s1, left, 0.f);
    const float4 weight = FV_GET_RUN(2, base2 + at2.x + c, left, 0.f);
    const float4 bias = FV_GET_RUN(3, base3 + at3.x + c, left, 0.f);
    const float4 x = FV_GET_RUN(0, FV_AT(0, me.x) + c, left, 0.f) - mean;
    const float4 y = x * (weight / sqrt(var + f.s0)) + bias;
    FV_PUT_RUN(4, FV_AT(4, me.x) + c, FV_ACT(4, y), left);
}
#endif
