/* check_conv.c: CONV at sizes around every tile, with windows that extend beyond each side. */
#include <math.h>

#include "ops/contracts/product.h"
#include "tests/kernels/check_rows_i8.h"
#include "tests/kernels/oracle.h"

static const struct shape {
    uint32_t width, height, channels, size, stride, pad, n, gap, epi;
    bool bench;
    enum fv_type weight, acc, in, out; /* if only the first is given, the others are float32 */
} shapes[] = {
    {1, 1, 1, 1, 1, 0, 1, 0, 0, false, FV_F32},
    {4, 3, 4, 3, 1, 1, 5, 0, FV_EPI_BIAS, false, FV_F32},
    {5, 7, 3, 3, 2, 1, 17, 1, FV_EPI_BIAS | FV_EPI_GELU, false, FV_F32},
    {8, 6, 5, 2, 2, 0, 33, 2, FV_EPI_BIAS, false,
     FV_F32}, /* channel counts that are not multiples of 4 */
    {9, 2, 12, 5, 1, 2, 31, 0, FV_EPI_SILU, false, FV_F32},
    {2, 9, 8, 4, 3, 1, 16, 4, FV_EPI_BIAS | FV_EPI_RELU, false, FV_F32},
    {3, 2, 4, 3, 1, 4, 8, 0, FV_EPI_BIAS, false, FV_F32}, /* windows entirely outside the picture */
    {13, 11, 96, 3, 2, 1, 65, 0, FV_EPI_BIAS, false,
     FV_F32}, /* blocks of k that begin inside a tap */
    {6, 9, 177, 3, 1, 1, 40, 3, FV_EPI_BIAS | FV_EPI_GELU, false, FV_F32},
    {11, 5, 7, 3, 4, 0, 19, 0, FV_EPI_BIAS | FV_EPI_TANH, false,
     FV_F32}, /* columns that no window reads */
    {4, 4, 68, 7, 1, 3, 64, 0, FV_EPI_BIAS | FV_EPI_GELU_TANH, false, FV_F32},
    {7, 5, 20, 3, 2, 1, 34, 0, FV_EPI_BIAS, false, FV_F16},
    {5, 4, 3, 5, 1, 2, 64, 1, FV_EPI_BIAS | FV_EPI_GELU, false, FV_F16},
    {7, 6, 20, 3, 2, 1, 34, 0, FV_EPI_BIAS, false, FV_F16, FV_F16},
    {5, 4, 3, 5, 1, 2, 64, 1, FV_EPI_BIAS | FV_EPI_GELU, false, FV_F16, FV_F16},
    {6, 7, 92, 3, 1, 1, 66, 0, FV_EPI_BIAS, false, FV_BF16},
    {3, 8, 6, 2, 2, 0, 15, 0, FV_EPI_SILU, false, FV_BF16},
    {5, 3, 7, 3, 2, 1, 33, 1, FV_EPI_BIAS, false, FV_BF16, FV_F32, FV_BF16, FV_F32},
    {6, 7, 92, 3, 1, 1, 66, 0, FV_EPI_BIAS | FV_EPI_GELU, false, FV_BF16, FV_F32, FV_BF16, FV_BF16},
    {1, 1, 1, 1, 1, 0, 1, 0, 0, false, FV_BF16, FV_BF16},
    {5, 7, 3, 3, 2, 1, 17, 1, FV_EPI_BIAS | FV_EPI_GELU, false, FV_BF16, FV_BF16},
    {8, 6, 5, 2, 2, 0, 33, 2, FV_EPI_BIAS, false, FV_BF16, FV_BF16},
    {13, 11, 96, 3, 2, 1, 65, 0, FV_EPI_BIAS, false, FV_BF16, FV_BF16, FV_F32, FV_BF16},
    {6, 9, 177, 3, 1, 1, 40, 3, FV_EPI_BIAS | FV_EPI_RESIDUAL, false, FV_BF16, FV_BF16},
    {47, 5, 8, 3, 1, 1, 20, 0, FV_EPI_BIAS, false, FV_F32, FV_F32, FV_BF16, FV_BF16},
    {5, 3, 7, 3, 2, 1, 33, 1, FV_EPI_BIAS, false, FV_F16, FV_F32, FV_BF16},
    {5, 6, 9, 3, 1, 1, 21, 1, FV_EPI_BIAS | FV_EPI_RELU | FV_EPI_RESIDUAL, false, FV_F32},
    {7, 4, 16, 2, 1, 1, 48, 0, FV_EPI_BIAS | FV_EPI_RESIDUAL, false, FV_F32},
    {6, 5, 33, 3, 1, 1, 34, 2, FV_EPI_RESIDUAL, false, FV_F16},
    {4, 7, 20, 3, 2, 1, 17, 0, FV_EPI_BIAS | FV_EPI_SIGMOID, false, FV_F32},
    {6, 7, 92, 3, 1, 1, 66, 0, FV_EPI_BIAS | FV_EPI_RESIDUAL, false, FV_BF16, FV_F32, FV_BF16,
     FV_BF16},
    /* lines of several tiles, whose windows are read in place; few columns */
    {47, 5, 8, 3, 1, 1, 20, 0, FV_EPI_BIAS | FV_EPI_RESIDUAL, false, FV_F32},
    {61, 6, 12, 3, 2, 1, 33, 0, FV_EPI_BIAS | FV_EPI_RELU, false, FV_F32},
    {38, 3, 4, 1, 1, 0, 3, 0, FV_EPI_BIAS, false, FV_F32},
    {33, 4, 20, 2, 1, 1, 64, 0, 0, false, FV_F32},
    {47, 5, 8, 3, 1, 1, 20, 0, FV_EPI_BIAS | FV_EPI_RESIDUAL, false, FV_BF16, FV_F32, FV_BF16},
    {61, 6, 12, 3, 2, 1, 33, 0, FV_EPI_BIAS | FV_EPI_RELU, false, FV_BF16, FV_F32, FV_BF16,
     FV_BF16},
    {33, 4, 20, 2, 1, 1, 64, 0, 0, false, FV_BF16, FV_F32, FV_BF16, FV_BF16},
    {56, 56, 64, 3, 2, 1, 128, 0, FV_EPI_BIAS, true, FV_F32},
    {64, 32, 32, 3, 1, 1, 64, 0, FV_EPI_BIAS | FV_EPI_GELU, true, FV_F32},
    {64, 32, 32, 3, 1, 1, 64, 0, FV_EPI_BIAS | FV_EPI_GELU, true, FV_BF16, FV_BF16},
    {5, 7, 3, 3, 2, 1, 17, 1, FV_EPI_BIAS | FV_EPI_GELU, false, FV_I8},
    {6, 7, 92, 3, 1, 1, 66, 0, FV_EPI_BIAS, false, FV_I8, FV_F32, FV_BF16, FV_BF16},
    /* int8 products; if channels are not a multiple of 8, only the reference supports them */
    {3, 2, 5, 3, 1, 1, 7, 0, FV_EPI_BIAS, false, FV_I8, FV_I32, FV_U8},
    {1, 1, 8, 1, 1, 0, 1, 0, 0, false, FV_I8, FV_I32, FV_U8},
    {5, 7, 8, 3, 2, 1, 17, 1, FV_EPI_BIAS | FV_EPI_GELU, false, FV_I8, FV_I32, FV_U8},
    {9, 2, 24, 5, 1, 2, 33, 0, FV_EPI_SILU, false, FV_I8, FV_I32, FV_U8, FV_BF16},
    {13, 11, 96, 3, 2, 1, 65, 0, FV_EPI_BIAS, false, FV_I8, FV_I32, FV_U8},
    {3, 2, 16, 3, 1, 4, 8, 0, FV_EPI_BIAS, false, FV_I8, FV_I32, FV_U8},
    {6, 9, 64, 3, 1, 1, 40, 3, FV_EPI_BIAS | FV_EPI_RESIDUAL, false, FV_I8, FV_I32, FV_U8},
    {7, 4, 32, 2, 1, 1, 130, 0, FV_EPI_BIAS | FV_EPI_RELU, false, FV_I8, FV_I32, FV_U8, FV_BF16},
    {47, 5, 40, 3, 1, 1, 20, 0, FV_EPI_BIAS | FV_EPI_RESIDUAL, false, FV_I8, FV_I32, FV_U8},
    {11, 5, 200, 3, 4, 0, 19, 2, FV_EPI_BIAS, false, FV_I8, FV_I32, FV_U8},
    {56, 56, 64, 3, 2, 1, 128, 0, FV_EPI_BIAS, true, FV_I8, FV_I32, FV_U8},
    {64, 32, 32, 3, 1, 1, 32, 0, FV_EPI_BIAS | FV_EPI_RELU, true, FV_I8, FV_I32, FV_U8},
};
enum { SHAPES = sizeof shapes / sizeof *shapes };

