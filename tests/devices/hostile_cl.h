/* hostile_cl.h: declarations shared by the files of libhostile_cl.so: the real library, false
 * properties, and live objects. See hostile.h. */
#ifndef FOVEA_TESTS_HOSTILE_CL_H
#define FOVEA_TESTS_HOSTILE_CL_H

#define CL_TARGET_OPENCL_VERSION 120
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#include <CL/cl.h>

#include "tests/devices/hostile_lies.h"

#define HOSTILE_CL_LIES(X)                                                                         \
    X(largest)                                                                                     \
    X(holds)                                                                                       \
    X(group)                                                                                       \
    X(compiled)                                                                                    \
    X(local)                                                                                       \
    X(vectors)                                                                                     \
    X(own)                                                                                         \
    X(unified)                                                                                     \
    X(half)                                                                                        \
    X(dots)                                                                                        \
    X(subgroups)                                                                                   \
    X(claims)                                                                                      \
    X(images)                                                                                      \
    X(texels)                                                                                      \
    X(imports)                                                                                     \
    X(build)                                                                                       \
    X(stalls)                                                                                      \
    X(dies)                                                                                        \
    X(version)                                                                                     \
    X(barrier)                                                                                     \
    X(hang)                                                                                        \
    X(gpu)                                                                                         \
    X(hint)                                                                                        \
    X(records)                                                                                     \
    X(fences)
enum {
    lie_before_the_first = HOSTILE_LIES - 1,
#define X(name) lie_##name,
    HOSTILE_CL_LIES(X)
#undef X
};

/* TIMED to RECORDABLE are additional kinds of an object that also has a main kind. */
enum kind {
    CONTEXT,
    QUEUE,
    BUFFER,
    PROGRAM,
    KERNEL,
    EVENT,
    TIMED,
    HINTED,
    RECORDABLE,
    RECORDING,
    SEMAPHORE
};

/* The functions of the real library. */
typedef struct hostile_cl_api {
#define FV_CL_CALL(name) __typeof__(&name) name;
#include "cl/cl_calls.inc"
#undef FV_CL_CALL
} hostile_cl_api;
extern hostile_cl_api real;
extern cl_int (*when_destroyed)(cl_mem, void(CL_CALLBACK *)(cl_mem, void *), void *);
extern cl_int (*when_done)(cl_event, cl_int status, void(CL_CALLBACK *)(cl_event, cl_int, void *),
                           void *);

#define API HOSTILE_API

#define ENTER(name)                                                                                \
    do {                                                                                           \
        const cl_int error_ = hostile_enter(#name);                                                \
        if (error_ != CL_SUCCESS)                                                                  \
            return error_;                                                                         \
    } while (0)

/* Begins a function that returns an object. */
#define ENTER_CREATE(name, error)                                                                  \
    do {                                                                                           \
        const cl_int error_ = hostile_enter(#name);                                                \
        if (error_ != CL_SUCCESS) {                                                                \
            if (error)                                                                             \
                *(error) = error_;                                                                 \
            return NULL;                                                                           \
        }                                                                                          \
    } while (0)

/* Sets *error (which may be NULL) to `why`; returns NULL. */
cl_mem refuse(cl_int *error, cl_int why);
/* Counts an invalid use of the driver, as hostile_misused() does, from any thread. */
void misused(const char *what);
void born(enum kind kind, const void *handle);
bool dies(enum kind kind, const void *handle);
/* Records that a command was accepted, with its event, if there is one, and whether it ever ends.
 */
cl_int enqueued(cl_int status, cl_command_queue queue, bool is_kernel, cl_uint n,
                const cl_event *wait, const cl_event *event);

/* hostile_words.c: source texts that are put before a program, or "" for none. */
enum { HOSTILE_WORDS = 6 };
void hostile_words(const char *all[HOSTILE_WORDS]);

/* hostile_import.c: appends the names of the extensions that are reported. */
void hostile_import_extensions(char *text);
/* Returns whether `name` is an import function that is reported; sets *out to the function or NULL.
 */
bool hostile_import_function(const char *name, void **out);
/* Implements clCreateBuffer with one of Qualcomm's host pointers. */
cl_mem hostile_import_qcom(cl_context c, size_t size, const void *pointer, cl_int *error);
/* Releases an imported buffer; does nothing for other buffers. */
void hostile_import_end(cl_mem m);

/* hostile_fence.c: appends the names of the extensions that are reported. */
void hostile_fence_extensions(char *text);
/* Returns whether `name` is a semaphore function; sets *out to the function, or to NULL if it is
 * not reported. */
bool hostile_fence_function(const char *name, void **out);

/* hostile_record.c */
#define CL_CONTEXT_PERF_HINT_QCOM 0x40C2
#define CL_PERF_HINT_HIGH_QCOM 0x40C3
#define CL_DEVICE_RECORDABLE_QUEUE_MAX_SIZE 0x41DE
enum { HOSTILE_RECORDABLE = 16 }; /* maximum number of kernels in one of Qualcomm's recordings */
/* Appends the names of the extensions that are reported. */
void hostile_record_extensions(char *text);
/* Returns whether `name` is a recording function; sets *out to the function, or to NULL if it is
 * not reported. */
bool hostile_record_function(const char *name, void **out);
/* Returns whether a queue with these properties records. */
bool hostile_record_takes(cl_command_queue_properties properties);
/* Notes an argument that a kernel was given; the second function forgets a released kernel. */
void hostile_record_argument(cl_kernel k, cl_uint index, size_t size, const void *value);
void hostile_record_forget(cl_kernel k);
/* Notes that a kernel was enqueued. Returns true and sets *status if the queue records the kernel.
 */
bool hostile_record_enqueued(cl_command_queue q, cl_kernel k, cl_uint dimensions,
                             const size_t *offset, const size_t *items, const size_t *group,
                             cl_uint waits, const cl_event *event, cl_int *status);

#endif
