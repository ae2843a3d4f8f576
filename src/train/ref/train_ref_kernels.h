/* train_ref_kernels.h: declares every kernel of train_ref_kernels.inc. */
#ifndef FOVEA_SRC_TRAIN_REF_KERNELS_H
#define FOVEA_SRC_TRAIN_REF_KERNELS_H

#include "ops/kernel.h"

#define FV_REF_KERNEL(OP, MECH, name, rev, hooks)                                                  \
    void fv_k_##name(const fv_args *a, const fv_call *c);                                          \
    extern const fv_kernel_hooks fv_h_##hooks;
#include "train/ref/train_ref_kernels.inc"
#undef FV_REF_KERNEL

#endif
