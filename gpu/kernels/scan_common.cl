/* scan_common.cl: what the kernels of SCAN share, whatever device they are for.
 *
 *   FV_D, FV_DV  of the problem
 */
#define BY_CHANNEL ((FV_FLAGS & FV_FLAG_DECAY_CHANNEL) != 0)
#define BY_HEAD (!BY_CHANNEL && (FV_FLAGS & FV_FLAG_DECAY) != 0)
#define DELTA ((FV_FLAGS & FV_FLAG_DELTA) != 0)
#define GATED ((FV_FLAGS & FV_FLAG_GATED) != 0)
#define UNIT ((FV_FLAGS & FV_FLAG_L2) != 0)
#define NORMALISED (!(FV_FLAGS & FV_FLAG_UNNORMALISED))
/* Statistics of a query; exp has them for a shift, which there is none of here. */
#define STATS (FV_WANTS & FV_WANT_SHIFT ? 0 : FV_STATS)
#define FADING (BY_CHANNEL || BY_HEAD)

#if !FV_STATS
FV_FN fv_v fv_stat(int i, int query, fv_v x, fv_row r)
{
    return x;
}
FV_FN fv_row fv_stats_done(int query, fv_row r, fv_v alpha)
{
    return r;
}
#endif
