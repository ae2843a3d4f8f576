/* feature_maps.h: feature maps as function pointers, for kernels that are not compiled per
 * mechanism. A scan maps a chunk of rows at a time, so that the cost of an indirect call does not
 * matter. */
#ifndef FOVEA_PLATFORM_FEATURE_MAPS_H
#define FOVEA_PLATFORM_FEATURE_MAPS_H

#include "ops/ref/ref_features.h"

/* Declares fv_features_<mechanism>_<isa>, which lattn_tmpl.c defines. */
#define FV_MECH(NAME, name, ...)                                                                   \
    fv_features_fn fv_features_##name##_c, fv_features_##name##_avx2, fv_features_##name##_avx512, \
        fv_features_##name##_neon, fv_features_##name##_rvv;
#include "mech/mech.inc"
#undef FV_MECH

/* The feature map of each mechanism; NULL for a mechanism with learned vectors. */
extern fv_features_fn *const fv_features_c[FV_MECH_COUNT],
    *const fv_features_avx2[FV_MECH_COUNT], *const fv_features_avx512[FV_MECH_COUNT],
                                                *const fv_features_neon[FV_MECH_COUNT],
                                                    *const fv_features_rvv[FV_MECH_COUNT];

#endif
