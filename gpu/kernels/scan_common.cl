/* scan_common.cl: definitions for all kernels of SCAN.
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
/* One decay per head; centred, it follows from the number of tokens. */
#define BY_HEAD (GIVEN_DECAY || CENTRED)
/* Most tokens that are counted: 2^24 is the last number to which a float can add 1. */
#define COUNT_MOST 16777216.f
#define DELTA ((FV_FLAGS & FV_FLAG_DELTA) != 0)
#define UNIT ((FV_FLAGS & FV_FLAG_L2) != 0)
/* Number of a query's statistics. exp has them for a shift, which SCAN does not use. */
#define STATS (FV_WANTS & FV_WANT_SHIFT ? 0 : FV_STATS)
#define FADING (BY_CHANNEL || BY_HEAD)
