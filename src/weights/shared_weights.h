/* shared_weights.h: what the plans of a model share of its weights: packed copies, and the scales
 * that equalise channels. */
#ifndef FOVEA_SRC_SHARED_WEIGHTS_H
#define FOVEA_SRC_SHARED_WEIGHTS_H

#include <pthread.h>

#include "base/status.h"

struct fv_packed;       /* packed.h: one packed weight, counted */
struct fv_packed_cache; /* packed_cache.h */
struct fv_equalised;    /* equalised.h */
struct fv_equal_scales; /* equalised.h */

typedef struct fv_shared_weights {
    pthread_mutex_t lock;                 /* of everything here */
    struct fv_packed *packed;             /* a list */
    struct fv_packed_cache *cache;        /* where packed weights are kept, or NULL */
    struct fv_equalised *equalised;       /* scales of channels */
    struct fv_equal_scales *equal_scales; /* scales of weights */
} fv_shared_weights;

/* ENOMEM. */
fovea_status fv_shared_weights_open(fv_shared_weights *s);
/* Call it after the last plan has released its packed weights. */
void fv_shared_weights_close(fv_shared_weights *s);

#endif
