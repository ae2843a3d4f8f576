/* emulated_driver.h: declarations shared by the files of the emulated driver: its objects, checks
 * of the caller, and simulated failures.
 *
 * One lock protects all state. One thread acts as the device: it runs the commands of all streams,
 * in order within each stream. */
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

extern pthread_cond_t emulated_changed; /* signalled when a command is done */
extern pthread_cond_t emulated_work;    /* signalled when the device may have work */

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

/* Returns the error that every call returns from now on: that of a failed kernel, or of a thread
 * without a context. */
CUresult emulated_context_error(void);
void emulated_break(CUresult error);
int emulated_capability(void); /* 80 for sm_80 */
long emulated_shared(void);    /* bytes of shared memory available to a block */

/* Returns the capture mode of the calling thread. */
CUstreamCaptureMode emulated_capture_mode(void);

/* ENTER counts the call and requires a context. */
#define ENTER(name)                                                                                \
    do {                                                                                           \
        CUresult error_ = hostile_enter(#name);                                                    \
        if (error_ == CUDA_SUCCESS)                                                                \
            error_ = emulated_context_error();                                                     \
        if (error_ != CUDA_SUCCESS)                                                                \
            return error_;                                                                         \
    } while (0)

/* ---- emulated_memory.c ---- */

/* Returns whether all of a range is device (or pinned) memory. Requires the lock. */
bool emulated_is_device(const void *at, size_t size);
bool emulated_is_pinned(const void *at, size_t size);
/* Registers memory of the caller as memory of that kind until emulated_disown(), which returns
 * false for unregistered memory. Requires the lock. */
void emulated_adopt(enum emulated_kind kind, void *at, size_t size);
bool emulated_disown(enum emulated_kind kind, const void *at);
/* Describes the memory at an address, for messages. */
void emulated_describe(const void *at, char *out, size_t size);
/* Returns false if anything was written outside device memory. */
bool emulated_memory_intact(void);
void emulated_memory_drop(void); /* frees what a context leaves */

/* ---- emulated_import.c ---- */

struct CUarray_st {
    const char *at;
    size_t pitch;
};

/* ---- emulated_stream.c ---- */

/* Waits until the device is idle. Returns false, and counts misuse, if that never happens. */
bool emulated_idle(const char *call);
void emulated_streams_drop(void); /* frees events and graphs, too */
void emulated_waits_begin(void);  /* makes the next wait for an event count as the first */
/* Returns the error of a call that is not allowed during a capture, and invalidates the capture:
 * one of this thread, or one that forbids such calls in the whole process. Takes the lock. */
CUresult emulated_capture_error(void);

/* ENTER for such calls. */
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
    int dynamic; /* bytes of shared memory that launches may request */
};

/* The output of NVRTC, which the driver loads: this header, followed by a shared object. */
typedef struct emulated_image {
    char magic[16];
    uint64_t size, sum;
    int sm;
    int exact; /* for sm_<sm> only, as opposed to compute_<sm> */
} emulated_image;
#define EMULATED_MAGIC "emulated kernel"
uint64_t emulated_sum(const void *data, size_t size);

#endif
