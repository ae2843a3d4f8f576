/* errors.h: status codes, messages, the library's version, and the memory it holds. A part of
 * fovea.h, whose rules hold here.
 */
#ifndef FOVEA_ERRORS_H
#define FOVEA_ERRORS_H

#include <stddef.h>
#include <stdint.h>

#include <fovea/version.h>

#if defined(FOVEA_STATIC)
#define FOVEA_API
#elif defined(_WIN32) && defined(FOVEA_BUILDING)
#define FOVEA_API __declspec(dllexport)
#elif defined(_WIN32) /* there are functions alone, which need no other word */
#define FOVEA_API
#elif defined(__GNUC__)
#define FOVEA_API __attribute__((visibility("default")))
#else
#define FOVEA_API
#endif

/* FOVEA_INIT is for the _INIT macros: the size, the fields that are set (FOVEA_SET), and zeros. C++
 * has designated initialisers since 2020 only. */
#ifdef __cplusplus
#define FOVEA_BEGIN_DECLS extern "C" {
#define FOVEA_END_DECLS }
#define FOVEA_INIT(type, ...)                                                                      \
    [] {                                                                                           \
        type init_{};                                                                              \
        init_.struct_size = sizeof(type);                                                          \
        __VA_ARGS__;                                                                               \
        return init_;                                                                              \
    }()
#define FOVEA_SET(field, value) init_.field = value
#else
#define FOVEA_BEGIN_DECLS
#define FOVEA_END_DECLS
#define FOVEA_INIT(type, ...)                                                                      \
    {                                                                                              \
        .struct_size = sizeof(type), __VA_ARGS__                                                   \
    }
#define FOVEA_SET(field, value) .field = value
#endif

FOVEA_BEGIN_DECLS

typedef enum fovea_status {
    FOVEA_OK = 0,
    FOVEA_EINVAL = -1,   /* an argument or option is wrong: fix the call */
    FOVEA_ENOMEM = -2,   /* out of memory, or over the plan's memory limit: plan smaller */
    FOVEA_EIO = -3,      /* a file could not be opened or read */
    FOVEA_EFORMAT = -4,  /* a file is truncated, corrupt or contradicts itself */
    FOVEA_ENOTSUP = -5,  /* understood, but not supported here (model type, op, device) */
    FOVEA_ENODEV = -6,   /* no such device */
    FOVEA_EDEVICE = -7,  /* the device failed: close and reopen it */
    FOVEA_EWISDOM = -8,  /* a tuning file is malformed; nothing was changed */
    FOVEA_ETIMEOUT = -9, /* the wait ended before the frame did */
} fovea_status;

/* One line about this thread's last failure: the thing and the remedy. Never NULL; "" when nothing
 * has failed yet. Valid until the thread's next failing call. Thread-safe. */
FOVEA_API const char *fovea_error(void);

/* "ok", "out of memory", ... Static text for any value. Thread-safe. */
FOVEA_API const char *fovea_status_text(fovea_status status);

/* Version of the library at run time, "0.1.0". Static text. Thread-safe. */
FOVEA_API const char *fovea_version(void);

/* Receives remarks that are no failures (pixels of the picture that are ignored, a fallback that
 * was taken): one line without a newline each, from any thread, while loading and planning, never
 * while running. */
typedef void fovea_log_fn(const char *line, void *payload);
/* NULL, the default, discards the remarks. Not thread-safe: set it before other calls begin. */
FOVEA_API void fovea_log_set(fovea_log_fn *log, void *payload);

typedef struct fovea_memory {
    size_t struct_size;
    uint64_t current, peak; /* bytes that the library holds through its allocator, of all kinds */
    uint64_t allocations;   /* made since the process began */
} fovea_memory;
#define FOVEA_MEMORY_INIT FOVEA_INIT(fovea_memory, )
/* Thread-safe. */
FOVEA_API fovea_status fovea_memory_query(fovea_memory *out);

/* Memory of the caller's for the library, in any thread while it loads, plans, opens and closes;
 * never while frames run. `alloc` gives `size` bytes, contents arbitrary, at a multiple of `align`,
 * a power of two from 64 bytes (which divides `size`), or NULL: the call that needed them fails
 * with FOVEA_ENOMEM. `free` gets an address back, with size and alignment as they were asked for.
 *
 * All that fovea_memory_query counts comes from it: models, plans, packed weights, activations,
 * states, devices and their workers' stores, wisdom. What does not: mapped files; the parsed JSON
 * of configurations (jansson's); stacks of threads; what the C library, OpenCL's and CUDA's drivers
 * and libraries take for themselves; and memory of the program `fovea`. */
typedef struct fovea_allocator {
    size_t struct_size;
    void *(*alloc)(void *user, size_t size, size_t align);
    void (*free)(void *user, void *data, size_t size, size_t align);
    void *user; /* the first argument of both */
} fovea_allocator;
#define FOVEA_ALLOCATOR_INIT FOVEA_INIT(fovea_allocator, )
/* NULL: the C library's again. Memory that is in use goes back where it came from, so that an
 * allocator must work until all of its memory has come back. EINVAL: one of the functions is
 * missing. Not thread-safe: set it while no other call runs. */
FOVEA_API fovea_status fovea_allocator_set(const fovea_allocator *allocator);

FOVEA_END_DECLS

#endif
