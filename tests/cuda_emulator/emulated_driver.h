/* emulated_driver.h: what the files of the emulated driver share: its objects, who may call, and
 * what goes wrong on demand.
 *
 * One lock holds all of it, one thread is the device: it runs the commands of all streams, each
 * stream's in their order. */
#ifndef FOVEA_TESTS_EMULATED_DRIVER_H
#define FOVEA_TESTS_EMULATED_DRIVER_H

#include "cuda/cuda_loader.h"
#include "tests/cuda_emulator/emulated_block.h"
#include "tests/devices/hostile_lies.h"

#define API HOSTILE_API
/* The functions are those that the library calls. */
#define FV_CUDA_CALL(name, symbol, parameters) API CUresult symbol parameters;
#define FV_CUDA_OPTION FV_CUDA_CALL
#define FV_NVRTC_CALL(name, symbol, parameters) API nvrtcResult symbol parameters;
#define FV_NVRTC_OPTION FV_NVRTC_CALL
#include "cuda/cuda_calls.inc"

extern pthread_cond_t emulated_changed; /* whenever a command is done */
extern pthread_cond_t emulated_work;    /* whenever there may be something for the device to do */

/* ---- emulated_faults.c ---- */

#define EMULATED_LIES(X)                                                                           \
    X(sm)                                                                                          \
    X(devices)                                                                                     \
    X(largest)                                                                                     \
    X(free)                                                                                        \
    X(holds)                                                                                       \
    X(units)                                                                                       \
    X(unified)                                                                                     \
    X(version)                                                                                     \
    X(graphs)                                                                                      \
    X(group)                                                                                       \
    X(local)                                                                                       \
    X(build)                                                                                       \
    X(image)                                                                                       \
    X(ptx)                                                                                         \
    X(order)                                                                                       \
    X(streams)                                                                                     \
    X(unwaited)                                                                                    \
    X(imports)                                                                                     \
    X(barrier)                                                                                     \
    X(hang)
enum emulated_lie {
    EMULATED_LIE_before_the_first = HOSTILE_LIES - 1,
#define X(name) EMULATED_LIE_##name,
    EMULATED_LIES(X)
#undef X
};
enum emulated_kind {
    EMULATED_CONTEXT,
    EMULATED_MEMORY,
    EMULATED_PINNED,
    EMULATED_REGISTERED,
    EMULATED_EXTERNAL,
    EMULATED_RESOURCE,
    EMULATED_SURFACE,
    EMULATED_MODULE,
    EMULATED_STREAM,
    EMULATED_EVENT,
    EMULATED_GRAPH,
    EMULATED_EXEC,
    EMULATED_PROGRAM
};

/* ---- emulated_device.c ---- */

/* The error that every call gives from now on: what a kernel did, or no context on this thread. */
CUresult emulated_context_error(void);
void emulated_break(CUresult error);
int emulated_capability(void); /* 80 for sm_80 */
long emulated_shared(void);    /* bytes of shared memory that a block can have */

/* How the calling thread's calls go together with captures. */
CUstreamCaptureMode emulated_capture_mode(void);

/* ENTER counts the call, and wants a context. */
#define ENTER(name)                                                                                \
    do {                                                                                           \
        CUresult error_ = hostile_enter(#name);                                                    \
        if (error_ == CUDA_SUCCESS)                                                                \
            error_ = emulated_context_error();                                                     \
        if (error_ != CUDA_SUCCESS)                                                                \
            return error_;                                                                         \
    } while (0)

/* ---- emulated_memory.c ---- */

/* Whether all of it is the device's (or pinned) memory, under the lock. */
bool emulated_is_device(const void *at, size_t size);
bool emulated_is_pinned(const void *at, size_t size);
/* Memory that is the caller's: the emulator knows it from now on as one of that kind, until
 * emulated_disown, which is false for what it does not know. Under the lock. */
void emulated_adopt(enum emulated_kind kind, void *at, size_t size);
bool emulated_disown(enum emulated_kind kind, const void *at);
/* Describes the memory at an address, for messages. */
void emulated_describe(const void *at, char *out, size_t size);
/* False if anything was written outside of the device's memory. */
bool emulated_memory_intact(void);
void emulated_memory_drop(void); /* what a context leaves */

/* ---- emulated_import.c ---- */

struct CUarray_st {
    const char *at;
    size_t pitch;
};

/* ---- emulated_stream.c ---- */

/* Waits until the device has nothing to do; false, and counted, when that never comes. */
bool emulated_idle(const char *call);
void emulated_streams_drop(void); /* and events and graphs */
void emulated_waits_begin(void);  /* the next wait for an event is the first */
/* The error of a call that does not go together with a capture under way, which it spoils: one of
 * this thread's, or one that wants no such call in the whole process. Takes the lock. */
CUresult emulated_capture_error(void);

/* ENTER, for such calls. */
#define ENTER_UNSAFE(name)                                                                         \
    do {                                                                                           \
        ENTER(name);                                                                               \
        const CUresult capture_ = emulated_capture_error();                                        \
        if (capture_ != CUDA_SUCCESS)                                                              \
            return capture_;                                                                       \
    } while (0)

/* ---- emulated_module.c ---- */

void emulated_modules_drop(void);

struct CUfunc_st {
    const emulated_entry *entry;
    emulated_link *link;
    const emulated_shared_memory *shared_map;
    int dynamic; /* bytes of shared memory that launches may ask for */
};

/* What NVRTC makes and the driver takes: this, and a shared object after it. */
typedef struct emulated_image {
    char magic[16];
    uint64_t size, sum;
    int sm;
    int exact; /* of one architecture: made for sm_<sm>, not for compute_<sm> */
} emulated_image;
#define EMULATED_MAGIC "emulated kernel"
uint64_t emulated_sum(const void *data, size_t size);

#endif
