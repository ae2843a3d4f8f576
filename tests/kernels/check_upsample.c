/* check_upsample.c: cases and definitions of UPSAMPLE and PIXEL_SHUFFLE. */
#include <float.h>
#include <math.h>

#include "ops/contracts/grid.h"
#include "tests/kernels/check.h"
#include "tests/kernels/resized.h"

/* ---- UPSAMPLE ---- */

enum res { NO_RES, RES, RES_IN_PLACE };
enum { PLAIN = 0, NEAREST = FV_FLAG_NEAREST, CORNERS = FV_FLAG_ALIGN_CORNERS };

static bool make_upsample(check_case *c, uint32_t index)
{
    static const struct {
        uint32_t width, height, to_width, to_height, channels, gap, flags;
        enum res res;
        enum fv_type out; /* none: float32 */
    } sizes[] = {
        {1, 1, 1, 1, 1, 0, PLAIN, NO_RES},
        {1, 1, 3, 2, 5, 1, CORNERS, RES},
        {1, 1, 4, 4, 8, 0, NEAREST, NO_RES},
        {3, 5, 6, 10, 15, 0, PLAIN, RES_IN_PLACE},
        {3, 5, 6, 10, 16, 1, CORNERS, NO_RES},
        {3, 5, 6, 10, 17, 0, NEAREST, RES},
        {4, 2, 13, 9, 33, 2, PLAIN, NO_RES},
        {4, 2, 13, 9, 31, 0, CORNERS, RES},
        {4, 2, 13, 9, 7, 3, NEAREST, RES_IN_PLACE},
        {9, 7, 9, 7, 24, 0, PLAIN, RES},
        {9, 7, 9, 7, 20, 1, CORNERS, RES_IN_PLACE},
        {17, 11, 5, 3, 19, 0, PLAIN, NO_RES}, /* smaller */
        {17, 11, 5, 3, 12, 2, CORNERS, RES},
        {17, 11, 5, 3, 3, 0, NEAREST, NO_RES},
        {16, 16, 1, 1, 9, 0, PLAIN, NO_RES}, /* samples midway between two pixels */
        {16, 16, 1, 1, 9, 0, CORNERS, NO_RES},
        {2, 40, 31, 3, 6, 0, PLAIN, NO_RES}, /* one side grows, the other shrinks */
        {60000, 1, 1000, 2, 1, 0, PLAIN, NO_RES},
        {1000, 1, 40000, 1, 1, 0, CORNERS, NO_RES},
        {37, 37, 74, 74, 64, 0, CORNERS, RES},
        {4, 2, 13, 9, 33, 2, PLAIN, NO_RES, FV_BF16},
        {3, 5, 6, 10, 16, 1, NEAREST, RES, FV_BF16},
        {64, 64, 256, 256, 32, 0, PLAIN, NO_RES},
    };
    if (index >= sizeof sizes / sizeof *sizes)
        return false;
    const uint32_t rows = sizes[index].to_width * sizes[index].to_height;
    const uint32_t n = sizes[index].channels, gap = sizes[index].gap;
    c->args.prob.dim[FV_DIM_ROWS] = rows;
    c->args.prob.dim[FV_ROW_C] = n;
    c->args.prob.flags = sizes[index].flags;
    c->args.u[0] = sizes[index].width;
    c->args.u[1] = sizes[index].height;
    c->args.u[2] = sizes[index].to_width;
    check_matrix(c, FV_UPSAMPLE_IN, CHECK_BASE, sizes[index].width * sizes[index].height, n, gap);
    if (sizes[index].res != NO_RES)
        check_matrix(c, FV_UPSAMPLE_RES, CHECK_ROW, rows, n, gap);
    check_matrix(c, FV_UPSAMPLE_OUT, CHECK_ROW, rows, n, gap);
    if (sizes[index].res == RES_IN_PLACE)
        c->in_place = FV_UPSAMPLE_RES;
    if (sizes[index].out)
        c->operand[FV_UPSAMPLE_OUT].storage = sizes[index].out;
    c->bench = sizes[index].width >= 37 && sizes[index].width <= 64;
    return true;
}

