/* reference_int8.c: rounds the operands of int8 products as kernels do, and stores them as floats:
 * every row is converted to integers times a scale. If both operands are int8, their rows are
 * rotated before they are rounded. The product of the rounded operands is the defined result of
 * such a step (src/ops/quantise.h). Attention rounds its queries in the same way; its keys and
 * values are already stored as integers. */
#include "base/mem.h"
#include "ops/foveated.h"
#include "ops/quantise.h"
#include "ops/ref/ref_keys_i8.h"
#include "ops/rows_i8.h"
#include "trial/reference_parts.h"

static void whole(float *x, const int8_t *q, float scale, uint32_t k)
{
    for (uint32_t i = 0; i < k; i++)
        x[i] = (float)q[i] * scale;
}

void fv_reference_int8_stored(fv_reference *d)
{
    const uint32_t k = d->args.prob.dim[FV_GEMM_K];
    const fv_input *w = &d->in[FV_GEMM_W];
    for (uint64_t at = 0; at + k <= w->count; at += k)
        fv_int8_round((float *)w->data + at, k);
}

/* Rounds the rows of an operand to integers; the `k` values of each head have their own scale. */
static void round_heads(fv_input *in, uint32_t ld, uint32_t heads, uint32_t k)
{
    for (uint64_t at = 0; at + (uint64_t)heads * k <= in->count; at += ld)
        for (uint32_t h = 0; h < heads; h++)
            fv_int8_round((float *)in->data + at + h * k, k);
}

static fovea_status round_weight(fv_reference *d)
{
    const uint32_t k = d->args.prob.dim[FV_GEMM_K], block = fv_int8_weight_block(&d->args.prob);
    const fv_input *w = &d->in[FV_GEMM_W];
    int8_t *q;
    FV_TRY(FV_MEM_ARRAY(&q, k, FV_MEM_PLAN, "a row of 8 bits"));
    for (uint64_t at = 0; at + k <= w->count; at += k) {
        float *row = (float *)w->data + at;
        whole(row, q, fv_int8_weight(q, 4, row, k, block), k);
    }
    fv_mem_free(q);
    return FOVEA_OK;
}

static fovea_status round_gemm(fv_reference *d)
{
    const uint32_t k = d->args.prob.dim[FV_GEMM_K], ld = d->args.ld[FV_GEMM_A];
    const fv_input *a = &d->in[FV_GEMM_A];
    for (uint64_t at = 0; at + k <= a->count; at += ld ? ld : k) {
        float *row = (float *)a->data + at;
        fv_int8_rotate(row, k, fv_int8_block(k));
        fv_int8_round(row, k);
    }
    return round_weight(d);
}

fovea_status fv_reference_int8_pixels(fv_reference *d, bool rotated)
{
    const uint32_t k = d->args.prob.dim[FV_CONV_C], ld = d->args.ld[FV_GEMM_A];
    const uint32_t block = fv_int8_block(k);
    const size_t pixels = (size_t)d->args.u[0] * d->args.u[1];
    fv_input *a = &d->in[FV_GEMM_A];
    const char *row = a->data;
    float *x;
    FV_TRY(FV_MEM_ARRAY(&x, pixels * k, FV_MEM_PLAN, "pixels"));
    for (size_t i = 0; i < pixels; i++, row += ld) {
        const float scale = fv_rows_i8_scale(row, k);
        whole(x + i * k, (const int8_t *)row, rotated ? scale : scale / (float)block, k);
        if (!rotated) /* rotating twice multiplies by `block`, by which the scale was divided */
            fv_int8_rotate(x + i * k, k, block);
    }
    fv_mem_free(a->data);
    *a = (fv_input){.data = x, .count = pixels * k, .kind = FV_KIND_WHOLE, .type = FV_F32};
    d->args.type[FV_GEMM_A] = FV_F32;
    d->args.ld[FV_GEMM_A] = k;
    return FOVEA_OK;
}

/* ---- int8 keys ---- */

/* Converts the keys or values [first, first + n) of all heads to floats, as operand `o`. */
static fovea_status unpack(fv_reference *d, const fv_keys_i8 *l, const char *rows, size_t ld,
                           uint32_t o, bool values, size_t first, size_t n)
{
    const size_t heads = d->args.prob.heads, wide = values ? l->dv : l->d;
    float *x;
    FV_TRY(FV_MEM_ARRAY(&x, heads * wide * n, FV_MEM_PLAN, "keys and values"));
    for (size_t j = 0; j < n; j++)
        for (size_t h = 0; h < heads; h++)
            for (size_t i = 0; i < wide; i++)
                x[(j * heads + h) * wide + i] = values
                                                    ? ref_value_i8(rows + h * ld, l, first + j, i)
                                                    : ref_key_i8(rows + h * ld, l, first + j, i);
    d->in[o] =
        (fv_input){.data = x, .count = heads * wide * n, .kind = FV_KIND_WHOLE, .type = FV_F32};
    d->args.type[o] = FV_F32;
    d->args.ld[o] = (uint32_t)(heads * wide);
    return FOVEA_OK;
}

/* Rounds the queries to integers, and converts keys and values to floats, so that all of them can
 * be perturbed. Kernels also round the softmax weights. The effect of that on a result is measured
 * by perturbing everything from which the weights are computed. */
static fovea_status round_attention(fv_reference *d, int q, int k, int v, int cell_k, int cell_v)
{
    const fv_problem *p = &d->args.prob;
    const size_t tokens = p->dim[FV_ATTN_KEYS], ld = d->args.ld[k];
    const fv_fovea f = fv_fovea_of(p);
    const size_t cells = cell_k ? fv_fovea_first(&f, f.levels + 1) : 0;
    const fv_keys_i8 l = fv_keys_i8_of(tokens + cells, p->dim[FV_ATTN_D], p->dim[FV_ATTN_DV]);
    char *rows = d->in[k].data;
    round_heads(&d->in[q], d->args.ld[q], p->heads, p->dim[FV_ATTN_D]);
    d->in[k].data = NULL;
    fovea_status status = unpack(d, &l, rows, ld, (uint32_t)k, false, 0, tokens);
    FV_THEN(status, unpack(d, &l, rows, ld, (uint32_t)v, true, 0, tokens));
    if (cell_k) {
        FV_THEN(status, unpack(d, &l, rows, ld, (uint32_t)cell_k, false, tokens, cells));
        FV_THEN(status, unpack(d, &l, rows, ld, (uint32_t)cell_v, true, tokens, cells));
    }
    fv_mem_free(rows);
    return status;
}

fovea_status fv_reference_int8(fv_reference *d)
{
    switch (d->args.prob.op) {
    case FV_OP_GEMM:
        return round_gemm(d);
    case FV_OP_CONV:
        return round_weight(d);
    case FV_OP_SOFTMAX:
        return round_attention(d, FV_SOFTMAX_Q, FV_SOFTMAX_K, FV_SOFTMAX_V, 0, 0);
    case FV_OP_FOVEATED:
        return round_attention(d, FV_FOVEATED_Q, FV_FOVEATED_K, FV_FOVEATED_V, FV_FOVEATED_CELL_K,
                               FV_FOVEATED_CELL_V);
    default: /* the numbers are the result of KEYS_I8 */
        return FOVEA_OK;
    }
}
