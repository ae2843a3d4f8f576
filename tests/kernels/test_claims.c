/* test_claims.c: tests properties that the papers claim for their attentions, and properties that
 * every attention must have. With one-hot values, row i of the output is row i of the attention
 * matrix. Also tests that no input causes NaN or infinity.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/fixture.h"
#include "tests/kernels/attention_trial.h"

enum { KEYS = 24, D = 16 };

static fovea_attention_options shape(const char *attention, uint32_t rows, uint32_t keys,
                                     uint32_t heads, uint32_t dv)
{
    fovea_attention_options o = FOVEA_ATTENTION_OPTIONS_INIT;
    o.attention = attention;
    o.rows = rows;
    o.keys = keys;
    o.heads = heads;
    o.head_dim = D;
    o.value_dim = dv;
    o.scale = 0.25;
    o.eps = 1e-30;
    o.normalise = !strstr(attention, "silu") && !strstr(attention, "identity");
    return o;
}

/* Returns the attention matrices of one head (rows x 2 KEYS): first the matrix for the first half
 * of the value channels, then the one for the second half. They differ only for pola. The caller
 * frees the result. */
static float *matrices(fovea_device *device, const fovea_attention_options *options, const float *q,
                       const float *k)
{
    fovea_attention_options o = *options;
    o.heads = 1;
    o.keys = KEYS;
    o.value_dim = 2 * KEYS;
    trial t = trial_make(&o, 1);
    for (uint32_t i = 0; i < o.rows * D; i++)
        t.q[i] = q[i];
    for (uint32_t j = 0; j < KEYS; j++) {
        for (uint32_t c = 0; c < D; c++)
            t.k[j * D + c] = k[j * D + c];
        for (uint32_t c = 0; c < 2 * KEYS; c++)
            t.v[j * 2 * KEYS + c] = c % KEYS == j;
    }
    float *out = trial_run(&t, device, 0);
    trial_free(&t);
    return out;
}

/* Returns only the first of the two matrices, rows x KEYS. */
static float *matrix(fovea_device *device, const fovea_attention_options *options, const float *q,
                     const float *k)
{
    float *out = matrices(device, options, q, k);
    for (uint32_t i = 0; i < options->rows * KEYS; i++)
        out[i] = out[i / KEYS * 2 * KEYS + i % KEYS];
    return out;
}

static double entropy(const float *p, uint32_t n)
{
    double sum = 0, out = 0;
    for (uint32_t i = 0; i < n; i++)
        sum += (double)p[i];
    for (uint32_t i = 0; i < n; i++)
        out -= p[i] > 0 ? (double)p[i] / sum * log((double)p[i] / sum) : 0;
    return out;
}

/* Returns the mean entropy of the weights for queries scaled by `size`. */
static double entropy_at(fovea_device *device, const char *attention, float size,
                         const float *power)
{
    enum { ROWS = 40 };
    fovea_attention_options o = shape(attention, ROWS, KEYS, 1, 1);
    float *q = trial_values(ROWS * D, 3, size), *k = trial_values(KEYS * D, 4, 2.f);
    o.scale = 1;
    o.power = power;
    float *p = matrix(device, &o, q, k);
    double mean = 0;
    for (uint32_t i = 0; i < ROWS; i++)
        mean += entropy(p + i * KEYS, KEYS) / ROWS;
    free(q);
    free(k);
    free(p);
    return mean;
}

/* A map with phi(a x) = a phi(x) cancels the query's norm. Softmax and the norm-aware map do not:
 * their weights become sharper as the norm grows. */
static void query_norm(void **state)
{
    (void)state;
    static const float sizes[] = {0.05f, 0.2f, 0.5f, 1.f};
    static const char *const aware[] = {"softmax", "nala", "nala-paper"};
    fovea_device *device = fixture_device(1);
    const double relu = entropy_at(device, "linear:relu", 0.01f, NULL);
    assert_true(relu > 1 && relu < log(KEYS));
    for (size_t s = 0; s < 4; s++)
        assert_true(fabs(entropy_at(device, "linear:relu", sizes[s], NULL) - relu) < 1e-4);
    for (size_t a = 0; a < 3; a++)
        for (size_t s = 1; s < 4; s++) {
            const double before = entropy_at(device, aware[a], sizes[s - 1], NULL);
            const double after = entropy_at(device, aware[a], sizes[s], NULL);
            if (!(after < before - 1e-3))
                fail_msg("%s: entropy %.4f at %.2f, %.4f at %.2f", aware[a], before,
                         (double)sizes[s - 1], after, (double)sizes[s]);
        }
    fovea_device_close(device);
}

