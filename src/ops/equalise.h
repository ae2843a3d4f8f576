/* equalise.h: the factors by which the channels that products of int8 read are divided, and the
 * columns of the product's weight multiplied.
 *
 *   sum_k a[k] w[n][k] = sum_k (a[k] / s[k]) (w[n][k] s[k])
 *
 * A row of either side has one scale for all of its channels (quantise.h). A channel that is large
 * in one side and small in the other therefore leaves few digits for all others. The rounding error
 * of a row grows with its length. With sizes A[k] of channels and W[k] of columns
 *
 *   sum_k (A[k] / s[k])^2  sum_k (W[k] s[k])^2   is least for   s[k]^2 = A[k] / W[k] times
 * anything,
 *
 * by Cauchy and Schwarz: then both sides of a channel are of the same size. s is a power of two, so
 * it changes only the rounding to int8. */
#ifndef FOVEA_SRC_EQUALISE_H
#define FOVEA_SRC_EQUALISE_H

#include <stdint.h>

#include "base/status.h"

/* Factors are 2^-LARGEST to 2^LARGEST, so that the numbers they multiply stay far from overflow. */
#define FV_EQUALISE_LARGEST 40
/* A channel gets a factor only if one of its sides is at least 2^LEAST times as large as the
 * median, and s as well. Smaller differences are removed by the rotation, and weights only tell how
 * large a channel may be. A channel that is large on no side does no harm. Factors of 2 brought
 * int8 products of a trained ViT no nearer to float32. */
#define FV_EQUALISE_LEAST 2

/* The exponent of s for each of n channels. `size`, `columns`: squares of the sizes of channels and
 * of their columns; they are compared with their medians. The exponent is 0 if both are 0 or either
 * is NaN. ENOMEM. */
fovea_status fv_equalise(int8_t *exponent, const double *size, const double *columns, uint32_t n);

#endif
