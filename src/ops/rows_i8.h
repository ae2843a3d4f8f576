/* rows_i8.h: rows quantised to int8. ROWS_I8 writes each pixel of a grid once, and CONV reads it in
 * every window that it is part of.
 *
 * A row of k channels takes round_up(k, 8) + 8 bytes:
 *
 *   int8    q[k]      the rotated channels: channel i is about q[i] * scale
 *   zeros             padding to a multiple of 8
 *   float   scale
 *   int32   sum       of all q, for instructions that multiply unsigned by signed bytes
 *
 * ops/quantise.h defines the rotation, the numbers and the scale. Each pixel has its own scale, so
 * that bright pixels do not reduce the precision of dark ones. CONV therefore sums the products of
 * a tap as integers, and multiplies that sum by the pixel's scale. */
#ifndef FOVEA_SRC_ROWS_I8_H
#define FOVEA_SRC_ROWS_I8_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/num.h"
#include "ops/contracts/product.h"
#include "ops/op.h"
#include "ops/quantise.h"

/* Returns the number of input channels that are rotated together in the int8 weight of a GEMM or
 * CONV. */
static inline uint32_t fv_int8_weight_block(const fv_problem *p)
{
    return fv_int8_block(p->dim[p->op == FV_OP_CONV ? FV_CONV_C : FV_GEMM_K]);
}

/* Returns the byte offset of the scale of a row of k channels. */
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

/* Writes padding, scale and sum of a row whose k numbers have been written. */
static inline void fv_rows_i8_finish(void *row, uint32_t k, float scale, int32_t sum)
{
    const uint32_t at = fv_rows_i8_scale_at(k);
    if (at > k) /* a call of memset, even for 0 bytes, costs as much as quantising a short row */
        memset((char *)row + k, 0, at - k);
    memcpy((char *)row + at, &scale, sizeof scale);
    memcpy((char *)row + at + sizeof scale, &sum, sizeof sum);
}

#endif
