/* check_rotation.c: tables of cosines and sines. */
#include "tests/kernels/check_rotation.h"

#include <math.h>

void check_rotation(check_case *c, int cos, int sin, uint32_t rows, uint32_t d, uint32_t gap)
{
    const uint32_t grid = c->args.u[0];
    if (grid) {
        const uint32_t height = (rows + grid - 1) / grid;
        rows = grid > height ? grid : height;
        d /= 2;
    }
    check_matrix(c, cos, CHECK_BASE, rows, d, gap);
    check_matrix(c, sin, CHECK_BASE, rows, d, 0);
}

void check_rotation_values(check_case *c, int cosines, int sines, check_random *r)
{
    for (uint32_t i = 0; i < c->operand[cosines].rows; i++) {
        for (uint32_t j = 0; j < c->operand[cosines].cols; j++) {
            const double angle = 3. * check_normal(r);
            *check_value(c, cosines, i, j) = (float)cos(angle);
            *check_value(c, sines, i, j) = (float)sin(angle);
        }
    }
}

double check_angle(const check_case *c, int operand, uint32_t token, uint32_t i, uint32_t d)
{
    const uint32_t grid = c->args.u[0];
    if (!grid)
        return check_at(c, operand, token, i);
    return i < d / 2 ? check_at(c, operand, token / grid, i)
                     : check_at(c, operand, token % grid, i - d / 2);
}
