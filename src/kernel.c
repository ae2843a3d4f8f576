/* kernel.c: the registry seen from the planner: what fits a problem, and at what cost. */
#include "kernel.h"

#include <stdio.h>
#include <string.h>

#include "mech/traits.h"

const fv_op_info fv_op_table[FV_OP_COUNT] = {
    [FV_OP_NONE] = {"none", 0, 0},
#define FV_OP(NAME, name, span, cols) [FV_OP_##NAME] = {#name, FV_SPAN_##span, FV_COLS_##cols},
#include "ops.inc"
#undef FV_OP
};

static const char *const type_names[] = {"", "f32", "f16", "bf16", "u8"};

const char *fv_type_name(enum fv_type type)
{
    return type_names[type];
}

static const struct {
    uint32_t bit;
    const char *name;
} epi_names[] = {
    {FV_EPI_BIAS, "bias"},           {FV_EPI_GELU, "gelu"},
    {FV_EPI_GELU_TANH, "gelu_tanh"}, {FV_EPI_GELU_QUICK, "gelu_quick"},
    {FV_EPI_SILU, "silu"},           {FV_EPI_TANH, "tanh"},
    {FV_EPI_SWIGLU, "swiglu"},       {FV_EPI_RELU, "relu"},
    {FV_EPI_SCALE, "scale"},         {FV_EPI_RESIDUAL, "residual"},
};

static const struct {
    uint32_t bit;
    const char *name;
} flag_names[] = {
    {FV_FLAG_CAUSAL, "causal"},
    {FV_FLAG_UNNORMALISED, "unnormalised"},
    {FV_FLAG_PLANAR, "planar"},
    {FV_FLAG_BGR, "bgr"},
    {FV_FLAG_GRAY, "gray"},
    {FV_FLAG_ROPE, "rope"},
    {FV_FLAG_GATED, "gated"},
    {FV_FLAG_DECAY, "decay"},
    {FV_FLAG_DECAY_CHANNEL, "decay_channel"},
    {FV_FLAG_DELTA, "delta"},
    {FV_FLAG_L2, "l2"},
    {FV_FLAG_RECURRENT, "recurrent"},
    {FV_FLAG_CHUNKWISE, "chunkwise"},
    {FV_FLAG_SILU, "silu"},
    {FV_FLAG_SHARED, "shared"},
    {FV_FLAG_NV12, "nv12"},
    {FV_FLAG_YUYV, "yuyv"},
    {FV_FLAG_ACCUMULATE, "accumulate"},
};

void fv_problem_format(char *buf, size_t size, const fv_problem *p)
{
    const bool half = p->weight == FV_F16 || p->weight == FV_BF16;
    const bool half_sums = p->acc == FV_F16;
    int n = snprintf(buf, size, "%s %s%s%s%s %u", fv_op_table[p->op].name, type_names[p->in],
                     half ? "/" : "", half ? type_names[p->weight] : "", half_sums ? "/f16" : "",
                     p->dim[0]);
    for (int i = 1; i < 8 && n > 0 && (size_t)n < size; i++)
        if (p->dim[i])
            n += snprintf(buf + n, size - (size_t)n, "x%u", p->dim[i]);
    if (p->heads && n > 0 && (size_t)n < size)
        n += snprintf(buf + n, size - (size_t)n, " heads %u", p->heads);
    char mark = ' ';
    for (size_t i = 0; i < sizeof epi_names / sizeof *epi_names; i++) {
        if (!(p->epi & epi_names[i].bit) || n <= 0 || (size_t)n >= size)
            continue;
        n += snprintf(buf + n, size - (size_t)n, "%c%s", mark, epi_names[i].name);
        mark = '+';
    }
    mark = ' ';
    for (size_t i = 0; i < sizeof flag_names / sizeof *flag_names; i++) {
        if (!(p->flags & flag_names[i].bit) || n <= 0 || (size_t)n >= size)
            continue;
        n += snprintf(buf + n, size - (size_t)n, "%c%s", mark, flag_names[i].name);
        mark = '+';
    }
}

