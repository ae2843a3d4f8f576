/* emulated_device.c: devices of the emulated driver, and their contexts. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/cuda_emulator/emulated_driver.h"
#include "tests/devices/hostile.h"

enum { DEVICES = 8, DEPTH = 16 };

static bool initialised;
static struct {
    int retained;
    CUresult broken; /* error that every call returns from now on */
} primary[DEVICES];
static _Thread_local int current[DEPTH]; /* devices of the pushed contexts */
static _Thread_local int depth;

static CUcontext context_of(int device)
{
    return (CUcontext)(void *)&primary[device];
}

static int devices(void)
{
    const long n = hostile_lie(EMULATED_LIE_devices, 1);
    return n > DEVICES ? DEVICES : (int)n;
}

int emulated_capability(void)
{
    return (int)hostile_lie(EMULATED_LIE_sm, 80);
}

long emulated_shared(void)
{
    static const struct {
        int sm, kilobytes;
    } most[] = {{72, 96}, {75, 64}, {80, 163}, {86, 99}, {87, 163}, {89, 99}, {90, 227}};
    int kilobytes = 227;
    for (size_t i = sizeof most / sizeof *most; i-- > 0;)
        if (emulated_capability() <= most[i].sm)
            kilobytes = most[i].kilobytes;
    return hostile_lie(EMULATED_LIE_local, kilobytes * 1024L);
}

CUresult emulated_context_error(void)
{
    if (!initialised)
        return CUDA_ERROR_NOT_INITIALIZED;
    return depth ? primary[current[depth - 1]].broken : CUDA_ERROR_INVALID_CONTEXT;
}

/* Requires the lock. An error affects the contexts of all devices, because a single thread computes
 * for all. */
void emulated_break(CUresult error)
{
    for (int i = 0; i < DEVICES; i++)
        if (primary[i].retained)
            primary[i].broken = error;
}

/* ---- properties ---- */

CUresult cuInit(unsigned flags)
{
    const CUresult error = hostile_enter("cuInit");
    if (error != CUDA_SUCCESS)
        return error;
    if (flags)
        return CUDA_ERROR_INVALID_VALUE;
    initialised = true;
    return devices() ? CUDA_SUCCESS : CUDA_ERROR_NO_DEVICE;
}

