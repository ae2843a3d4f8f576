/* mech_traits.c: makes the traits of mechanism FV_MECHANISM from the constants of its header. */
#include "ops/mech_traits.h"
#include "mech/mech.h"

const fv_mech_traits FV_MECH_NAME(fv_mech, traits) = {
    .name = FV_MECH_TEXT,
    .title = FV_MECH_NAME(fv_mech, title),
    .blocks = FV_BLOCKS,
    .streams = FV_STREAMS,
    .params = FV_PARAMS,
    .wants = FV_WANTS,
    .module = FV_MODULE,
    .alpha = FV_ALPHA,
    .causal = FV_MECH_NAME(fv_mech, causal),
};

_Static_assert(FV_MECH_NAME(fv_mech, causal) == (!FV_PARAMS && !(FV_WANTS & FV_WANT_CENTRED)),
               "mech.inc: causal");
_Static_assert(FV_MECH_NAME(fv_mech, tensor) == (!(FV_WANTS & FV_WANT_SHIFT) && !FV_STAT_WIDE),
               "mech.inc: tensor");
_Static_assert(FV_MECH_NAME(fv_mech, learned) == (FV_PARAMS > 0), "mech.inc: learned");
_Static_assert(FV_PARAMS > 0 || !FV_STAT_WIDE,
               "ref_features.h: statistics over all heads without learned vectors");
