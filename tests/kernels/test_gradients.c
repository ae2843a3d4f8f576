/* test_gradients.c: compares the double-precision gradients of attention, which are the reference
 * of the kernels, with central finite differences; and the differentiated formulas with oracle.c.
 */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/kernels/oracle.h"
#include "tests/kernels/oracle_grad.h"

enum { HEADS = 2, D = 4, DV = 6, ROWS = 5, WIDTH = HEADS * D, WIDTH_V = HEADS * DV, PARAMS = 2 };

/* The inputs of attention; the gradient has the same form. */
typedef struct inputs {
    double q[ROWS * WIDTH], k[ROWS * WIDTH], v[ROWS * WIDTH_V];
    double gate_q[ROWS * HEADS], gate_k[ROWS * HEADS], param[PARAMS * WIDTH];
} inputs;

enum { VALUES = sizeof(inputs) / sizeof(double) };

typedef struct setting {
    enum fv_mech mech;
    bool plain, gated, rope;
    double eps, alpha;
    double cos[ROWS * D], sin[ROWS * D], dout[ROWS * WIDTH_V];
} setting;

static uint64_t state = 1;

static double uniform(void)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (double)(state >> 11) * 0x1p-53;
}

/* Returns floats that are not near zero, where maps may have a corner. */
static double draw(void)
{
    const double x = 0.05 + 1.5 * uniform();
    return (float)(uniform() < 0.5 ? -x : x);
}

static oracle_lattn problem(const setting *s, const inputs *x)
{
    const bool mala = fv_mech_table[s->mech]->wants & FV_WANT_CENTRED;
    return (oracle_lattn){.heads = HEADS,
                          .d = D,
                          .dv = DV,
                          .scale = mala       ? 0.5
                                   : s->plain ? 0.5 * ROWS
                                              : 1.,
                          .eps = s->eps,
                          .alpha = s->alpha,
                          .mean = 1. / ROWS,
                          .plain = s->plain,
                          .param = x->param};
}

static fv_lattn_state layout(const setting *s)
{
    const fv_mech_traits *t = fv_mech_table[s->mech];
    return fv_lattn_layout(t->blocks, t->wants, D, DV);
}

static oracle_token token(const setting *s, const inputs *x, uint32_t row, bool query)
{
    return (oracle_token){.x = (query ? x->q : x->k) + row * WIDTH,
                          .v = x->v + row * WIDTH_V,
                          .cos = s->rope ? s->cos + row * D : NULL,
                          .sin = s->rope ? s->sin + row * D : NULL,
                          .gate = !s->gated ? NULL : (query ? x->gate_q : x->gate_k) + row * HEADS};
}

/* Returns the state after all keys; the caller frees it. */
static double *reduce(const setting *s, const inputs *x)
{
    const fv_lattn_state l = layout(s);
    const uint32_t wants = fv_mech_table[s->mech]->wants;
    const oracle_lattn a = problem(s, x);
    double *all = calloc(HEADS * l.floats, sizeof *all);
    for (uint32_t h = 0; h < HEADS; h++) {
        double *one = all + h * l.floats;
        for (uint32_t i = 0; i < DV && wants & FV_WANT_CENTRED; i++)
            for (uint32_t r = 0; r < ROWS; r++)
                one[l.vmean + i] += x->v[r * WIDTH_V + h * DV + i] / ROWS;
        for (uint32_t i = 0; i < D && wants & FV_WANT_SHIFT; i++) {
            one[l.shift + i] = -INFINITY;
            for (uint32_t r = 0; r < ROWS; r++)
                one[l.shift + i] = fmax(one[l.shift + i], x->k[r * WIDTH + h * D + i]);
        }
    }
    for (uint32_t r = 0; r < ROWS; r++) {
        const oracle_token t = token(s, x, r, false);
        oracle_mechs[s->mech]->reduce(&a, all, &t);
    }
    return all;
}

static void forward(const setting *s, const inputs *x, double *out)
{
    const oracle_lattn a = problem(s, x);
    double *all = reduce(s, x);
    for (uint32_t r = 0; r < ROWS; r++) {
        const oracle_token t = token(s, x, r, true);
        oracle_mechs[s->mech]->apply(&a, all, &t, out + r * WIDTH_V);
    }
    free(all);
}

static double loss(const setting *s, const inputs *x)
{
    double out[ROWS * WIDTH_V], sum = 0.;
    forward(s, x, out);
    for (uint32_t i = 0; i < ROWS * WIDTH_V; i++)
        sum += out[i] * s->dout[i];
    return sum;
}

