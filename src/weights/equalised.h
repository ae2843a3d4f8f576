/* equalised.h: what makes channels alike (ops/equalise.h), by the weights that make and read them;
 * found once for all plans of a model. */
#ifndef FOVEA_SRC_EQUALISED_H
#define FOVEA_SRC_EQUALISED_H

#include <stdbool.h>

#include "base/mem.h"
#include "checkpoint/weight.h"
#include "weights/shared_weights.h"

/* Weights that say how large channels are, or their columns. */
typedef struct fv_equal_source {
    enum fv_equal_role {
        FV_EQUAL_NORM,   /* a row is the channels', of variance 1 before */
        FV_EQUAL_MAKER,  /* rows from `row` on are the channels' */
        FV_EQUAL_READER, /* columns are the channels' */
    } role;
    uint32_t row, gates;  /* MAKER; of SwiGLU: the first of its gates + 1, 0: there are none */
    fv_weight w, b;       /* b: absent for READER, elsewhere it may be */
    fv_weight scale;      /* MAKER: factors of what it makes, or absent */
    fv_weight in_w, in_b; /* MAKER: the norm that it reads; absent: none is known */
} fv_equal_source;

typedef struct fv_equal_sources {
    uint32_t channels, period;
    uint32_t n;
    fv_equal_source *of;
} fv_equal_sources;

/* The exponents of `period` channels. They are kept, unless the weights are not the model's `own`.
 */
fovea_status fv_equalised_find(int8_t *exponent, fv_shared_weights *shared,
                               const fv_equal_sources *s, bool own);
/* n factors like these that live as long as the model; the same for the same numbers. */
fovea_status fv_equalised_scales(const float **out, fv_shared_weights *shared, const float *factor,
                                 uint32_t n);
void fv_equalised_free(fv_shared_weights *shared);

#endif
