/* trial_fill.c: fills the operands of a trial with random values. */
#include "trial/trial_fill.h"

#include <math.h>
#include <string.h>

#include "base/half.h"
#include "base/mem.h"
#include "ops/contracts/product.h"
#include "ops/contracts/rows.h"
#include "ops/foveated.h"
#include "ops/mech_traits.h"
#include "trial/reference.h"

enum {
    STATE_ROWS = 16, /* number of random keys from which a state is computed */
    POSITION = 35    /* position of the first token */
};

static fv_tensor tensor(float mean, float spread, uint64_t seed, uint32_t rows, uint32_t cols)
{
    fv_tensor t = fv_tensor_of_floats(NULL, rows, cols);
    t.mean = mean;
    t.spread = spread;
    t.seed = (seed + 1) * UINT64_C(0x9e3779b97f4a7c15);
    return t;
}

fv_tensor fv_trial_weight(const fv_problem *p, uint32_t o, uint32_t rows, uint32_t cols)
{
    const fv_op_operand *operand = &fv_op_table[p->op]->operand[o];
    if (operand->stored == FV_STORED_PACKED) /* the products then have a magnitude of about 1,
                                                where activation functions are not linear */
        return tensor(0.f, sqrtf(3.f / (float)cols), o, rows, cols);
    if (operand->nature == FV_NATURE_FACTOR)
        return tensor(1.f, 0.2f, o, rows, cols);
    if (operand->nature == FV_NATURE_DECAY)
        return tensor(-0.1f, 0.1f, o, rows, cols);
    return tensor(0.f, 1.f, o, rows, cols);
}

/* ---- states ---- */

/* Makes a state, which the reference computes from random rows that are as wide as the widest
 * operand of the reduction. */
static fovea_status make_state(const fv_args *a, enum fv_op reduction, uint64_t seed, float *out)
{
    fv_args r = {.prob = a->prob, .f = {1.f / STATE_ROWS, a->f[2]}};
    const uint32_t *dim = r.prob.dim,
                   wide = dim[FV_ATTN_D] > dim[FV_ATTN_DV] ? dim[FV_ATTN_D] : dim[FV_ATTN_DV];
    const uint32_t width = r.prob.heads ? r.prob.heads * wide : dim[FV_ROW_C];
    r.prob.op = (uint16_t)reduction;
    r.prob.flags &= ~(uint32_t)(FV_FLAG_ROPE | FV_FLAG_GATED);
    r.prob.dim[FV_DIM_ROWS] = STATE_ROWS;
    const fv_kernel *k = fv_reference_kernel(&r.prob);
    if (!k)
        return fv_fail(FOVEA_ENOTSUP, "%s: there is no reference kernel for its state",
                       fv_op_names[a->prob.op]);
    const uint64_t rows = (uint64_t)width * STATE_ROWS;
    const uint64_t scratch =
        k->hooks->scratch ? k->hooks->scratch(&r.prob, &r.knobs, STATE_ROWS) : 0;
    float *values;
    FV_TRY(fv_mem_alloc(&values, fv_size_add(3 * rows * sizeof(float), scratch), FV_MEM_PLAN,
                        "a random state"));
    const fv_tensor t = tensor(0.f, 1.f, seed, 3, (uint32_t)rows);
    fv_tensor_read(&t, 0, 3 * rows, values);
    fv_call c = {.rows = STATE_ROWS, .cols = r.prob.heads, .partials = 1, .first = 1};
    c.scratch = values + 3 * rows;
    const uint32_t last = fv_op_out(fv_op_table[reduction]);
    for (uint32_t o = 0; o < last && o < 3; o++) { /* a parameter vector is one row */
        c.p[o] = values + o * rows;
        r.ld[o] = width;
    }
    c.p[last] = out;
    k->code.cpu(&r, &c);
    fv_mem_free(values);
    return FOVEA_OK;
}

/* ---- int8 keys and rows ---- */

