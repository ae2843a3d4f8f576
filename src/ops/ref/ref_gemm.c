/* ref_gemm.c: GEMM: rows times a packed weight, with a fused epilogue.
 *
 *   dim    rows, N, K
 *   A      ROW, K wide                    W    in the kernel's packed layout; here (N, K)
 *   BIAS   N, with SWIGLU 2N: values, then gates    SCALE  N, one factor per output column
 *   RES    ROW, N wide; may be OUT                  OUT    ROW, N wide; not A; not read
 *
 *             K                       K                       N
 *         +-------+               +-------+               +-------+
 *    rows |   A   |   times    N  |   W   |  transposed   |  OUT  | rows
 *         +-------+               +-------+               +-------+
 *                                 | gates |  SWIGLU only
 *                                 +-------+
 *
 *   x = sum_k A[i][k] W[n][k];  x += BIAS[n];  x = act(x);  x *= SCALE[n];  x += RES[i][n]
 *
 * prob.epi selects the terms; the operands of other terms are not read. SWIGLU computes x1 from row
 * n and x2 from row N + n of W, each with its bias, and x = silu(x1) x2 replaces the activation.
 *
 * A and OUT are F32 or BF16, by prob.in and prob.out. W is float32 or, by prob.weight, of 16 bits:
 * packing rounds to the nearest even, and W then means the rounded value. With W of I8 and prob.acc
 * F32, packing quantises each row with its own scale, as src/ops/quantise.h defines for weights
 * that are only stored in int8; W then means the float (float)q * scale. Everything else, including
 * sums, is float32, with two exceptions. With float16 weights and prob.acc F16,
 *
 *   A may be rounded to float16, after each row of A and of W is scaled by a power of two;
 *   products may be summed in float16 over a few steps of k, 4 on processors and 16 on other
 *   devices; these partial sums are added in float32.
 *
 * With bfloat16 weights, A of F32 and prob.acc BF16, each A[i][k] may be rounded to bfloat16, to
 * the nearest even.
 *
 * Sums in float16 do not overflow. With d the largest |A| of the row, they increase the error of
 * the sum over k by at most
 *
 *   2^-9 sum_k |A[i][k] W[n][k]| + 2^-22 d sum_k (1 + |W[n][k]|)
 *
 * where the second term bounds the underflow of float16. The first term is the maximum for 4 steps;
 * 16 steps stay below it unless nearly all of their rounding errors have the same sign.
 *
 * With W of I8 and prob.acc I32, rows of A and of W are rotated and quantised bit for bit as
 * src/ops/quantise.h defines. With the numbers q, q' and the scales s, s' of the two rows,
 *
 *   x = (float)(sum_k q[k] q'[k]) (s s')
 *
 * replaces sum_k A[i][k] W[n][k], in float32. A row of zeros therefore gives zeros, and a row with
 * an infinity or NaN gives NaN.
 *
 * A call computes columns [col0, col0 + cols); col0 is a multiple of FV_COL_ALIGN, and the pointers
 * of the columns are at column 0. Pointers only need the alignment of a float. A result depends
 * only on its row of A and its row of W, and has the same bits for any split of rows and columns
 * into calls. Each kernel sums over k in its own order.
 */
#include <string.h>

#include "base/half.h"
#include "base/num.h"
#include "ops/ref/ref_gemm.h"
#include "ops/ref/ref_kernels.h"
#include "ops/rows_i8.h"

const fv_op fv_op_gemm = {
    .cols = FV_COLS_COLUMN,
    .dim = {{"rows", FV_DIM_TOKENS}, [FV_GEMM_N] = {"N"}, [FV_GEMM_K] = {"K"}},
    .operand = {[FV_GEMM_A] = {"A", FV_GEMM_K, .stored = FV_STORED_FLOATS, .narrow = true},
                [FV_GEMM_W] = {"W", FV_GEMM_K, .stored = FV_STORED_PACKED},
                [FV_GEMM_BIAS] = {"BIAS", .stored = FV_STORED_FLOATS},
                [FV_GEMM_SCALE] = {"SCALE", FV_GEMM_N, .stored = FV_STORED_FLOATS},
                [FV_GEMM_RES] = {"RES", FV_GEMM_N, .in_place = true},
                [FV_GEMM_OUT] = {"OUT", FV_GEMM_N, .narrow = true}},
    .flops = fv_flops_product,
    .terms = fv_terms_product,
    .multiplies = FV_MULTIPLIES_WEIGHT,
};

