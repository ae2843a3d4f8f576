/* op.c: the table of all operations, and functions that derive properties from their
 * descriptors. */
#include "ops/op.h"
#include "ops/contracts/picture.h"
#include "ops/contracts/product.h"
#include "ops/contracts/softmax_attention.h"

#include <stdio.h>
#include <string.h>

#define FV_OP(NAME, name) [FV_OP_##NAME] = &fv_op_##name,
#define FV_OP_TRAINING(NAME, name)
const fv_op *_Atomic fv_op_table[FV_OP_COUNT] = {
#include "ops/ops.inc"
};
#undef FV_OP

#define FV_OP(NAME, name) [FV_OP_##NAME] = #name,
const char *const fv_op_names[FV_OP_COUNT] = {
#include "ops/ops.inc"
};
#undef FV_OP

uint8_t fv_op_out(const fv_op *op)
{
    uint8_t last = FV_OPERANDS - 1;
    while (!op->operand[last].name)
        last--;
    return last;
}

fv_rows fv_grid_lines(int64_t from, int64_t to, uint32_t width, uint32_t height)
{
    const int64_t first = from > 0 ? from : 0, end = to < height ? to : height;
    if (end <= first)
        return (fv_rows){0, 0};
    return (fv_rows){(uint32_t)first * width, (uint32_t)end * width};
}

uint32_t fv_problem_columns(const fv_problem *p, uint32_t o)
{
    const fv_op_operand *operand = &fv_op_table[p->op]->operand[o];
    if (operand->columns)
        return operand->columns(p);
    if (!operand->width && !operand->heads)
        return UINT32_MAX;
    return (operand->heads ? p->heads : 1) * (operand->width ? p->dim[operand->width] : 1);
}

double fv_problem_flops(const fv_problem *p)
{
    const fv_op *op = fv_op_table[p->op];
    return op->flops ? op->flops(p) : op->element_flops * p->dim[FV_DIM_ROWS] * p->dim[FV_ROW_C];
}

double fv_problem_terms(const fv_problem *p)
{
    const fv_op *op = fv_op_table[p->op];
    return op->terms ? op->terms(p) : 4;
}

double fv_problem_rough_error(const fv_problem *p)
{
    const bool rounds =
        p->in == FV_BF16 || p->out != FV_F32 || p->acc == FV_BF16 || p->acc == FV_I32;
    const bool may = rounds && (p->op == FV_OP_GEMM || p->op == FV_OP_CONV);
    return may && p->epi & FV_EPI_ROUGH ? FV_ROUGH_ERROR : 0;
}

/* ---- shared terms, FLOPs and columns ---- */

double fv_terms_rows(const fv_problem *p)
{
    return p->dim[FV_DIM_ROWS];
}

double fv_terms_row(const fv_problem *p)
{
    return p->dim[FV_ROW_C];
}

double fv_terms_groups(const fv_problem *p)
{
    return p->dim[fv_op_table[p->op]->groups];
}

double fv_terms_product(const fv_problem *p)
{
    return p->dim[FV_GEMM_K];
}

double fv_terms_softmax(const fv_problem *p)
{
    return (double)p->dim[FV_ATTN_D] + p->dim[FV_ATTN_KEYS];
}

double fv_flops_product(const fv_problem *p)
{
    return 2. * p->dim[FV_DIM_ROWS] * p->dim[FV_GEMM_N] * p->dim[FV_GEMM_K] *
           (p->epi & FV_EPI_SWIGLU ? 2 : 1);
}

double fv_flops_softmax(const fv_problem *p)
{
    const double d = p->dim[FV_ATTN_D], dv = p->dim[FV_ATTN_DV];
    const double pairs = (double)p->heads * p->dim[FV_DIM_ROWS] * p->dim[FV_ATTN_KEYS];
    return pairs * (2 * (d + dv) + 6) * (p->flags & FV_FLAG_CAUSAL ? 0.5 : 1);
}

uint32_t fv_columns_pixels(const fv_problem *p)
{
    return p->dim[FV_RESIZE_WIDTH] * p->dim[FV_RESIZE_CHANNELS];
}

uint32_t fv_columns_swiglu(const fv_problem *p)
{
    return p->dim[FV_ROW_C] * (p->epi & FV_EPI_SWIGLU ? 2 : 1);
}

uint32_t fv_columns_one(const fv_problem *p)
{
    (void)p;
    return 1;
}

uint32_t fv_columns_map(const fv_problem *p)
{
    return p->heads * (2 + p->dim[FV_ATTN_D]);
}

