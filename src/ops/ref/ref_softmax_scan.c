/* ref_softmax_scan.c: SOFTMAX_SCAN: causal softmax attention of a call's rows to themselves and to
 * a cache of keys and values that is kept from call to call.
 *
 *   dim       rows, d, dv, keys = capacity of the cache in tokens, kv_heads; heads, a multiple of
 *             kv_heads: head h reads the keys and values of h / (heads / kv_heads)
 *   Q         ROW, heads * d wide       K  ROW, kv_heads * d wide
 *   OUT       ROW, heads * dv wide      V  ROW, kv_heads * dv wide;  OUT is not another operand
 *   POSITION  ROW, one number: the row's position in its sequence, an integer from 0 to 2^24 - 1.
 *             The first row's position is the number of tokens in the cache, and the others
 *             follow by one; only the first is read
 *   STATE     the cache; read and written
 *   f[0]      scale
 *   u[0]      window: number of tokens that row i attends to, including itself; 0: all
 *   col0, cols  heads
 *
 *            kv head 0       kv head 1              kv head 0        kv head 1
 *   STATE  | K [keys][d] | K [keys][d] | ..    | V [keys][dv] | V [keys][dv] | ..
 *
 *   s_j = f0 q_i.k_j, j <= i;   p_j = exp(s_j - max_j s_j);   out_i = sum_j p_j v_j / sum_j p_j
 *
 * where the keys before the call's first row are read from the cache and the others from K and V.
 * The call with the first head of a kv head writes the rows of that kv head to the cache, at their
 * positions. It changes nothing before its first position, and no call reads the cache after that
 * position, so heads may run in concurrent calls. Tokens beyond the cache's capacity are not
 * stored: later calls do not attend to them, but the tokens of one call attend to each other. A
 * query's result does not depend on how heads are split into calls; a split of the rows into calls,
 * each with all heads of a kv head, only changes rounding. Inputs must be finite, because the
 * values of hidden tokens may be multiplied by 0.
 */
#include <math.h>
#include <string.h>

#include "ops/contracts/sequence.h"
#include "ops/ref/ref_kernels.h"
#include "ops/ref/ref_softmax_scan.h"

static uint32_t columns_k(const fv_problem *p)
{
    return p->dim[FV_CACHE_KV_HEADS] * p->dim[FV_ATTN_D];
}

static uint32_t columns_v(const fv_problem *p)
{
    return p->dim[FV_CACHE_KV_HEADS] * p->dim[FV_ATTN_DV];
}

const fv_op fv_op_softmax_scan = {
    .span = FV_SPAN_SCAN,
    .cols = FV_COLS_HEAD,
    .dim = {FV_ATTN_SIZES, [FV_ATTN_KEYS] = {"keys", FV_DIM_TOKENS},
            [FV_CACHE_KV_HEADS] = {"kv_heads"}},
    .operand = {[FV_CACHE_Q] = {"Q", FV_ATTN_D, .heads = true},
                [FV_CACHE_K] = {"K", .columns = columns_k},
                [FV_CACHE_V] = {"V", .columns = columns_v},
                [FV_CACHE_POSITION] = {"POSITION", .columns = fv_columns_one,
                                       .nature = FV_NATURE_POSITION, .exact = true},
                [FV_CACHE_STATE] = {"STATE"},
                [FV_CACHE_OUT] = {"OUT", FV_ATTN_DV, .heads = true}},
    .flops = fv_flops_softmax,
    .terms = fv_terms_softmax,
    .multiplies = FV_MULTIPLIES_ROWS,
    .state = FV_CACHE_STATE,
    .costly = true,
};

