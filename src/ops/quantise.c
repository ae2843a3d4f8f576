/* quantise.c: rows of 8 bits, in plain C. */
#include "ops/quantise.h"

#include <math.h>

uint32_t fv_int8_block(uint32_t k)
{
    const uint32_t power = k & (~k + 1);
    return power < 64 ? power : 64;
}

void fv_int8_rotate(float *y, uint32_t k, uint32_t block)
{
    for (uint32_t stride = block / 2; stride > 0; stride /= 2)
        for (uint32_t i = 0; i < k; i++) {
            if (i & stride)
                continue;
            const float a = y[i], b = y[i + stride];
            y[i] = a + b;
            y[i + stride] = a - b;
        }
}

float fv_int8_scale(float *factor, float top)
{
    *factor = 0;
    if (!isfinite(top))
        return NAN;
    if (top < FV_INT8_LEAST)
        return 0;
    *factor = 127 / top;
    return top / 127;
}

float fv_int8_row(int8_t *q, const float *y, uint32_t k)
{
    float top = 0, factor;
    for (uint32_t i = 0; i < k; i++) {
        const float size = fabsf(y[i]);
        top = isnan(size) || size > top ? size : top;
        if (isnan(top))
            break;
    }
    const float scale = fv_int8_scale(&factor, top);
    for (uint32_t i = 0; i < k; i++)
        q[i] = factor > 0 ? (int8_t)rintf(y[i] * factor) : 0;
    return scale;
}

float fv_int8_weight(int8_t *q, float *w, uint32_t k, uint32_t block)
{
    fv_int8_rotate(w, k, block);
    for (uint32_t i = 0; i < k; i++)
        w[i] /= (float)block;
    return fv_int8_row(q, w, k);
}