uint32_t fv_columns_moments(const fv_problem *p)
{
    return 3 * p->dim[FV_ROW_C];
}

uint32_t fv_columns_rel_pos(const fv_problem *p)
{
    const uint32_t keys = p->dim[FV_ATTN_KEYS], width = p->dim[FV_REL_POS_COLUMNS];
    return width ? p->heads * (keys / width + width) : keys;
}

/* ---- activations ---- */

const fv_activation fv_activations[FV_ACTIVATIONS] = {
#define FV_ACTIVATION(NAME, name, ...) {#name, FV_EPI_##NAME},
#include "act/activations.inc"
#undef FV_ACTIVATION
};

const fv_activation *fv_activation_of(uint32_t epi)
{
    for (uint32_t i = 0; i < FV_ACTIVATIONS; i++)
        if (epi & fv_activations[i].epi)
            return &fv_activations[i];
    return NULL;
}

const fv_activation *fv_activation_named(const char *name)
{
    for (uint32_t i = 0; i < FV_ACTIVATIONS; i++)
        if (strcmp(name, fv_activations[i].name) == 0)
            return &fv_activations[i];
    return NULL;
}

static const char activation_names[] =
#define FV_ACTIVATION(NAME, name, ...) ", " #name
#include "act/activations.inc"
#undef FV_ACTIVATION
    ;
const char *const fv_activation_list = activation_names + sizeof ", " - 1;

/* ---- texts ---- */

static const char *const type_names[] = {"", "f32", "f16", "bf16", "u8", "i8", "i16", "i32"};

const char *fv_type_name(enum fv_type type)
{
    return type_names[type];
}

struct bit_name {
    uint32_t bit;
    const char *name;
};

static const struct bit_name epi_names[] = {
    {FV_EPI_BIAS, "bias"},
#define FV_ACTIVATION(NAME, name, ...) {FV_EPI_##NAME, #name},
#include "act/activations.inc"
#undef FV_ACTIVATION
    {FV_EPI_SWIGLU, "swiglu"},
    {FV_EPI_SCALE, "scale"},
    {FV_EPI_RESIDUAL, "residual"},
};

static const struct bit_name flag_names[] = {
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
    {FV_FLAG_RELATIVE, "relative"},
    {FV_FLAG_NEAREST, "nearest"},
    {FV_FLAG_ALIGN_CORNERS, "align_corners"},
    {FV_FLAG_CENTRED, "centred"},
    {FV_FLAG_LARGEST, "largest"},
};

/* Appends the names of `bits`, separated by '+' after a space, and returns the text's new length.
 */
static int add_names(char *buf, size_t size, int n, uint32_t bits, const struct bit_name *names,
                     size_t count)
{
    char mark = ' ';
    for (size_t i = 0; i < count && n > 0 && (size_t)n < size; i++)
        if (bits & names[i].bit) {
            n += snprintf(buf + n, size - (size_t)n, "%c%s", mark, names[i].name);
            mark = '+';
        }
    return n;
}

void fv_problem_format(char *buf, size_t size, const fv_problem *p)
{
    const bool packed = p->weight && p->weight != FV_F32, worked = p->acc && p->acc != FV_F32;
    int n = snprintf(buf, size, "%s %s%s%s%s%s %u", fv_op_names[p->op], type_names[p->in],
                     packed ? "/" : "", packed ? type_names[p->weight] : "", worked ? "/" : "",
                     worked ? type_names[p->acc] : "", p->dim[0]);
    for (int i = 1; i < FV_DIMS && n > 0 && (size_t)n < size; i++)
        if (p->dim[i])
            n += snprintf(buf + n, size - (size_t)n, "x%u", p->dim[i]);
    if (p->heads && n > 0 && (size_t)n < size)
        n += snprintf(buf + n, size - (size_t)n, " heads %u", p->heads);
    n = add_names(buf, size, n, p->epi, epi_names, sizeof epi_names / sizeof *epi_names);
    add_names(buf, size, n, p->flags, flag_names, sizeof flag_names / sizeof *flag_names);
}

const char *fv_problem_products(const fv_problem *p)
{
    const uint8_t multiplies = fv_op_table[p->op]->multiplies;
    if (multiplies == FV_MULTIPLIES_NOTHING)
        return NULL;
    if (p->acc == FV_I32)
        return "int8";
    if (p->acc == FV_BF16)
        return fv_type_name(FV_BF16);
    return fv_type_name(multiplies == FV_MULTIPLIES_ROWS || p->in == p->weight ? p->in : FV_F32);
}
