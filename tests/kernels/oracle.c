/* oracle.c: attention and activations in double precision, directly from their equations. */
#include "tests/kernels/oracle.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

static double softplus(double x)
{
    return x > 30 ? x : log1p(exp(x));
}

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
    case FV_EPI_SIGMOID:
        return 1 / (1 + exp(-x));
    case FV_EPI_SOFTPLUS:
        return softplus(x);
    default:
        return x;
    }
}

/* Returns the argument of GELU_TANH's tanh. */
static double cubic(double x)
{
    return sqrt(2 / acos(-1)) * (x + 0.044715 * x * x * x);
}

double oracle_slope(uint32_t epi, double x)
{
    const double s = sigmoid(2 * cubic(x)), q = sigmoid(1.702 * x), l = sigmoid(x);
    switch (epi) {
    case FV_EPI_GELU:
        return 0.5 * erfc(-x / sqrt(2)) + x * exp(-x * x / 2) / sqrt(2 * acos(-1));
    case FV_EPI_GELU_TANH:
        if (fabs(x) > 100)
            return x > 0;
        return s + 2 * x * s * (1 - s) * sqrt(2 / acos(-1)) * (1 + 3 * 0.044715 * x * x);
    case FV_EPI_GELU_QUICK:
        return q + 1.702 * x * q * (1 - q);
    case FV_EPI_SILU:
        return l + x * l * (1 - l);
    case FV_EPI_TANH:
        return 1 / (cosh(fmin(fabs(x), 300)) * cosh(fmin(fabs(x), 300)));
    case FV_EPI_SIGMOID:
        return l * (1 - l);
    case FV_EPI_SOFTPLUS:
        return l;
    default: /* FV_EPI_RELU */
        return x > 0;
    }
}

uint32_t oracle_blocks(enum fv_mech mech)
{
    return mech == FV_MECH_POLA || mech == FV_MECH_NALA || mech == FV_MECH_NALA_PAPER ||
                   mech == FV_MECH_HEDGEHOG
               ? 2
               : 1;
}

uint32_t oracle_streams(enum fv_mech mech)
{
    return mech == FV_MECH_POLA ? 2 : 1;
}

/* Returns relu(x)^p, and NaN for NaN. */
static double power(double x, double p)
{
    return isnan(x) ? x : x > 0 ? pow(x, p) : 0;
}

/* Applies a feature map that acts on each channel alone. */
static double map(enum fv_mech mech, double x)
{
    switch (mech) {
    case FV_MECH_ELU1:
    case FV_MECH_MALA:
        return x > 0 ? x + 1 : exp(x);
    case FV_MECH_RELU:
    case FV_MECH_MALA_RELU:
        return power(x, 1);
    case FV_MECH_EXP:
    case FV_MECH_MALA_EXP:
        return exp(x);
    case FV_MECH_SOFTPLUS:
        return softplus(x);
    case FV_MECH_SILU:
        return x / (1 + exp(-x));
    case FV_MECH_IDENTITY:
        return x;
    default:
        return NAN;
    }
}

static void softmax_features(const float *x, uint32_t d, double *out)
{
    double max = -INFINITY, sum = 0;
    for (uint32_t c = 0; c < d; c++)
        max = fmax(max, (double)x[c]);
    for (uint32_t c = 0; c < d; c++)
        sum += exp((double)x[c] - max);
    for (uint32_t c = 0; c < d; c++)
        out[c] = exp((double)x[c] - max) / sum;
}

/* softmax of [x, -x] */
static void hedgehog_features(const float *x, uint32_t d, double *out)
{
    double max = 0, sum = 0;
    for (uint32_t c = 0; c < d; c++)
        max = fmax(max, fabs((double)x[c]));
    for (uint32_t c = 0; c < 2 * d; c++)
        sum += out[c] = exp((c < d ? (double)x[c] : -(double)x[c - d]) - max);
    for (uint32_t c = 0; c < 2 * d; c++)
        out[c] /= sum;
}

static void pola_features(const oracle_row *row, uint32_t head, double *out)
{
    for (uint32_t c = 0; c < row->d; c++) {
        const uint32_t at = head * row->d + c;
        const double w = row->power ? (double)row->power[at] : 0;
        const double scale = row->channel_scale ? (double)row->channel_scale[at] : 0;
        const double p = 1 + row->alpha / (1 + exp(-w)), x = (double)row->x[at] / softplus(scale);
        out[c] = power(x, p);
        out[row->d + c] = power(-x, p);
    }
}

