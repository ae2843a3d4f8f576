/* cl_device.h: an open OpenCL device, its programs, steps and queues, shared by the backend's
 * files.
 */
#ifndef FOVEA_CL_CL_DEVICE_H
#define FOVEA_CL_CL_DEVICE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "cl/cl_loader.h"
#include "cl/cl_record.h"
#include "gpu/gpu_store.h"
#include "gpu/gpu_wait.h"

enum {
    /* Most rows per call for which no work-item exceeds llvmpipe's limit of some 65 000 loop
     * iterations in all. */
    FV_CL_FEW_ROWS = 256,
    FV_CL_FEW_LOOPS = 60000, /* iterations that it does run */
};

/* What a device says about itself. */
typedef struct fv_cl_limits {
    uint64_t memory, largest, local;
    uint64_t texels; /* most texels of an image over a buffer; 0: no images */
    uint32_t units;
    uint32_t group; /* most work-items in a work-group */
    bool cpu, unified;
    bool vectors;   /* a CPU that works best with vectors within a work-item and few work-items */
    bool own_local; /* local memory is separate from main memory */
    bool ends_long_loops; /* the driver ends work-items that loop for long, without an error */
} fv_cl_limits;

struct fv_device {
    int index; /* in the order of fv_cl_devices */
    fv_cl_place place;
    cl_context context;
    cl_command_queue service; /* between frames */
    cl_mem nothing;           /* in place of absent operands */
    fv_cl_limits limits;
    fv_cl_recorder recorder;
    uint32_t features; /* enum fv_need */
    int dot;           /* which of the int8 dot products of dot.cl (FV_DOT) works; 0: none */
    /* int8 dot products are fast enough for attention, where they are only a part of the work. */
    bool int8_attention;
    char quirks[FV_GPU_WORDS];
    char compiler[FV_GPU_WORDS]; /* as in fovea_device_info */
    double dispatch; /* approximate limit of a dispatch in seconds; 0: dispatches are never cut */
    /* lost: a call failed, and every later one is refused. hung: the driver also did not return,
     * and objects that it may still use are not released. */
    _Atomic bool lost, hung;
    fv_gpu_store store;
    pthread_mutex_t lock;
    fv_gpu_rates rates; /* under `lock` */
};

/* A bound step: its kernel objects, with all arguments set that do not change from call to call. */
typedef struct fv_cl_bound {
    fv_gpu_step step;
    cl_kernel kernel, pre_pass[FV_GPU_PASSES]; /* NULL: no more */
    cl_mem table;
    cl_mem image; /* of fv_gpu_code.image; NULL: none */
    /* The arguments that do change, as they were set for the last call. */
    bool set;
    cl_mem buffer[FV_OPERANDS]; /* of the caller's matrices */
    cl_uint at[FV_OPERANDS][2], call[4];
} fv_cl_bound;

static inline cl_mem fv_cl_buffer(const fv_mem *m)
{
    return (cl_mem)(uintptr_t)m->handle;
}

/* cl_event.c */
/* EDEVICE if the device has been lost. */
fovea_status fv_cl_ready(const fv_device *d);
/* Handles a failed call after which the device cannot be relied on: marks it lost, unless the
 * reason was a lack of memory. `what` may be NULL. */