static uint32_t reached(uint32_t pixels, const struct shape *s)
{
    return (pixels + 2 * s->pad - s->size) / s->stride + 1;
}

static bool make(check_case *c, uint32_t index)
{
    if (index >= SHAPES)
        return false;
    const struct shape *s = &shapes[index];
    const uint32_t width = reached(s->width, s), rows = width * reached(s->height, s);
    const uint32_t k = s->size * s->size * s->channels;
    const uint32_t dim[] = {rows, s->n, k, s->size, s->stride, s->pad, s->channels};
    for (uint32_t i = 0; i < sizeof dim / sizeof *dim; i++)
        c->args.prob.dim[i] = dim[i];
    c->args.prob.epi = s->epi;
    c->args.prob.weight = s->weight;
    c->args.prob.acc = s->acc ? s->acc : FV_F32;
    c->args.u[0] = s->width;
    c->args.u[1] = s->height;
    c->args.u[2] = width;
    const bool numbers = s->acc == FV_I32;
    const uint32_t bytes = (s->channels + 7) / 8 * 8 + 8; /* of one pixel's int8 values */
    check_matrix(c, FV_GEMM_A, CHECK_BASE, s->width * s->height, numbers ? bytes : s->channels,
                 numbers ? 8 * s->gap : s->gap);
    check_matrix(c, FV_GEMM_W, CHECK_WEIGHT, s->n, k, 0);
    if (s->epi & FV_EPI_BIAS)
        check_vector(c, FV_GEMM_BIAS, s->n);
    if (s->epi & FV_EPI_RESIDUAL)
        check_matrix(c, FV_GEMM_RES, CHECK_ROW, rows, s->n, s->gap);
    check_matrix(c, FV_GEMM_OUT, CHECK_ROW, rows, s->n, s->gap);
    if (s->epi & FV_EPI_RESIDUAL && index % 2 && !s->out)
        c->in_place = FV_GEMM_RES;
    c->operand[FV_GEMM_A].storage = s->in ? s->in : FV_F32;
    if (numbers)
        c->operand[FV_GEMM_A].type = FV_U8;
    c->operand[FV_GEMM_OUT].storage = s->out ? s->out : FV_F32;
    c->operand[FV_GEMM_W].scale = 1.f / sqrtf((float)k); /* as in a model */
    if (s->weight == FV_F16)
        c->operand[FV_GEMM_W].huge = 1e3f;
    c->bench = s->bench;
    return true;
}

