/* gpu_sequence.c: launch code of short_conv.cl. */
#include "gpu/gpu_code.h"
#include "ops/contracts/sequence.h"

enum { SEGMENT = 16 }; /* rows per work-item, as in short_conv.cl */

static void define(const fv_launch *l, uint32_t group, fv_gpu_text *out)
{
    (void)group;
    fv_gpu_define(out, "SIZE", l->args.prob.dim[FV_SHORT_CONV_SIZE]);
}

static void shape(const fv_launch *l, const fv_gpu_piece *p, size_t count[3])
{
    const uint64_t segments = ((uint64_t)p->rows + SEGMENT - 1) / SEGMENT;
    fv_gpu_spread(count, segments, (l->args.prob.dim[FV_ROW_C] + 3) / 4, p->group);
}

FV_GPU_CODE(fv_gpu_short_conv, "short_conv", "short_conv", 64, .define = define, .shape = shape,
            .align = SEGMENT)
