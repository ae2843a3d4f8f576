/* bench_definition.c: attention in double precision, row by row as fovea.h defines it, to verify
 * what is benchmarked: no tiles, no chunks, and states only where they are the definition. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../half.h"
#include "bench_attention.h"

enum { SAMPLED_ROWS = 64, SAMPLED_HEADS = 3 };
#define WHOLE_RESULT (1u << 24) /* operations up to which all is verified */

struct verify {
    const attention *a;
    uint32_t rows, heads; /* looked at */
    uint32_t width;       /* features of a key */
    double worst, top;
};

static enum fv_type type_of(fovea_dtype t)
{
    return t == FOVEA_F32 ? FV_F32 : t == FOVEA_F16 ? FV_F16 : FV_BF16;
}

/* The i-th of `n` things spread over `all`. */
static uint32_t spread(uint32_t i, uint32_t n, uint32_t all)
{
    return n < 2 ? 0 : (uint32_t)((double)i / (n - 1) * (all - 1));
}

static void read_head(double *out, const attention *a, const void *rows, uint32_t row,
                      uint32_t head, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        out[i] = (double)fv_value_get(rows, type_of(a->data->type),
                                      ((size_t)row * a->data->heads + head) * n + i);
}

/* ---- features ---- */

static double power(double x, double p)
{
    return x > 0 ? pow(x, p) : 0;
}

static double norm(const double *x, uint32_t n)
{
    double sum = 0;
    for (uint32_t i = 0; i < n; i++)
        sum += x[i] * x[i];
    return sqrt(sum);
}

static double one_feature(enum feature_map map, double x)
{
    switch (map) {
    case MAP_ELU1:
        return x > 0 ? x + 1 : exp(x);
    case MAP_RELU:
        return x > 0 ? x : 0;
    case MAP_EXP:
    case MAP_SOFTMAX: /* up to its divisor */
        return exp(x);
    case MAP_SOFTPLUS:
        return log1p(exp(x));
    case MAP_SILU:
        return x / (1 + exp(-x));
    case MAP_FOCUSED: /* up to its power and length; without a learned scale: softplus(0) = ln 2 */
        return ((x > 0 ? x : 0) + 1e-6) / log(2);
    default:
        return x;
    }
}

/* Two features of one channel: p is its power, `unit` the channel of the vector of length one. */
static void two_features(enum feature_map map, double x, double p, double unit, double out[2])
{
    const double angle = atan(1) * tanh(unit);
    out[0] = map == MAP_NALA_PAPER ? power(fabs(x), p) * cos(angle) : power(x, p);
    out[1] = map == MAP_NALA_PAPER ? power(fabs(x), p) * sin(angle) : power(-x, p);
}

static uint32_t features_of(const attention *a)
{
    return a->data->d * (a->map >= MAP_POLA ? 2 : 1);
}

/* |y| / |y^3| over the channels of all heads, which is what makes y^3 as long as y. */
static double focus(const attention *a, const void *rows, uint32_t row)
{
    const uint32_t n = a->data->heads * a->data->d;
    double *y = cli_alloc(n, sizeof *y), length, cubed;
    for (uint32_t i = 0; i < n; i++)
        y[i] = one_feature(MAP_FOCUSED,
                           (double)fv_value_get(rows, type_of(a->data->type), (size_t)row * n + i));
    length = norm(y, n);
    for (uint32_t i = 0; i < n; i++)
        y[i] = pow(y[i], 3);
    cubed = norm(y, n);
    free(y);
    return length / cubed;
}

/* phi of row `row` of q or k. */
static void features(double *out, const attention *a, bool query, uint32_t row, uint32_t head)
{
    const uint32_t d = a->data->d;
    const void *rows = query ? a->data->q : a->data->k;
    double *x = cli_alloc(d, sizeof *x), sum = 0;
    const double focused = a->map == MAP_FOCUSED ? focus(a, rows, row) : 0;
    read_head(x, a, rows, row, head, d);
    const double n = norm(x, d), p = query && a->map != MAP_POLA ? 3 * (0.5 + tanh(n)) : 3;
    for (uint32_t i = 0; i < d; i++) {
        const double unit = n > 0 ? x[i] / n : 0;
        if (a->map < MAP_POLA) {
            sum += out[i] = one_feature(a->map, x[i]);
            out[i] = a->map == MAP_FOCUSED ? pow(out[i], 3) * focused : out[i];
            continue;
        }
        /* Pola without learned values: power 3, softplus(0) = ln 2. */
        const double value = a->map == MAP_POLA ? x[i] / log(2) : query ? unit : x[i];
        double two[2];
        two_features(a->map, value, p, unit, two);
        out[i] = two[0];
        out[d + i] = two[1];
    }
    const uint32_t width = features_of(a);
    const double length = a->l2norm ? sqrt(pow(norm(out, width), 2) + 1e-6) : 1;
    for (uint32_t i = 0; i < width; i++)
        out[i] /= a->map == MAP_SOFTMAX ? sum : length;
    free(x);
}

