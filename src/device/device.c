/* device.c: lists, opens and names devices. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/abi.h"
#include "base/mem.h"
#include "device/backend.h"
#include "ops/mech_traits.h"

extern const fv_backend fv_backend_cpu, fv_backend_cl, fv_backend_cuda;

const fv_backend *const fv_backends[] = {
    &fv_backend_cpu,
#ifdef FV_HAVE_CL
    &fv_backend_cl,
#endif
#ifdef FV_HAVE_CUDA
    &fv_backend_cuda,
#endif
    NULL,
};

int fovea_device_list(size_t index, fovea_device_info *out)
{
    for (size_t i = 0; fv_backends[i]; i++) {
        fovea_device_info info;
        const size_t n = fv_backends[i]->probe(index, &info);
        if (index < n)
            return FV_ABI_WRITE(out, info, FOVEA_DEVICE_INFO_INIT) == FOVEA_OK;
        index -= n;
    }
    return 0;
}

const char *fovea_backend_status(size_t index)
{
    for (size_t i = 0; fv_backends[i]; i++)
        if (index-- == 0)
            return fv_backends[i]->status();
    static const char *const absent[] = {
#ifndef FV_HAVE_CL
        "cl: this build has no OpenCL, because it found no OpenCL headers",
#endif
#ifndef FV_HAVE_CUDA
        "cuda: this build has no CUDA",
#endif
        NULL,
    };
    return index < sizeof absent / sizeof *absent ? absent[index] : NULL;
}

/* Appends to a message, and truncates it at `size`. */
static void append(char *text, size_t size, const char *format, ...) FV_PRINTF(3, 4);
static void append(char *text, size_t size, const char *format, ...)
{
    const size_t used = strlen(text);
    va_list args;
    va_start(args, format);
    vsnprintf(text + used, size - used, format, args);
    va_end(args);
}

/* Reports which devices exist, and why a backend has none. */
static fovea_status no_device(const char *id, const fv_backend *backend)
{
    fovea_device_info found = FOVEA_DEVICE_INFO_INIT;
    char text[384] = "";
    const char *status = backend ? backend->status() : NULL;
    for (size_t i = 0; !backend && (status = fovea_backend_status(i)) != NULL; i++) {
        const size_t length = strcspn(status, ":");
        if (strncmp(id, status, length) == 0 && (id[length] == 0 || id[length] == ':'))
            break;
    }
    for (size_t i = 0; fovea_device_list(i, &found); i++)
        append(text, sizeof text, "%s%s (%.40s)", i ? ", " : "", found.id, found.name);
    if (status)
        append(text, sizeof text, "; %s", status);
    return fv_fail(FOVEA_ENODEV, "device '%s' does not exist; choose one of %s", id, text);
}

fovea_status fovea_device_open(fovea_device **out, const char *id,
                               const fovea_device_options *options)
{
    fovea_device_options o = FOVEA_DEVICE_OPTIONS_INIT;
    FV_TRY(FV_ABI_READ(o, options, FOVEA_DEVICE_OPTIONS_INIT));
    if (!(o.max_dispatch_seconds >= 0 && o.max_dispatch_seconds <= 1e3))
        return fv_fail(FOVEA_EINVAL,
                       "max_dispatch_seconds is %g; it must be from 0 (for 0.02 s) to 1000",
                       o.max_dispatch_seconds);
    if (!(o.max_compile_seconds >= 0 && o.max_compile_seconds <= FV_COMPILE_SECONDS_MOST))
        return fv_fail(FOVEA_EINVAL,
                       "max_compile_seconds is %g; it must be from 0 (for %g s) to %g",
                       o.max_compile_seconds, FV_COMPILE_SECONDS, FV_COMPILE_SECONDS_MOST);
    if (!id || strcmp(id, "auto") == 0)
        id = "cpu";
    const fv_backend *backend = NULL;
    for (size_t i = 0; fv_backends[i]; i++) {
        size_t n = strlen(fv_backends[i]->name);
        if (strncmp(id, fv_backends[i]->name, n) == 0 && (id[n] == 0 || id[n] == ':'))
            backend = fv_backends[i];
    }
    if (!backend)
        return no_device(id, NULL);
    fovea_device *d;
    FV_TRY(FV_MEM_NEW(&d, FV_MEM_DEVICE, "the device"));
    d->backend = backend;
    const char *which = strchr(id, ':');
    fovea_status status = backend->open(&d->device, which ? which + 1 : "", &o);
    if (status != FOVEA_OK) {
        fv_mem_free(d);
        return status == FOVEA_ENODEV ? no_device(id, backend) : status;
    }
    backend->describe(d->device, &d->info);
    d->refs = 1;
    *out = d;
    return FOVEA_OK;
}

fovea_device *fv_device_ref(fovea_device *d)
{
    atomic_fetch_add(&d->refs, 1);
    return d;
}

void fv_device_unref(fovea_device *d)
{
    if (!d || atomic_fetch_sub(&d->refs, 1) > 1)
        return;
    d->backend->close(d->device);
    fv_mem_free(d);
}

void fovea_device_close(fovea_device *device)
{
    fv_device_unref(device);
}

fovea_status fovea_device_describe(const fovea_device *device, fovea_device_info *out)
{
    FV_TRY(fv_require(device, "the device"));
    return FV_ABI_WRITE(out, device->info, FOVEA_DEVICE_INFO_INIT);
}

uint32_t fovea_device_threads(const fovea_device *device)
{
    fv_limits limits;
    device->backend->limits(device->device, &limits);
    return limits.threads;
}

fovea_status fovea_device_rates(fovea_device *device, fovea_rates *out)
{
    fovea_rates rates;
    FV_TRY(FV_ABI_CHECK(out, FOVEA_RATES_INIT));
    FV_TRY(device->backend->rates(device->device, &rates));
    return FV_ABI_WRITE(out, rates, FOVEA_RATES_INIT);
}

int fovea_kernel_list(size_t index, fovea_kernel_info *out)
{
    for (size_t i = 0; fv_backends[i]; i++) {
        int count;
        uint32_t features;
        const fv_kernel *list = fv_backends[i]->kernels(NULL, &count, &features);
        if (index >= (size_t)count) {
            index -= (size_t)count;
            continue;
        }
        const fv_kernel *k = &list[index];
        const fovea_kernel_info info = {.name = k->name,
                                        .op = fv_op_names[k->op],
                                        .mechanism = fv_mech_table[k->mech]->name,
                                        .isa = fv_backends[i]->level(k->needs),
                                        .usable = (k->needs & ~features) == 0};
        return FV_ABI_WRITE(out, info, FOVEA_KERNEL_INFO_INIT) == FOVEA_OK;
    }
    return 0;
}
