/* attention_trial.c: runs one attention through the public interface and compares it with the
 * oracle. */
#include "tests/kernels/attention_trial.h"
#include "ops/mech_traits.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

float *trial_values(size_t n, uint32_t seed, float size)
{
    float *x = malloc((n ? n : 1) * sizeof *x);
    assert_non_null(x);
    for (size_t i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        x[i] = size * ((float)(seed >> 8) / (1 << 23) - 1.f);
    }
    return x;
}

/* Returns the distance between x and the next value of `type`. */
static double quantum(double x, fovea_dtype type)
{
    int e;
    frexp(x, &e);
    return type == FOVEA_DTYPE_F16 ? ldexp(1, (e < -13 ? -13 : e) - 11) : ldexp(1, e - 8);
}

float trial_round(float x, fovea_dtype type)
{
    const double q = quantum((double)x, type);
    return type == FOVEA_DTYPE_F32 || !isfinite(x) ? x : (float)(nearbyint((double)x / q) * q);
}

/* Stores the float x as element `i`; `type` represents x exactly. */
static void put(void *data, size_t i, float x, fovea_dtype type)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    if (type == FOVEA_DTYPE_F32) {
        ((float *)data)[i] = x;
    } else if (type == FOVEA_DTYPE_BF16) {
        ((uint16_t *)data)[i] = (uint16_t)(bits >> 16);
    } else {
        const uint32_t sign = bits >> 16 & 0x8000u;
        const double size = fabs((double)x);
        uint32_t half = (uint32_t)(size * 0x1p24); /* subnormal: in units of 2^-24 */
        if (!(size < 0x1p16))
            half = isnan(x) ? 0x7e00u : 0x7c00u;
        else if (size >= 0x1p-14)
            half = ((bits >> 13) & 0x3ffffu) - (112u << 10);
        ((uint16_t *)data)[i] = (uint16_t)(sign | half);
    }
}

static float get(const void *data, size_t i, fovea_dtype type)
{
    float x;
    if (type == FOVEA_DTYPE_F32)
        return ((const float *)data)[i];
    const uint32_t half = ((const uint16_t *)data)[i], exponent = half >> 10 & 31;
    const uint32_t bits = half << 16;
    if (type == FOVEA_DTYPE_BF16) {
        memcpy(&x, &bits, sizeof x);
        return x;
    }
    x = (float)(half & 1023);
    if (exponent == 31)
        x = half & 1023 ? NAN : INFINITY;
    else if (exponent)
        x = ldexpf(x + 1024, (int)exponent - 25);
    else
        x = ldexpf(x, -24);
    return half & 0x8000u ? -x : x;
}

/* Returns whether `name` is the attention's name without the prefix "sla-" and without ':' and what
 * follows. */
static bool family(const fovea_attention_options *o, const char *name)
{
    const char *at = o->attention + (strncmp(o->attention, "sla-", 4) ? 0 : 4);
    const size_t n = strlen(name);
    return !strncmp(at, name, n) && (at[n] == ':' || !at[n]);
}

static bool gated(const fovea_attention_options *o)
{
    return !strncmp(o->attention, "sla-", 4);
}

static bool delta(const fovea_attention_options *o)
{
    return family(o, "delta-rule") || family(o, "gated-delta-rule");
}

