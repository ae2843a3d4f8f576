/* thread.h: the pool: fixed workers that join whatever frame is posted.
 *
 * A job is a sequence of phases with a barrier between them; a phase is a number of units, claimed
 * one by one with one atomic addition. The submitting thread always takes part and can finish
 * alone, so no frame ever waits for another. Idle workers spin for a bounded time, then sleep.
 */
#ifndef FOVEA_SRC_THREAD_H
#define FOVEA_SRC_THREAD_H

#include <stdatomic.h>
#include <stdint.h>

#include "status.h"

typedef struct fv_pool fv_pool;

/* Runs unit `unit` of phase `phase`. slot in [0, threads) is not shared at the same time within a
 * job: it picks the worker's scratch memory. */
typedef void (*fv_unit_fn)(void *arg, uint32_t phase, uint32_t unit, uint32_t slot);

typedef struct fv_job {
    fv_unit_fn fn;
    void *arg;
    const uint32_t *units; /* per phase, each at least 1 */
    uint32_t phases;
    /* the pool's: */
    _Atomic uint64_t claim; /* phase in the upper half, next unit in the lower */
    _Atomic uint32_t done;
    _Atomic uint32_t waiting;
    uint32_t home; /* the submitter's processor */
} fv_job;

/* threads >= 1 counts the submitting thread. cpus: the n_cpus processors that workers may use.
 * Where there are enough, each worker keeps to one of its own, away from the submitter's: left
 * alone, schedulers put a thread that wakes for a frame beside the one that woke it, and need
 * milliseconds to part them. parallel_for: use the caller's loop instead of own threads. */
fovea_status fv_pool_create(fv_pool **out, uint32_t threads, const uint32_t *cpus, uint32_t n_cpus,
                            fovea_parallel_for *parallel_for, void *ctx);
void fv_pool_free(fv_pool *pool);
uint32_t fv_pool_threads(const fv_pool *pool);

/* Runs all phases of `job` and returns when they are done. Allocates nothing. */
void fv_pool_run(fv_pool *pool, fv_job *job);

#endif
