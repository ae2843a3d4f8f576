/* layernorm_tmpl.c: implements LAYERNORM with vec.h's vector functions. */
#include "ops/contracts/rows.h"
#include "platform/cpu/cpu_kernels.h"
#include "platform/cpu/vec/row.h"

#include <math.h>

/* Returns the sum of x - shift over a row, or of its square. Four sums hide the latency of the
 * addition. */
FV_FN float row_sum(const void *x, enum fv_type type, size_t n, float shift, int square)
{
    const fv_v s = fv_set(shift);
    fv_v sum[4] = {fv_set(0.f), fv_set(0.f), fv_set(0.f), fv_set(0.f)};
    size_t i = 0;
    for (; i + 4 * FV_W <= n; i += 4 * FV_W) {
        FV_UNROLL
        for (int k = 0; k < 4; k++) {
            fv_v v = fv_sub(fv_row_load(x, type, i + (size_t)k * FV_W, FV_W), s);
            sum[k] = square ? fv_fma(v, v, sum[k]) : fv_add(sum[k], v);
        }
    }
    for (; i < n; i += FV_W) {
        int rest = n - i < FV_W ? (int)(n - i) : FV_W;
        fv_v v = fv_first_n(fv_sub(fv_row_load(x, type, i, rest), s), rest);
        sum[0] = square ? fv_fma(v, v, sum[0]) : fv_add(sum[0], v);
    }
    return fv_hsum(fv_add(fv_add(sum[0], sum[1]), fv_add(sum[2], sum[3])));
}

/* y = (x - mean) / deviation * weight + bias of a row */
FV_FN void normalise(void *y, enum fv_type out, const void *x, enum fv_type in, size_t n,
                     const float *weight, const float *bias, float eps)
{
    const float mean = row_sum(x, in, n, 0.f, 0) / (float)n;
    const float var = row_sum(x, in, n, mean, 1) / (float)n;
    const fv_v m = fv_set(mean), scale = fv_set(1.f / sqrtf(var + eps));
    size_t i = 0;
    for (; i + FV_W <= n; i += FV_W) {
        const fv_v v = fv_mul(fv_sub(fv_row_load(x, in, i, FV_W), m), scale);
        fv_row_store(y, out, i, fv_fma(v, fv_load(weight + i), fv_load(bias + i)), FV_W);
    }
    const int rest = (int)(n - i);
    const fv_v v = fv_mul(fv_sub(fv_row_load(x, in, i, rest), m), scale);
    fv_row_store(y, out, i, fv_fma(v, fv_load_n(weight + i, rest), fv_load_n(bias + i, rest)),
                 rest);
}

void FV_NAME(fv_k_layernorm_f32)(const fv_args *a, const fv_call *c)
{
    const enum fv_type in = a->prob.in, out = a->prob.out;
    const size_t n = a->prob.dim[FV_ROW_C];
    for (size_t r = 0; r < c->rows; r++) {
        const void *x = fv_element(c->p[FV_LN_IN], in, r * a->ld[FV_LN_IN]);
        void *y = fv_element(c->p[FV_LN_OUT], out, r * a->ld[FV_LN_OUT]);
        const float *weight = c->p[FV_LN_WEIGHT], *bias = c->p[FV_LN_BIAS];
        if (in == FV_F32 && out == FV_F32)
            normalise(y, FV_F32, x, FV_F32, n, weight, bias, a->f[0]);
        else if (in == FV_F32)
            normalise(y, FV_BF16, x, FV_F32, n, weight, bias, a->f[0]);
        else
            normalise(y, out, x, FV_BF16, n, weight, bias, a->f[0]);
    }
}

static double cost(const fv_problem *p, const fv_knobs *k)
{
    (void)k;
    return (double)p->dim[FV_DIM_ROWS] * p->dim[1] / (FV_W * 5e8);
}

const fv_kernel_hooks FV_NAME(fv_h_layernorm_f32) = {.cost = cost};
