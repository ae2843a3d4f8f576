/* errors.h: status codes, messages, the library's version, and the memory it holds. This header is
 * part of fovea.h, whose rules apply here. */
#ifndef FOVEA_ERRORS_H
#define FOVEA_ERRORS_H

#include <stddef.h>
#include <stdint.h>

#include <fovea/version.h>

#if defined(FOVEA_STATIC)
#define FOVEA_API
#elif defined(_WIN32) && defined(FOVEA_BUILDING)
#define FOVEA_API __declspec(dllexport)
#elif defined(_WIN32) /* only functions are exported, and they need no dllimport */
#define FOVEA_API
#elif defined(__GNUC__)
#define FOVEA_API __attribute__((visibility("default")))
#else
#define FOVEA_API
#endif

/* For the _INIT macros of this library: FOVEA_INIT makes a struct with its size in struct_size, the
 * fields that FOVEA_SET sets, and zeros. C++ needs another definition, because C++ has no
 * designated initialisers before C++20. */
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
    FOVEA_EINVAL = -1,  /* an argument or an option is wrong: correct the call */
    FOVEA_ENOMEM = -2,  /* out of memory, or over the plan's memory limit */
    FOVEA_EIO = -3,     /* a file could not be opened, read or written */
    FOVEA_EFORMAT = -4, /* a file is truncated, corrupt or contradicts itself */
    FOVEA_ENOTSUP = -5, /* the request is valid, but this model, operation or device cannot do it */
    FOVEA_ENODEV = -6,  /* there is no such device */
    FOVEA_EDEVICE = -7, /* the device failed: close it and open it again */
    FOVEA_EWISDOM = -8, /* a text with tuning results is malformed; nothing was changed */
    FOVEA_ETIMEOUT = -9, /* the time limit was exceeded */
} fovea_status;

/* Returns the message of this thread's last failure: one line that names what failed and how to
 * remedy it. Never returns NULL, but "" if no call of this thread has failed. The string is valid
 * until the next call of this thread that fails. Thread-safe. */
FOVEA_API const char *fovea_error(void);

/* Returns the name of a status, such as "ok" or "out of memory". Never returns NULL, whatever the
 * value. The string is static. Thread-safe. */
FOVEA_API const char *fovea_status_text(fovea_status status);

/* Returns the version of the library that runs, such as "0.1.0"; FOVEA_VERSION is the version of
 * the headers. The string is static. Thread-safe. */
FOVEA_API const char *fovea_version(void);

/* Receives log messages: things that the caller may want to know but that are not failures, such as
 * pixels that are ignored because they fill no patch, or a fallback that was chosen. Each message
 * is one line without a newline. The function is called by any thread, while the library loads and
 * plans, never while frames run. */
typedef void fovea_log_fn(const char *line, void *payload);
/* Sets the function that receives log messages, and its second argument. NULL, the default,
 * discards them. Not thread-safe: call it before all other functions. */
FOVEA_API void fovea_log_set(fovea_log_fn *log, void *payload);

typedef struct fovea_memory {
    size_t struct_size;
    uint64_t current;     /* bytes that the library holds now, through its allocator */
    uint64_t peak;        /* maximum of `current` since the process began */
    uint64_t allocations; /* number of allocations since the process began */
} fovea_memory;
#define FOVEA_MEMORY_INIT FOVEA_INIT(fovea_memory, )
/* Reports how much memory the library holds. Thread-safe. */
FOVEA_API fovea_status fovea_memory_query(fovea_memory *out);

/* An allocator of the caller, which the library uses instead of the C library's. It is called from
 * any thread, while the library loads, plans, opens and closes, never while frames run.
 *
 * All memory that fovea_memory_query counts is from this allocator: models, plans, packed weights,
 * activations, states, devices with the buffers of their workers, wisdom. The allocator does not
 * provide mapped files, the parsed JSON of configurations (which jansson allocates), stacks of
 * threads, memory that the C library and the drivers and libraries of OpenCL and CUDA allocate for
 * themselves, and memory of the program `fovea`. */
typedef struct fovea_allocator {
    size_t struct_size;
    /* Returns `size` bytes, with any contents, at an address that is a multiple of `align`. If it
     * returns NULL, the call that needed the memory fails with FOVEA_ENOMEM. `align` is a power of
     * two, at least 64, and divides `size`. */
    void *(*alloc)(void *user, size_t size, size_t align);
    /* Takes back memory that `alloc` returned, with the same `size` and `align`. */
    void (*free)(void *user, void *data, size_t size, size_t align);
    void *user; /* the first argument of both */
} fovea_allocator;
#define FOVEA_ALLOCATOR_INIT FOVEA_INIT(fovea_allocator, )
/* Sets the allocator, or the C library's if `allocator` is NULL. Memory is returned to the
 * allocator that provided it, so an allocator must work until all of its memory has been freed.
 * Returns EINVAL if one of the functions is NULL. Not thread-safe: no other call may run. */
FOVEA_API fovea_status fovea_allocator_set(const fovea_allocator *allocator);

FOVEA_END_DECLS

#endif
