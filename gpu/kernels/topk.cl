/* topk.cl: TOPK.
 *
 *   topk         every candidate counts those that rank before it
 *   topk_select  pre-pass of topk_ranked, for values of several columns: the places of the largest
 *                values, in ascending order, in the scratch that both get as their table
 *   topk_ranked  ranks these places
 */

/* Whether a row ranks before another, as in fv_topk_before() of src/ops/ref/ref_topk.h. */
static inline uint before(float x, uint i, float y, uint k)
{
    const uint lost = isnan(x) ? 1 : 0, other = isnan(y) ? 1 : 0;
    if (lost != other)
        return other;
    return x > y || (!(x < y) && i < k);
}

#if FV_COMPILES(topk)
/* Every work-item has a candidate and counts those that rank before it, which gives its position in
 * the result. It stops when there are enough of them. u.s1: a table has the candidates' places. */
FV_KERNEL void topk(FV_IN(0), FV_OUT(1), FV_CALL)
{
    const uint me = get_global_id(0), count = u.s0, columns = dim.s2, end = row0 + rows;
    const uint mine = min(me, count - 1), own = u.s1 ? table[mine] : mine;
    const float x = FV_GET(0, FV_AT(0, own / columns) + own % columns);
    uint rank = 0;
    for (uint k = 0; k < count && rank < end; k++) {
        const uint place = u.s1 ? table[k] : k;
        rank += before(FV_GET(0, FV_AT(0, place / columns) + place % columns), place, x, own);
    }
    if (me >= count)
        rank = me;
    if (rank >= row0 && rank - row0 < rows)
        FV_PUT(1, FV_AT(1, rank - row0), me < count ? (float)own : -1.f);
}

#endif

/* ---- many values ---- */

#define LIST ((global uint *)table)

#if FV_COMPILES(topk_ranked) /* which runs topk_select first */
/* Returns a number that is larger if a value precedes another: 0 for NaN. */
static inline uint key_of(float x)
{
    const uint bits = as_uint(x == 0.f ? 0.f : x);
    return isnan(x) ? 0 : bits >> 31 ? ~bits : bits | 0x80000000u;
}

#define KEY(place) key_of(FV_GET(0, FV_AT(0, (place) / dim.s2) + (place) % dim.s2))
/* Returns the sum of x over the work-group. */
static inline uint sum_of(uint x, SHARED uint *sums)
{
    const uint me = get_local_id(0);
    FV_BARRIER();
    sums[me] = x;
    for (uint half_ = FV_GROUP / 2; half_ > 0; half_ /= 2) {
        FV_BARRIER();
        if (me < half_)
            sums[me] += sums[me + half_];
    }
    FV_BARRIER();
    return sums[0];
}

/* One work-group. It finds the key of the last place that is chosen, bit by bit. Then each
 * work-item lists the places of a run of values: those with larger keys, and the first ones with
 * that key. */
FV_KERNEL void topk_select(FV_IN(0), FV_OUT(1), FV_CALL)
{
    SHARED_VAR uint sums[FV_GROUP];
    SHARED_VAR uint equals[FV_GROUP];
    const uint me = get_local_id(0), all = u.s0, wanted = min(row0 + rows, all);
    uint last = 0;
    for (uint bit = 0; bit < 32; bit++) {
        const uint tried = last | 0x80000000u >> bit;
        uint count = 0;
        for (uint i = me; i < all; i += FV_GROUP)
            count += KEY(i) >= tried ? 1 : 0;
        if (sum_of(count, sums) >= wanted)
            last = tried;
    }
    const uint run = (all + FV_GROUP - 1) / FV_GROUP, from = min(me * run, all);
    const uint end = min(from + run, all);
    uint larger = 0, equal = 0;
    for (uint i = from; i < end; i++) {
        const uint key = KEY(i);
        larger += key > last ? 1 : 0;
        equal += key == last ? 1 : 0;
    }
    const uint spare = wanted - sum_of(larger, sums);
    FV_BARRIER();
    sums[me] = larger;
    equals[me] = equal;
    FV_BARRIER();
    uint larger_before = 0, equal_before = 0;
    for (uint i = 0; i < FV_GROUP; i++) {
        larger_before += i < me ? sums[i] : 0;
        equal_before += i < me ? equals[i] : 0;
    }
    uint at = larger_before + min(equal_before, spare);
    for (uint i = from; i < end; i++) {
        const uint key = KEY(i);
        if (key > last || (key == last && equal_before < spare))
            LIST[at++] = i;
        equal_before += key == last ? 1 : 0;
    }
}

/* A work-item has a chosen place, or a row for which there is none. */
FV_KERNEL void topk_ranked(FV_IN(0), FV_OUT(1), FV_CALL)
{
    const uint me = get_global_id(0), columns = dim.s2, count = min(row0 + rows, u.s0);
    const uint own = LIST[min(me, count - 1)];
    const float x = FV_GET(0, FV_AT(0, own / columns) + own % columns);
    uint rank = 0;
    for (uint k = 0; k < count; k++) {
        const uint place = LIST[k];
        rank += before(FV_GET(0, FV_AT(0, place / columns) + place % columns), place, x, own);
    }
    if (me >= count)
        rank = me;
    if (rank >= row0 && rank - row0 < rows)
        FV_PUT(1, FV_AT(1, rank - row0), me < count ? (float)own : -1.f);
}
#endif
