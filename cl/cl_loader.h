/* cl_loader.h: opens OpenCL at run time. Nothing is linked, because most machines may not have
 * it. */
#ifndef FOVEA_CL_CL_LOADER_H
#define FOVEA_CL_CL_LOADER_H

#define CL_TARGET_OPENCL_VERSION 120
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#include <CL/cl.h>
#include <stdbool.h>

#include "base/status.h"

/* OpenCL's functions, each under its own name. */
typedef struct fv_cl_api {
#define FV_CL_CALL(name) __typeof__(&name) name;
#include "cl/cl_calls.inc"
#undef FV_CL_CALL
    /* NULL if the library has no such function. */
    __typeof__(&clGetExtensionFunctionAddressForPlatform) clGetExtensionFunctionAddressForPlatform;
    /* A function of OpenCL 3.0. Its properties are 64-bit numbers. */
    cl_mem (*clCreateBufferWithProperties)(cl_context context, const cl_ulong *properties,
                                           cl_mem_flags flags, size_t size, void *host,
                                           cl_int *error);
} fv_cl_api;
extern fv_cl_api fv_cl;

typedef struct fv_cl_place {
    cl_platform_id platform;
    cl_device_id device;
    const char *direct; /* name of the library, if it is a driver rather than a loader of drivers */
} fv_cl_place;

enum { FV_CL_DEVICES = 32 };

/* The devices of all platforms, in the drivers' order; returns how many, at most FV_CL_DEVICES.
 * Finds and opens the library when first called. Thread-safe. */
int fv_cl_devices(const fv_cl_place **out);
/* One line of static text: which library was opened and what it lacks; or why there is none, and a
 * remedy. */
const char *fv_cl_status(void);

/* cl_icd.c: writes to `out`, for each .icd file whose library cannot be opened, "; " and a text
 * with the reason. */
void fv_cl_explain_drivers(char *out, size_t size);

/* "CL_OUT_OF_RESOURCES", or "error". */
const char *fv_cl_error_name(cl_int error);
/* Whether a failed call means a lack of memory. */
bool fv_cl_is_memory(cl_int error, const char *call);
/* Makes a status of a failed call: ENOMEM for a lack of memory, else EDEVICE. The message names
 * `call` and `what`, which may be NULL. */
fovea_status fv_cl_fail(cl_int error, const char *call, const char *what);

/* Calls a function of OpenCL; on failure returns from the calling function: FV_CL_TRY(what,
 * clFlush, (queue)). */
#define FV_CL_TRY(what, call, arguments)                                                           \
    do {                                                                                           \
        cl_int error_ = fv_cl.call arguments;                                                      \
        if (error_ != CL_SUCCESS)                                                                  \
            return fv_cl_fail(error_, #call, what);                                                \
    } while (0)

#endif
