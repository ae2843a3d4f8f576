/* cl_import.h: memory of the caller's as a buffer of the device's context. */
#ifndef FOVEA_CL_CL_IMPORT_H
#define FOVEA_CL_CL_IMPORT_H

#include "cl/cl_device.h"

/* As fv_backend has them. */
fovea_status fv_cl_import(fv_device *d, const fv_import_request *r, fv_import **out);
void fv_cl_forget(fv_device *d, fv_import *m);

/* Adds the ways in which the driver says that it takes memory. */
void fv_cl_list_imports(char list[FV_GPU_WORDS], const fv_cl_place *p);

cl_mem fv_cl_imported(const fv_import *m);
/* Enqueues what is to be done before kernels read it, and after, on the queue of the kernels: so
 * one frame's end comes before the next one's begin. `ready`: an event to wait for; NULL: none. */
fovea_status fv_cl_acquire(fv_device *d, cl_command_queue queue, const fv_import *m,
                           cl_event ready);
fovea_status fv_cl_release(fv_device *d, cl_command_queue queue, const fv_import *m);

#endif
