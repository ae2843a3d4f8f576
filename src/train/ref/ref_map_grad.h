/* ref_map_grad.h: the weights of attention pooling and their gradients, for MAP_GRAD and
 * MAP_GRAD_Q. */
#ifndef FOVEA_SRC_ADAPT_REF_MAP_GRAD_H
#define FOVEA_SRC_ADAPT_REF_MAP_GRAD_H

#include <math.h>

#include "train/ref/train_ref_kernels.h"
#include "train/ref/training.h"

/* Number of rows that are summed separately. */
enum { REF_MAP_BLOCK = 64 };

/* Operands of both operations. */
#define REF_MAP_OPERANDS                                                                           \
    [FV_MAP_GRAD_Q] = {"Q", FV_ATTN_D, .heads = true},                                             \
    [FV_MAP_GRAD_K] = {"K", FV_ATTN_D, .heads = true},                                             \
    [FV_MAP_GRAD_V] = {"V", FV_ATTN_D, .heads = true},                                             \
    [FV_MAP_GRAD_FORWARD] = {"FORWARD", FV_ATTN_D, .heads = true},                                 \
    [FV_MAP_GRAD_DOUT] = {"DOUT", FV_ATTN_D, .heads = true}

static inline float ref_map_dot(const float *a, const float *b, size_t n)
{
    float sum = 0.f;
    for (size_t i = 0; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}

static inline const float *ref_map_row(const fv_args *a, const fv_call *c, int operand, size_t row)
{
    return (const float *)c->p[operand] + row * a->ld[operand];
}

/* Computes the scores of one head, then p and ds. */
static inline void ref_map_weights(float *p, float *ds, const fv_args *a, const fv_call *c,
                                   size_t rows, size_t h)
{
    const size_t d = a->prob.dim[FV_ATTN_D], at = h * d;
    const float *q = (const float *)c->p[FV_MAP_GRAD_Q] + at;
    const float *dout = (const float *)c->p[FV_MAP_GRAD_DOUT] + at;
    const float whole = ref_map_dot(dout, (const float *)c->p[FV_MAP_GRAD_FORWARD] + at, d);
    float max = -INFINITY, sum = 0.f;
    for (size_t r = 0; r < rows; r++) {
        p[r] = a->f[0] * ref_map_dot(q, ref_map_row(a, c, FV_MAP_GRAD_K, r) + at, d);
        max = fmaxf(max, p[r]);
    }
    for (size_t r0 = 0; r0 < rows; r0 += REF_MAP_BLOCK) {
        float part = 0.f;
        for (size_t r = r0; r < rows && r < r0 + REF_MAP_BLOCK; r++)
            part += p[r] = expf(p[r] - max);
        sum += part;
    }
    for (size_t r = 0; r < rows; r++) {
        p[r] /= sum;
        ds[r] = a->f[0] * p[r] *
                (ref_map_dot(dout, ref_map_row(a, c, FV_MAP_GRAD_V, r) + at, d) - whole);
    }
}

/* Returns the bytes of p and ds of all rows. */
static inline size_t ref_map_scratch(const fv_problem *p, const fv_knobs *knobs, uint32_t rows)
{
    (void)knobs, (void)rows;
    return 2 * (size_t)p->dim[FV_ATTN_KEYS] * sizeof(float);
}

static inline double ref_map_grad_flops(const fv_problem *p)
{
    return (double)p->heads * p->dim[FV_ATTN_KEYS] * (8. * p->dim[FV_ATTN_D] + 12);
}

#endif
