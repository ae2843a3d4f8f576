/* cl_import.h: imports the caller's memory as a buffer of the device's context. */
#ifndef FOVEA_CL_CL_IMPORT_H
#define FOVEA_CL_CL_IMPORT_H

#include "cl/cl_device.h"

/* As fv_backend has them. */
fovea_status fv_cl_import(fv_device *d, const fv_import_request *r, fv_import **out);
void fv_cl_forget(fv_device *d, fv_import *m);

/* Adds the kinds of memory that the driver says it can import. */
void fv_cl_list_imports(char list[FV_GPU_WORDS], const fv_cl_place *p);

cl_mem fv_cl_imported(const fv_import *m);
/* Enqueue what has to be done before kernels read imported memory, and after that. Both use the
 * kernels' queue, so that one frame ends its access before the next one begins. `ready`: an event
 * to wait for; NULL: none. */
fovea_status fv_cl_acquire(fv_device *d, cl_command_queue queue, const fv_import *m,
                           cl_event ready);
fovea_status fv_cl_release(fv_device *d, cl_command_queue queue, const fv_import *m);

#endif
