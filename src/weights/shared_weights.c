/* shared_weights.c: see shared_weights.h. */
#include "weights/shared_weights.h"

#include "weights/packed_cache.h"

fovea_status fv_shared_weights_open(fv_shared_weights *s)
{
    *s = (fv_shared_weights){.packed = NULL};
    return pthread_mutex_init(&s->lock, NULL) == 0
               ? FOVEA_OK
               : fv_fail(FOVEA_ENOMEM, "model: not enough memory for a lock");
}

void fv_shared_weights_close(fv_shared_weights *s)
{
    fv_equalised_free(s);
    fv_packed_cache_close(s->cache);
    pthread_mutex_destroy(&s->lock);
}
