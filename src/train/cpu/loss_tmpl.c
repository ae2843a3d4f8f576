/* loss_tmpl.c: MSE_LOSS, MSE_GRAD, CROSS_ENTROPY_LOSS and CROSS_ENTROPY_GRAD in vec.h's vector
 * functions. */
#include "platform/cpu/vec/log_sum.h"
#include "train/cpu/train_cpu_kernels.h"
#include "train/ref/training.h"

/* Returns the divisor of the squared distance from y if the loss is relative: the square of y, plus
 * a small constant. */
static float square_of(const float *y, size_t n)
{
    fv_v sum[2] = {fv_set(0.f), fv_set(0.f)};
    for (size_t i = 0, k = 0; i < n; i += FV_W, k ^= 1) {
        const fv_v v = fv_load_n(y + i, fv_lanes(n - i));
        sum[k] = fv_fma(v, v, sum[k]);
    }
    return fv_hsum(fv_add(sum[0], sum[1])) + 1e-6f * (float)n;
}

void FV_NAME(fv_k_mse_loss_f32)(const fv_args *a, const fv_call *c)
{
    const size_t n = a->prob.dim[FV_ROW_C];
    const bool relative = a->prob.flags & FV_FLAG_RELATIVE;
    for (size_t r = 0; r < c->rows; r++) {
        const float *x = (const float *)c->p[FV_MSE_A] + r * a->ld[FV_MSE_A];
        const float *y = (const float *)c->p[FV_MSE_B] + r * a->ld[FV_MSE_B];
        fv_v sum[2] = {fv_set(0.f), fv_set(0.f)};
        for (size_t i = 0, k = 0; i < n; i += FV_W, k ^= 1) {
            const int lanes = fv_lanes(n - i);
            const fv_v d = fv_sub(fv_load_n(x + i, lanes), fv_load_n(y + i, lanes));
            sum[k] = fv_fma(d, d, sum[k]);
        }
        const float square = fv_hsum(fv_add(sum[0], sum[1]));
        ((float *)c->p[FV_MSE_OUT])[r * a->ld[FV_MSE_OUT]] =
            relative ? square / square_of(y, n) : square;
    }
}

void FV_NAME(fv_k_mse_grad_f32)(const fv_args *a, const fv_call *c)
{
    const size_t n = a->prob.dim[FV_ROW_C];
    const bool relative = a->prob.flags & FV_FLAG_RELATIVE;
    for (size_t r = 0; r < c->rows; r++) {
        const float *x = (const float *)c->p[FV_MSE_A] + r * a->ld[FV_MSE_A];
        const float *y = (const float *)c->p[FV_MSE_B] + r * a->ld[FV_MSE_B];
        float *out = (float *)c->p[FV_MSE_OUT] + r * a->ld[FV_MSE_OUT];
        /* Computed before out is written, because out may be y. */
        const float square = relative ? square_of(y, n) : 1.f;
        for (size_t i = 0; i < n; i += FV_W) {
            const int lanes = fv_lanes(n - i);
            const fv_v d = fv_sub(fv_load_n(x + i, lanes), fv_load_n(y + i, lanes));
            fv_store_n(out + i, fv_mul(fv_set(a->f[0]), d), lanes);
        }
        for (size_t i = 0; relative && i < n; i += FV_W) {
            const int lanes = fv_lanes(n - i);
            fv_store_n(out + i, fv_div(fv_load_n(out + i, lanes), fv_set(square)), lanes);
        }
    }
}

/* Returns whether the row contributes to the loss: its weight is not 0 and its class is in
 * range. */
static bool counts(const float *label, size_t classes)
{
    return label[1] != 0.f && label[0] >= 0.f && label[0] < (float)classes;
}

void FV_NAME(fv_k_cross_entropy_loss_f32)(const fv_args *a, const fv_call *c)
{
    const size_t n = a->prob.dim[FV_ROW_C];
    for (size_t r = 0; r < c->rows; r++) {
        const float *x = (const float *)c->p[FV_ENTROPY_LOGITS] + r * a->ld[FV_ENTROPY_LOGITS];
        const float *label = (const float *)c->p[FV_ENTROPY_LABELS] + r * a->ld[FV_ENTROPY_LABELS];
        float *out = (float *)c->p[FV_ENTROPY_OUT] + r * a->ld[FV_ENTROPY_OUT];
        *out = counts(label, n) ? label[1] * fv_log_sum_of(x, n, (size_t)label[0]) : 0.f;
    }
}

void FV_NAME(fv_k_cross_entropy_grad_f32)(const fv_args *a, const fv_call *c)
{
    const size_t n = a->prob.dim[FV_ROW_C];
    for (size_t r = 0; r < c->rows; r++) {
        const float *x = (const float *)c->p[FV_ENTROPY_LOGITS] + r * a->ld[FV_ENTROPY_LOGITS];
        const float *label = (const float *)c->p[FV_ENTROPY_LABELS] + r * a->ld[FV_ENTROPY_LABELS];
        float *out = (float *)c->p[FV_ENTROPY_OUT] + r * a->ld[FV_ENTROPY_OUT];
        if (counts(label, n))
            fv_softmax_slope(out, x, n, (size_t)label[0], label[1]);
        else
            for (size_t i = 0; i < n; i++)
                out[i] = 0.f;
    }
}