/* The learned power p of pola, from 1 to 1 + alpha, sharpens the weights. */
static void power_lowers_entropy(void **state)
{
    (void)state;
    static const float powers[] = {-30.f, -1.f, 0.f, 1.f, 30.f};
    fovea_device *device = fixture_device(1);
    double before = INFINITY;
    for (size_t i = 0; i < sizeof powers / sizeof *powers; i++) {
        float power[D];
        for (uint32_t c = 0; c < D; c++)
            power[c] = powers[i];
        const double after = entropy_at(device, "pola", 2.f, power);
        if (!(after < before - 0.02))
            fail_msg("power %g: entropy %.4f, before %.4f", (double)powers[i], after, before);
        before = after;
    }
    fovea_device_close(device);
}

/* MALA: rows sum to 1. As the query grows by a, the ratio of two weights grows in favour of the
 * larger, from p to p_m by equation 13. Linear attention keeps the ratio constant. */
static void magnitude_aware(void **state)
{
    (void)state;
    static const char *const names[] = {"mala:relu", "mala-paper:relu", "mala", "mala:exp"};
    fovea_device *device = fixture_device(1);
    float *q = trial_values(D, 3, 1.f), *k = trial_values(KEYS * D, 4, 1.f);
    for (uint32_t c = 0; c < D; c++) /* all positive, so that relu is the identity */
        q[c] = 1e-3f * (q[c] + 1.5f);
    for (uint32_t c = 0; c < KEYS * D; c++)
        k[c] += 1.5f;
    for (size_t n = 0; n < 4; n++) {
        fovea_attention_options o = shape(names[n], 1, KEYS, 1, 1);
        float *p = matrix(device, &o, q, k);
        double sum = 0;
        for (uint32_t j = 0; j < KEYS; j++)
            sum += (double)p[j];
        if (!(fabs(sum - 1) <= 1e-5))
            fail_msg("%s: weights sum to %.7f", names[n], sum);
        free(p);
    }
    float grown[D];
    for (uint32_t c = 0; c < D; c++)
        grown[c] = 100 * q[c];
    for (int mala = 0; mala < 2; mala++) {
        fovea_attention_options o = shape(mala ? "mala:relu" : "linear:relu", 1, KEYS, 1, 1);
        float *p = matrix(device, &o, q, k), *p_m = matrix(device, &o, grown, k);
        uint32_t compared = 0;
        for (uint32_t m = 0; m < KEYS; m++)
            for (uint32_t i = 0; i < KEYS; i++) {
                if (!(p[i] > 0 && p_m[i] > 0 && p[m] > 1.001f * p[i]))
                    continue;
                compared++;
                const double ratio = (double)p[m] / (double)p[i];
                const double ratio_m = (double)p_m[m] / (double)p_m[i];
                if (mala ? !(ratio_m > 1.0001 * ratio) : !(fabs(ratio_m - ratio) <= 1e-5 * ratio))
                    fail_msg("%s: keys %u and %u from %.6f to %.6f", o.attention, m, i, ratio,
                             ratio_m);
            }
        assert_in_range(compared, KEYS, KEYS * KEYS);
        free(p);
        free(p_m);
    }
    free(q);
    free(k);
    fovea_device_close(device);
}

/* MALA's weights follow equation 13: with s_j = q.k_j and their sum S, a query scaled by `a` has
 * the weights a (1 + 1/(a S)) s_j - a S/N. The ratio of two weights therefore grows with a up to
 * (s_m - S/N) / (s_i - S/N), while the ratio of softmax is raised to the power a. */
