/* equalise.h: computes the scales by which the channels that products of int8 read are divided, and
 * by which the columns of the product's weight are multiplied.
 *
 *   sum_k a[k] w[n][k] = sum_k (a[k] / s[k]) (w[n][k] s[k])
 *
 * A row of either operand has one scale for all of its channels (quantise.h). A channel that is
 * large in one operand and small in the other therefore leaves few digits for all others. The
 * rounding error of a row grows with its length. With sizes A[k] of channels and W[k] of columns,
 *
 *   sum_k (A[k] / s[k])^2  sum_k (W[k] s[k])^2
 *
 * is smallest if s[k]^2 is proportional to A[k] / W[k], by the inequality of Cauchy and Schwarz:
 * then both operands of a channel have the same size. s is a power of two, so it changes only the
 * rounding to int8. */
#ifndef FOVEA_SRC_EQUALISE_H
#define FOVEA_SRC_EQUALISE_H

#include <stdint.h>

#include "base/status.h"

/* Scales are from 2^-LARGEST to 2^LARGEST, so that the products with them are far from overflow. */
#define FV_EQUALISE_LARGEST 40
/* A channel gets a scale only if one of its operands is at least 2^LEAST times as large as the
 * median, and s is at least 2^LEAST or at most 2^-LEAST. Smaller differences are removed by the
 * rotation, and weights only bound how large a channel may be. A channel that is large in neither
 * operand does no harm. Scales of 2 did not bring int8 products of a trained ViT any nearer to
 * float32. */
#define FV_EQUALISE_LEAST 2

/* Computes the exponent of s for each of n channels. `size` and `columns` hold the squares of the
 * sizes of channels and of their columns; each is compared with its median. The exponent is 0 if
 * both are 0 or either is NaN. Returns FOVEA_ENOMEM if memory runs out. */
fovea_status fv_equalise(int8_t *exponent, const double *size, const double *columns, uint32_t n);

#endif