/* Chunks of 64 tokens, upper triangles included; a step at a time, what the state takes. */
static double scan_flops(const fv_problem *p)
{
    const double w = (double)p->dim[FV_ATTN_D] * fv_mech_table[p->mech]->blocks;
    const double dv = p->dim[FV_ATTN_DV], rows = p->dim[FV_DIM_ROWS], c = rows < 64 ? rows : 64;
    if (p->flags & FV_FLAG_RECURRENT)
        return rows * p->heads * (5 + 2 * !!(p->flags & FV_FLAG_DELTA)) * w * dv;
    if (p->flags & FV_FLAG_DELTA)
        return rows * p->heads * (c * (6 * w + 4 * dv) + 6 * w * dv + c * c / 3);
    return rows * p->heads *
           (2 * c * (w + dv) + 4 * w * dv + 48 * w * !!(p->flags & FV_FLAG_DECAY_CHANNEL));
}

double fv_problem_flops(const fv_problem *p)
{
    double rows = p->dim[FV_DIM_ROWS], h = p->heads, d = p->dim[FV_ATTN_D];
    double dv = p->dim[FV_ATTN_DV], keys = p->dim[FV_ATTN_KEYS];
    const fv_mech_traits *mech = fv_mech_table[p->mech];
    double blocks = mech->blocks, powers = mech->blocks > 1 ? d / 2 : 0;
    double centred = mech->wants & FV_WANT_CENTRED ? 3 * d : 0;
    switch (p->op) {
    case FV_OP_GEMM:
    case FV_OP_CONV:
        return 2 * rows * p->dim[FV_GEMM_N] * p->dim[FV_GEMM_K] * (p->epi & FV_EPI_SWIGLU ? 2 : 1);
    case FV_OP_GEMM_GRAD_W:
        return 2 * rows * p->dim[FV_GEMM_N] * p->dim[FV_GEMM_K];
    case FV_OP_SOFTMAX:
        return h * rows * keys * (2 * (d + dv) + 6) * (p->flags & FV_FLAG_CAUSAL ? 0.5 : 1);
    case FV_OP_WSOFTMAX:
        return h * rows * keys * (2 * (d + dv) + 6);
    case FV_OP_WLATTN:
        return h * rows * blocks * (4 * d * dv + 5 * d + 2 * powers + centred);
    case FV_OP_LATTN_REDUCE:
        return h * rows * blocks * (2 * d * dv + 2 * d + powers);
    case FV_OP_LATTN_APPLY:
        return h * rows * blocks * (2 * d * dv + 3 * d + powers + centred);
    case FV_OP_LATTN_MERGE:
        return h * p->dim[FV_ATTN_GROUPS] * blocks * (d * dv + d);
    case FV_OP_SOFTMAX_GRAD:
        return h * rows * keys * (2 * (3 * d + 2 * dv) + 12);
    case FV_OP_LATTN_APPLY_GRAD:
    case FV_OP_LATTN_STATE_GRAD:
    case FV_OP_LATTN_GATE_GRAD:
        return h * rows * blocks * (2 * d * dv + 6 * d + 2 * powers + centred);
    case FV_OP_LATTN_REDUCE_GRAD:
        return h * rows * blocks * (4 * d * dv + 6 * d + 2 * powers + centred);
    case FV_OP_LATTN_PARAM_GRAD:
        return 10 * rows * p->dim[FV_PARAM_GRAD_COLUMNS] * p->dim[FV_PARAM_GRAD_ROWS];
    case FV_OP_HEAD_DOT:
        return 2 * rows * p->dim[FV_ROW_C] * p->dim[FV_DOT_D];
    case FV_OP_MAP_GRAD:
    case FV_OP_MAP_GRAD_Q:
        return h * keys * (8 * d + 12);
    case FV_OP_LAYERNORM:
        return 8 * rows * p->dim[FV_ROW_C];
    case FV_OP_LAYERNORM_GRAD:
        return 16 * rows * p->dim[FV_ROW_C];
    case FV_OP_LAYERNORM_GRAD_W:
        return 10. * p->dim[FV_GRAD_TOKENS] * p->dim[FV_ROW_C];
    case FV_OP_SUM_ROWS:
        return 2. * p->dim[FV_GRAD_TOKENS] * p->dim[FV_ROW_C];
    case FV_OP_ACT:
    case FV_OP_ACT_GRAD:
    case FV_OP_CROSS_ENTROPY_LOSS:
    case FV_OP_CROSS_ENTROPY_GRAD:
        return 20 * rows * p->dim[FV_ROW_C];
    case FV_OP_SEGMENT_LOSS:
    case FV_OP_SEGMENT_GRAD:
        return 30. * p->dim[FV_SEGMENT_WIDTH] * p->dim[FV_SEGMENT_HEIGHT] * p->dim[FV_ROW_C];
    case FV_OP_DWCONV:
        return 2 * rows * p->dim[FV_ROW_C] * p->dim[FV_DWCONV_SIZE] * p->dim[FV_DWCONV_SIZE];
    case FV_OP_GATHER:
        return rows * p->dim[FV_ROW_C] * p->dim[FV_GATHER_PARTS];
    case FV_OP_LERP:
    case FV_OP_ROPE:
        return 3 * rows * p->dim[FV_ROW_C];
    case FV_OP_GATES:
        return 10 * rows * p->dim[FV_ROW_C];
    case FV_OP_SCAN:
        return scan_flops(p);
    case FV_OP_MAP_REDUCE:
        return h * rows * (4 * d + 6);
    default:
        return 2 * rows * (p->dim[1] ? p->dim[1] : 1);
    }
}

