/* cl_fence.h: the end of a command as a sync_file of Linux, for drivers and processes that know
 * nothing of OpenCL.
 */
#ifndef FOVEA_CL_CL_FENCE_H
#define FOVEA_CL_CL_FENCE_H

#include "cl/cl_device.h"

typedef struct fv_cl_fences fv_cl_fences;

/* *out stays NULL where the driver has no such thing, or its objects cannot be made. */
void fv_cl_fences_open(fv_cl_fences **out, const fv_device *d);
void fv_cl_fences_close(fv_cl_fences *f, const fv_device *d); /* NULL is fine */

/* *fd is signalled once `after` is done, whose queue was flushed, and is the caller's; -1: it is
 * done already. ENOTSUP: f is NULL, or a call has failed before. One thread at a time. */
fovea_status fv_cl_fences_export(fv_cl_fences *f, fv_device *d, cl_event after, int *fd);

#endif