static void magnitude_grows(void **state)
{
    (void)state;
    static const double sizes[] = {1, 2, 4, 8, 64, 4096};
    fovea_device *device = fixture_device(1);
    float *q = trial_values(D, 3, 1.f), *k = trial_values(KEYS * D, 4, 1.f), grown[D];
    double before[KEYS] = {0}, first[KEYS], score[KEYS] = {0}, sum = 0;
    uint32_t most = 0;
    for (uint32_t c = 0; c < D; c++)
        q[c] = 0.01f * (q[c] + 1.5f);
    for (uint32_t c = 0; c < KEYS * D; c++) /* all positive, so that relu is the identity */
        k[c] += 1.5f;
    for (uint32_t j = 0; j < KEYS; sum += score[j++])
        for (uint32_t c = 0; c < D; c++)
            score[j] += (double)q[c] * (double)k[j * D + c];
    for (uint32_t j = 0; j < KEYS; j++)
        most = score[j] > score[most] ? j : most;
    for (size_t a = 0; a < sizeof sizes / sizeof *sizes; a++) {
        fovea_attention_options o = shape("mala-paper:relu", 1, KEYS, 1, 1);
        for (uint32_t c = 0; c < D; c++)
            grown[c] = (float)sizes[a] * q[c];
        float *p = matrix(device, &o, grown, k);
        const double s = sizes[a] * sum, beta = 1 + 1 / s, gamma = s / KEYS;
        for (uint32_t j = 0; j < KEYS; j++) {
            const double want = beta * sizes[a] * score[j] - gamma, margin = score[j] - sum / KEYS;
            if (!(fabs((double)p[j] - want) <= 1e-4 * (fabs(want) + gamma)))
                fail_msg("key %u at %g: %.7f, by equation 13 %.7f", j, sizes[a], (double)p[j],
                         want);
            if (j == most || margin < 0.02 * sum / KEYS)
                continue; /* the limit holds only for scores above the mean */
            const double ratio = (double)p[most] / (double)p[j];
            const double softmax = exp(sizes[a] * (score[most] - score[j]));
            first[j] = a ? first[j] : ratio;
            if (!(ratio > before[j]) || !(ratio < (score[most] - sum / KEYS) / margin * 1.01))
                fail_msg("key %u at %g: ratio %.6f, before %.6f", j, sizes[a], ratio, before[j]);
            if (a > 4 && score[most] - score[j] > 0.01 && !(ratio / first[j] < 1e-3 * softmax))
                fail_msg("key %u at %g: grown to %.6f, softmax to %g", j, sizes[a], ratio, softmax);
            before[j] = ratio;
        }
        free(p);
    }
    free(q);
    free(k);
    fovea_device_close(device);
}

/* Sums
 * a b
 *  separately over channels whose signs agree and over those whose signs differ. */
static void by_sign(double out[2], const float *a, const float *b)
{
    out[0] = out[1] = 0;
    for (uint32_t c = 0; c < D; c++) {
        const double x = (double)a[c] * (double)b[c];
        out[x < 0] += fabs(x);
    }
}

/* Pola: every weight is positive, but unlike relu the map loses no part of q.k. At power 1 the
 * streams' weights are the sums over channels of equal and of opposite signs. */
static void polarity_kept(void **state)
{
    (void)state;
    enum { ROWS = 9 };
    fovea_device *device = fixture_device(1);
    float *q = trial_values(ROWS * D, 3, 2.f), *k = trial_values(KEYS * D, 4, 2.f), power[D];
    for (uint32_t c = 0; c < D; c++) /* for the last query relu lets only zeros through */
        q[(ROWS - 1) * D + c] = -fabsf(q[(ROWS - 1) * D + c]) - 0.1f;
    for (int at = 0; at < 3; at++) {
        fovea_attention_options o = shape("pola", ROWS, KEYS, 1, 1);
        for (uint32_t c = 0; c < D; c++)
            power[c] = at == 0 ? -40.f : (float)at * sinf((float)c);
        o.power = power;
        float *p = matrices(device, &o, q, k);
        for (uint32_t i = 0; i < ROWS; i++) {
            double sum[2] = {0}, all[2] = {0}, part[2];
            for (uint32_t j = 0; j < KEYS; j++) {
                by_sign(part, q + i * D, k + j * D);
                for (int s = 0; s < 2; s++) {
                    const float weight = p[i * 2 * KEYS + s * KEYS + j];
                    sum[s] += (double)weight;
                    all[s] += part[s];
                    if (!(weight > 0))
                        fail_msg("row %u, key %u, stream %d: %g", i, j, s, (double)weight);
                }
            }
            for (uint32_t j = 0; j < KEYS && at == 0; j++) {
                by_sign(part, q + i * D, k + j * D);
                for (int s = 0; s < 2; s++) {
                    const double got = (double)p[i * 2 * KEYS + s * KEYS + j];
                    if (!(fabs(got - part[s] / all[s]) <= 1e-5))
                        fail_msg("row %u, key %u, stream %d: %.7f, of its signs %.7f", i, j, s, got,
                                 part[s] / all[s]);
                }
            }
            assert_true(fabs(sum[0] - 1) < 1e-5 && fabs(sum[1] - 1) < 1e-5);
        }
        free(p);
    }
    free(q);
    free(k);
    fovea_device_close(device);
}

enum { PAIRS = 12 };

