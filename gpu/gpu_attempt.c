/* gpu_attempt.c: calls a driver's compiler on a thread of its own. */
#include "gpu/gpu_attempt.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "platform/os/os_machine.h"

enum { STACK = 8 << 20 }; /* as large as a main thread's; some systems give threads only 128 KiB */

static fovea_status call(fv_gpu_attempt *a)
{
    const fv_gpu_compiler *by = a->compiler;
    if (a->compiles)
        FV_TRY(by->compile(a->device, &a->program, &a->built));
    if (!a->entry)
        return FOVEA_OK;
    FV_TRY(by->kernel(a->built, a->entry, &a->kernel));
    a->binary = by->binary(a->built, &a->size);
    return FOVEA_OK;
}

static void *run(void *arg)
{
    fv_gpu_attempt *a = arg;
    const fv_gpu_compiler *by = a->compiler;
    const double begin = fv_machine_seconds();
    fv_machine_name_thread("fovea-compile");
    if (by->enter && !by->enter(a->device)) {
        a->status = FOVEA_EDEVICE;
    } else {
        a->status = call(a);
        if (by->leave)
            by->leave();
    }
    if (a->status != FOVEA_OK)
        snprintf(a->message, sizeof a->message, "%s", fovea_error());
    a->seconds = fv_machine_seconds() - begin;
    atomic_store(&a->done, 1);
    fv_machine_wake(&a->done);
    return NULL;
}

static fovea_status start_thread(fv_gpu_attempt *a)
{
    pthread_attr_t with;
    size_t stack;
    if (pthread_attr_init(&with) != 0)
        return fv_fail(FOVEA_ENOMEM, "a compiler's thread cannot be started; free some memory");
    if (pthread_attr_getstacksize(&with, &stack) != 0 || stack < STACK)
        pthread_attr_setstacksize(&with, STACK);
    const int error = pthread_create(&a->thread, &with, run, a);
    pthread_attr_destroy(&with);
    return error ? fv_fail(FOVEA_ENOMEM,
                           "a compiler's thread cannot be started (%s); free some "
                           "memory, or allow the process more threads",
                           strerror(error))
                 : FOVEA_OK;
}

fovea_status fv_gpu_attempt_start(fv_gpu_attempt **out, const fv_gpu_compiler *compiler,
                                  fv_device *d, const fv_gpu_program *p, void *built,
                                  const char *entry)
{
    fv_gpu_attempt *a;
    FV_TRY(FV_MEM_NEW(&a, FV_MEM_DEVICE, "a compilation"));
    a->compiler = compiler;
    a->device = d;
    a->program = *p;
    a->program.options = NULL;
    a->entry = entry;
    a->built = built;
    a->compiles = !built;
    fovea_status status = fv_mem_text(&a->program.options, p->options, FV_MEM_DEVICE);
    FV_THEN(status, start_thread(a));
    FV_RETURN_MADE(out, a, fv_gpu_attempt_free, status);
}

/* Seconds of waiting that are left, `passed` seconds after it began. `waited`: what
 * fv_machine_waited returned when it began. */
static double seconds_left(double limit, double passed, double waited)
{
    enum { MOST = 4 }; /* other threads of the process may wait for processors, too */
    if (passed < limit)
        return limit - passed;
    if (passed >= MOST * limit)
        return 0;
    const double since = fv_machine_waited() - waited;
    return limit + (since > 0 ? since : 0) - passed; /* `since` may be NAN */
}

bool fv_gpu_attempt_ended(fv_gpu_attempt *a, double limit)
{
    enum { POLLS = 100 }; /* in a second at most */
    const double begin = fv_machine_seconds();
    const double waited = limit > 0 ? fv_machine_waited() : 0;
    while (!atomic_load(&a->done)) {
        const double left = seconds_left(limit, fv_machine_seconds() - begin, waited);
        if (left <= 0)
            return false;
        fv_machine_sleep(&a->done, 0, left > 1. / POLLS ? left : 1. / POLLS);
    }
    pthread_join(a->thread, NULL);
    return true;
}

void fv_gpu_attempt_free(fv_gpu_attempt *a)
{
    fv_mem_free(a->binary);
    fv_mem_free(a->program.options);
    fv_mem_free(a);
}