/* Divides gates times their gradients by the gates. */
static void ungate(double *to, const double *product, const double *gate)
{
    for (uint32_t h = 0; h < HEADS; h++)
        to[h] = gate ? product[h] / gate[h] : 0.;
}

static void gradient(const setting *s, const inputs *x, inputs *g)
{
    const fv_lattn_state l = layout(s);
    const oracle_lattn a = problem(s, x);
    const oracle_mech *m = oracle_mechs[s->mech];
    double *all = reduce(s, x), *dstate = calloc(HEADS * l.floats, sizeof *dstate);
    double product[HEADS];
    memset(g, 0, sizeof *g);
    for (uint32_t r = 0; r < ROWS; r++) {
        const oracle_token t = token(s, x, r, true);
        m->apply_grad(&a, all, &t, s->dout + r * WIDTH_V, g->q + r * WIDTH, dstate, product);
        ungate(g->gate_q + r * HEADS, product, t.gate);
        m->param_grad(&a, t.x, g->q + r * WIDTH, g->param);
    }
    for (uint32_t r = 0; r < ROWS; r++) {
        const oracle_token t = token(s, x, r, false);
        m->reduce_grad(&a, all, dstate, &t, g->k + r * WIDTH, g->v + r * WIDTH_V, product);
        ungate(g->gate_k + r * HEADS, product, t.gate);
        m->param_grad(&a, t.x, g->k + r * WIDTH, g->param);
    }
    free(all);
    free(dstate);
}

static double numerically(const setting *s, const inputs *x, uint32_t i)
{
    const double h = 1e-5;
    inputs near = *x;
    double *at = (double *)&near + i;
    *at += h;
    const double more = loss(s, &near);
    *at -= 2. * h;
    return (more - loss(s, &near)) / (2. * h);
}

/* Returns the largest difference, relative to the largest gradient. */
static double distance(const setting *s, const inputs *x, const inputs *g, double *size)
{
    double worst = 0., largest = 0.;
    for (uint32_t i = 0; i < VALUES; i++) {
        const double want = numerically(s, x, i);
        worst = fmax(worst, fabs(want - ((const double *)g)[i]));
        largest = fmax(largest, fabs(want));
        if (isnan(((const double *)g)[i]))
            return INFINITY;
    }
    *size = largest;
    return worst / largest;
}

/* Returns the difference from the same attention in oracle.c. */
static double forward_distance(const setting *s, const inputs *x)
{
    float q[ROWS * WIDTH], k[ROWS * WIDTH], v[ROWS * WIDTH_V], gates[2][ROWS * HEADS];
    float param[PARAMS * WIDTH], turn[2][ROWS * D];
    double out[ROWS * WIDTH_V], want[WIDTH_V], worst = 0., largest = 0.;
    for (uint32_t i = 0; i < ROWS * WIDTH; i++) {
        q[i] = (float)x->q[i];
        k[i] = (float)x->k[i];
    }
    for (uint32_t i = 0; i < ROWS * WIDTH_V; i++)
        v[i] = (float)x->v[i];
    for (uint32_t i = 0; i < ROWS * HEADS; i++) {
        gates[0][i] = (float)x->gate_q[i];
        gates[1][i] = (float)x->gate_k[i];
    }
    for (uint32_t i = 0; i < PARAMS * WIDTH; i++)
        param[i] = (float)x->param[i];
    for (uint32_t i = 0; i < ROWS * D; i++) {
        turn[0][i] = (float)s->cos[i];
        turn[1][i] = (float)s->sin[i];
    }
    const fv_mech_traits *t = fv_mech_table[s->mech];
    const bool sums = t->blocks == 1 && !t->params && !(t->wants & FV_WANT_CENTRED);
    const oracle_attention a = {.mech = s->mech,
                                .heads = HEADS,
                                .d = D,
                                .dv = DV,
                                .keys = ROWS,
                                .scale = 0.5,
                                .eps = sums ? s->eps * 0.5 * ROWS : s->eps,
                                .normalise = !s->plain,
                                .q = q,
                                .k = k,
                                .v = v,
                                .channel_scale = t->params ? param : NULL,
                                .power = t->params ? param + WIDTH : NULL,
                                .alpha = s->alpha,
                                .rope_cos = s->rope ? turn[0] : NULL,
                                .rope_sin = s->rope ? turn[1] : NULL,
                                .gate_q = s->gated ? gates[0] : NULL,
                                .gate_k = s->gated ? gates[1] : NULL};
    /* oracle.c scales sums but not means, and MALA always normalises. */
    const double factor = s->plain && !sums ? 1. / (0.5 * ROWS) : 1.;
    if (s->plain && t->wants & FV_WANT_CENTRED)
        return 0.;
    forward(s, x, out);
    for (uint32_t r = 0; r < ROWS; r++) {
        oracle_attend(&a, r, want);
        for (uint32_t i = 0; i < WIDTH_V; i++) {
            worst = fmax(worst, fabs(want[i] - factor * out[r * WIDTH_V + i]));
            largest = fmax(largest, fabs(want[i]));
        }
    }
    return worst / largest;
}

