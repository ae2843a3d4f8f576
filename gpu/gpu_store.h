/* gpu_store.h: the programs of a device, each built once: taken from the cache of binaries or
 * compiled, and shared by the steps that want the same. */
#ifndef FOVEA_GPU_GPU_STORE_H
#define FOVEA_GPU_GPU_STORE_H

#include <pthread.h>

#include "gpu/gpu_cache.h"
#include "gpu/gpu_host.h"
#include "gpu/gpu_sources.h"

enum { FV_GPU_TEXTS = 7 }; /* of a program at most */

/* What was measured of a device: flop/s and bytes/s; how many times as fast as a float32 one it
 * multiplies a float16 and an int8; how many times as fast as a cached load one from local memory
 * is, and one from an image; how many times as fast as work-items with local memory subgroups
 * multiply float16. 0: was not measured. */
enum {
    FV_GPU_FLOPS,
    FV_GPU_BYTES,
    FV_GPU_HALF,
    FV_GPU_DOT,
    FV_GPU_LOCAL,
    FV_GPU_IMAGE,
    FV_GPU_SUBGROUPS,
    FV_GPU_RATES
};

typedef struct fv_gpu_program {
    const char *name; /* of its file */
    bool plain;       /* that file, without what the kernels of ops begin with */
    uint16_t mech;
    char *options;
    void *built; /* the backend's */
    /* the store's own: */
    struct fv_gpu_program *next;
    double seconds;         /* that compiling took */
    bool compiled;          /* by us, not taken from the cache */
    void *refused;          /* what was taken and replaced: steps may have kernels of it */
    const char *kernels[8]; /* of a compiled one: those that the cache's binary has */
} fv_gpu_program;

/* What a backend does of it. */
typedef struct fv_gpu_compiler {
    /* The texts that a program is made of; returns how many. */
    uint32_t (*texts)(const fv_gpu_program *p, const char *text[FV_GPU_TEXTS]);
    /* The part of the options that distinguishes programs of the same name. */
    const char *(*shown)(const fv_gpu_program *p);
    fovea_status (*compile)(fv_device *d, const fv_gpu_program *p, void **built);
    /* A program of a binary; NULL where the driver refuses it. */
    void *(*load)(fv_device *d, const fv_gpu_program *p, const fv_gpu_binary *b);
    /* The binary of a built program, to be freed; NULL where the driver gives none. */
    void *(*binary)(void *built, size_t *size);
    /* A kernel of it; ENOMEM where memory is short. */
    fovea_status (*kernel)(void *built, const char *entry, void **out);
    void (*release)(fv_device *d, void *built);
    /* Makes the device the calling thread's, which compiles; false: it cannot be. NULL, as `leave`:
     * threads need nothing. */
    bool (*enter)(fv_device *d);
    void (*leave)(void);
} fv_gpu_compiler;

typedef struct fv_gpu_store {
    const fv_gpu_compiler *compiler;
    fv_device *device;
    fv_gpu_cache *cache;
    char *identity; /* of device and driver, a part of every key */
    pthread_mutex_t lock;
    /* Under `lock`: */
    fv_gpu_program *programs;
    fv_gpu_program *wanted; /* not built yet, in the order in which they were asked for */
    double rates[FV_GPU_RATES];
} fv_gpu_store;

/* Takes ownership of `identity`, also on failure. `folder`: as fv_gpu_cache_open; NULL also looks
 * at FOVEA_CACHE. */
fovea_status fv_gpu_store_open(fv_gpu_store *s, fv_device *d, const fv_gpu_compiler *compiler,
                               char *identity, const char *folder);
/* Releases the programs; the store can be used on. */
void fv_gpu_store_empty(fv_gpu_store *s);
void fv_gpu_store_close(fv_gpu_store *s); /* of an empty store; one that was never opened is fine */
/* Kernel `entry` of program `name` alone, without what the kernels of ops begin with. The program
 * is built where it is not yet; the kernel is to be released as the backend's kind is. Thread-safe.
 */
fovea_status fv_gpu_store_plain(void **out, fv_gpu_store *s, const char *name, const char *entry,
                                const char *options);
/* The same for a step; `options` are those that come before the step's own. */
fovea_status fv_gpu_store_step(void **out, fv_gpu_store *s, const fv_launch *l, const char *entry,
                               uint32_t group, const char *options);
/* The same program is wanted soon; then fv_gpu_store_build compiles all that are wanted and not
 * there, on as many threads as there are processors for, none of which is left when it returns.
 * What fails is not kept: who asks for its kernel hears why. */
void fv_gpu_store_want(fv_gpu_store *s, const fv_launch *l, uint32_t group, const char *options);
void fv_gpu_store_build(fv_gpu_store *s);
/* Rates of the device that the kernels of probe.cl measured, in this process or an earlier one.
 * They are stored with the programs. False where there are none. */
bool fv_gpu_store_rates(fv_gpu_store *s, double out[FV_GPU_RATES]);
void fv_gpu_store_keep_rates(fv_gpu_store *s, const double rates[FV_GPU_RATES]);

/* Joins the lines of a compiler's log to one. */
void fv_gpu_one_line(char *log);

#endif
