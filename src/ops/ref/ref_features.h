/* ref_features.h: feature maps as functions, for kernels that are not compiled per mechanism: a
 * scan maps a chunk of rows at a time, so that one indirect call costs nothing. */
#ifndef FOVEA_SRC_OPS_REF_FEATURES_H
#define FOVEA_SRC_OPS_REF_FEATURES_H

#include "ops/op.h"

/* phi of `rows` rows of one head: block b of row r goes to out + r ldo + b d. Reads d floats per
 * row of x, writes FV_BLOCKS * d; not in place. For mechanisms without learned vectors and without
 * statistics over all heads; exp saturates at e^88 instead of shifting. */
typedef void fv_features_fn(float *out, size_t ldo, const float *x, size_t ldx, size_t rows,
                            size_t d, int query);

/* fv_features_<mechanism>_ref, from ref_lattn_apply.c. */
#define FV_MECH(NAME, name, ...) fv_features_fn fv_features_##name##_ref;
#include "mech/mech.inc"
#undef FV_MECH

/* By mechanism; NULL where one has none. */
extern fv_features_fn *const fv_features_ref[FV_MECH_COUNT];

#endif