bool fv_kernel_fits(const fv_kernel *k, const fv_problem *p, uint32_t features)
{
    return k->op == p->op && (k->mech == FV_MECH_ANY || k->mech == p->mech) &&
           (k->needs & ~features) == 0 && (!k->hooks->applies || k->hooks->applies(p));
}

fv_knobs fv_kernel_defaults(const fv_kernel *k)
{
    fv_knobs knobs = {{0}};
    for (int i = 0; k->hooks->knobs && k->hooks->knobs[i].name; i++)
        knobs.v[i] = k->hooks->knobs[i].value[0];
    return knobs;
}

/* Rates that only have to be right relative to each other: a wider ISA is assumed faster. */
static double generic_cost(const fv_kernel *k, const fv_problem *p)
{
    double rate = 2e9;
    if (k->needs & FV_NEED_NEON)
        rate = 8e9;
    if (k->needs & FV_NEED_AVX2)
        rate = 16e9;
    if (k->needs & FV_NEED_AVX512)
        rate = 24e9;
    return fv_problem_flops(p) / rate;
}

double fv_kernel_cost(const fv_kernel *k, const fv_problem *p, const fv_knobs *knobs)
{
    return k->hooks->cost ? k->hooks->cost(p, knobs) : generic_cost(k, p);
}

const fv_kernel *fv_kernel_choose(const fv_kernel *list, int count, uint32_t features,
                                  const fv_problem *p, fv_kernel_skips *skips, const void *ctx)
{
    const fv_kernel *best = NULL;
    double best_cost = 0;
    for (int i = 0; i < count; i++) {
        if (!fv_kernel_fits(&list[i], p, features))
            continue;
        fv_knobs knobs = fv_kernel_defaults(&list[i]);
        double cost = fv_kernel_cost(&list[i], p, &knobs);
        if (best && cost > best_cost) /* on a tie the later line: the higher level */
            continue;
        if (!skips || !skips(ctx, &list[i], &knobs, p)) {
            best = &list[i];
            best_cost = cost;
        }
    }
    return best;
}