/* Computes phi(q_h).phi(k_h) of every pair. Each pair is one head of a causal sum of one token. */
static void similarities(float out[PAIRS], fovea_device *device, const char *map, const float *q,
                         const float *k)
{
    char name[40];
    snprintf(name, sizeof name, "linear:%s", map);
    fovea_attention_options o = shape(name, 1, 1, PAIRS, 1);
    fovea_plan *plan;
    float ones[PAIRS], *in_q = trial_values(PAIRS * D, 0, 0.f),
                       *in_k = trial_values(PAIRS * D, 0, 0.f);
    o.scale = 1;
    o.causal = 1;
    o.normalise = 0;
    for (uint32_t h = 0; h < PAIRS; h++)
        ones[h] = 1;
    memcpy(in_q, q, PAIRS * D * sizeof *q);
    memcpy(in_k, k, PAIRS * D * sizeof *k);
    const fovea_matrix inputs[] = {{in_q, 0}, {in_k, 0}, {ones, 0}};
    if (fovea_attention_plan_create(&plan, device, &o) != FOVEA_OK ||
        fovea_op_run(plan, inputs, 3, (fovea_matrix){out, 0}) != FOVEA_OK)
        fail_msg("%s: %s", name, fovea_error());
    fovea_plan_free(plan);
    free(in_q);
    free(in_k);
}

static double norm_of(const float *x)
{
    double sum = 0;
    for (uint32_t c = 0; c < D; c++)
        sum += (double)x[c] * (double)x[c];
    return sqrt(sum);
}

/* Returns sum_i
 * d(q)_i
 * ^p
 * k_i
 * ^3 cos(f(d(q)_i) - f(d(k)_i)), NaLa's (12), with p = 3 (1/2 + tanh
 * q
 * ); without the cosines, the same sum of magnitudes alone. */
static double norm_aware_similarity(const float *q, const float *k, bool cosines)
{
    const double nq = norm_of(q), nk = norm_of(k), p = 3 * (0.5 + tanh(nq)), turn = acos(-1) / 4;
    double out = 0;
    for (uint32_t c = 0; c < D; c++) {
        const double dq = (double)q[c] / nq, dk = (double)k[c] / nk;
        const double angle = turn * (tanh(dq) - tanh(dk));
        out += pow(fabs(dq), p) * pow(fabs((double)k[c]), 3) * (cosines ? cos(angle) : 1);
    }
    return out;
}

/* NaLa: similarities equal (12) and are positive for any signs. Vectors of equal direction lose
 * nothing, and opposite ones are inhibited. A key's norm is a factor, to the third power (15),
 * while a query's norm affects only the exponent. */
static void norms_tell_lengths(void **state)
{
    (void)state;
    fovea_device *device = fixture_device(1);
    float *q = trial_values(PAIRS * D, 3, 0.4f), *k = trial_values(PAIRS * D, 4, 1.5f);
    float got[PAIRS], larger[PAIRS], same[PAIRS], opposite[PAIRS], other[PAIRS];
    float *changed = trial_values(PAIRS * D, 0, 0.f);
    similarities(got, device, "nala-paper", q, k);
    similarities(same, device, "nala-paper", k, k);
    for (uint32_t i = 0; i < PAIRS * D; i++)
        changed[i] = 2 * k[i];
    similarities(larger, device, "nala-paper", q, changed);
    for (uint32_t i = 0; i < PAIRS * D; i++)
        changed[i] = -k[i];
    similarities(opposite, device, "nala-paper", changed, k);
    /* Both sizes saturate p = 3 * 1.5, so that a query's size has no further effect. */
    float *huge = trial_values(PAIRS * D, 3, 400.f);
    similarities(other, device, "nala-paper", huge, k);
    for (uint32_t i = 0; i < PAIRS * D; i++)
        huge[i] *= 8;
    similarities(changed, device, "nala-paper", huge, k);
    for (uint32_t h = 0; h < PAIRS; h++) {
        const double want = norm_aware_similarity(q + h * D, k + h * D, true);
        const double sizes = norm_aware_similarity(k + h * D, k + h * D, false);
        const double x = (double)got[h], s = (double)same[h], o = (double)opposite[h];
        if (!(x > 0) || !(fabs(x - want) <= 1e-5 * want))
            fail_msg("pair %u: %.8f, by (12) %.8f", h, x, want);
        if (!(fabs((double)larger[h] - 8 * x) <= 1e-5 * 8 * x))
            fail_msg("pair %u: %.8f with twice the key, %.8f before", h, (double)larger[h], x);
        if (!(fabs(s - sizes) <= 1e-5 * sizes))
            fail_msg("pair %u: %.8f of equal directions, of sizes %.8f", h, s, sizes);
        if (!(o < 0.999 * s && o > 0.366 * s))
            fail_msg("pair %u: %.8f of opposite directions, %.8f of equal ones", h, o, s);
        if (!(fabs((double)changed[h] / (double)other[h] - 1) < 1e-4))
            fail_msg("pair %u: %.8f, of larger queries %.8f", h, (double)other[h],
                     (double)changed[h]);
    }
    free(q);
    free(k);
    free(huge);
    free(changed);
    fovea_device_close(device);
}

