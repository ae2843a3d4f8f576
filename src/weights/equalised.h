/* equalised.h: finds the powers of two that make the sizes of channels similar (ops/equalise.h),
 * from the weights that produce and read the channels. They are found once for all plans of a
 * model. */
#ifndef FOVEA_SRC_EQUALISED_H
#define FOVEA_SRC_EQUALISED_H

#include <stdbool.h>

#include "base/mem.h"
#include "checkpoint/weight.h"
#include "weights/shared_weights.h"

/* Weights from which the sizes of channels, or of the columns that read them, are estimated. */
typedef struct fv_equal_source {
    enum fv_equal_role {
        FV_EQUAL_NORM,   /* a norm: its weight and bias have one element per channel */
        FV_EQUAL_MAKER,  /* a product: its weight's rows from `row` on produce the channels */
        FV_EQUAL_READER, /* a product: its weight's columns read the channels */
    } role;
    uint32_t row, gates;  /* for a MAKER; gates: 1 + the first row of SwiGLU's gates, or 0 if
                             there are no gates */
    fv_weight w, b;       /* b is absent for READER, and may be absent for others */
    fv_weight scale;      /* MAKER: scales that multiply its output, or absent */
    fv_weight in_w, in_b; /* MAKER: the norm whose output it reads; absent if unknown */
} fv_equal_source;

typedef struct fv_equal_sources {
    uint32_t channels, period;
    uint32_t n;
    fv_equal_source *of;
} fv_equal_sources;

/* Finds the exponents of `period` channels. With `own`, which means that all weights are the
 * model's, the exponents are kept for later plans. */
fovea_status fv_equalised_find(int8_t *exponent, fv_shared_weights *shared,
                               const fv_equal_sources *s, bool own);
/* Copies n scales to memory that lives as long as the model; equal arrays of scales share one copy.
 */
fovea_status fv_equalised_scales(const float **out, fv_shared_weights *shared, const float *factor,
                                 uint32_t n);
void fv_equalised_free(fv_shared_weights *shared);

#endif
