/* softmax_rows_grad_tmpl.c: SOFTMAX_GRAD_Q and SOFTMAX_GRAD_KV in vec.h's vector functions. The
 * rows of a call are spread across the lanes, so that nothing is summed across lanes. */
#include <math.h>
#include <string.h>

#include "platform/cpu/vec/math.h"
#include "train/cpu/train_cpu_kernels.h"
#include "train/ref/training.h"

/* Rows of one head for each lane, and their gradients, in the scratch: [channel][lane]. */
static size_t scratch(const fv_problem *p, const fv_knobs *knobs, uint32_t rows)
{
    (void)knobs, (void)rows;
    return 2 * (size_t)(p->dim[FV_ATTN_D] + p->dim[FV_ATTN_DV]) * FV_W * sizeof(float);
}

const fv_kernel_hooks FV_NAME(fv_h_softmax_rows_grad_f32) = {.scratch = scratch};

/* Transposes n columns of `rows` rows. The last lanes repeat the last row. */
static void pack(float *out, const float *x, size_t ld, int rows, size_t n, float scale)
{
    for (size_t i = 0; i < n; i++)
        for (int lane = 0; lane < FV_W; lane++)
            out[i * FV_W + (size_t)lane] =
                scale * x[(size_t)(lane < rows ? lane : rows - 1) * ld + i];
}

static void unpack(float *out, size_t ld, const float *x, int rows, size_t n)
{
    for (int lane = 0; lane < rows; lane++)
        for (size_t i = 0; i < n; i++)
            out[(size_t)lane * ld + i] = x[i * FV_W + (size_t)lane];
}

/* Returns the product of every lane's row with y. */
FV_FN fv_v products(const float *lanes, const float *y, size_t n)
{
    fv_v even = fv_set(0.f), odd = fv_set(0.f);
    size_t i = 0;
    for (; i + 1 < n; i += 2) {
        even = fv_fma(fv_set(y[i]), fv_load(lanes + i * FV_W), even);
        odd = fv_fma(fv_set(y[i + 1]), fv_load(lanes + (i + 1) * FV_W), odd);
    }
    if (i < n)
        even = fv_fma(fv_set(y[i]), fv_load(lanes + i * FV_W), even);
    return fv_add(even, odd);
}

/* Adds factor y to every lane's row. */
FV_FN void add_products(float *lanes, fv_v factor, const float *y, size_t n)
{
    for (size_t i = 0; i < n; i++)
        fv_store(lanes + i * FV_W, fv_fma(factor, fv_set(y[i]), fv_load(lanes + i * FV_W)));
}

/* ---- queries ---- */

/* One head of the queries in the lanes. */
typedef struct queries {
    const float *k, *v;
    const float *hidden; /* of the first lane, or NULL */
    size_t ldk, ldv, ldh, d, dv, keys;
    int rows;
    const float *q, *dout; /* in lanes; q is multiplied by the scale */
    float *dq;
} queries;

/* Returns the scores of key j. */
FV_FN fv_v scores(const queries *a, size_t j)
{
    const fv_v s = products(a->q, a->k + j * a->ldk, a->d);
    float hide[FV_W];
    if (!a->hidden)
        return s;
    for (int lane = 0; lane < FV_W; lane++)
        hide[lane] = a->hidden[(size_t)(lane < a->rows ? lane : a->rows - 1) * a->ldh + j];
    return fv_add(s, fv_load(hide));
}

/* Computes the gradients without the scale, and returns the logarithms of the sums. */
FV_FN fv_v query_gradients(const queries *a, fv_v mean)
{
    fv_v max = fv_set(-INFINITY), sum = fv_set(0.f);
    for (size_t j = 0; j < a->keys; j++)
        max = fv_max(max, scores(a, j));
    for (size_t j = 0; j < a->keys; j++)
        sum = fv_add(sum, fv_exp_neg(fv_sub(scores(a, j), max)));
    const fv_v share = fv_div(fv_set(1.f), sum);
    memset(a->dq, 0, a->d * FV_W * sizeof *a->dq);
    for (size_t j = 0; j < a->keys; j++) {
        const fv_v p = fv_mul(fv_exp_neg(fv_sub(scores(a, j), max)), share);
        const fv_v dp = products(a->dout, a->v + j * a->ldv, a->dv);
        add_products(a->dq, fv_mul(p, fv_sub(dp, mean)), a->k + j * a->ldk, a->d);
    }
    return fv_add(max, fv_log(sum));
}

