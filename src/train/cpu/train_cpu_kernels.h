/* train_cpu_kernels.h: declares every kernel of train_cpu_kernels.inc. */
#ifndef FOVEA_SRC_TRAIN_CPU_KERNELS_H
#define FOVEA_SRC_TRAIN_CPU_KERNELS_H

#include "ops/kernel.h"
#include "platform/cpu/cpu_levels.h"

#define FV_CPU_KERNEL(OP, MECH, name, NEED, rev, hooks)                                            \
    void fv_k_##name(const fv_args *a, const fv_call *c);                                          \
    extern const fv_kernel_hooks fv_h_##hooks;
#include "train/cpu/train_cpu_kernels.inc"
#undef FV_CPU_KERNEL

#endif
