/* ref_resize.h: sums one output of a pass of a picture's resize, tap by tap. */
#ifndef FOVEA_SRC_OPS_REF_RESIZE_H
#define FOVEA_SRC_OPS_REF_RESIZE_H

#include <math.h>
#include <stddef.h>

#include "ops/resample.h"

typedef struct fv_resize_sum {
    int32_t whole;
    float real;
} fv_resize_sum;

static inline fv_resize_sum fv_resize_begin(const fv_resize_table *t)
{
    return (fv_resize_sum){.whole = t->bits ? 1 << (t->bits - 1) : 0};
}

/* Adds tap k of position o; `value` is the input at the tap. */
static inline void fv_resize_add(fv_resize_sum *sum, const fv_resize_table *t, size_t o, uint32_t k,
                                 float value)
{
    if (t->bits)
        sum->whole += (int32_t)value * t->whole[o * t->taps + k];
    else
        sum->real = fmaf(value, t->real[o * t->taps + k], sum->real);
}

/* Rounds the sum and stores it as element `at` of out. */
static inline void fv_resize_put(void *out, size_t at, const fv_resize_sum *sum,
                                 const fv_resize_table *t)
{
    const int32_t byte = t->bits ? sum->whole >> t->bits : 0;
    if (t->bits)
        ((uint8_t *)out)[at] = (uint8_t)(byte < 0 ? 0 : byte > 255 ? 255 : byte);
    else
        ((float *)out)[at] = sum->real;
}

#endif