/* Returns row n of the weight times a row of A, plus the bias. */
static double product(const fv_args *a, const fv_call *c, const void *in, uint32_t n)
{
    const uint32_t k = a->prob.dim[FV_GEMM_K];
    double sum = 0;
    for (uint32_t i = 0; i < k; i++)
        sum += (double)fv_value_get(in, a->prob.in, i) *
               fv_ref_weight(&a->prob, c->p[FV_GEMM_W], n, i);
    return a->prob.epi & FV_EPI_BIAS ? sum + ((const float *)c->p[FV_GEMM_BIAS])[n] : sum;
}

/* Applies the epilogue to column n of row r, given the sum x and, with SWIGLU, the sum `gate`. */
static void finish(const fv_args *a, const fv_call *c, size_t r, uint32_t n, double x, double gate)
{
    const uint32_t epi = a->prob.epi;
    x = epi & FV_EPI_SWIGLU ? fv_ref_activate(x, FV_EPI_SILU) * gate : fv_ref_activate(x, epi);
    if (epi & FV_EPI_SCALE)
        x *= ((const float *)c->p[FV_GEMM_SCALE])[n];
    if (epi & FV_EPI_RESIDUAL)
        x += ((const float *)c->p[FV_GEMM_RES])[r * a->ld[FV_GEMM_RES] + n];
    fv_value_put(c->p[FV_GEMM_OUT], a->prob.out, r * a->ld[FV_GEMM_OUT] + n, (float)x);
}

static void gemm(const fv_args *a, const fv_call *c)
{
    const uint32_t width = a->prob.dim[FV_GEMM_N];
    for (size_t r = 0; r < c->rows; r++) {
        const void *in = fv_element(c->p[FV_GEMM_A], a->prob.in, r * a->ld[FV_GEMM_A]);
        for (uint32_t n = c->col0; n < c->col0 + c->cols; n++)
            finish(a, c, r, n, product(a, c, in, n),
                   a->prob.epi & FV_EPI_SWIGLU ? product(a, c, in, width + n) : 0);
    }
}

size_t fv_ref_rows_packed(const fv_problem *p, const fv_knobs *knobs)
{
    (void)knobs;
    const size_t rows = (size_t)p->dim[FV_GEMM_N] * (p->epi & FV_EPI_SWIGLU ? 2 : 1);
    return rows * p->dim[FV_GEMM_K] * fv_type_size(p->weight);
}

void fv_ref_rows_pack(void *dst, const float *src, uint32_t n0, uint32_t n, const fv_problem *p,
                      const fv_knobs *knobs)
{
    (void)knobs;
    const size_t k = p->dim[FV_GEMM_K], slab = (size_t)n * k;
    const size_t sides = p->epi & FV_EPI_SWIGLU ? 2 : 1;
    for (size_t side = 0; side < sides; side++)
        for (size_t i = 0; i < slab; i++)
            fv_value_put(dst, p->weight, (side * p->dim[FV_GEMM_N] + n0) * k + i,
                         src[side * slab + i]);
}

/* Kernel and hooks for one type of weights. CONV's reference packs its weight as GEMM's does. */
#define OF_TYPE(TYPE, type)                                                                        \
    static bool applies_##type(const fv_problem *p)                                                \
    {                                                                                              \
        return p->weight == TYPE;                                                                  \
    }                                                                                              \
    const fv_kernel_hooks fv_h_gemm_##type##_ref = {                                               \
        .applies = applies_##type,                                                                 \
        .rate = 1e9,                                                                               \
        .packed = fv_ref_rows_packed,                                                              \
        .pack = fv_ref_rows_pack,                                                                  \
        .format = "rows_" #type,                                                                   \
    };                                                                                             \
    void fv_k_gemm_##type##_ref(const fv_args *a, const fv_call *c)                                \
    {                                                                                              \
        gemm(a, c);                                                                                \
    }
OF_TYPE(FV_F32, f32)
OF_TYPE(FV_F16, f16)
OF_TYPE(FV_BF16, bf16)

/* ---- packing of int8: the weight's rows of K numbers, then one scale per row ---- */

static size_t weight_rows(const fv_problem *p)
{
    return (size_t)p->dim[FV_GEMM_N] * (p->epi & FV_EPI_SWIGLU ? 2 : 1);
}

