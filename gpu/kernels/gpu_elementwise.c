/* gpu_elementwise.c: launch code of elementwise.cl. */
#include "gpu/gpu_code.h"

static void elementwise_shape(const fv_launch *l, const fv_gpu_piece *p, size_t count[3])
{
    fv_gpu_spread(count, p->rows, (l->args.prob.dim[FV_ROW_C] + 3) / 4, p->group);
}

const fv_gpu_code fv_gpu_mul = {
    .program = "elementwise", .entry = "mul", .group = 64, .shape = elementwise_shape, .align = 1};
