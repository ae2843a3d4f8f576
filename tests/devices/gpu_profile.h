/* gpu_profile.h: OpenCL devices that pass for GPUs of a kind, for dry plans: what these say of
 * themselves, and what was seen of them. */
#ifndef FOVEA_TESTS_GPU_PROFILE_H
#define FOVEA_TESTS_GPU_PROFILE_H

#include "cl/cl_device.h"

typedef struct gpu_profile {
    const char *name;
    fv_cl_limits limits;
    uint32_t features;
    int dot;
} gpu_profile;

const gpu_profile *gpu_profile_at(size_t i);            /* NULL after the last */
const gpu_profile *gpu_profile_named(const char *name); /* NULL: there is none */
/* Makes an OpenCL device one of the profile. Nothing may run on it any more. */
void gpu_pretend(fovea_device *device, const gpu_profile *profile);

#endif
