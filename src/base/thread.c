/* thread.c: the pool of workers, or an external thread pool with the same interface. */
#include "base/thread.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "platform/os/os_machine.h"

/* Maximum number of jobs that workers see at the same time; further jobs run only on their
 * submitters. Not measured: more slots serve more concurrent frames, but every idle worker polls
 * each of them. */
#define BOARD 16

/* How long an idle worker spins before it sleeps: less than the time between two camera frames. Not
 * measured: a longer time costs power, a shorter one costs a wake-up per frame. */
#define SPIN_SECONDS 100e-6
/* How long a worker spins between the steps of a frame. Units take different times: when one unit
 * took 110 us longer on one of two threads, the other thread slept, and woke so late that the next
 * three products ran on one thread. After SPIN_SECONDS the worker yields its processor at each
 * poll. */
#define FRAME_SPIN_SECONDS 2e-3
/* Polls for new work between two readings of the clock. */
#define PAUSES 32

struct notice {
    _Atomic(fv_job *) job;   /* or NULL, or &leaving */
    _Atomic uint32_t inside; /* workers that may hold the pointer */
};

/* Marks a slot whose job is done while workers may still hold the pointer to it. A marked slot gets
 * no other job, because its submitter would have to wait for these workers. */
static fv_job leaving;

struct worker {
    fv_pool *pool;
    pthread_t thread;
    uint32_t slot;
    uint32_t home;    /* the submitter's processor, from which the worker is kept away */
    uintptr_t locked; /* address of its stack pages that are locked in main memory, or 0 */
};

/* Maximum bytes of a worker's stack that kernels use. */
#define STACK (128u << 10)

