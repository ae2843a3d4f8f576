/* cuda_loader.c: finds the driver, the compiler and cuBLASLt. */
#include "cuda/cuda_loader.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "gpu/gpu_host.h"

fv_cuda_api fv_cuda;

static fv_nvrtc_api nvrtc;
static fv_cublaslt_api cublaslt;
static bool have_nvrtc, have_cublaslt;
static pthread_once_t once = PTHREAD_ONCE_INIT, once_cublaslt = PTHREAD_ONCE_INIT;
static int count, version;
static char status_text[512] = "cuda: this machine has no NVIDIA driver (libcuda.so.1); install "
                               "the driver if it has an NVIDIA GPU";

#define RESOLVE(api, name, symbol) *(void **)&api.name = dlsym(library, #symbol)

/* Fills fv_cuda; returns the name of a function that is missing, or NULL. */
static const char *resolve_driver(void *library)
{
#define FV_CUDA_CALL(name, symbol, parameters)                                                     \
    RESOLVE(fv_cuda, name, symbol);                                                                \
    if (!fv_cuda.name)                                                                             \
        return #symbol;
#define FV_CUDA_OPTION(name, symbol, parameters) RESOLVE(fv_cuda, name, symbol);
#include "cuda/cuda_calls.inc"
    return NULL;
}

static bool resolve_nvrtc(void *library)
{
#define FV_NVRTC_CALL(name, symbol, parameters)                                                    \
    RESOLVE(nvrtc, name, symbol);                                                                  \
    if (!nvrtc.name)                                                                               \
        return false;
#define FV_NVRTC_OPTION(name, symbol, parameters) RESOLVE(nvrtc, name, symbol);
#include "cuda/cuda_calls.inc"
    return true;
}

static bool resolve_cublaslt(void *library)
{
#define FV_CUBLASLT_CALL(name, symbol, parameters)                                                 \
    RESOLVE(cublaslt, name, symbol);                                                               \
    if (!cublaslt.name)                                                                            \
        return false;
#include "cuda/cuda_calls.inc"
    return true;
}

