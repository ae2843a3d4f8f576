/* yuv.c: see yuv.h. */
#include "ops/yuv.h"

/* The coefficients of a matrix with kr and kb. `y` is the number of code values from black to
 * white; `c` is the number of code values of chroma. */
#define FACTOR(x) ((int32_t)((x) * (1 << FV_YUV_BITS) + 0.5))
#define YUV(kr, kb, black, y, c)                                                                   \
    {                                                                                              \
        black, FACTOR(255. / (y)), FACTOR(2 * (1 - (kr)) * 255. / (c)),                            \
            FACTOR(2 * (1 - (kb)) * (kb) / (1 - (kr) - (kb)) * 255. / (c)),                        \
            FACTOR(2 * (1 - (kr)) * (kr) / (1 - (kr) - (kb)) * 255. / (c)),                        \
            FACTOR(2 * (1 - (kb)) * 255. / (c))                                                    \
    }

const fv_yuv fv_yuv_table[FV_YUVS] = {
    [FOVEA_YUV_601] = YUV(0.299, 0.114, 16, 219, 224),
    [FOVEA_YUV_601_FULL] = YUV(0.299, 0.114, 0, 255, 255),
    [FOVEA_YUV_709] = YUV(0.2126, 0.0722, 16, 219, 224),
    [FOVEA_YUV_709_FULL] = YUV(0.2126, 0.0722, 0, 255, 255),
    [FOVEA_YUV_2020] = YUV(0.2627, 0.0593, 16, 219, 224),
    [FOVEA_YUV_2020_FULL] = YUV(0.2627, 0.0593, 0, 255, 255),
};