static void nala_features(bool paper, bool query, const float *x, uint32_t d, double lambda,
                          double *out)
{
    double n = 0;
    for (uint32_t c = 0; c < d; c++)
        n += (double)x[c] * (double)x[c];
    n = sqrt(n);
    const double p = query ? lambda * (0.5 + tanh(n)) : lambda;
    for (uint32_t c = 0; c < d; c++) {
        const double direction = n == 0 ? 0 : (double)x[c] / n;
        const double y = query ? direction : (double)x[c];
        if (paper) {
            const double angle = atan(1) * tanh(direction), size = power(fabs(y), p);
            out[c] = size * cos(angle);
            out[d + c] = size * sin(angle);
        } else {
            out[c] = power(y, p);
            out[d + c] = power(-y, p);
        }
    }
}

/* The norms are over the channels of all heads. */
static void focused_features(const oracle_row *row, uint32_t head, double *out)
{
    double square = 0, sixth = 0;
    for (uint32_t at = 0; at < row->heads * row->d; at++) {
        const double scale = row->channel_scale ? (double)row->channel_scale[at] : 0;
        const double y = (fmax(0, (double)row->x[at]) + 1e-6) / softplus(scale);
        square += y * y;
        sixth += pow(y, 6);
        if (at / row->d == head)
            out[at % row->d] = pow(y, 3);
    }
    for (uint32_t c = 0; c < row->d; c++)
        out[c] *= sqrt(square / sixth);
}

void oracle_features(enum fv_mech mech, bool query, const oracle_row *row, uint32_t head,
                     double *out)
{
    const float *x = row->x + (size_t)head * row->d;
    switch (mech) {
    case FV_MECH_SOFTMAXF:
        softmax_features(x, row->d, out);
        break;
    case FV_MECH_HEDGEHOG:
        hedgehog_features(x, row->d, out);
        break;
    case FV_MECH_POLA:
        pola_features(row, head, out);
        break;
    case FV_MECH_FOCUSED:
        focused_features(row, head, out);
        break;
    case FV_MECH_NALA:
    case FV_MECH_NALA_PAPER:
        nala_features(mech == FV_MECH_NALA_PAPER, query, x, row->d, row->alpha > 0 ? row->alpha : 3,
                      out);
        break;
    default:
        for (uint32_t c = 0; c < row->d; c++)
            out[c] = map(mech, (double)x[c]);
    }
}

static oracle_row attention_row(const oracle_attention *a, const float *x, uint32_t row)
{
    return (oracle_row){
        x + (size_t)row * a->heads * a->d, a->heads, a->d, a->channel_scale, a->power, a->alpha};
}

double *oracle_key_features(const oracle_attention *a)
{
    const uint32_t width = oracle_blocks(a->mech) * a->d;
    double *out = malloc((size_t)a->keys * a->heads * width * sizeof *out);
    for (uint32_t j = 0; out && j < a->keys; j++) {
        const oracle_row row = attention_row(a, a->k, j);
        for (uint32_t h = 0; h < a->heads; h++)
            oracle_features(a->mech, false, &row, h, out + ((size_t)j * a->heads + h) * width);
    }
    return out;
}

/* Returns x.y over all blocks. Stream 1 swaps the blocks of x. */
static double dot(const double *x, const double *y, uint32_t blocks, uint32_t d, uint32_t stream)
{
    double sum = 0;
    for (uint32_t b = 0; b < blocks; b++)
        for (uint32_t c = 0; c < d; c++)
            sum += x[(b ^ stream) * d + c] * y[b * d + c];
    return sum;
}

/* Rotates each block separately: pairs (2j, 2j+1), by the angles of one token. */
static void rotate(const double *x, uint32_t blocks, uint32_t d, const float *cosine,
                   const float *sine, double *out)
{
    for (uint32_t i = 0; i < blocks * d; i += 2) {
        const uint32_t c = i % d;
        out[i] = x[i] * (double)cosine[c] - x[i + 1] * (double)sine[c];
        out[i + 1] = x[i + 1] * (double)cosine[c + 1] + x[i] * (double)sine[c + 1];
    }
}