fv_cache fv_cache_of(const fv_args *a, const fv_call *c)
{
    const fv_problem *p = &a->prob;
    const size_t capacity = p->dim[FV_ATTN_KEYS];
    const float position = *(const float *)c->p[FV_CACHE_POSITION] + 0.5f;
    fv_cache s = {.group = p->heads / p->dim[FV_CACHE_KV_HEADS],
                  .window = a->u[0],
                  .k = c->p[FV_CACHE_STATE]};
    s.v = s.k + p->dim[FV_CACHE_KV_HEADS] * capacity * p->dim[FV_ATTN_D];
    s.position = position >= 0.f && position < 0x1p24f ? (size_t)position : 0;
    s.held = s.position < capacity ? s.position : capacity;
    s.kept = capacity - s.held < c->rows ? capacity - s.held : c->rows;
    return s;
}

void fv_cache_remember(const fv_args *a, const fv_call *c, const fv_cache *s, size_t kv)
{
    const size_t d = a->prob.dim[FV_ATTN_D], dv = a->prob.dim[FV_ATTN_DV];
    const size_t capacity = a->prob.dim[FV_ATTN_KEYS];
    for (size_t r = 0; r < s->kept; r++) {
        const size_t to = kv * capacity + s->held + r;
        memcpy(s->k + to * d, (const float *)c->p[FV_CACHE_K] + r * a->ld[FV_CACHE_K] + kv * d,
               d * sizeof(float));
        memcpy(s->v + to * dv, (const float *)c->p[FV_CACHE_V] + r * a->ld[FV_CACHE_V] + kv * dv,
               dv * sizeof(float));
    }
}

/* Adds key k and value v to the running mean of a query. weights[0] is the query's largest score so
 * far, and weights[1] is the sum of its weights relative to that score. */
static void see(const fv_args *a, const float *q, const float *k, const float *v, float *mean,
                float weights[2])
{
    const size_t d = a->prob.dim[FV_ATTN_D], dv = a->prob.dim[FV_ATTN_DV];
    float score = 0.f;
    for (size_t i = 0; i < d; i++)
        score += q[i] * k[i];
    score *= a->f[0];
    if (score > weights[0]) {
        const float fade = expf(weights[0] - score);
        weights[0] = score;
        weights[1] *= fade;
        for (size_t i = 0; i < dv; i++)
            mean[i] *= fade;
    }
    const float p = expf(score - weights[0]);
    weights[1] += p;
    for (size_t i = 0; i < dv; i++)
        mean[i] += p * v[i];
}

static void attend(const fv_args *a, const fv_call *c, const fv_cache *s, size_t r, size_t head)
{
    const size_t d = a->prob.dim[FV_ATTN_D], dv = a->prob.dim[FV_ATTN_DV];
    const size_t kv = head / s->group, cached = kv * a->prob.dim[FV_ATTN_KEYS];
    const size_t first = fv_cache_first(s, s->position + r);
    const float *q = (const float *)c->p[FV_CACHE_Q] + r * a->ld[FV_CACHE_Q] + head * d;
    float *out = (float *)c->p[FV_CACHE_OUT] + r * a->ld[FV_CACHE_OUT] + head * dv;
    float weights[2] = {-INFINITY, 0.f};
    memset(out, 0, dv * sizeof *out);
    for (size_t j = first; j < s->held; j++)
        see(a, q, s->k + (cached + j) * d, s->v + (cached + j) * dv, out, weights);
    for (size_t j = first > s->position ? first - s->position : 0; j <= r; j++)
        see(a, q, (const float *)c->p[FV_CACHE_K] + j * a->ld[FV_CACHE_K] + kv * d,
            (const float *)c->p[FV_CACHE_V] + j * a->ld[FV_CACHE_V] + kv * dv, out, weights);
    for (size_t i = 0; i < dv; i++)
        out[i] /= weights[1];
}

void fv_k_softmax_scan_f32_ref(const fv_args *a, const fv_call *c)
{
    const fv_cache s = fv_cache_of(a, c);
    for (size_t head = c->col0; head < (size_t)c->col0 + c->cols; head++) {
        if (head % s.group == 0)
            fv_cache_remember(a, c, &s, head / s.group);
        for (size_t r = 0; r < c->rows; r++)
            attend(a, c, &s, r, head);
    }
}
