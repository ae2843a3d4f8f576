/* cuda_softmax.c: launch code of softmax.cu and foveated.cu. */
#include "cuda/cuda_kernels.h"
#include "cuda/cuda_operands.h"
#include "ops/contracts/softmax_attention.h"

enum { WIDEST = 128 }; /* channels of a head */
enum { KNOB_QUERIES, KNOB_KEYS, KNOB_FOVEATED_KEYS = 0 };

static bool is_foveated(const fv_launch *l)
{
    return l->args.prob.op == FV_OP_FOVEATED;
}

/* The number of operands, from K on, that are keys or values. */
static int attended(const fv_launch *l)
{
    return is_foveated(l) ? FV_FOVEATED_CELL_V : FV_SOFTMAX_V;
}

static enum fv_cuda_math math(const fv_launch *l)
{
    const fv_operand *o = l->operand;
    for (int i = FV_SOFTMAX_V; i <= attended(l); i++)
        if (o[i].type != o[FV_SOFTMAX_K].type)
            return FV_CUDA_TF32;
    return fv_cuda_math_of(o[FV_SOFTMAX_Q].type, o[FV_SOFTMAX_K].type);
}

static uint32_t widest(const fv_launch *l)
{
    const uint32_t d = l->args.prob.dim[FV_ATTN_D], dv = l->args.prob.dim[FV_ATTN_DV];
    return d > dv ? d : dv;
}

/* Of a work-group. */
static uint32_t queries_of(const fv_launch *l)
{
    return is_foveated(l) ? 64 : l->args.knobs.v[KNOB_QUERIES];
}

/* With many queries and enough registers, a work-group has twice as many queries, so that each key
 * that it reads serves more of them. */
static bool softmax_settle(fv_launch *l, uint32_t units, uint32_t choice)
{
    uint32_t *knob = l->args.knobs.v;
    const uint32_t *dim = l->args.prob.dim;
    const uint32_t together = fv_gpu_is_window(l) ? dim[FV_ATTN_KEYS] : dim[FV_DIM_ROWS];
    const bool enough_registers = math(l) != FV_CUDA_TF32 && widest(l) <= 64;
    const uint32_t best = !enough_registers    ? 64
                          : knob[KNOB_QUERIES] ? knob[KNOB_QUERIES]
                          : together < 256     ? 64
                                               : 128;
    (void)units;
    if (choice > (enough_registers && !knob[KNOB_QUERIES]))
        return false;
    knob[KNOB_QUERIES] = choice ? 64 + 128 - best : best;
    return true;
}

/* Keys per tile: as many as fit the registers and two stages of shared memory. */
static uint32_t keys_of(const fv_launch *l)
{
    const uint32_t knob = l->args.knobs.v[is_foveated(l) ? KNOB_FOVEATED_KEYS : KNOB_KEYS];
    uint32_t keys = math(l) == FV_CUDA_TF32 ? 32 : 64;
    if (widest(l) > 64 || (queries_of(l) == 128 && widest(l) > 32))
        keys /= 2;
    return knob && knob < keys ? knob : keys;
}

/* How many parts of tf32 operand `o` is split into; `other` is multiplied in the same way. */
static uint32_t parts_of(const fv_launch *l, int o, int other)
{
    const uint32_t a = fv_cuda_parts_of(l->operand[o].type);
    const uint32_t b = fv_cuda_parts_of(l->operand[other].type);
    return a > b ? a : b;
}

static void define_sizes(const fv_launch *l, fv_gpu_text *out)
{
    const uint32_t d = l->args.prob.dim[FV_ATTN_D], dv = l->args.prob.dim[FV_ATTN_DV];
    fv_gpu_define(out, "FV_D", d);
    fv_gpu_define(out, "FV_DV", dv);
    fv_gpu_define(out, "FV_QUERIES", queries_of(l));
    fv_gpu_define(out, "FV_KEYS", keys_of(l));
    fv_gpu_define(out, "FV_MATH", math(l));
    fv_gpu_define(out, "FV_0_PARTS", fv_cuda_parts_of(l->operand[FV_SOFTMAX_Q].type));
    fv_gpu_define(out, "FV_1_PARTS",
                  parts_of(l, FV_SOFTMAX_K, is_foveated(l) ? FV_FOVEATED_CELL_K : FV_SOFTMAX_K));
    fv_gpu_define(out, "FV_2_PARTS",
                  parts_of(l, FV_SOFTMAX_V, is_foveated(l) ? FV_FOVEATED_CELL_V : FV_SOFTMAX_V));
}

