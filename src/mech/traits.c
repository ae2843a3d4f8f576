/* traits.c: what the core knows of the mechanism FV_MECHANISM, from its header. */
#include "mech/mech.h"

const fv_mech_traits FV_MECH_NAME(fv_mech, traits) = {
    .name = FV_MECH_TEXT,
    .title = FV_MECH_NAME(fv_mech, title),
    .blocks = FV_BLOCKS,
    .streams = FV_STREAMS,
    .params = FV_PARAMS,
    .wants = FV_WANTS,
};