static bool is_mala(enum fv_mech mech)
{
    return mech == FV_MECH_MALA || mech == FV_MECH_MALA_RELU || mech == FV_MECH_MALA_EXP;
}

/* Returns whether sums over the keys are means, to which eps is added. Of these mechanisms, only
 * MALA uses scale. */
static bool takes_means(enum fv_mech mech)
{
    return is_mala(mech) || oracle_blocks(mech) > 1 || mech == FV_MECH_FOCUSED;
}

static void softmax_weights(const oracle_attention *a, uint32_t row, uint32_t head, uint32_t keys,
                            double *weights)
{
    const float *q = a->q + ((size_t)row * a->heads + head) * a->d;
    double max = -INFINITY, sum = 0;
    for (uint32_t j = 0; j < keys; j++) {
        const float *k = a->k + ((size_t)j * a->heads + head) * a->d;
        weights[j] = 0;
        for (uint32_t c = 0; c < a->d; c++)
            weights[j] += a->scale * (double)q[c] * (double)k[c];
        max = fmax(max, weights[j]);
    }
    for (uint32_t j = 0; j < keys; j++)
        sum += weights[j] = exp(weights[j] - max);
    for (uint32_t j = 0; j < keys; j++)
        weights[j] /= sum;
}

static void feature_weights(const oracle_attention *a, uint32_t row, uint32_t head, uint32_t stream,
                            uint32_t keys, double *weights)
{
    const uint32_t blocks = oracle_blocks(a->mech), width = blocks * a->d;
    const bool means = takes_means(a->mech), mala = is_mala(a->mech);
    const double scale = (means ? 1. / keys : 1.) * (means && !mala ? 1. : a->scale);
    const oracle_row query = attention_row(a, a->q, row);
    double *buffer = malloc(4 * (size_t)width * sizeof *buffer), z = 0;
    double *q = buffer, *q_turned = q + width, *k = q_turned + width, *k_turned = k + width;
    oracle_features(a->mech, true, &query, head, q);
    if (a->rope_cos)
        rotate(q, blocks, a->d, a->rope_cos + (size_t)row * a->d, a->rope_sin + (size_t)row * a->d,
               q_turned);
    for (uint32_t j = 0; j < keys; j++) {
        const oracle_row key = attention_row(a, a->k, j);
        const size_t at = (size_t)j * a->heads + head;
        const double gate = scale * (a->gate_k ? (double)a->gate_k[at] : 1);
        if (!a->k_features)
            oracle_features(a->mech, false, &key, head, k);
        const double *x = a->k_features ? a->k_features + at * width : k;
        const double plain = gate * dot(q, x, blocks, a->d, stream);
        z += plain;
        weights[j] = plain;
        if (a->rope_cos) {
            rotate(x, blocks, a->d, a->rope_cos + (size_t)j * a->d, a->rope_sin + (size_t)j * a->d,
                   k_turned);
            weights[j] = gate * dot(q_turned, k_turned, blocks, a->d, stream);
        }
    }
    for (uint32_t j = 0; j < keys; j++) {
        if (mala) /* eps 0 becomes the smallest double, so that a row whose features are all zero
                     gives 0 */
            weights[j] = (1 + 1 / (z + fmax(a->eps, (double)FLT_MIN))) * weights[j] - z / keys;
        else if (a->normalise)
            weights[j] /= z + a->eps;
        if (a->gate_q)
            weights[j] *= (double)a->gate_q[(size_t)row * a->heads + head];
    }
    free(buffer);
}

static uint32_t seen(const oracle_attention *a, uint32_t row)
{
    return a->causal && row < a->keys ? row + 1 : a->keys;
}

void oracle_weights(const oracle_attention *a, uint32_t row, uint32_t head, uint32_t stream,
                    double *weights)
{
    const uint32_t keys = seen(a, row);
    if (a->mech == FV_MECH_ANY)
        softmax_weights(a, row, head, keys, weights);
    else
        feature_weights(a, row, head, stream, keys, weights);
    for (uint32_t j = keys; j < a->keys; j++)
        weights[j] = 0;
}