/* Returns channel i of a pixel. */
static double pixel_at(const check_case *c, uint32_t pixel, uint32_t i)
{
    return c->args.prob.acc == FV_I32
               ? check_rows_i8_at(c, FV_GEMM_A, pixel, c->args.prob.dim[FV_CONV_C], i)
               : check_at(c, FV_GEMM_A, pixel, i);
}

static double product(const check_case *c, uint32_t row, uint32_t n, double *error)
{
    const uint32_t *dim = c->args.prob.dim, *u = c->args.u;
    const double sum = c->args.prob.epi & FV_EPI_BIAS ? check_at(c, FV_GEMM_BIAS, 0, n) : 0;
    check_sum s = {.sum = sum, .size = fabs(sum)};
    for (uint32_t k = 0; k < dim[FV_GEMM_K]; k++) {
        const uint32_t tap = k / dim[FV_CONV_C], channel = k % dim[FV_CONV_C];
        const int64_t pad = dim[FV_CONV_PAD];
        const int64_t y = row / u[2] * dim[FV_CONV_STRIDE] + tap / dim[FV_CONV_SIZE] - pad;
        const int64_t x = row % u[2] * dim[FV_CONV_STRIDE] + tap % dim[FV_CONV_SIZE] - pad;
        if (y < 0 || y >= u[1] || x < 0 || x >= u[0])
            continue;
        check_sum_add(&s, pixel_at(c, (uint32_t)(y * u[0] + x), channel), check_weight(c, n, k));
    }
    *error = check_sum_error(&s, &c->args.prob);
    return s.sum;
}

static void oracle(const check_case *c, uint32_t row, double *want, double *allowed)
{
    const uint32_t epi = c->args.prob.epi;
    for (uint32_t i = 0; i < c->args.prob.dim[FV_GEMM_N]; i++) {
        double error;
        const double x = product(c, row, i, &error);
        const double res = epi & FV_EPI_RESIDUAL ? check_at(c, FV_GEMM_RES, row, i) : 0;
        want[i] = oracle_activation(epi, x) + res;
        allowed[i] = check_activation_error(epi, x, error) + fv_problem_rough_error(&c->args.prob) +
                     check_allowed(1, fabs(want[i]) + fabs(res));
    }
}

static void prepare(check_case *c, check_random *r)
{
    if (c->args.prob.acc == FV_I32)
        check_rows_i8_draw(c, FV_GEMM_A, c->args.prob.dim[FV_CONV_C], r);
    check_int8_prepare(c, r);
}

const check_op check_conv = {.make = make,
                             .prepare = prepare,
                             .define = check_int8_define,
                             .oracle = oracle,
                             .release = check_int8_release};
