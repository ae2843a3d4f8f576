/* cl_probe.h: runs kernels outside a plan, to find out what a device can do and how fast it is. */
#ifndef FOVEA_CL_CL_PROBE_H
#define FOVEA_CL_CL_PROBE_H

#include "cl/cl_device.h"

enum { FV_CL_PROBE_ITEMS = 64 }; /* most work-items in a probe's work-group */

/* Implemented in cl_run.c. The size of a work-group: the one that the kernel requires, else a power
 * of two, at most `most`, that the device and the compiled kernel allow. */
size_t fv_cl_probe_group(const fv_device *d, cl_kernel k, size_t most);
/* Sets one argument. */
fovea_status fv_cl_probe_set(cl_kernel k, cl_uint index, size_t size, const void *value);
/* Runs a kernel on `items` work-items and waits. *seconds, unless NULL, gets the time by the host's
 * clock. */
fovea_status fv_cl_probe_run(fv_device *d, cl_kernel k, size_t items, size_t group,
                             double *seconds);

#endif
