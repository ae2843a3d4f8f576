/* check_yuv.h: a second implementation of the conversion from YUV to R, G, B bytes in
 * src/ops/yuv.h, for the checks of PATCH and RESIZE_X. */
#ifndef FOVEA_TESTS_CHECK_YUV_H
#define FOVEA_TESTS_CHECK_YUV_H

#include "tests/kernels/check.h"

/* Describes operands 0 and 1 of a case: a frame of width x height pixels in the format of the
 * case's flags. */
void check_yuv_frame(check_case *c, uint32_t width, uint32_t height, uint32_t gap);
/* Returns channel `channel` of pixel (x, y). */
double check_yuv_at(const check_case *c, uint32_t y, uint32_t x, uint32_t channel);

#endif
