/* cuda_lattn.c: launch code of lattn.cu. */
#include "cuda/cuda_kernels.h"
#include "cuda/cuda_operands.h"
#include "ops/contracts/linear_attention.h"
#include "ops/mech_traits.h"

enum {
    GROUP = 128,
    WARPS = GROUP / 32,
    COLUMNS = 64, /* value columns that are processed at a time, as in lattn.cu */
    WIDEST = 128, /* features of a head */
    STAGES_MOST = 4,
    TILE_BYTES = 44 * 1024, /* bytes of shared memory for tiles; 48 KB can be declared */
};

static const fv_mech_traits *traits(const fv_problem *p)
{
    return fv_mech_table[p->mech];
}

static uint32_t slices(const fv_problem *p)
{
    return (uint32_t)fv_gpu_groups(p->dim[FV_ATTN_DV], COLUMNS);
}

/* The fewest work-groups that a multiprocessor must be able to run, by which the compiler limits
 * registers: three, with 168 registers each, if that needs no spilling. */
static uint32_t reduce_least(const fv_launch *l)
{
    const fv_operand *o = l->operand;
    const bool centred = traits(&l->args.prob)->wants & FV_WANT_CENTRED;
    return centred || o[FV_REDUCE_K].type == FV_F32 || o[FV_REDUCE_V].type == FV_F32 ? 2 : 3;
}

static uint32_t apply_least(const fv_launch *l)
{
    const fv_mech_traits *t = traits(&l->args.prob);
    return l->operand[FV_APPLY_Q].type == FV_F32 || t->blocks > 1 || t->wants & FV_WANT_CENTRED ? 2
                                                                                                : 3;
}

/* ---- REDUCE ---- */

/* Bytes of a row in shared memory. */
static uint32_t pitch(uint32_t numbers, enum fv_type type)
{
    const uint32_t bytes = numbers * (uint32_t)fv_type_size(type);
    return (bytes + 127) / 128 * 128 + 32;
}

/* Rows in a tile: 16 for every warp that does not share its rows with others; there are at least
 * two tiles. */
static uint32_t tile_of(const fv_launch *l, uint32_t *stages)
{
    const fv_problem *p = &l->args.prob;
    const uint32_t channels = 32 / traits(p)->blocks; /* of a warp */
    const uint32_t across = (uint32_t)fv_gpu_groups(p->dim[FV_ATTN_D], channels);
    const uint32_t row = pitch(across * channels, l->operand[FV_REDUCE_K].type) +
                         pitch(COLUMNS, l->operand[FV_REDUCE_V].type);
    const uint32_t down = across > 2 ? 1 : WARPS / across;
    uint32_t tile = down > 1 ? 16 * down : 32;
    while (tile > 16 && 2 * tile * row > TILE_BYTES)
        tile /= 2;
    const uint32_t fit = TILE_BYTES / (tile * row);
    *stages = fit < STAGES_MOST ? fit : STAGES_MOST;
    return tile;
}

static void reduce_define(const fv_launch *l, uint32_t group, fv_gpu_text *out)
{
    const uint32_t *dim = l->args.prob.dim;
    uint32_t stages, tile = tile_of(l, &stages);
    fv_gpu_lattn_merge.define(l, group, out);
    fv_gpu_define(out, "FV_LEAST", reduce_least(l));
    fv_gpu_define(out, "FV_TILE", tile);
    fv_gpu_define(out, "FV_STAGES", stages);
    fv_gpu_define(out, "FV_WIDE0", fv_cuda_heads_are_wide(l, FV_REDUCE_K, dim[FV_ATTN_D]));
    fv_gpu_define(out, "FV_WIDE1", fv_cuda_heads_are_wide(l, FV_REDUCE_V, dim[FV_ATTN_DV]));
}

/* Heads of the same rows are in neighbouring work-groups, because their columns of a row are
 * neighbours in memory. */
static void reduce_shape(const fv_launch *l, const fv_gpu_piece *piece, size_t count[3])
{
    const fv_problem *p = &l->args.prob;
    const bool serial = traits(p)->wants & FV_WANT_CENTRED;
    count[0] = p->heads * (serial ? 1 : slices(p));
    count[1] = piece->groups;
}

FV_GPU_CODE(fv_cuda_lattn_reduce, "lattn.cu", "lattn_reduce", GROUP,
            .macros = " -DFV_LATTN_REDUCE=1", .define = reduce_define, .shape = reduce_shape,
            .align = 64)

/* ---- APPLY ---- */

/* Rows of a work-group per iteration. */
static uint32_t apply_rows(const fv_problem *p)
{
    const uint32_t runs = (uint32_t)fv_gpu_groups(p->dim[FV_ATTN_D], 32);
    return WARPS * 16 * (traits(p)->blocks * runs <= 2 ? 2 : 1);
}

/* Number of work-groups of APPLY. Each one prepares the state for itself, so only as many are
 * started as run at the same time: one round, or four if a single round would have so few per head
 * that multiprocessors stay idle. */
static size_t apply_groups(const fv_launch *l, const fv_gpu_piece *piece)
{
    const fv_problem *p = &l->args.prob;
    const size_t blocks = fv_gpu_groups(piece->rows, apply_rows(p));
    const size_t heads = (size_t)p->heads * slices(p),
                 round = apply_least(l) * (size_t)piece->units;
    const size_t groups = round / heads < 8 ? 4 * round / heads : round / heads;
    const size_t iterations = groups > 1 ? (blocks + groups - 1) / groups : blocks;
    return (blocks + iterations - 1) / iterations;
}

static void apply_define(const fv_launch *l, uint32_t group, fv_gpu_text *out)
{
    const uint32_t *dim = l->args.prob.dim;
    fv_gpu_lattn_merge.define(l, group, out);
    fv_gpu_define(out, "FV_LEAST", apply_least(l));
    fv_gpu_define(out, "FV_WIDE0", fv_cuda_heads_are_wide(l, FV_APPLY_Q, dim[FV_ATTN_D]));
    fv_gpu_define(out, "FV_WIDE6", fv_cuda_heads_are_wide(l, FV_APPLY_OUT, dim[FV_ATTN_DV]));
}

static void apply_shape(const fv_launch *l, const fv_gpu_piece *piece, size_t count[3])
{
    const fv_problem *p = &l->args.prob;
    count[0] = p->heads * slices(p);
    count[1] = apply_groups(l, piece);
}

FV_GPU_CODE(fv_cuda_lattn_apply, "lattn.cu", "lattn_apply", GROUP, .macros = " -DFV_LATTN_APPLY=1",
            .define = apply_define, .shape = apply_shape, .align = 128)

static bool applies(const fv_problem *p)
{
    return fv_lattn_applies(traits(p)->streams, traits(p)->wants, p) &&
           traits(p)->blocks * p->dim[FV_ATTN_D] <= WIDEST;
}

/* Far above the rate of the OpenCL kernels, so that these are preferred wherever they apply. */
const fv_kernel_hooks fv_h_cuda_lattn = {.applies = applies, .rate = 2e12};

/* For values in float16, as tensor cores before sm_80 need. */
static bool applies_to_halves(const fv_problem *p)
{
    return p->in == FV_F16 && applies(p);
}

const fv_kernel_hooks fv_h_cuda_lattn_halves = {.applies = applies_to_halves, .rate = 2e12};