struct fv_pool {
    uint32_t threads, started;
    uint64_t process; /* id of the process with the workers: after fork() the child has none */
    uint32_t n_cpus;
    uint32_t *cpus;
    fovea_parallel_for_fn *parallel_for;
    void *ctx;
    char name[11];
    bool lock;
    struct worker *worker;
    struct notice board[BOARD];
    _Atomic uint32_t epoch; /* incremented when there may be new work */
    _Atomic uint32_t sleepers;
    _Atomic uint32_t stop;
    _Atomic uint32_t ready;   /* workers that have touched their stacks */
    _Atomic uint32_t refused; /* workers whose stack could not be locked */
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

/* Claims and runs units of the job's current phases until none is left; returns how many it ran. A
 * claim never counts for the next phase by mistake, because the atomic addition returns phase and
 * unit together. */
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

/* Pins the worker to the slot-th processor after the submitter's, counted round the list. */
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

/* Runs units of the jobs on the board. Returns whether there was a job, even if all of its units
 * were already claimed. */
static bool serve_board(struct worker *w, uint32_t *ran)
{
    fv_pool *pool = w->pool;
    bool busy = false;
    *ran = 0;
    for (uint32_t i = 0; i < BOARD; i++) {
        struct notice *n = &pool->board[i];
        const fv_job *posted = atomic_load(&n->job);
        if (!posted || posted == &leaving)
            continue;
        busy = true;
        atomic_fetch_add(&n->inside, 1);
        fv_job *job = atomic_load(&n->job);
        if (job && claimable(job, atomic_load(&job->claim))) {
            keep_away(w, job->home);
            *ran += work(job, w->slot);
        }
        atomic_fetch_sub(&n->inside, 1);
    }
    return busy;
}

/* Polls once for a thread that has waited since *since (0: it begins to wait now). Returns true to
 * wait longer, or false if the thread should sleep. */
static bool spin(double *since, bool frame)
{
    const double now = fv_machine_seconds();
    if (*since == 0)
        *since = now;
    const double waited = now - *since;
    if (waited >= (frame ? FRAME_SPIN_SECONDS : SPIN_SECONDS))
        return false;
    if (waited >= SPIN_SECONDS)
        sched_yield();
    return true;
}

/* Touches the stack that kernels will use, so that no frame causes page faults in it. The pool
 * waits for this, because a worker may start long after it was created. */
static void touch_stack(struct worker *w)
{
    enum { PAGE = 4096 };
    volatile char page[STACK];
    for (unsigned i = 0; i < STACK; i += PAGE)
        page[i] = 0;
    (void)page[0];
    if (!w->pool->lock)
        return;
    if (fv_machine_lock((void *)(uintptr_t)page, STACK, "the stack of a worker") == FOVEA_OK)
        w->locked = (uintptr_t)page;
    else
        atomic_fetch_add(&w->pool->refused, 1);
}

static void *worker_main(void *arg)
{
    struct worker *w = arg;
    fv_pool *pool = w->pool;
    char name[16];
    snprintf(name, sizeof name, "%s-%u", pool->name, w->slot % 10000);
    fv_machine_name_thread(name);
    if (pool->n_cpus)
        fv_machine_pin(pool->cpus, pool->n_cpus);
    touch_stack(w);
    atomic_fetch_add(&pool->ready, 1);
    fv_machine_wake(&pool->ready);
    uint64_t mode = fv_machine_float_enter();
    double idle_since = 0;
    for (bool in_frame = false;;) {
        uint32_t epoch = atomic_load(&pool->epoch), ran;
        if (atomic_load(&pool->stop))
            break;
        const bool frame = serve_board(w, &ran);
        if (ran || frame != in_frame)
            idle_since = 0;
        in_frame = frame;
        if (ran)
            continue;
        if (spin(&idle_since, frame)) {
            for (int i = 0; i < PAUSES && atomic_load(&pool->epoch) == epoch; i++)
                fv_machine_pause();
            continue;
        }
        atomic_fetch_add(&pool->sleepers, 1);
        fv_machine_sleep(&pool->epoch, epoch, -1);
        atomic_fetch_sub(&pool->sleepers, 1);
        idle_since = 0;
    }
    fv_machine_float_leave(mode);
    if (w->locked) /* the system may give this stack to the next thread */
        fv_machine_unlock((void *)w->locked, STACK);
    return NULL;
}

static bool has_workers(const fv_pool *pool)
{
    return pool->started && pool->process == fv_machine_process();
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
        if (spin(&start, true)) {
            for (int i = 0; i < PAUSES && atomic_load(&job->done) != units; i++)
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
    if (has_workers(pool)) {
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
    /* After the last phase no unit can be claimed; then wait until no worker holds the job. */
    atomic_store(&job->claim, at_phase(job->phases));
    if (notice) {
        atomic_store(&notice->job, &leaving);
        while (atomic_load(&notice->inside))
            fv_machine_pause();
        atomic_store(&notice->job, (fv_job *)NULL);
    }
    fv_machine_float_leave(mode);
}

/* ---- creating the pool ---- */

static fovea_status pool_arrays(fv_pool *pool, const fv_pool_settings *s)
{
    FV_TRY(FV_MEM_ARRAY(&pool->worker, s->threads, FV_MEM_DEVICE, "thread pool"));
    FV_TRY(FV_MEM_ARRAY(&pool->cpus, s->n_cpus, FV_MEM_DEVICE, "thread pool"));
    pool->n_cpus = s->cpus ? s->n_cpus : 0;
    if (pool->n_cpus)
        memcpy(pool->cpus, s->cpus, s->n_cpus * sizeof *s->cpus);
    return FOVEA_OK;
}

/* Sets the attributes of a worker. Whether the process may use the priority is known only when the
 * thread starts. The stack is at least twice what is touched: some systems give only 128 KiB. */
static int attributes(pthread_attr_t *out, uint32_t priority)
{
    const struct sched_param parameter = {.sched_priority = (int)priority};
    size_t stack;
    int error = pthread_attr_init(out);
    if (error)
        return error;
    if (pthread_attr_getstacksize(out, &stack) != 0 || stack < 2 * STACK)
        pthread_attr_setstacksize(out, 2 * STACK);
    if (!priority)
        return 0;
    error = pthread_attr_setinheritsched(out, PTHREAD_EXPLICIT_SCHED);
    if (!error)
        error = pthread_attr_setschedpolicy(out, SCHED_FIFO);
    if (!error)
        error = pthread_attr_setschedparam(out, &parameter);
    if (error)
        pthread_attr_destroy(out);
    return error;
}

static fovea_status start_workers(fv_pool *pool, uint32_t priority)
{
    pthread_attr_t with;
    int error = attributes(&with, priority);
    if (error)
        return fv_fail(FOVEA_ENOTSUP, "threads cannot have priority %u: %s", priority,
                       strerror(error));
    for (uint32_t i = 1; !error && i < pool->threads; i++) {
        struct worker *w = &pool->worker[i];
        w->pool = pool;
        w->slot = i;
        w->home = UINT32_MAX;
        error = pthread_create(&w->thread, &with, worker_main, w);
        pool->started += !error;
    }
    pthread_attr_destroy(&with);
    if (error == EPERM && priority)
        return fv_fail(
            FOVEA_ENOTSUP,
            "this process may not have threads of priority %u; raise RLIMIT_RTPRIO (ulimit -r, "
            "LimitRTPRIO= of a service), give it CAP_SYS_NICE, or set `priority` to 0",
            priority);
    if (error)
        return fv_fail(FOVEA_ENOMEM, "thread %u of %u cannot be started; use fewer threads",
                       pool->started + 2, pool->threads);
    return FOVEA_OK;
}

/* Waits until all workers have touched their stacks. */
static fovea_status await_workers(fv_pool *pool)
{
    for (uint32_t ready; (ready = atomic_load(&pool->ready)) < pool->started;)
        fv_machine_sleep(&pool->ready, ready, -1);
    const uint32_t refused = atomic_load(&pool->refused);
    if (refused)
        return fv_fail(FOVEA_ENOMEM,
                       "the stacks of %u workers cannot be locked in memory; raise RLIMIT_MEMLOCK "
                       "(ulimit -l, LimitMEMLOCK= of a service), or open the device without "
                       "lock_memory",
                       refused);
    return FOVEA_OK;
}

fovea_status fv_pool_create(fv_pool **out, const fv_pool_settings *settings)
{
    fv_pool *pool;
    FV_TRY(FV_MEM_NEW(&pool, FV_MEM_DEVICE, "thread pool"));
    pool->threads = settings->threads;
    pool->process = fv_machine_process();
    pool->parallel_for = settings->parallel_for;
    pool->ctx = settings->ctx;
    pool->lock = settings->lock;
    snprintf(pool->name, sizeof pool->name, "%s", settings->name ? settings->name : "fovea");
    fovea_status status = pool_arrays(pool, settings);
    if (status == FOVEA_OK && !pool->parallel_for)
        status = start_workers(pool, settings->priority);
    const fovea_status there = await_workers(pool);
    FV_THEN(status, there);
    FV_RETURN_MADE(out, pool, fv_pool_free, status);
}

void fv_pool_free(fv_pool *pool)
{
    if (!pool)
        return;
    atomic_store(&pool->stop, 1);
    atomic_fetch_add(&pool->epoch, 1);
    fv_machine_wake(&pool->epoch);
    for (uint32_t i = 1; has_workers(pool) && i <= pool->started; i++)
        pthread_join(pool->worker[i].thread, NULL);
    fv_mem_free(pool->worker);
    fv_mem_free(pool->cpus);
    fv_mem_free(pool);
}

uint32_t fv_pool_threads(const fv_pool *pool)
{
    return pool->threads;
}