/* SLA: the gates of one token sum to 1 and become one-hot as the logits grow. With one key, one
 * channel of ones and equal gates of the key, H times the output equals the query's gate. */
static void gates_choose(void **state)
{
    (void)state;
    enum { HEADS = 5 };
    static const float sizes[] = {0.f, 0.5f, 2.f, 8.f, 1e4f};
    fovea_device *device = fixture_device(1);
    double before = INFINITY;
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        fovea_attention_options o = shape("sla-linear:identity", 1, 1, HEADS, 1);
        fovea_plan *plan;
        float ones[HEADS], equal[HEADS] = {0}, logits[HEADS], out[HEADS];
        double sum = 0;
        o.head_dim = 1;
        o.scale = 1;
        o.gates = FOVEA_GATES_LOGITS;
        for (uint32_t h = 0; h < HEADS; h++) {
            ones[h] = 1;
            logits[h] = sizes[s] * sinf((float)h + 0.5f);
        }
        const fovea_matrix inputs[] = {{ones, 0}, {ones, 0}, {ones, 0}, {logits, 0}, {equal, 0}};
        if (fovea_attention_plan_create(&plan, device, &o) != FOVEA_OK ||
            fovea_op_run(plan, inputs, 5, (fovea_matrix){out, 0}) != FOVEA_OK)
            fail_msg("%s", fovea_error());
        for (uint32_t h = 0; h < HEADS; h++)
            sum += HEADS * (double)out[h];
        const double after = entropy(out, HEADS);
        assert_true(fabs(sum - 1) <= 1e-5);
        assert_true(after < before);
        assert_true(s > 0 || fabs(after - log(HEADS)) < 1e-5);
        assert_true(s < 4 || fabs(HEADS * (double)out[1] - 1) <= 1e-6);
        before = after;
        fovea_plan_free(plan);
    }
    fovea_device_close(device);
}

enum { SLOTS = 4 };

/* Computes each token j's share of the attention of a query, averaged over the heads. q and k are
 * scaled by `size`, as are the logits q_h.w_h of gates, if there are gates. */
static void shares(double out[KEYS], fovea_device *device, const char *attention, float size,
                   const float *w)
{
    fovea_attention_options o = shape(attention, 1, KEYS, SLOTS, KEYS);
    fovea_plan *plan;
    float *q = trial_values(SLOTS * D, 3, 0.1f), *k = trial_values(KEYS * SLOTS * D, 4, 0.1f);
    float *v = trial_values(KEYS * SLOTS * KEYS, 0, 0.f), seen[SLOTS * KEYS];
    double sum = 0;
    for (uint32_t i = 0; i < SLOTS * D; i++)
        q[i] = size * (q[i] + 0.11f);
    for (uint32_t i = 0; i < KEYS * SLOTS * D; i++)
        k[i] = size * (k[i] + 0.11f);
    for (uint32_t j = 0; j < KEYS; j++)
        for (uint32_t h = 0; h < SLOTS; h++)
            v[(j * SLOTS + h) * KEYS + j] = 1;
    o.normalise = 0;
    if (w)
        o.gates = FOVEA_GATES_Q_BLOCKDIAG;
    o.gate_q = o.gate_k = w;
    const fovea_matrix inputs[] = {{q, 0}, {k, 0}, {v, 0}};
    if (fovea_attention_plan_create(&plan, device, &o) != FOVEA_OK ||
        fovea_op_run(plan, inputs, 3, (fovea_matrix){seen, 0}) != FOVEA_OK)
        fail_msg("%s: %s", attention, fovea_error());
    for (uint32_t j = 0; j < KEYS; j++) {
        out[j] = 0;
        for (uint32_t h = 0; h < SLOTS; h++)
            out[j] += (double)seen[h * KEYS + j];
        sum += out[j];
    }
    for (uint32_t j = 0; j < KEYS; j++)
        out[j] /= sum;
    fovea_plan_free(plan);
    free(q);
    free(k);
    free(v);
}

