/* device.c: finds, opens and names devices. */
#include <stdlib.h>
#include <string.h>

#include "backend.h"
#include "mech/traits.h"
#include "mem.h"

extern const fv_backend fv_backend_cpu;

const fv_backend *const fv_backends[] = {&fv_backend_cpu, NULL};

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
    static const char *const remark[] = {
        "cpu: portable C and the vector levels of this architecture",
        "cl: not part of this build",
        "cuda: not part of this build",
    };
    return index < sizeof remark / sizeof *remark ? remark[index] : NULL;
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
    if (!id || strcmp(id, "auto") == 0)
        id = "cpu";
    const fv_backend *backend = NULL;
    for (size_t i = 0; fv_backends[i]; i++) {
        size_t n = strlen(fv_backends[i]->name);
        if (strncmp(id, fv_backends[i]->name, n) == 0 && (id[n] == 0 || id[n] == ':'))
            backend = fv_backends[i];
    }
    if (!backend)
        return fv_fail(FOVEA_ENODEV, "device '%s': there is none of that name; this build has cpu",
                       id);
    void *memory;
    FV_TRY(fv_mem_alloc(&memory, sizeof(fovea_device), FV_MEM_DEVICE, "the device"));
    fovea_device *d = memory;
    d->backend = backend;
    fovea_status status = backend->open(&d->device, 0, options);
    if (status != FOVEA_OK) {
        fv_mem_free(d);
        return status;
    }
    backend->describe(d->device, &d->info);
    *out = d;
    return FOVEA_OK;
}

void fovea_device_close(fovea_device *device)
{
    if (!device)
        return;
    device->backend->close(device->device);
    fv_mem_free(device);
}

void fovea_device_describe(const fovea_device *device, fovea_device_info *out)
{
    *out = device->info;
}

uint32_t fovea_device_threads(const fovea_device *device)
{
    return device->backend->threads(device->device);
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
                                   .op = fv_op_table[k->op].name,
                                   .mechanism = fv_mech_table[k->mech]->name,
                                   .isa = fv_backends[i]->level(k->needs),
                                   .usable = (k->needs & ~features) == 0};
        return 1;
    }
    return 0;
}
