/* backend.h: what a backend gives the core: one table of functions per kind of device.
 *
 * Life cycle: probe, open, (alloc, kernels, bind) while planning, queue_open, prepare, then per
 * frame upload, submit, download, wait. The last group is all that runs per frame: it allocates
 * nothing and looks nothing up. A plan lives on one device.
 */
#ifndef FOVEA_SRC_BACKEND_H
#define FOVEA_SRC_BACKEND_H

#include <stdatomic.h>
#include <stdbool.h>

#include <fovea/external_images.h>

#include "base/status.h"
#include "base/thread.h"
#include "ops/kernel.h"

#define FV_BACKEND_ABI 9

typedef struct fv_device fv_device; /* the backend's view of an open device */
typedef struct fv_bound fv_bound;   /* a step, frozen */
typedef struct fv_queue fv_queue;
typedef uint64_t fv_fence;

/* A device buffer. */
typedef struct fv_mem {
    void *host; /* NULL where the host cannot see it */
    uint64_t size;
    uint64_t handle;
} fv_mem;

/* Where an operand lies. */
enum fv_space {
    FV_SPACE_NONE,     /* operand absent */
    FV_SPACE_BUFFER,   /* `offset` bytes into `mem` */
    FV_SPACE_LOCAL,    /* `offset` bytes into the worker's own block, or into `mem` on a throughput
                          device: rows of the current chunk, or a ring */
    FV_SPACE_EXTERNAL, /* the caller's memory, number `slot`; `offset` bytes in */
};

typedef struct fv_ref {
    uint8_t space;
    uint32_t slot;
    uint64_t offset;
    uint64_t frame_stride; /* of a plan's values: bytes from one frame of a batch to the next */
    const fv_mem *mem;
} fv_ref;

enum fv_kind {
    FV_KIND_ROW,     /* the row that is being computed */
    FV_KIND_WHOLE,   /* every row of a finished tensor */
    FV_KIND_STATE,   /* a merged reduction */
    FV_KIND_WEIGHT,  /* constant */
    FV_KIND_PARTIAL, /* one state per group */
    FV_KIND_LOCAL,   /* a window of the token grid around the row; the call's pointer is at the base
                      */
};

typedef struct fv_operand {
    fv_ref ref;
    uint8_t kind, type; /* enum fv_kind, enum fv_type of an element */
    uint64_t stride;    /* bytes from row to row (ROW), from group to group (PARTIAL), else 0 */
    /* LOCAL space in a sweep of row tiles: grid rows that the ring holds, grid row y at
     * (y + shift) % ring. */
    uint32_t ring, shift;
    const fv_rows *band; /* LOCAL space in a banded sweep: the rows that each band holds */
    /* The sweep overwrites it: rows at both ends of a unit, which are saved before; else 0. Rows of
     * a neighbour are read at `saved`: the head of unit u is number 2 u of the borders there, its
     * tail number 2 u + 1. */
    uint32_t border;
    fv_ref saved;
} fv_operand;

/* Everything a backend needs to freeze one step. */
typedef struct fv_launch {
    const fv_kernel *kernel;
    fv_args args;
    fv_operand operand[FV_OPERANDS];
    uint32_t index;     /* of the step, as fovea_plan_step counts */
    uint32_t rows;      /* of the whole step */
    uint32_t tile_rows; /* stepwise: rows and columns of one unit; multiples that the op allows */
    uint32_t tile_cols;
    uint32_t cols;             /* extent of the second dimension: columns, heads, or 1 */
    uint32_t halo;             /* grid rows computed before its sweep's row tile needs them */
    const fv_rows *band;       /* rows of each band of a banded sweep */
    const fv_mem *scratch_mem; /* throughput device: the kernel's scratch, shared by steps */
} fv_launch;

/* Every backend's bound step begins with what it was bound from. */
struct fv_bound {
    fv_launch l;
};

/* A run of bound steps between two barriers (streamed), or with a barrier after each (stepwise).
 * Reduction group g owns chunks [g*chunks/groups, (g+1)*chunks/groups); a unit of a streamed sweep
 * owns groups in the same way. A sweep that reduces nothing has as many groups as chunks.
 *
 * Row tiles: chunks are whole grid rows, and for the tile [y0, y1) a step computes its grid rows
 * [y0 + halo, y1 + halo), within the grid and within `halo` rows of those that the unit owns. */