void oracle_attend(const oracle_attention *a, uint32_t row, double *out)
{
    const uint32_t streams = oracle_streams(a->mech), slice = a->dv / streams;
    double *weights = malloc((size_t)a->keys * sizeof *weights);
    for (uint32_t part = 0; part < a->heads * streams; part++) {
        const uint32_t h = part / streams, stream = part % streams;
        oracle_weights(a, row, h, stream, weights);
        for (uint32_t i = stream * slice; i < (stream + 1) * slice; i++) {
            double sum = 0;
            for (uint32_t j = 0; j < seen(a, row); j++)
                sum += weights[j] * (double)a->v[((size_t)j * a->heads + h) * a->dv + i];
            out[h * a->dv + i] = sum;
        }
    }
    free(weights);
}

size_t oracle_state_size(const oracle_sequence *s)
{
    const size_t width = (size_t)oracle_blocks(s->mech) * s->d;
    if (is_mala(s->mech))
        return s->heads * (width * (s->dv + 1) + s->dv + 1);
    return s->heads * width * (s->dv + s->normalise);
}

static double decay(const oracle_sequence *s, uint32_t row, uint32_t head, uint32_t channel)
{
    const size_t at = s->decay_constant ? 0 : row;
    if (!s->log_decay)
        return 1;
    if (s->decay_channel)
        return exp((double)s->log_decay[(at * s->heads + head) * s->d + channel]);
    return exp((double)s->log_decay[at * s->heads + head]);
}

static void sequence_features(const oracle_sequence *s, bool query, const float *x, uint32_t row,
                              uint32_t head, double factor, double *out)
{
    const uint32_t width = oracle_blocks(s->mech) * s->d;
    const oracle_row r = {.x = x + (size_t)row * s->heads * s->d, .heads = s->heads, .d = s->d};
    double sum = 0;
    oracle_features(s->mech, query, &r, head, out);
    for (uint32_t c = 0; s->l2norm && c < width; c++)
        sum += out[c] * out[c];
    for (uint32_t c = 0; c < width; c++)
        out[c] *= factor / (s->l2norm ? sqrt(sum + 1e-6) : 1);
}

/* Updates S (width x dv) and Z (width, or NULL) of one head with one token, then reads them. */
static void token(const oracle_sequence *s, uint32_t row, uint32_t head, double *S, double *Z,
                  double *q, double *k, double *u, double *out)
{
    const uint32_t width = oracle_blocks(s->mech) * s->d;
    const size_t at = (size_t)row * s->heads + head;
    const double gate_q = s->gate_q ? (double)s->gate_q[at] : 1;
    const double gate_k = s->gate_k ? (double)s->gate_k[at] : 1;
    double sum = s->eps;
    sequence_features(s, true, s->q, row, head, s->scale, q);
    sequence_features(s, false, s->k, row, head, s->delta ? 1 : gate_k, k);
    for (uint32_t c = 0; c < width; c++) {
        for (uint32_t i = 0; i < s->dv; i++)
            S[c * s->dv + i] *= decay(s, row, head, c);
        if (Z)
            Z[c] = Z[c] * decay(s, row, head, c) + k[c];
    }
    for (uint32_t i = 0; i < s->dv; i++) {
        u[i] = (double)s->v[at * s->dv + i];
        if (s->delta) {
            double known = 0;
            for (uint32_t c = 0; c < width; c++)
                known += k[c] * S[c * s->dv + i];
            u[i] = (double)s->beta[at] * (gate_k * u[i] - known);
        }
    }
    for (uint32_t i = 0; i < s->dv; i++) {
        out[i] = 0;
        for (uint32_t c = 0; c < width; c++) {
            S[c * s->dv + i] += k[c] * u[i];
            out[i] += q[c] * S[c * s->dv + i];
        }
    }
    for (uint32_t c = 0; Z && c < width; c++)
        sum += q[c] * Z[c];
    for (uint32_t i = 0; i < s->dv; i++)
        out[i] *= Z ? gate_q / sum : gate_q;
}

