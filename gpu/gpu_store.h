/* gpu_store.h: the programs of a device. Each is built once, taken from the cache of binaries or
 * compiled, and shared by all steps that use it. */
#ifndef FOVEA_GPU_GPU_STORE_H
#define FOVEA_GPU_GPU_STORE_H

#include <pthread.h>
#include <stdatomic.h>

#include "gpu/gpu_cache.h"
#include "gpu/gpu_host.h"
#include "gpu/gpu_sources.h"

enum { FV_GPU_TEXTS = 7 }; /* of a program at most */

/* The rates that are measured of a device, 0 if they are not: FLOP/s and bytes/s. Then ratios: the
 * rates of float16 and of int8 products to float32's; the rates of loads from local memory and from
 * images to cached loads; the rate of float16 products by subgroups to that by work-items with
 * local memory; and the rate of products of vectors of 16 floats to that of vectors of four. */
enum {
    FV_GPU_FLOPS,
    FV_GPU_BYTES,
    FV_GPU_HALF,
    FV_GPU_DOT,
    FV_GPU_LOCAL,
    FV_GPU_IMAGE,
    FV_GPU_SUBGROUPS,
    FV_GPU_WIDE,
    FV_GPU_RATES
};

typedef struct fv_gpu_program {
    const char *name; /* of its file */
    bool plain;       /* only this file, without the texts that kernels of ops begin with */
    uint16_t mech;
    char *options;
    void *built; /* the backend's */
    /* the store's own: */
    struct fv_gpu_program *next;
    double seconds; /* that compiling took */
    bool compiled;  /* compiled by this process, not taken from the cache */
    /* A program that was taken from the cache and replaced; steps may still hold its kernels. */
    void *refused;
    /* For a compiled program: the kernels that the binary in the cache contains. */
    const char *kernels[8];
    /* A call of the compiler for this program that was given up and has not been collected; NULL:
     * none. */
    struct fv_gpu_attempt *left;
    bool told; /* that it is not compiled has been logged */
} fv_gpu_program;

/* The functions that a backend implements. */
typedef struct fv_gpu_compiler {
    /* Lists the texts that a program consists of; returns how many. */
    uint32_t (*texts)(const fv_gpu_program *p, const char *text[FV_GPU_TEXTS]);
    /* The part of the options that distinguishes programs with the same name. */
    const char *(*shown)(const fv_gpu_program *p);
    fovea_status (*compile)(fv_device *d, const fv_gpu_program *p, void **built);
    /* Makes a program from a binary; NULL if the driver refuses it. */
    void *(*load)(fv_device *d, const fv_gpu_program *p, const fv_gpu_binary *b);
    /* The binary of a built program, to be freed by the caller; NULL if the driver does not return
     * one. */
    void *(*binary)(void *built, size_t *size);
    /* Creates a kernel of a program; ENOMEM for a lack of memory. */
    fovea_status (*kernel)(void *built, const char *entry, void **out);
    void (*release)(fv_device *d, void *built);
    /* Releases a kernel that nobody uses; NULL: a kernel ends with its program. */
    void (*drop)(void *kernel);
    /* Makes the device current for the calling thread, which will compile; false: that failed.
     * NULL, like `leave`, if threads need not do this. */
    bool (*enter)(fv_device *d);
    void (*leave)(void);
} fv_gpu_compiler;

typedef struct fv_gpu_store {
    const fv_gpu_compiler *compiler;
    fv_device *device;
    fv_gpu_cache *cache;
    char *identity; /* text that identifies device and driver, a part of every key */
    double limit;   /* seconds for which a call of the compiler is waited for */
    /* How many calls were given up and have not been collected. Their threads are still inside the
     * driver, or were there until a moment ago. */
    _Atomic uint32_t left;
    pthread_mutex_t lock;
    /* Under `lock`: */
    fv_gpu_program *programs;
    fv_gpu_program *wanted; /* programs that are not built yet, in the order of the requests */
    double rates[FV_GPU_RATES];
} fv_gpu_store;

/* Takes ownership of `identity`, even on failure. If `options` name no folder or no limit of time,
 * FOVEA_CACHE and FOVEA_COMPILE_SECONDS are used if they are set. EINVAL if the latter is not a
 * time. */
fovea_status fv_gpu_store_open(fv_gpu_store *s, fv_device *d, const fv_gpu_compiler *compiler,
                               char *identity, const fovea_device_options *options);
/* Whether threads are still inside the driver's compiler, because it did not return in time. They
 * use the device, which must then not be freed, and no object of the driver's may be released. */
bool fv_gpu_store_is_stuck(fv_gpu_store *s);
/* Releases the programs; the store can still be used. */
void fv_gpu_store_empty(fv_gpu_store *s);
/* The store must be empty; one that was never opened is fine. */
void fv_gpu_store_close(fv_gpu_store *s);
/* Creates kernel `entry` of program `name`, without the texts that kernels of ops begin with.
 * Builds the program if necessary. The caller releases the kernel in the same way as the backend's
 * kernels. Returns FOVEA_ETIMEOUT if the compiler does not return from the program in time, or did
 * not in an earlier process (gpu_note.h). Thread-safe. */
fovea_status fv_gpu_store_plain(void **out, fv_gpu_store *s, const char *name, const char *entry,
                                const char *options);
/* Does the same for a step's kernel; `options` precede the step's own. */
fovea_status fv_gpu_store_step(void **out, fv_gpu_store *s, const fv_launch *l, const char *entry,
                               uint32_t group, const char *options);
/* fv_gpu_store_want announces that a step's program will be needed. fv_gpu_store_build then
 * compiles all announced programs that are not built yet, on as many threads as there are
 * processors, and ends the threads. A failure is not kept: it is reported when a kernel of the
 * program is requested. */
void fv_gpu_store_want(fv_gpu_store *s, const fv_launch *l, uint32_t group, const char *options);
void fv_gpu_store_build(fv_gpu_store *s);
/* The device's rates, as measured by the kernels of probe.cl in this process or an earlier one.
 * They are stored with the programs. False if there are none. */
bool fv_gpu_store_rates(fv_gpu_store *s, double out[FV_GPU_RATES]);
void fv_gpu_store_keep_rates(fv_gpu_store *s, const double rates[FV_GPU_RATES]);

/* Lists the programs that are not compiled, because the compiler did not return from them (see
 * fv_gpu_notes_list). */
void fv_gpu_store_skipped(const fv_gpu_store *s, char *out, size_t size);

/* Joins the lines of a compiler's log into one line. */
void fv_gpu_one_line(char *log);

#endif
