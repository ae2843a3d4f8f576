/* cuda_rates.c: CUDA's part of gpu_meter.h, which measures how fast a device is. */
#include <stdio.h>

#include "cuda/cuda_device.h"
#include "gpu/gpu_meter.h"

enum { GROUP = 128 };

void fv_cuda_probe_options(char out[FV_CUDA_PROBE], int which)
{
    snprintf(out, FV_CUDA_PROBE, " -DFV_GROUP=%d -DFV_PROBE=%d", GROUP, which);
}

static fovea_status kernel(void **out, fv_device *d, const char *entry, int which)
{
    char options[FV_CUDA_PROBE];
    fv_cuda_probe_options(options, which);
    return fv_gpu_store_plain(out, &d->store, "probe", entry, options);
}

static fovea_status make_buffer(uint64_t *out, fv_device *d, uint64_t bytes)
{
    CUdeviceptr pointer;
    (void)d;
    FV_TRY(fv_cuda_alloc(&pointer, bytes, "measuring the memory"));
    *out = pointer;
    return FOVEA_OK;
}

static void release_measured(fv_device *d, uint64_t buffer)
{
    if (buffer && !d->hung)
        fv_cuda.cuMemFree(buffer);
}

static size_t group_of(fv_device *d, void *k)
{
    (void)d, (void)k;
    return GROUP;
}

/* Reports a failed launch. It leaves a rate unknown; the device is lost only if its context no
 * longer works. */
static fovea_status failed(fv_device *d, CUresult error, const char *call)
{
    return fv_cuda_is_fatal(error) ? fv_cuda_lose(d, error, call, "a probe")
                                   : fv_cuda_fail(error, call, "a probe");
}
#define RUN(d, call, arguments)                                                                    \
    do {                                                                                           \
        const CUresult error_ = fv_cuda.call arguments;                                            \
        if (error_ != CUDA_SUCCESS)                                                                \
            return failed(d, error_, #call);                                                       \
    } while (0)

/* Enqueues the kernel between two events, to measure its time. */
static fovea_status enqueue(fv_device *d, CUfunction k, void **parameter, size_t groups,
                            const CUevent event[2])
{
    RUN(d, cuEventRecord, (event[0], d->service));
    RUN(d, cuLaunchKernel,
        (k, (unsigned)groups, 1, 1, GROUP, 1, 1, 0, d->service, parameter, NULL));
    RUN(d, cuEventRecord, (event[1], d->service));
    return fv_cuda_finish(d, d->service, 0);
}

static fovea_status time_between(fv_device *d, CUfunction k, void **parameter, size_t groups,
                                 CUevent event[2], double *seconds)
{
    float ms;
    RUN(d, cuEventCreate, (&event[0], CU_EVENT_DEFAULT));
    RUN(d, cuEventCreate, (&event[1], CU_EVENT_DEFAULT));
    FV_TRY(enqueue(d, k, parameter, groups, event));
    RUN(d, cuEventElapsedTime, (&ms, event[0], event[1]));
    *seconds = ms * 1e-3;
    return FOVEA_OK;
}

static fovea_status run_measured(fv_device *d, void *k, const uint64_t *buffer, uint32_t buffers,
                                 uint32_t number, size_t items, size_t group, double *seconds)
{
    CUdeviceptr pointer[2] = {buffer[0], buffers > 1 ? buffer[1] : 0};
    CUevent event[2] = {NULL, NULL};
    void *parameter[3];
    for (uint32_t i = 0; i < buffers; i++)
        parameter[i] = &pointer[i];
    parameter[buffers] = &number;
    const fovea_status status = time_between(d, k, parameter, items / group, event, seconds);
    for (int i = 0; i < 2; i++)
        if (event[i] && !d->hung)
            fv_cuda.cuEventDestroy(event[i]);
    return status;
}

static fv_gpu_meter meter_of(fv_device *d)
{
    return (fv_gpu_meter){.device = d,
                          .store = &d->store,
                          .units = d->limits.units,
                          .memory = d->limits.memory,
                          .largest = d->limits.memory,
                          .kernel = kernel,
                          .buffer = make_buffer,
                          .release = release_measured,
                          .group = group_of,
                          .run = run_measured};
}

void fv_cuda_try_compiler(fv_device *d)
{
    enum { RATES = 5 }; /* FV_PROBE_RATES of probe.cl */
    void *k;
    if (!*d->target)
        return; /* the quirks of the device say what is missing */
    const bool works = kernel(&k, d, "compute", RATES) == FOVEA_OK;
    snprintf(d->compiler, sizeof d->compiler, "%s%s",
             works ? "works" : "builds nothing: ", works ? "" : fovea_error());
}

fovea_status fv_cuda_rates_best(fv_device *d, fovea_rates *out)
{
    const fv_gpu_meter m = meter_of(d);
    return fv_gpu_meter_best(&m, out);
}

/* FLOP/s of a multiprocessor if nothing could be measured: 64 lanes at the lowest clock of a
 * board. */
#define LEAST_FLOPS 20e9
#define LEAST_BYTES 2e9

fv_gpu_rates fv_cuda_measure(fv_device *d)
{
    const fv_gpu_meter m = meter_of(d);
    fv_gpu_rates rates = fv_gpu_meter_known(&m, &d->rates, &d->lock);
    if (rates.flops <= 0 || rates.bytes <= 0) {
        rates.flops = LEAST_FLOPS * d->limits.units;
        rates.bytes = LEAST_BYTES * d->limits.units;
    }
    return rates;
}
