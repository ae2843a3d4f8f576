/* thread.c: the pool of workers, or the caller's own parallel loop. */
#include "thread.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "mem.h"
#include "os_machine.h"

/* Jobs that workers can see at once. One more runs on its own thread alone. */
#define BOARD 16

/* How long a worker with nothing to do stays awake: longer than a barrier between two steps,
 * shorter than the gap between two camera frames. */
#define SPIN_SECONDS 100e-6

struct notice {
    _Atomic(fv_job *) job;
    _Atomic uint32_t inside; /* workers that may hold the pointer */
};

struct worker {
    fv_pool *pool;
    pthread_t thread;
    uint32_t slot;
    uint32_t home; /* the submitter's processor that it keeps away from */
};

struct fv_pool {
    uint32_t threads, started;
    uint32_t n_cpus;
    uint32_t *cpus;
    fovea_parallel_for *parallel_for;
    void *ctx;
    struct worker *worker;
    struct notice board[BOARD];
    _Atomic uint32_t epoch; /* raised whenever there may be new work */
    _Atomic uint32_t sleepers;
    _Atomic uint32_t stop;
    _Atomic uint32_t ready; /* workers that have touched their stacks */
};

static uint64_t at_phase(uint32_t phase)
{
    return (uint64_t)phase << 32;
}

static bool claimable(const fv_job *job, uint64_t claim)
{
    uint32_t phase = (uint32_t)(claim >> 32);
    return phase < job->phases && (uint32_t)claim < job->units[phase];
}

/* Claims and runs units of whatever phase the job is in until none is left to claim. Returns how
 * many it ran. A claim made in one phase cannot slip into the next: the addition returns both. */
static uint32_t work(fv_job *job, uint32_t slot)
{
    uint32_t ran = 0;
    while (claimable(job, atomic_load(&job->claim))) {
        uint64_t claim = atomic_fetch_add(&job->claim, 1);
        if (!claimable(job, claim))
            break;
        uint32_t phase = (uint32_t)(claim >> 32);
        job->fn(job->arg, phase, (uint32_t)claim, slot);
        ran++;
        if (atomic_fetch_add(&job->done, 1) + 1 == job->units[phase] && atomic_load(&job->waiting))
            fv_machine_wake(&job->done);
    }
    return ran;
}

/* Takes the slot-th processor after the submitter's, counted round the list. */
static void keep_away(struct worker *w, uint32_t home)
{
    const fv_pool *pool = w->pool;
    if (home == w->home || pool->threads > pool->n_cpus)
        return;
    w->home = home;
    uint32_t at = 0;
    while (at < pool->n_cpus && pool->cpus[at] != home)
        at++;
    fv_machine_pin(&pool->cpus[(at + w->slot) % pool->n_cpus], 1);
}

static uint32_t serve_board(struct worker *w)
{
    fv_pool *pool = w->pool;
    uint32_t ran = 0;
    for (uint32_t i = 0; i < BOARD; i++) {
        struct notice *n = &pool->board[i];
        if (!atomic_load(&n->job))
            continue;
        atomic_fetch_add(&n->inside, 1);
        fv_job *job = atomic_load(&n->job);
        if (job && claimable(job, atomic_load(&job->claim))) {
            keep_away(w, job->home);
            ran += work(job, w->slot);
        }
        atomic_fetch_sub(&n->inside, 1);
    }
    return ran;
}

/* Touches the stack that kernels will use, so that no frame faults it in. The pool waits for it: a
 * worker may start long after it was created. */
static void touch_stack(void)
{
    enum { STACK = 128 << 10, PAGE = 4096 };
    volatile char page[STACK];
    for (int i = 0; i < STACK; i += PAGE)
        page[i] = 0;
    (void)page[0];
}

static void *worker_main(void *arg)
{
    struct worker *w = arg;
    fv_pool *pool = w->pool;
    char name[16];
    snprintf(name, sizeof name, "fovea-%u", w->slot);
    fv_machine_name_thread(name);
    if (pool->n_cpus)
        fv_machine_pin(pool->cpus, pool->n_cpus);
    touch_stack();
    atomic_fetch_add(&pool->ready, 1);
    fv_machine_wake(&pool->ready);
    uint64_t mode = fv_machine_float_enter();
    double idle_since = 0;
    for (;;) {
        uint32_t epoch = atomic_load(&pool->epoch);
        if (atomic_load(&pool->stop))
            break;
        if (serve_board(w)) {
            idle_since = 0;
            continue;
        }
        double now = fv_machine_seconds();
        if (idle_since == 0)
            idle_since = now;
        if (now - idle_since < SPIN_SECONDS) {
            for (int i = 0; i < 32; i++)
                fv_machine_pause();
            continue;
        }
        atomic_fetch_add(&pool->sleepers, 1);
        fv_machine_sleep(&pool->epoch, epoch, -1);
        atomic_fetch_sub(&pool->sleepers, 1);
        idle_since = 0;
    }
    fv_machine_float_leave(mode);
    return NULL;
}

