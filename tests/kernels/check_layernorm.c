/* check_layernorm.c: cases and definition of LAYERNORM. */
#include <float.h>
#include <math.h>

#include "ops/contracts/rows.h"
#include "tests/kernels/check.h"

static bool make(check_case *c, uint32_t index)
{
    static const struct {
        uint32_t rows, width, gap;
        bool in_place;
        enum fv_type in, out; /* none: float32 */
    } sizes[] = {
        {1, 1, 0, false},
        {3, 15, 1, true},
        {5, 16, 0, false},
        {2, 17, 3, false},
        {7, 63, 0, true},
        {4, 65, 7, false},
        {1, 129, 0, true},
        {2, 384, 16, false},
        {33, 191, 1, true},
        {9, 768, 0, true},
        {256, 768, 0, false},
        {5, 67, 3, false, FV_F32, FV_BF16},
        {3, 384, 0, false, FV_BF16, FV_BF16},
        {2, 31, 1, false, FV_BF16, FV_F32},
    };
    if (index >= sizeof sizes / sizeof *sizes)
        return false;
    c->args.prob.dim[FV_DIM_ROWS] = sizes[index].rows;
    c->args.prob.dim[1] = sizes[index].width;
    c->args.f[0] = 1e-6f;
    check_matrix(c, FV_LN_IN, CHECK_ROW, sizes[index].rows, sizes[index].width, sizes[index].gap);
    check_vector(c, FV_LN_WEIGHT, sizes[index].width);
    check_vector(c, FV_LN_BIAS, sizes[index].width);
    check_matrix(c, FV_LN_OUT, CHECK_ROW, sizes[index].rows, sizes[index].width, sizes[index].gap);
    if (sizes[index].in)
        c->operand[FV_LN_IN].storage = sizes[index].in;
    if (sizes[index].out)
        c->operand[FV_LN_OUT].storage = sizes[index].out;
    if (sizes[index].in_place)
        c->in_place = FV_LN_IN;
    c->bench = sizes[index].rows == 256;
    return true;
}

/* An error `off` of the mean shifts every difference by `off` and adds its square to the variance.
 */
static void oracle(const check_case *c, uint32_t row, double *want, double *allowed)
{
    const uint32_t n = c->args.prob.dim[1];
    double mean = 0., size = 0., var = 0.;
    for (uint32_t i = 0; i < n; i++) {
        mean += check_at(c, FV_LN_IN, row, i) / n;
        size += fabs(check_at(c, FV_LN_IN, row, i));
    }
    for (uint32_t i = 0; i < n; i++) {
        const double x = check_at(c, FV_LN_IN, row, i) - mean;
        var += x * x / n;
    }
    const double std = sqrt(var + c->args.f[0]);
    const double off = check_allowed(n, size) / n / std;
    for (uint32_t i = 0; i < n; i++) {
        const double x = (check_at(c, FV_LN_IN, row, i) - mean) / std;
        const double w = check_at(c, FV_LN_WEIGHT, 0, i), b = check_at(c, FV_LN_BIAS, 0, i);
        want[i] = x * w + b;
        allowed[i] = fabs(w) * (off + fabs(x) * off * off + check_allowed(n, fabs(x))) +
                     check_allowed(4., fabs(x * w) + fabs(b)) +
                     FLT_MIN * (1. + fabs(x) + (1. + fabs(w)) / std);
    }
}

const check_op check_layernorm = {.make = make, .oracle = oracle};