/* The gate of a token's head: softmax of its logits. 1 where there is none. */
static double gate(const attention *a, const float *logits, uint32_t row, uint32_t head)
{
    double sum = 0;
    if (!a->gated)
        return 1;
    logits += (size_t)row * a->data->heads;
    for (uint32_t h = 0; h < a->data->heads; h++)
        sum += exp((double)logits[h] - (double)logits[head]);
    return 1 / sum;
}

/* ---- comparison ---- */

static void compare(struct verify *v, uint32_t row, uint32_t head, const double *want)
{
    const uint32_t dv = v->a->data->dv;
    double *got = cli_alloc(dv, sizeof *got);
    read_head(got, v->a, v->a->data->out, row, head, dv);
    for (uint32_t i = 0; i < dv; i++) {
        const double off = fabs(got[i] - want[i]);
        v->worst = off <= v->worst ? v->worst : off; /* NaN counts as off */
        v->top = fmax(v->top, fabs(want[i]));
    }
    free(got);
}

/* ---- weights of all keys ---- */

/* One row of one head: out = sum_j w_j v_j and what its mechanism makes of it. `keys` holds the
 * features of all keys, `values` their values. */
static void attend(double *out, const attention *a, uint32_t row, uint32_t head, const double *keys,
                   const double *values, double *weight)
{
    const uint32_t d = a->data->d, dv = a->data->dv, width = features_of(a);
    const uint32_t n = a->causal ? row + 1 : a->data->rows;
    const bool mala = a->kind == ATTENTION_MALA || a->kind == ATTENTION_MALA_PAPER;
    double *q = cli_alloc(width, sizeof *q);
    features(q, a, true, row, head);
    memset(out, 0, dv * sizeof *out);
    for (uint32_t stream = 0; stream < (a->kind == ATTENTION_POLA ? 2 : 1); stream++) {
        double sum = 0, max = -INFINITY;
        for (uint32_t j = 0; j < n; j++) {
            const double *k = keys + (size_t)j * width;
            double dot = 0; /* the second stream of Pola sees the halves of q swapped */
            for (uint32_t i = 0; i < width; i++)
                dot += q[stream ? (i + d) % width : i] * k[i];
            weight[j] = a->scale * dot * gate(a, a->data->gate_k, j, head);
            max = fmax(max, weight[j]);
        }
        for (uint32_t j = 0; j < n; j++)
            sum += weight[j] = a->kind == ATTENTION_SOFTMAX ? exp(weight[j] - max) : weight[j];
        const bool means =
            a->kind == ATTENTION_POLA || a->kind == ATTENTION_NALA || a->kind == ATTENTION_FOCUSED;
        const double eps = a->kind == ATTENTION_SOFTMAX ? 0 : means ? n * a->eps : a->eps;
        const double by = gate(a, a->data->gate_q, row, head) / (a->normalise ? sum + eps : 1);
        const double z = sum / n;
        const uint32_t half = a->kind == ATTENTION_POLA ? dv / 2 : dv;
        for (uint32_t j = 0; j < n; j++) {
            const double w = mala ? gate(a, a->data->gate_q, row, head) / n *
                                        ((1 + 1 / (z + a->eps)) * weight[j] - z)
                                  : weight[j] * by;
            for (uint32_t i = stream * half; i < (stream + 1) * half; i++)
                out[i] += w * values[(size_t)j * dv + i];
        }
    }
    free(q);
}

static void by_weights(struct verify *v, uint32_t head)
{
    const attention *a = v->a;
    const uint32_t n = a->data->rows, dv = a->data->dv;
    double *keys = cli_alloc((size_t)n * v->width, sizeof *keys);
    double *values = cli_alloc((size_t)n * dv, sizeof *values);
    double *weight = cli_alloc(n, sizeof *weight), *out = cli_alloc(dv, sizeof *out);
    for (uint32_t j = 0; j < n; j++) {
        features(keys + (size_t)j * v->width, a, false, j, head);
        read_head(values + (size_t)j * dv, a, a->data->v, j, head, dv);
    }
    for (uint32_t i = 0; i < v->rows; i++) {
        const uint32_t row = spread(i, v->rows, n);
        attend(out, a, row, head, keys, values, weight);
        compare(v, row, head, out);
    }
    free(keys);
    free(values);
    free(weight);
    free(out);
}

