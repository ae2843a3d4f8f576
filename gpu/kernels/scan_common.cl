/* scan_common.cl: what the kernels of SCAN share, whatever device they are for.
 *
 *   FV_D, FV_DV  of the problem
 */
#include "gpu/kernels/mech_common.cl"

#define OPERANDS                                                                                   \
    FV_IN(0), FV_IN(1), FV_IN(2), FV_IN(3), FV_IN(4), FV_IN(5), FV_IN(6), FV_OUT(7), FV_OUT(8),    \
        FV_CALL
#define OPERANDS_GIVEN                                                                             \
    FV_GIVEN(0), FV_GIVEN(1), FV_GIVEN(2), FV_GIVEN(3), FV_GIVEN(4), FV_GIVEN(5), FV_GIVEN(6),     \
        FV_GIVEN(7), FV_GIVEN(8), FV_CALL_GIVEN

#define BY_CHANNEL ((FV_FLAGS & FV_FLAG_DECAY_CHANNEL) != 0)
#define CENTRED ((FV_FLAGS & FV_FLAG_CENTRED) != 0)
#define GIVEN_DECAY (!BY_CHANNEL && (FV_FLAGS & FV_FLAG_DECAY) != 0)
#define BY_HEAD (GIVEN_DECAY || CENTRED) /* centred: by the number of tokens */
#define COUNT_MOST 16777216.f            /* tokens: 2^24, the last that a float can add 1 to */
#define DELTA ((FV_FLAGS & FV_FLAG_DELTA) != 0)
#define UNIT ((FV_FLAGS & FV_FLAG_L2) != 0)
/* Statistics of a query; exp has them for a shift, which there is none of here. */
#define STATS (FV_WANTS & FV_WANT_SHIFT ? 0 : FV_STATS)
#define FADING (BY_CHANNEL || BY_HEAD)