static void upsample_oracle(const check_case *c, uint32_t row, double *want, double *allowed)
{
    const uint32_t width = c->args.u[0], height = c->args.u[1], wide = c->args.u[2];
    const uint32_t high = c->args.prob.dim[FV_DIM_ROWS] / wide, flags = c->args.prob.flags;
    const double x = resized_coordinate(row % wide, wide, width, flags);
    const double y = resized_coordinate(row / wide, high, height, flags);
    for (uint32_t i = 0; i < c->args.prob.dim[FV_ROW_C]; i++) {
        double sum = 0, size = 0;
        for (uint32_t corner = 0; corner < 4; corner++) {
            const double ty = floor(y) + corner / 2, tx = floor(x) + corner % 2;
            const double weight = fmax(0, 1 - fabs(y - ty)) * fmax(0, 1 - fabs(x - tx));
            const double value =
                check_at(c, FV_UPSAMPLE_IN,
                         (uint32_t)fmin(ty, height - 1) * width + (uint32_t)fmin(tx, width - 1), i);
            sum += weight * value;
            size += fabs(value);
        }
        const double exact = flags & NEAREST ? 0 : 4 * FLT_EPSILON * size + 8 * FLT_MIN;
        const double res =
            c->operand[FV_UPSAMPLE_RES].kind ? check_at(c, FV_UPSAMPLE_RES, row, i) : 0;
        want[i] = sum + res;
        allowed[i] = exact + (res != 0) * check_rounding(FV_F32, want[i]);
    }
}

/* ---- PIXEL_SHUFFLE ---- */

static bool make_shuffle(check_case *c, uint32_t index)
{
    static const struct {
        uint32_t width, height, channels, scale, gap, on;
        enum fv_type out; /* none: float32 */
    } sizes[] = {
        {1, 1, 1, 1, 0, 0},   {1, 1, 3, 2, 1, 1},    {3, 5, 15, 2, 0, 0},
        {4, 3, 16, 2, 2, 1},  {5, 2, 33, 4, 0, 0},   {7, 3, 31, 3, 1, 0},
        {2, 9, 130, 2, 0, 1}, {37, 37, 64, 4, 0, 0}, {4, 3, 21, 2, 1, 1, FV_BF16},
    };
    if (index >= sizeof sizes / sizeof *sizes)
        return false;
    const uint32_t scale = sizes[index].scale, n = sizes[index].channels, on = sizes[index].on;
    const uint32_t wide = sizes[index].width * scale, rows = wide * sizes[index].height * scale;
    c->args.prob.dim[FV_DIM_ROWS] = rows;
    c->args.prob.dim[FV_ROW_C] = n;
    c->args.prob.dim[FV_SHUFFLE_SCALE] = scale;
    c->args.u[0] = sizes[index].width + on;
    c->args.u[1] = wide;
    c->args.u[2] = on;
    check_matrix(c, FV_SHUFFLE_IN, CHECK_BASE,
                 (sizes[index].width + on) * (sizes[index].height + on), scale * scale * n,
                 sizes[index].gap);
    check_matrix(c, FV_SHUFFLE_OUT, CHECK_ROW, rows, n, sizes[index].gap);
    if (sizes[index].out)
        c->operand[FV_SHUFFLE_OUT].storage = sizes[index].out;
    c->bench = sizes[index].width == 37;
    return true;
}

static void shuffle_oracle(const check_case *c, uint32_t row, double *want, double *allowed)
{
    const uint32_t *u = c->args.u, n = c->args.prob.dim[FV_ROW_C];
    const uint32_t scale = c->args.prob.dim[FV_SHUFFLE_SCALE], y = row / u[1], x = row % u[1];
    const uint32_t from = (y / scale + y % scale * u[2]) * u[0] + x / scale + x % scale * u[2];
    for (uint32_t i = 0; i < n; i++) {
        want[i] = check_at(c, FV_SHUFFLE_IN, from, (y % scale * scale + x % scale) * n + i);
        allowed[i] = 0;
    }
}

const check_op check_upsample = {.make = make_upsample, .oracle = upsample_oracle};
const check_op check_pixel_shuffle = {.make = make_shuffle, .oracle = shuffle_oracle};
