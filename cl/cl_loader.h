/* cl_loader.h: OpenCL opened at run time: nothing is linked, a machine without it is the normal
 * case. */
#ifndef FOVEA_CL_CL_LOADER_H
#define FOVEA_CL_CL_LOADER_H

#define CL_TARGET_OPENCL_VERSION 120
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#include <CL/cl.h>
#include <stdbool.h>

#include "base/status.h"

/* The functions, each under its own name. */
typedef struct fv_cl_api {
#define FV_CL_CALL(name) __typeof__(&name) name;
#include "cl/cl_calls.inc"
#undef FV_CL_CALL
    /* NULL where the library has none. */
    __typeof__(&clGetExtensionFunctionAddressForPlatform) clGetExtensionFunctionAddressForPlatform;
    /* Of OpenCL 3.0. The properties are numbers of 64 bits. */
    cl_mem (*clCreateBufferWithProperties)(cl_context context, const cl_ulong *properties,
                                           cl_mem_flags flags, size_t size, void *host,
                                           cl_int *error);
} fv_cl_api;
extern fv_cl_api fv_cl;

typedef struct fv_cl_place {
    cl_platform_id platform;
    cl_device_id device;
    const char *direct; /* the library, where it is a driver and no loader of drivers */
} fv_cl_place;

enum { FV_CL_DEVICES = 32 };

/* The devices of all platforms, in the drivers' order; finds and opens the library when first
 * called. Thread-safe. Returns how many: at most FV_CL_DEVICES. */
int fv_cl_devices(const fv_cl_place **out);
/* One line: the library that was opened and what it lacks, or why there is none, with the remedy.
 * Static text. */
const char *fv_cl_status(void);

/* "CL_OUT_OF_RESOURCES", or "error". */
const char *fv_cl_error_name(cl_int error);
/* Whether a failed call means that memory is short. */
bool fv_cl_is_memory(cl_int error, const char *call);
/* A failed call as a status: EDEVICE, or ENOMEM where memory is short. `call` and `what` (may be
 * NULL) name it. */
fovea_status fv_cl_fail(cl_int error, const char *call, const char *what);

/* Calls, and returns from the function on failure: FV_CL_TRY(what, clFlush, (queue)). */
#define FV_CL_TRY(what, call, arguments)                                                           \
    do {                                                                                           \
        cl_int error_ = fv_cl.call arguments;                                                      \
        if (error_ != CL_SUCCESS)                                                                  \
            return fv_cl_fail(error_, #call, what);                                                \
    } while (0)

#endif
