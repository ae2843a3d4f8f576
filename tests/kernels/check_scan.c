/* check_scan.c: cases and definition of SCAN: the recurrence in double precision, oracle_scan. */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ops/contracts/sequence.h"
#include "tests/kernels/check.h"
#include "tests/kernels/oracle.h"

enum {
    PLAIN = FV_FLAG_UNNORMALISED,
    RETNET = PLAIN | FV_FLAG_DECAY,
    GLA = PLAIN | FV_FLAG_DECAY_CHANNEL,
    DELTANET = PLAIN | FV_FLAG_DELTA | FV_FLAG_L2,
    GATED_DELTANET = DELTANET | FV_FLAG_DECAY,
    SLA = FV_FLAG_GATED,
    MALA = FV_FLAG_CENTRED,

    DRIFT = 9000, /* enough rows to accumulate any systematic error */
};

/* Results of the recurrence in double precision, computed once for all rows of a case's values. */
typedef struct definition {
    double *out, *allowed;         /* [rows][heads * dv] */
    double *state, *state_allowed; /* in the operand's layout */
} definition;

static uint32_t width_of(const fv_problem *p)
{
    return oracle_blocks(p->mech) * p->dim[FV_ATTN_D];
}

static bool normalised(const fv_problem *p)
{
    return !(p->flags & FV_FLAG_UNNORMALISED);
}

static bool centred(const fv_problem *p)
{
    return p->flags & FV_FLAG_CENTRED;
}

static uint32_t state_size(const fv_problem *p)
{
    const uint32_t dv = p->dim[FV_ATTN_DV];
    return p->heads * (width_of(p) * (dv + normalised(p)) + (centred(p) ? dv + 1 : 0));
}

