/* gpu_softmax_i8.c: launch code of softmax_i8.cl. */
#include "gpu/gpu_code.h"
#include "ops/contracts/softmax_attention.h"
#include "ops/keys_i8.h"

/* As in softmax_i8.cl. */
enum { ACROSS = 16, KEYS = FV_SOFTMAX_BLOCK, FOURS = KEYS / 4, SLICE = 64, STAGED_RUNS = 4 };

/* Runs of 16 numbers in a query or key. */
static uint32_t runs_of(const fv_problem *p)
{
    return (p->dim[FV_ATTN_D] + 15) / 16;
}

static size_t tiles_of(const fv_problem *p)
{
    return ((size_t)p->dim[FV_ATTN_KEYS] + KEYS - 1) / KEYS;
}

static bool is_window(const fv_problem *p)
{
    return p->op == FV_OP_WSOFTMAX;
}

/* The scratch: HEAD_WORDS of softmax_i8.cl for each window and head, then the queries and their
 * scales. */
static size_t scratch_bytes(const fv_problem *p, const fv_knobs *knobs, uint32_t rows)
{
    const size_t runs = runs_of(p), tiles = tiles_of(p);
    const size_t columns = ((size_t)p->dim[FV_ATTN_DV] + 3) / 4 * 4;
    const size_t tile = KEYS * (4 * runs + 1) + columns + FOURS * columns;
    const size_t quantised = is_window(p) ? 16 * runs + columns + tiles * KEYS : 0;
    const size_t keys = p->dim[FV_ATTN_KEYS];
    const size_t windows = is_window(p) ? (rows + keys - 1) / keys : 1;
    const size_t head = columns + tiles * tile + quantised;
    (void)knobs;
    return p->heads * (windows * head + rows * (4 * runs + 1)) * sizeof(uint32_t);
}

static uint32_t local_plain(const fv_launch *l, uint32_t group)
{
    const uint32_t down = fv_gpu_tile_queries(group) / 4;
    (void)l;
    return group == 1 ? 0 : (group + FOURS * (down + 1)) * (uint32_t)sizeof(float[4]);
}

static uint32_t local_staged(const fv_launch *l, uint32_t group)
{
    const uint32_t runs = runs_of(&l->args.prob), depth = runs < STAGED_RUNS ? runs : STAGED_RUNS;
    const uint32_t pitch = depth / 2 * 2 + 1, values = FOURS * SLICE / 4;
    const uint32_t keys = KEYS * pitch > values ? KEYS * pitch : values;
    const uint32_t staged = fv_gpu_tile_queries(group) * pitch + keys;
    return group == 1 ? 0 : local_plain(l, group) + staged * (uint32_t)sizeof(uint32_t[4]);
}

static void define(const fv_launch *l, uint32_t group, fv_gpu_text *out)
{
    (void)group;
    fv_gpu_define(out, "FV_D", l->args.prob.dim[FV_ATTN_D]);
    fv_gpu_define(out, "FV_DV", l->args.prob.dim[FV_ATTN_DV]);
    fv_gpu_define(out, "FV_WINDOW", fv_gpu_is_window(l));
    fv_gpu_define(out, "FV_REL_POS", l->args.prob.dim[FV_REL_POS_COLUMNS] > 0);
}

static void shape_queries(const fv_launch *l, const fv_gpu_piece *p, size_t count[3])
{
    fv_gpu_spread(count, p->rows, runs_of(&l->args.prob), p->group);
    count[1] = l->args.prob.heads;
}

static void shape_keys(const fv_launch *l, const fv_gpu_piece *p, size_t count[3])
{
    const fv_problem *prob = &l->args.prob;
    count[0] = is_window(prob) ? p->rows / prob->dim[FV_ATTN_KEYS] : tiles_of(prob);
    count[1] = prob->heads;
}

static void shape(const fv_launch *l, const fv_gpu_piece *p, size_t count[3])
{
    fv_gpu_cover_queries(l, p->rows, fv_gpu_tile_queries(p->group), count);
    count[2] = fv_gpu_tile_slices(l);
}

/* Calls must not be cut as short as those of float kernels, since each of them lays out all
 * keys. */
#define CODE(name, items, local_bytes, macro, function, rows_align)                                \
    const fv_gpu_code fv_gpu_##name = {                                                            \
        .program = "softmax_i8",                                                                   \
        .entry = function,                                                                         \
        .group = items,                                                                            \
        .local = local_bytes,                                                                      \
        .macros = macro,                                                                           \
        .define = define,                                                                          \
        .shape = shape,                                                                            \
        .pre_pass = {{"quantise_queries", shape_queries}, {"lay_keys", shape_keys}},               \
        .align = rows_align};
CODE(softmax_i8, 64, local_plain, NULL, "softmax", 64)
CODE(softmax_i8_local, 128, local_staged, " -DFV_STAGE=1", "softmax", 64)
CODE(wsoftmax_i8, 64, local_plain, NULL, "wsoftmax", FV_GPU_WINDOWS)
CODE(wsoftmax_i8_local, 128, local_staged, " -DFV_STAGE=1", "wsoftmax", FV_GPU_WINDOWS)

static bool is_whole(const fv_problem *p)
{
    return p->acc == FV_I32;
}

/* The float kernels, whose rate is the default of 2e9, take about four times as many instructions
 * for a score (cl_probe.c). Three times their rate is assumed here. */
const fv_kernel_hooks fv_h_gpu_softmax_i8 = {
    .applies = is_whole, .rate = 6e9, .scratch = scratch_bytes};
