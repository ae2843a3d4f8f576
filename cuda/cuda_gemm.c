/* cuda_gemm.c: launch code of gemm.cu, for GEMM and CONV: the packed weight, the tiles, and the
 * cost. */
#include <math.h>
#include <string.h>

#include "base/half.h"
#include "base/num.h"
#include "cuda/cuda_kernels.h"
#include "cuda/cuda_operands.h"
#include "gpu/kernels/gpu_quantise.h"

/* As in gemm.cu: columns in a panel of the packed weight, and in a tile; threads that share a
 * block's steps of a column. */
enum { PANEL = 32, TILE = 8, THREADS = 4 };

/* Steps of k in a block. */
static uint32_t steps(enum fv_type type)
{
    return type == FV_I8 ? 64 : 32;
}

static uint32_t sides(const fv_problem *p)
{
    return p->epi & FV_EPI_SWIGLU ? 2 : 1;
}

/* ---- the packed weight ---- */

static size_t packed_columns(const fv_problem *p)
{
    return fv_round_up(p->dim[FV_GEMM_N] * sides(p), PANEL);
}

static size_t packed(const fv_problem *p, const fv_knobs *knobs)
{
    (void)knobs;
    return packed_columns(p) * fv_round_up(p->dim[FV_GEMM_K], steps(p->weight)) *
           fv_type_size(p->weight);
}

/* Position of step k of column i in a panel. A panel is stored block by block, and a block's tiles
 * in order. Numbers of a tile are in the order of the threads that read them, 16 bytes per thread
 * at a time. */
static size_t place(uint32_t i, uint32_t k, enum fv_type type)
{
    const uint32_t block = steps(type), s = k % block, own = block / THREADS;
    const uint32_t per = 16 / (uint32_t)fv_type_size(type);
    const uint32_t tile = i % TILE / 2, column = i / TILE * 2 + i % 2;
    const uint32_t thread = column * THREADS + s / own, run = s % own / per;
    return (size_t)PANEL * (k - s) + tile * TILE * block + run * 32 * per + thread * per + s % per;
}

/* Packs rows of the weight. With SWIGLU a value column and its gate are neighbours. */
static void pack(void *dst, const float *src, uint32_t n0, uint32_t n, const fv_problem *p,
                 const fv_knobs *knobs)
{
    (void)knobs;
    const uint32_t both = sides(p), columns = n * both, depth = p->dim[FV_GEMM_K];
    const uint32_t padded = fv_round_up(depth, steps(p->weight));
    for (uint32_t col = 0; col < fv_round_up(columns, PANEL); col++) {
        const size_t panel = (size_t)(n0 * both + col) / PANEL * PANEL * padded;
        const float *row = src + ((size_t)(col % both) * n + col / both) * depth;
        for (uint32_t k = 0; k < padded; k++)
            fv_value_put(dst, p->weight, panel + place(col % PANEL, k, p->weight),
                         col < columns && k < depth ? row[k] : 0.f);
    }
}

/* Bytes of the packed weight in int8, which ends with the scales of all columns. */
static size_t packed_i8(const fv_problem *p, const fv_knobs *knobs)
{
    return packed(p, knobs) + packed_columns(p) * sizeof(float);
}

static void pack_i8(void *dst, const float *src, uint32_t n0, uint32_t n, const fv_problem *p,
                    const fv_knobs *knobs)
{
    const uint32_t both = sides(p), columns = n * both, depth = p->dim[FV_GEMM_K];
    const uint32_t padded = fv_round_up(depth, steps(FV_I8)), first = n0 * both;
    int8_t *to = (int8_t *)dst + (size_t)first * padded, q[FV_INT8_DEEPEST];
    float *scale = (float *)(void *)((int8_t *)dst + packed(p, knobs)) + first;
    memset(to, 0, (size_t)fv_round_up(columns, PANEL) * padded);
    memset(scale, 0, fv_round_up(columns, PANEL) * sizeof *scale);
    for (uint32_t col = 0; col < columns; col++) {
        int8_t *panel = to + (size_t)(col / PANEL) * PANEL * padded;
        scale[col] = fv_int8_weight(q, 4, src + ((size_t)(col % both) * n + col / both) * depth,
                                    depth, fv_int8_block(depth));
        for (uint32_t k = 0; k < depth; k++)
            panel[place(col % PANEL, k, FV_I8)] = q[k];
    }
}

/* How many terms a value of A is split into for tensor cores; one if sums may be rounded to
 * float16. */
static uint32_t parts_of_a(const fv_problem *p, enum fv_type a)
{
    return p->acc == FV_F16 ? 1 : fv_cuda_parts_of(a);
}

