/* lattn_common.cl: what the kernels of linear attention share, whatever device they are for: what
 * the mechanism and the problem want, and where the parts of a head's state lie.
 *
 *   FV_D, FV_DV  of the problem
 *   FV_HEADS     of the problem where the mechanism has learned vectors; without them one program
 *                serves any number of heads
 */
#if FV_STAT_WIDE && !FV_PARAMS
#error "statistics of all heads need the number of heads"
#endif
#define CENTRED ((FV_WANTS & FV_WANT_CENTRED) != 0)
#define NORMALISED (!(FV_FLAGS & FV_FLAG_UNNORMALISED))
#define SHIFT ((FV_WANTS & FV_WANT_SHIFT) != 0)
#define SHIFTED (SHIFT && NORMALISED)
#define TURNED ((FV_FLAGS & FV_FLAG_ROPE) != 0)
#define GATED ((FV_FLAGS & FV_FLAG_GATED) != 0)
/* Statistics of a query; without its shift exp has none. */
#define FV_STATS_QUERY (SHIFT && !SHIFTED ? 0 : FV_STATS)

#define WIDTH (FV_BLOCKS * FV_D) /* features of a row */
/* Channels that statistics and learned vectors are of: the head's, or those of all heads. */
#define CHANNELS (FV_STAT_WIDE ? FV_HEADS * FV_D : FV_D)
#define FIRST_CHANNEL(head) (FV_STAT_WIDE ? 0 : (head)*FV_D)
#define SOME(n) ((n) > 0 ? (n) : 1) /* arrays that may have no use */

/* Where the parts of a head's state lie: fv_lattn_layout of mech_traits.h. */
#define AT_M (WIDTH * FV_DV)
#define AT_W (AT_M + WIDTH)
#define AT_VMEAN (AT_W + CENTRED * WIDTH)
#define AT_COUNT (AT_VMEAN + CENTRED * FV_DV)
#define AT_SHIFT (AT_COUNT + CENTRED)
#define FLOATS (AT_SHIFT + SHIFT * FV_D)

/* What a mechanism does not have, so that no code has to ask. */
#if !FV_PARAMS
FV_FN fv_v fv_param(int i, fv_v raw, fv_v alpha)
{
    return raw;
}
#endif
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
#if !CENTRED
FV_FN fv_v fv_norm_mean(fv_v z, fv_v w, fv_v eps)
{
    return z;
}
#endif