/* Processes one token of MALA by its definition, where S, Z and V are sums. */
static void token_of_mala(const oracle_sequence *s, uint32_t row, uint32_t head, double *S,
                          double *Z, double *V, double *count, double *q, double *k, double *out)
{
    const size_t at = (size_t)row * s->heads + head;
    const float *v = s->v + at * s->dv;
    const double gate_q = s->gate_q ? (double)s->gate_q[at] : 1;
    const double t = *count += 1;
    double z = 0;
    sequence_features(s, true, s->q, row, head, s->scale + t * s->scale_by_tokens, q);
    sequence_features(s, false, s->k, row, head, s->gate_k ? (double)s->gate_k[at] : 1, k);
    for (uint32_t c = 0; c < s->d; c++) {
        Z[c] += k[c];
        z += q[c] * Z[c] / t;
    }
    for (uint32_t i = 0; i < s->dv; i++) {
        double read = 0;
        V[i] += (double)v[i];
        for (uint32_t c = 0; c < s->d; c++) {
            S[c * s->dv + i] += k[c] * (double)v[i];
            read += q[c] * S[c * s->dv + i] / t;
        }
        out[i] = gate_q * ((1 + 1 / (z + fmax(s->eps, (double)FLT_MIN))) * read - z * V[i] / t);
    }
}

/* A head of MALA's state, in the kernels' form or as sums. */
typedef struct memory_of_mala {
    double *S, *Z, *V, *count;
} memory_of_mala;

/* Converts means and a covariance to sums, or back. */
static void turn_mala(const oracle_sequence *s, const memory_of_mala *m, bool to_sums)
{
    const double t = *m->count, factor = to_sums ? t : 1 / t;
    for (uint32_t i = 0; i < s->d * s->dv; i++) {
        const double product = m->Z[i / s->dv] * m->V[i % s->dv];
        m->S[i] = to_sums ? t * (m->S[i] + product) : m->S[i] / t - product / (t * t);
    }
    for (uint32_t c = 0; c < s->d; c++)
        m->Z[c] *= factor;
    for (uint32_t i = 0; i < s->dv; i++)
        m->V[i] *= factor;
}

static void scan_mala(const oracle_sequence *s, double *state, double *out)
{
    double *z = state + (size_t)s->heads * s->d * s->dv, *v = z + (size_t)s->heads * s->d;
    double *buffer = malloc((2 * (size_t)s->d + s->dv) * sizeof *buffer);
    for (uint32_t h = 0; h < s->heads; h++) {
        const memory_of_mala m = {state + (size_t)h * s->d * s->dv, z + (size_t)h * s->d,
                                  v + (size_t)h * s->dv, v + (size_t)s->heads * s->dv + h};
        turn_mala(s, &m, true);
        for (uint32_t row = 0; row < s->rows; row++)
            token_of_mala(s, row, h, m.S, m.Z, m.V, m.count, buffer, buffer + s->d,
                          out ? out + ((size_t)row * s->heads + h) * s->dv : buffer + 2 * s->d);
        turn_mala(s, &m, false);
    }
    free(buffer);
}

void oracle_scan(const oracle_sequence *s, double *state, double *out)
{
    if (is_mala(s->mech)) {
        scan_mala(s, state, out);
        return;
    }
    const uint32_t width = oracle_blocks(s->mech) * s->d;
    double *z = s->normalise ? state + (size_t)s->heads * width * s->dv : NULL;
    double *buffer = malloc((2 * (size_t)width + 2 * (size_t)s->dv) * sizeof *buffer);
    double *k = buffer + width, *u = k + width, *unread = u + s->dv;
    for (uint32_t h = 0; h < s->heads; h++)
        for (uint32_t row = 0; row < s->rows; row++)
            token(s, row, h, state + (size_t)h * width * s->dv, z ? z + h * width : NULL, buffer, k,
                  u, out ? out + ((size_t)row * s->heads + h) * s->dv : unread);
    free(buffer);
}

void oracle_rope(uint32_t width, uint32_t height, uint32_t d, float *rope_cos, float *rope_sin)
{
    const uint32_t n = d / 4;
    for (uint32_t row = 0; row < width * height; row++)
        for (uint32_t c = 0; c < d; c++) {
            const uint32_t half = c % (d / 2), j = half / 2;
            const double theta = n > 1 ? pow(10000, -(double)j / (n - 1)) : 1;
            const double angle = theta * (c < d / 2 ? row / width : row % width);
            rope_cos[(size_t)row * d + c] = (float)cos(angle);
            rope_sin[(size_t)row * d + c] = (float)sin(angle);
        }
}