static bool make(check_case *c, uint32_t index)
{
    static const struct {
        uint8_t mech, in, out;
        uint32_t flags, rows, heads, d, dv, gap, chunk;
        bool constant; /* one decay for all tokens */
        bool unread;   /* no gates of queries */
    } cases[] = {
        {FV_MECH_IDENTITY, FV_F32, FV_F32, PLAIN, 1, 1, 1, 1, 0, 0, false},
        {FV_MECH_ELU1, FV_F32, FV_F32, 0, 1, 3, 16, 16, 0, 0, false},
        {FV_MECH_ELU1, FV_F32, FV_F32, 0, 67, 2, 9, 33, 1, 7, false},
        {FV_MECH_RELU, FV_F32, FV_F32, FV_FLAG_DECAY, 40, 2, 17, 5, 0, 0, false},
        {FV_MECH_ELU1, FV_F32, FV_F32, FV_FLAG_DECAY_CHANNEL | SLA, 35, 3, 20, 65, 3, 0, false},
        {FV_MECH_SOFTPLUS, FV_F32, FV_F32, FV_FLAG_DECAY | SLA, 130, 2, 7, 16, 0, 64, true},
        {FV_MECH_NALA, FV_F32, FV_F32, SLA, 33, 2, 6, 12, 0, 0, false},
        {FV_MECH_SILU, FV_F32, FV_F32, PLAIN | SLA, 129, 2, 33, 17, 0, 128, false},
        {FV_MECH_HEDGEHOG, FV_F32, FV_F32, 0, 45, 2, 10, 13, 1, 0, false},
        {FV_MECH_SOFTMAXF, FV_F32, FV_F32, FV_FLAG_DECAY, 30, 2, 11, 13, 1, 0, false},
        {FV_MECH_IDENTITY, FV_F32, FV_F32, RETNET, 70, 3, 64, 64, 0, 0, true},
        {FV_MECH_IDENTITY, FV_F32, FV_F32, RETNET | SLA, 200, 2, 12, 24, 5, 1000, true},
        {FV_MECH_ELU1, FV_F32, FV_F32, FV_FLAG_DECAY, DRIFT, 3, 4, 4, 0, 0, true},
        {FV_MECH_IDENTITY, FV_F32, FV_F32, RETNET | FV_FLAG_L2, 31, 1, 5, 3, 0, 1, false},
        {FV_MECH_IDENTITY, FV_F32, FV_F32, GLA, 64, 2, 64, 64, 0, 0, false},
        {FV_MECH_IDENTITY, FV_F32, FV_F32, GLA | SLA, 47, 3, 19, 11, 2, 5, false},
        {FV_MECH_EXP, FV_F32, FV_F32, GLA | FV_FLAG_L2, 21, 1, 80, 2, 0, 64, false},
        {FV_MECH_IDENTITY, FV_F32, FV_F32, DELTANET, 70, 2, 16, 16, 0, 0, false},
        {FV_MECH_SILU, FV_F32, FV_F32, DELTANET | SLA, 41, 3, 13, 40, 1, 3, false},
        {FV_MECH_IDENTITY, FV_F32, FV_F32, PLAIN | FV_FLAG_DELTA, 50, 1, 32, 9, 0, 16, false},
        {FV_MECH_IDENTITY, FV_F32, FV_F32, GATED_DELTANET, 150, 2, 64, 64, 0, 0, false},
        {FV_MECH_NALA, FV_F32, FV_F32, GATED_DELTANET | SLA, 37, 2, 10, 31, 0, 0, false},
        {FV_MECH_NALA_PAPER, FV_F32, FV_F32, GATED_DELTANET, 18, 1, 24, 7, 0, 9, true},
        {FV_MECH_ELU1, FV_F16, FV_F16, 0, 37, 2, 24, 9, 1, 0, false},
        {FV_MECH_IDENTITY, FV_BF16, FV_F32, RETNET, 35, 2, 15, 40, 0, 0, true},
        {FV_MECH_IDENTITY, FV_F16, FV_BF16, GLA | SLA, 20, 2, 33, 16, 0, 0, false},
        {FV_MECH_SILU, FV_BF16, FV_BF16, GATED_DELTANET | SLA, 34, 2, 9, 32, 3, 0, false},
        {FV_MECH_IDENTITY, FV_F32, FV_F32, GLA | SLA, 330, 2, 20, 70, 2, 0, false},
        {FV_MECH_ELU1, FV_F32, FV_F32, FV_FLAG_DECAY_CHANNEL, 260, 2, 12, 9, 0, 7, false},
        {FV_MECH_IDENTITY, FV_F32, FV_F32, GATED_DELTANET | SLA, 270, 2, 36, 70, 1, 0, false},
        {FV_MECH_IDENTITY, FV_F32, FV_F32, GATED_DELTANET, 140, 1, 100, 12, 0, 0, false},
        {FV_MECH_ELU1, FV_F32, FV_F32, SLA, 23, 2, 8, 12, 0, 0, false, true},
        {FV_MECH_IDENTITY, FV_F32, FV_F32, GLA | SLA, 44, 2, 18, 9, 1, 0, false, true},
        {FV_MECH_IDENTITY, FV_F32, FV_F32, GATED_DELTANET | SLA, 71, 2, 20, 24, 0, 0, false, true},
        {FV_MECH_ELU1, FV_F32, FV_F32, MALA, 1, 3, 1, 1, 0, 0, false},
        {FV_MECH_ELU1, FV_F32, FV_F32, MALA, 70, 2, 16, 16, 0, 0, false},
        {FV_MECH_ELU1, FV_F32, FV_F32, MALA | SLA, 131, 3, 33, 65, 3, 7, false},
        {FV_MECH_RELU, FV_F32, FV_F32, MALA | FV_FLAG_L2, 150, 2, 17, 5, 1, 1000, false},
        {FV_MECH_EXP, FV_F32, FV_F32, MALA, 47, 2, 9, 31, 0, 16, false},
        {FV_MECH_ELU1, FV_F16, FV_BF16, MALA, 37, 2, 24, 9, 1, 0, false},
        {FV_MECH_ELU1, FV_BF16, FV_F16, MALA | SLA, 20, 2, 40, 70, 0, 0, false},
        {FV_MECH_ELU1, FV_F32, FV_F32, MALA, DRIFT, 3, 4, 4, 0, 0, false},
        {FV_MECH_IDENTITY, FV_F32, FV_F32, RETNET | FV_FLAG_RECURRENT, 1, 12, 64, 64, 0, 0, true},
        {FV_MECH_IDENTITY, FV_F32, FV_F32, GATED_DELTANET | FV_FLAG_RECURRENT, 1, 12, 64, 64, 0, 0,
         false},
        {FV_MECH_IDENTITY, FV_F32, FV_F32, PLAIN, 2048, 1, 64, 64, 704, 0, false},
        {FV_MECH_IDENTITY, FV_F32, FV_F32, RETNET, 2048, 1, 64, 64, 704, 0, true},
        {FV_MECH_IDENTITY, FV_F32, FV_F32, GLA, 2048, 1, 64, 64, 704, 0, false},
        {FV_MECH_IDENTITY, FV_F32, FV_F32, GATED_DELTANET, 2048, 1, 64, 64, 704, 0, false},
        {FV_MECH_ELU1, FV_F32, FV_F32, MALA, 2048, 1, 64, 64, 704, 0, false},
    };
    if (index >= sizeof cases / sizeof *cases)
        return false;
    const uint32_t rows = cases[index].rows, heads = cases[index].heads, flags = cases[index].flags;
    const uint32_t d = cases[index].d, dv = cases[index].dv, gap = cases[index].gap;
    fv_problem *p = &c->args.prob;
    p->mech = cases[index].mech;
    p->in = cases[index].in;
    p->out = cases[index].out;
    p->flags = flags;
    p->heads = (uint16_t)heads;
    p->dim[FV_DIM_ROWS] = p->dim[FV_ATTN_KEYS] = rows;
    p->dim[FV_ATTN_D] = d;
    p->dim[FV_ATTN_DV] = dv;
    c->args.f[0] = 1.f / sqrtf((float)d);
    c->args.f[1] = 1e-6f;
    c->args.f[2] = centred(p) && index % 2 ? 0.125f : 0.f;
    c->args.u[0] = cases[index].chunk;
    check_matrix(c, FV_SCAN_Q, CHECK_ROW, rows, heads * d, gap);
    check_matrix(c, FV_SCAN_K, CHECK_ROW, rows, heads * d, gap);
    check_matrix(c, FV_SCAN_V, CHECK_ROW, rows, heads * dv, gap);
    if (flags & FV_FLAG_DECAY && cases[index].constant)
        check_vector(c, FV_SCAN_DECAY, heads);
    else if (flags & (FV_FLAG_DECAY | FV_FLAG_DECAY_CHANNEL))
        check_matrix(c, FV_SCAN_DECAY, CHECK_ROW, rows, flags & FV_FLAG_DECAY ? heads : heads * d,
                     gap);
    if (flags & FV_FLAG_DELTA)
        check_matrix(c, FV_SCAN_BETA, CHECK_ROW, rows, heads, gap);
    const int gates = cases[index].unread ? FV_SCAN_GATE_K : FV_SCAN_GATE_Q;
    for (int i = gates; flags & FV_FLAG_GATED && i <= FV_SCAN_GATE_K; i++)
        check_matrix(c, i, CHECK_ROW, rows, heads, gap);
    check_vector(c, FV_SCAN_STATE, state_size(p));
    check_matrix(c, FV_SCAN_OUT, CHECK_ROW, rows, heads * dv, gap);
    for (int i = 0; i < FV_SCAN_OUT; i++)
        c->operand[i].huge = i == FV_SCAN_V || i == FV_SCAN_STATE ? 1e6f : 8.f;
    for (int i = FV_SCAN_Q; i <= FV_SCAN_V; i++)
        c->operand[i].type = cases[index].in;
    c->operand[FV_SCAN_OUT].type = cases[index].out;
    if (flags & FV_FLAG_DELTA &&
        !(flags & FV_FLAG_L2)) /* with longer keys the recurrence is unstable */
        c->operand[FV_SCAN_K].scale = c->operand[FV_SCAN_K].huge = 0.5f / sqrtf((float)d);
    c->state = FV_SCAN_STATE;
    c->bench = rows == 2048 || flags & FV_FLAG_RECURRENT;
    return true;
}

