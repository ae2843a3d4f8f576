/* gpu_wait.h: waiting for what a device does without hanging with it. */
#ifndef FOVEA_GPU_GPU_WAIT_H
#define FOVEA_GPU_GPU_WAIT_H

#include <stdatomic.h>
#include <stdbool.h>

#include "device/backend.h"

/* State of a command that is waited for. */
enum fv_gpu_end {
    FV_GPU_DONE,
    FV_GPU_LATE,   /* it is not done yet */
    FV_GPU_FAILED, /* by the driver's error, or 0: it is not waited for any more */
    FV_GPU_UNKNOWN /* the driver does not say, by its error */
};

/* What an interface does for it. */
typedef struct fv_gpu_events {
    /* State of the command of an event; *error, 0 before, where it failed or is unknown. */
    enum fv_gpu_end (*query)(void *event, int *error);
    /* EDEVICE when the device was lost before. */
    fovea_status (*ready)(const fv_device *d);
    /* Marks it lost, because a command failed, or because the driver does not say (`unknown`). */
    fovea_status (*lose)(fv_device *d, int error, bool unknown);
} fv_gpu_events;

/* Looks at a command until it is done or failed, timeout seconds (negative: any number) have
 * passed, or *stop (may be NULL); about `expect` seconds pass before that. Leaves no message. */
enum fv_gpu_end fv_gpu_poll(const fv_gpu_events *of, void *event, double timeout, double expect,
                            const _Atomic bool *stop, int *error);
/* Waits for it, or until *lost; ETIMEOUT after timeout seconds. */
fovea_status fv_gpu_await(const fv_gpu_events *of, fv_device *d, void *event, double timeout,
                          double expect, const _Atomic bool *lost);

/* Sleeps between two polls of work that began `passed` s ago and is expected to take `expect` s;
 * not longer than `timeout` s (negative: no limit). *pause: in/out, length of the previous sleep in
 * s; start with 0. */
void fv_gpu_nap(double passed, double expect, double timeout, double *pause);
/* Seconds until a deadline on fv_machine_seconds(); negative stays so: there is none. */
double fv_gpu_left(double deadline);

#endif
