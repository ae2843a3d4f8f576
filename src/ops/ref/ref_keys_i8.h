/* ref_keys_i8.h: a head's keys and values of 8 bits as floats. */
#ifndef FOVEA_SRC_OPS_REF_KEYS_I8_H
#define FOVEA_SRC_OPS_REF_KEYS_I8_H

#include "ops/kernel.h"
#include "ops/keys_i8.h"

/* Rows of keys or of values: tokens from row `first` on, then cells. */
typedef struct ref_rows {
    int tokens, cells; /* operands */
    size_t first, n;   /* n: tokens */
} ref_rows;

/* Writes the keys and the values of a head as l says. `scratch` has room for 2 d floats and for n.
 */
void fv_ref_keys_i8_write(char *out, const fv_keys_i8 *l, const fv_args *a, const fv_call *c,
                          ref_rows keys, ref_rows values, size_t head, float *scratch);
size_t fv_ref_keys_i8_scratch(const fv_keys_i8 *l);

/* Channel i of key j of a head's row. */
static inline float ref_key_i8(const char *row, const fv_keys_i8 *l, size_t j, size_t i)
{
    const float *scale = (const float *)(const void *)(row + l->key_scale);
    return (float)((const int8_t *)row)[l->k + j * l->d + i] * scale[j];
}

/* The same of its value. */
static inline float ref_value_i8(const char *row, const fv_keys_i8 *l, size_t j, size_t i)
{
    const float *scale = (const float *)(const void *)(row + l->value_scale);
    return (float)((const int8_t *)row)[l->v + j * l->dv + i] * scale[i];
}

#endif
