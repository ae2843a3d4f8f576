/* gpu_elementwise.c: launch code of elementwise.cl. */
#include "gpu/gpu_code.h"

FV_GPU_CODE(fv_gpu_mul, "elementwise", "mul", 64, .shape = fv_gpu_shape_columns, .align = 1)
FV_GPU_CODE(fv_gpu_act, "elementwise", "act", 64, .shape = fv_gpu_shape_columns, .align = 1)
FV_GPU_CODE(fv_gpu_add, "elementwise", "add", 64, .shape = fv_gpu_shape_columns, .align = 1)
