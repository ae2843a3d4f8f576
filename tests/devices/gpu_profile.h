/* gpu_profile.h: makes an OpenCL device imitate a kind of GPU for dry plans, with the properties
 * that such GPUs report and the rates that were measured on them. */
#ifndef FOVEA_TESTS_GPU_PROFILE_H
#define FOVEA_TESTS_GPU_PROFILE_H

#include "cl/cl_device.h"

typedef struct gpu_profile {
    const char *name;
    fv_cl_limits limits;
    uint32_t features;
    int dot;
} gpu_profile;

const gpu_profile *
gpu_profile_at(size_t i); /* Returns a profile by its index, or NULL after the last. */
const gpu_profile *
gpu_profile_named(const char *name); /* Returns a profile by its name, or NULL if there is none. */
/* Makes an OpenCL device imitate the profile. Nothing may run on the device afterwards. */
void gpu_pretend(fovea_device *device, const gpu_profile *profile);

#endif