static enum fv_mech mechanism(const fovea_attention_options *o)
{
    static const struct {
        const char *name;
        enum fv_mech mech, mala;
    } maps[] = {
        {"elu1", FV_MECH_ELU1, FV_MECH_MALA},
        {"relu", FV_MECH_RELU, FV_MECH_MALA_RELU},
        {"exp", FV_MECH_EXP, FV_MECH_MALA_EXP},
        {"softplus", FV_MECH_SOFTPLUS, FV_MECH_ANY},
        {"softmax", FV_MECH_SOFTMAXF, FV_MECH_ANY},
        {"silu", FV_MECH_SILU, FV_MECH_ANY},
        {"identity", FV_MECH_IDENTITY, FV_MECH_ANY},
        {"nala", FV_MECH_NALA, FV_MECH_ANY},
        {"hedgehog", FV_MECH_HEDGEHOG, FV_MECH_ANY},
        {"nala-paper", FV_MECH_NALA_PAPER, FV_MECH_ANY},
    };
    const bool mala = family(o, "mala") || family(o, "mala-paper");
    const char *map = strchr(o->attention, ':');
    if (family(o, "softmax"))
        return FV_MECH_ANY;
    if (family(o, "pola"))
        return FV_MECH_POLA;
    if (family(o, "nala"))
        return FV_MECH_NALA;
    if (family(o, "nala-paper"))
        return FV_MECH_NALA_PAPER;
    if (family(o, "hedgehog"))
        return FV_MECH_HEDGEHOG;
    map = map ? map + 1 : mala || family(o, "linear") ? "elu1" : "identity";
    for (size_t i = 0; i < sizeof maps / sizeof *maps; i++)
        if (!strcmp(map, maps[i].name))
            return mala ? maps[i].mala : maps[i].mech;
    fail_msg("no oracle for \"%s\"", o->attention);
    return FV_MECH_ANY;
}

static uint32_t keys(const fovea_attention_options *o)
{
    return o->keys ? o->keys : o->rows;
}

static float *gates(uint32_t rows, uint32_t heads, uint32_t seed)
{
    float *x = trial_values((size_t)rows * heads, seed, 2.f);
    for (uint32_t r = 0; r < rows; r++) {
        float sum = 0;
        for (uint32_t h = 0; h < heads; h++)
            sum += x[r * heads + h] = expf(x[r * heads + h]);
        for (uint32_t h = 0; h < heads; h++)
            x[r * heads + h] /= sum;
    }
    return x;
}

trial trial_make(const fovea_attention_options *options, uint32_t seed)
{
    const fovea_attention_options *o = options;
    const uint32_t rows = o->rows, n = keys(o);
    const size_t wide = (size_t)o->heads * o->head_dim, out = (size_t)o->heads * o->value_dim;
    trial t = {.options = *o};
    t.q = trial_values(rows * wide, seed + 1, 2.f);
    t.k = trial_values(n * wide, seed + 2, 2.f);
    t.v = trial_values(n * out, seed + 3, 1.f);
    for (size_t i = 0; i < n * out; i++)
        t.v[i] += 0.5f; /* makes the mean nonzero */
    if (gated(o)) {
        t.gate_q = gates(rows, o->heads, seed + 4);
        t.gate_k = gates(n, o->heads, seed + 5);
    }
    if (family(o, "retention")) {
        t.decay = trial_values(o->heads, 1, 1.f);
        for (uint32_t h = 0; h < o->heads; h++)
            t.decay[h] = o->log_decay ? o->log_decay[h] : (float)log(1 - pow(2, -5. - h));
    } else if (family(o, "gla") || family(o, "gated-delta-rule")) {
        const size_t count = rows * (family(o, "gla") ? wide : o->heads);
        t.decay = trial_values(count, seed + 6, 0.5f);
        for (size_t i = 0; i < count; i++)
            t.decay[i] -= 0.5f;
    }
    if (delta(o)) {
        t.beta = trial_values((size_t)rows * o->heads, seed + 7, 0.5f);
        for (size_t i = 0; i < (size_t)rows * o->heads; i++)
            t.beta[i] += 0.5f;
    }
    for (size_t i = 0; i < rows * wide; i++)
        t.q[i] = trial_round(t.q[i], o->storage);
    for (size_t i = 0; i < n * wide; i++)
        t.k[i] = trial_round(t.k[i], o->storage);
    for (size_t i = 0; i < n * out; i++)
        t.v[i] = trial_round(t.v[i], o->storage);
    return t;
}