static void head_of_queries(const fv_args *a, const fv_call *c, size_t r, size_t h)
{
    const size_t d = a->prob.dim[FV_ATTN_D], dv = a->prob.dim[FV_ATTN_DV];
    const size_t keys = a->prob.dim[FV_ATTN_KEYS], heads = a->prob.heads;
    const size_t ldo = a->ld[FV_QUERIES_GRAD_OUT];
    float *q = c->scratch, *dout = q + d * FV_W, *dq = dout + dv * FV_W;
    float *out = (float *)c->p[FV_QUERIES_GRAD_OUT] + r * ldo;
    queries x = {.k = (const float *)c->p[FV_QUERIES_GRAD_K] + h * d,
                 .v = (const float *)c->p[FV_QUERIES_GRAD_V] + h * dv,
                 .hidden = c->p[FV_QUERIES_GRAD_HIDDEN],
                 .ldk = a->ld[FV_QUERIES_GRAD_K],
                 .ldv = a->ld[FV_QUERIES_GRAD_V],
                 .ldh = a->ld[FV_QUERIES_GRAD_HIDDEN],
                 .d = d,
                 .dv = dv,
                 .keys = keys,
                 .rows = fv_lanes(c->rows - r),
                 .q = q,
                 .dout = dout,
                 .dq = dq};
    if (x.hidden)
        x.hidden += r * x.ldh + h * (keys + 1);
    const float *rows = (const float *)c->p[FV_QUERIES_GRAD_DOUT];
    const float *forward = (const float *)c->p[FV_QUERIES_GRAD_FORWARD];
    float means[FV_W], logarithms[FV_W];
    for (int lane = 0; lane < FV_W; lane++) {
        const size_t row = r + (size_t)(lane < x.rows ? lane : x.rows - 1);
        float sum = 0.f;
        for (size_t i = h * dv; i < (h + 1) * dv; i++)
            sum += rows[row * a->ld[FV_QUERIES_GRAD_DOUT] + i] *
                   forward[row * a->ld[FV_QUERIES_GRAD_FORWARD] + i];
        means[lane] = sum;
    }
    pack(q, (const float *)c->p[FV_QUERIES_GRAD_Q] + r * a->ld[FV_QUERIES_GRAD_Q] + h * d,
         a->ld[FV_QUERIES_GRAD_Q], x.rows, d, a->f[0]);
    pack(dout, rows + r * a->ld[FV_QUERIES_GRAD_DOUT] + h * dv, a->ld[FV_QUERIES_GRAD_DOUT], x.rows,
         dv, 1.f);
    fv_store(logarithms, query_gradients(&x, fv_load(means)));
    for (size_t i = 0; i < d * FV_W; i += FV_W)
        fv_store(dq + i, fv_mul(fv_set(a->f[0]), fv_load(dq + i)));
    unpack(out + h * d, ldo, dq, x.rows, d);
    unpack(out + heads * d + h, ldo, logarithms, x.rows, 1);
    unpack(out + heads * (d + 1) + h, ldo, means, x.rows, 1);
}

void FV_NAME(fv_k_softmax_grad_q_f32)(const fv_args *a, const fv_call *c)
{
    for (size_t r = 0; r < c->rows; r += FV_W)
        for (size_t h = 0; h < a->prob.heads; h++)
            head_of_queries(a, c, r, h);
}

/* ---- keys ---- */

static void head_of_keys(const fv_args *a, const fv_call *c, size_t r, size_t h)
{
    const size_t d = a->prob.dim[FV_ATTN_D], dv = a->prob.dim[FV_ATTN_DV];
    const size_t heads = a->prob.heads, keys = a->prob.dim[FV_DIM_ROWS];
    const int rows = fv_lanes(c->rows - r);
    float *k = c->scratch, *v = k + d * FV_W, *dk = v + dv * FV_W, *dvalue = dk + d * FV_W;
    float *out = (float *)c->p[FV_KEYS_GRAD_OUT] + r * a->ld[FV_KEYS_GRAD_OUT];
    const float *hidden = c->p[FV_KEYS_GRAD_HIDDEN];
    const fv_v scale = fv_set(a->f[0]);
    if (hidden)
        hidden += h * (keys + 1) + c->row0 + r;
    pack(k, (const float *)c->p[FV_KEYS_GRAD_K] + r * a->ld[FV_KEYS_GRAD_K] + h * d,
         a->ld[FV_KEYS_GRAD_K], rows, d, a->f[0]);
    pack(v, (const float *)c->p[FV_KEYS_GRAD_V] + r * a->ld[FV_KEYS_GRAD_V] + h * dv,
         a->ld[FV_KEYS_GRAD_V], rows, dv, 1.f);
    memset(dk, 0, (d + dv) * FV_W * sizeof *dk);
    for (size_t i = 0; i < a->prob.dim[FV_ATTN_KEYS]; i++) {
        const float *q = (const float *)c->p[FV_KEYS_GRAD_Q] + i * a->ld[FV_KEYS_GRAD_Q] + h * d;
        const float *dout =
            (const float *)c->p[FV_KEYS_GRAD_DOUT] + i * a->ld[FV_KEYS_GRAD_DOUT] + h * dv;
        const float *state =
            (const float *)c->p[FV_KEYS_GRAD_STATE] + i * a->ld[FV_KEYS_GRAD_STATE];
        fv_v s = products(k, q, d);
        if (hidden)
            s = fv_add(s, fv_load_n(hidden + i * a->ld[FV_KEYS_GRAD_HIDDEN], rows));
        const fv_v p = fv_exp(fv_sub(s, fv_set(state[h])));
        const fv_v dp = fv_sub(products(v, dout, dv), fv_set(state[heads + h]));
        add_products(dk, fv_mul(scale, fv_mul(p, dp)), q, d);
        add_products(dvalue, p, dout, dv);
    }
    unpack(out + h * d, a->ld[FV_KEYS_GRAD_OUT], dk, rows, d);
    unpack(out + heads * d + h * dv, a->ld[FV_KEYS_GRAD_OUT], dvalue, rows, dv);
}

void FV_NAME(fv_k_softmax_grad_kv_f32)(const fv_args *a, const fv_call *c)
{
    for (size_t r = 0; r < c->rows; r += FV_W)
        for (size_t h = 0; h < a->prob.heads; h++)
            head_of_keys(a, c, r, h);
}
