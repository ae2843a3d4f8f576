/* devices.h: devices, their kernels and peak rates, and the cache of kernels that were compiled on
 * this machine. This header is part of fovea.h, whose rules apply here. */
#ifndef FOVEA_DEVICES_H
#define FOVEA_DEVICES_H

#include <fovea/errors.h>

FOVEA_BEGIN_DECLS

typedef struct fovea_device fovea_device;

typedef struct fovea_device_info {
    size_t struct_size;
    char id[32];         /* id for fovea_device_open: "cpu", "cl:0", "cuda:0" */
    char name[128];      /* "AMD EPYC 9755" */
    char features[64];   /* instruction set level of a CPU, features of another device: "avx512" */
    uint32_t units;      /* number of processors that this process may use, or of compute units
                            of a GPU */
    uint32_t core_kinds; /* number of kinds of cores of a CPU, by their speed; 1 on a symmetric
                            machine, and for other devices */
    uint32_t performance_cores; /* number of processors that are at least half as fast as the
                                   fastest; 0 for other devices */
    uint64_t memory;            /* bytes that the device can address */
    uint64_t max_buffer;        /* maximum bytes of a buffer; 0: limited only by `memory` */
    /* For devices other than the CPU; otherwise "" and 0. */
    char driver[128];      /* the driver and its version */
    uint64_t local_memory; /* bytes that the work-items of a work-group share; 0: the device has
                              no such memory separate from its main memory */
    uint32_t group_limit;  /* maximum number of work-items in a work-group */
    char quirks[256];      /* faults of the driver that the library has detected and avoids */
    /* Nonzero: the device has instructions that multiply bfloat16, or int8. Zero: such products are
     * computed in a wider type. The claims of an OpenCL driver are tested when the device is
     * opened. A CPU whose bfloat16 instructions are slower than its float32 instructions reports 0,
     * unless fovea_device_options.isa requests them. */
    int bf16, int8;
    int reserved;      /* 0 */
    char imports[256]; /* the ways in which the device accesses external images: the values that
                          fovea_external_image_info.method may have, with "; " between them. "" for
                          the CPU, which reads all memory that the host can read */
    /* Of an open device that compiles its kernels; otherwise "", as for CUDA without NVRTC. */
    char compiler[256]; /* "works", or "builds nothing: " and the reason */
    char skipped[256]; /* the programs that are not compiled, because this driver's compiler did not
                          return from them, with ", " between them: see fovea_cache_retry */
} fovea_device_info;
#define FOVEA_DEVICE_INFO_INIT FOVEA_INIT(fovea_device_info, )

/* Describes device `index` of this machine, from 0: the CPU, then the devices of OpenCL and of
 * CUDA. Returns nonzero, or 0 past the end. The first call in a process with an index above 0 loads
 * the drivers. Thread-safe. */
FOVEA_API int fovea_device_list(size_t index, fovea_device_info *out);

/* Returns the state of backend `index`, from 0, as one line: its driver, or why it has no device.
 * Returns NULL past the end. The string is static. Thread-safe. */
FOVEA_API const char *fovea_backend_status(size_t index);

typedef struct fovea_kernel_info {
    size_t struct_size;
    const char *name;      /* "gemm_f32_14x32_avx512" */
    const char *op;        /* the operation that it implements: "gemm" */
    const char *mechanism; /* "elu1", or "any" */
    const char *isa;       /* "scalar", "avx2", ..., or the kind of device: "opencl", "cuda" */
    int usable;            /* nonzero: this machine can run it */
} fovea_kernel_info;
#define FOVEA_KERNEL_INFO_INIT FOVEA_INIT(fovea_kernel_info, )

/* Describes kernel `index` of all backends, from 0. Returns nonzero, or 0 past the end. The strings
 * are static. Thread-safe. */
FOVEA_API int fovea_kernel_list(size_t index, fovea_kernel_info *out);