void trial_free(trial *t)
{
    float *const all[] = {t->q, t->k, t->v, t->decay, t->beta, t->gate_q, t->gate_k};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
    *t = (trial){.q = NULL};
}

/* One input tensor, stored as rows. */
typedef struct input {
    float *data;
    uint32_t rows, width;
    fovea_dtype type;
} input;

static size_t list_inputs(const trial *t, input in[8])
{
    const fovea_attention_options *o = &t->options;
    const uint32_t wide = o->heads * o->head_dim, n = keys(o);
    const bool has_decay = t->decay && !family(o, "retention");
    size_t count = 0;
    in[count++] = (input){t->q, o->rows, wide, o->storage};
    in[count++] = (input){t->k, n, wide, o->storage};
    in[count++] = (input){t->v, n, o->heads * o->value_dim, o->storage};
    if (has_decay)
        in[count++] =
            (input){t->decay, o->rows, family(o, "gla") ? wide : o->heads, FOVEA_DTYPE_F32};
    if (t->beta)
        in[count++] = (input){t->beta, o->rows, o->heads, FOVEA_DTYPE_F32};
    if (t->gate_q) {
        in[count++] = (input){t->gate_q, o->rows, o->heads, FOVEA_DTYPE_F32};
        in[count++] = (input){t->gate_k, n, o->heads, FOVEA_DTYPE_F32};
    }
    return count;
}

size_t trial_inputs(const trial *t, uint32_t row, fovea_matrix inputs[8])
{
    input in[8];
    const size_t count = list_inputs(t, in);
    for (size_t i = 0; i < count; i++)
        inputs[i] = (fovea_matrix){in[i].data + (size_t)row * in[i].width, 0};
    return count;
}

/* Copies the input with `gap` NaNs between rows and none after the last row. */
static void *spread(const input *in, uint32_t gap)
{
    const size_t ld = in->width + gap, n = in->rows * ld - gap;
    void *out = malloc(n * (in->type == FOVEA_DTYPE_F32 ? 4 : 2));
    assert_non_null(out);
    for (size_t i = 0; i < n; i++)
        put(out, i, i % ld < in->width ? in->data[i / ld * in->width + i % ld] : NAN, in->type);
    return out;
}

float *trial_run(const trial *t, fovea_device *device, uint32_t gap)
{
    const fovea_attention_options *o = &t->options;
    const uint32_t width = o->heads * o->value_dim;
    const size_t ld = width + gap;
    fovea_plan *plan;
    fovea_matrix matrices[8];
    input in[8];
    const size_t count = list_inputs(t, in);
    if (fovea_attention_plan_create(&plan, device, o) != FOVEA_OK)
        fail_msg("%s: %s", o->attention, fovea_error());
    for (size_t i = 0; i < count; i++)
        matrices[i] = (fovea_matrix){spread(in + i, gap), gap ? in[i].width + gap : 0};
    float *packed = trial_values((size_t)o->rows * width, 9, 1.f);
    void *out = spread(&(input){packed, o->rows, width, o->out_storage}, gap);
    if (fovea_op_run(plan, matrices, count, (fovea_matrix){out, gap ? ld : 0}) != FOVEA_OK)
        fail_msg("%s: %s", o->attention, fovea_error());
    for (size_t i = 0; i < o->rows * ld - gap; i++) {
        const float x = get(out, i, o->out_storage);
        if (i % ld < width)
            packed[i / ld * width + i % ld] = x;
        else
            assert_true(isnan(x));
    }
    for (size_t i = 0; i < count; i++)
        free(matrices[i].data);
    free(out);
    fovea_plan_free(plan);
    return packed;
}

