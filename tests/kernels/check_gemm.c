/* check_gemm.c: GEMM with every epilogue, at sizes around every tile and block. */
#include <float.h>
#include <math.h>

#include "ops/contracts/product.h"
#include "tests/kernels/check_run.h"
#include "tests/kernels/oracle.h"

enum { BIAS = FV_EPI_BIAS, SCALE = FV_EPI_SCALE, RESIDUAL = FV_EPI_RESIDUAL };

static const struct shape {
    uint32_t rows, n, k, gap, epi;
    bool in_place, bench;
    enum fv_type weight, acc, in, out; /* if only the first is given, the others are float32 */
} shapes[] = {
    {1, 1, 1, 0, 0, false, false, FV_F32},
    {1, 7, 3, 0, BIAS, false, false, FV_F32},
    {5, 8, 4, 1, BIAS | FV_EPI_RELU, false, false, FV_F32},
    {6, 15, 5, 0, BIAS | FV_EPI_GELU, false, false, FV_F32},
    {7, 16, 31, 3, BIAS | FV_EPI_GELU_TANH, false, false, FV_F32},
    {13, 17, 64, 0, BIAS | FV_EPI_GELU_QUICK, false, false, FV_F32},
    {14, 31, 65, 5, BIAS | FV_EPI_SILU, false, false, FV_F32},
    {15, 32, 97, 0, BIAS | FV_EPI_TANH, false, false, FV_F32},
    {9, 33, 40, 0, BIAS | FV_EPI_SIGMOID | FV_EPI_SCALE, false, false, FV_F32},
    {10, 34, 39, 1, BIAS | FV_EPI_SOFTPLUS | FV_EPI_SCALE, false, false, FV_F32},
    {28, 33, 12, 2, SCALE, false, false, FV_F32},
    {29, 63, 128, 0, BIAS | SCALE | RESIDUAL, false, false, FV_F32},
    {12, 64, 129, 0, BIAS | SCALE | RESIDUAL, true, false, FV_F32},
    {3, 65, 100, 1, BIAS | RESIDUAL, true, false, FV_F32},
    {42, 130, 67, 0, BIAS | FV_EPI_GELU | RESIDUAL, false, false, FV_F32},
    {9, 1, 257, 0, BIAS, false, false, FV_F32},
    {8, 5, 19, 0, BIAS | FV_EPI_SWIGLU, false, false, FV_F32},
    {17, 64, 33, 0, FV_EPI_SWIGLU, false, false, FV_F32},
    {30, 97, 70, 4, BIAS | FV_EPI_SWIGLU | SCALE | RESIDUAL, false, false, FV_F32},
    {127, 200, 600, 0, BIAS, false, false, FV_F32},
    {31, 67, 1531, 0, BIAS | FV_EPI_GELU, false, false, FV_F32},
    {1, 5, 2, 0, BIAS, false, false, FV_F16},
    {3, 33, 129, 1, BIAS | FV_EPI_GELU, false, false, FV_F16},
    {14, 64, 65, 0, BIAS | SCALE | RESIDUAL, true, false, FV_F16},
    {31, 70, 900, 0, BIAS | FV_EPI_SWIGLU, false, false, FV_F16},
    {43, 200, 30, 3, BIAS | FV_EPI_TANH, false, false, FV_F16},
    {21, 66, 30, 3, BIAS | FV_EPI_SOFTPLUS, false, false, FV_F16},
    {1, 1, 1, 0, 0, false, false, FV_F16, FV_F16},
    {7, 9, 18, 1, BIAS, false, false, FV_F16, FV_F16},
    {9, 66, 130, 0, BIAS | SCALE | RESIDUAL, true, false, FV_F16, FV_F16},
    {19, 37, 900, 2, BIAS | FV_EPI_SWIGLU, false, false, FV_F16, FV_F16},
    {33, 64, 397, 0, BIAS | FV_EPI_GELU, false, false, FV_F16, FV_F16},
    {2, 7, 3, 0, 0, false, false, FV_BF16},
    {6, 31, 130, 0, BIAS | FV_EPI_SILU, false, false, FV_BF16},
    {15, 65, 64, 2, BIAS | SCALE | RESIDUAL, true, false, FV_BF16},
    {29, 97, 801, 0, FV_EPI_SWIGLU, false, false, FV_BF16},
    {50, 130, 37, 0, BIAS | FV_EPI_RELU, false, false, FV_BF16},
    {1, 48, 96, 0, BIAS | FV_EPI_SOFTPLUS | FV_EPI_SCALE, false, false, FV_BF16},
    {1, 9, 258, 0, BIAS, false, false, FV_BF16},
    {11, 66, 391, 3, BIAS | SCALE | RESIDUAL, false, false, FV_BF16},
    {1, 7, 5, 0, BIAS, false, false, FV_BF16, FV_F32, FV_BF16, FV_F32},
    {16, 33, 64, 0, BIAS | FV_EPI_GELU, false, false, FV_BF16, FV_F32, FV_BF16, FV_BF16},
    {29, 70, 131, 3, BIAS | SCALE | RESIDUAL, true, false, FV_BF16, FV_F32, FV_BF16, FV_F32},
    {43, 65, 801, 1, BIAS | FV_EPI_SWIGLU, false, false, FV_BF16, FV_F32, FV_BF16, FV_BF16},
    {15, 97, 258, 2, BIAS, false, false, FV_BF16, FV_F32, FV_F32, FV_BF16},
    {1, 1, 1, 0, 0, false, false, FV_BF16, FV_BF16},
    {5, 7, 3, 1, BIAS, false, false, FV_BF16, FV_BF16},
    {15, 33, 66, 0, BIAS | FV_EPI_GELU, false, false, FV_BF16, FV_BF16, FV_F32, FV_BF16},
    {29, 70, 131, 3, BIAS | SCALE | RESIDUAL, true, false, FV_BF16, FV_BF16},
    {43, 65, 801, 1, BIAS | FV_EPI_SWIGLU, false, false, FV_BF16, FV_BF16},
    {200, 97, 258, 2, BIAS | FV_EPI_RELU, false, false, FV_BF16, FV_BF16, FV_F32, FV_BF16},
    {1, 48, 96, 0, BIAS, false, false, FV_F32, FV_F32, FV_BF16},
    {16, 33, 67, 1, BIAS | FV_EPI_GELU, false, false, FV_F32, FV_F32, FV_BF16, FV_BF16},
    {43, 65, 801, 0, BIAS | FV_EPI_SWIGLU, false, false, FV_F32, FV_F32, FV_BF16},
    {31, 66, 130, 3, BIAS | SCALE | RESIDUAL, true, false, FV_F16, FV_F32, FV_BF16},
    {1, 1, 1, 0, 0, false, false, FV_I8, FV_I32},
    {3, 7, 5, 1, BIAS, false, false, FV_I8, FV_I32},
    {14, 33, 64, 0, BIAS | FV_EPI_GELU, false, false, FV_I8, FV_I32, FV_BF16, FV_BF16},
    {15, 31, 96, 0, BIAS | FV_EPI_RELU, false, false, FV_I8, FV_I32, FV_F32, FV_BF16},
    {29, 70, 384, 3, BIAS | SCALE | RESIDUAL, true, false, FV_I8, FV_I32, FV_BF16},
    {43, 65, 520, 1, BIAS | FV_EPI_SWIGLU, false, false, FV_I8, FV_I32, FV_BF16},
    {200, 9, 127, 0, BIAS, false, false, FV_I8, FV_I32},
    {5, 130, 1536, 0, BIAS | RESIDUAL, false, false, FV_I8, FV_I32},
    {252, 768, 768, 0, BIAS | SCALE | RESIDUAL, true, true, FV_F32},
    {252, 3072, 768, 0, BIAS | FV_EPI_GELU, false, true, FV_F32},
    {252, 768, 3072, 0, BIAS, false, true, FV_F32},
    {252, 1024, 384, 0, BIAS | FV_EPI_SWIGLU, false, true, FV_F32},
    {252, 768, 768, 0, BIAS | SCALE | RESIDUAL, true, true, FV_F16},
    {252, 768, 768, 0, BIAS | SCALE | RESIDUAL, true, true, FV_F16, FV_F16},
    {252, 768, 768, 0, BIAS | SCALE | RESIDUAL, true, true, FV_BF16},
    {252, 3072, 768, 0, BIAS | FV_EPI_GELU, false, true, FV_BF16, FV_F32, FV_BF16, FV_BF16},
    {252, 768, 768, 0, BIAS | SCALE | RESIDUAL, true, true, FV_BF16, FV_BF16},
    {252, 768, 768, 0, BIAS | SCALE | RESIDUAL, true, true, FV_I8, FV_I32, FV_BF16},
    {252, 3072, 768, 0, BIAS | FV_EPI_GELU, false, true, FV_I8, FV_I32, FV_BF16, FV_BF16},
    {252, 768, 3072, 0, BIAS, false, true, FV_I8, FV_I32, FV_BF16, FV_BF16},
    {1, 1, 1, 0, 0, false, false, FV_I8},
    {2, 7, 5, 1, BIAS, false, false, FV_I8},
    {15, 33, 65, 0, BIAS | FV_EPI_GELU, false, false, FV_I8, FV_F32, FV_BF16, FV_BF16},
    {29, 70, 131, 3, BIAS | SCALE | RESIDUAL, true, false, FV_I8, FV_F32, FV_BF16},
    {43, 65, 801, 1, BIAS | FV_EPI_SWIGLU, false, false, FV_I8},
    {14, 128, 96, 0, SCALE | RESIDUAL, true, false, FV_I8},
    {252, 768, 768, 0, BIAS | SCALE | RESIDUAL, true, true, FV_I8},
};
enum { SHAPES = sizeof shapes / sizeof *shapes };

