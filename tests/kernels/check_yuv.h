/* check_yuv.h: bytes R, G, B of luma and chroma as src/ops/yuv.h has them, in a second writing, for
 * the checks of PATCH and RESIZE_X. */
#ifndef FOVEA_TESTS_CHECK_YUV_H
#define FOVEA_TESTS_CHECK_YUV_H

#include "tests/kernels/check.h"

/* Operands 0 and 1 of a case: a frame of width x height pixels in the format of its flags. */
void check_yuv_frame(check_case *c, uint32_t width, uint32_t height, uint32_t gap);
/* Channel `channel` of pixel (x, y). */
double check_yuv_at(const check_case *c, uint32_t y, uint32_t x, uint32_t channel);

#endif