typedef struct fv_sweep {
    fv_bound *const *step; /* of frame f of a batch: step[f * apart + k] */
    uint32_t steps;
    uint32_t batch, frame_stride; /* frames that every step is computed for; 0: one */
    uint32_t rows, chunk, groups;
    uint32_t partials;     /* fv_call.partials of its REDUCE steps */
    uint32_t runs;         /* units of a streamed sweep */
    uint32_t width, reach; /* row tiles: tokens in a grid row, the largest `halo`; else 0 */
    uint64_t block;        /* streamed: bytes of a worker's LOCAL values, */
    fv_ref blocks;         /* all workers' */
    bool saves;            /* operands have borders, which are saved before it begins */
    bool banded;           /* streamed: unit u is band u, whose number is a call's group */
    bool streamed;
} fv_sweep;

/* What a run has of what was planned: sweeps end after `rows` rows, batches after `batch` frames,
 * and slots from `slots` on are of none of them. */
typedef struct fv_portion {
    uint32_t rows, batch, slots;
} fv_portion;
#define FV_ALL ((fv_portion){UINT32_MAX, UINT32_MAX, UINT32_MAX})

/* Memory of the caller that a plan reads or writes: one per external slot. */
typedef struct fv_slot {
    uint64_t row_bytes; /* of a row without gaps, as the plan's strides have them */
    uint32_t rows;
    bool output;
    /* Use own staging buffers: if the device hangs, it must not touch caller memory that was freed
     * after the queue was closed. */
    bool staged;
} fv_slot;

/* Events of the calls of a frame, in the caller's memory. */
typedef struct fv_trace {
    fovea_trace_event *event;
    size_t capacity;
    _Atomic size_t used; /* events of the last frame; those beyond `capacity` were left out */
} fv_trace;

/* The next free event, or NULL. */
static inline fovea_trace_event *fv_trace_next(fv_trace *t)
{
    const size_t at = atomic_fetch_add_explicit(&t->used, 1, memory_order_relaxed);
    return at < t->capacity ? &t->event[at] : NULL;
}

/* Memory of the caller's, as fovea_external_image_plane names it. */
typedef struct fv_import_request {
    fovea_external_image_kind kind;
    void *memory; /* or */
    int fd;
    uint64_t size;                  /* bytes that frames may read */
    const void *host;               /* what the host sees of it; NULL: nothing */
    uint32_t width, height, planes; /* of the picture */
} fv_import_request;

/* Such memory as a device has it: what the backend's own begins with. */
typedef struct fv_import {
    fovea_transfer transfer; /* NONE or DEVICE */
    const char *method;      /* static text, as is the reason of DEVICE */
    const char *reason;
} fv_import;

typedef struct fv_limits {
    uint32_t threads; /* that share the units of a frame */
    bool borrows;     /* its commands use the caller's memory until the frame is done */
    bool locked;      /* host memory that frames need is to be locked in main memory */
    /* A device with a parallelism of its own: one thread, whose calls do best with many rows. A
     * step runs over all of them, or over super-chunks where memory is short. */
    bool throughput;
    uint32_t partials; /* throughput device: most partials of a reduction, enough to keep it busy */
    uint32_t at_once;  /* partials of all heads that it computes at the same time; 0: unknown */
    uint32_t frames;   /* that may be in flight */
    uint64_t largest;  /* bytes of a buffer at most; UINT64_MAX: no limit of its own */
    uint32_t rows;     /* of a call at most: a call of more is cut, however short its time */
    bool half_sums;    /* products with float16 weights may be summed in float16, see ref_gemm.c */
    bool bf16;         /* its instructions multiply bfloat16 */
    bool int8;         /* a processor: instructions for int8; others: kernels, see ref_gemm.c */
    bool int8_attention; /* softmax attention is faster by products of int8 than by others */
} fv_limits;

