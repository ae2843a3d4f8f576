/* ref_keys_i8.h: reads a head's int8 keys and values as floats, and writes them. */
#ifndef FOVEA_SRC_OPS_REF_KEYS_I8_H
#define FOVEA_SRC_OPS_REF_KEYS_I8_H

#include "base/half.h"
#include "ops/contracts/softmax_attention.h"
#include "ops/kernel.h"
#include "ops/keys_i8.h"

/* Rows of keys or of values: tokens from row `first` on, then cells. */
typedef struct ref_rows {
    int tokens, cells; /* numbers of the operands */
    size_t first, n;   /* n: number of tokens */
} ref_rows;

/* Writes the keys and values of a head in layout l. `scratch` is a buffer of max(2 d, n) floats. */
void fv_ref_keys_i8_write(char *out, const fv_keys_i8 *l, const fv_args *a, const fv_call *c,
                          ref_rows keys, ref_rows values, size_t head, float *scratch);
size_t fv_ref_keys_i8_scratch(const fv_keys_i8 *l);

/* Returns channel i of key j of a head's row. */
static inline float ref_key_i8(const char *row, const fv_keys_i8 *l, size_t j, size_t i)
{
    const float *scale = (const float *)(const void *)(row + l->key_scale);
    return (float)((const int8_t *)row)[l->k + j * l->d + i] * scale[j];
}

/* Returns channel i of value j of a head's row. */
static inline float ref_value_i8(const char *row, const fv_keys_i8 *l, size_t j, size_t i)
{
    const float *scale = (const float *)(const void *)(row + l->value_scale);
    return (float)((const int8_t *)row)[l->v + j * l->dv + i] * scale[i];
}

/* Keys and values of a head as SOFTMAX and WSOFTMAX read them: float operands, whose row `first` is
 * key 0, or int8 numbers. */
typedef struct ref_pairs {
    const fv_args *a;
    const fv_call *c;
    size_t first, head;
    fv_keys_i8 l;
    const char *whole; /* the head's row of int8 keys and values; NULL: they are floats */
} ref_pairs;

static inline float ref_pairs_key(const ref_pairs *s, size_t j, size_t i)
{
    if (s->whole)
        return ref_key_i8(s->whole, &s->l, j, i);
    return fv_value_get(s->c->p[FV_SOFTMAX_K], s->a->type[FV_SOFTMAX_K],
                        (s->first + j) * s->a->ld[FV_SOFTMAX_K] + s->head * s->l.d + i);
}

static inline float ref_pairs_value(const ref_pairs *s, size_t j, size_t i)
{
    if (s->whole)
        return ref_value_i8(s->whole, &s->l, j, i);
    return fv_value_get(s->c->p[FV_SOFTMAX_V], s->a->type[FV_SOFTMAX_V],
                        (s->first + j) * s->a->ld[FV_SOFTMAX_V] + s->head * s->l.dv + i);
}

#endif