fovea_status fv_cl_lose(fv_device *d, cl_int error, const char *call, const char *what);
#define FV_CL_RUN(d, what, call, arguments)                                                        \
    do {                                                                                           \
        cl_int error_ = fv_cl.call arguments;                                                      \
        if (error_ != CL_SUCCESS)                                                                  \
            return fv_cl_lose(d, error_, #call, what);                                             \
    } while (0)
/* fv_gpu_poll and fv_gpu_await for a command whose queue was flushed. */
enum fv_gpu_end fv_cl_poll(cl_event e, double timeout, int *error);
fovea_status fv_cl_await(fv_device *d, cl_event e, double timeout, double expect);
/* Waits for a command, at most as long as a transfer of `bytes` may take; after that the device
 * counts as hung. Releases the event. */
fovea_status fv_cl_finish_event(fv_device *d, cl_event e, uint64_t bytes);
/* Flushes `queue`, and waits in the same way for its last command. */
fovea_status fv_cl_finish(fv_device *d, cl_command_queue queue, cl_event e, uint64_t bytes);

/* cl_memory.c */
/* Flags for buffers that the host writes: in memory that host and device share, if there is any. */
cl_mem_flags fv_cl_flags(const fv_device *d);
/* Maps the first `size` bytes of a buffer; on failure *out does not change. */
fovea_status fv_cl_map(fv_device *d, cl_command_queue queue, cl_mem buffer, cl_map_flags flags,
                       uint64_t size, void **out);
/* Unmaps it. *done becomes an event to wait for; if `done` is NULL, the function waits itself. */
fovea_status fv_cl_unmap(fv_device *d, cl_command_queue queue, cl_mem buffer, void *mapped,
                         cl_event *done);
/* On failure *out does not change. `data` and `what` may be NULL. */
fovea_status fv_cl_queue_make(cl_command_queue *out, const fv_device *d,
                              cl_command_queue_properties properties);
fovea_status fv_cl_buffer_make(cl_mem *out, const fv_device *d, cl_mem_flags flags, uint64_t size,
                               void *data, const char *what);
void fv_cl_buffer_free(const fv_device *d, cl_mem buffer); /* NULL is fine; images too */
/* An image over a buffer of `bytes`, with FV_CL_TEXEL bytes per texel, for kernels that read it. If
 * the driver cannot make one, fails with ENOTSUP, and *out does not change. */
enum { FV_CL_TEXEL = 16 };
fovea_status fv_cl_image_make(cl_mem *out, const fv_device *d, cl_mem buffer, uint64_t bytes,
                              const char *what);

/* cl_info.c */
/* Bytes of the device's text and its terminating 0. At most size - 1 bytes of the text are stored
 * in `out`; "" on failure. */
void fv_cl_device_text(const fv_cl_place *p, cl_device_info what, char *out, size_t size);
bool fv_cl_has_extension(const fv_cl_place *p, const char *name);
/* A function of an extension; NULL if the driver has none of this name. */
void *fv_cl_extension_function(const fv_cl_place *p, const char *name);
void fv_cl_read_limits(const fv_cl_place *p, fv_cl_limits *out);
void fv_cl_fill_info(fovea_device_info *out, int index, const fv_cl_place *p);
/* A text of everything that identifies device, driver and its library. */
fovea_status fv_cl_identify(char **out, const fv_cl_place *p);

/* cl_probe.c */
/* Sets d->features according to what small kernels are seen to do, and notes in d->quirks what does
 * not work. */
void fv_cl_probe(fv_device *d);

/* cl_rates.c */
/* Approximate rates of the device, measured on the first call. */
fv_gpu_rates fv_cl_measure(fv_device *d);
/* Peak rates, measured now. */
fovea_status fv_cl_rates_best(fv_device *d, fovea_rates *out);

/* cl_clblast.c: CLBlast, a library of matrix products for OpenCL, opened at run time. */
/* Whether CLBlast is installed and uses the OpenCL library that fv_cl was taken from. Opens it when
 * first called. Thread-safe. */
bool fv_cl_clblast_found(void);
/* Has CLBlast release its cached programs, and the contexts that they hold. */
void fv_cl_clblast_forget(void);

/* cl_program.c */
extern const fv_gpu_compiler fv_cl_compiler_cl;
/* Creates a kernel object of the step's program, with work-groups of `group`. *limit: the largest
 * that the compiled kernel allows. */
fovea_status fv_cl_kernel_create(cl_kernel *out, size_t *limit, fv_device *d, const fv_launch *l,
                                 const char *entry, uint32_t group);

/* cl_bind.c */
fovea_status fv_cl_bind(fv_device *d, const fv_launch *l, fv_bound **out);
void fv_cl_unbind(fv_device *d, fv_bound *b);
fovea_status fv_cl_set_arg(const fv_cl_bound *b, uint32_t index, size_t size, const void *value);
/* Indices of the arguments after the operands, as FV_CALL of prelude.cl orders them. */
enum {
    FV_CL_TABLE,
    FV_CL_ROW0,
    FV_CL_ROWS,
    FV_CL_FIRST,
    FV_CL_GROUPS,
    FV_CL_DIM,
    FV_CL_U,
    FV_CL_F,
    FV_CL_RING
};

/* cl_queue.c */
fovea_status fv_cl_queue_open(fv_device *d, uint64_t scratch, const fv_slot *slot, uint32_t slots,
                              uint32_t phases, fv_queue **out);
void *fv_cl_read_event(const fv_queue *q, fv_fence f);
fovea_status fv_cl_read_fence(fv_queue *q, fv_fence f, int *fd);
fovea_status fv_cl_queue_trace(fv_queue *q, fv_trace *t);
fovea_status fv_cl_queue_timed(fv_queue *q, bool wanted);
fovea_status fv_cl_prepare(fv_queue *q, const fv_sweep *s, uint32_t count, fv_portion most);

#endif