typedef struct fv_backend { /* More than 25 fields: a table of functions */
    const char *name;
    uint32_t abi;
    /* How many devices exist, 0 if there is no runtime; *out gets device `index` if it does. */
    size_t (*probe)(size_t index, fovea_device_info *out);
    /* One line: what else was found, or why there is no device. */
    const char *(*status)(void);
    /* `which`: what follows "name:" in the device's id, "" for the first. If this
     * returns ENODEV, the caller replaces the message by a list of devices. */
    fovea_status (*open)(fv_device **out, const char *which, const fovea_device_options *options);
    void (*close)(fv_device *d);
    void (*describe)(const fv_device *d, fovea_device_info *out);
    void (*limits)(const fv_device *d, fv_limits *out);
    /* Bytes that may be taken of the device's memory now, a share left for others. NULL, or
     * UINT64_MAX: not known, it may be as many as fovea_device_info has. */
    uint64_t (*free_memory)(fv_device *d);
    fovea_status (*alloc)(fv_device *d, uint64_t size, const char *what, fv_mem *out);
    void (*release)(fv_device *d, fv_mem *m);
    /* Between frames: copy `size` bytes between host memory and the begin of a buffer; src NULL
     * writes zeros. */
    fovea_status (*write)(fv_device *d, fv_mem *m, const void *src, uint64_t size);
    fovea_status (*read)(fv_device *d, const fv_mem *m, void *dst, uint64_t size);
    /* Between frames: makes the device read the caller's memory in place, or copy it by itself.
     * ENOTSUP says why it cannot; the host then copies it. NULL, like upload_from and read_event,
     * if frames run on the host. */
    fovea_status (*import)(fv_device *d, const fv_import_request *r, fv_import **out);
    void (*forget)(fv_device *d, fv_import *m);
    /* Its lines of the registry; d NULL: with the features of the first device of this kind. */
    const fv_kernel *(*kernels)(fv_device *d, int *count, uint32_t *features);
    const char *(*level)(uint32_t needs); /* name of the level that a kernel's needs amount to */
    /* Compiles what these launches need that is not there, several programs at a time. Nothing
     * fails: what could not be compiled is compiled again by `bind`, which says why not. NULL:
     * nothing is compiled. */
    void (*compile)(fv_device *d, const fv_launch *l, uint32_t count);
    /* ENOTSUP: this kernel is none for the device, which works: another may be. */
    fovea_status (*bind)(fv_device *d, const fv_launch *l, fv_bound **out);
    void (*unbind)(fv_device *d, fv_bound *b);
    /* One in-order queue per plan. Each worker has `scratch` bytes for kernels; external operands
     * `slot`; `phases` barriers per frame at most. */
    fovea_status (*queue_open)(fv_device *d, uint64_t scratch, const fv_slot *slot, uint32_t slots,
                               uint32_t phases, fv_queue **out);
    void (*queue_close)(fv_queue *q);
    /* Between frames: makes ready to run these sweeps over `most`, so that the first frame costs
     * what every frame does. Other sweeps run too. NULL: there is nothing to do. */
    fovea_status (*prepare)(fv_queue *q, const fv_sweep *s, uint32_t count, fv_portion most);
    /* These only enqueue; host memory stays valid until wait. Uploads and downloads belong to the
     * frame of the next submit; up to fv_limits.frames of them are in flight. External slot `slot`
     * is read from (upload) or written to (download) host memory with `stride` bytes from row to
     * row. */
    fovea_status (*upload)(fv_queue *q, uint32_t slot, const void *src, uint64_t stride);
    /* The same for plane `plane` of imported memory, `at` bytes in, once `ready` is done: an event
     * of the device's interface, or NULL. */
    fovea_status (*upload_from)(fv_queue *q, uint32_t slot, fv_import *m, uint32_t plane,
                                uint64_t at, uint64_t stride, void *ready);
    fovea_status (*submit)(fv_queue *q, const fv_sweep *s, uint32_t count, fv_portion most,
                           fv_fence *out);
    fovea_status (*download)(fv_queue *q, uint32_t slot, void *dst, uint64_t stride);
    /* Bounded wait; negative: without bound. *seconds: of the frame, see `timed`. Frames are done
     * in the order of their submits; a fence that was waited for is OK again. */
    fovea_status (*wait)(fv_queue *q, fv_fence f, double timeout, double *seconds);
    /* The interface's event of a frame in flight that is done when its inputs were read. */
    void *(*read_event)(const fv_queue *q, fv_fence f);
    /* The same as a sync_file, which is the caller's; NULL: this interface gives none. */
    fovea_status (*read_fence)(fv_queue *q, fv_fence f, int *fd);
    /* Notes the calls of every frame that is submitted from now on; NULL: of none. No frame is in
     * flight, and with a trace there is one at a time. */
    fovea_status (*trace)(fv_queue *q, fv_trace *t);
    /* Whether `wait` is to tell the device's own seconds of frames from now on, although that may
     * make them slower; NULL: it does anyhow. No frame is in flight. A device that has no clock
     * leaves it at the host's. */
    fovea_status (*timed)(fv_queue *q, bool wanted);
    /* Measures the device's peak rates, without frames. */
    fovea_status (*rates)(fv_device *d, fovea_rates *out);
    /* Runs all units below `units` of phase 0 on the threads that run frames, and returns when they
     * are done; slots are below fv_limits.threads. NULL where frames do not run on the host. */
    void (*spread)(fv_device *d, uint32_t units, fv_unit_fn fn, void *arg);
} fv_backend;

extern const fv_backend *const fv_backends[]; /* NULL at the end; the CPU first */

struct fovea_device {
    const fv_backend *backend;
    fv_device *device;
    fovea_device_info info;
    _Atomic uint32_t refs; /* the caller's, and those of what was made on it */
};

/* device.c: counted, from any thread; returns `d`. The last one closes it. */
fovea_device *fv_device_ref(fovea_device *d);
void fv_device_unref(fovea_device *d); /* NULL is fine */

#endif
