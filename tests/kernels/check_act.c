/* check_act.c: ACT, ACT_GRAD and ADD: element-wise operations on rows. */
#include <float.h>
#include <math.h>

#include "ops/contracts/rows.h"
#include "tests/kernels/check.h"
#include "tests/kernels/gradients.h"
#include "tests/kernels/oracle.h"
#include "train/ref/training.h"

enum { ACTS = FV_ACTIVATIONS + 1 };

static uint32_t act_of(uint32_t index)
{
    const uint32_t i = index % ACTS;
    return i < FV_ACTIVATIONS ? fv_activations[i].epi : FV_EPI_SWIGLU;
}

static const struct {
    uint32_t rows, width, gap;
    enum fv_type out; /* output type of ACT; FV_NONE means float32 */
} sizes[] = {{3, 17, 2}, {5, 64, 0}, {2, 1, 1}, {4, 37, 1, FV_BF16}, {128, 1536, 0}};
enum { SIZES = sizeof sizes / sizeof *sizes };

/* Sets the problem and the widths of the operands. The first operand is the activation's input. */
static bool make(check_case *c, uint32_t index, int operands)
{
    const uint32_t size = index / ACTS;
    const bool pair = act_of(index) == FV_EPI_SWIGLU;
    if (size >= SIZES)
        return false;
    c->args.prob.epi = act_of(index);
    c->args.prob.dim[FV_DIM_ROWS] = sizes[size].rows;
    c->args.prob.dim[FV_ROW_C] = sizes[size].width;
    for (int i = 0; i < operands; i++) {
        const bool wide = pair && (i == 0 || (operands == 3 && i == 2));
        check_matrix(c, i, CHECK_ROW, sizes[size].rows, sizes[size].width * (wide ? 2 : 1),
                     sizes[size].gap);
    }
    c->bench = size == SIZES - 1 && (index % ACTS == 0 || pair);
    return true;
}

static bool make_act(check_case *c, uint32_t index)
{
    if (!make(c, index, 2))
        return false;
    if (sizes[index / ACTS].out)
        c->operand[FV_ACT_OUT].storage = sizes[index / ACTS].out;
    else if (index % 2 && c->args.prob.epi != FV_EPI_SWIGLU)
        c->in_place = FV_ACT_IN;
    if (c->args.prob.epi == FV_EPI_SOFTPLUS)
        c->operand[FV_ACT_IN].scale =
            25.f; /* covers the range where the activation equals x or e^x up to rounding */
    return true;
}

static void act_oracle(const check_case *c, uint32_t row, double *want, double *allowed)
{
    const uint32_t n = c->args.prob.dim[FV_ROW_C], epi = c->args.prob.epi;
    const bool pair = epi == FV_EPI_SWIGLU;
    for (uint32_t i = 0; i < n; i++) {
        const double x = check_at(c, FV_ACT_IN, row, i);
        const double other = pair ? check_at(c, FV_ACT_IN, row, n + i) : 1;
        const uint32_t act = pair ? FV_EPI_SILU : epi;
        want[i] = oracle_activation(act, x) * other;
        allowed[i] =
            fabs(other) * check_activation_error(act, x, 0) + check_allowed(4, fabs(want[i]));
    }
}

static bool make_grad(check_case *c, uint32_t index)
{
    if (!make(c, index, 3))
        return false;
    c->operand[FV_ACT_GRAD_IN].scale = 3.f; /* covers the range where activations are curved */
    if (index % 3 == 1)
        c->in_place = FV_ACT_GRAD_IN;
    if (index % 3 == 2 && c->args.prob.epi != FV_EPI_SWIGLU)
        c->in_place = FV_ACT_GRAD_DOUT;
    return true;
}

/* Bounds the error of a slope: the error of erf, tanh or the sigmoid, times its factor. */
static double slope_error(uint32_t epi, double x)
{
    const double size = fmin(fabs(x), 9);
    return epi == FV_EPI_RELU ? 0
                              : 4e-7 * (4 + size + (epi == FV_EPI_GELU_TANH) * size * size * size);
}

static void grad_oracle(const check_case *c, uint32_t row, double *want, double *allowed)
{
    const uint32_t n = c->args.prob.dim[FV_ROW_C], epi = c->args.prob.epi;
    const bool pair = epi == FV_EPI_SWIGLU;
    for (uint32_t i = 0; i < n; i++) {
        const double x = check_at(c, FV_ACT_GRAD_IN, row, i);
        const double g = check_at(c, FV_ACT_GRAD_DOUT, row, i);
        const double other = pair ? check_at(c, FV_ACT_GRAD_IN, row, n + i) : 1;
        const uint32_t act = pair ? FV_EPI_SILU : epi;
        want[i] = g * other * oracle_slope(act, x);
        allowed[i] = fabs(g * other) * slope_error(act, x) + check_allowed(4, fabs(want[i])) +
                     FLT_MIN * (1 + fabs(g) + fabs(other)) * (1 + fabs(x));
        if (pair) {
            want[n + i] = g * oracle_activation(act, x);
            allowed[n + i] = fabs(g) * check_activation_error(act, x, 0) +
                             check_allowed(4, fabs(want[n + i])) + FLT_MIN * (1 + fabs(g));
        }
    }
}

static bool make_add(check_case *c, uint32_t index)
{
    static const struct {
        uint32_t rows, width, gap;
        bool scale, res;
        int in_place;
    } adds[] = {
        {3, 17, 2, true, true, -1},
        {5, 33, 0, true, false, FV_ADD_IN},
        {1, 1, 1, false, true, FV_ADD_RES},
        {4, 64, 1, false, false, -1},
        {7, 48, 0, true, true, FV_ADD_RES},
        {2, 100, 3, true, true, FV_ADD_IN},
        {1025, 384, 0, true, true, FV_ADD_RES},
    };
    if (index >= sizeof adds / sizeof *adds)
        return false;
    const uint32_t rows = adds[index].rows, width = adds[index].width, gap = adds[index].gap;
    c->args.prob.dim[FV_DIM_ROWS] = rows;
    c->args.prob.dim[FV_ROW_C] = width;
    check_matrix(c, FV_ADD_IN, CHECK_ROW, rows, width, gap);
    if (adds[index].scale)
        check_vector(c, FV_ADD_SCALE, width);
    if (adds[index].res)
        check_matrix(c, FV_ADD_RES, CHECK_ROW, rows, width, gap);
    check_matrix(c, FV_ADD_OUT, CHECK_ROW, rows, width, gap);
    c->in_place = adds[index].in_place;
    c->bench = rows == 1025;
    return true;
}

static void add_oracle(const check_case *c, uint32_t row, double *want, double *allowed)
{
    for (uint32_t i = 0; i < c->args.prob.dim[FV_ROW_C]; i++) {
        const bool scale = c->operand[FV_ADD_SCALE].kind, res = c->operand[FV_ADD_RES].kind;
        const double x =
            check_at(c, FV_ADD_IN, row, i) * (scale ? check_at(c, FV_ADD_SCALE, 0, i) : 1);
        const double before = res ? check_at(c, FV_ADD_RES, row, i) : 0;
        want[i] = before + x;
        allowed[i] = check_allowed(2, fabs(before) + fabs(x));
    }
}

const check_op check_act = {.make = make_act, .oracle = act_oracle};
const check_op check_act_grad = {.make = make_grad, .oracle = grad_oracle};
const check_op check_add = {.make = make_add, .oracle = add_oracle};
