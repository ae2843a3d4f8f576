/* cl_fence.h: exports the end of a command as a sync_file of Linux, for drivers and processes that
 * do not use OpenCL.
 */
#ifndef FOVEA_CL_CL_FENCE_H
#define FOVEA_CL_CL_FENCE_H

#include "cl/cl_device.h"

typedef struct fv_cl_fences fv_cl_fences;

/* If the driver does not support sync_files or its objects cannot be made, *out stays NULL. */
void fv_cl_fences_open(fv_cl_fences **out, const fv_device *d);
void fv_cl_fences_close(fv_cl_fences *f, const fv_device *d); /* NULL is fine */

/* *fd becomes a file descriptor, owned by the caller, that is signalled once the command of `after`
 * is done; its queue must have been flushed. -1: it is done already. ENOTSUP if f is NULL or an
 * earlier call has failed. Not thread-safe. */
fovea_status fv_cl_fences_export(fv_cl_fences *f, fv_device *d, cl_event after, int *fd);

#endif
