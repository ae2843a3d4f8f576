/* cuda_info.c: describes a device, its driver and its limits. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "cuda/cuda_device.h"
#include "cuda/cuda_import.h"
#include "platform/os/os.h"

/* 0 on failure. */
static uint32_t attribute(CUdevice device, CUdevice_attribute which)
{
    int value = 0;
    return fv_cuda.cuDeviceGetAttribute(&value, which, device) == CUDA_SUCCESS && value > 0
               ? (uint32_t)value
               : 0;
}

void fv_cuda_read_limits(CUdevice device, fv_cuda_limits *out)
{
    size_t memory = 0;
    if (fv_cuda.cuDeviceTotalMem(&memory, device) != CUDA_SUCCESS)
        memory = 0;
    *out = (fv_cuda_limits){
        .memory = memory,
        .local = attribute(device, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK),
        .units = attribute(device, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT),
        .group = attribute(device, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK),
        .arch = 10 * attribute(device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) +
                attribute(device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR),
        .integrated = attribute(device, CU_DEVICE_ATTRIBUTE_INTEGRATED) &&
                      attribute(device, CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY),
        .watched = attribute(device, CU_DEVICE_ATTRIBUTE_KERNEL_EXEC_TIMEOUT),
    };
}

void fv_cuda_device_name(int index, char *out, size_t size)
{
    CUdevice device;
    out[0] = 0;
    if (fv_cuda.cuDeviceGet(&device, index) != CUDA_SUCCESS ||
        fv_cuda.cuDeviceGetName(out, (int)size, device) != CUDA_SUCCESS)
        out[0] = 0;
    out[size - 1] = 0;
}

uint32_t fv_cuda_features(const fv_cuda_limits *l)
{
    /* On a board cuBLASLt would take too much memory. */
    return (l->arch >= 80   ? FV_NEED_CUDA_MMA
            : l->arch >= 75 ? FV_NEED_CUDA_MMA_F16
                            : 0) |
           (l->units >= 64 ? FV_NEED_CUDA_LARGE : 0) |
           (!l->integrated && fv_cuda_cublaslt() ? FV_NEED_CUDA_BLASLT : 0);
}

static void list_quirks(fovea_device_info *out, const fv_cuda_limits *l, const char *target)
{
    fv_gpu_check_driver_cache(out->quirks, "CUDA_CACHE_PATH", NULL, ".nv/ComputeCache");
    if (!l->group)
        fv_gpu_add_words(out->quirks, "reports no limits");
    if (!fv_cuda_nvrtc())
        fv_gpu_add_words(out->quirks, "no NVRTC: only kernels compiled into this build");
    else if (!*target)
        fv_gpu_add_words(
            out->quirks,
            "NVRTC does not know its architecture: only kernels compiled into this build");
    if (!fv_cuda_has_graphs())
        fv_gpu_add_words(out->quirks, "no graphs");
    if (l->watched)
        fv_gpu_add_words(out->quirks, "long kernels are ended");
}

void fv_cuda_fill_info(fovea_device_info *out, int index, const fv_device *d)
{
    CUdevice device = 0;
    fv_cuda_limits limits;
    char target[32];
    const int version = fv_cuda_version();
    memset(out, 0, sizeof *out);
    if (fv_cuda.cuDeviceGet(&device, index) != CUDA_SUCCESS)
        device = 0;
    fv_cuda_read_limits(device, &limits);
    fv_cuda_target(&limits, target, sizeof target);
    snprintf(out->id, sizeof out->id, "cuda:%d", index);
    fv_cuda_device_name(index, out->name, sizeof out->name);
    snprintf(out->features, sizeof out->features, "sm_%u%s%s", limits.arch,
             limits.arch >= 80   ? ", tensor cores"
             : limits.arch >= 75 ? ", float16 tensor cores"
                                 : "",
             d && d->features & FV_NEED_CUDA_BLASLT ? ", cuBLASLt" : "");
    /* The compiler's version is a part of the identity, because it affects the kernels as much as
     * the driver does. */
    const fv_nvrtc_api *nvrtc = fv_cuda_nvrtc();
    int major = 0, minor = 0;
    const bool compiles = nvrtc && nvrtc->nvrtcVersion(&major, &minor) == NVRTC_SUCCESS;
    const int used = snprintf(out->driver, sizeof out->driver, "CUDA %d.%d", version / 1000,
                              version % 1000 / 10);
    if (compiles)
        snprintf(out->driver + used, sizeof out->driver - (size_t)used, ", NVRTC %d.%d", major,
                 minor);
    out->units = limits.units;
    out->core_kinds = 1;
    out->memory = out->max_buffer = limits.memory;
    out->local_memory = limits.local;
    out->group_limit = limits.group;
    out->bf16 = limits.arch >= 80;
    out->int8 = limits.arch >= 61;
    list_quirks(out, &limits, target);
    fv_cuda_list_imports(out->imports);
}

/* ---- identity ---- */

fovea_status fv_cuda_identify(char **out, const fv_device *d)
{
    const fv_nvrtc_api *nvrtc = fv_cuda_nvrtc();
    char name[128], driver[512], compiler[512] = "";
    int major = 0, minor = 0;
    void *code;
    const size_t size = 2048;
    FV_TRY(fv_mem_alloc(out, size, FV_MEM_DEVICE, "the device's identity"));
    if (fv_cuda.cuDeviceGetName(name, sizeof name, d->device) != CUDA_SUCCESS)
        name[0] = 0;
    name[sizeof name - 1] = 0;
    memcpy(&code, &fv_cuda.cuInit, sizeof code);
    fv_os_library_of(code, driver, sizeof driver);
    if (nvrtc && nvrtc->nvrtcVersion(&major, &minor) == NVRTC_SUCCESS) {
        memcpy(&code, &nvrtc->nvrtcVersion, sizeof code);
        fv_os_library_of(code, compiler, sizeof compiler);
    }
    /* In every backend's text, the fourth line is the device's name. */
    snprintf(*out, size, "CUDA\nNVIDIA\n%d\n%s\n%s of sm_%u\n%d.%d\n%s\n%s", fv_cuda_version(),
             name, d->target, d->limits.arch, major, minor, driver, compiler);
    return FOVEA_OK;
}
