/* cpu_kernels.h: declares every kernel of cpu_kernels.inc, for the files that define kernels and
 * for the table of them. */
#ifndef FOVEA_PLATFORM_CPU_KERNELS_H
#define FOVEA_PLATFORM_CPU_KERNELS_H

#include "ops/ref/ref_kernels.h"
#include "platform/cpu/cpu_levels.h"

#define FV_CPU_KERNEL(OP, MECH, name, NEED, rev, hooks)                                            \
    void fv_k_##name(const fv_args *a, const fv_call *c);                                          \
    extern const fv_kernel_hooks fv_h_##hooks;
#include "platform/cpu/cpu_kernels.inc"
#undef FV_CPU_KERNEL

#endif
