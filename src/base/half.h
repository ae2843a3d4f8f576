/* half.h: converts 16-bit floats, F16 and BF16, from and to float32; reads elements of any float
 * type.
 *
 * Rounding is to the nearest even, subnormal values are exact, NaN stays NaN; nothing here depends
 * on whether the processor flushes subnormal floats to zero.
 */
#ifndef FOVEA_SRC_HALF_H
#define FOVEA_SRC_HALF_H

#include <stdint.h>
#include <string.h>

#include "base/type.h"

static inline uint32_t fv_bits_of_float(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline float fv_float_of_bits(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static inline float fv_float_of_f16(uint16_t h)
{
    const uint32_t sign = (uint32_t)(h & 0x8000) << 16, size = h & 0x7fff;
    const uint32_t exponent = size >= 0x7c00 ? 224u << 23 : 112u << 23; /* for NaN and infinity */
    const float small = (float)(int32_t)size * 0x1p-24f; /* a normal float, or zero */
    const uint32_t bits = size < 0x0400 ? fv_bits_of_float(small) : (size << 13) + exponent;
    return fv_float_of_bits(bits | sign);
}

static inline uint16_t fv_f16_of_float(float x)
{
    const uint32_t bits = fv_bits_of_float(x), size = bits & 0x7fffffff;
    uint32_t h;
    if (size > 0x7f800000)
        h = 0x7e00 | (size >> 13 & 0x3ff); /* quiet */
    else if (size >= 143u << 23)           /* 2^16 and more */
        h = 0x7c00;
    else if (size >= 113u << 23) /* normal: a carry out of the mantissa raises the exponent */
        h = (size - (112u << 23) + 0xfff + (size >> 13 & 1)) >> 13;
    else /* the last bit of a float in [0.5, 1) is worth 2^-24, like that of a subnormal half */
        h = fv_bits_of_float(fv_float_of_bits(size) + 0.5f) - (126u << 23);
    return (uint16_t)(h | (bits >> 16 & 0x8000));
}

static inline float fv_float_of_bf16(uint16_t h)
{
    return fv_float_of_bits((uint32_t)h << 16);
}

static inline uint16_t fv_bf16_of_float(float x)
{
    const uint32_t bits = fv_bits_of_float(x), nan = (bits & 0x7fffffff) > 0x7f800000;
    return (uint16_t)(nan ? bits >> 16 | 0x40 : (bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/* ---- values in memory ---- */

/* Returns the address of element i of an array of `type` at p. */
static inline char *fv_element(const void *p, enum fv_type type, size_t i)
{
    return (char *)(uintptr_t)p + i * fv_type_size(type);
}

static inline float fv_value_get(const void *p, enum fv_type type, size_t i)
{
    uint16_t h;
    if (type == FV_F32)
        return ((const float *)p)[i];
    memcpy(&h, fv_element(p, type, i), sizeof h);
    return type == FV_F16 ? fv_float_of_f16(h) : fv_float_of_bf16(h);
}

static inline void fv_value_put(void *p, enum fv_type type, size_t i, float x)
{
    if (type == FV_F32) {
        ((float *)p)[i] = x;
        return;
    }
    const uint16_t h = type == FV_F16 ? fv_f16_of_float(x) : fv_bf16_of_float(x);
    memcpy(fv_element(p, type, i), &h, sizeof h);
}

#endif
