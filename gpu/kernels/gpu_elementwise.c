/* gpu_elementwise.c: launch code of elementwise.cl. */
#include "gpu/gpu_code.h"

const fv_gpu_code fv_gpu_mul = {.program = "elementwise",
                                .entry = "mul",
                                .group = 64,
                                .shape = fv_gpu_shape_columns,
                                .align = 1};
const fv_gpu_code fv_gpu_act = {.program = "elementwise",
                                .entry = "act",
                                .group = 64,
                                .shape = fv_gpu_shape_columns,
                                .align = 1};
const fv_gpu_code fv_gpu_add = {.program = "elementwise",
                                .entry = "add",
                                .group = 64,
                                .shape = fv_gpu_shape_columns,
                                .align = 1};
