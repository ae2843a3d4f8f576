/* ref_features.c: the feature maps of all mechanisms. One that has none defines no symbol; a weak
 * one is then NULL. */
#include "ops/ref/ref_features.h"

#define FV_MECH(NAME, name, ...)                                                                   \
    extern __attribute__((weak)) fv_features_fn fv_features_##name##_ref;
#include "mech/mech.inc"
#undef FV_MECH

fv_features_fn *const fv_features_ref[FV_MECH_COUNT] = {
#define FV_MECH(NAME, name, ...) [FV_MECH_##NAME] = fv_features_##name##_ref,
#include "mech/mech.inc"
#undef FV_MECH
};
