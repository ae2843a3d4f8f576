/* gpu_wait.c: see gpu_wait.h. */
#include "gpu/gpu_wait.h"

#include "platform/os/os_machine.h"

/* The next sleep. Most of the expected time is slept at once, the rest in short sleeps that grow
 * with the time passed, so that the delay stays a small share of the frame's time. */
static double next_pause(double passed, double expect, double last)
{
    const double most = 200e-6 + passed / 100, grown = last * 1.5;
    if (passed < 0.9 * expect)
        return 0.9 * expect - passed;
    return grown < 20e-6 ? 20e-6 : grown < most ? grown : most;
}

void fv_gpu_nap(double passed, double expect, double timeout, double *pause)
{
    *pause = next_pause(passed, expect, *pause);
    fv_machine_nap(timeout >= 0 && timeout - passed < *pause ? timeout - passed : *pause);
}

double fv_gpu_left(double deadline)
{
    if (deadline < 0)
        return -1;
    const double seconds = deadline - fv_machine_seconds();
    return seconds > 0 ? seconds : 0;
}

enum fv_gpu_end fv_gpu_poll(const fv_gpu_events *of, void *event, double timeout, double expect,
                            const _Atomic bool *stop, int *error)
{
    const double begin = fv_machine_seconds();
    for (double pause = 0;;) {
        *error = 0;
        const enum fv_gpu_end end = of->query(event, error);
        if (end != FV_GPU_LATE)
            return end;
        if (stop && *stop)
            return FV_GPU_FAILED;
        const double passed = fv_machine_seconds() - begin;
        if (timeout >= 0 && passed >= timeout)
            return FV_GPU_LATE;
        fv_gpu_nap(passed, expect, timeout, &pause);
    }
}

fovea_status fv_gpu_await(const fv_gpu_events *of, fv_device *d, void *event, double timeout,
                          double expect, const _Atomic bool *lost)
{
    int error;
    /* Once another thread has found the device lost, the command may never end. */
    const enum fv_gpu_end end = fv_gpu_poll(of, event, timeout, expect, lost, &error);
    if (end == FV_GPU_DONE)
        return FOVEA_OK;
    if (end == FV_GPU_LATE)
        return fv_fail(FOVEA_ETIMEOUT, "the frame did not finish within %.3f s; wait again",
                       timeout);
    if (end == FV_GPU_FAILED && error == 0)
        return of->ready(d);
    return of->lose(d, error, end == FV_GPU_UNKNOWN);
}
