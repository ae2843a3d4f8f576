/* feature_maps.c: tables of the feature maps of all mechanisms, one table per ISA. */
#include "platform/cpu/feature_maps.h"

#ifndef FV_NO_PORTABLE
fv_features_fn *const fv_features_c[FV_MECH_COUNT] = {
#define FV_MECH(NAME, name, title, causal, tensor, learned) FV_FEATURES(NAME, name, learned, c)
#include "mech/mech.inc"
#undef FV_MECH
};
#endif

#ifdef FV_ARCH_X86
fv_features_fn *const fv_features_avx2[FV_MECH_COUNT] = {
#define FV_MECH(NAME, name, title, causal, tensor, learned) FV_FEATURES(NAME, name, learned, avx2)
#include "mech/mech.inc"
#undef FV_MECH
};

fv_features_fn *const fv_features_avx512[FV_MECH_COUNT] = {
#define FV_MECH(NAME, name, title, causal, tensor, learned) FV_FEATURES(NAME, name, learned, avx512)
#include "mech/mech.inc"
#undef FV_MECH
};
#endif

#ifdef FV_ARCH_ARM64
fv_features_fn *const fv_features_neon[FV_MECH_COUNT] = {
#define FV_MECH(NAME, name, title, causal, tensor, learned) FV_FEATURES(NAME, name, learned, neon)
#include "mech/mech.inc"
#undef FV_MECH
};
#endif

#ifdef FV_LEVEL_RVV
fv_features_fn *const fv_features_rvv[FV_MECH_COUNT] = {
#define FV_MECH(NAME, name, title, causal, tensor, learned) FV_FEATURES(NAME, name, learned, rvv)
#include "mech/mech.inc"
#undef FV_MECH
};
#endif
