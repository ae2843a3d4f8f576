/* devices.h: devices, their kernels and peak rates, and the cache of kernels that were compiled on
 * this machine. A part of fovea.h, whose rules hold here.
 */
#ifndef FOVEA_DEVICES_H
#define FOVEA_DEVICES_H

#include <fovea/errors.h>

FOVEA_BEGIN_DECLS

typedef struct fovea_device fovea_device;

typedef struct fovea_device_info {
    size_t struct_size;
    char id[32];                /* what fovea_device_open takes: "cpu", "cl:0", "cuda:0" */
    char name[128];             /* "AMD EPYC 9755" */
    char features[64];          /* ISA level or device features: "avx512" */
    uint32_t units;             /* processors that this process may use, or compute units */
    uint32_t core_kinds;        /* kinds of cores, fastest first; 1 on a symmetric machine */
    uint32_t performance_cores; /* processors that are at least half as fast as the fastest */
    uint64_t memory;            /* bytes it can address */
    uint64_t max_buffer;        /* bytes of its largest single buffer; 0: no limit of its own */
    /* Of devices that are not the CPU, else "" and 0: */
    char driver[128];      /* the driver and its version */
    uint64_t local_memory; /* bytes that a work-group shares; 0: none apart from main memory */
    uint32_t group_limit;  /* most work-items of a work-group */
    char quirks[256];      /* what was found missing or wrong, and is worked around */
    /* Nonzero: the device multiplies bfloat16, or int8, with native instructions. Zero: such
     * products still work, computed in a wider type. OpenCL's claim is tested when the device is
     * opened. A CPU whose bfloat16 instructions are slower than float32's reports 0 unless
     * fovea_device_options.isa asks for them. */
    int bf16, int8;
    int reserved;      /* where earlier versions have padding; 0 */
    char imports[256]; /* how it has pictures in memory of others (external_images.h): what
                          fovea_external_image_info.method may be, "; " between them. Of the CPU "":
                          it reads what the host does */
} fovea_device_info;
#define FOVEA_DEVICE_INFO_INIT FOVEA_INIT(fovea_device_info, )

/* Device `index` of this machine, from 0: the CPU, then those of OpenCL and CUDA. Returns 0 past
 * the end. Drivers are asked once in a process, by the first call for an index beyond 0.
 * Thread-safe. */
FOVEA_API int fovea_device_list(size_t index, fovea_device_info *out);

/* A remark on backend `index`, from 0: its driver, or why it found no device. One line; NULL past
 * the end. Static text. Thread-safe. */
FOVEA_API const char *fovea_backend_status(size_t index);

typedef struct fovea_kernel_info {
    size_t struct_size;
    const char *name;      /* "gemm_f32_14x32_avx512" */
    const char *op;        /* "gemm" */
    const char *mechanism; /* "elu1", or "any" */
    const char *isa;       /* "scalar", "avx2", ... or the device's kind */
    int usable;            /* nonzero: on this machine */
} fovea_kernel_info;
#define FOVEA_KERNEL_INFO_INIT FOVEA_INIT(fovea_kernel_info, )

/* Kernel `index` of all backends, from 0; returns 0 past the end. Static texts. Thread-safe. */
FOVEA_API int fovea_kernel_list(size_t index, fovea_kernel_info *out);

/* A thread pool of the caller's: calls fn(arg, i) for every i in [0, n), in any order, on any
 * threads, at the same time or one after the other, and returns when all calls have returned. n is
 * at most `threads` of the device's options. */
typedef void fovea_parallel_for_fn(void (*fn)(void *arg, size_t i), void *arg, size_t n, void *ctx);

typedef struct fovea_device_options {
    size_t struct_size;
    uint32_t threads;  /* workers, the calling thread included; 0: one per performance core, at most
                          a cgroup's quota rounded up (2 for a quota of 1.5 processors). A number
                          that is given is not limited by the quota */
    const char *isa;   /* highest level to use: "scalar", "avx2", "avx-vnni", "avx512",
                          "avx512-vnni", "avx512-bf16", "neon", "neon-fp16", "neon-sdot",
                          "neon-dot", "neon-i8mm", "rvv"; NULL: FOVEA_ISA of the environment,
                          else the best there is */
    const char *cores; /* "big" (default): those at least half as fast as the fastest; "little": the
                          slowest kind; "all"; or a list: "4-7" or "0,2". Where there are enough of
                          them, every worker keeps to one, away from the caller's */
    fovea_parallel_for_fn *parallel_for; /* runs the work instead of the device's own threads; needs
                                         `threads` */
    void *parallel_ctx;                  /* its `ctx` */
    /* The fields above are the CPU's, those below of devices that compile their kernels. */
    double max_dispatch_seconds; /* approximate limit of one dispatch, because the device may also
                                    draw the screen. 0: 0.02; no limit on processors (also through
                                    OpenCL) and on CUDA cards without a display */
    const char *cache;           /* folder of compiled kernels, made private to the user; NULL:
                                    FOVEA_CACHE of the environment, else fovea/kernels in
                                    $XDG_CACHE_HOME or ~/.cache; "": none */
    /* For the CPU again, for frames that have a deadline. ENOMEM and ENOTSUP name the limit that
     * the system sets this process, and how to raise it. */
    int lock_memory;   /* nonzero: keeps activations, packed weights and workers' stacks in main
                          memory; a program that swaps must lock its own code and stacks */
    uint32_t priority; /* real-time priority (SCHED_FIFO) of the workers, 1 to 99; 0: as the
                          calling thread's. That one takes part in every frame: give it the
                          same */
    const char *thread_name; /* workers are called NAME-1, NAME-2, ...: 10 characters at most; NULL:
                                "fovea" */
    /* Of OpenCL: a cl_context of this device that the caller has, in which pictures and events of
     * the caller's can be used; it is retained. Its handles are those of the OpenCL library that
     * Fovea opens, the system's. NULL: one of the device's own. */
    void *context;
} fovea_device_options;
#define FOVEA_DEVICE_OPTIONS_INIT FOVEA_INIT(fovea_device_options, )

