/* rvv.h: the vector vocabulary on RISC-V's vectors (RVV 1.0): that of c.h, which the compiler makes
 * vector instructions of. Four lanes fit a register of every processor with them. */
#ifndef FOVEA_PLATFORM_VEC_RVV_H
#define FOVEA_PLATFORM_VEC_RVV_H

#define FV_REGS 32
#define FV_FUSED 1
#include "platform/cpu/vec/c.h"

#endif