size_t fv_ref_scales_at(const fv_problem *p)
{
    return (weight_rows(p) * p->dim[FV_GEMM_K] + 3) / 4 * 4;
}

size_t fv_ref_i8_packed(const fv_problem *p, const fv_knobs *knobs)
{
    (void)knobs;
    return fv_ref_scales_at(p) + weight_rows(p) * sizeof(float);
}

void fv_ref_i8_pack(void *dst, const float *src, uint32_t n0, uint32_t n, const fv_problem *p,
                    const fv_knobs *knobs)
{
    (void)knobs;
    const size_t k = p->dim[FV_GEMM_K], sides = p->epi & FV_EPI_SWIGLU ? 2 : 1;
    const uint32_t block = fv_int8_weight_block(p);
    float *scale = (float *)(void *)((char *)dst + fv_ref_scales_at(p));
    for (size_t i = 0; i < sides * n; i++) {
        const size_t row = i / n * p->dim[FV_GEMM_N] + n0 + i % n;
        int8_t *q = (int8_t *)dst + row * k;
        scale[row] = p->acc == FV_I32 ? fv_int8_weight(q, 4, src + i * k, (uint32_t)k, block)
                                      : fv_int8_row(q, src + i * k, (uint32_t)k);
    }
}

/* ---- int8 weights for products of floats ---- */

static bool applies_w8(const fv_problem *p)
{
    return p->weight == FV_I8 && p->acc == FV_F32;
}

const fv_kernel_hooks fv_h_gemm_w8_ref = {.applies = applies_w8,
                                          .rate = 1e9,
                                          .packed = fv_ref_i8_packed,
                                          .pack = fv_ref_i8_pack,
                                          .format = "rows_w8"};

void fv_k_gemm_w8_ref(const fv_args *a, const fv_call *c)
{
    gemm(a, c);
}

/* ---- products of int8 ---- */

static bool applies_i8(const fv_problem *p)
{
    return p->weight == FV_I8 && p->acc == FV_I32;
}

/* Returns the bytes of scratch for a row of floats and its int8 numbers. */
static size_t scratch_i8(const fv_problem *p, const fv_knobs *knobs, uint32_t rows)
{
    (void)knobs, (void)rows;
    return (sizeof(float) + 1) * fv_round_up(p->dim[FV_GEMM_K], 4);
}

/* Returns the product of a quantised row, with scale s, and row n of the weight, plus the bias. */
static double product_i8(const fv_args *a, const fv_call *c, const int8_t *q, float s, uint32_t n)
{
    const uint32_t k = a->prob.dim[FV_GEMM_K];
    const int8_t *w = (const int8_t *)c->p[FV_GEMM_W] + (size_t)n * k;
    const char *scales = (const char *)c->p[FV_GEMM_W] + fv_ref_scales_at(&a->prob);
    int32_t sum = 0;
    for (uint32_t i = 0; i < k; i++)
        sum += q[i] * w[i];
    const float x = (float)sum * (s * ((const float *)(const void *)scales)[n]);
    return a->prob.epi & FV_EPI_BIAS ? (double)x + ((const float *)c->p[FV_GEMM_BIAS])[n] : x;
}

const fv_kernel_hooks fv_h_gemm_i8_ref = {.applies = applies_i8,
                                          .rate = 5e8,
                                          .scratch = scratch_i8,
                                          .packed = fv_ref_i8_packed,
                                          .pack = fv_ref_i8_pack,
                                          .format = "rows_i8"};

void fv_k_gemm_i8_ref(const fv_args *a, const fv_call *c)
{
    const uint32_t k = a->prob.dim[FV_GEMM_K], width = a->prob.dim[FV_GEMM_N];
    float *y = c->scratch;
    int8_t *q = (int8_t *)(y + k);
    for (size_t r = 0; r < c->rows; r++) {
        for (uint32_t i = 0; i < k; i++)
            y[i] = fv_value_get(c->p[FV_GEMM_A], a->prob.in, r * a->ld[FV_GEMM_A] + i);
        fv_int8_rotate(y, k, fv_int8_block(k));
        const float scale = fv_int8_row(q, y, k);
        for (uint32_t n = c->col0; n < c->col0 + c->cols; n++)
            finish(a, c, r, n, product_i8(a, c, q, scale, n),
                   a->prob.epi & FV_EPI_SWIGLU ? product_i8(a, c, q, scale, width + n) : 0);
    }
}
