/* mech_common.cl: what the kernels of LATTN and of SCAN share: flags, and substitutes for the
 * functions that a mechanism does not have, so that no code has to check for them. */
#define GATED ((FV_FLAGS & FV_FLAG_GATED) != 0)
#define NORMALISED (!(FV_FLAGS & FV_FLAG_UNNORMALISED))

/* A loop over the work-item's share of `count` numbers, from the last to the first, so that
 * addresses depend on the count. If it counted up from 0, Intel's compiler would unroll it. It
 * would move the addresses of all iterations out of a surrounding loop into registers, and have
 * none left for the sums. */
#define SHARE_DOWN(i, count)                                                                       \
    for (int i = (int)(count)-1 - (int)get_local_id(0); i >= 0; i -= FV_GROUP)

/* An fv_row without parameters and statistics. Set field by field: for an initialiser list Intel's
 * compiler makes a copy in memory, even if nothing reads it. */
FV_FN fv_row fv_row_of(float alpha)
{
    fv_row r;
    r.alpha = alpha;
    r.shift = fv_set(0.f);
    FV_TIMES(t, 3)
        r.stat[t] = fv_set(0.f);
    FV_TIMES(p, 2)
        r.param[p] = fv_set(0.f);
    return r;
}

#if !FV_STATS
FV_FN fv_v fv_stat(int i, int query, fv_v x, fv_row r)
{
    return x;
}
FV_FN fv_row fv_stats_done(int query, fv_row r)
{
    return r;
}
#endif