static void define_wide(const fv_launch *l, int out_operand, fv_gpu_text *out)
{
    const uint32_t d = l->args.prob.dim[FV_ATTN_D], dv = l->args.prob.dim[FV_ATTN_DV];
    fv_gpu_define(out, "FV_WIDE0", fv_cuda_heads_are_wide(l, FV_SOFTMAX_Q, d));
    fv_gpu_define(out, "FV_WIDE1", fv_cuda_heads_are_wide(l, FV_SOFTMAX_K, d));
    fv_gpu_define(out, "FV_WIDE2", fv_cuda_heads_are_wide(l, FV_SOFTMAX_V, dv));
    if (is_foveated(l)) {
        fv_gpu_define(out, "FV_WIDE3", fv_cuda_heads_are_wide(l, FV_FOVEATED_CELL_K, d));
        fv_gpu_define(out, "FV_WIDE4", fv_cuda_heads_are_wide(l, FV_FOVEATED_CELL_V, dv));
    }
    fv_gpu_define(out, "FV_WIDE_OUT", fv_cuda_heads_are_wide(l, out_operand, dv));
}

static void softmax_define(const fv_launch *l, uint32_t group, fv_gpu_text *out)
{
    (void)group;
    define_sizes(l, out);
    fv_gpu_define(out, "FV_WINDOW", fv_gpu_is_window(l));
    fv_gpu_define(out, "FV_REGIONS", fv_gpu_is_window(l) && l->args.table);
    fv_gpu_define(out, "FV_REL_POS", l->args.prob.dim[FV_REL_POS_COLUMNS] > 0);
    define_wide(l, FV_SOFTMAX_OUT, out);
}

static void foveated_define(const fv_launch *l, uint32_t group, fv_gpu_text *out)
{
    (void)group;
    define_sizes(l, out);
    define_wide(l, FV_FOVEATED_OUT, out);
}

static void softmax_shape(const fv_launch *l, const fv_gpu_piece *p, size_t count[3])
{
    fv_gpu_cover_queries(l, p->rows, queries_of(l), count);
}

static void foveated_shape(const fv_launch *l, const fv_gpu_piece *p, size_t count[3])
{
    fv_gpu_cover_blocks(l, p, queries_of(l), count);
}

FV_GPU_CODE(fv_cuda_softmax, "softmax.cu", "softmax", 128, .settle = softmax_settle,
            .define = softmax_define, .shape = softmax_shape, .align = 128)
FV_GPU_CODE(fv_cuda_wsoftmax, "softmax.cu", "wsoftmax", 128, .settle = softmax_settle,
            .define = softmax_define, .shape = softmax_shape, .table = fv_gpu_regions,
            .align = FV_GPU_WINDOWS)

FV_GPU_CODE(fv_cuda_foveated, "foveated.cu", "foveated", 128, .define = foveated_define,
            .shape = foveated_shape, .align = 32)

/* Queries and their sums stay in registers. Products of integers are computed by softmax_i8.cl. */
static bool applies(const fv_problem *p)
{
    return p->acc != FV_I32 && p->dim[FV_ATTN_D] <= WIDEST && p->dim[FV_ATTN_DV] <= WIDEST;
}

/* Far below the cost of OpenCL's kernels, which is the generic one. */
static double cost(const fv_problem *p, const fv_knobs *knobs)
{
    (void)knobs;
    return fv_problem_flops(p) / (p->in == FV_F32 ? 5e11 : 2e12);
}

/* 0: chosen for the problem's size */
static const fv_knob own_knobs[] = {
    {"queries", {0, 64, 128}, 3}, {"keys", {0, 32, 16}, 3}, {NULL, {0}, 0}};
static const fv_knob foveated_knobs[] = {{"keys", {0, 32, 16}, 3}, {NULL, {0}, 0}};

/* All operands are float16, as tensor cores before sm_80 need. A single key may have another
 * type. */
static bool applies_to_halves(const fv_problem *p)
{
    return p->in == FV_F16 && p->dim[FV_ATTN_KEYS] > 1 && applies(p);
}

const fv_kernel_hooks fv_h_cuda_softmax_halves = {
    .applies = applies_to_halves, .cost = cost, .knobs = own_knobs};
const fv_kernel_hooks fv_h_cuda_softmax = {.applies = applies, .cost = cost, .knobs = own_knobs};
const fv_kernel_hooks fv_h_cuda_foveated_halves = {
    .applies = applies_to_halves, .cost = cost, .knobs = foveated_knobs};
const fv_kernel_hooks fv_h_cuda_foveated = {
    .applies = applies, .cost = cost, .knobs = foveated_knobs};