/* Opens a device by id ("cpu", "cl:0", "cl:Mali", "cuda:0") or "auto". `options` may be NULL.
 * ENODEV if there is no device of that id, EINVAL for options that this machine cannot provide.
 * Thread-safe. */
FOVEA_API fovea_status fovea_device_open(fovea_device **out, const char *id,
                                         const fovea_device_options *options);
/* Plans, states and trainers keep what they need: a device may be closed before them, and is
 * released with the last of them. Thread-safe. */
FOVEA_API void fovea_device_close(fovea_device *device);
/* Thread-safe. */
FOVEA_API fovea_status fovea_device_describe(const fovea_device *device, fovea_device_info *out);
/* Workers that a plan of this device uses. Thread-safe. */
FOVEA_API uint32_t fovea_device_threads(const fovea_device *device);

/* The peak rates of a device, all workers together. */
typedef struct fovea_rates {
    size_t struct_size;
    double flops; /* float32 operations per second, in registers; a multiply-add counts as two */
    double read;  /* bytes per second read from its memory */
    double copy;  /* bytes per second copied in its memory, those read and those written */
    /* Of products of bfloat16 with float32 sums and of int8 with int32 sums, by the instructions
     * that the device has for them; `flops` where it has none, or they are not measured. */
    double bf16, int8;
} fovea_rates;
#define FOVEA_RATES_INIT FOVEA_INIT(fovea_rates, )

/* Measures them, in a fraction of a second. ENOMEM, EDEVICE. One thread at a time, and while no
 * plan of the device runs: that would lower the rates. */
FOVEA_API fovea_status fovea_device_rates(fovea_device *device, fovea_rates *out);

/* ---------------------------------------------------------------------------------------------
 * Compiled kernels in memory, for a program that keeps them itself instead of in a folder
 */

/* Those that the device's plans have used so far. *size gets their bytes (0 on a device that
 * compiles nothing); they are written to `data` unless it is NULL. EINVAL when `capacity` is less.
 * Thread-safe. */
FOVEA_API fovea_status fovea_cache_export(fovea_device *device, void *data, size_t capacity,
                                          size_t *size);
/* Hands them to the device, before plans are made; `data` need not outlive the call. Kernels of
 * another device, driver or version of this library are skipped. EFORMAT when they are damaged.
 * Thread-safe. */
FOVEA_API fovea_status fovea_cache_import(fovea_device *device, const void *data, size_t size);

/* ---------------------------------------------------------------------------------------------
 * The folder of compiled kernels, of whichever device: thread-safe
 *
 * `folder` NULL: FOVEA_CACHE of the environment, else the default; "": none, which is empty. A
 * folder that does not exist is empty and is not made; EIO for one that is not private to this
 * user.
 */

/* The path that NULL stands for. EINVAL when `capacity` bytes are too few. */
FOVEA_API fovea_status fovea_cache_folder(char *out, size_t capacity);

typedef struct fovea_cache_entry {
    size_t struct_size;
    const char *file;    /* its path */
    const char *device;  /* that it was compiled for */
    const char *program; /* "gemm.cl" */
    uint64_t size;       /* bytes of the file */
    const char *problem; /* why it is not used; "" when it is sound */
} fovea_cache_entry;
/* Nonzero ends the list. Texts live until it returns. */
typedef int fovea_cache_fn(const fovea_cache_entry *entry, void *payload);
/* Calls `fn` for every entry. The driver may still reject a sound one when it is loaded. */
FOVEA_API fovea_status fovea_cache_list(const char *folder, fovea_cache_fn *fn, void *payload);
/* Removes the entries, and nothing else that may be in the folder; *removed gets their number. */
FOVEA_API fovea_status fovea_cache_clear(const char *folder, size_t *removed);
/* All sound entries in the form that fovea_cache_import and fovea_cache_unpack read. *size gets
 * their bytes; they are written to `data` unless it is NULL. EINVAL when `capacity` is less. */
FOVEA_API fovea_status fovea_cache_pack(const char *folder, void *data, size_t capacity,
                                        size_t *size);
/* Adds them to the folder, which is made. EFORMAT when they are damaged; none is added then. EIO
 * when they cannot be written; *added gets the number of those that were. */
FOVEA_API fovea_status fovea_cache_unpack(const char *folder, const void *data, size_t size,
                                          size_t *added);

FOVEA_END_DECLS

#endif
