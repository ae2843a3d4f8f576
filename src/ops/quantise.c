/* quantise.c: quantises rows to 8 bits, in plain C. */
#include "ops/quantise.h"

#include <math.h>
#include <string.h>

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

/* Returns the maximum of `top` and the absolute values of n numbers, or NaN if one of them is NaN.
 */
static float largest(float top, const float *y, uint32_t n)
{
    for (uint32_t i = 0; i < n && !isnan(top); i++)
        top = isnan(y[i]) || fabsf(y[i]) > top ? fabsf(y[i]) : top;
    return top;
}

static int8_t rounded(float y, float factor)
{
    return factor > 0 ? (int8_t)rintf(y * factor) : 0;
}

float fv_int8_column(int8_t *q, size_t step, const float *y, uint32_t k)
{
    float factor;
    const float scale = fv_int8_scale(&factor, largest(0, y, k));
    for (uint32_t i = 0; i < k; i++)
        q[i * step] = rounded(y[i], factor);
    return scale;
}

float fv_int8_row(int8_t *q, const float *y, uint32_t k)
{
    return fv_int8_column(q, 1, y, k);
}

void fv_int8_round(float *y, uint32_t k)
{
    float factor;
    const float scale = fv_int8_scale(&factor, largest(0, y, k));
    for (uint32_t i = 0; i < k; i++)
        y[i] = (float)rounded(y[i], factor) * scale;
}

/* Rotates channels [at, at + block) of a row of the weight by the inverse. */
static void rotated(float out[64], const float *w, uint32_t block)
{
    memcpy(out, w, block * sizeof *out);
    fv_int8_rotate(out, block, block);
    for (uint32_t i = 0; i < block; i++)
        out[i] /= (float)block;
}

float fv_int8_weight(int8_t *q, size_t step, const float *w, uint32_t k, uint32_t block)
{
    float y[64], top = 0, factor;
    for (uint32_t at = 0; at < k && !isnan(top); at += block) {
        rotated(y, w + at, block);
        top = largest(top, y, block);
    }
    const float scale = fv_int8_scale(&factor, top);
    for (uint32_t at = 0; at < k; at += block) {
        rotated(y, w + at, block);
        for (uint32_t i = at; i < at + block; i++)
            q[i / 4 * step + i % 4] = rounded(y[i - at], factor);
    }
    return scale;
}