static int run(enum fv_mech mech, bool plain, bool gated, bool rope)
{
    setting s = {
        .mech = mech, .plain = plain, .gated = gated, .rope = rope, .eps = 1e-3, .alpha = 4.};
    inputs x, g;
    for (uint32_t i = 0; i < VALUES; i++)
        ((double *)&x)[i] = draw();
    for (uint32_t i = 0; i < ROWS * HEADS; i++) {
        x.gate_q[i] = fabs(x.gate_q[i]);
        x.gate_k[i] = fabs(x.gate_k[i]);
    }
    for (uint32_t i = 0; i < ROWS * D; i++) {
        const double angle = (double)(i / D) * (1. + i % D / 2);
        s.cos[i] = (float)cos(angle);
        s.sin[i] = (float)sin(angle);
    }
    for (uint32_t i = 0; i < ROWS * WIDTH_V; i++)
        s.dout[i] = draw();
    gradient(&s, &x, &g);
    double size = 0.;
    const double off = distance(&s, &x, &g, &size), forward_off = forward_distance(&s, &x);
    /* A gradient with a small error must not pass. */
    g.k[3] += 1e-5 * size;
    const bool caught = distance(&s, &x, &g, &size) > 1e-6;
    const bool good = off <= 1e-6 && forward_off <= 1e-6 && caught;
    if (!good)
        printf("%s%s%s%s: gradient off by %.2g, forward by %.2g%s\n", fv_mech_table[mech]->title,
               plain ? ", not normalised" : "", gated ? ", gated" : "", rope ? ", rotated" : "",
               off, forward_off, caught ? "" : ", a wrong one passes");
    return !good;
}

static int run_softmax(void)
{
    enum { N = 7 };
    double x[3 * N * D], dout[N * D], g[3 * N * D], out[N * D], worst = 0.;
    oracle_softmax a = {.rows = N,
                        .d = D,
                        .dv = D,
                        .scale = 0.5,
                        .q = x,
                        .k = x + N * D,
                        .v = x + 2 * N * D,
                        .dout = dout};
    for (uint32_t i = 0; i < 3 * N * D; i++)
        x[i] = draw();
    for (uint32_t i = 0; i < N * D; i++)
        dout[i] = draw();
    oracle_softmax_grad(&a, g, g + N * D, g + 2 * N * D);
    for (uint32_t i = 0; i < 3 * N * D; i++) {
        const double h = 1e-5, was = x[i];
        double want = 0.;
        for (int side = -1; side <= 1; side += 2) {
            x[i] = was + side * h;
            oracle_softmax_forward(&a, out);
            for (uint32_t j = 0; j < N * D; j++)
                want += side * out[j] * dout[j] / (2. * h);
        }
        x[i] = was;
        worst = fmax(worst, fabs(want - g[i]));
    }
    if (worst > 1e-6)
        printf("softmax: gradient off by %.2g\n", worst);
    return worst > 1e-6;
}

int main(void)
{
    int failed = run_softmax(), count = 1;
    for (enum fv_mech mech = FV_MECH_ANY + 1; mech < FV_MECH_COUNT; mech++) {
        const uint32_t wants = fv_mech_table[mech]->wants;
        for (uint32_t way = 0; way < 8; way++) {
            const bool plain = way & 1, gated = way & 2, rope = way & 4;
            if ((!plain && wants & FV_WANT_SIGNED) || (rope && !plain && wants & FV_WANT_SHIFT))
                continue;
            failed += run(mech, plain, gated, rope);
            count++;
        }
    }
    printf("%d settings, %d failed\n", count, failed);
    return failed != 0;
}
