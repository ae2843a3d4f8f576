/* gpu_attempt.h: a call of a driver's compiler on a thread of its own, so that the caller can give
 * up waiting for a compiler that does not return. Nothing can end such a thread. It has copies of
 * what it uses, except the device and the texts of programs, which must not be freed before it
 * ends. */
#ifndef FOVEA_GPU_GPU_ATTEMPT_H
#define FOVEA_GPU_GPU_ATTEMPT_H

#include <pthread.h>
#include <stdatomic.h>

#include "gpu/gpu_note.h"
#include "gpu/gpu_store.h"

typedef struct fv_gpu_attempt {
    const fv_gpu_compiler *compiler;
    fv_device *device;
    fv_gpu_program program; /* a copy with its own options */
    const char *entry;      /* the kernel to create; NULL: none */
    bool compiles;          /* begins by compiling the program */
    fv_gpu_note *note;      /* the caller's */
    /* Results, to be read after fv_gpu_attempt_ended: */
    fovea_status status;
    char message[FV_MESSAGE];
    void *built, *kernel;
    void *binary; /* the program's, after a kernel was created; NULL: the driver returns none */
    size_t size;
    double seconds;
    /* Of gpu_attempt.c: */
    pthread_t thread;
    _Atomic uint32_t done;
} fv_gpu_attempt;

/* Starts to create kernel `entry`, or none if it is NULL, of the program that `built` is; if
 * `built` is NULL, the program is compiled first. */
fovea_status fv_gpu_attempt_start(fv_gpu_attempt **out, const fv_gpu_compiler *compiler,
                                  fv_device *d, const fv_gpu_program *p, void *built,
                                  const char *entry);
/* Waits at most `limit` seconds, without the time for which the process had no processor because
 * others used it, but in all no longer than four times the limit. Returns whether the call has
 * returned and its thread has ended. */
bool fv_gpu_attempt_ended(fv_gpu_attempt *a, double limit);
/* Releases the attempt after it has ended, but not its results except the binary. */
void fv_gpu_attempt_free(fv_gpu_attempt *a);

#endif
