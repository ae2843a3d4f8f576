/* thread.h: the pool: a fixed set of workers that help with every frame that is submitted.
 *
 * A job is a sequence of phases with a barrier between them. A phase is a number of units, each
 * claimed with one atomic addition. The submitting thread always takes part and can finish alone,
 * so no frame ever waits for another. Idle workers spin for a limited time, then sleep. */
#ifndef FOVEA_SRC_THREAD_H
#define FOVEA_SRC_THREAD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <fovea/devices.h>

#include "base/status.h"

typedef struct fv_pool fv_pool;

/* Runs unit `unit` of phase `phase`. slot, in [0, threads), is never used by two units of a job at
 * the same time: it selects the worker's scratch memory. */
typedef void (*fv_unit_fn)(void *arg, uint32_t phase, uint32_t unit, uint32_t slot);

typedef struct fv_job {
    fv_unit_fn fn;
    void *arg;
    const uint32_t *units; /* number of units of each phase, at least 1 */
    uint32_t phases;
    /* written by the pool: */
    _Atomic uint64_t claim; /* phase in the upper half, next unit in the lower */
    _Atomic uint32_t done;
    _Atomic uint32_t waiting;
    uint32_t home; /* the submitter's processor */
} fv_job;

typedef struct fv_pool_settings {
    uint32_t threads; /* at least 1; includes the submitting thread */
    /* The processors that workers may use. If there are enough, each worker is pinned to its own
     * one, not the submitter's. Otherwise schedulers put a thread that wakes up for a frame on the
     * core of the thread that woke it, and need milliseconds to separate them. */
    const uint32_t *cpus;
    uint32_t n_cpus;
    fovea_parallel_for_fn *parallel_for; /* external thread pool that replaces own threads; or
                                            NULL */
    void *ctx;
    const char *name;  /* workers are called NAME-1, NAME-2, ...; NULL: fovea */
    uint32_t priority; /* SCHED_FIFO priority of the workers; 0: that of the thread that creates
                          the pool */
    bool lock;         /* locks the workers' stacks in main memory */
} fv_pool_settings;

/* Returns FOVEA_ENOMEM if memory runs out, or FOVEA_ENOTSUP for a priority that this process is not
 * permitted to set. */
fovea_status fv_pool_create(fv_pool **out, const fv_pool_settings *settings);
void fv_pool_free(fv_pool *pool);
uint32_t fv_pool_threads(const fv_pool *pool);

/* Runs all phases of `job` and returns when they are done. Allocates nothing. */
void fv_pool_run(fv_pool *pool, fv_job *job);

#endif
