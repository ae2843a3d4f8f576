/* backend.h: the interface of a backend: one table of functions per kind of device.
 *
 * The functions are called in this order: probe, open, then alloc, kernels and bind while planning,
 * then queue_open and prepare, then, for every frame, upload, submit, download and wait. Only the
 * last four are called per frame; they neither allocate nor search. A plan uses one device. */
#ifndef FOVEA_SRC_BACKEND_H
#define FOVEA_SRC_BACKEND_H

#include <stdatomic.h>
#include <stdbool.h>

#include <fovea/external_images.h>

#include "base/status.h"
#include "base/thread.h"
#include "ops/kernel.h"

#define FV_BACKEND_ABI 9

typedef struct fv_device fv_device; /* an open device of the backend */
/* fovea_device_options.max_compile_seconds: its default (the slowest compilation that was seen took
 * 23 s, on a fast processor), and its largest value. */
#define FV_COMPILE_SECONDS 120.
#define FV_COMPILE_SECONDS_MOST 86400.

typedef struct fv_bound fv_bound; /* a step that is bound to a kernel and memory */
typedef struct fv_queue fv_queue;
typedef uint64_t fv_fence;

/* A device buffer. */
typedef struct fv_mem {
    void *host; /* NULL if the host cannot access it */
    uint64_t size;
    uint64_t handle;
} fv_mem;

/* The kind of memory that holds an operand. */
enum fv_space {
    FV_SPACE_NONE,     /* the operand is absent */
    FV_SPACE_BUFFER,   /* `offset` bytes into `mem` */
    FV_SPACE_LOCAL,    /* `offset` bytes into the worker's own block, or into `mem` on a
                          throughput device (OpenCL, CUDA); holds rows of the current chunk, or a ring
                        */
    FV_SPACE_EXTERNAL, /* `offset` bytes into the caller's memory of external slot `slot` */
};

typedef struct fv_ref {
    uint8_t space;
    uint32_t slot;
    uint64_t offset;
    uint64_t frame_stride; /* for a plan's values: stride between the frames of a batch in bytes */
    const fv_mem *mem;
} fv_ref;

enum fv_kind {
    FV_KIND_ROW,     /* the row that the call computes */
    FV_KIND_WHOLE,   /* all rows of a complete tensor */
    FV_KIND_STATE,   /* a merged state of a reduction */
    FV_KIND_WEIGHT,  /* a constant weight */
    FV_KIND_PARTIAL, /* one partial state per group */
    FV_KIND_LOCAL,   /* a window of the token grid around the row; the call's pointer is at the
                        base */
};

typedef struct fv_operand {
    fv_ref ref;
    uint8_t kind, type; /* enum fv_kind, enum fv_type of an element */
    uint64_t stride;    /* row stride (ROW) or group stride (PARTIAL) in bytes, else 0 */
    /* LOCAL space in a sweep of row tiles: number of grid rows in the ring; grid row y is at (y +
     * shift) % ring. */
    uint32_t ring, shift;
    const fv_rows *band; /* LOCAL space in a banded sweep: the rows of each band */
    /* Nonzero if the sweep overwrites the operand: number of rows at each end of a unit that are
     * saved before the sweep begins. Rows of a neighbouring unit are read from `saved`: there, the
     * head of unit u is border number 2 u, and its tail is border number 2 u + 1. */
    uint32_t border;
    fv_ref saved;
} fv_operand;

/* The data that a backend needs to prepare one step. */
typedef struct fv_launch {
    const fv_kernel *kernel;
    fv_args args;
    fv_operand operand[FV_OPERANDS];
    uint32_t index;     /* index of the step, as in fovea_plan_step */
    uint32_t rows;      /* number of rows of the whole step */
    uint32_t tile_rows; /* stepwise: rows and columns of one unit, multiples of the numbers that
                           the op allows */
    uint32_t tile_cols;
    uint32_t cols;             /* extent of the second dimension: columns, heads, or 1 */
    uint32_t halo;             /* number of grid rows that are computed beyond the sweep's row
                                  tile, on each side */
    const fv_rows *band;       /* rows of each band of a banded sweep */
    const fv_mem *scratch_mem; /* throughput device: temporary memory of the kernel, which all steps
                                  use in turn */
} fv_launch;

