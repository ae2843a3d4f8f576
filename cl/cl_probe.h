/* cl_probe.h: runs of kernels that stand alone, for what a device does and how fast. */
#ifndef FOVEA_CL_CL_PROBE_H
#define FOVEA_CL_CL_PROBE_H

#include "cl/cl_device.h"

enum { FV_CL_PROBE_ITEMS = 64 }; /* of a work-group at most */

/* cl_run.c. Work-items of a group, `most` at most: a power of two that the device and the compiled
 * kernel allow. */
size_t fv_cl_probe_group(const fv_device *d, cl_kernel k, size_t most);
/* Sets one argument. */
fovea_status fv_cl_probe_set(cl_kernel k, cl_uint index, size_t size, const void *value);
/* Runs on `items` work-items and waits; *seconds, where wanted, is the host's. */
fovea_status fv_cl_probe_run(fv_device *d, cl_kernel k, size_t items, size_t group,
                             double *seconds);

#endif
