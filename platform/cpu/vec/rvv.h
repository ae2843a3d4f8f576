/* rvv.h: vec.h's vector functions on RISC-V's vectors (RVV 1.0): those of c.h, which the compiler
 * turns into vector instructions. Four lanes fit a register of every processor that has RVV. */
#ifndef FOVEA_PLATFORM_VEC_RVV_H
#define FOVEA_PLATFORM_VEC_RVV_H

#define FV_REGS 32
#define FV_FUSED 1
#include "platform/cpu/vec/c.h"

#endif
