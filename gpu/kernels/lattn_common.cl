/* lattn_common.cl: definitions for all kernels of linear attention: properties of the mechanism and
 * of the problem, and the offsets of the parts of a head's state.
 *
 *   FV_D, FV_DV  of the problem
 *   FV_HEADS     of the problem where the mechanism has learned vectors; without them one program
 *                serves any number of heads
 */
#include "gpu/kernels/mech_common.cl"

#if FV_STAT_WIDE && !FV_PARAMS
#error "statistics of all heads need the number of heads"
#endif
#ifdef FV_WLATTN
#define OPERANDS FV_IN(0), FV_IN(1), FV_IN(2), FV_IN(3), FV_OUT(4), FV_CALL
#define OPERANDS_GIVEN                                                                             \
    FV_GIVEN(0), FV_GIVEN(1), FV_GIVEN(2), FV_GIVEN(3), FV_GIVEN(4), FV_CALL_GIVEN
#else /* REDUCE, APPLY */
#define OPERANDS FV_IN(0), FV_IN(1), FV_IN(2), FV_IN(3), FV_IN(4), FV_IN(5), FV_OUT(6), FV_CALL
#define OPERANDS_GIVEN                                                                             \
    FV_GIVEN(0), FV_GIVEN(1), FV_GIVEN(2), FV_GIVEN(3), FV_GIVEN(4), FV_GIVEN(5), FV_GIVEN(6),     \
        FV_CALL_GIVEN
#endif
#define CENTRED ((FV_WANTS & FV_WANT_CENTRED) != 0)
#define SHIFT ((FV_WANTS & FV_WANT_SHIFT) != 0)
#define SHIFTED (SHIFT && NORMALISED)
#define TURNED ((FV_FLAGS & FV_FLAG_ROPE) != 0)
/* Number of a query's statistics. A mechanism with shifts has none if it is used without them. */
#define FV_STATS_QUERY (SHIFT && !SHIFTED ? 0 : FV_STATS)

#define WIDTH (FV_BLOCKS * FV_D) /* features of a row */
/* Channels over which statistics and learned vectors extend: those of the head, or of all heads. */
#define CHANNELS (FV_STAT_WIDE ? FV_HEADS * FV_D : FV_D)
#define FIRST_CHANNEL(head) (FV_STAT_WIDE ? 0 : (head)*FV_D)
#define SOME(n) ((n) > 0 ? (n) : 1) /* the size of an array that may be unused */

/* Offsets of the parts of a head's state, as in fv_lattn_layout of mech_traits.h. */
#define AT_M (WIDTH * FV_DV)
#define AT_W (AT_M + WIDTH)
#define AT_VMEAN (AT_W + CENTRED * WIDTH)
#define AT_COUNT (AT_VMEAN + CENTRED * FV_DV)
#define AT_SHIFT (AT_COUNT + CENTRED)
#define FLOATS (AT_SHIFT + SHIFT * FV_D)

/* Substitutes for functions that a mechanism does not have. */
#if !FV_PARAMS
FV_FN fv_v fv_param(int i, fv_v raw, fv_v alpha)
{
    return raw;
}
#endif
#if !CENTRED
FV_FN fv_v fv_norm_mean(fv_v z, fv_v w, fv_v eps)
{
    return z;
}
#endif
