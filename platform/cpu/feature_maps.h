/* feature_maps.h: feature maps as functions, for kernels that are not composed with a mechanism: a
 * scan maps a chunk of rows at a time, where one indirect call is nothing. */
#ifndef FOVEA_PLATFORM_FEATURE_MAPS_H
#define FOVEA_PLATFORM_FEATURE_MAPS_H

#include "ops/ref/ref_features.h"

/* fv_features_<mechanism>_<isa> from lattn_tmpl.c. */
#define FV_MECH(NAME, name, ...)                                                                   \
    fv_features_fn fv_features_##name##_c, fv_features_##name##_avx2, fv_features_##name##_avx512, \
        fv_features_##name##_neon, fv_features_##name##_rvv;
#include "mech/mech.inc"
#undef FV_MECH

/* By mechanism; NULL where it has learned vectors. */
extern fv_features_fn *const fv_features_c[FV_MECH_COUNT],
    *const fv_features_avx2[FV_MECH_COUNT], *const fv_features_avx512[FV_MECH_COUNT],
                                                *const fv_features_neon[FV_MECH_COUNT],
                                                    *const fv_features_rvv[FV_MECH_COUNT];

#endif
