/* check_yuv.c: see check_yuv.h. */
#include "tests/kernels/check_yuv.h"

#include <math.h>

#include <fovea/plans.h>

/* YUV-to-RGB coefficients in 16.16 fixed point, as published. `black` is the luma code of black. */
static const struct {
    double black, luma, red_v, green_u, green_v, blue_u;
} matrices[] = {
    [FOVEA_YUV_601] = {16, 76309, 104597, 25675, 53279, 132201},
    [FOVEA_YUV_601_FULL] = {0, 65536, 91881, 22553, 46802, 116130},
    [FOVEA_YUV_709] = {16, 76309, 117489, 13975, 34925, 138438},
    [FOVEA_YUV_709_FULL] = {0, 65536, 103206, 12276, 30679, 121609},
    [FOVEA_YUV_2020] = {16, 76309, 110014, 12277, 42626, 140363},
    [FOVEA_YUV_2020_FULL] = {0, 65536, 96639, 10784, 37444, 123299},
};

void check_yuv_frame(check_case *c, uint32_t width, uint32_t height, uint32_t gap)
{
    const bool nv12 = c->args.prob.flags & FV_FLAG_NV12;
    const uint32_t pairs = (width + 1) / 2;
    check_matrix(c, 0, CHECK_BASE, height, nv12 ? width : 4 * pairs, gap);
    c->operand[0].type = c->operand[0].storage = c->args.type[0] = FV_U8;
    if (!nv12)
        return;
    check_matrix(c, 1, CHECK_BASE, (height + 1) / 2, 2 * pairs, gap / 2);
    c->operand[1].type = c->operand[1].storage = c->args.type[1] = FV_U8;
}

double check_yuv_at(const check_case *c, uint32_t y, uint32_t x, uint32_t channel)
{
    const bool nv12 = c->args.prob.flags & FV_FLAG_NV12;
    const uint32_t matrix = c->args.u[3], pair = x / 2;
    const double luma = check_at(c, 0, y, nv12 ? x : 2 * x) - matrices[matrix].black;
    const double u =
        (nv12 ? check_at(c, 1, y / 2, 2 * pair) : check_at(c, 0, y, 4 * pair + 1)) - 128;
    const double v =
        (nv12 ? check_at(c, 1, y / 2, 2 * pair + 1) : check_at(c, 0, y, 4 * pair + 3)) - 128;
    const double by[] = {matrices[matrix].red_v * v,
                         -matrices[matrix].green_u * u - matrices[matrix].green_v * v,
                         matrices[matrix].blue_u * u};
    const double value = floor((matrices[matrix].luma * luma + by[channel] + 0x1p15) / 0x1p16);
    return value < 0 ? 0 : value > 255 ? 255 : value;
}
