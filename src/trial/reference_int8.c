/* reference_int8.c: what a product multiplies by weights of int8, as floats: rows of the weight as
 * whole numbers times their scale; of a product of int8 rows of both operands, rotated before. The
 * product of these is its definition; src/ops/quantise.h. Of attention the same of queries. */
#include "base/mem.h"
#include "ops/quantise.h"
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

/* Rows of an operand, `k` values of each head. */
static void round_heads(fv_input *in, uint32_t ld, uint32_t heads, uint32_t k)
{
    for (uint64_t at = 0; at + (uint64_t)heads * k <= in->count; at += ld)
        for (uint32_t h = 0; h < heads; h++)
            fv_int8_round((float *)in->data + at + h * k, k);
}

static fovea_status round_gemm(fv_reference *d)
{
    const uint32_t k = d->args.prob.dim[FV_GEMM_K], ld = d->args.ld[FV_GEMM_A];
    const fv_input *a = &d->in[FV_GEMM_A], *w = &d->in[FV_GEMM_W];
    int8_t *q;
    FV_TRY(FV_MEM_ARRAY(&q, k, FV_MEM_PLAN, "a row of 8 bits"));
    for (uint64_t at = 0; at + k <= a->count; at += ld ? ld : k) {
        float *row = (float *)a->data + at;
        fv_int8_rotate(row, k, fv_int8_block(k));
        fv_int8_round(row, k);
    }
    for (uint64_t at = 0; at + k <= w->count; at += k) {
        float *row = (float *)w->data + at;
        whole(row, q, fv_int8_weight(q, 4, row, k), k);
    }
    fv_mem_free(q);
    return FOVEA_OK;
}

fovea_status fv_reference_int8(fv_reference *d)
{
    const fv_problem *p = &d->args.prob;
    switch (p->op) {
    case FV_OP_GEMM:
        return round_gemm(d);
    case FV_OP_SOFTMAX: /* their keys and values are such numbers */
    case FV_OP_FOVEATED:
        round_heads(&d->in[FV_SOFTMAX_Q], d->args.ld[FV_SOFTMAX_Q], p->heads, p->dim[FV_ATTN_D]);
        return FOVEA_OK;
    default:
        return FOVEA_OK;
    }
}
