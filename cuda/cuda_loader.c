/* cuda_loader.c: finds the driver, the compiler and cuBLASLt. */
#include "cuda_loader.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

fv_cuda_api fv_cuda;

static fv_nvrtc_api nvrtc;
static fv_cublaslt_api cublaslt;
static bool have_nvrtc, have_cublaslt;
static pthread_once_t once = PTHREAD_ONCE_INIT, once_cublaslt = PTHREAD_ONCE_INIT;
static int count, version;
static char remark[512] = "cuda: no driver of NVIDIA's (libcuda.so.1) on this machine; install the "
                          "one for its GPU, if it has one";

#define RESOLVE(api, name, symbol) *(void **)&api.name = dlsym(library, #symbol)

/* Fills fv_cuda; returns the name of a function that is missing, or NULL. */
static const char *resolve_driver(void *library)
{
#define FV_CUDA_CALL(name, symbol, parameters)                                                     \
    RESOLVE(fv_cuda, name, symbol);                                                                \
    if (!fv_cuda.name)                                                                             \
        return #symbol;
#define FV_CUDA_OPTION(name, symbol, parameters) RESOLVE(fv_cuda, name, symbol);
#include "cuda_calls.inc"
    return NULL;
}

static bool resolve_nvrtc(void *library)
{
#define FV_NVRTC_CALL(name, symbol, parameters)                                                    \
    RESOLVE(nvrtc, name, symbol);                                                                  \
    if (!nvrtc.name)                                                                               \
        return false;
#define FV_NVRTC_OPTION(name, symbol, parameters) RESOLVE(nvrtc, name, symbol);
#include "cuda_calls.inc"
    return true;
}

static bool resolve_cublaslt(void *library)
{
#define FV_CUBLASLT_CALL(name, symbol, parameters)                                                 \
    RESOLVE(cublaslt, name, symbol);                                                               \
    if (!cublaslt.name)                                                                            \
        return false;
#include "cuda_calls.inc"
    return true;
}

/* NULL where it is not set, or empty. */
static const char *environment(const char *name)
{
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

/* ---- the driver ---- */

static const char *driver_name(void)
{
    const char *chosen = environment("FOVEA_CUDA");
    return chosen ? chosen : "libcuda.so.1";
}

/* A device's file that this user may not open, or NULL. */
static const char *forbidden(void)
{
    static const char *const nodes[] = {"/dev/nvidiactl", "/dev/nvidia0", "/dev/nvmap",
                                        "/dev/nvhost-gpu"};
    for (size_t i = 0; i < sizeof nodes / sizeof *nodes; i++)
        if (access(nodes[i], F_OK) == 0 && access(nodes[i], R_OK | W_OK) != 0)
            return nodes[i];
    return NULL;
}

static void explain(const char *library, const char *lacks, CUresult error)
{
    const char *node = forbidden();
    if (lacks)
        snprintf(remark, sizeof remark, "cuda: %s lacks %s; a driver of CUDA 11 or later is needed",
                 library, lacks);
    else if (count)
        snprintf(remark, sizeof remark, "cuda: %s of CUDA %d.%d, %d device%s%s", library,
                 version / 1000, version % 1000 / 10, count, count == 1 ? "" : "s",
                 have_nvrtc ? "" : "; without NVRTC: the kernels of this build alone");
    else if (node)
        snprintf(remark, sizeof remark,
                 "cuda: %s has no device; %s is closed to this user: add it to the group that owns "
                 "the file",
                 library, node);
    else
        snprintf(remark, sizeof remark, "cuda: %s has no device: %s (%d)", library,
                 error == CUDA_SUCCESS ? "it counts none" : fv_cuda_error_name(error), error);
}

static void find_driver(void)
{
    const char *name = driver_name();
    void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL); /* stays open: it has threads */
    if (!library) {
        if (environment("FOVEA_CUDA"))
            snprintf(remark, sizeof remark,
                     "cuda: FOVEA_CUDA names %.200s, which cannot be opened: correct or unset it",
                     name);
        return;
    }
    const char *lacks = resolve_driver(library);
    CUresult error = lacks ? CUDA_SUCCESS : fv_cuda.cuInit(0);
    if (!lacks && error == CUDA_SUCCESS)
        error = fv_cuda.cuDriverGetVersion(&version);
    if (!lacks && error == CUDA_SUCCESS && fv_cuda.cuDeviceGetCount(&count) != CUDA_SUCCESS)
        count = 0;
    explain(name, lacks, error);
}

