/* cl_clblast.h: CLBlast, a library of matrix products for OpenCL, opened at run time. */
#ifndef FOVEA_CL_CL_CLBLAST_H
#define FOVEA_CL_CL_CLBLAST_H

#include <stdbool.h>

/* Whether it is there and works through the OpenCL library that fv_cl was taken from. Opens it when
 * first called. Thread-safe. */
bool fv_cl_clblast_found(void);
/* Drops the programs that it keeps, and with them the contexts that they keep. */
void fv_cl_clblast_forget(void);

#endif