/* Returns mostly slow decays, and a few that clear the state. */
static float draw_decay(check_random *r)
{
    static const float strong[] = {-60.f, -1e4f, -INFINITY, -10.f, -0.7f};
    const uint32_t i = check_below(r, 100);
    if (i < sizeof strong / sizeof *strong)
        return strong[i];
    return i < 20 ? 0.f : -(float)exp(check_normal(r) * 2. - 4.);
}

static float absolute(float x)
{
    return fabsf(x);
}

static float sigmoid(float x)
{
    return 1.f / (1.f + expf(-x));
}

static void change(check_case *c, int operand, uint32_t first, float f(float))
{
    const check_operand *o = &c->operand[operand];
    for (uint32_t y = 0; o->kind != CHECK_ABSENT && y < o->rows; y++)
        for (uint32_t x = first; x < o->cols; x++)
            *check_value(c, operand, y, x) = f(*check_value(c, operand, y, x));
}

/* ---- the definition ---- */

/* Returns operand i as packed floats, which the caller frees, or NULL if it is absent. */
static float *pack(const check_case *c, int i)
{
    const check_operand *o = &c->operand[i];
    if (o->kind == CHECK_ABSENT)
        return NULL;
    float *x = malloc((size_t)o->rows * o->cols * sizeof *x);
    for (uint32_t y = 0; y < o->rows; y++)
        for (uint32_t j = 0; j < o->cols; j++)
            x[(size_t)y * o->cols + j] = (float)check_at(c, i, y, j);
    return x;
}

