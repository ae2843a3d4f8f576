/* cuda_scan.c: host side of scan.cu. */
#include "cuda_kernels.h"
#include "mech/traits.h"

enum { GROUP = 128, COLUMNS = 64, WIDEST = 128 /* features of a head */ };

static void define(const fv_launch *l, uint32_t group, fv_gpu_text *out)
{
    (void)group;
    fv_gpu_define(out, "FV_D", l->args.prob.dim[FV_ATTN_D]);
    fv_gpu_define(out, "FV_DV", l->args.prob.dim[FV_ATTN_DV]);
    fv_gpu_define(out, "FV_HEADS", l->args.prob.heads);
}

/* The slices of a head that has a divisor come one after the other. */
static void shape(const fv_launch *l, const fv_gpu_piece *p, size_t count[3])
{
    const fv_problem *problem = &l->args.prob;
    (void)p;
    count[0] = problem->heads;
    if (problem->flags & FV_FLAG_UNNORMALISED)
        count[1] = fv_gpu_groups(problem->dim[FV_ATTN_DV], COLUMNS);
}

const fv_gpu_code fv_cuda_scan = {.program = "scan.cu",
                                  .entry = "scan",
                                  .group = GROUP,
                                  .define = define,
                                  .shape = shape,
                                  .align = 16};

static bool applies(const fv_problem *p)
{
    return fv_h_cl_scan_chunk.applies(p) &&
           fv_mech_table[p->mech]->blocks * p->dim[FV_ATTN_D] <= WIDEST;
}

/* A few tokens are no chunk. */
static double cost(const fv_problem *p, const fv_knobs *knobs)
{
    return fv_h_cl_scan_chunk.cost(p, knobs) * (p->dim[FV_DIM_ROWS] < 8 ? 2. : 0.1);
}

const fv_kernel_hooks fv_h_cuda_scan = {.applies = applies, .cost = cost};