/* Returns the head with the largest logit. */
static uint32_t slot_of(const float *x, const float *w)
{
    double best = -INFINITY;
    uint32_t out = 0;
    for (uint32_t h = 0; h < SLOTS; h++) {
        double logit = 0;
        for (uint32_t c = 0; c < D; c++)
            logit += ((double)x[h * D + c] + 0.11) * (double)w[h * D + c];
        out = logit > best ? h : out;
        best = fmax(logit, best);
    }
    return out;
}

/* SLA: heads compete. With a homogeneous map, linear attention gives every token the same share for
 * any size of queries and keys. With gates, the tokens of the query's slot gain a larger share as
 * sizes grow, and all of it in the limit. */
static void slots_compete(void **state)
{
    (void)state;
    static const float sizes[] = {0.01f, 4.f, 16.f, 64.f, 2048.f};
    fovea_device *device = fixture_device(1);
    float *w = trial_values(SLOTS * D, 8, 1.f), *q = trial_values(SLOTS * D, 3, 0.1f);
    float *k = trial_values(KEYS * SLOTS * D, 4, 0.1f);
    double plain[KEYS], linear[KEYS], gated[KEYS], before = 0;
    const uint32_t winner = slot_of(q, w);
    uint32_t members = 0;
    shares(plain, device, "linear:relu", 1, NULL);
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        double inside = 0;
        shares(linear, device, "linear:relu", sizes[s], NULL);
        shares(gated, device, "sla-linear:relu", sizes[s], w);
        members = 0;
        for (uint32_t j = 0; j < KEYS; j++) {
            const bool member = slot_of(k + (size_t)j * SLOTS * D, w) == winner;
            members += member;
            inside += member ? gated[j] : 0;
            if (!(fabs(linear[j] - plain[j]) <= 1e-5))
                fail_msg("linear, token %u: %.6f at %g, %.6f at 1", j, linear[j], (double)sizes[s],
                         plain[j]);
            if (s == 0 && !(fabs(gated[j] - plain[j]) <= 0.1 * plain[j]))
                fail_msg("token %u: %.6f of gates that are nearly equal, %.6f without", j, gated[j],
                         plain[j]);
        }
        if (!(inside > before))
            fail_msg("the winner's tokens have %.6f at %g, %.6f before", inside, (double)sizes[s],
                     before);
        before = inside;
    }
    assert_in_range(members, 1, KEYS - 1);
    assert_true(before > 1 - 1e-4);
    free(w);
    free(q);
    free(k);
    fovea_device_close(device);
}

static const char *const all[] = {
    "softmax",
    "linear:elu1",
    "linear:relu",
    "linear:exp",
    "linear:softplus",
    "linear:softmax",
    "linear:silu",
    "linear:identity",
    "mala",
    "mala:relu",
    "mala:exp",
    "mala-paper",
    "pola",
    "nala",
    "nala-paper",
    "hedgehog",
    "sla-linear",
    "sla-linear:silu",
    "sla-linear:identity",
};
enum { EACH = sizeof all / sizeof *all };

static void expect_equal(const char *what, const float *a, const float *b, size_t n, double allowed)
{
    double *want = malloc(n * sizeof *want);
    for (size_t i = 0; i < n; i++)
        want[i] = (double)b[i];
    trial_close(what, a, want, n, allowed);
    free(want);
}

/* Permutes the rows of x: row i comes from row 37 i mod rows. */
static void shuffle(float *x, uint32_t rows, uint32_t width)
{
    float *old = malloc((size_t)rows * width * sizeof *old);
    memcpy(old, x, (size_t)rows * width * sizeof *old);
    for (uint32_t i = 0; i < rows; i++)
        memcpy(x + (size_t)i * width, old + (size_t)(37 * i % rows) * width, width * sizeof *x);
    free(old);
}

/* The order of the keys does not matter. Permuted queries give permuted outputs, bit by bit. */
static void permutation(void **state)
{
    (void)state;
    enum { ROWS = 300, HEADS = 2, DV = 10 };
    fovea_device *device = fixture_device(2);
    for (size_t i = 0; i < EACH; i++) {
        fovea_attention_options o = shape(all[i], ROWS, ROWS, HEADS, DV);
        trial t = trial_make(&o, 1);
        float *plain = trial_run(&t, device, 0);
        shuffle(t.k, ROWS, HEADS * D);
        shuffle(t.v, ROWS, HEADS * DV);
        if (t.gate_k)
            shuffle(t.gate_k, ROWS, HEADS);
        float *keys = trial_run(&t, device, 0);
        expect_equal(all[i], keys, plain, (size_t)ROWS * HEADS * DV, 1e-5);
        shuffle(t.q, ROWS, HEADS * D);
        if (t.gate_q)
            shuffle(t.gate_q, ROWS, HEADS);
        float *queries = trial_run(&t, device, 0);
        shuffle(keys, ROWS, HEADS * DV);
        if (memcmp(queries, keys, (size_t)ROWS * HEADS * DV * sizeof *keys) != 0)
            fail_msg("%s: a query's place changes its result", all[i]);
        free(plain);
        free(keys);
        free(queries);
        trial_free(&t);
    }
    fovea_device_close(device);
}

