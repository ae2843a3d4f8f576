/* latest.c: one frame at most changes hands, the newest, from a thread that puts to one that takes.
 *
 * There are three places. Each thread has one to itself, and the third lies between them: putting
 * and taking are an exchange of a thread's own place for that one. So neither waits for the other,
 * and what a thread looks at is its own.
 */
#include <fovea/latest.h>
#include <math.h>
#include <stdatomic.h>

#include "base/abi.h"
#include "base/mem.h"
#include "platform/os/os_machine.h"

enum { PLACES = 3, FRESH = 4 }; /* FRESH: the place between has a frame that was not taken */

struct place {
    void *frame;
    double until; /* of fv_machine_seconds; INFINITY: always */
};

struct fovea_latest {
    fovea_latest_options o;
    struct place place[PLACES];
    uint32_t putting, taking;  /* places of the threads */
    _Atomic uint32_t between;  /* place, and FRESH */
    _Atomic uint32_t epoch;    /* raised when there may be something to take */
    _Atomic uint32_t sleeping; /* the thread that takes may sleep */
    _Atomic uint32_t ended;
    _Atomic uint64_t put, taken, replaced, expired, late;
    bool in_time; /* of the frame that was taken last nothing else was found */
};

fovea_status fovea_latest_create(fovea_latest **out, const fovea_latest_options *options)
{
    fovea_latest_options o = FOVEA_LATEST_OPTIONS_INIT;
    fovea_latest *l;
    FV_TRY(fv_require(out, "the place of the latest frame"));
    FV_TRY(FV_ABI_READ(o, options, FOVEA_LATEST_OPTIONS_INIT));
    FV_TRY(FV_MEM_NEW(&l, FV_MEM_PLAN, "the latest frame"));
    l->o = o;
    l->taking = 1;
    atomic_store(&l->between, 2);
    l->place[l->taking].until = INFINITY;
    *out = l;
    return FOVEA_OK;
}

static void drop(const fovea_latest *l, void *frame)
{
    if (l->o.drop)
        l->o.drop(l->o.ctx, frame);
}

void fovea_latest_free(fovea_latest *l)
{
    if (!l)
        return;
    const uint32_t between = atomic_load(&l->between);
    if (between & FRESH)
        drop(l, l->place[between & ~(uint32_t)FRESH].frame);
    fv_mem_free(l);
}

/* Either the thread that takes sees the new epoch before it sleeps, or it is seen sleeping. */
static void announce(fovea_latest *l)
{
    atomic_fetch_add(&l->epoch, 1);
    if (atomic_load(&l->sleeping))
        fv_machine_wake(&l->epoch);
}

fovea_status fovea_latest_put(fovea_latest *l, void *frame, double deadline)
{
    FV_TRY(fv_require(l, "the latest frame"));
    FV_TRY(fv_require(frame, "the frame"));
    if (!(deadline >= 0))
        return fv_fail(FOVEA_EINVAL, "a deadline of %g seconds; it is from now on, and 0 is none",
                       deadline);
    if (atomic_load(&l->ended))
        return fv_fail(FOVEA_EINVAL, "a frame after fovea_latest_end; make another object");
    struct place *p = &l->place[l->putting];
    p->frame = frame;
    p->until = deadline > 0 ? fv_machine_seconds() + deadline : INFINITY;
    atomic_fetch_add(&l->put, 1);
    const uint32_t old = atomic_exchange(&l->between, l->putting | FRESH);
    l->putting = old & ~(uint32_t)FRESH;
    announce(l);
    if (old & FRESH) {
        atomic_fetch_add(&l->replaced, 1);
        drop(l, l->place[l->putting].frame);
    }
    return FOVEA_OK;
}

void fovea_latest_end(fovea_latest *l)
{
    if (!l)
        return;
    atomic_store(&l->ended, 1);
    announce(l);
}

/* Whether there was one whose deadline has not passed. */
static bool take(fovea_latest *l, double now)
{
    if (!(atomic_load(&l->between) & FRESH))
        return false;
    l->taking = atomic_exchange(&l->between, l->taking) & ~(uint32_t)FRESH;
    const struct place *p = &l->place[l->taking];
    if (now <= p->until) {
        atomic_fetch_add(&l->taken, 1);
        l->in_time = true;
        return true;
    }
    atomic_fetch_add(&l->expired, 1);
    drop(l, p->frame);
    return false;
}

static void await_epoch(fovea_latest *l, uint32_t seen, double seconds)
{
    atomic_store(&l->sleeping, 1);
    fv_machine_sleep(&l->epoch, seen, seconds);
    atomic_store(&l->sleeping, 0);
}

fovea_status fovea_latest_take(fovea_latest *l, double timeout, void **frame)
{
    FV_TRY(fv_require(l, "the latest frame"));
    FV_TRY(fv_require(frame, "the place of the frame"));
    const double end = timeout < 0 ? INFINITY : fv_machine_seconds() + timeout;
    for (;;) {
        const uint32_t seen = atomic_load(&l->epoch);
        const bool ended = atomic_load(&l->ended); /* before the look at what was put before it */
        const double now = fv_machine_seconds();
        if (take(l, now)) {
            *frame = l->place[l->taking].frame;
            return FOVEA_OK;
        }
        if (ended) {
            *frame = NULL;
            return FOVEA_OK;
        }
        if (now >= end)
            return fv_fail(FOVEA_ETIMEOUT, "no frame came within %g seconds", timeout);
        await_epoch(l, seen, timeout < 0 ? -1 : end - now);
    }
}

fovea_status fovea_latest_wait(fovea_latest *l, fovea_plan *plan, fovea_ticket ticket)
{
    FV_TRY(fv_require(l, "the latest frame"));
    const double until = l->place[l->taking].until;
    const double left = until - fv_machine_seconds();
    const fovea_status status = fovea_wait(plan, ticket, until == INFINITY ? -1 : fmax(left, 0));
    const bool there = status == FOVEA_ETIMEOUT || status == FOVEA_OK;
    if (there && l->in_time && fv_machine_seconds() > until) {
        l->in_time = false;
        atomic_fetch_add(&l->late, 1);
    }
    return status;
}

fovea_status fovea_latest_query(const fovea_latest *l, fovea_latest_info *out)
{
    FV_TRY(fv_require(l, "the latest frame"));
    const fovea_latest_info info = {.struct_size = sizeof info,
                                    .put = atomic_load(&l->put),
                                    .taken = atomic_load(&l->taken),
                                    .replaced = atomic_load(&l->replaced),
                                    .expired = atomic_load(&l->expired),
                                    .late = atomic_load(&l->late)};
    return FV_ABI_WRITE(out, info, FOVEA_LATEST_INFO_INIT);
}