/* Returns the mechanism that the oracle uses for a scan. */
static enum fv_mech mechanism(const fv_problem *p)
{
    if (!centred(p))
        return p->mech;
    return p->mech == FV_MECH_ELU1   ? FV_MECH_MALA
           : p->mech == FV_MECH_RELU ? FV_MECH_MALA_RELU
                                     : FV_MECH_MALA_EXP;
}

static oracle_sequence sequence(const check_case *c, float *x[FV_OPERANDS])
{
    const fv_problem *p = &c->args.prob;
    for (int i = 0; i < FV_SCAN_STATE; i++)
        x[i] = pack(c, i);
    return (oracle_sequence){.mech = mechanism(p),
                             .heads = p->heads,
                             .d = p->dim[FV_ATTN_D],
                             .dv = p->dim[FV_ATTN_DV],
                             .rows = p->dim[FV_DIM_ROWS],
                             .scale = (double)c->args.f[0],
                             .eps = (double)c->args.f[1],
                             .scale_by_tokens = (double)c->args.f[2],
                             .normalise = normalised(p),
                             .delta = (p->flags & FV_FLAG_DELTA) != 0,
                             .l2norm = (p->flags & FV_FLAG_L2) != 0,
                             .q = x[FV_SCAN_Q],
                             .k = x[FV_SCAN_K],
                             .v = x[FV_SCAN_V],
                             .log_decay = x[FV_SCAN_DECAY],
                             .decay_channel = (p->flags & FV_FLAG_DECAY_CHANNEL) != 0,
                             .decay_constant = !c->args.ld[FV_SCAN_DECAY],
                             .beta = x[FV_SCAN_BETA],
                             .gate_q = x[FV_SCAN_GATE_Q],
                             .gate_k = x[FV_SCAN_GATE_K]};
}

/* Returns the absolute values of the features of all rows of q or k as floats, heads * d' wide. */
static float *sizes_of_features(const oracle_sequence *s, bool query)
{
    const uint32_t width = oracle_blocks(s->mech) * s->d;
    float *out = malloc((size_t)s->rows * s->heads * width * sizeof *out);
    double *x = malloc(width * sizeof *x);
    for (uint32_t row = 0; row < s->rows; row++) {
        const oracle_row r = {.x = (query ? s->q : s->k) + (size_t)row * s->heads * s->d,
                              .heads = s->heads,
                              .d = s->d};
        for (uint32_t h = 0; h < s->heads; h++) {
            double square = 0.;
            oracle_features(s->mech, query, &r, h, x);
            for (uint32_t i = 0; i < width; i++)
                square += x[i] * x[i];
            for (uint32_t i = 0; i < width; i++)
                out[((size_t)row * s->heads + h) * width + i] =
                    (float)(fabs(x[i]) / (s->l2norm ? sqrt(square + 1e-6) : 1.));
        }
    }
    free(x);
    return out;
}

