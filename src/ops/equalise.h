/* equalise.h: by how much the channels that products of int8 read are divided, and their weight's
 * columns multiplied.
 *
 *   sum_k a[k] w[n][k] = sum_k (a[k] / s[k]) (w[n][k] s[k])
 *
 * A row of either side has one scale for all of its channels (quantise.h), so that a channel which
 * is large in one of them and small in the other leaves few digits for all others. What a row loses
 * is in proportion to its length, and with sizes A[k] of channels and W[k] of columns
 *
 *   sum_k (A[k] / s[k])^2  sum_k (W[k] s[k])^2   is least for   s[k]^2 = A[k] / W[k] times
 * anything,
 *
 * by Cauchy and Schwarz: then both sides of a channel are of the same size. s is a power of two, so
 * that nothing but the digits of int8 depends on it. */
#ifndef FOVEA_SRC_EQUALISE_H
#define FOVEA_SRC_EQUALISE_H

#include <stdint.h>

#include "base/status.h"

/* Factors are 2^-LARGEST to 2^LARGEST: what they multiply stays far from where floats end. */
#define FV_EQUALISE_LARGEST 40
/* Only where one side of a channel is 2^LEAST times as large as is usual, and s as much: less the
 * rotation takes care of, and the weights only say how large a channel can be expected to be. One
 * that is small on either side and large on none costs nothing, and may have a small weight because
 * what comes in is large. Factors of 2 brought int8 of a trained ViT no nearer to float32. */
#define FV_EQUALISE_LEAST 2

/* The exponent of s for each of n channels: rounded, 0 for the usual. Given are the squares of
 * their sizes and of their columns', of which the usual ones are the medians. Where both are 0, or
 * either is NaN, the exponent is 0. ENOMEM. */
fovea_status fv_equalise(int8_t *exponent, const double *size, const double *columns, uint32_t n);

#endif
