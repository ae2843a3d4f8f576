/* quantise.h: quantises rows to 8 bits: the operands of int8 products, and weights that are only
 * stored in int8.
 *
 *   q[k] = round(v[k] 127 / top), scale = top / 127, top = max_k |v[k]|
 *
 * A weight that is only stored in int8, for products of floats, has the values (float)q[k] * scale
 * in float32. In int8 products both operands are such rows, after a rotation.
 *
 * An outlier, one channel that is large in every token, would leave no digits for the other
 * channels of a row. A row is therefore rotated first, `block` channels at a time, by a
 * Walsh-Hadamard matrix H, which spreads the outlier over its block. The weight's rows are rotated
 * by the inverse, H / block:
 *
 *   y = H a, v = H w / block:  sum_k y[k] v[k] = sum_k a[k] w[k]
 *   sum_k a[k] w[k] = scale_a scale_w sum_k q_a[k] q_w[k]   nearly
 *
 * H is computed in stages with strides block/2, .., 2, 1. A stage computes sums and differences of
 * two channels whose distance is the stride, and rounds them to float32, to the nearest even. Every
 * device computes the same bits of q, because a difference of one in a single q would exceed all
 * differences from the order of additions. */
#ifndef FOVEA_SRC_QUANTISE_H
#define FOVEA_SRC_QUANTISE_H

#include <stddef.h>
#include <stdint.h>

#define FV_INT8_DEEPEST 65536u  /* maximum length of a sum: sums of 255 * 127 fit 32 bits */
#define FV_INT8_LEAST 0x1p-100f /* rows whose values are all smaller count as 0, with scale 0 */

/* Returns the number of channels that are rotated together: the largest power of two up to 64 that
 * divides k. k is the number of channels of a row or, for a convolution, of a pixel. */
uint32_t fv_int8_block(uint32_t k);
/* Computes y = H y, in place. */
void fv_int8_rotate(float *y, uint32_t k, uint32_t block);
/* Returns the scale of a row whose largest absolute value is `top`, and sets *factor to the number
 * that multiplies its values before they are rounded. For a row with an infinity or NaN, the scale
 * is NaN and the quantised numbers are 0. */
float fv_int8_scale(float *factor, float top);
/* Quantises k values, which may have been rotated before, and returns the scale. */
float fv_int8_row(int8_t *q, const float *y, uint32_t k);
/* Quantises a column like fv_int8_row: each number is stored `step` elements after the previous
 * one. */
float fv_int8_column(int8_t *q, size_t step, const float *y, uint32_t k);
/* Quantises a row of k floats and converts it back, in place. */
void fv_int8_round(float *y, uint32_t k);
/* Quantises a row of a weight, rotated by the inverse, `block` channels at a time, and returns the
 * scale. `step` is the stride between groups of 4 numbers. */
float fv_int8_weight(int8_t *q, size_t step, const float *w, uint32_t k, uint32_t block);

#endif
