/* check_rmsnorm.c: cases and definition of RMSNORM. */
#include <float.h>
#include <math.h>

#include "ops/contracts/rows.h"
#include "tests/kernels/check.h"

enum { NONE, PLAIN, SILU };

static bool make(check_case *c, uint32_t index)
{
    static const struct {
        uint32_t rows, heads, d, gap;
        uint8_t gate;
        bool by_head, in_place;
        enum fv_type in, gate_type, out; /* none: float32 */
    } sizes[] = {
        {1, 1, 1, 0, NONE, false, false},
        {3, 1, 15, 1, NONE, false, true},
        {5, 2, 16, 0, SILU, false, false},
        {2, 3, 17, 3, PLAIN, true, false},
        {7, 1, 63, 0, SILU, true, true},
        {4, 5, 65, 7, NONE, true, false},
        {1, 4, 129, 0, SILU, true, true},
        {9, 1, 1024, 0, NONE, false, true},
        {1, 4, 256, 0, SILU, true, false},
        {256, 4, 256, 0, SILU, false, true},
        {256, 1, 1024, 0, NONE, false, false},
        {5, 2, 67, 3, NONE, false, false, FV_F32, FV_F32, FV_BF16},
        {3, 2, 96, 0, SILU, true, true, FV_BF16, FV_BF16, FV_BF16},
        {2, 3, 31, 1, PLAIN, false, false, FV_BF16, FV_F32, FV_F32},
        {6, 1, 40, 0, SILU, false, false, FV_F32, FV_BF16, FV_BF16},
    };
    if (index >= sizeof sizes / sizeof *sizes)
        return false;
    const uint32_t rows = sizes[index].rows, gap = sizes[index].gap;
    const uint32_t width = sizes[index].heads * sizes[index].d;
    c->args.prob.heads = (uint16_t)sizes[index].heads;
    c->args.prob.dim[FV_DIM_ROWS] = rows;
    c->args.prob.dim[FV_ROW_C] = width;
    c->args.prob.dim[FV_RMS_D] = sizes[index].d;
    c->args.prob.flags = sizes[index].gate == SILU ? FV_FLAG_SILU : 0;
    c->args.f[0] = 1e-6f;
    check_matrix(c, FV_RMS_IN, CHECK_ROW, rows, width, gap);
    check_vector(c, FV_RMS_WEIGHT, sizes[index].d);
    if (sizes[index].gate != NONE)
        check_matrix(c, FV_RMS_GATE, CHECK_ROW, rows, width, 2 * gap);
    if (sizes[index].by_head)
        check_matrix(c, FV_RMS_HEAD_GATE, CHECK_ROW, rows, sizes[index].heads, gap);
    check_matrix(c, FV_RMS_OUT, CHECK_ROW, rows, width, gap);
    /* Keeps the product of all factors finite. */
    c->operand[FV_RMS_GATE].huge = c->operand[FV_RMS_HEAD_GATE].huge = 1e8f;
    if (sizes[index].in)
        c->operand[FV_RMS_IN].storage = sizes[index].in;
    if (sizes[index].gate_type && sizes[index].gate != NONE)
        c->operand[FV_RMS_GATE].storage = sizes[index].gate_type;
    if (sizes[index].out)
        c->operand[FV_RMS_OUT].storage = sizes[index].out;
    if (sizes[index].in_place)
        c->in_place = FV_RMS_IN;
    c->bench = rows == 256;
    return true;
}

/* Returns a factor of the result: 1 if the operand is absent. */
static double factor(const check_case *c, int operand, uint32_t row, uint32_t i)
{
    return c->operand[operand].kind == CHECK_ABSENT ? 1. : check_at(c, operand, row, i);
}

static void oracle(const check_case *c, uint32_t row, double *want, double *allowed)
{
    const uint32_t d = c->args.prob.dim[FV_RMS_D];
    const bool silu = c->args.prob.flags & FV_FLAG_SILU;
    for (uint32_t first = 0; first < c->args.prob.dim[FV_ROW_C]; first += d) {
        double square = 0.;
        for (uint32_t i = first; i < first + d; i++)
            square += pow(check_at(c, FV_RMS_IN, row, i), 2.);
        const double rms = sqrt(square / d + c->args.f[0]);
        const double head = factor(c, FV_RMS_HEAD_GATE, row, first / d);
        for (uint32_t i = first; i < first + d; i++) {
            const double x = check_at(c, FV_RMS_IN, row, i) / rms;
            const double w = check_at(c, FV_RMS_WEIGHT, 0, i - first);
            const double b = factor(c, FV_RMS_GATE, row, i), gate = silu ? b / (1. + exp(-b)) : b;
            want[i] = x * w * gate * head;
            /* Any factor and any intermediate product may be flushed to zero below the normal
             * range. */
            allowed[i] = check_allowed(d, fabs(want[i])) + check_allowed(8., fabs(want[i])) +
                         FLT_MIN * (1. + fabs(x) + 1. / rms) * (1. + fabs(w)) * (1. + fabs(b)) *
                             (1. + fabs(head));
        }
    }
}

const check_op check_rmsnorm = {.make = make, .oracle = oracle};