/* out(v + 2 w) = out(v) + 2 out(w). */
static void linear_in_values(void **state)
{
    (void)state;
    enum { ROWS = 90, HEADS = 2, DV = 10, N = ROWS * HEADS * DV };
    fovea_device *device = fixture_device(2);
    for (size_t i = 0; i < EACH; i++) {
        fovea_attention_options o = shape(all[i], ROWS, ROWS, HEADS, DV);
        trial t = trial_make(&o, 1);
        float *v = t.v, *w = trial_values(N, 17, 1.f), *both = trial_values(N, 0, 0.f);
        for (size_t c = 0; c < N; c++)
            both[c] = v[c] + 2 * w[c];
        float *out_v = trial_run(&t, device, 0);
        t.v = w;
        float *out_w = trial_run(&t, device, 0);
        t.v = both;
        float *out = trial_run(&t, device, 0);
        t.v = v;
        for (size_t c = 0; c < N; c++)
            out_v[c] += 2 * out_w[c];
        expect_equal(all[i], out, out_v, N, 1e-5);
        free(w);
        free(both);
        free(out_v);
        free(out_w);
        free(out);
        trial_free(&t);
    }
    fovea_device_close(device);
}

/* A NaN in one query affects only its own row, and so does a NaN in a gate. */
static void nan_stays(void **state)
{
    (void)state;
    enum { ROWS = 60, HEADS = 2, DV = 10, BAD = 41, WIDE = HEADS * DV };
    fovea_device *device = fixture_device(2);
    for (size_t i = 0; i < EACH; i++)
        for (int gate = 0; gate <= !strncmp(all[i], "sla", 3); gate++) {
            fovea_attention_options o = shape(all[i], ROWS, ROWS, HEADS, DV);
            trial t = trial_make(&o, 1);
            float *good = trial_run(&t, device, 0);
            if (gate)
                t.gate_q[BAD * HEADS + 1] = NAN;
            else
                t.q[BAD * HEADS * D + D + 3] = NAN;
            float *bad = trial_run(&t, device, 0);
            for (uint32_t c = 0; c < ROWS * WIDE; c++) {
                const bool hit = c / DV == BAD * HEADS + 1;
                if (hit ? !isnan(bad[c]) : memcmp(bad + c, good + c, sizeof *bad))
                    fail_msg("%s: row %u, column %u is %g", all[i], c / WIDE, c % WIDE,
                             (double)bad[c]);
            }
            free(good);
            free(bad);
            trial_free(&t);
        }
    fovea_device_close(device);
}

/* Queries and keys of all zeros: features that are zero give 0, never 0/0; other features give the
 * mean. */
static void zeros(void **state)
{
    (void)state;
    enum { ROWS = 20, HEADS = 2, DV = 10, WIDE = HEADS * DV };
    static const char *const vanish[] = {"linear:relu", "mala:relu", "mala-paper:relu",
                                         "pola",        "nala",      "nala-paper"};
    fovea_device *device = fixture_device(2);
    for (size_t i = 0; i < sizeof vanish / sizeof *vanish; i++)
        for (int side = 0; side < 2; side++) {
            fovea_attention_options o = shape(vanish[i], ROWS, ROWS, HEADS, DV);
            o.eps = 1e-6;
            trial t = trial_make(&o, 1);
            /* One query is zero, or all keys are. For relu, negative values act as zeros, too. */
            float *x = side ? t.k : t.q + 3 * HEADS * D;
            for (uint32_t c = 0; c < (side ? ROWS : 1) * HEADS * D; c++)
                x[c] = strstr(vanish[i], "relu") ? -1 - fabsf(x[c]) : 0;
            float *out = trial_run(&t, device, 0);
            for (uint32_t c = 0; c < ROWS * WIDE; c++) {
                if (!isfinite(out[c]))
                    fail_msg("%s: row %u is %g", vanish[i], c / WIDE, (double)out[c]);
                if ((side || c / WIDE == 3) && !(fabsf(out[c]) <= 0.f))
                    fail_msg("%s: row %u is %g, not 0", vanish[i], c / WIDE, (double)out[c]);
            }
            trial_expect(&t, out, ROWS, 1e-5);
            free(out);
            trial_free(&t);
        }
    fovea_device_close(device);
}

