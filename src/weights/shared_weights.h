/* shared_weights.h: data that all plans of a model share: packed copies of its weights, and the
 * scales that equalise channels. */
#ifndef FOVEA_SRC_SHARED_WEIGHTS_H
#define FOVEA_SRC_SHARED_WEIGHTS_H

#include <pthread.h>

#include "base/status.h"

struct fv_packed;       /* packed.h: one packed weight, reference-counted */
struct fv_packed_cache; /* packed_cache.h */
struct fv_equalised;    /* equalised.h */
struct fv_equal_scales; /* equalised.h */

typedef struct fv_shared_weights {
    pthread_mutex_t lock;                 /* protects all fields */
    struct fv_packed *packed;             /* linked list */
    struct fv_packed_cache *cache;        /* stores packed weights in files; NULL: no cache */
    struct fv_equalised *equalised;       /* scales of channels */
    struct fv_equal_scales *equal_scales; /* scales of weights */
} fv_shared_weights;

/* Returns FOVEA_ENOMEM if memory runs out. */
fovea_status fv_shared_weights_open(fv_shared_weights *s);
/* Closes the shared weights. Call this after the last plan has released its packed weights. */
void fv_shared_weights_close(fv_shared_weights *s);

#endif