/* An environment variable; NULL if it is unset or empty. */
static const char *environment(const char *name)
{
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

/* ---- errors ---- */

const char *fv_cuda_error_name(CUresult error)
{
    const char *name = NULL;
    return fv_cuda.cuGetErrorName(error, &name) == CUDA_SUCCESS && name ? name : "error";
}

bool fv_cuda_is_fatal(CUresult error)
{
    switch ((int)error) {
    case CUDA_ERROR_ECC_UNCORRECTABLE:
    case CUDA_ERROR_NVLINK_UNCORRECTABLE:
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_LAUNCH_TIMEOUT:
    case CUDA_ERROR_CONTEXT_IS_DESTROYED:
    case CUDA_ERROR_ASSERT:
    case CUDA_ERROR_HARDWARE_STACK_ERROR:
    case CUDA_ERROR_ILLEGAL_INSTRUCTION:
    case CUDA_ERROR_MISALIGNED_ADDRESS:
    case CUDA_ERROR_INVALID_ADDRESS_SPACE:
    case CUDA_ERROR_INVALID_PC:
    case CUDA_ERROR_LAUNCH_FAILED:
    case CUDA_ERROR_UNKNOWN:
        return true;
    default:
        return false;
    }
}

/* A remedy for an error, or NULL. */
static const char *remedy(CUresult error)
{
    switch ((int)error) {
    case CUDA_ERROR_OUT_OF_MEMORY:
        return "use a smaller picture, linear attention or a memory limit";
    case CUDA_ERROR_NOT_INITIALIZED:
        return "CUDA cannot be used after a fork: open devices in the process that uses them";
    case CUDA_ERROR_DEINITIALIZED:
        return "the process is ending: close devices before that";
    case CUDA_ERROR_STUB_LIBRARY:
        return "libcuda.so is the stub for linking programs: remove its folder from "
               "LD_LIBRARY_PATH";
    case CUDA_ERROR_DEVICE_UNAVAILABLE:
        return "another process uses the GPU exclusively: see nvidia-smi";
    case CUDA_ERROR_NO_DEVICE:
        return "there is no NVIDIA GPU, or CUDA_VISIBLE_DEVICES hides it";
    case CUDA_ERROR_INVALID_IMAGE:
    case CUDA_ERROR_NO_BINARY_FOR_GPU:
    case CUDA_ERROR_UNSUPPORTED_PTX_VERSION:
        return "install a newer driver, or the NVRTC with the driver's version";
    case CUDA_ERROR_SYSTEM_NOT_READY:
        return "start NVIDIA's services (fabric manager) first";
    case CUDA_ERROR_SYSTEM_DRIVER_MISMATCH:
        return "the driver was replaced while it was in use: restart the machine";
    case CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE:
        return "remove the package cuda-compat: this GPU works only with its own driver";
    default:
        return NULL;
    }
}

fovea_status fv_cuda_fail(CUresult error, const char *call, const char *what)
{
    const char *help = remedy(error);
    if (!help)
        help = fv_cuda_is_fatal(error)
                   ? "close everything that uses this GPU in this process, or restart the process"
                   : "close the device and open it again";
    return fv_fail(error == CUDA_ERROR_OUT_OF_MEMORY ? FOVEA_ENOMEM : FOVEA_EDEVICE,
                   "%s%s%s: %s (%d); %s", call, what ? " " : "", what ? what : "",
                   fv_cuda_error_name(error), error, help);
}

/* ---- the driver ---- */

static const char *driver_name(void)
{
    const char *chosen = environment("FOVEA_CUDA");
    return chosen ? chosen : "libcuda.so.1";
}

/* Files of devices. */
static const char *const nodes[] = {"/dev/nvidiactl", "/dev/nvidia0", "/dev/nvmap",
                                    "/dev/nvhost-gpu", NULL};

static void explain(const char *library, const char *lacks, CUresult error)
{
    const char *node = fv_gpu_forbidden(nodes);
    if (lacks)
        snprintf(status_text, sizeof status_text,
                 "cuda: %s lacks %s; a driver for CUDA 11 or later is needed", library, lacks);
    else if (count)
        snprintf(status_text, sizeof status_text, "cuda: %s with CUDA %d.%d, %d device%s%s",
                 library, version / 1000, version % 1000 / 10, count, count == 1 ? "" : "s",
                 have_nvrtc ? "" : "; no NVRTC, so only kernels compiled into this build work");
    else if (node)
        snprintf(
            status_text, sizeof status_text,
            "cuda: %s has no device; this user may not open %s: add the user to the file's group",
            library, node);
    else if (error == CUDA_SUCCESS)
        snprintf(status_text, sizeof status_text, "cuda: %s has no device: it reports 0 devices",
                 library);
    else
        snprintf(status_text, sizeof status_text, "cuda: %s has no device: %s (%d); %s", library,
                 fv_cuda_error_name(error), error,
                 remedy(error) ? remedy(error) : "run nvidia-smi to find out why");
}

static void find_driver(void)
{
    const char *name = driver_name();
    void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL); /* stays open: it has threads */
    if (!library) {
        if (environment("FOVEA_CUDA"))
            snprintf(status_text, sizeof status_text,
                     "cuda: the library %.200s, given by FOVEA_CUDA, cannot be opened; correct or "
                     "unset the variable",
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

/* The folder in which NVIDIA's own packages install the toolkit; it may not be among the linker's
 * folders. */
static const char toolkit[] = "/usr/local/cuda/lib64/";

static void *open_anywhere(const char *name)
{
    char path[96];
    void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (library)
        return library;
    snprintf(path, sizeof path, "%s%s", toolkit, name);
    return dlopen(path, RTLD_NOW | RTLD_LOCAL);
}

enum { OLDEST = 11, NEWEST = 13 }; /* of the toolkits */

/* Opens library `name` with a toolkit's version number; in toolkits of version 11 its name ends in
 * `eleven`. */
static void *open_numbered(const char *name, int number, const char *eleven)
{
    char text[64];
    if (number == OLDEST)
        snprintf(text, sizeof text, "%s.%s", name, eleven);
    else
        snprintf(text, sizeof text, "%s.%d", name, number);
    return open_anywhere(text);
}

/* Opens the library of the driver's own version, else the newest older one, else any: a newer one
 * may generate code that the driver rejects. */
static void *open_version(const char *name, const char *eleven)
{
    const int own = version / 1000;
    void *library = NULL;
    for (int v = own; !library && v >= OLDEST; v--)
        library = open_numbered(name, v, eleven);
    for (int v = own + 1; !library && v <= NEWEST; v++)
        library = open_numbered(name, v, eleven);
    return library ? library : open_anywhere(name);
}

/* NVRTC opens its second library by name, in the linker's folders. So it is opened here first, and
 * found because it is already open. */
static void open_builtins(void)
{
    int major, minor;
    char name[64];
    if (nvrtc.nvrtcVersion(&major, &minor) != NVRTC_SUCCESS)
        return;
    snprintf(name, sizeof name, "libnvrtc-builtins.so.%d.%d", major, minor);
    open_anywhere(name);
}

static void find_nvrtc(void)
{
    const char *chosen = environment("FOVEA_NVRTC");
    void *library =
        chosen ? dlopen(chosen, RTLD_NOW | RTLD_LOCAL) : open_version("libnvrtc.so", "11.2");
    have_nvrtc = library && resolve_nvrtc(library);
    if (have_nvrtc && !chosen)
        open_builtins();
}

/* Looks for cuBLASLt, which is linked with the system's driver. */
static void find_cublaslt(void)
{
    const char *chosen = environment("FOVEA_CUBLASLT");
    void *library = NULL;
    if (chosen)
        library = dlopen(chosen, RTLD_NOW | RTLD_LOCAL);
    else if (!environment("FOVEA_CUDA"))
        library = open_version("libcublasLt.so", "11");
    have_cublaslt = library && resolve_cublaslt(library);
}

static void find_libraries(void)
{
    find_driver();
    if (!count)
        return;
    find_nvrtc();
    explain(driver_name(), NULL, CUDA_SUCCESS);
}

int fv_cuda_devices(void)
{
    pthread_once(&once, find_libraries);
    return count;
}

const char *fv_cuda_status(void)
{
    fv_cuda_devices();
    return status_text;
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

bool fv_cuda_changes_graphs(void)
{
    return fv_cuda_has_graphs() && fv_cuda.cuStreamGetCaptureInfo_v2 &&
           fv_cuda.cuGraphExecKernelNodeSetParams;
}
