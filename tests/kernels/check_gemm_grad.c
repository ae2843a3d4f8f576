/* check_gemm_grad.c: GEMM_GRAD_W and SUM_ROWS: sums over tokens. */
#include <math.h>

#include "ops/contracts/product.h"
#include "tests/kernels/check.h"
#include "train/ref/training.h"

static void finish_case(check_case *c, int out, bool adds)
{
    c->adds = adds;
    if (adds)
        c->args.prob.flags = FV_FLAG_ACCUMULATE;
    c->operand[out].huge = 1e30f; /* as large as products of inputs */
}

static bool make(check_case *c, uint32_t index)
{
    static const struct {
        uint32_t m, k, tokens, gap;
        bool adds;
        enum fv_type type; /* type of the factors; FV_NONE means float32 */
    } sizes[] = {
        {1, 1, 1, 0, false},
        {3, 17, 5, 2, true},
        {16, 64, 33, 0, false},
        {40, 100, 70, 1, true},
        {97, 200, 257, 0, false},
        {64, 129, 520, 3, true},
        {5, 33, 4100, 0, true},
        {192, 768, 1025, 0, true},
        {1, 1, 1, 0, true, FV_BF16},
        {3, 17, 5, 2, false, FV_BF16},
        {29, 65, 34, 1, true, FV_BF16},
        {40, 300, 263, 3, false, FV_BF16},
        {401, 33, 70, 0, true, FV_BF16},
        {64, 384, 1025, 0, true, FV_BF16},
    };
    if (index >= sizeof sizes / sizeof *sizes)
        return false;
    const uint32_t m = sizes[index].m, k = sizes[index].k, tokens = sizes[index].tokens;
    const uint32_t gap = sizes[index].gap;
    c->args.prob.dim[FV_DIM_ROWS] = m;
    c->args.prob.dim[FV_GEMM_N] = k;
    c->args.prob.dim[FV_GEMM_K] = tokens;
    check_matrix(c, FV_GRAD_W_DOUT, CHECK_BASE, tokens, m, gap);
    check_matrix(c, FV_GRAD_W_IN, CHECK_BASE, tokens, k, gap);
    check_matrix(c, FV_GRAD_W_OUT, CHECK_ROW, m, k, gap);
    finish_case(c, FV_GRAD_W_OUT, sizes[index].adds);
    if (sizes[index].type)
        c->operand[FV_GRAD_W_DOUT].storage = c->operand[FV_GRAD_W_IN].storage = sizes[index].type;
    c->bench = tokens == 1025;
    return true;
}

static void oracle(const check_case *c, uint32_t row, double *want, double *allowed)
{
    const uint32_t tokens = c->args.prob.dim[FV_GEMM_K];
    for (uint32_t i = 0; i < c->args.prob.dim[FV_GEMM_N]; i++) {
        double sum = c->adds ? check_at(c, FV_GRAD_W_OUT, row, i) : 0, size = fabs(sum);
        for (uint32_t t = 0; t < tokens; t++) {
            const double x = check_at(c, FV_GRAD_W_DOUT, t, row) * check_at(c, FV_GRAD_W_IN, t, i);
            sum += x;
            size += fabs(x);
        }
        want[i] = sum;
        allowed[i] = check_allowed(tokens < 1024 ? tokens : 1024, size);
    }
}

static bool make_sum(check_case *c, uint32_t index)
{
    static const struct {
        uint32_t width, tokens, gap;
        bool pair, adds;
    } sizes[] = {
        {1, 1, 0, false, false},   {17, 5, 2, true, true},     {64, 257, 0, false, true},
        {200, 70, 1, true, false}, {129, 5000, 0, true, true}, {384, 1025, 0, true, true},
    };
    if (index >= sizeof sizes / sizeof *sizes)
        return false;
    const uint32_t width = sizes[index].width, tokens = sizes[index].tokens;
    c->args.prob.dim[FV_DIM_ROWS] = 1;
    c->args.prob.dim[FV_ROW_C] = width;
    c->args.prob.dim[FV_GRAD_TOKENS] = tokens;
    check_matrix(c, FV_SUM_A, CHECK_BASE, tokens, width, sizes[index].gap);
    if (sizes[index].pair)
        check_matrix(c, FV_SUM_B, CHECK_BASE, tokens, width, sizes[index].gap);
    check_matrix(c, FV_SUM_OUT, CHECK_ROW, 1, width, 0);
    finish_case(c, FV_SUM_OUT, sizes[index].adds);
    c->bench = width == 384;
    return true;
}

static void sum_oracle(const check_case *c, uint32_t row, double *want, double *allowed)
{
    const uint32_t tokens = c->args.prob.dim[FV_GRAD_TOKENS];
    const bool pair = c->operand[FV_SUM_B].kind != CHECK_ABSENT;
    for (uint32_t i = 0; i < c->args.prob.dim[FV_ROW_C]; i++) {
        double sum = c->adds ? check_at(c, FV_SUM_OUT, row, i) : 0, size = fabs(sum);
        for (uint32_t t = 0; t < tokens; t++) {
            const double x = check_at(c, FV_SUM_A, t, i) * (pair ? check_at(c, FV_SUM_B, t, i) : 1);
            sum += x;
            size += fabs(x);
        }
        want[i] = sum;
        allowed[i] = check_allowed(tokens < 256 ? tokens : 256, size);
    }
}

const check_op check_gemm_grad_w = {.make = make, .oracle = oracle};
const check_op check_sum_rows = {.make = make_sum, .oracle = sum_oracle};