/* Returns the largest absolute value. */
static double most(const float *x, size_t n)
{
    double max = 0.;
    for (size_t i = 0; i < n; i++)
        max = fmax(max, fabs((double)x[i]));
    return max;
}

static double mean(const float *x, size_t n)
{
    double sum = 0.;
    for (size_t i = 0; i < n; i++)
        sum += fabs((double)x[i]);
    return sum / (double)n;
}

/* Without the delta rule every value is a sum, so its error is bounded by the sum of absolute
 * values: the recurrence over the operands' absolute values. */
static void bound_sums(const oracle_sequence *real, definition *w, const float *state)
{
    const size_t n = (size_t)real->rows * real->heads, values = oracle_state_size(real);
    const uint32_t width = oracle_blocks(real->mech) * real->d;
    oracle_sequence s = *real;
    float *q = sizes_of_features(real, true), *k = sizes_of_features(real, false);
    float *v = malloc(n * s.dv * sizeof *v);
    double *size = malloc(n * s.dv * sizeof *size);
    for (size_t i = 0; i < n * s.dv; i++)
        v[i] = fabsf(real->v[i]);
    for (size_t i = 0; i < values; i++)
        w->state_allowed[i] = fabs((double)state[i]);
    s.mech = FV_MECH_IDENTITY;
    s.l2norm = false;
    s.d = width;
    s.q = q;
    s.k = k;
    s.v = v;
    oracle_scan(&s, w->state_allowed, size);
    /* Features, decays and gates have errors of a few units each. Subnormal intermediate values are
     * flushed to zero. */
    const double flushed = FLT_MIN * (real->rows + 1.) * (1. + most(k, n * width)) *
                           (1. + most(v, n * s.dv)) * (1. + most(state, values));
    const double terms = real->rows + width + 64.;
    /* If a state receives only tiny additions, every token rounds it in the same direction. */
    const bool random = mean(k, n * width) * mean(v, n * s.dv) > 1e-2 * most(state, values);
    const double decayed = s.log_decay && !random ? FLT_EPSILON * real->rows : 0.;
    for (size_t i = 0; i < n * s.dv; i++) {
        double sum = 1.; /* the query's gate */
        for (uint32_t j = 0; j < width; j++)
            sum += (double)q[i / s.dv * width + j];
        w->allowed[i] = check_allowed(terms, 2. * size[i]) + decayed * size[i] +
                        flushed * sum / (s.normalise ? fmin(1., s.eps) : 1.);
    }
    for (size_t i = 0; i < values; i++)
        w->state_allowed[i] =
            check_allowed(terms, w->state_allowed[i]) + decayed * w->state_allowed[i] + flushed;
    free(q);
    free(k);
    free(v);
    free(size);
}

static double norm(const double *x, size_t n)
{
    double square = 0.;
    for (size_t i = 0; i < n; i++)
        square += x[i] * x[i];
    return sqrt(square);
}

/* The delta rule computes differences but never enlarges an error, because keys have at most length
 * 1. Each token adds an error of random sign to the state, of the size of its terms. */