/* ---- the other libraries ---- */

/* Opens the first of `names` that there is; "%d" in one stands for the driver's own version, what
 * is newer than that may make code that the driver does not take. */
static void *open_first(const char *const *names)
{
    for (; *names; names++) {
        char name[64];
        snprintf(name, sizeof name, *names, version / 1000);
        void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
        if (library)
            return library;
    }
    return NULL;
}

static void find_nvrtc(void)
{
    static const char *const names[] = {"libnvrtc.so.%d", "libnvrtc.so.12", "libnvrtc.so.11.2",
                                        "libnvrtc.so.13", "libnvrtc.so",    NULL};
    const char *chosen = environment("FOVEA_NVRTC");
    void *library = chosen ? dlopen(chosen, RTLD_NOW | RTLD_LOCAL) : open_first(names);
    have_nvrtc = library && resolve_nvrtc(library);
}

/* It is linked with the system's driver. */
static void find_cublaslt(void)
{
    static const char *const names[] = {"libcublasLt.so.%d", "libcublasLt.so.12",
                                        "libcublasLt.so.11", "libcublasLt.so.13",
                                        "libcublasLt.so",    NULL};
    const char *chosen = environment("FOVEA_CUBLASLT");
    void *library = NULL;
    if (chosen)
        library = dlopen(chosen, RTLD_NOW | RTLD_LOCAL);
    else if (!environment("FOVEA_CUDA"))
        library = open_first(names);
    have_cublaslt = library && resolve_cublaslt(library);
}

static void find(void)
{
    find_driver();
    if (!count)
        return;
    find_nvrtc();
    explain(driver_name(), NULL, CUDA_SUCCESS);
}

int fv_cuda_devices(void)
{
    pthread_once(&once, find);
    return count;
}

const char *fv_cuda_remark(void)
{
    fv_cuda_devices();
    return remark;
}

int fv_cuda_version(void)
{
    return fv_cuda_devices() ? version : 0;
}

const fv_nvrtc_api *fv_cuda_nvrtc(void)
{
    return fv_cuda_devices() && have_nvrtc ? &nvrtc : NULL;
}

const fv_cublaslt_api *fv_cuda_cublaslt(void)
{
    if (!fv_cuda_devices())
        return NULL;
    pthread_once(&once_cublaslt, find_cublaslt);
    return have_cublaslt ? &cublaslt : NULL;
}

bool fv_cuda_has_graphs(void)
{
    return fv_cuda_devices() && fv_cuda.cuStreamBeginCapture && fv_cuda.cuStreamEndCapture &&
           fv_cuda.cuGraphInstantiate && fv_cuda.cuGraphLaunch && fv_cuda.cuGraphDestroy &&
           fv_cuda.cuGraphExecDestroy;
}

/* ---- errors ---- */

const char *fv_cuda_error_name(CUresult error)
{
    const char *name = NULL;
    return fv_cuda.cuGetErrorName(error, &name) == CUDA_SUCCESS && name ? name : "error";
}

fovea_status fv_cuda_fail(CUresult error, const char *call, const char *what)
{
    const bool memory = error == CUDA_ERROR_OUT_OF_MEMORY;
    return fv_fail(memory ? FOVEA_ENOMEM : FOVEA_EDEVICE, "%s%s%s: %s (%d); %s", call,
                   what ? " " : "", what ? what : "", fv_cuda_error_name(error), error,
                   memory ? "use a smaller picture, linear attention or a memory limit"
                          : "close the device and open it again");
}
