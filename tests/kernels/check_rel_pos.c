/* check_rel_pos.c: cases and definition of REL_POS. */
#include <math.h>

#include "ops/contracts/softmax_attention.h"
#include "tests/kernels/check.h"

static bool make(check_case *c, uint32_t index)
{
    static const struct {
        uint32_t rows, heads, d, height, width, gap;
    } sizes[] = {
        {1, 1, 1, 1, 1, 0},    {7, 2, 3, 1, 7, 1},     {12, 1, 8, 4, 3, 0},
        {40, 3, 16, 4, 5, 2},  {77, 2, 33, 7, 11, 0},  {196, 2, 32, 14, 14, 3},
        {99, 1, 64, 3, 33, 0}, {130, 2, 20, 65, 2, 1}, {1024, 12, 64, 64, 64, 0},
    };
    if (index >= sizeof sizes / sizeof *sizes)
        return false;
    const uint32_t rows = sizes[index].rows, heads = sizes[index].heads, d = sizes[index].d;
    const uint32_t height = sizes[index].height, width = sizes[index].width;
    const uint32_t gap = sizes[index].gap;
    c->args.prob.heads = (uint16_t)heads;
    c->args.prob.dim[FV_DIM_ROWS] = rows;
    c->args.prob.dim[FV_ATTN_D] = d;
    c->args.prob.dim[FV_REL_POS_HEIGHT] = height;
    c->args.prob.dim[FV_REL_POS_WIDTH] = width;
    check_matrix(c, FV_REL_POS_Q, CHECK_ROW, rows, heads * d, gap);
    check_matrix(c, FV_REL_POS_DOWN, CHECK_BASE, d, 2 * height - 1, gap);
    check_matrix(c, FV_REL_POS_ACROSS, CHECK_BASE, d, 2 * width - 1, gap);
    check_matrix(c, FV_REL_POS_OUT, CHECK_ROW, rows, heads * (height + width), gap);
    c->bench = heads == 12;
    return true;
}

static void oracle(const check_case *c, uint32_t row, double *want, double *allowed)
{
    const uint32_t *dim = c->args.prob.dim, d = dim[FV_ATTN_D];
    const uint32_t height = dim[FV_REL_POS_HEIGHT], width = dim[FV_REL_POS_WIDTH];
    const uint32_t y = row / width % height, x = row % width;
    for (uint32_t i = 0; i < c->args.prob.heads * (height + width); i++) {
        const uint32_t head = i / (height + width), to = i % (height + width);
        const bool down = to < height;
        /* offset from the query's row or column to the key's */
        const uint32_t column = down ? height - 1 + to - y : width - 1 + to - height - x;
        double sum = 0., size = 0.;
        for (uint32_t k = 0; k < d; k++) {
            const double term = check_at(c, FV_REL_POS_Q, row, head * d + k) *
                                check_at(c, down ? FV_REL_POS_DOWN : FV_REL_POS_ACROSS, k, column);
            sum += term;
            size += fabs(term);
        }
        want[i] = sum;
        allowed[i] = check_allowed(d, size);
    }
}

const check_op check_rel_pos = {.make = make, .oracle = oracle};