static void bound_delta(const oracle_sequence *real, definition *w, const float *state)
{
    const uint32_t width = oracle_blocks(real->mech) * real->d, heads = real->heads;
    const size_t head = (size_t)width * real->dv, values = oracle_state_size(real);
    float *q = sizes_of_features(real, true), *k = sizes_of_features(real, false);
    double *s = malloc(values * sizeof *s), *square = calloc(heads, sizeof *square);
    const double flushed = FLT_MIN * (real->rows + 1.) * (1. + most(state, values)) *
                           (1. + most(real->v, (size_t)real->rows * heads * real->dv));
    for (size_t i = 0; i < values; i++)
        s[i] = (double)state[i];
    for (uint32_t row = 0; row < real->rows; row++) {
        const size_t at = (size_t)row * heads;
        oracle_sequence one = *real;
        one.rows = 1;
        one.q += at * real->d;
        one.k += at * real->d;
        one.v += at * real->dv;
        one.log_decay += real->log_decay && !real->decay_constant ? at : 0;
        one.beta += at;
        one.gate_q += real->gate_q ? at : 0;
        one.gate_k += real->gate_k ? at : 0;
        for (uint32_t h = 0; h < heads;
             h++) { /* of the states before and after, because either may be the larger */
            double values_square = 0.;
            for (uint32_t i = 0; i < real->dv; i++) {
                const double v = (double)one.v[h * real->dv + i];
                values_square += v * v;
            }
            const double added =
                check_allowed(width + 64., norm(s + h * head, head) + sqrt(values_square));
            square[h] += added * added;
        }
        oracle_scan(&one, s, NULL);
        for (uint32_t h = 0; h < heads; h++) {
            double query = 0.;
            for (uint32_t i = 0; i < width; i++)
                query += pow((double)q[(at + h) * width + i], 2.);
            query = sqrt(query) * fabs(real->scale);
            const double error =
                query * (sqrt(square[h]) + check_allowed(width + 64., norm(s + h * head, head)));
            for (uint32_t i = 0; i < real->dv; i++)
                w->allowed[(at + h) * real->dv + i] = error + flushed * (1. + query);
        }
    }
    for (size_t i = 0; i < values; i++)
        w->state_allowed[i] = sqrt(square[i / head]) + flushed;
    free(q);
    free(k);
    free(s);
    free(square);
}

/* MALA: every difference between a value and a mean has the error of their sum. */
static void bound_centred(const oracle_sequence *real, definition *w, const float *state)
{
    const uint32_t d = real->d, dv = real->dv, heads = real->heads, values_of_s = d * dv;
    const size_t n = (size_t)real->rows * heads, values = oracle_state_size(real);
    float *q = sizes_of_features(real, true), *k = sizes_of_features(real, false);
    double *size = w->state_allowed;
    const double flushed = FLT_MIN * (real->rows + 1.) * (1. + most(k, n * d)) *
                           (1. + most(real->v, n * dv)) * (1. + most(state, values));
    const double terms = real->rows + d + 64.;
    for (size_t i = 0; i < values; i++)
        size[i] = fabs((double)state[i]);
    for (size_t at = 0; at < n; at++) {
        const size_t h = at % heads;
        double *s = size + h * values_of_s, *z = size + heads * values_of_s + h * d;
        double *v = size + heads * (values_of_s + d) + h * dv;
        double *count = size + heads * (values_of_s + d + dv) + h;
        const double gate_q = real->gate_q ? (double)real->gate_q[at] : 1.;
        const double gate_k = real->gate_k ? (double)real->gate_k[at] : 1.;
        const double t = *count += 1., scale = fabs(real->scale + t * real->scale_by_tokens);
        double read = 0., query = 1.;
        for (uint32_t i = 0; i < dv; i++)
            v[i] += (fabs((double)real->v[at * dv + i]) - v[i]) / t;
        for (uint32_t c = 0; c < d; c++) {
            const double key = gate_k * (double)k[at * d + c];
            for (uint32_t i = 0; i < dv; i++) {
                const double value = fabs((double)real->v[at * dv + i]) + v[i];
                s[c * dv + i] += ((key + z[c]) * value - s[c * dv + i]) / t;
            }
            z[c] += (key - z[c]) / t;
            query += scale * (double)q[at * d + c];
            read += scale * (double)q[at * d + c] * z[c];
        }
        const double over = 1. / (read + real->eps);
        for (uint32_t i = 0; i < dv; i++) {
            double sum = 0.;
            for (uint32_t c = 0; c < d; c++)
                sum += scale * (double)q[at * d + c] * s[c * dv + i];
            w->allowed[at * dv + i] =
                check_allowed(terms, 2. * gate_q * ((1. + over) * sum + over * read * v[i])) +
                flushed * query / fmin(1., real->eps);
        }
    }
    for (size_t i = 0; i < values - heads; i++)
        size[i] = check_allowed(terms, size[i]) + flushed;
    for (size_t i = values - heads; i < values; i++)
        size[i] = 0.; /* a number of tokens is exact */
    free(q);
    free(k);
}

