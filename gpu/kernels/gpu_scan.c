/* gpu_scan.c: launch code of scan.cl. */
#include "gpu/gpu_code.h"
#include "ops/mech_traits.h"

enum {
    GROUP = 128,
    TEAM = 32,
    TOKEN = 10, /* floats of per-token scalars */
    /* Elements of a column of the state per work-item: as many as registers hold, in vectors of
     * 16. */
    PART = 16,
};

/* How a step is divided: the numbers that scan.cl is compiled with, and sizes that follow from
 * them. */
typedef struct layout {
    uint32_t tokens, down, across;
    uint32_t features; /* floats of the features of q, or of k, for all staged tokens */
} layout;

static uint32_t width_of(const fv_problem *p)
{
    return p->dim[FV_ATTN_D] * fv_mech_table[p->mech]->blocks;
}

/* Splits a column of the state over as many work-items as needed for each to keep its part in
 * registers. Stages as many tokens as fit local memory: fewer for smaller groups, which devices
 * with little local memory have. */
static layout lay_out(const fv_launch *l, uint32_t group)
{
    const uint32_t width = width_of(&l->args.prob);
    const uint32_t arrays = l->args.prob.flags & FV_FLAG_DECAY_CHANNEL ? 4 : 2;
    layout y = {.tokens = group >= GROUP && width * arrays <= 256 ? 8 : 4, .down = 1};
    while (y.down < 16 && 2 * y.down <= group && width > PART * y.down)
        y.down *= 2;
    y.across = group / y.down;
    y.features = (width + y.down - 1) / y.down * y.down * y.tokens;
    return y;
}

static void scan_define(const fv_launch *l, uint32_t group, fv_gpu_text *out)
{
    const layout y = lay_out(l, group);
    fv_gpu_define(out, "FV_D", l->args.prob.dim[FV_ATTN_D]);
    fv_gpu_define(out, "FV_DV", l->args.prob.dim[FV_ATTN_DV]);
    fv_gpu_define(out, "FV_TOKENS", y.tokens);
    fv_gpu_define(out, "FV_DOWN", y.down);
}

static uint32_t shared_floats(const fv_launch *l, uint32_t group, const layout *y)
{
    const uint32_t arrays = l->args.prob.flags & FV_FLAG_DECAY_CHANNEL ? 4 : 2;
    const uint32_t means = l->args.prob.flags & FV_FLAG_CENTRED ? y->across : 0;
    return arrays * y->features + y->tokens * (group + TEAM + 6 + TOKEN + means);
}

static uint32_t local_step(const fv_launch *l, uint32_t group)
{
    const layout y = lay_out(l, group);
    const uint32_t floats = shared_floats(l, group, &y) + 2 * group;
    return group == 1 ? 0 : floats * (uint32_t)sizeof(float);
}

static uint32_t local_chunk(const fv_launch *l, uint32_t group)
{
    const layout y = lay_out(l, group);
    const uint32_t floats = shared_floats(l, group, &y) + y.tokens * (y.across + 2 * y.tokens) +
                            2 * y.features / y.tokens;
    return group == 1 ? 0 : floats * (uint32_t)sizeof(float);
}

/* The slices of a head with a divisor are computed in order. */
static void scan_shape(const fv_launch *l, const fv_gpu_piece *p, size_t count[3])
{
    const fv_problem *problem = &l->args.prob;
    const layout y = lay_out(l, p->group);
    count[0] = problem->heads;
    if (problem->flags & FV_FLAG_UNNORMALISED)
        count[1] = fv_gpu_groups(problem->dim[FV_ATTN_DV], y.across);
}

FV_GPU_CODE(fv_gpu_scan_step, "scan", "scan", GROUP, .local = local_step,
            .macros = " -DFV_CHUNKED=0", .define = scan_define, .shape = scan_shape, .align = 8)
FV_GPU_CODE(fv_gpu_scan_chunk, "scan", "scan", GROUP, .local = local_chunk,
            .macros = " -DFV_CHUNKED=1", .define = scan_define, .shape = scan_shape, .align = 8)

static bool takes_steps(const fv_problem *p)
{
    return !(p->flags & FV_FLAG_CHUNKWISE);
}

/* The chunk kernels do not support a decay per channel in the delta rule's products of keys. */
static bool takes_chunks(const fv_problem *p)
{
    return !(p->flags & FV_FLAG_RECURRENT) &&
           !(p->flags & FV_FLAG_DELTA && p->flags & FV_FLAG_DECAY_CHANNEL);
}

static double state_products(const fv_problem *p)
{
    return (double)p->heads * p->dim[FV_DIM_ROWS] * width_of(p) * p->dim[FV_ATTN_DV];
}

static double step_cost(const fv_problem *p, const fv_knobs *k)
{
    (void)k;
    return 1e-6 + state_products(p) * 2e-10;
}

/* A single token is not computed as a chunk. */
static double chunk_cost(const fv_problem *p, const fv_knobs *k)
{
    (void)k;
    return 2e-6 + state_products(p) * (p->dim[FV_DIM_ROWS] < 4 ? 4e-10 : 1e-10);
}

const fv_kernel_hooks fv_h_gpu_scan_step = {.applies = takes_steps, .cost = step_cost};
const fv_kernel_hooks fv_h_gpu_scan_chunk = {.applies = takes_chunks, .cost = chunk_cost};
