/* keys_i8.h: keys and values of softmax attention as int8. KEYS_I8 writes them once; SOFTMAX and
 * FOVEATED read them for every block of queries.
 *
 * Each head has one row, whose size is a multiple of 64 bytes:
 *
 *   float   value_scale[dv]      scale of each channel of the values
 *   float   key_scale[n]         scale of each key; n: keys, then cells
 *   int32   key_sum[n]           the sum of each key's numbers
 *   int8    k[n][d]              key j less the mean key is k[j] key_scale[j], nearly
 *   int8    v[n][dv]             channel i of value j is v[j][i] value_scale[i], nearly
 *
 * The mean key is subtracted, because softmax does not depend on it, and a large common part would
 * leave few digits for the keys. It is the mean over the tokens, and is subtracted from cells too,
 * because they are keys of the same softmax. ops/quantise.h defines the numbers and scales. A key
 * has one scale for its channels; a channel of the values has one scale for all tokens and cells.
 */
#ifndef FOVEA_SRC_KEYS_I8_H
#define FOVEA_SRC_KEYS_I8_H

#include <stddef.h>
#include <stdint.h>

#include "base/num.h"
#include "ops/op.h"

/* Maximum number of keys whose softmax weights share a scale when they are rounded to bytes. */
#define FV_SOFTMAX_BLOCK 64u

/* Byte offsets of the parts of a head's row. */
typedef struct fv_keys_i8 {
    size_t n, d, dv;
    size_t value_scale, key_scale, key_sum, k, v, bytes;
} fv_keys_i8;

static inline fv_keys_i8 fv_keys_i8_of(size_t n, size_t d, size_t dv)
{
    fv_keys_i8 l = {.n = n, .d = d, .dv = dv};
    l.key_scale = l.value_scale + dv * sizeof(float);
    l.key_sum = l.key_scale + n * sizeof(float);
    l.k = l.key_sum + n * sizeof(int32_t);
    l.v = l.k + n * d;
    l.bytes = (l.v + n * dv + 63) / 64 * 64;
    return l;
}

/* Returns the bytes of a head's row in a problem of KEYS_I8, SOFTMAX or FOVEATED, or 2^32 - 1 if
 * the row exceeds the maximum size of a value. */
uint32_t fv_keys_i8_bytes(const fv_problem *p);

#endif