/* e^200 overflows float32, but its share of a sum does not; the same holds for all maps. */
static void large_inputs(void **state)
{
    (void)state;
    enum { ROWS = 30, HEADS = 2, DV = 10 };
    static const char *const names[] = {"linear:exp",     "linear:elu1", "linear:softplus",
                                        "linear:softmax", "softmax",     "sla-linear:exp",
                                        "linear:relu"};
    fovea_device *device = fixture_device(2);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        fovea_attention_options o = shape(names[i], ROWS, ROWS, HEADS, DV);
        trial t = trial_make(&o, 1);
        for (uint32_t c = 0; c < ROWS * HEADS * D; c++) {
            t.q[c] = roundf(100 * t.q[c]);
            t.k[c] = roundf(100 * t.k[c]);
        }
        t.q[5] = 200;
        t.k[5] = 200;
        float *out = trial_run(&t, device, 0);
        trial_expect(&t, out, ROWS, 2e-5);
        free(out);
        trial_free(&t);
    }
    /* Without a shift the products themselves must be finite. */
    for (int causal = 0; causal < 2; causal++) {
        fovea_attention_options o =
            shape(causal ? "linear:exp" : "mala:exp", ROWS, ROWS, HEADS, DV);
        o.causal = causal;
        trial t = trial_make(&o, 1);
        t.q[5] = t.k[5] = 40;
        float *out = trial_run(&t, device, 0);
        trial_expect(&t, out, ROWS, 2e-5);
        free(out);
        trial_free(&t);
    }
    fovea_device_close(device);
}

/* Unsupported options are refused with the right status and message. */
static void refusals(void **state)
{
    (void)state;
    static const struct {
        const char *attention;
        int causal, normalise;
        uint32_t d, dv, rope;
        fovea_status status;
    } cases[] = {
        {"linear:silu", 0, 1, 8, 8, 0, FOVEA_EINVAL},
        {"linear:identity", 1, 1, 8, 8, 0, FOVEA_EINVAL},
        {"linear:nonsense", 0, 1, 8, 8, 0, FOVEA_ENOTSUP},
        {"mala:softplus", 0, 1, 8, 8, 0, FOVEA_ENOTSUP},
        {"sla-softmax", 0, 1, 8, 8, 0, FOVEA_ENOTSUP},
        {"sla-", 0, 1, 8, 8, 0, FOVEA_ENOTSUP},
        {"pola", 0, 1, 8, 7, 0, FOVEA_EINVAL},
        {"gla:nala", 1, 0, 8, 8, 0, FOVEA_ENOTSUP},
        {"mala", 0, 1, 6, 8, 1, FOVEA_EINVAL},
        {"mala", 0, 1, 8, 8, 0, FOVEA_OK},
        {"mala", 0, 1, 8, 8, 1, FOVEA_OK},
        {"linear:silu", 0, 0, 8, 8, 0, FOVEA_OK},
        {"gla", 1, 0, 8, 8, 0, FOVEA_OK},
    };
    fovea_device *device = fixture_device(1);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fovea_attention_options o = shape(cases[i].attention, 6, 6, 2, cases[i].dv);
        fovea_plan *plan = NULL;
        o.head_dim = cases[i].d;
        o.causal = cases[i].causal;
        o.normalise = cases[i].normalise;
        o.rope_width = cases[i].rope ? 3 : 0;
        o.rope_height = cases[i].rope ? 2 : 0;
        const fovea_status got = fovea_attention_plan_create(&plan, device, &o);
        if (got != cases[i].status)
            fail_msg("%s, case %zu: %s (%s)", o.attention, i, fovea_status_text(got),
                     got ? fovea_error() : "planned");
        assert_true(!got == !!plan);
        fovea_plan_free(plan);
    }
    fovea_device_close(device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(query_norm),      cmocka_unit_test(power_lowers_entropy),
        cmocka_unit_test(magnitude_aware), cmocka_unit_test(magnitude_grows),
        cmocka_unit_test(polarity_kept),   cmocka_unit_test(norms_tell_lengths),
        cmocka_unit_test(gates_choose),    cmocka_unit_test(slots_compete),
        cmocka_unit_test(permutation),     cmocka_unit_test(linear_in_values),
        cmocka_unit_test(nan_stays),       cmocka_unit_test(zeros),
        cmocka_unit_test(large_inputs),    cmocka_unit_test(refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