/* The first member of every backend's bound step: the data that all backends have. */
struct fv_bound {
    fv_launch l;
};

/* Bound steps between two barriers (streamed), or with a barrier after each step (stepwise).
 * Reduction group g owns chunks [g*chunks/groups, (g+1)*chunks/groups); a unit of a streamed sweep
 * owns groups in the same way. A sweep that reduces nothing has one group per chunk.
 *
 * Row tiles: chunks are whole grid rows, and for the tile [y0, y1) a step computes its grid rows
 * [y0 + halo, y1 + halo), within the grid and within `halo` rows of those that the unit owns. */
typedef struct fv_sweep {
    fv_bound *const *step; /* frame f of a batch: step[f * frame_stride + k] */
    uint32_t steps;
    uint32_t batch, frame_stride; /* number of frames for which every step is computed (0: one),
                                     and the stride of their steps */
    uint32_t rows, chunk, groups;
    uint32_t partials;     /* fv_call.partials of its REDUCE steps */
    uint32_t runs;         /* number of units of a streamed sweep */
    uint32_t width, reach; /* row tiles: tokens in a grid row, and the largest `halo`; else 0 */
    uint64_t block;        /* streamed: bytes of a worker's LOCAL values */
    fv_ref blocks;         /* the LOCAL values of all workers */
    bool saves;            /* operands have borders, which are saved before the sweep begins */
    bool banded;           /* streamed: unit u is band u, and the `group` of a call is its band */
    bool streamed;
} fv_sweep;

/* The part of the planned work that a run does: sweeps end after `rows` rows, batches after `batch`
 * frames, and slots from `slots` on are unused. */
typedef struct fv_portion {
    uint32_t rows, batch, slots;
} fv_portion;
#define FV_ALL ((fv_portion){UINT32_MAX, UINT32_MAX, UINT32_MAX})

/* Memory of the caller that a plan reads or writes; there is one for each external slot. */
typedef struct fv_slot {
    uint64_t row_bytes; /* bytes of a packed row, as in the plan's values */
    uint32_t rows;
    bool output;
    /* Copies through the queue's own buffers: a hung device must not touch memory that the caller
     * has freed after the queue was closed. */
    bool staged;
} fv_slot;

/* Buffer for the events of a frame, in the caller's memory. */
typedef struct fv_trace {
    fovea_trace_event *event;
    size_t capacity;
    _Atomic size_t used; /* number of events of the last frame, including those that exceeded
                            `capacity` and were dropped */
} fv_trace;

/* Returns the next free event, or NULL. */
static inline fovea_trace_event *fv_trace_next(fv_trace *t)
{
    const size_t at = atomic_fetch_add_explicit(&t->used, 1, memory_order_relaxed);
    return at < t->capacity ? &t->event[at] : NULL;
}

/* The caller's memory, as fovea_external_image_plane describes it. */
typedef struct fv_import_request {
    fovea_external_image_kind kind;
    void *memory; /* NULL: `fd` identifies the memory */
    int fd;
    uint64_t size;                  /* number of bytes that frames may read */
    const void *host;               /* address in the host; NULL: the host cannot access the
                                       memory */
    uint32_t width, height, planes; /* size and planes of the picture */
} fv_import_request;

/* Imported memory: the first member of each backend's own type. */
typedef struct fv_import {
    fovea_transfer transfer; /* NONE or DEVICE */
    const char *method;      /* static text; for DEVICE, `reason` is one too */
    const char *reason;
} fv_import;