/* ---- tiles ---- */

/* Of a work-group's tile; 0: chosen for the problem and the device. */
enum { KNOB_ROWS, KNOB_COLS };

struct tile {
    uint32_t rows, cols;
};

/* The last two are used only if the knob asks for their number of columns. */
static const struct tile sizes[] = {{128, 128}, {128, 64}, {64, 64},
                                    {32, 64},   {64, 128}, {32, 128}};
enum { SIZES = sizeof sizes / sizeof *sizes, USUAL = 4 };

/* The most columns of a tile. For float operands 64 are enough. */
static uint32_t widest(const fv_launch *l)
{
    const enum fv_type a = l->operand[FV_GEMM_A].type, w = l->operand[FV_GEMM_W].type;
    return fv_cuda_math_of(a, w) == FV_CUDA_TF32 ? 64 : 128;
}

static bool may_have(const fv_launch *l, const struct tile *t)
{
    const uint32_t *knob = l->args.knobs.v, most = widest(l);
    const uint32_t cols = fv_min_u32(knob[KNOB_COLS], most);
    return t->cols <= most && (!knob[KNOB_ROWS] || t->rows == knob[KNOB_ROWS]) &&
           (cols ? t->cols == cols : t < sizes + USUAL);
}

/* Time of the product, in units of one product on one multiprocessor. All multiprocessors wait for
 * the one with the most tiles, and one with few tiles is not kept busy. At each step of k a tile
 * loads numbers of its rows and columns, each of which takes as long as FETCH products. This is an
 * estimate from the bytes that warps read from shared memory. */
static double time_of(const fv_problem *p, const struct tile *t, uint32_t units)
{
    enum { FETCH = 16, BUSY = 2 };
    const uint64_t columns = (uint64_t)p->dim[FV_GEMM_N] * sides(p);
    const uint64_t all =
        fv_gpu_groups(p->dim[FV_DIM_ROWS], t->rows) * (uint64_t)fv_gpu_groups(columns, t->cols);
    const uint64_t most = (all + units - 1) / units;
    return (double)(most > BUSY ? most : BUSY) * (t->rows * t->cols + FETCH * (t->rows + t->cols));
}

/* Chooses the `choice`-th fastest tile; of tiles with equal times the larger is first. */
static bool gemm_settle(fv_launch *l, uint32_t units, uint32_t choice)
{
    enum { USUAL_UNITS = 64 };
    double time[SIZES];
    for (int i = 0; i < SIZES; i++)
        time[i] = may_have(l, &sizes[i])
                      ? time_of(&l->args.prob, &sizes[i], units ? units : USUAL_UNITS)
                      : INFINITY;
    int best;
    do {
        best = 0;
        for (int i = 1; i < SIZES; i++)
            best = time[i] < time[best] ? i : best;
        if (time[best] == INFINITY)
            return false;
        time[best] = INFINITY;
    } while (choice--);
    l->args.knobs.v[KNOB_ROWS] = sizes[best].rows;
    l->args.knobs.v[KNOB_COLS] = sizes[best].cols;
    return true;
}

static struct tile tile_of(const fv_launch *l)
{
    return (struct tile){.rows = l->args.knobs.v[KNOB_ROWS], .cols = l->args.knobs.v[KNOB_COLS]};
}

/* Blocks of k in shared memory; more than four have no effect. */
static uint32_t stages(const struct tile *t, size_t a_size, enum fv_type w)
{
    const size_t block = steps(w) * (t->rows * a_size + t->cols * fv_type_size(w));
    return fv_min_u32(4, (uint32_t)(48 * 1024 / block));
}

static void gemm_define(const fv_launch *l, uint32_t group, fv_gpu_text *out)
{
    (void)group;
    const fv_problem *p = &l->args.prob;
    const enum fv_type a = l->operand[FV_GEMM_A].type, w = l->operand[FV_GEMM_W].type;
    const uint32_t math = fv_cuda_math_of(a, w);
    const struct tile t = tile_of(l);
    fv_gpu_define(out, "FV_CONV", p->op == FV_OP_CONV);
    fv_gpu_define(out, "FV_BM", t.rows);
    fv_gpu_define(out, "FV_BN", t.cols);
    fv_gpu_define(out, "FV_STAGES",
                  stages(&t, math == FV_CUDA_TF32 ? sizeof(float) : fv_type_size(w), w));
    fv_gpu_define(out, "FV_MATH", math);
    fv_gpu_define(out, "FV_A_PARTS", parts_of_a(p, a));
    fv_gpu_define(out, "FV_W_PARTS", fv_cuda_parts_of(w));
    /* In windows, each tap must consist of whole 16-byte units. */
    const bool whole = p->op != FV_OP_CONV || p->dim[FV_CONV_C] * fv_type_size(a) % 16 == 0;
    fv_gpu_define(out, "FV_A_BYTES", whole ? fv_cuda_alignment(l, FV_GEMM_A) : 0);
    fv_gpu_define(out, "FV_WIDE2", fv_cuda_is_wide(l, FV_GEMM_BIAS));
    fv_gpu_define(out, "FV_WIDE3", fv_cuda_is_wide(l, FV_GEMM_SCALE));
    fv_gpu_define(out, "FV_WIDE4", fv_cuda_is_wide(l, FV_GEMM_RES));
    fv_gpu_define(out, "FV_WIDE5", fv_cuda_is_wide(l, FV_GEMM_OUT));
    fv_gpu_define_quantise(l, out);
}

