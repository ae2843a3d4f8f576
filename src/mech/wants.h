/* wants.h: what a mechanism asks of the kernels that are compiled with it. */
#ifndef FOVEA_SRC_MECH_WANTS_H
#define FOVEA_SRC_MECH_WANTS_H

/* FV_WANTS of a mechanism's header; macros, because #if reads them. */
#define FV_WANT_CENTRED 1u /* values centred by their mean; the state carries the means */
#define FV_WANT_SHIFT 2u   /* exp: a shift per key channel, the running maximum */
#define FV_WANT_SIGNED 4u  /* features may be negative: there is no denominator to divide by */

#endif
