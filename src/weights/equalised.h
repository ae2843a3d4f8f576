/* equalised.h: finds the powers of two that make channels alike in size (ops/equalise.h), from the
 * weights that produce and read the channels. They are found once for all plans of a model. */
#ifndef FOVEA_SRC_EQUALISED_H
#define FOVEA_SRC_EQUALISED_H

#include <stdbool.h>

#include "base/mem.h"
#include "checkpoint/weight.h"
#include "weights/shared_weights.h"

/* Weights from which the size of channels, or of the columns that read them, is estimated. */
typedef struct fv_equal_source {
    enum fv_equal_role {
        FV_EQUAL_NORM,   /* a norm: an element of its weight and bias for each channel */
        FV_EQUAL_MAKER,  /* a product: its weight's rows from `row` on produce the channels */
        FV_EQUAL_READER, /* a product: its weight's columns read the channels */
    } role;
    uint32_t row, gates;  /* MAKER; gates: 1 + the first row of SwiGLU's gates; 0: no gates */
    fv_weight w, b;       /* b: absent for READER, and possibly for others */
    fv_weight scale;      /* MAKER: factors that multiply its output, or absent */
    fv_weight in_w, in_b; /* MAKER: the norm whose output it reads; absent: not known */
} fv_equal_source;

typedef struct fv_equal_sources {
    uint32_t channels, period;
    uint32_t n;
    fv_equal_source *of;
} fv_equal_sources;

/* Finds the exponents of `period` channels. They are kept for later plans if the weights are the
 * model's `own`. */
fovea_status fv_equalised_find(int8_t *exponent, fv_shared_weights *shared,
                               const fv_equal_sources *s, bool own);
/* Copies n factors to memory that lives as long as the model; equal factors share one copy. */
fovea_status fv_equalised_scales(const float **out, fv_shared_weights *shared, const float *factor,
                                 uint32_t n);
void fv_equalised_free(fv_shared_weights *shared);

#endif