static bool make(check_case *c, uint32_t index)
{
    if (index >= SHAPES)
        return false;
    const struct shape *s = &shapes[index];
    const uint32_t sides = s->epi & FV_EPI_SWIGLU ? 2 : 1;
    c->args.prob.dim[0] = s->rows;
    c->args.prob.dim[FV_GEMM_N] = s->n;
    c->args.prob.dim[FV_GEMM_K] = s->k;
    c->args.prob.epi = s->epi;
    c->args.prob.weight = s->weight;
    c->args.prob.acc = s->acc ? s->acc : FV_F32;
    check_matrix(c, FV_GEMM_A, CHECK_ROW, s->rows, s->k, s->gap);
    check_matrix(c, FV_GEMM_W, CHECK_WEIGHT, sides * s->n, s->k, 0);
    if (s->epi & FV_EPI_BIAS)
        check_vector(c, FV_GEMM_BIAS, sides * s->n);
    if (s->epi & FV_EPI_SCALE)
        check_vector(c, FV_GEMM_SCALE, s->n);
    if (s->epi & FV_EPI_RESIDUAL)
        check_matrix(c, FV_GEMM_RES, CHECK_ROW, s->rows, s->n, s->gap);
    check_matrix(c, FV_GEMM_OUT, CHECK_ROW, s->rows, s->n, s->gap);
    c->operand[FV_GEMM_A].storage = s->in ? s->in : FV_F32;
    c->operand[FV_GEMM_OUT].storage = s->out ? s->out : FV_F32;
    /* Weights are scaled as in a model: sums are near 1, where the activations are curved. */
    c->operand[FV_GEMM_W].scale = 1.f / sqrtf((float)s->k);
    if (sides == 2) /* the two halves are multiplied: keep the product in float32's range */
        c->operand[FV_GEMM_A].huge = c->operand[FV_GEMM_W].huge = 1e8f;
    if (s->weight == FV_F16)
        c->operand[FV_GEMM_W].huge = 1e3f;
    c->in_place = s->in_place ? FV_GEMM_RES : -1;
    c->bench = s->bench;
    return true;
}