/* ---- the recurrence ---- */

/* What a step multiplies row `i` of the state with. */
static double decay(const attention *a, uint32_t row, uint32_t head, uint32_t i)
{
    const operands *o = a->data;
    const size_t at = (size_t)row * o->heads + head;
    switch (a->kind) {
    case ATTENTION_RETENTION:
        return 1 - exp2(-5. - head);
    case ATTENTION_GLA:
        return exp((double)o->decay_channel[at * o->d + i]);
    case ATTENTION_GATED_DELTA:
        return exp((double)o->decay[at]);
    default:
        return 1;
    }
}

/* One token: state <- decayed state + k^T u, out = q state. The state's last column is Z. */
static void step(double *out, double *state, const attention *a, uint32_t row, uint32_t head,
                 double *q, double *k, double *u)
{
    const uint32_t dv = a->data->dv, width = features_of(a);
    const bool delta = a->kind == ATTENTION_DELTA || a->kind == ATTENTION_GATED_DELTA;
    const double gk = gate(a, a->data->gate_k, row, head);
    features(q, a, true, row, head);
    features(k, a, false, row, head);
    read_head(u, a, a->data->v, row, head, dv);
    u[dv] = 1;
    for (uint32_t i = 0; i < dv; i++)
        u[i] *= delta ? gk : 1;
    for (uint32_t c = 0; c < width; c++) {
        double *s = state + (size_t)c * (dv + 1);
        const double keep = decay(a, row, head, c);
        k[c] *= delta ? 1 : gk;
        for (uint32_t i = 0; i <= dv; i++)
            s[i] *= keep;
        for (uint32_t i = 0; delta && i < dv; i++)
            u[i] -= k[c] * s[i];
    }
    const double beta = delta ? (double)a->data->beta[(size_t)row * a->data->heads + head] : 1;
    memset(out, 0, (dv + 1) * sizeof *out);
    for (uint32_t c = 0; c < width; c++) {
        double *s = state + (size_t)c * (dv + 1);
        for (uint32_t i = 0; i <= dv; i++) {
            s[i] += beta * k[c] * u[i];
            out[i] += a->scale * q[c] * s[i];
        }
    }
    const double by = a->normalise ? out[dv] + a->eps : 1;
    for (uint32_t i = 0; i < dv; i++)
        out[i] *= gate(a, a->data->gate_q, row, head) / by;
}

static void by_recurrence(struct verify *v, uint32_t head)
{
    const attention *a = v->a;
    const uint32_t n = a->data->rows, dv = a->data->dv;
    double *state = cli_alloc((size_t)v->width * (dv + 1), sizeof *state);
    double *q = cli_alloc(v->width, sizeof *q), *k = cli_alloc(v->width, sizeof *k);
    double *u = cli_alloc(dv + 1, sizeof *u), *out = cli_alloc(dv + 1, sizeof *out);
    for (uint32_t row = 0, i = 0; row < n; row++) {
        step(out, state, a, row, head, q, k, u);
        if (row == spread(i, v->rows, n)) {
            compare(v, row, head, out);
            i++;
        }
    }
    free(state);
    free(q);
    free(k);
    free(u);
    free(out);
}

void attention_verify(const attention *a, bench_verify *out)
{
    static const double rounding[] = {0, 0x1p-11, 0x1p-8}; /* of the output, by fovea_dtype */
    const operands *o = a->data;
    const bool recurrence = a->causal && a->kind != ATTENTION_SOFTMAX;
    const double work = (double)o->heads * o->rows *
                        (recurrence ? (double)features_of(a) * o->dv
                                    : (double)o->rows * (features_of(a) + o->dv) / 2);
    const bool whole = work <= WHOLE_RESULT;
    struct verify v = {.a = a,
                       .rows = whole || o->rows < SAMPLED_ROWS ? o->rows : SAMPLED_ROWS,
                       .heads = whole || o->heads < SAMPLED_HEADS ? o->heads : SAMPLED_HEADS,
                       .width = features_of(a)};
    for (uint32_t i = 0; i < v.heads; i++) {
        const uint32_t head = spread(i, v.heads, o->heads);
        if (recurrence)
            by_recurrence(&v, head);
        else
            by_weights(&v, head);
    }
    out->reference = "definition in double precision";
    out->max_abs = v.worst;
    out->rel = v.top > 0 ? v.worst / v.top : v.worst;
    out->ok = out->rel <= 1e-5 + 2e-7 * sqrt(o->rows) + rounding[o->type];
}
