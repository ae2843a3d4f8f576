/* oracle.c: attention and activations in double precision, straight from their equations. */
#include "oracle.h"

#include <math.h>

double oracle_activation(uint32_t epi, double x)
{
    switch (epi & FV_EPI_ACT) {
    case FV_EPI_GELU:
        return 0.5 * x * erfc(-x * 0.70710678118654752);
    case FV_EPI_GELU_TANH:
        return 0.5 * x * (1 + tanh(0.79788456080286536 * (x + 0.044715 * x * x * x)));
    case FV_EPI_GELU_QUICK:
        return x / (1 + exp(-1.702 * x));
    case FV_EPI_SILU:
        return x / (1 + exp(-x));
    case FV_EPI_TANH:
        return tanh(x);
    case FV_EPI_RELU:
        return x > 0 ? x : 0;
    default:
        return x;
    }
}

double oracle_phi(enum fv_mech mech, double x)
{
    switch (mech) {
    case FV_MECH_ELU1:
        return x > 0 ? x + 1 : exp(x);
    default:
        return NAN;
    }
}

static double similarity(const oracle_attention *a, const float *q, const float *k)
{
    double sum = 0;
    for (uint32_t i = 0; i < a->d; i++)
        sum += a->mech == FV_MECH_ANY
                   ? (double)q[i] * (double)k[i]
                   : oracle_phi(a->mech, (double)q[i]) * oracle_phi(a->mech, (double)k[i]);
    return a->scale * sum;
}

void oracle_attend(const oracle_attention *a, uint32_t row, double *out)
{
    const uint32_t keys = a->causal && row < a->keys ? row + 1 : a->keys;
    const bool softmax = a->mech == FV_MECH_ANY;
    for (uint32_t h = 0; h < a->heads; h++) {
        const float *q = a->q + ((size_t)row * a->heads + h) * a->d;
        double max = -INFINITY, sum = 0;
        for (uint32_t i = 0; i < a->dv; i++)
            out[h * a->dv + i] = 0;
        for (uint32_t j = 0; softmax && j < keys; j++)
            max = fmax(max, similarity(a, q, a->k + ((size_t)j * a->heads + h) * a->d));
        for (uint32_t j = 0; j < keys; j++) {
            const float *v = a->v + ((size_t)j * a->heads + h) * a->dv;
            double s = similarity(a, q, a->k + ((size_t)j * a->heads + h) * a->d);
            s = softmax ? exp(s - max) : s;
            sum += s;
            for (uint32_t i = 0; i < a->dv; i++)
                out[h * a->dv + i] += s * (double)v[i];
        }
        for (uint32_t i = 0; i < a->dv && (softmax || a->normalise); i++)
            out[h * a->dv + i] /= softmax ? sum : sum + a->eps;
    }
}
