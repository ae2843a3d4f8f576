/* ref_features.c: the table of the feature maps of all mechanisms. */
#include "ops/ref/ref_features.h"

fv_features_fn *const fv_features_ref[FV_MECH_COUNT] = {
#define FV_MECH(NAME, name, title, causal, tensor, learned) FV_FEATURES(NAME, name, learned, ref)
#include "mech/mech.inc"
#undef FV_MECH
};
