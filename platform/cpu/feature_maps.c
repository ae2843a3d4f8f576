/* feature_maps.c: the feature maps of all mechanisms, by ISA. A mechanism that has none defines no
 * symbol; a weak one is then NULL. */
#include "platform/cpu/feature_maps.h"

#define FV_MECH(NAME, name, ...)                                                                   \
    extern __attribute__((weak)) fv_features_fn fv_features_##name##_c, fv_features_##name##_avx2, \
        fv_features_##name##_avx512, fv_features_##name##_neon, fv_features_##name##_rvv;
#include "mech/mech.inc"
#undef FV_MECH

fv_features_fn *const fv_features_c[FV_MECH_COUNT] = {
#define FV_MECH(NAME, name, ...) [FV_MECH_##NAME] = fv_features_##name##_c,
#include "mech/mech.inc"
#undef FV_MECH
};

#ifdef FV_ARCH_X86
fv_features_fn *const fv_features_avx2[FV_MECH_COUNT] = {
#define FV_MECH(NAME, name, ...) [FV_MECH_##NAME] = fv_features_##name##_avx2,
#include "mech/mech.inc"
#undef FV_MECH
};

fv_features_fn *const fv_features_avx512[FV_MECH_COUNT] = {
#define FV_MECH(NAME, name, ...) [FV_MECH_##NAME] = fv_features_##name##_avx512,
#include "mech/mech.inc"
#undef FV_MECH
};
#endif

#ifdef FV_ARCH_ARM64
fv_features_fn *const fv_features_neon[FV_MECH_COUNT] = {
#define FV_MECH(NAME, name, ...) [FV_MECH_##NAME] = fv_features_##name##_neon,
#include "mech/mech.inc"
#undef FV_MECH
};
#endif

#ifdef FV_LEVEL_RVV
fv_features_fn *const fv_features_rvv[FV_MECH_COUNT] = {
#define FV_MECH(NAME, name, ...) [FV_MECH_##NAME] = fv_features_##name##_rvv,
#include "mech/mech.inc"
#undef FV_MECH
};
#endif
