/* gpu_queue.h: frames on a GPU: transfers the caller's inputs to the device, enqueues the calls of
 * all sweeps, and transfers the results back. OpenCL and CUDA implement a table of functions for
 * it.
 *
 * Two frames may be in flight. Activations exist once, so frames are computed one after the other;
 * inputs and outputs exist twice, so transfers overlap the computation:
 *
 *     upload    input n+1
 *     compute   frame n ............
 *     download                        output n-1
 */
#ifndef FOVEA_GPU_GPU_QUEUE_H
#define FOVEA_GPU_GPU_QUEUE_H

#include "gpu/gpu_host.h"

enum { FV_GPU_FRAMES = 2 }; /* in flight */

/* One of the caller's matrices in one frame. */
typedef struct fv_gpu_external {
    char *host; /* the caller's */
    uint64_t stride;
    uint64_t buffer; /* the device's handle */
    /* An import that is read in place of `host`; NULL: none. The matrix then begins `at` bytes into
     * plane `plane`, and may be read once `ready`, an event of the interface, is done; NULL: at
     * once. */
    fv_import *import;
    uint64_t at;
    uint32_t plane;
    void *ready;
    /* Packed host memory; or NULL. The device transfers the matrix through it, or accesses it
     * directly. */
    char *staging;
} fv_gpu_external;

typedef struct fv_gpu_frame {
    fv_gpu_external *external; /* one per slot */
    fv_portion most;
    double begin;
} fv_gpu_frame;

/* The functions that OpenCL or CUDA implements. Frame `f` is 0 or 1; while submitting it is
 * q->now. */
typedef struct fv_gpu_interface {
    size_t size; /* bytes of the interface's queue, which begins with an fv_queue */
    /* EDEVICE if the device has been lost. */
    fovea_status (*ready)(const fv_device *d);
    /* Creates the device's queues and the buffers of all frames. */
    fovea_status (*open)(fv_queue *q);
    /* Frees everything that `open` has created, even if only a part. No frame is in flight. False
     * if the device may still access the queue's memory, which is then not freed. */
    bool (*close)(fv_queue *q);
    /* Enqueues the copy of an input's first `rows` rows, from staging memory if it has any. For an
     * imported input, enqueues what has to be done before kernels read it. */
    fovea_status (*upload)(fv_queue *q, uint32_t slot, uint32_t rows);
    /* Enqueues the computation of the sweeps, by fv_gpu_enqueue, after the inputs. */
    fovea_status (*compute)(fv_queue *q, const fv_sweep *s, uint32_t count);
    fovea_status (*dispatch)(fv_queue *q, fv_gpu_step *step, const fv_gpu_dispatch *now);
    /* Makes the device begin with what was enqueued so far; NULL: it begins by itself. */
    fovea_status (*flush)(fv_queue *q);
    /* Enqueues the copy of an output, after the computation. */
    fovea_status (*download)(fv_queue *q, uint32_t slot, uint32_t rows);
    /* Called when all of the frame is enqueued. */
    fovea_status (*submitted)(fv_queue *q);
    /* Waits for the frame and its outputs, at most until a deadline; then ETIMEOUT. It is expected
     * to take about `expect` seconds. Sets q->seen to when the device was seen to be done. */
    fovea_status (*await)(fv_queue *q, uint32_t f, double deadline, double expect);
    /* Called for a frame that is done: returns its seconds on the device, 0 if the driver does not
     * report them. */
    double (*complete)(fv_queue *q, uint32_t f);
    /* Waits until nothing of the frame is running, so that its memory may be freed. Work that does
     * not finish is abandoned, with all memory that it may access. `whole`: all of the frame was
     * enqueued. */
    void (*stop)(fv_queue *q, uint32_t f, bool whole);
} fv_gpu_interface;

#define FV_GPU_PATIENCE                                                                            \
    2.0 /* seconds that `stop` waits; a dispatch takes far less, and a hung driver never finishes  \
         */

struct fv_queue {
    const fv_gpu_interface *interface;
    fv_device *device;
    fv_slot *slot;
    uint32_t slots;
    fv_gpu_frame frame[FV_GPU_FRAMES]; /* number n at n % FV_GPU_FRAMES */
    fv_fence submitted, done;
    double expect;   /* seconds that a frame is expected to take */
    double finished; /* when the last frame was done, including the host's part of it */
    double seen;     /* when the device was seen to be done, as noted by `await` */
    /* for the frame that is being submitted: */
    uint32_t now;
    fovea_status failed;
};

/* These implement the functions of fv_backend, which has their contracts. */
fovea_status fv_gpu_queue_open(fv_queue **out, const fv_gpu_interface *interface, fv_device *d,
                               const fv_slot *slot, uint32_t slots);
void fv_gpu_queue_close(fv_queue *q); /* NULL is fine */
fovea_status fv_gpu_upload(fv_queue *q, uint32_t slot, const void *src, uint64_t stride);
fovea_status fv_gpu_upload_from(fv_queue *q, uint32_t slot, fv_import *m, uint32_t plane,
                                uint64_t at, uint64_t stride, void *ready);
fovea_status fv_gpu_submit(fv_queue *q, const fv_sweep *s, uint32_t count, fv_portion most,
                           fv_fence *out);
fovea_status fv_gpu_download(fv_queue *q, uint32_t slot, void *dst, uint64_t stride);
fovea_status fv_gpu_wait(fv_queue *q, fv_fence fence, double timeout, double *seconds);

/* Enqueues the sweeps' calls. A call that would take too long at once is cut into pieces of nearly
 * equal size. */
fovea_status fv_gpu_enqueue(fv_queue *q, const fv_sweep *s, uint32_t count);
/* A key that identifies the work of frame q->now: its sweeps, steps, rows and the buffers of its
 * slots. Never 0. */
uint64_t fv_gpu_frame_key(const fv_queue *q, const fv_sweep *s, uint32_t count);
/* Bytes of a slot's matrix without gaps between rows. */
uint64_t fv_gpu_slot_bytes(const fv_slot *slot);
/* Rows of the slot that frame `f` has; 0: the frame's batch does not use the slot. */
uint32_t fv_gpu_slot_rows(const fv_queue *q, uint32_t f, uint32_t slot);

#endif
