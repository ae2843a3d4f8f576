/* cl_device.h: an open OpenCL device, its programs, steps and queues: what the backend's files
 * share.
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
    /* Rows for which no work-item loops more often than llvmpipe lets it, some 65 000 times in
     * all. */
    FV_CL_FEW_ROWS = 256,
};

/* What a device says of itself. */
typedef struct fv_cl_limits {
    uint64_t memory, largest, local;
    uint64_t texels; /* of an image over a buffer at most; 0: there are no images */
    uint32_t units;
    uint32_t group; /* work-items of a work-group */
    bool cpu, unified;
    bool vectors;   /* a CPU whose vectors are those of a work-item, and not many work-items */
    bool own_local; /* local memory is not main memory */
    bool few_turns; /* a work-item that loops for long is ended without a word */
} fv_cl_limits;

struct fv_device {
    int index; /* in the order of fv_cl_devices */
    fv_cl_place place;
    cl_context context;
    cl_command_queue service; /* between frames */
    cl_mem nothing;           /* in place of absent operands */
    fv_cl_limits limits;
    fv_cl_recorder recorder;
    uint32_t features;   /* enum fv_need */
    int dot;             /* which words for products of int8 work, FV_DOT of dot.cl; 0: none */
    bool int8_attention; /* they are fast enough for attention, of which they are but a part */
    char quirks[FV_GPU_WORDS];
    double dispatch; /* approximate limit of a dispatch in seconds; 0: dispatches are never cut */
    /* lost: a call failed, and every later one is refused. hung: the driver also did not return,
     * and objects that it may still use are not released. */
    _Atomic bool lost, hung;
    fv_gpu_store store;
    pthread_mutex_t lock;
    fv_gpu_rates rates; /* under `lock` */
};

/* A step: its kernel objects, with all arguments set that do not change from call to call. */
typedef struct fv_cl_bound {
    fv_gpu_step step;
    cl_kernel kernel, ahead[FV_GPU_PASSES]; /* NULL: no more */
    cl_mem table;
    cl_mem image; /* of fv_gpu_code.image; NULL: none */
    /* Those that change, as they were set for the last call. */
    bool set;
    cl_mem buffer[FV_OPERANDS]; /* of the caller's matrices */
    cl_uint at[FV_OPERANDS][2], call[4];
} fv_cl_bound;

static inline cl_mem fv_cl_buffer(const fv_mem *m)
{
    return (cl_mem)(uintptr_t)m->handle;
}

/* cl_event.c */
/* EDEVICE when the device was lost before. */
fovea_status fv_cl_ready(const fv_device *d);
/* A call that failed, after which the device cannot be relied on: marks it lost, unless memory was
 * short. `what` may be NULL. */
fovea_status fv_cl_lose(fv_device *d, cl_int error, const char *call, const char *what);
#define FV_CL_RUN(d, what, call, arguments)                                                        \
    do {                                                                                           \
        cl_int error_ = fv_cl.call arguments;                                                      \
        if (error_ != CL_SUCCESS)                                                                  \
            return fv_cl_lose(d, error_, #call, what);                                             \
    } while (0)
/* fv_gpu_poll and fv_gpu_await of a command whose queue was flushed. */
enum fv_gpu_end fv_cl_poll(cl_event e, double timeout, int *error);
fovea_status fv_cl_await(fv_device *d, cl_event e, double timeout, double expect);
/* Waits as long as `bytes` may take; then the device counts as hung. Releases the event.
 */
fovea_status fv_cl_finish_event(fv_device *d, cl_event e, uint64_t bytes);
/* The same for the last command of `queue`, which is flushed. */
fovea_status fv_cl_finish(fv_device *d, cl_command_queue queue, cl_event e, uint64_t bytes);

/* cl_memory.c */
/* Of buffers that the host fills: in memory that both see, where there is such. */
cl_mem_flags fv_cl_flags(const fv_device *d);
/* Maps the first `size` bytes of a buffer; *out stays as it was on failure. */
fovea_status fv_cl_map(fv_device *d, cl_command_queue queue, cl_mem buffer, cl_map_flags flags,
                       uint64_t size, void **out);
/* Ends that; *done: an event to wait for, NULL: waits here. */
fovea_status fv_cl_unmap(fv_device *d, cl_command_queue queue, cl_mem buffer, void *mapped,
                         cl_event *done);
/* *out stays as it was on failure; `data` and `what` may be NULL. */
fovea_status fv_cl_queue_make(cl_command_queue *out, const fv_device *d,
                              cl_command_queue_properties properties);
fovea_status fv_cl_buffer_make(cl_mem *out, const fv_device *d, cl_mem_flags flags, uint64_t size,
                               void *data, const char *what);
void fv_cl_buffer_free(const fv_device *d, cl_mem buffer); /* NULL is fine; images too */
/* An image over a buffer of `bytes`, FV_CL_TEXEL of them a texel, for kernels that read it;
 * *out stays as it was on failure: ENOTSUP, with a message, where the driver makes none. */
enum { FV_CL_TEXEL = 16 };
fovea_status fv_cl_image_make(cl_mem *out, const fv_device *d, cl_mem buffer, uint64_t bytes,
                              const char *what);

/* cl_info.c */
/* Bytes are those of the text and its end; at most size - 1 of the text, "" on failure. */
void fv_cl_device_text(const fv_cl_place *p, cl_device_info what, char *out, size_t size);
bool fv_cl_has_extension(const fv_cl_place *p, const char *name);
/* A function of an extension; NULL where the driver has none of that name. */
void *fv_cl_extension_function(const fv_cl_place *p, const char *name);
void fv_cl_read_limits(const fv_cl_place *p, fv_cl_limits *out);
void fv_cl_fill_info(fovea_device_info *out, int index, const fv_cl_place *p);
/* Everything that device, driver and its library say of themselves. */
fovea_status fv_cl_identify(char **out, const fv_cl_place *p);

/* cl_probe.c */
/* Sets d->features by what tiny kernels do, and notes what they do not do. */
void fv_cl_probe(fv_device *d);

/* cl_rates.c */
/* Approximate rates of the device, measured on the first call. */
fv_gpu_rates fv_cl_measure(fv_device *d);
/* Peak rates, measured now. */
fovea_status fv_cl_rates_best(fv_device *d, fovea_rates *out);

/* cl_clblast.c: CLBlast, a library of matrix products for OpenCL, opened at run time. */
/* Whether it is there and works through the OpenCL library that fv_cl was taken from. Opens it when
 * first called. Thread-safe. */
bool fv_cl_clblast_found(void);
/* Drops the programs that it keeps, and with them the contexts that they keep. */
void fv_cl_clblast_forget(void);

/* cl_program.c */
extern const fv_gpu_compiler fv_cl_compiler_cl;
/* A kernel object of the step's program with work-groups of `group`; *limit: the most that the
 * compiled kernel allows. */
fovea_status fv_cl_kernel_create(cl_kernel *out, size_t *limit, fv_device *d, const fv_launch *l,
                                 const char *entry, uint32_t group);

/* cl_bind.c */
fovea_status fv_cl_bind(fv_device *d, const fv_launch *l, fv_bound **out);
void fv_cl_unbind(fv_device *d, fv_bound *b);
fovea_status fv_cl_set_arg(const fv_cl_bound *b, uint32_t index, size_t size, const void *value);
/* Index of the first argument after the operands, FV_CALL in prelude.cl. */
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
