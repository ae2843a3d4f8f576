/* cl_rates.c: OpenCL's part of gpu_meter.h, which measures how fast a device is. */
#include <stdio.h>

#include "cl/cl_probe.h"
#include "gpu/gpu_meter.h"

static fovea_status kernel(void **out, fv_device *d, const char *entry, int which)
{
    char options[80];
    snprintf(options, sizeof options, "-cl-std=CL1.2 -w -DFV_DOT=%d -DFV_PROBE=%d", d->dot, which);
    return fv_gpu_store_plain(out, &d->store, "probe", entry, options);
}

static void drop(fv_device *d, void *k)
{
    if (!d->hung)
        fv_cl.clReleaseKernel(k);
}

static fovea_status make_buffer(uint64_t *out, fv_device *d, uint64_t bytes)
{
    cl_mem buffer;
    FV_TRY(fv_cl_buffer_make(&buffer, d, CL_MEM_READ_WRITE, bytes, NULL, "measuring the memory"));
    *out = (uintptr_t)buffer;
    return FOVEA_OK;
}

static fovea_status make_image(uint64_t *out, fv_device *d, uint64_t buffer, uint64_t bytes)
{
    cl_mem image;
    FV_TRY(fv_cl_image_make(&image, d, (cl_mem)(uintptr_t)buffer, bytes, "measuring images"));
    *out = (uintptr_t)image;
    return FOVEA_OK;
}

static void release_measured(fv_device *d, uint64_t buffer)
{
    fv_cl_buffer_free(d, (cl_mem)(uintptr_t)buffer);
}

static size_t group_of(fv_device *d, void *k)
{
    return fv_cl_probe_group(d, k, FV_CL_PROBE_ITEMS);
}

static fovea_status run_measured(fv_device *d, void *k, const uint64_t *buffer, uint32_t buffers,
                                 uint32_t number, size_t items, size_t group, double *seconds)
{
    for (uint32_t i = 0; i < buffers; i++) {
        cl_mem b = (cl_mem)(uintptr_t)buffer[i];
        FV_TRY(fv_cl_probe_set(k, i, sizeof b, &b));
    }
    FV_TRY(fv_cl_probe_set(k, buffers, sizeof number, &number));
    return fv_cl_probe_run(d, k, items, group, seconds);
}

static fv_gpu_meter meter_of(fv_device *d)
{
    return (fv_gpu_meter){.device = d,
                          .store = &d->store,
                          .units = d->limits.units,
                          .memory = d->limits.memory,
                          .largest = d->limits.largest,
                          .ends_long_loops = d->limits.ends_long_loops,
                          .half = d->features & FV_NEED_CL_HALF,
                          .dot = d->features & FV_NEED_CL_DOT,
                          .local = d->features & FV_NEED_CL_LOCAL,
                          .image = d->features & FV_NEED_CL_IMAGE,
                          .subgroups = d->features & FV_NEED_CL_SUBGROUPS,
                          .wide = d->features & FV_NEED_CL_WIDE,
                          .kernel = kernel,
                          .drop = drop,
                          .buffer = make_buffer,
                          .image_of = make_image,
                          .release = release_measured,
                          .group = group_of,
                          .run = run_measured};
}

fovea_status fv_cl_rates_best(fv_device *d, fovea_rates *out)
{
    const fv_gpu_meter m = meter_of(d);
    FV_TRY(fv_cl_ready(d));
    return fv_gpu_meter_best(&m, out);
}

fv_gpu_rates fv_cl_measure(fv_device *d)
{
    const fv_gpu_meter m = meter_of(d);
    return fv_gpu_meter_known(&m, &d->rates, &d->lock);
}
