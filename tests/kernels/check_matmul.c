/* check_matmul.c: cases and definition of MATMUL. */
#include <math.h>

#include "ops/contracts/product.h"
#include "tests/kernels/check.h"

static bool make(check_case *c, uint32_t index)
{
    static const struct {
        uint32_t rows, n, k, gap;
        bool rounded;
    } sizes[] = {{1, 1, 1, 0},
                 {1, 7, 3, 1},
                 {5, 1, 8, 0},
                 {4, 3, 16, 2},
                 {9, 13, 31, 0},
                 {7, 64, 33, 1},
                 {66, 5, 17, 0},
                 {31, 130, 67, 3},
                 {3, 66, 257, 0},
                 {200, 37, 96, 0},
                 {130, 129, 5, 1},
                 {17, 200, 384, 0},
                 {1600, 200, 384, 0},
                 {1, 1, 1, 0, true},
                 {5, 7, 3, 1, true},
                 {15, 33, 66, 0, true},
                 {66, 5, 17, 2, true},
                 {31, 130, 129, 3, true},
                 {17, 200, 800, 0, true},
                 {1600, 200, 384, 0, true}};
    if (index >= sizeof sizes / sizeof *sizes)
        return false;
    const uint32_t rows = sizes[index].rows, n = sizes[index].n, k = sizes[index].k;
    c->args.prob.dim[FV_DIM_ROWS] = rows;
    c->args.prob.dim[FV_GEMM_N] = n;
    c->args.prob.dim[FV_GEMM_K] = k;
    c->args.prob.acc = sizes[index].rounded ? FV_BF16 : FV_F32;
    check_matrix(c, FV_MATMUL_A, CHECK_ROW, rows, k, sizes[index].gap);
    check_matrix(c, FV_MATMUL_B, CHECK_BASE, n, k, sizes[index].gap);
    check_matrix(c, FV_MATMUL_OUT, CHECK_ROW, rows, n, sizes[index].gap);
    c->bench = rows == 1600;
    return true;
}

static void oracle(const check_case *c, uint32_t row, double *want, double *allowed)
{
    const uint32_t k = c->args.prob.dim[FV_GEMM_K];
    for (uint32_t n = 0; n < c->args.prob.dim[FV_GEMM_N]; n++) {
        double sum = 0., size = 0.;
        for (uint32_t i = 0; i < k; i++) {
            const double term = check_at(c, FV_MATMUL_A, row, i) * check_at(c, FV_MATMUL_B, n, i);
            sum += term;
            size += fabs(term);
        }
        want[n] = sum;
        allowed[n] = check_allowed(k, size);
        if (c->args.prob.acc == FV_BF16)
            allowed[n] += 0x1p-7 * size; /* both operands have a relative error of 2^-8 */
    }
}

const check_op check_matmul = {.make = make, .oracle = oracle};
