/* layernorm_tmpl.c: LAYERNORM over the vector vocabulary. */
#include "platform/cpu/cpu_kernels.h"
#include "platform/cpu/vec/vec.h"

#include <math.h>

/* Sum of the row's x - shift, or of its square. Four sums hide the latency of the addition. */
FV_FN float row_sum(const float *x, size_t n, float shift, int square)
{
    const fv_v s = fv_set(shift);
    fv_v sum[4] = {fv_set(0.f), fv_set(0.f), fv_set(0.f), fv_set(0.f)};
    size_t i = 0;
    for (; i + 4 * FV_W <= n; i += 4 * FV_W) {
        FV_UNROLL
        for (int k = 0; k < 4; k++) {
            fv_v v = fv_sub(fv_load(x + i + k * FV_W), s);
            sum[k] = square ? fv_fma(v, v, sum[k]) : fv_add(sum[k], v);
        }
    }
    for (; i < n; i += FV_W) {
        int rest = n - i < FV_W ? (int)(n - i) : FV_W;
        fv_v v = fv_first_n(fv_sub(fv_load_n(x + i, rest), s), rest);
        sum[0] = square ? fv_fma(v, v, sum[0]) : fv_add(sum[0], v);
    }
    return fv_hsum(fv_add(fv_add(sum[0], sum[1]), fv_add(sum[2], sum[3])));
}

void FV_NAME(fv_k_layernorm_f32)(const fv_args *a, const fv_call *c)
{
    const size_t n = a->prob.dim[1];
    const float *weight = c->p[FV_LN_WEIGHT], *bias = c->p[FV_LN_BIAS];
    for (size_t r = 0; r < c->rows; r++) {
        const float *x = (const float *)c->p[FV_LN_IN] + r * a->ld[FV_LN_IN];
        float *y = (float *)c->p[FV_LN_OUT] + r * a->ld[FV_LN_OUT];
        float mean = row_sum(x, n, 0.f, 0) / (float)n;
        float var = row_sum(x, n, mean, 1) / (float)n;
        const fv_v m = fv_set(mean), scale = fv_set(1.f / sqrtf(var + a->f[0]));
        size_t i = 0;
        for (; i + FV_W <= n; i += FV_W) {
            fv_v v = fv_mul(fv_sub(fv_load(x + i), m), scale);
            fv_store(y + i, fv_fma(v, fv_load(weight + i), fv_load(bias + i)));
        }
        int rest = (int)(n - i);
        fv_v v = fv_mul(fv_sub(fv_load_n(x + i, rest), m), scale);
        fv_store_n(y + i, fv_fma(v, fv_load_n(weight + i, rest), fv_load_n(bias + i, rest)), rest);
    }
}

static double cost(const fv_problem *p, const fv_knobs *k)
{
    (void)k;
    return (double)p->dim[FV_DIM_ROWS] * p->dim[1] / (FV_W * 5e8);
}

const fv_kernel_hooks FV_NAME(fv_h_layernorm_f32) = {.cost = cost};