oracle_attention trial_attention(const trial *t)
{
    const fovea_attention_options *o = &t->options;
    const bool paper = family(o, "mala-paper");
    return (oracle_attention){
        .mech = mechanism(o),
        .heads = o->heads,
        .d = o->head_dim,
        .dv = o->value_dim,
        .keys = keys(o),
        .scale = paper ? keys(o) : o->scale,
        .eps = paper ? 0 : o->eps,
        .causal = o->causal,
        .normalise = o->normalise,
        .q = t->q,
        .k = t->k,
        .v = t->v,
        .channel_scale = o->channel_scale,
        .power = o->power,
        .alpha = o->alpha > 0 ? o->alpha : (double)fv_mech_table[mechanism(o)]->alpha,
        .rope_cos = o->rope_cos,
        .rope_sin = o->rope_sin,
        .gate_q = t->gate_q,
        .gate_k = t->gate_k,
    };
}

oracle_sequence trial_sequence(const trial *t)
{
    const fovea_attention_options *o = &t->options;
    const bool paper = family(o, "mala-paper");
    return (oracle_sequence){
        .mech = mechanism(o),
        .heads = o->heads,
        .d = o->head_dim,
        .dv = o->value_dim,
        .rows = o->rows,
        .scale = paper ? 0 : o->scale,
        .scale_by_tokens = paper,
        .eps = paper ? 0 : o->eps,
        .normalise = family(o, "linear") && o->normalise,
        .delta = delta(o),
        .l2norm = o->l2norm,
        .q = t->q,
        .k = t->k,
        .v = t->v,
        .log_decay = t->decay,
        .decay_channel = family(o, "gla"),
        .decay_constant = family(o, "retention"),
        .beta = t->beta,
        .gate_q = t->gate_q,
        .gate_k = t->gate_k,
    };
}

/* The largest error and the largest absolute value so far. A NaN error counts as infinite. */
typedef struct span {
    double error, top;
} span;

static void extend(span *s, const float *got, const double *want, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const double off = fabs((double)got[i] - want[i]);
        s->error = off <= s->error ? s->error : isnan(off) ? INFINITY : off;
        s->top = fmax(s->top, fabs(want[i]));
    }
}

static void judge(const char *what, const span *s, double allowed)
{
    if (!(s->error <= allowed * s->top))
        fail_msg("%s: off by %.2e of %.2e, %.1e is allowed", what, s->error, s->top, allowed);
}

void trial_close(const char *what, const float *got, const double *want, size_t n, double allowed)
{
    span s = {0, 0};
    extend(&s, got, want, n);
    judge(what, &s, allowed);
}

void trial_expect(const trial *t, const float *got, uint32_t sampled, double allowed)
{
    const fovea_attention_options *o = &t->options;
    const size_t width = (size_t)o->heads * o->value_dim;
    char what[160];
    span s = {0, 0};
    if (o->causal && !family(o, "softmax")) {
        const oracle_sequence sequence = trial_sequence(t);
        double *state = calloc(oracle_state_size(&sequence), sizeof *state);
        double *want = malloc(o->rows * width * sizeof *want);
        oracle_scan(&sequence, state, want);
        extend(&s, got, want, o->rows * width);
        free(state);
        free(want);
    } else {
        oracle_attention a = trial_attention(t);
        const uint32_t count = sampled < o->rows ? sampled : o->rows;
        double *want = malloc(width * sizeof *want);
        double *features = a.mech == FV_MECH_ANY ? NULL : oracle_key_features(&a);
        a.k_features = features;
        for (uint32_t i = 0; i < count; i++) {
            const uint32_t row = (uint32_t)((uint64_t)(i + 1) * o->rows / count) - 1;
            oracle_attend(&a, row, want);
            extend(&s, got + row * width, want, width);
        }
        free(features);
        free(want);
    }
    snprintf(what, sizeof what, "%s %ux%u, %u heads of %u and %u, %s", o->attention, o->rows,
             keys(o), o->heads, o->head_dim, o->value_dim,
             o->normalise ? "normalised" : "not normalised");
    judge(what, &s, allowed);
}