/* A thread pool of the caller. Calls fn(arg, i) for every i in [0, n), in any order, on any
 * threads, concurrently or one after the other, and returns when all calls have returned. n is at
 * most fovea_device_options.threads. `ctx` is fovea_device_options.parallel_ctx. */
typedef void fovea_parallel_for_fn(void (*fn)(void *arg, size_t i), void *arg, size_t n, void *ctx);

typedef struct fovea_device_options {
    size_t struct_size;
    /* For the CPU. */
    uint32_t threads;  /* workers, including the calling thread; 0: one for each performance core,
                          but no more than the quota of a cgroup, rounded up (2 for a quota of 1.5
                          processors). A number above the quota is accepted */
    const char *isa;   /* the highest instruction set level to use: "scalar", "avx2", "avx-vnni",
                          "avx512", "avx512-vnni", "avx512-bf16", "neon", "neon-fp16", "neon-sdot",
                          "neon-dot", "neon-i8mm", "rvv"; NULL: FOVEA_ISA of the environment, else
                          the highest that the processor has */
    const char *cores; /* the processors that workers run on: "big" (the default), those that are
                          at least half as fast as the fastest; "little", the slowest kind;
                          "all"; or a list such as "4-7" or "0,2". If there are at least as many
                          processors as workers, each worker is bound to its own processor, other
                          than the caller's */
    fovea_parallel_for_fn *parallel_for; /* runs the work instead of the device's own threads,
                                            and requires `threads`. NULL: the device has its own
                                            threads */
    void *parallel_ctx;                  /* the argument `ctx` of parallel_for */
    /* For devices that compile their kernels: OpenCL and CUDA. */
    double max_dispatch_seconds; /* approximate maximum duration of a dispatch: the device may
                                    also have to draw the screen. 0: 0.02, or no limit for
                                    processors (through OpenCL, too) and CUDA cards without a
                                    display */
    const char *cache;           /* folder of compiled kernels, which is created private to the
                                    user; NULL: FOVEA_CACHE of the environment, else
                                    fovea/kernels in $XDG_CACHE_HOME or ~/.cache; "": no folder */
    /* For the CPU, for frames that have a deadline. The messages of ENOMEM and ENOTSUP name the
     * limit that the system has set for this process, and say how to raise it. */
    int lock_memory; /* nonzero: locks activations, packed weights and the stacks of workers in main
                        memory; the program must lock its own code and stacks */
    uint32_t priority;       /* real-time priority (SCHED_FIFO) of the workers, from 1 to 99; 0: the
                                priority of the calling thread, which takes part in every frame and
                                should be given the same */
    const char *thread_name; /* workers are named NAME-1, NAME-2, ...; at most 10 characters; NULL:
                                "fovea" */
    /* For OpenCL: a cl_context of the caller with this device, which is retained. cl_mem objects
     * and events of that context can then be used for frames. It must be a context of the system's
     * OpenCL library, the one that Fovea loads. NULL: the device creates its own context. */
    void *context;
    /* For devices that compile their kernels: the seconds after which a compilation that has not
     * ended is given up; plans then use other kernels. 0: FOVEA_COMPILE_SECONDS of the environment,
     * else 120; at most 86400 */
    double max_compile_seconds;
} fovea_device_options;
#define FOVEA_DEVICE_OPTIONS_INIT FOVEA_INIT(fovea_device_options, )

/* Opens the device with this id: "cpu", "cl:0", "cuda:0", part of an OpenCL device's name as in
 * "cl:Mali", or "auto". `options` may be NULL. Returns ENODEV if there is no such device, or EINVAL
 * if the machine does not support the options. Thread-safe. */
FOVEA_API fovea_status fovea_device_open(fovea_device **out, const char *id,
                                         const fovea_device_options *options);
/* Closes a device. Plans, states and trainers hold a reference. The device may be closed before
 * them; its resources are released with the last of them. Thread-safe. */
