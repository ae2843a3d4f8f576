/* device.c: finds, opens and names devices. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

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

size_t fovea_device_list(fovea_device_info *out, size_t max)
{
    size_t found = 0;
    for (size_t i = 0; fv_backends[i]; i++) {
        size_t room = found < max ? max - found : 0;
        int n = fv_backends[i]->probe(room ? out + found : NULL, room > 64 ? 64 : (int)room);
        found += n > 0 ? (size_t)n : 0;
    }
    return found;
}

const char *fovea_backend_remark(size_t index)
{
    for (size_t i = 0; fv_backends[i]; i++)
        if (index-- == 0)
            return fv_backends[i]->remark();
    static const char *const absent[] = {
#ifndef FV_HAVE_CL
        "cl: not part of this build, which found no OpenCL headers",
#endif
#ifndef FV_HAVE_CUDA
        "cuda: not part of this build",
#endif
        NULL,
    };
    return index < sizeof absent / sizeof *absent ? absent[index] : NULL;
}

/* Adds to what a message holds so far; what does not fit is cut. */
static void append(char *text, size_t size, const char *format, ...) FV_PRINTF(3, 4);
static void append(char *text, size_t size, const char *format, ...)
{
    const size_t used = strlen(text);
    va_list args;
    va_start(args, format);
    vsnprintf(text + used, size - used, format, args);
    va_end(args);
}

/* Names the devices there are, and why a backend has none. */
static fovea_status no_device(const char *id, const fv_backend *backend)
{
    fovea_device_info found[16];
    const size_t room = sizeof found / sizeof *found, n = fovea_device_list(found, room);
    char text[384] = "";
    const char *remark = backend ? backend->remark() : NULL;
    for (size_t i = 0; !backend && (remark = fovea_backend_remark(i)) != NULL; i++) {
        const size_t length = strcspn(remark, ":");
        if (strncmp(id, remark, length) == 0 && (id[length] == 0 || id[length] == ':'))
            break;
    }
    for (size_t i = 0; i < n && i < room; i++)
        append(text, sizeof text, "%s%s (%.40s)", i ? ", " : "", found[i].id, found[i].name);
    if (remark)
        append(text, sizeof text, "; %s", remark);
    return fv_fail(FOVEA_ENODEV, "device '%s': there is none of that name; there are %s", id, text);
}

fovea_status fovea_device_open(fovea_device **out, const char *id,
                               const fovea_device_options *options)
{
    static const fovea_device_options defaults = FOVEA_DEVICE_OPTIONS_INIT;
    if (!options)
        options = &defaults;
    if (options->version != defaults.version)
        return fv_fail(FOVEA_EINVAL,
                       "device options of version %u; initialise them with "
                       "FOVEA_DEVICE_OPTIONS_INIT",
                       options->version);
    if (!(options->max_dispatch_ms >= 0 && options->max_dispatch_ms <= 1e6))
        return fv_fail(FOVEA_EINVAL, "dispatches of %g ms at most; give 0 (20) to 1e6",
                       options->max_dispatch_ms);
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
    void *memory;
    FV_TRY(fv_mem_alloc(&memory, sizeof(fovea_device), FV_MEM_DEVICE, "the device"));
    fovea_device *d = memory;
    d->backend = backend;
    const char *which = strchr(id, ':');
    fovea_status status = backend->open(&d->device, which ? which + 1 : "", options);
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

void fovea_device_describe(const fovea_device *device, fovea_device_info *out)
{
    if (out)
        *out = device ? device->info : (fovea_device_info){.id = ""};
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
    FV_TRY(device->backend->rates(device->device, &rates));
    *out = rates;
    return FOVEA_OK;
}

fovea_status fovea_cache_export(fovea_device *device, void *data, size_t room, size_t *size)
{
    if (device->backend->cache_export)
        return device->backend->cache_export(device->device, data, room, size);
    *size = 0;
    return FOVEA_OK;
}

fovea_status fovea_cache_import(fovea_device *device, const void *data, size_t size)
{
    if (device->backend->cache_import)
        return device->backend->cache_import(device->device, data, size);
    return FOVEA_OK;
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
        *out = (fovea_kernel_info){.name = k->name,
                                   .op = fv_op_table[k->op]->name,
                                   .mechanism = fv_mech_table[k->mech]->name,
                                   .isa = fv_backends[i]->level(k->needs),
                                   .usable = (k->needs & ~features) == 0};
        return 1;
    }
    return 0;
}
