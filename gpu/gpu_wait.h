/* gpu_wait.h: waits for a device without hanging if the device does. */
#ifndef FOVEA_GPU_GPU_WAIT_H
#define FOVEA_GPU_GPU_WAIT_H

#include <stdatomic.h>
#include <stdbool.h>

#include "device/backend.h"

/* The state of a command that is waited for. */
enum fv_gpu_end {
    FV_GPU_DONE,
    FV_GPU_LATE,   /* it is not done yet */
    FV_GPU_FAILED, /* the driver reported an error; or 0, when waiting was stopped */
    FV_GPU_UNKNOWN /* the driver cannot report the state and returns an error */
};

/* The functions that OpenCL or CUDA implements for waiting. */
typedef struct fv_gpu_events {
    /* The state of an event's command. *error, which is 0 before, is set if the command failed or
     * its state is unknown. */
    enum fv_gpu_end (*query)(void *event, int *error);
    /* EDEVICE if the device has been lost. */
    fovea_status (*ready)(const fv_device *d);
    /* Marks the device lost, because a command failed or because the driver cannot report its state
     * (`unknown`). */
    fovea_status (*lose)(fv_device *d, int error, bool unknown);
} fv_gpu_events;

/* Polls a command until it is done or failed, until `timeout` seconds have passed (negative: no
 * limit), or until *stop (may be NULL). The command is expected to take about `expect` seconds.
 * Sets no error message. */
enum fv_gpu_end fv_gpu_poll(const fv_gpu_events *of, void *event, double timeout, double expect,
                            const _Atomic bool *stop, int *error);
/* Waits for a command, or until *lost; ETIMEOUT after `timeout` seconds. */
fovea_status fv_gpu_await(const fv_gpu_events *of, fv_device *d, void *event, double timeout,
                          double expect, const _Atomic bool *lost);

/* Sleeps between two polls of work that began `passed` seconds ago and is expected to take `expect`
 * seconds; not longer than `timeout` seconds (negative: no limit). *pause: length of the previous
 * sleep, updated; begin with 0. */
void fv_gpu_nap(double passed, double expect, double timeout, double *pause);
/* Seconds until a deadline by fv_machine_seconds(). Negative deadlines, which mean none, stay
 * negative. */
double fv_gpu_left(double deadline);

#endif