static void gemm_shape(const fv_launch *l, const fv_gpu_piece *p, size_t count[3])
{
    const struct tile t = tile_of(l);
    count[0] = fv_gpu_groups(p->rows, t.rows);
    count[1] = fv_gpu_groups((uint64_t)l->args.prob.dim[FV_GEMM_N] * sides(&l->args.prob), t.cols);
}

/* `...`: the pre-passes. */
#define CODE(code, ...)                                                                            \
    const fv_gpu_code fv_cuda_##code = {.program = "gemm.cu",                                      \
                                        .entry = "product",                                        \
                                        .group = 128,                                              \
                                        .settle = gemm_settle,                                     \
                                        .define = gemm_define,                                     \
                                        .shape = gemm_shape,                                       \
                                        .pre_pass = {__VA_ARGS__},                                 \
                                        .align = 128};
CODE(gemm, {NULL})
CODE(gemm_i8, FV_GPU_QUANTISE)

/* ---- what it costs ---- */

static const fv_knob knobs[] = {
    {"rows", {0, 128, 64, 32}, 4}, {"cols", {0, 128, 64}, 3}, {NULL, {0}, 0}};

/* Cost in seconds, comparable with gpu_gemm.c's. Rows count as whole tiles of 32, and fewer than
 * `enough` tiles leave units idle. */
static double cost(const fv_problem *p, const fv_knobs *k)
{
    (void)k;
    static const double seconds[] = {[FV_CUDA_TF32] = 0.4e-12,
                                     [FV_CUDA_F16] = 0.2e-12,
                                     [FV_CUDA_BF16] = 0.2e-12,
                                     [FV_CUDA_I8] = 0.1e-12};
    const double rows = p->dim[FV_DIM_ROWS], enough = 24;
    const double padded = fv_round_up(p->dim[FV_DIM_ROWS], 32);
    const double tiles = padded / 32 * ((p->dim[FV_GEMM_N] * sides(p) + 63) / 64);
    const uint32_t products = parts_of_a(p, p->in) + fv_cuda_parts_of(p->weight) - 1;
    return fv_problem_flops(p) * padded / rows * products *
           seconds[fv_cuda_math_of(p->in, p->weight)] * (tiles < enough ? enough / tiles : 1);
}

#define OF_TYPE(TYPE, type)                                                                        \
    static bool applies_##type(const fv_problem *p)                                                \
    {                                                                                              \
        return p->weight == TYPE;                                                                  \
    }                                                                                              \
    const fv_kernel_hooks fv_h_cuda_gemm_##type = {                                                \
        .applies = applies_##type,                                                                 \
        .cost = cost,                                                                              \
        .packed = packed,                                                                          \
        .pack = pack,                                                                              \
        .format = "cuda_tiles_" #type,                                                             \
        .knobs = knobs,                                                                            \
    };
OF_TYPE(FV_F32, f32)
OF_TYPE(FV_F16, f16)
OF_TYPE(FV_BF16, bf16)

/* Whether both operands are float16, as tensor cores before sm_80 need. */
static bool are_halves(const fv_problem *p)
{
    return p->in == FV_F16 && p->weight == FV_F16;
}

const fv_kernel_hooks fv_h_cuda_gemm_halves = {.applies = are_halves,
                                               .cost = cost,
                                               .packed = packed,
                                               .pack = pack,
                                               .format = "cuda_tiles_f16",
                                               .knobs = knobs};
const fv_kernel_hooks fv_h_cuda_gemm_i8 = {.applies = fv_gpu_is_quantised,
                                           .cost = cost,
                                           .scratch = fv_gpu_quantise_scratch,
                                           .packed = packed_i8,
                                           .pack = pack_i8,
                                           .format = "cuda_tiles_i8",
                                           .knobs = knobs};
