/* ref_keys_i8.h: a head's keys and values of 8 bits as floats. */
#ifndef FOVEA_SRC_OPS_REF_KEYS_I8_H
#define FOVEA_SRC_OPS_REF_KEYS_I8_H

#include "ops/keys_i8.h"

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
