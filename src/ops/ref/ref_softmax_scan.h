/* ref_softmax_scan.h: the cache of SOFTMAX_SCAN, before and after a call on the CPU. */
#ifndef FOVEA_SRC_OPS_REF_SOFTMAX_SCAN_H
#define FOVEA_SRC_OPS_REF_SOFTMAX_SCAN_H

#include "ops/kernel.h"

typedef struct fv_cache {
    size_t position;   /* position of the call's first row */
    size_t held, kept; /* number of tokens that the cache holds, and number of the call's tokens
                          that it will hold */
    size_t window;     /* number of tokens that a row attends to; 0: all */
    size_t group;      /* heads per kv head */
    float *k, *v;      /* keys and values of kv head 0 */
} fv_cache;

fv_cache fv_cache_of(const fv_args *a, const fv_call *c);
/* Writes the call's rows of kv head `kv` to the cache. */
void fv_cache_remember(const fv_args *a, const fv_call *c, const fv_cache *s, size_t kv);

/* Returns the first token that a row at `position` attends to. */
static inline size_t fv_cache_first(const fv_cache *s, size_t position)
{
    return s->window && position + 1 > s->window ? position + 1 - s->window : 0;
}

#endif
