/* cl_loader.c: finds an OpenCL library that has devices. */
#include "cl/cl_loader.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/gpu_host.h"

fv_cl_api fv_cl;

/* The system's loader first, then single drivers, because some boards have a driver that no .icd
 * file names. */
static const char *const libraries[] = {
    "libOpenCL.so.1",
    "libOpenCL.so",
    "libmali.so.1",
    "libmali.so",
    "libGLES_mali.so",
    "libOpenCL_adreno.so",
    "/vendor/lib64/libOpenCL.so",
    "/system/vendor/lib64/libOpenCL.so",
    "/vendor/lib64/egl/libGLES_mali.so",
    "libPVROCL.so",
};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static fv_cl_place places[FV_CL_DEVICES];
static int count;
static char status_text[768] =
    "cl: no OpenCL library (libOpenCL.so.1, libmali.so, ...) on this machine; "
    "install the board's driver, or ocl-icd-libopencl1 and a driver for it";

/* Fills fv_cl; returns the name of a function that is missing, or NULL. */
static const char *resolve(void *library)
{
#define FV_CL_CALL(name)                                                                           \
    *(void **)&fv_cl.name = dlsym(library, #name);                                                 \
    if (!fv_cl.name)                                                                               \
        return #name;
#include "cl/cl_calls.inc"
#undef FV_CL_CALL
    *(void **)&fv_cl.clGetExtensionFunctionAddressForPlatform =
        dlsym(library, "clGetExtensionFunctionAddressForPlatform");
    *(void **)&fv_cl.clCreateBufferWithProperties = dlsym(library, "clCreateBufferWithProperties");
    return NULL;
}

/* Files of devices. */
static const char *const nodes[] = {"/dev/dri/renderD128", "/dev/mali0", "/dev/kgsl-3d0",
                                    "/dev/nvidiactl", NULL};

/* The platforms without devices, to be named in the log message. */
typedef struct missing {
    char names[256];
    size_t length;
} missing;

static void add_missing(missing *m, cl_platform_id platform)
{
    char name[96] = "";
    if (fv_cl.clGetPlatformInfo(platform, CL_PLATFORM_NAME, sizeof name - 1, name, NULL) !=
        CL_SUCCESS)
        snprintf(name, sizeof name, "a platform");
    const char *hint =
        strcmp(name, "rusticl") == 0 ? " (enable its drivers with RUSTICL_ENABLE)" : "";
    const int n = snprintf(m->names + m->length, sizeof m->names - m->length, "%s%s%s",
                           m->length ? ", " : "", name, hint);
    if (n > 0 && (size_t)n < sizeof m->names - m->length)
        m->length += (size_t)n;
    m->names[m->length] = 0;
}

/* Fills `places`; returns the number of platforms. */
static cl_uint list(missing *m, const char *library)
{
    cl_platform_id platform[16];
    cl_uint platforms = 0;
    if (fv_cl.clGetPlatformIDs(16, platform, &platforms) != CL_SUCCESS)
        return 0;
    const char *direct = strstr(library, "libOpenCL.so") ? NULL : library;
    for (cl_uint i = 0; i < platforms && i < 16; i++) {
        cl_device_id device[FV_CL_DEVICES];
        cl_uint devices = 0;
        if (fv_cl.clGetDeviceIDs(platform[i], CL_DEVICE_TYPE_ALL, FV_CL_DEVICES, device,
                                 &devices) != CL_SUCCESS ||
            devices == 0)
            add_missing(m, platform[i]);
        for (cl_uint k = 0; k < devices && k < FV_CL_DEVICES && count < FV_CL_DEVICES; k++)
            places[count++] = (fv_cl_place){platform[i], device[k], direct};
    }
    return platforms;
}

static void explain(const char *library, cl_uint platforms, const missing *m)
{
    const char *node = count ? NULL : fv_gpu_forbidden(nodes);
    const bool loader = strstr(library, "libOpenCL.so");
    char access_text[128] = "", broken[300] = "";
    if (loader)
        fv_cl_explain_drivers(broken, sizeof broken);
    if (node)
        snprintf(access_text, sizeof access_text,
                 "; this user may not open %s: add the user to the file's group", node);
    if (count)
        snprintf(status_text, sizeof status_text, "cl: %s, %d device%s%s%s%s", library, count,
                 count == 1 ? "" : "s", m->length ? "; no device of " : "", m->names, broken);
    else if (platforms)
        snprintf(status_text, sizeof status_text, "cl: the drivers of %s have no device: %s%s%s",
                 library, m->names, broken, access_text);
    else if (*broken)
        snprintf(status_text, sizeof status_text, "cl: %s finds no driver%s%s", library, broken,
                 access_text);
    else
        snprintf(status_text, sizeof status_text,
                 "cl: %s finds no driver; install one with its .icd file in /etc/OpenCL/vendors "
                 "(pocl-opencl-icd for the CPU, mesa-opencl-icd, or the board's)%s",
                 library, access_text);
}

/* A library is never closed, since drivers may have threads of their own. */
static bool try_library(const char *name)
{
    static bool explained;
    void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return false;
    const char *lacks = resolve(library);
    missing m = {.length = 0};
    const cl_uint platforms = lacks ? 0 : list(&m, name);
    if (lacks && !explained)
        snprintf(status_text, sizeof status_text, "cl: %s lacks %s; OpenCL 1.2 is needed", name,
                 lacks);
    else if (!explained || count)
        explain(name, platforms, &m);
    explained = true; /* the first library that exists gives the best explanation */
    return count > 0;
}

static void find_library(void)
{
    const char *chosen = getenv("FOVEA_OPENCL");
    if (chosen && *chosen) {
        snprintf(status_text, sizeof status_text,
                 "cl: the library %.200s, given by FOVEA_OPENCL, cannot be opened; correct or "
                 "unset the variable",
                 chosen);
        try_library(chosen);
        return;
    }
    for (size_t i = 0; i < sizeof libraries / sizeof *libraries; i++)
        if (try_library(libraries[i]))
            return;
}

int fv_cl_devices(const fv_cl_place **out)
{
    pthread_once(&once, find_library);
    *out = places;
    return count;
}

const char *fv_cl_status(void)
{
    const fv_cl_place *unused;
    fv_cl_devices(&unused);
    return status_text;
}

const char *fv_cl_error_name(cl_int error)
{
    static const struct {
        cl_int error;
        const char *name;
    } names[] = {
#define NAME(e) {e, #e}
        NAME(CL_DEVICE_NOT_FOUND),
        NAME(CL_DEVICE_NOT_AVAILABLE),
        NAME(CL_COMPILER_NOT_AVAILABLE),
        NAME(CL_MEM_OBJECT_ALLOCATION_FAILURE),
        NAME(CL_OUT_OF_RESOURCES),
        NAME(CL_OUT_OF_HOST_MEMORY),
        NAME(CL_BUILD_PROGRAM_FAILURE),
        NAME(CL_IMAGE_FORMAT_NOT_SUPPORTED),
        NAME(CL_MAP_FAILURE),
        NAME(CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST),
        NAME(CL_INVALID_VALUE),
        NAME(CL_INVALID_COMMAND_QUEUE),
        NAME(CL_INVALID_MEM_OBJECT),
        NAME(CL_INVALID_IMAGE_FORMAT_DESCRIPTOR),
        NAME(CL_INVALID_IMAGE_SIZE),
        NAME(CL_INVALID_IMAGE_DESCRIPTOR),
        NAME(CL_INVALID_BINARY),
        NAME(CL_INVALID_BUILD_OPTIONS),
        NAME(CL_INVALID_PROGRAM),
        NAME(CL_INVALID_PROGRAM_EXECUTABLE),
        NAME(CL_INVALID_KERNEL_NAME),
        NAME(CL_INVALID_KERNEL),
        NAME(CL_INVALID_ARG_INDEX),
        NAME(CL_INVALID_ARG_VALUE),
        NAME(CL_INVALID_ARG_SIZE),
        NAME(CL_INVALID_KERNEL_ARGS),
        NAME(CL_INVALID_WORK_GROUP_SIZE),
        NAME(CL_INVALID_EVENT),
        NAME(CL_INVALID_OPERATION),
        NAME(CL_INVALID_BUFFER_SIZE),
        NAME(CL_INVALID_CONTEXT),
        NAME(CL_INVALID_DEVICE),
        NAME(CL_INVALID_PLATFORM),
        NAME(CL_INVALID_EVENT_WAIT_LIST),
        NAME(CL_INVALID_GLOBAL_WORK_SIZE),
        NAME(CL_INVALID_WORK_ITEM_SIZE),
        NAME(CL_INVALID_KERNEL_DEFINITION),
        NAME(CL_INVALID_QUEUE_PROPERTIES),
        NAME(CL_MISALIGNED_SUB_BUFFER_OFFSET),
        NAME(CL_PROFILING_INFO_NOT_AVAILABLE),
#undef NAME
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (names[i].error == error)
            return names[i].name;
    return "error";
}

bool fv_cl_is_memory(cl_int error, const char *call)
{
    /* Drivers also report "out of resources" for a kernel that failed, which is not about
     * memory. */
    const bool buffer = strcmp(call, "clCreateBuffer") == 0;
    return error == CL_MEM_OBJECT_ALLOCATION_FAILURE || error == CL_OUT_OF_HOST_MEMORY ||
           (buffer && (error == CL_OUT_OF_RESOURCES || error == CL_INVALID_BUFFER_SIZE));
}

fovea_status fv_cl_fail(cl_int error, const char *call, const char *what)
{
    const bool memory = fv_cl_is_memory(error, call);
    return fv_fail(memory ? FOVEA_ENOMEM : FOVEA_EDEVICE, "%s%s%s: %s (%d); %s", call,
                   what ? " " : "", what ? what : "", fv_cl_error_name(error), (int)error,
                   memory ? "use a smaller picture, linear attention or a memory limit"
                          : "close the device and open it again");
}
