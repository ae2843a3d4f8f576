/* rows_i8.h: rows as whole numbers of 8 bits, which ROWS_I8 writes once and CONV reads for every
 * window that they are in.
 *
 * A row of bytes, a multiple of 8 of them:
 *
 *   int8    q[k]      channel i of the row, rotated, is q[i] scale, nearly
 *   zeros             up to a multiple of 8
 *   float   scale
 *   int32   sum       of the numbers
 *
 * Rotation, numbers and scale are those of ops/quantise.h. A convolution adds the products of one
 * tap as whole numbers, and scales the sum by its pixel: a dark corner of a picture keeps its
 * digits, whatever the brightest pixel is. */
#ifndef FOVEA_SRC_ROWS_I8_H
#define FOVEA_SRC_ROWS_I8_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/num.h"
#include "ops/op.h"

/* Where the scale of a row of k channels lies, in bytes. */
static inline uint32_t fv_rows_i8_scale_at(uint32_t k)
{
    return fv_round_up(k, 8);
}

static inline uint32_t fv_rows_i8_bytes(uint32_t k)
{
    return fv_rows_i8_scale_at(k) + (uint32_t)(sizeof(float) + sizeof(int32_t));
}

static inline float fv_rows_i8_scale(const void *row, uint32_t k)
{
    float scale;
    memcpy(&scale, (const char *)row + fv_rows_i8_scale_at(k), sizeof scale);
    return scale;
}

static inline int32_t fv_rows_i8_sum(const void *row, uint32_t k)
{
    int32_t sum;
    memcpy(&sum, (const char *)row + fv_rows_i8_scale_at(k) + sizeof(float), sizeof sum);
    return sum;
}

/* Completes a row whose numbers have been written. */
static inline void fv_rows_i8_finish(void *row, uint32_t k, float scale, int32_t sum)
{
    const uint32_t at = fv_rows_i8_scale_at(k);
    if (at > k) /* a call takes as long as a short row */
        memset((char *)row + k, 0, at - k);
    memcpy((char *)row + at, &scale, sizeof scale);
    memcpy((char *)row + at + sizeof scale, &sum, sizeof sum);
}

#endif