#define ENTER_WITHOUT_CONTEXT(name)                                                                \
    do {                                                                                           \
        const CUresult error_ = hostile_enter(#name);                                              \
        if (error_ != CUDA_SUCCESS)                                                                \
            return error_;                                                                         \
        if (!initialised)                                                                          \
            return CUDA_ERROR_NOT_INITIALIZED;                                                     \
    } while (0)

CUresult cuDriverGetVersion(int *version)
{
    const CUresult error = hostile_enter("cuDriverGetVersion");
    *version = (int)hostile_lie(EMULATED_LIE_version, 13000);
    return error;
}

CUresult cuGetErrorName(CUresult error, const char **name)
{
    static const struct {
        CUresult error;
        const char *name;
    } names[] = {
#define FV_CUDA_CONSTANT(name, value) {value, #name},
#include "cuda/cuda_constants.inc"
#undef FV_CUDA_CONSTANT
    };
    *name = NULL;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (names[i].error == error && strncmp(names[i].name, "CUDA_", 5) == 0 && !*name)
            *name = names[i].name;
    return *name ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuDeviceGetCount(int *count)
{
    ENTER_WITHOUT_CONTEXT(cuDeviceGetCount);
    *count = devices();
    return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
    ENTER_WITHOUT_CONTEXT(cuDeviceGet);
    *device = ordinal;
    return ordinal >= 0 && ordinal < devices() ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuDeviceGetName(char *name, int size, CUdevice device)
{
    ENTER_WITHOUT_CONTEXT(cuDeviceGetName);
    snprintf(name, (size_t)size, "emulated sm_%d", emulated_capability());
    return device < devices() ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device)
{
    (void)device;
    ENTER_WITHOUT_CONTEXT(cuDeviceTotalMem);
    *bytes = (size_t)hostile_lie(EMULATED_LIE_largest, 8L << 30);
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device)
{
    ENTER_WITHOUT_CONTEXT(cuDeviceGetAttribute);
    if (device < 0 || device >= devices())
        return CUDA_ERROR_INVALID_DEVICE;
    switch ((int)attribute) {
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
        *value = EMULATED_THREADS;
        break;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK:
        *value = emulated_shared() < 48 << 10 ? (int)emulated_shared() : 48 << 10;
        break;
    case CU_DEVICE_ATTRIBUTE_CLOCK_RATE:
        *value = 1000000; /* kHz */
        break;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
        *value = (int)hostile_lie(EMULATED_LIE_units, 64);
        break;
    case CU_DEVICE_ATTRIBUTE_KERNEL_EXEC_TIMEOUT:
        *value = 0;
        break;
    case CU_DEVICE_ATTRIBUTE_INTEGRATED:
        *value = hostile_lie(EMULATED_LIE_unified, 0) != 0;
        break;
    case CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY:
        *value = 1;
        break;
    case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE:
        *value = 4 << 20;
        break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
        *value = emulated_capability() / 10;
        break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
        *value = emulated_capability() % 10;
        break;
    default:
        fprintf(stderr, "emulated CUDA: device attribute %d is not known here\n", (int)attribute);
        return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

/* ---- contexts ---- */

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
    ENTER_WITHOUT_CONTEXT(cuDevicePrimaryCtxRetain);
    if (device < 0 || device >= devices())
        return CUDA_ERROR_INVALID_DEVICE;
    pthread_mutex_lock(&hostile_lock);
    primary[device].retained++;
    *context = context_of(device);
    hostile_born(EMULATED_CONTEXT, *context);
    pthread_mutex_unlock(&hostile_lock);
    return CUDA_SUCCESS;
}

static bool any_retained(void)
{
    for (int i = 0; i < DEVICES; i++)
        if (primary[i].retained)
            return true;
    return false;
}

/* Releasing the last reference frees everything that was made in the context. */
CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
    pthread_mutex_lock(&hostile_lock);
    const bool alive = hostile_dies(EMULATED_CONTEXT, context_of(device));
    const bool last = alive && --primary[device].retained == 0;
    if (last)
        primary[device].broken = CUDA_SUCCESS;
    pthread_mutex_unlock(&hostile_lock);
    if (last && !any_retained() && emulated_idle("cuDevicePrimaryCtxRelease")) {
        emulated_streams_drop();
        emulated_modules_drop();
        emulated_memory_drop();
    }
    return alive ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult cuCtxPushCurrent_v2(CUcontext context)
{
    ENTER_WITHOUT_CONTEXT(cuCtxPushCurrent);
    for (int i = 0; i < DEVICES; i++)
        if (context == context_of(i) && primary[i].retained && depth < DEPTH) {
            current[depth++] = i;
            return CUDA_SUCCESS;
        }
    return CUDA_ERROR_INVALID_CONTEXT;
}

CUresult cuCtxPopCurrent_v2(CUcontext *context)
{
    if (depth == 0)
        return CUDA_ERROR_INVALID_CONTEXT;
    depth--;
    if (context)
        *context = context_of(current[depth]);
    return CUDA_SUCCESS;
}

/* ---- captures of other threads ---- */

static _Thread_local CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *exchanged)
{
    ENTER_WITHOUT_CONTEXT(cuThreadExchangeStreamCaptureMode);
    const CUstreamCaptureMode before = mode;
    if (*exchanged < CU_STREAM_CAPTURE_MODE_GLOBAL || *exchanged > CU_STREAM_CAPTURE_MODE_RELAXED)
        return CUDA_ERROR_INVALID_VALUE;
    mode = *exchanged;
    *exchanged = before;
    return CUDA_SUCCESS;
}

CUstreamCaptureMode emulated_capture_mode(void)
{
    return mode;
}

/* For tests: the number of contexts on the calling thread; larger if the thread's capture mode was
 * not restored. */
API hostile_depth_fn hostile_depth;
long hostile_depth(void)
{
    return depth + (mode != CU_STREAM_CAPTURE_MODE_GLOBAL);
}