FOVEA_API void fovea_device_close(fovea_device *device);
/* Describes an open device. Thread-safe. */
FOVEA_API fovea_status fovea_device_describe(const fovea_device *device, fovea_device_info *out);
/* Returns the number of workers of a plan on this device. Thread-safe. */
FOVEA_API uint32_t fovea_device_threads(const fovea_device *device);

/* Peak rates of a device with all of its workers, per second. */
typedef struct fovea_rates {
    size_t struct_size;
    double flops; /* float32 operations on registers; a multiply-add counts as two */
    double read;  /* bytes read from the device's memory */
    double copy;  /* bytes copied within the device's memory, reads and writes both counted */
    /* Operations per second of bfloat16 products with float32 sums, and of int8 products with int32
     * sums, with instructions of the device. Equal to `flops` if the device has no such
     * instructions or they are not measured. */
    double bf16, int8;
} fovea_rates;
#define FOVEA_RATES_INIT FOVEA_INIT(fovea_rates, )

/* Measures the rates, in a fraction of a second. No plan should run on the device meanwhile,
 * because that lowers the rates. Returns ENOMEM or EDEVICE on failure. One thread at a time per
 * device. */
FOVEA_API fovea_status fovea_device_rates(fovea_device *device, fovea_rates *out);

/* --------------------------------------------------------------------------------------------- The
 * folder of compiled kernels, of all devices. All functions are thread-safe.
 *
 * If `folder` is NULL, the folder is FOVEA_CACHE of the environment, or else the default folder. ""
 * means no folder, which counts as empty. A folder that does not exist counts as empty and is not
 * created. The functions return EIO if the folder is not private to this user. */

/* Writes to `out`, of `capacity` bytes, the path of the folder that NULL means. Returns EINVAL if
 * the path does not fit. */
FOVEA_API fovea_status fovea_cache_folder(char *out, size_t capacity);

typedef struct fovea_cache_entry {
    size_t struct_size;
    const char *file;    /* path of the file */
    const char *device;  /* the device that it was compiled for */
    const char *program; /* name of the source: "gemm.cl" */
    uint64_t size;       /* size of the file in bytes */
    const char *problem; /* why the file is not used; "" if it is sound */
    const char *skipped; /* "" for a compiled kernel; otherwise the entry is a note that the program
                            is not compiled for this device: why, and how to try it again */
} fovea_cache_entry;
/* Receives an entry, whose strings are valid until it returns. A nonzero result ends the listing.
 */
typedef int fovea_cache_fn(const fovea_cache_entry *entry, void *payload);
/* Calls `fn` for every entry of the folder. Even a sound entry may be rejected by the driver later.
 */
FOVEA_API fovea_status fovea_cache_list(const char *folder, fovea_cache_fn *fn, void *payload);
/* Removes all entries, and no other file of the folder. *removed receives the number of compiled
 * kernels that were removed. */
FOVEA_API fovea_status fovea_cache_clear(const char *folder, size_t *removed);
/* Removes the notes that programs are not compiled, because the driver's compiler did not return
 * from them. They are tried again when they are next needed. *removed receives the number of notes.
 */
FOVEA_API fovea_status fovea_cache_retry(const char *folder, size_t *removed);
/* Packs all sound compiled kernels, for fovea_cache_unpack. *size receives the number of bytes;
 * `data`, if it is not NULL, receives the entries. Returns EINVAL if `capacity` is less than *size.
 */
FOVEA_API fovea_status fovea_cache_pack(const char *folder, void *data, size_t capacity,
                                        size_t *size);
/* Adds packed entries to the folder, which is created if necessary. *added receives the number of
 * entries that were written. Returns EFORMAT if the data is damaged, in which case nothing is
 * added, or EIO if an entry could not be written. */
FOVEA_API fovea_status fovea_cache_unpack(const char *folder, const void *data, size_t size,
                                          size_t *added);

FOVEA_END_DECLS

#endif
