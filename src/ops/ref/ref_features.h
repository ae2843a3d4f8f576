/* ref_features.h: feature maps as functions, for kernels that are not compiled per mechanism. A
 * scan maps a chunk of rows at a time, so the cost of an indirect call does not matter. */
#ifndef FOVEA_SRC_OPS_REF_FEATURES_H
#define FOVEA_SRC_OPS_REF_FEATURES_H

#include "ops/op.h"

/* Computes phi of `rows` rows of one head: block b of row r is stored at out + r ldo + b d. Reads d
 * floats per row of x, and writes FV_BLOCKS * d, not in place. It exists for mechanisms without
 * learned vectors and without statistics over all heads. exp saturates at e^88 instead of being
 * shifted. */
typedef void fv_features_fn(float *out, size_t ldo, const float *x, size_t ldx, size_t rows,
                            size_t d, int query);

/* fv_features_<mechanism>_ref, from ref_lattn_apply.c. */
#define FV_MECH(NAME, name, ...) fv_features_fn fv_features_##name##_ref;
#include "mech/mech.inc"
#undef FV_MECH

/* Indexed by mechanism; NULL if it has learned vectors. */
extern fv_features_fn *const fv_features_ref[FV_MECH_COUNT];

/* The lines of a table of such functions, for FV_MECH of mech.inc:
 * fv_features_<mechanism>_<which>. */
#define FV_FEATURES(NAME, name, learned, which) FV_FEATURES_##learned(NAME, name, which)
#define FV_FEATURES_0(NAME, name, which) [FV_MECH_##NAME] = fv_features_##name##_##which,
#define FV_FEATURES_1(NAME, name, which)

#endif
