/* ref_keys_i8.c: KEYS_I8: quantises keys and values of softmax attention to int8.
 *
 *   dim     rows (= heads), d, dv, keys, cells
 *   K       WHOLE, keys x (rows * d)       V       WHOLE, keys x (rows * dv)
 *   CELL_K, CELL_V                         WHOLE, the same for the cells, or absent
 *   OUT     ROW, bytes: head i in the layout of ops/keys_i8.h
 *   type    of K, V and the cells, each: F32 or BF16
 *
 * Every kernel computes the same bytes: the mean of a channel is the float32 sum over the keys in
 * order, divided by their number; k - mean is rounded to float32, and quantised as ops/quantise.h
 * defines. A NaN or infinity in a channel of the keys makes all scales of its head NaN; in a
 * channel of the values, it makes that channel's scale NaN.
 */
#include "ops/ref/ref_keys_i8.h"

#include <string.h>

#include "base/half.h"
#include "ops/quantise.h"
#include "ops/ref/ref_kernels.h"

static double flops(const fv_problem *p)
{
    const double n = (double)p->dim[FV_ATTN_KEYS] + p->dim[FV_KEYS_CELLS];
    return 4 * n * p->dim[FV_DIM_ROWS] * (p->dim[FV_ATTN_D] + p->dim[FV_ATTN_DV]);
}

const fv_op fv_op_keys_i8 = {
    .span = FV_SPAN_ALL,
    .dim = {{"rows"},
            [FV_ATTN_D] = {"d"},
            [FV_ATTN_DV] = {"dv"},
            [FV_ATTN_KEYS] = {"keys", FV_DIM_TOKENS},
            [FV_KEYS_CELLS] = {"cells", FV_DIM_TOKENS}},
    .operand = {[FV_KEYS_K] = {"K", FV_ATTN_D, .heads = true, .narrow = true},
                [FV_KEYS_V] = {"V", FV_ATTN_DV, .heads = true, .narrow = true},
                [FV_KEYS_CELL_K] = {"CELL_K", FV_ATTN_D, .heads = true, .narrow = true},
                [FV_KEYS_CELL_V] = {"CELL_V", FV_ATTN_DV, .heads = true, .narrow = true},
                [FV_KEYS_OUT] = {"OUT", .columns = fv_keys_i8_bytes}},
    .flops = flops,
    .most_rows = 1,
};

/* Returns channel i of key or value j of a head that is `wide` channels wide. */
static float at(const fv_args *a, const fv_call *c, const ref_rows *r, size_t j, size_t i,
                size_t head, size_t wide)
{
    const int o = j < r->n ? r->tokens : r->cells;
    const size_t row = j < r->n ? r->first + j : j - r->n;
    return fv_value_get(c->p[o], a->type[o], row * a->ld[o] + head * wide + i);
}

static void quantise_keys(char *out, const fv_keys_i8 *l, const fv_args *a, const fv_call *c,
                          const ref_rows *r, size_t head, float *scratch)
{
    float *mean = scratch, *row = scratch + l->d, *scale = (float *)(void *)(out + l->key_scale);
    int32_t *sum = (int32_t *)(void *)(out + l->key_sum);
    int8_t *k = (int8_t *)out + l->k;
    for (size_t i = 0; i < l->d; i++) {
        mean[i] = 0;
        for (size_t j = 0; j < r->n; j++)
            mean[i] += at(a, c, r, j, i, head, l->d);
        mean[i] /= (float)r->n;
    }
    for (size_t j = 0; j < l->n; j++, k += l->d) {
        for (size_t i = 0; i < l->d; i++)
            row[i] = at(a, c, r, j, i, head, l->d) - mean[i];
        scale[j] = fv_int8_row(k, row, (uint32_t)l->d);
        sum[j] = 0;
        for (size_t i = 0; i < l->d; i++)
            sum[j] += k[i];
    }
}

static void quantise_values(char *out, const fv_keys_i8 *l, const fv_args *a, const fv_call *c,
                            const ref_rows *r, size_t head, float *scratch)
{
    float *scale = (float *)(void *)(out + l->value_scale);
    for (size_t i = 0; i < l->dv; i++) {
        for (size_t j = 0; j < l->n; j++)
            scratch[j] = at(a, c, r, j, i, head, l->dv);
        scale[i] = fv_int8_column((int8_t *)out + l->v + i, l->dv, scratch, (uint32_t)l->n);
    }
}

void fv_ref_keys_i8_write(char *out, const fv_keys_i8 *l, const fv_args *a, const fv_call *c,
                          ref_rows keys, ref_rows values, size_t head, float *scratch)
{
    quantise_keys(out, l, a, c, &keys, head, scratch);
    quantise_values(out, l, a, c, &values, head, scratch);
    memset(out + l->v + l->n * l->dv, 0, l->bytes - l->v - l->n * l->dv);
}

size_t fv_ref_keys_i8_scratch(const fv_keys_i8 *l)
{
    return (l->n > 2 * l->d ? l->n : 2 * l->d) * sizeof(float);
}

static fv_keys_i8 layout(const fv_problem *p)
{
    return fv_keys_i8_of((size_t)p->dim[FV_ATTN_KEYS] + p->dim[FV_KEYS_CELLS], p->dim[FV_ATTN_D],
                         p->dim[FV_ATTN_DV]);
}

void fv_k_keys_i8_ref(const fv_args *a, const fv_call *c)
{
    const fv_keys_i8 l = layout(&a->prob);
    const size_t n = a->prob.dim[FV_ATTN_KEYS];
    const ref_rows keys = {FV_KEYS_K, FV_KEYS_CELL_K, 0, n};
    const ref_rows values = {FV_KEYS_V, FV_KEYS_CELL_V, 0, n};
    for (size_t r = 0; r < c->rows; r++)
        fv_ref_keys_i8_write((char *)c->p[FV_KEYS_OUT] + r * a->ld[FV_KEYS_OUT], &l, a, c, keys,
                             values, c->row0 + r, c->scratch);
}

static size_t scratch_bytes(const fv_problem *p, const fv_knobs *knobs, uint32_t rows)
{
    const fv_keys_i8 l = layout(p);
    (void)knobs, (void)rows;
    return fv_ref_keys_i8_scratch(&l);
}

const fv_kernel_hooks fv_h_keys_i8_ref = {.scratch = scratch_bytes};