void check_sum_add(check_sum *s, double a, double w)
{
    s->sum += a * w;
    s->size += fabs(a * w);
    s->sizes += 1 + fabs(w);
    s->largest = fmax(s->largest, fabs(a));
}

double check_sum_error(const check_sum *s, const fv_problem *p)
{
    const double exact = check_allowed(p->dim[FV_GEMM_K], s->size);
    if (p->acc == FV_BF16) /* each row is rounded once */
        return exact + 0x1p-8 * s->size;
    if (p->acc != FV_F16)
        return exact;
    return exact + 0x1p-9 * s->size + 0x1p-22 * s->largest * s->sizes;
}

static const double steepest = 1.13; /* largest slope of all activations */

double check_activation_error(uint32_t epi, double x, double error)
{
    const double bent =
        4 * FLT_EPSILON * fmin(fabs(x), epi & (FV_EPI_TANH | FV_EPI_SIGMOID) ? 1 : x * x);
    if (!(epi & FV_EPI_ACT))
        return error;
    if (epi & FV_EPI_SOFTPLUS) /* the bound stays relative where the result is small */
        return error / (1 + exp(-x - error)) + 6 * FLT_EPSILON * oracle_activation(epi, x) +
               FLT_MIN;
    return steepest * error + bent + 4 * FLT_EPSILON * fabs(x) + FLT_MIN;
}

