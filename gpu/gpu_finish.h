/* gpu_finish.h: the epilogue after products by a library (CLBlast, cuBLASLt): the library leaves
 * the sums in the step's scratch, and kernel `finish` of gemm.cl reads them there. So the residual
 * may be the output itself, and the output may have any type. */
#ifndef FOVEA_GPU_GPU_FINISH_H
#define FOVEA_GPU_GPU_FINISH_H

#include "gpu/gpu_code.h"

/* Columns of the sums. With SWIGLU these are the values, followed by the gates. */
size_t fv_gpu_sums_width(const fv_problem *p);
/* Of fv_gpu_code: */
void fv_gpu_finish_define(const fv_launch *l, uint32_t group, fv_gpu_text *out);
void fv_gpu_finish_shape(const fv_launch *l, const fv_gpu_piece *p, size_t count[3]);

#endif