static void release(check_case *c)
{
    definition *w = c->definition;
    if (!w)
        return;
    free(w->out);
    free(w->allowed);
    free(w->state);
    free(w->state_allowed);
    free(w);
    c->definition = NULL;
}

static uint32_t head(const check_case *c, uint32_t col)
{
    const fv_problem *p = &c->args.prob;
    const uint32_t size[] = {width_of(p) * p->dim[FV_ATTN_DV], width_of(p), p->dim[FV_ATTN_DV], 1};
    uint32_t i = 0;
    for (; col >= p->heads * size[i]; i++)
        col -= p->heads * size[i];
    return col / size[i];
}

/* Sets the numbers of earlier tokens: 0 for the last head, whose state is zero, and positive for
 * the others. */
static void set_numbers(check_case *c)
{
    const fv_problem *p = &c->args.prob;
    const uint32_t values = state_size(p), last = p->heads - 1u;
    for (uint32_t h = 0; h < p->heads; h++)
        *check_value(c, FV_SCAN_STATE, 0, values - p->heads + h) = (float)(37 * (last - h));
    for (uint32_t i = 0; i < values; i++)
        if (head(c, i) == last)
            *check_value(c, FV_SCAN_STATE, 0, i) = 0.f;
}

static void prepare(check_case *c, check_random *r)
{
    const fv_problem *p = &c->args.prob;
    const check_operand *decay = &c->operand[FV_SCAN_DECAY];
    for (uint32_t y = 0; decay->kind != CHECK_ABSENT && y < decay->rows; y++)
        for (uint32_t x = 0; x < decay->cols; x++)
            *check_value(c, FV_SCAN_DECAY, y, x) =
                p->dim[FV_DIM_ROWS] == DRIFT ? -3e-5f - 2e-5f * (float)x : draw_decay(r);
    change(c, FV_SCAN_BETA, 0, sigmoid);
    change(c, FV_SCAN_GATE_Q, 0, sigmoid);
    change(c, FV_SCAN_GATE_K, 0, sigmoid);
    change(c, FV_SCAN_STATE, p->heads * width_of(p) * p->dim[FV_ATTN_DV], absolute); /* Z */
    if (centred(p))
        set_numbers(c);
}

static void define(check_case *c)
{
    release(c);
    float *x[FV_OPERANDS] = {0}, *state = pack(c, FV_SCAN_STATE);
    const oracle_sequence s = sequence(c, x);
    const size_t n = (size_t)s.rows * s.heads * s.dv, values = oracle_state_size(&s);
    definition *w = malloc(sizeof *w);
    *w = (definition){malloc(n * sizeof(double)), malloc(n * sizeof(double)),
                      malloc(values * sizeof(double)), malloc(values * sizeof(double))};
    for (size_t i = 0; i < values; i++)
        w->state[i] = (double)state[i];
    oracle_scan(&s, w->state, w->out);
    if (s.delta)
        bound_delta(&s, w, state);
    else if (centred(&c->args.prob))
        bound_centred(&s, w, state);
    else
        bound_sums(&s, w, state);
    for (int i = 0; i < FV_OPERANDS; i++)
        free(x[i]);
    free(state);
    c->definition = w;
}

static void oracle(const check_case *c, uint32_t row, double *want, double *allowed)
{
    const definition *w = c->definition;
    const size_t n = (size_t)c->args.prob.heads * c->args.prob.dim[FV_ATTN_DV];
    for (size_t i = 0; i < n; i++) {
        want[i] = w->out[row * n + i];
        allowed[i] = w->allowed[row * n + i] +
                     check_rounding(c->args.prob.out, fabs(want[i]) + w->allowed[row * n + i]);
    }
}

static void oracle_state(const check_case *c, double *want, double *allowed)
{
    const definition *w = c->definition;
    memcpy(want, w->state, state_size(&c->args.prob) * sizeof *want);
    memcpy(allowed, w->state_allowed, state_size(&c->args.prob) * sizeof *allowed);
}

const check_op check_scan = {.make = make,
                             .prepare = prepare,
                             .define = define,
                             .oracle = oracle,
                             .oracle_state = oracle_state,
                             .head = head,
                             .release = release};