typedef struct fv_limits {
    uint32_t threads; /* number of threads that share the units of a frame */
    bool borrows;     /* commands use the caller's memory until the frame is done */
    bool locked;      /* host memory that frames need must be locked in main memory */
    /* The device is parallel itself: it uses one thread, and calls with many rows are fastest. A
     * step runs over all rows, or over super-chunks if there is not enough memory. */
    bool throughput;
    uint32_t partials; /* throughput device: maximum partials of a reduction, enough to keep the
                          device busy */
    uint32_t at_once;  /* number of partials, summed over heads, that the device computes at the
                          same time; 0: unknown */
    uint32_t frames;   /* maximum number of frames in flight */
    uint64_t largest;  /* maximum bytes of a buffer; UINT64_MAX: no limit */
    uint32_t rows;     /* maximum rows of a call; larger calls are split, even if they take
                          little time */
    bool half_sums;    /* products with float16 weights may accumulate in float16, see ref_gemm.c */
    bool bf16;         /* has instructions that multiply bfloat16 */
    bool int8;         /* a processor has int8 instructions; another device has int8 kernels, see
                          ref_gemm.c */
    bool int8_attention; /* softmax attention is faster with int8 products than with others */
} fv_limits;

typedef struct fv_backend { /* More than 25 fields: a table of functions */
    const char *name;
    uint32_t abi;
    /* Returns the number of existing devices, which is 0 if there is no runtime. Sets *out to the
     * info of device `index` if it exists. */
    size_t (*probe)(size_t index, fovea_device_info *out);
    /* Returns a line of text about other devices that were found, or about why there is no device.
     */
    const char *(*status)(void);
    /* Opens a device. `which` is the part of its id after "name:", or "" for the first device. If
     * this returns FOVEA_ENODEV, the caller replaces the message by a list of devices. */
    fovea_status (*open)(fv_device **out, const char *which, const fovea_device_options *options);
    void (*close)(fv_device *d);
    void (*describe)(const fv_device *d, fovea_device_info *out);
    void (*limits)(const fv_device *d, fv_limits *out);
    /* Returns the bytes of the device's memory that may be allocated now, leaving a share for
     * others. NULL, or a result of UINT64_MAX, means that they are not known, so the caller assumes
     * the memory in fovea_device_info. */
    uint64_t (*free_memory)(fv_device *d);
    fovea_status (*alloc)(fv_device *d, uint64_t size, const char *what, fv_mem *out);
    void (*release)(fv_device *d, fv_mem *m);
    /* Called between frames: copies `size` bytes between host memory and the beginning of a buffer;
     * src NULL writes zeros. */
    fovea_status (*write)(fv_device *d, fv_mem *m, const void *src, uint64_t size);
    fovea_status (*read)(fv_device *d, const fv_mem *m, void *dst, uint64_t size);
    /* Called between frames: lets the device read the caller's memory in place, or copy it by
     * itself. Returns FOVEA_ENOTSUP with the reason if it cannot; the host then copies. NULL if
     * frames run on the host; upload_from and read_event are then NULL too. */
    fovea_status (*import)(fv_device *d, const fv_import_request *r, fv_import **out);
    void (*forget)(fv_device *d, fv_import *m);
    /* Returns the backend's part of the registry. If d is NULL, *features are those of the first
     * device of this kind. */
    const fv_kernel *(*kernels)(fv_device *d, int *count, uint32_t *features);
    const char *(*level)(uint32_t needs); /* returns the name of the level that the bits of a
                                             kernel's needs mean */
    /* Compiles the programs that these launches need and that are not compiled yet, several at a
     * time. It cannot fail: `bind` compiles missing programs again, and reports why it cannot.
     * NULL: there is nothing to compile. */
    void (*compile)(fv_device *d, const fv_launch *l, uint32_t count);
    /* Returns FOVEA_ENOTSUP if the device works but cannot run this kernel; another kernel may
     * work. FOVEA_ETIMEOUT means the same for now: a compiler has not returned from the kernel's
     * program, so the program is not compiled. */
    fovea_status (*bind)(fv_device *d, const fv_launch *l, fv_bound **out);
    void (*unbind)(fv_device *d, fv_bound *b);
    /* Opens an in-order queue for a plan. Each worker gets `scratch` bytes for kernels. `slot`
     * describes the external operands. `phases` is the maximum number of barriers per frame. */
    fovea_status (*queue_open)(fv_device *d, uint64_t scratch, const fv_slot *slot, uint32_t slots,
                               uint32_t phases, fv_queue **out);
    void (*queue_close)(fv_queue *q);
    /* Called between frames: prepares to run these sweeps over at most `most`, so that the first
     * frame costs no more than later ones. Other sweeps may be run too. NULL: nothing to prepare.
     */
    fovea_status (*prepare)(fv_queue *q, const fv_sweep *s, uint32_t count, fv_portion most);
    /* Upload and download only enqueue, and host memory must stay valid until wait. They belong to
     * the frame of the next submit. Up to fv_limits.frames frames are in flight. External slot
     * `slot` is read from (upload) or written to (download) host memory with a row stride of
     * `stride` bytes. */
    fovea_status (*upload)(fv_queue *q, uint32_t slot, const void *src, uint64_t stride);
    /* Uploads from plane `plane` of imported memory, from byte `at` on, after `ready` has
     * completed, which is an event of the device's API or NULL. */
    fovea_status (*upload_from)(fv_queue *q, uint32_t slot, fv_import *m, uint32_t plane,
                                uint64_t at, uint64_t stride, void *ready);
    fovea_status (*submit)(fv_queue *q, const fv_sweep *s, uint32_t count, fv_portion most,
                           fv_fence *out);
    fovea_status (*download)(fv_queue *q, uint32_t slot, void *dst, uint64_t stride);
    /* Waits at most `timeout` seconds, or without limit if `timeout` is negative. Sets *seconds to
     * the frame's time, see `timed`. Frames complete in the order of their submits. Waiting again
     * for a completed fence returns FOVEA_OK. */
    fovea_status (*wait)(fv_queue *q, fv_fence f, double timeout, double *seconds);
    /* Returns the API's event, for a frame in flight, that completes when the frame's inputs have
     * been read. */
    void *(*read_event)(const fv_queue *q, fv_fence f);
    /* Gets this event as a sync_file that the caller owns. NULL: the API does not support
     * sync_files. */
    fovea_status (*read_fence)(fv_queue *q, fv_fence f, int *fd);
    /* Records the calls of every frame that is submitted after this call, or of none if t is NULL.
     * May be called only without a frame in flight; with a trace, one frame is in flight at a time.
     */
    fovea_status (*trace)(fv_queue *q, fv_trace *t);
    /* Sets whether `wait` reports the device's own time of later frames, which may make them
     * slower. NULL: `wait` always reports it. May be called only without a frame in flight. A
     * device without a clock continues to report the host's time. */
    fovea_status (*timed)(fv_queue *q, bool wanted);
    /* Measures the device's peak rates, without frames. */
    fovea_status (*rates)(fv_device *d, fovea_rates *out);
    /* Runs units 0 to `units` - 1 of phase 0 on the threads that run frames, and returns when they
     * are done; slots are below fv_limits.threads. NULL if frames do not run on the host. */
    void (*spread)(fv_device *d, uint32_t units, fv_unit_fn fn, void *arg);
} fv_backend;

extern const fv_backend *const fv_backends[]; /* ends with NULL; the CPU is first */

struct fovea_device {
    const fv_backend *backend;
    fv_device *device;
    fovea_device_info info;
    _Atomic uint32_t refs; /* number of references: that of the caller, and those of objects that
                              were made with the device */
};

/* device.c: adds a reference, from any thread, and returns `d`. Releasing the last reference closes
 * the device. */
fovea_device *fv_device_ref(fovea_device *d);
void fv_device_unref(fovea_device *d); /* NULL is allowed */

#endif
