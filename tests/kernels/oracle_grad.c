/* oracle_grad.c: the mechanisms' gradients by their number, and the gradients of softmax attention.
 */
#include "tests/kernels/oracle_grad.h"

#include <math.h>
#include <stdlib.h>

#define FV_MECH(NAME, name, ...) extern const oracle_mech oracle_##name##_grad;
#include "mech/mech.inc"
#undef FV_MECH

const oracle_mech *const oracle_mechs[FV_MECH_COUNT] = {
    NULL,
#define FV_MECH(NAME, name, ...) &oracle_##name##_grad,
#include "mech/mech.inc"
#undef FV_MECH
};

/* Computes the weights of query i. */
static void weights(const oracle_softmax *a, uint32_t i, double *p)
{
    double max = -INFINITY, sum = 0.;
    for (uint32_t j = 0; j < a->rows; j++) {
        p[j] = 0.;
        for (uint32_t c = 0; c < a->d; c++)
            p[j] += a->scale * a->q[(size_t)i * a->d + c] * a->k[(size_t)j * a->d + c];
        max = fmax(max, p[j]);
    }
    for (uint32_t j = 0; j < a->rows; j++)
        sum += p[j] = exp(p[j] - max);
    for (uint32_t j = 0; j < a->rows; j++)
        p[j] /= sum;
}

void oracle_softmax_forward(const oracle_softmax *a, double *out)
{
    double *p = malloc(a->rows * sizeof *p);
    for (uint32_t i = 0; i < a->rows; i++) {
        weights(a, i, p);
        for (uint32_t c = 0; c < a->dv; c++) {
            double sum = 0.;
            for (uint32_t j = 0; j < a->rows; j++)
                sum += p[j] * a->v[(size_t)j * a->dv + c];
            out[(size_t)i * a->dv + c] = sum;
        }
    }
    free(p);
}

void oracle_softmax_grad(const oracle_softmax *a, double *dq, double *dk, double *dv)
{
    const uint32_t n = a->rows, d = a->d;
    double *p = malloc(2 * n * sizeof *p), *dp = p + n;
    for (size_t i = 0; i < (size_t)n * d; i++)
        dq[i] = dk[i] = 0.;
    for (size_t i = 0; i < (size_t)n * a->dv; i++)
        dv[i] = 0.;
    for (uint32_t i = 0; i < n; i++) {
        const double *dout = a->dout + (size_t)i * a->dv;
        double whole = 0.;
        weights(a, i, p);
        for (uint32_t j = 0; j < n; j++) {
            dp[j] = 0.;
            for (uint32_t c = 0; c < a->dv; c++) {
                dp[j] += dout[c] * a->v[(size_t)j * a->dv + c];
                dv[(size_t)j * a->dv + c] += p[j] * dout[c];
            }
            whole += a->out ? 0. : p[j] * dp[j];
        }
        for (uint32_t c = 0; a->out && c < a->dv; c++)
            whole += dout[c] * a->out[(size_t)i * a->dv + c];
        for (uint32_t j = 0; j < n; j++) {
            const double ds = a->scale * p[j] * (dp[j] - whole);
            for (uint32_t c = 0; c < d; c++) {
                dq[(size_t)i * d + c] += ds * a->k[(size_t)j * d + c];
                dk[(size_t)j * d + c] += ds * a->q[(size_t)i * d + c];
            }
        }
    }
    free(p);
}