/* Makes the int8 keys and values of all heads, which the reference quantises from random ones. */
static fovea_status make_keys(const fv_args *a, uint32_t rows, uint32_t ld, void *out)
{
    fv_args r = {.prob = a->prob};
    const uint32_t *dim = r.prob.dim, wide = dim[FV_ATTN_D] + dim[FV_ATTN_DV];
    const fv_fovea f = fv_fovea_of(&r.prob);
    const uint32_t cells = r.prob.op == FV_OP_FOVEATED ? fv_fovea_first(&f, f.levels + 1) : 0;
    const uint64_t tokens = dim[FV_ATTN_KEYS];
    r.prob.op = FV_OP_KEYS_I8;
    r.prob.dim[FV_DIM_ROWS] = rows;
    r.prob.dim[FV_KEYS_CELLS] = cells;
    const fv_kernel *k = fv_reference_kernel(&r.prob);
    const uint64_t columns = (uint64_t)rows * wide, values = columns * (tokens + cells);
    const uint64_t scratch = k->hooks->scratch(&r.prob, &r.knobs, rows);
    float *x;
    FV_TRY(fv_mem_alloc(&x, fv_size_add(values * sizeof *x, scratch), FV_MEM_PLAN,
                        "random keys and values"));
    const fv_tensor t = tensor(0.f, 1.f, 32, (uint32_t)tokens + cells, (uint32_t)columns);
    fv_tensor_read(&t, 0, values, x);
    fv_call c = {.rows = rows, .scratch = x + values};
    c.p[FV_KEYS_K] = x;
    c.p[FV_KEYS_V] = x + (size_t)rows * dim[FV_ATTN_D];
    c.p[FV_KEYS_CELL_K] = x + columns * tokens;
    c.p[FV_KEYS_CELL_V] = x + columns * tokens + (size_t)rows * dim[FV_ATTN_D];
    c.p[FV_KEYS_OUT] = out;
    r.ld[FV_KEYS_OUT] = ld;
    for (int o = FV_KEYS_K; o <= FV_KEYS_CELL_V; o++) {
        r.ld[o] = (uint32_t)columns;
        r.type[o] = FV_F32;
    }
    k->code.cpu(&r, &c);
    fv_mem_free(x);
    return FOVEA_OK;
}

/* Makes int8 rows of k channels, which the reference quantises from random rows. */
static fovea_status make_rows(uint32_t k, uint32_t rows, uint32_t ld, void *out)
{
    fv_args r = {.prob = {.op = FV_OP_ROWS_I8, .in = FV_F32, .out = FV_U8, .acc = FV_F32}};
    r.prob.dim[FV_DIM_ROWS] = rows;
    r.prob.dim[FV_ROW_C] = k;
    r.ld[FV_ROWS_IN] = k;
    r.ld[FV_ROWS_OUT] = ld;
    const fv_kernel *kernel = fv_reference_kernel(&r.prob);
    const uint64_t values = (uint64_t)rows * k;
    float *x;
    FV_TRY(FV_MEM_ARRAY(&x, values + k, FV_MEM_PLAN, "random rows"));
    const fv_tensor t = tensor(0.f, 1.f, 16, rows, k);
    fv_tensor_read(&t, 0, values, x);
    fv_call c = {.rows = rows, .scratch = x + values};
    c.p[FV_ROWS_IN] = x;
    c.p[FV_ROWS_OUT] = out;
    kernel->code.cpu(&r, &c);
    fv_mem_free(x);
    return FOVEA_OK;
}

/* ---- rows ---- */

/* Returns a value that fits the operand's nature, computed from a random x in [-1, 1); `at` is its
 * index in the operand. */
static float shaped(enum fv_nature n, float x, uint64_t at)
{
    if (n == FV_NATURE_POSITION)
        return (float)(POSITION + at);
    return n == FV_NATURE_FRACTION ? 0.5f + 0.5f * x : n == FV_NATURE_DECAY ? -0.1f * fabsf(x) : x;
}

static void fill_row(enum fv_nature n, const fv_tensor *t, uint64_t first, uint32_t cols,
                     enum fv_type type, void *row)
{
    enum { PIECE = 256 };
    float piece[PIECE];
    for (uint32_t at = 0; at < cols; at += PIECE) {
        const uint32_t count = cols - at < PIECE ? cols - at : PIECE;
        fv_tensor_read(t, first + at, count, piece);
        for (uint32_t i = 0; i < count; i++) {
            if (type == FV_U8)
                ((uint8_t *)row)[at + i] = (uint8_t)(128.f + 127.f * piece[i]);
            else
                fv_value_put(row, type, at + i, shaped(n, piece[i], first + at + i));
        }
    }
}

fovea_status fv_trial_fill(const fv_args *a, uint32_t o, enum fv_type type, uint64_t rows,
                           uint32_t cols, uint32_t ld, void *out)
{
    const fv_op_operand *operand = &fv_op_table[a->prob.op]->operand[o];
    const fv_tensor t = tensor(0.f, 1.f, 16 + o, (uint32_t)rows, cols);
    if (operand->columns == fv_columns_keys && a->prob.acc == FV_I32)
        return make_keys(a, (uint32_t)rows, ld, out);
    if (a->prob.op == FV_OP_CONV && a->prob.acc == FV_I32 && o == FV_GEMM_A)
        return make_rows(a->prob.dim[FV_CONV_C], (uint32_t)rows, ld, out);
    for (uint64_t row = 0; row < rows; row++) {
        char *to = fv_element(out, type, row * ld);
        if (operand->state_of)
            FV_TRY(make_state(a, operand->state_of, 32 + row, (float *)(void *)to));
        else
            fill_row(operand->nature, &t, row * cols, cols, type, to);
    }
    return FOVEA_OK;
}