/* ---- int8 products ---- */

static double product_of_numbers(const check_case *c, uint32_t row, uint32_t n, double *error)
{
    const uint32_t k = c->args.prob.dim[FV_GEMM_K];
    const double *a = check_int8_row(c, FV_GEMM_A, row), *w = check_int8_row(c, FV_GEMM_W, n);
    const double bias = c->args.prob.epi & FV_EPI_BIAS ? check_at(c, FV_GEMM_BIAS, 0, n) : 0;
    double sum = 0;
    for (uint32_t i = 0; i < k; i++)
        sum += a[i] * w[i];
    sum *= a[k] * w[k];
    *error = 2 * FLT_EPSILON * fabs(sum) + check_allowed(1, fabs(sum + bias)) + k * FLT_MIN;
    return sum + bias;
}

/* ---- floats ---- */

/* Computes the product of a row with row n of the weight, plus the bias, and the error that float32
 * may make in it. */
static double product(const check_case *c, uint32_t row, uint32_t n, double *error)
{
    const uint32_t k = c->args.prob.dim[FV_GEMM_K];
    if (c->args.prob.acc == FV_I32)
        return product_of_numbers(c, row, n, error);
    const double sum = c->args.prob.epi & FV_EPI_BIAS ? check_at(c, FV_GEMM_BIAS, 0, n) : 0;
    check_sum s = {.sum = sum, .size = fabs(sum)};
    for (uint32_t i = 0; i < k; i++)
        check_sum_add(&s, check_at(c, FV_GEMM_A, row, i), check_weight(c, n, i));
    *error = check_sum_error(&s, &c->args.prob);
    return s.sum;
}

static void oracle(const check_case *c, uint32_t row, double *want, double *allowed)
{
    const uint32_t n = c->args.prob.dim[FV_GEMM_N], epi = c->args.prob.epi;
    for (uint32_t i = 0; i < n; i++) {
        double error, x = product(c, row, i, &error);
        if (epi & FV_EPI_SWIGLU) {
            double gate_error;
            const double gate = product(c, row, n + i, &gate_error);
            const double value = oracle_activation(FV_EPI_SILU, x);
            error = fabs(gate) * (steepest * error + 4 * FLT_EPSILON * fabs(x)) +
                    (fabs(value) + steepest * error) * gate_error;
            x = value * gate;
        } else {
            error = check_activation_error(epi, x, error) + fv_problem_rough_error(&c->args.prob);
            x = oracle_activation(epi, x);
        }
        if (epi & FV_EPI_SCALE) {
            x *= check_at(c, FV_GEMM_SCALE, 0, i);
            error *= fabs(check_at(c, FV_GEMM_SCALE, 0, i));
        }
        double size = fabs(x);
        if (epi & FV_EPI_RESIDUAL) {
            x += check_at(c, FV_GEMM_RES, row, i);
            size += fabs(check_at(c, FV_GEMM_RES, row, i));
        }
        want[i] = x;
        allowed[i] = error + check_allowed(1, size);
    }
}

const check_op check_gemm = {.make = make,
                             .prepare = check_int8_prepare,
                             .define = check_int8_define,
                             .oracle = oracle,
                             .release = check_int8_release};
