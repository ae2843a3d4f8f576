/* matmul_tmpl.c: implements MATMUL with vec.h's vector functions. A vector holds steps of K, and
 * the accumulators of some rows of A and of B stay in registers. */
#include "ops/contracts/product.h"
#include "platform/cpu/cpu_kernels.h"
#include "platform/cpu/vec/vec.h"

enum { ROWS = 4, COLS = FV_REGS >= 32 ? 5 : 3 };

/* Adds the products of columns [i, i + lanes). */
FV_FN void add_products(fv_v sum[ROWS][COLS], const float *x, size_t ld_x, const float *y,
                        size_t ld_y, size_t i, int lanes, int rows, int cols)
{
    fv_v factor[COLS];
    FV_UNROLL
    for (int n = 0; n < cols; n++)
        factor[n] = fv_load_n(y + (size_t)n * ld_y + i, lanes);
    FV_UNROLL
    for (int r = 0; r < rows; r++) {
        const fv_v own = fv_load_n(x + (size_t)r * ld_x + i, lanes);
        FV_UNROLL
        for (int n = 0; n < cols; n++)
            sum[r][n] = fv_fma(own, factor[n], sum[r][n]);
    }
}

/* Computes `rows` x `cols` products. A product does not depend on the size of its tile. */
FV_FN void tile(float *out, size_t ld_out, const float *x, size_t ld_x, const float *y, size_t ld_y,
                size_t k, int rows, int cols)
{
    fv_v sum[ROWS][COLS];
    size_t i = 0;
    FV_UNROLL
    for (int r = 0; r < rows; r++)
        FV_UNROLL
    for (int n = 0; n < cols; n++)
        sum[r][n] = fv_set(0.f);
    for (; i + FV_W <= k; i += FV_W)
        add_products(sum, x, ld_x, y, ld_y, i, FV_W, rows, cols);
    if (i < k)
        add_products(sum, x, ld_x, y, ld_y, i, (int)(k - i), rows, cols);
    FV_UNROLL
    for (int r = 0; r < rows; r++)
        FV_UNROLL
    for (int n = 0; n < cols; n++)
        out[(size_t)r * ld_out + (size_t)n] = fv_hsum(sum[r][n]);
}

/* Multiplies `rows` rows of A to columns [col0, end) of OUT. */
FV_FN void multiply(float *out, const float *x, const fv_args *a, const fv_call *c, int rows)
{
    const size_t ld_x = a->ld[FV_MATMUL_A], ld_y = a->ld[FV_MATMUL_B], ld = a->ld[FV_MATMUL_OUT];
    const size_t k = a->prob.dim[FV_GEMM_K], end = (size_t)c->col0 + c->cols;
    const float *y = c->p[FV_MATMUL_B];
    size_t n = c->col0;
    for (; n + COLS <= end; n += COLS)
        tile(out + n, ld, x, ld_x, y + n * ld_y, ld_y, k, rows, COLS);
    for (; n < end; n++)
        tile(out + n, ld, x, ld_x, y + n * ld_y, ld_y, k, rows, 1);
}

void FV_NAME(fv_k_matmul_f32)(const fv_args *a, const fv_call *c)
{
    const float *x = c->p[FV_MATMUL_A];
    float *out = c->p[FV_MATMUL_OUT];
    size_t r = 0;
    for (; r + ROWS <= c->rows; r += ROWS)
        multiply(out + r * a->ld[FV_MATMUL_OUT], x + r * a->ld[FV_MATMUL_A], a, c, ROWS);
    for (; r < c->rows; r++)
        multiply(out + r * a->ld[FV_MATMUL_OUT], x + r * a->ld[FV_MATMUL_A], a, c, 1);
}
