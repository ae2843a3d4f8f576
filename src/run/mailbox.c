/* mailbox.c: hands frames from a thread that puts them to a thread that takes them. A mailbox holds
 * at most one frame, the newest.
 *
 * There are three slots. Each thread owns one, and the third is shared. Putting and taking exchange
 * a thread's own slot for the shared one. Neither thread therefore waits for the other, and a
 * thread reads and writes only its own slot. */
#include <fovea/mailbox.h>
#include <math.h>
#include <stdatomic.h>

#include "base/abi.h"
#include "base/mem.h"
#include "platform/os/os_machine.h"

enum { PLACES = 3, FRESH = 4 }; /* FRESH: the shared slot has a frame that has not been taken */

struct place {
    void *frame;
    double until; /* deadline on the clock of fv_machine_seconds; INFINITY: no deadline */
};

struct fovea_mailbox {
    fovea_mailbox_options o;
    struct place place[PLACES];
    uint32_t putting, taking;  /* slots of the threads */
    _Atomic uint32_t between;  /* shared slot, and FRESH */
    _Atomic uint32_t epoch;    /* incremented when there may be a frame to take, or at the end */
    _Atomic uint32_t sleeping; /* the taking thread sleeps, or is about to sleep */
    _Atomic uint32_t ended;
    _Atomic uint64_t put, taken, replaced, expired, late;
    bool in_time; /* the frame that was taken last has not been counted as late */
};

fovea_status fovea_mailbox_create(fovea_mailbox **out, const fovea_mailbox_options *options)
{
    fovea_mailbox_options o = FOVEA_MAILBOX_OPTIONS_INIT;
    fovea_mailbox *m;
    FV_TRY(fv_require(out, "the pointer to the mailbox"));
    FV_TRY(FV_ABI_READ(o, options, FOVEA_MAILBOX_OPTIONS_INIT));
    FV_TRY(FV_MEM_NEW(&m, FV_MEM_PLAN, "the mailbox"));
    m->o = o;
    m->taking = 1;
    atomic_store(&m->between, 2);
    m->place[m->taking].until = INFINITY;
    *out = m;
    return FOVEA_OK;
}

static void drop(const fovea_mailbox *m, void *frame)
{
    if (m->o.drop)
        m->o.drop(m->o.ctx, frame);
}

void fovea_mailbox_free(fovea_mailbox *m)
{
    if (!m)
        return;
    const uint32_t between = atomic_load(&m->between);
    if (between & FRESH)
        drop(m, m->place[between & ~(uint32_t)FRESH].frame);
    fv_mem_free(m);
}

/* Wakes the taking thread if needed: either that thread sees the new epoch before it sleeps, or
 * this one sees `sleeping`. */
static void announce(fovea_mailbox *m)
{
    atomic_fetch_add(&m->epoch, 1);
    if (atomic_load(&m->sleeping))
        fv_machine_wake(&m->epoch);
}

fovea_status fovea_mailbox_put(fovea_mailbox *m, void *frame, double deadline)
{
    FV_TRY(fv_require(m, "the mailbox"));
    FV_TRY(fv_require(frame, "the frame"));
    if (!(deadline >= 0))
        return fv_fail(FOVEA_EINVAL,
                       "the deadline is %g seconds from now; it must be positive, or 0 for none",
                       deadline);
    if (atomic_load(&m->ended))
        return fv_fail(FOVEA_EINVAL,
                       "a frame was put after fovea_mailbox_end; create a new mailbox");
    struct place *p = &m->place[m->putting];
    p->frame = frame;
    p->until = deadline > 0 ? fv_machine_seconds() + deadline : INFINITY;
    atomic_fetch_add(&m->put, 1);
    const uint32_t old = atomic_exchange(&m->between, m->putting | FRESH);
    m->putting = old & ~(uint32_t)FRESH;
    announce(m);
    if (old & FRESH) {
        atomic_fetch_add(&m->replaced, 1);
        drop(m, m->place[m->putting].frame);
    }
    return FOVEA_OK;
}

void fovea_mailbox_end(fovea_mailbox *m)
{
    if (!m)
        return;
    atomic_store(&m->ended, 1);
    announce(m);
}

/* Takes the shared frame. Returns false if there is no new frame, or if its deadline has passed and
 * it was dropped. */
static bool take(fovea_mailbox *m, double now)
{
    if (!(atomic_load(&m->between) & FRESH))
        return false;
    m->taking = atomic_exchange(&m->between, m->taking) & ~(uint32_t)FRESH;
    const struct place *p = &m->place[m->taking];
    if (now <= p->until) {
        atomic_fetch_add(&m->taken, 1);
        m->in_time = true;
        return true;
    }
    atomic_fetch_add(&m->expired, 1);
    drop(m, p->frame);
    return false;
}

static void await_epoch(fovea_mailbox *m, uint32_t seen, double seconds)
{
    atomic_store(&m->sleeping, 1);
    fv_machine_sleep(&m->epoch, seen, seconds);
    atomic_store(&m->sleeping, 0);
}

fovea_status fovea_mailbox_take(fovea_mailbox *m, double timeout, void **frame)
{
    FV_TRY(fv_require(m, "the mailbox"));
    FV_TRY(fv_require(frame, "the pointer to the frame"));
    const double end = timeout < 0 ? INFINITY : fv_machine_seconds() + timeout;
    for (;;) {
        const uint32_t seen = atomic_load(&m->epoch);
        const bool ended = atomic_load(&m->ended); /* read first, so that frames that were put
                                                      before the end are still taken */
        const double now = fv_machine_seconds();
        if (take(m, now)) {
            *frame = m->place[m->taking].frame;
            return FOVEA_OK;
        }
        if (ended) {
            *frame = NULL;
            return FOVEA_OK;
        }
        if (now >= end)
            return fv_fail(FOVEA_ETIMEOUT, "no frame came within %g seconds", timeout);
        await_epoch(m, seen, timeout < 0 ? -1 : end - now);
    }
}

fovea_status fovea_mailbox_wait(fovea_mailbox *m, fovea_plan *plan, fovea_ticket ticket)
{
    FV_TRY(fv_require(m, "the mailbox"));
    const double until = m->place[m->taking].until;
    const double left = until - fv_machine_seconds();
    const fovea_status status = fovea_wait(plan, ticket, until == INFINITY ? -1 : fmax(left, 0));
    const bool there = status == FOVEA_ETIMEOUT || status == FOVEA_OK;
    if (there && m->in_time && fv_machine_seconds() > until) {
        m->in_time = false;
        atomic_fetch_add(&m->late, 1);
    }
    return status;
}

fovea_status fovea_mailbox_query(const fovea_mailbox *m, fovea_mailbox_info *out)
{
    FV_TRY(fv_require(m, "the mailbox"));
    const fovea_mailbox_info info = {.struct_size = sizeof info,
                                     .put = atomic_load(&m->put),
                                     .taken = atomic_load(&m->taken),
                                     .replaced = atomic_load(&m->replaced),
                                     .expired = atomic_load(&m->expired),
                                     .late = atomic_load(&m->late)};
    return FV_ABI_WRITE(out, info, FOVEA_MAILBOX_INFO_INIT);
}
