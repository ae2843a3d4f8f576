/* ref_conv.c: CONV: convolution over a grid of tokens, an implicit GEMM without materialised
 * windows.
 *
 *   dim    rows (output pixels), N, K = size * size * C, size, stride, pad, C
 *   A      WHOLE: u[0] x u[1] pixels of C channels, row by row, no prefix
 *   W      packed as GEMM's of the same N and K; here (N, K) as given, columns (ky, kx, channel)
 *   BIAS   N
 *   RES    ROW, N wide; may be OUT
 *   OUT    ROW, N wide: a grid u[2] wide; not A; not read
 *   u      width and height of the grid that is read, width of the grid that is written
 *
 *   x = sum W[n][ky][kx][c] A[y stride - pad + ky][x stride - pad + kx][c];  x += BIAS[n];
 *   x = act(x);  x += RES[i][n]
 *
 * over ky, kx < size and c < C, for output pixel (y, x); A is 0 outside the grid. prob.epi selects
 * BIAS, the activation and RES; the rest of GEMM's epilogue is not supported.
 *
 * With W of I8 and prob.acc I32, pixels of A are rows of bytes as defined by ops/rows_i8.h. Rows of
 * W are rotated, the C channels of each tap separately, and quantised like GEMM's. q and q' are the
 * numbers of a pixel and of a tap of W, s is the scale of the pixel and s' that of the row of W:
 *
 *   x = s' sum_taps s (float)(sum_c q[c] q'[c])
 *
 * The sum over taps, in float32, is in the order of K. As with GEMM, a result has the same bits for
 * any split of rows and columns into calls, and col0 is a multiple of FV_COL_ALIGN.
 */
#include "base/half.h"
#include "ops/ref/ref_gemm.h"
#include "ops/ref/ref_kernels.h"
#include "ops/rows_i8.h"

static uint32_t line(const fv_problem *p, const uint32_t *u)
{
    (void)p;
    return u[2];
}

static fv_rows reads(const fv_problem *p, const uint32_t *u, fv_rows r)
{
    const int64_t stride = p->dim[FV_CONV_STRIDE], pad = p->dim[FV_CONV_PAD];
    const int64_t from = r.first / u[2] * stride - pad, last = (r.end - 1) / u[2] * stride - pad;
    return fv_grid_lines(from, last + p->dim[FV_CONV_SIZE], u[0], u[1]);
}

/* Returns the number of channels of a pixel, or of bytes if it is quantised. */
static uint32_t columns(const fv_problem *p)
{
    const uint32_t channels = p->dim[FV_CONV_C];
    return p->acc == FV_I32 ? fv_rows_i8_bytes(channels) : channels;
}

const fv_op fv_op_conv = {
    .cols = FV_COLS_COLUMN,
    .dim = {{"rows", FV_DIM_TOKENS},
            [FV_GEMM_N] = {"N"},
            [FV_GEMM_K] = {"K"},
            [FV_CONV_SIZE] = {"size"},
            [FV_CONV_STRIDE] = {"stride"},
            [FV_CONV_PAD] = {"pad"},
            [FV_CONV_C] = {"C"}},
    .operand = {[FV_GEMM_A] = {"A", .columns = columns, .narrow = true},
                [FV_GEMM_W] = {"W", FV_GEMM_K, .stored = FV_STORED_PACKED},
                [FV_GEMM_BIAS] = {"BIAS", .stored = FV_STORED_FLOATS},
                [FV_GEMM_RES] = {"RES", FV_GEMM_N, .in_place = true},
                [FV_GEMM_OUT] = {"OUT", FV_GEMM_N, .narrow = true}},
    .flops = fv_flops_product,
    .terms = fv_terms_product,
    .multiplies = FV_MULTIPLIES_WEIGHT,
    .line = line,
    .reads = reads,
};

/* Returns row n of the weight, from k on, times the pixel whose channels begin at element `in`. */
static double tap(const fv_args *a, const fv_call *c, size_t in, uint32_t n, uint32_t k)
{
    double sum = 0;
    for (uint32_t i = 0; i < a->prob.dim[FV_CONV_C]; i++)
        sum += (double)fv_value_get(c->p[FV_GEMM_A], a->prob.in, in + i) *
               fv_ref_weight(&a->prob, c->p[FV_GEMM_W], n, k + i);
    return sum;
}

/* Computes the same product as tap() for int8. */
static double tap_of_numbers(const fv_args *a, const fv_call *c, size_t in, uint32_t n, uint32_t k)
{
    const uint32_t channels = a->prob.dim[FV_CONV_C];
    const int8_t *q = (const int8_t *)c->p[FV_GEMM_A] + in;
    const int8_t *w = (const int8_t *)c->p[FV_GEMM_W] + (size_t)n * a->prob.dim[FV_GEMM_K] + k;
    const char *scales = (const char *)c->p[FV_GEMM_W] + fv_ref_scales_at(&a->prob);
    int32_t sum = 0;
    for (uint32_t i = 0; i < channels; i++)
        sum += q[i] * w[i];
    return (double)((const float *)(const void *)scales)[n] * fv_rows_i8_scale(q, channels) * sum;
}

/* Returns row n of the weight times the window of output pixel (y, x). */
static double product(const fv_args *a, const fv_call *c, size_t y, size_t x, uint32_t n)
{
    const uint32_t *dim = a->prob.dim, size = dim[FV_CONV_SIZE], channels = dim[FV_CONV_C];
    uint32_t k = 0;
    double sum = 0;
    for (uint32_t ky = 0; ky < size; ky++)
        for (uint32_t kx = 0; kx < size; kx++, k += channels) {
            const size_t iy = y * dim[FV_CONV_STRIDE] + ky, ix = x * dim[FV_CONV_STRIDE] + kx;
            const uint32_t pad = dim[FV_CONV_PAD];
            if (iy < pad || iy - pad >= a->u[1] || ix < pad || ix - pad >= a->u[0])
                continue;
            const size_t in = ((iy - pad) * a->u[0] + ix - pad) * a->ld[FV_GEMM_A];
            sum += a->prob.acc == FV_I32 ? tap_of_numbers(a, c, in, n, k) : tap(a, c, in, n, k);
        }
    return sum;
}

static void conv(const fv_args *a, const fv_call *c)
{
    const float *bias = a->prob.epi & FV_EPI_BIAS ? c->p[FV_GEMM_BIAS] : NULL;
    const float *res = a->prob.epi & FV_EPI_RESIDUAL ? c->p[FV_GEMM_RES] : NULL;
    for (size_t r = 0; r < c->rows; r++) {
        const size_t y = (c->row0 + r) / a->u[2], x = (c->row0 + r) % a->u[2];
        for (uint32_t n = c->col0; n < c->col0 + c->cols; n++) {
            const double sum = product(a, c, y, x, n) + (bias ? bias[n] : 0);
            const double add = res ? res[r * a->ld[FV_GEMM_RES] + n] : 0;
            fv_value_put(c->p[FV_GEMM_OUT], a->prob.out, r * a->ld[FV_GEMM_OUT] + n,
                         (float)(fv_ref_activate(sum, a->prob.epi) + add));
        }
    }
}

#define OF_TYPE(type)                                                                              \
    void fv_k_conv_##type##_ref(const fv_args *a, const fv_call *c)                                \
    {                                                                                              \
        conv(a, c);                                                                                \
    }
OF_TYPE(f32)
OF_TYPE(f16)
OF_TYPE(bf16)
OF_TYPE(w8)
OF_TYPE(i8)
