/* gpu_profile.c: see gpu_profile.h. */
#include "tests/devices/gpu_profile.h"

#include <string.h>

#include "device/backend.h"

/* Properties and measured rates of several kinds of GPU. */
static const gpu_profile profiles[] = {
    {"mali",
     {.local = 32 << 10, .units = 4, .group = 1024, .unified = true},
     FV_NEED_CL_HALF | FV_NEED_CL_DOT,
     2},
    {"adreno",
     {.local = 32 << 10, .units = 4, .group = 1024, .unified = true, .own_local = true},
     FV_NEED_CL_HALF | FV_NEED_CL_DOT | FV_NEED_CL_LOCAL,
     1},
    /* The same GPU, but images are faster than local memory. */
    {"texture",
     {.local = 32 << 10, .units = 4, .group = 1024, .unified = true, .own_local = true},
     FV_NEED_CL_HALF | FV_NEED_CL_DOT | FV_NEED_CL_LOCAL | FV_NEED_CL_IMAGE |
         FV_NEED_CL_IMAGE_FIRST,
     1},
    {"amd",
     {.local = 64 << 10, .units = 96, .group = 256, .unified = true, .own_local = true},
     FV_NEED_CL_HALF | FV_NEED_CL_LOCAL,
     0},
    {"intel",
     {.local = 64 << 10, .units = 96, .group = 256, .unified = true, .own_local = true},
     FV_NEED_CL_HALF | FV_NEED_CL_LOCAL | FV_NEED_CL_SUBGROUPS,
     0},
    /* Small GPUs without float16: VideoCore, Vivante, PowerVR. */
    {"plain",
     {.local = 16 << 10, .units = 1, .group = 256, .unified = true, .own_local = true},
     FV_NEED_CL_LOCAL,
     0},
    {"small", {.local = 8 << 10, .units = 1, .group = 64, .unified = true}, 0, 0},
};

const gpu_profile *gpu_profile_at(size_t i)
{
    return i < sizeof profiles / sizeof *profiles ? &profiles[i] : NULL;
}

const gpu_profile *gpu_profile_named(const char *name)
{
    const gpu_profile *p;
    for (size_t i = 0; (p = gpu_profile_at(i)); i++)
        if (strcmp(p->name, name) == 0)
            return p;
    return NULL;
}

void gpu_pretend(fovea_device *device, const gpu_profile *profile)
{
    fv_device *d = device->device;
    d->limits = profile->limits;
    d->limits.memory = (uint64_t)64 << 30;
    d->limits.largest = d->limits.memory / 2;
    d->features = profile->features;
    d->dot = profile->dot;
    d->int8_attention = profile->dot != 0;
}