static void call_workers(fv_pool *pool)
{
    atomic_fetch_add(&pool->epoch, 1);
    if (atomic_load(&pool->sleepers))
        fv_machine_wake(&pool->epoch);
}

static void await_phase(fv_job *job, uint32_t units)
{
    double start = 0;
    for (;;) {
        uint32_t done = atomic_load(&job->done);
        if (done == units)
            return;
        double now = fv_machine_seconds();
        if (start == 0)
            start = now;
        if (now - start < SPIN_SECONDS) {
            for (int i = 0; i < 32; i++)
                fv_machine_pause();
            continue;
        }
        atomic_store(&job->waiting, 1);
        fv_machine_sleep(&job->done, done, 1e-3);
        atomic_store(&job->waiting, 0);
    }
}

static void lane(void *arg, size_t i)
{
    fv_job *job = arg;
    uint64_t mode = fv_machine_float_enter();
    work(job, (uint32_t)i);
    fv_machine_float_leave(mode);
}

void fv_pool_run(fv_pool *pool, fv_job *job)
{
    uint64_t mode = fv_machine_float_enter();
    struct notice *notice = NULL;
    job->home = fv_machine_here();
    atomic_store(&job->waiting, 0);
    atomic_store(&job->done, 0);
    atomic_store(&job->claim, at_phase(0));
    if (pool->threads > 1 && !pool->parallel_for) {
        for (uint32_t i = 0; i < BOARD && !notice; i++) {
            fv_job *none = NULL;
            if (atomic_compare_exchange_strong(&pool->board[i].job, &none, job))
                notice = &pool->board[i];
        }
    }
    for (uint32_t phase = 0; phase < job->phases; phase++) {
        uint32_t units = job->units[phase];
        if (phase) {
            atomic_store(&job->done, 0);
            atomic_store(&job->claim, at_phase(phase));
        }
        if (pool->parallel_for) {
            uint32_t lanes = units < pool->threads ? units : pool->threads;
            pool->parallel_for(lane, job, lanes, pool->ctx);
        } else {
            if (notice && units > 1)
                call_workers(pool);
            work(job, 0);
        }
        await_phase(job, units);
    }
    /* Past the last phase there is nothing to claim; wait until no worker looks at the job. */
    atomic_store(&job->claim, at_phase(job->phases));
    if (notice) {
        atomic_store(&notice->job, (fv_job *)NULL);
        while (atomic_load(&notice->inside))
            fv_machine_pause();
    }
    fv_machine_float_leave(mode);
}

fovea_status fv_pool_create(fv_pool **out, uint32_t threads, const uint32_t *cpus, uint32_t n_cpus,
                            fovea_parallel_for *parallel_for, void *ctx)
{
    void *memory;
    FV_TRY(fv_mem_alloc(&memory, sizeof(fv_pool), FV_MEM_DEVICE, "thread pool"));
    fv_pool *pool = memory;
    pool->threads = threads;
    pool->parallel_for = parallel_for;
    pool->ctx = ctx;
    fovea_status status =
        fv_mem_array(&memory, threads, sizeof(struct worker), FV_MEM_DEVICE, "thread pool");
    if (status == FOVEA_OK) {
        pool->worker = memory;
        status = fv_mem_array(&memory, n_cpus, sizeof *cpus, FV_MEM_DEVICE, "thread pool");
    }
    if (status == FOVEA_OK) {
        pool->cpus = memory;
        pool->n_cpus = cpus ? n_cpus : 0;
        if (pool->n_cpus)
            memcpy(pool->cpus, cpus, n_cpus * sizeof *cpus);
    }
    for (uint32_t i = 1; status == FOVEA_OK && !parallel_for && i < threads; i++) {
        struct worker *w = &pool->worker[i];
        w->pool = pool;
        w->slot = i;
        w->home = UINT32_MAX;
        if (pthread_create(&w->thread, NULL, worker_main, w))
            status = fv_fail(FOVEA_ENOMEM, "thread %u of %u cannot be started; use fewer threads",
                             i + 1, threads);
        else
            pool->started++;
    }
    for (uint32_t ready; (ready = atomic_load(&pool->ready)) < pool->started;)
        fv_machine_sleep(&pool->ready, ready, -1);
    if (status != FOVEA_OK) {
        fv_pool_free(pool);
        return status;
    }
    *out = pool;
    return FOVEA_OK;
}

void fv_pool_free(fv_pool *pool)
{
    if (!pool)
        return;
    atomic_store(&pool->stop, 1);
    atomic_fetch_add(&pool->epoch, 1);
    fv_machine_wake(&pool->epoch);
    for (uint32_t i = 1; i <= pool->started; i++)
        pthread_join(pool->worker[i].thread, NULL);
    fv_mem_free(pool->worker);
    fv_mem_free(pool->cpus);
    fv_mem_free(pool);
}

uint32_t fv_pool_threads(const fv_pool *pool)
{
    return pool->threads;
}
