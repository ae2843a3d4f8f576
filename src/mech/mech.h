/* mech.h: includes the header of the mechanism FV_MECHANISM, and makes the names of its kernels.
 * It is compiled over the vector vocabulary when that was included before, else over scalar.h. */
#ifndef FOVEA_SRC_MECH_MECH_H
#define FOVEA_SRC_MECH_MECH_H

#ifndef FV_FN
#include "mech/scalar.h"
#endif

#define FV_MECH_QUOTE(file) #file
#define FV_MECH_HEADER(name) FV_MECH_QUOTE(name.h)
#include FV_MECH_HEADER(FV_MECHANISM)

#define FV_MECH_PASTE(op, mech, isa) op##_##mech##_##isa
#define FV_MECH_PASTE_VALUES(op, mech, isa) FV_MECH_PASTE(op, mech, isa)
/* op_<mechanism>_<isa> */
#define FV_MECH_NAME(op, isa) FV_MECH_PASTE_VALUES(op, FV_MECHANISM, isa)

#endif
