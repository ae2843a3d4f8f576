/* oracle_mech.c: gradients of linear attention of the mechanism FV_MECHANISM, in double precision.
 */
#include <float.h>
#include <stdlib.h>
#include <string.h>

#include "ops/kernel.h"
#include "tests/kernels/oracle_grad.h"
#include "tests/kernels/scalar64.h"
#define FV_DERIVE
#include "mech/mech.h"

#define CENTRED (FV_WANTS & FV_WANT_CENTRED)
#define SHIFT (FV_WANTS & FV_WANT_SHIFT)

static fv_lattn_state layout(const oracle_lattn *a)
{
    return fv_lattn_layout(FV_BLOCKS, FV_WANTS, a->d, a->dv);
}

static double *doubles(size_t n)
{
    double *p = calloc(n ? n : 1, sizeof *p);
    if (!p)
        abort();
    return p;
}

/* Returns channel i of a head. `shift` is the head's, or NULL; for a query it is negated. */
static fv_row channel(const oracle_lattn *a, uint32_t head, uint32_t i, const double *shift)
{
    fv_row r = {.shift = shift ? shift[i] : 0., .alpha = (float)a->alpha};
#if FV_PARAMS
    for (int p = 0; p < FV_PARAMS; p++)
        r.param[p] = fv_param(p, a->param[((size_t)p * a->heads + head) * a->d + i], a->alpha);
#endif
    (void)a, (void)head;
    return r;
}

static fv_row with_stats(fv_row r, fv_row done)
{
    for (int t = 0; t < 3; t++)
        r.stat[t] = done.stat[t];
    return r;
}

static fv_row statistics(const oracle_lattn *a, int query, const double *x, uint32_t head,
                         const double *shift)
{
    fv_row done = {.shift = 0., .alpha = (float)a->alpha};
#if FV_STATS
    const uint32_t h0 = FV_STAT_WIDE ? 0 : head, h1 = FV_STAT_WIDE ? a->heads : head + 1;
    const int count = query ? FV_STATS : FV_STATS_KEY;
    if (!count || (SHIFT && !shift))
        return done;
    for (int t = 0; t < count; t++) {
        const bool max = FV_STAT_MAX >> t & 1;
        double sum = max ? -INFINITY : 0.;
        for (uint32_t h = h0; h < h1; h++) {
            for (uint32_t i = 0; i < a->d; i++) {
                const double y =
                    fv_stat(t, query, x[h * a->d + i], with_stats(channel(a, h, i, shift), done));
                sum = max ? fmax(sum, y) : sum + y;
            }
        }
        done.stat[t] = sum;
    }
    done = fv_stats_done(query, done);
#endif
    (void)a, (void)query, (void)x, (void)head, (void)shift;
    return done;
}

/* Returns the shift of a head's rows, or NULL. */
static double *shift_of(const oracle_lattn *a, const double *state, double factor)
{
    if (!SHIFT || a->plain)
        return NULL;
    double *shift = doubles(a->d);
    for (uint32_t i = 0; i < a->d; i++)
        shift[i] = factor * state[layout(a).shift + i];
    return shift;
}

static void features(const oracle_lattn *a, int query, const double *x, uint32_t head,
                     const double *shift, double *f)
{
    const fv_row done = statistics(a, query, x, head, shift);
    for (uint32_t i = 0; i < a->d; i++) {
        fv_v y[FV_BLOCKS];
        fv_phi(y, query, x[head * a->d + i], with_stats(channel(a, head, i, shift), done));
        for (int b = 0; b < FV_BLOCKS; b++)
            f[(uint32_t)b * a->d + i] = y[b];
    }
}

/* Computes out = R f, or out = R^T f. */
static void rotate(const oracle_lattn *a, const oracle_token *t, const double *f, double *out,
                   bool back)
{
    const uint32_t width = FV_BLOCKS * a->d;
    for (uint32_t i = 0; i < width; i++)
        out[i] = f[i];
    for (uint32_t i = 0; t->cos && i < width; i += 2) {
        const uint32_t c = i % a->d;
        const double x = f[i], y = f[i + 1];
        out[i] = x * t->cos[c] + (back ? y * t->sin[c + 1] : -y * t->sin[c]);
        out[i + 1] = y * t->cos[c + 1] + (back ? -x * t->sin[c] : x * t->sin[c + 1]);
    }
}

/* Computes dx of a head from df, the gradients of the features of the heads that share a statistic,
 * from head 0 on. */
static void row_grad(const oracle_lattn *a, int query, const double *x, uint32_t head,
                     const double *shift, const double *df, double *dx)
{
    const uint32_t width = FV_BLOCKS * a->d;
    const fv_row done = statistics(a, query, x, head, shift);
    double sum[2] = {0., 0.};
#if FV_SUMS || FV_SUMS_KEY
    const uint32_t h0 = FV_STAT_WIDE ? 0 : head, h1 = FV_STAT_WIDE ? a->heads : head + 1;
    for (int t = 0; t < (query ? FV_SUMS : FV_SUMS_KEY); t++) {
        for (uint32_t h = h0; h < h1; h++) {
            for (uint32_t i = 0; i < a->d; i++) {
                fv_v g[FV_BLOCKS];
                for (int b = 0; b < FV_BLOCKS; b++)
                    g[b] = df[h * width + (uint32_t)b * a->d + i];
                sum[t] += fv_sum_term(t, query, x[h * a->d + i], g,
                                      with_stats(channel(a, h, i, shift), done));
            }
        }
    }
#endif
    for (uint32_t i = 0; i < a->d; i++) {
        fv_v g[FV_BLOCKS];
        for (int b = 0; b < FV_BLOCKS; b++)
            g[b] = df[head * width + (uint32_t)b * a->d + i];
        dx[i] = fv_phi_grad(query, x[head * a->d + i], g,
                            with_stats(channel(a, head, i, shift), done), sum);
    }
}

/* ---- queries ---- */

/* Intermediate results for a query of one head. */
typedef struct query {
    uint32_t head;
    double *shift, *f, *turned, *o; /* o: of all value channels */
    double z[FV_STREAMS], w, eps, gate;
} query;

static query query_open(const oracle_lattn *a, const double *state, const oracle_token *t,
                        uint32_t head)
{
    const fv_lattn_state l = layout(a);
    const uint32_t width = FV_BLOCKS * a->d;
    query q = {.head = head,
               .shift = shift_of(a, state, -1.),
               .f = doubles(2 * width),
               .o = doubles(a->dv),
               .eps = fmax(a->eps, FLT_MIN),
               .gate = t->gate ? t->gate[head] : 1.};
    q.turned = q.f + width;
    features(a, 1, t->x, head, q.shift, q.f);
    rotate(a, t, q.f, q.turned, false);
    if (q.shift && a->eps > 0.)
        q.eps = fmax(FLT_MIN, a->eps * exp(-statistics(a, 1, t->x, head, q.shift).stat[0]));
    for (uint32_t i = 0; i < width; i++) {
        for (uint32_t s = 0; s < FV_STREAMS; s++)
            q.z[s] += q.f[i] * a->scale * state[l.m + (i / a->d ^ s) * a->d + i % a->d];
        if (CENTRED)
            q.w += q.turned[i] * a->scale * state[l.w + i];
        for (uint32_t j = 0; j < a->dv; j++) {
            const uint32_t row = (i / a->d ^ j / (a->dv / FV_STREAMS)) * a->d + i % a->d;
            q.o[j] += q.turned[i] * a->scale * state[l.s + (size_t)row * a->dv + j];
        }
    }
    return q;
}

static void query_close(query *q)
{
    free(q->shift);
    free(q->f);
    free(q->o);
}

static double norm_mean(const query *q)
{
#if FV_WANTS & FV_WANT_CENTRED
    return fv_norm_mean(q->z[0], q->w, q->eps);
#else
    (void)q;
    return 0.;
#endif
}

static void apply(const oracle_lattn *a, const double *state, const oracle_token *t, double *out)
{
    const fv_lattn_state l = layout(a);
    for (uint32_t h = 0; h < a->heads; h++, state += l.floats, out += a->dv) {
        query q = query_open(a, state, t, h);
        for (uint32_t j = 0; j < a->dv; j++) {
            const double z = q.z[j / (a->dv / FV_STREAMS)];
            out[j] = q.o[j] * (a->plain ? 1. : fv_norm(z, q.eps));
            if (CENTRED)
                out[j] += (a->plain ? q.w : norm_mean(&q)) * state[l.vmean + j];
            out[j] *= q.gate;
        }
        query_close(&q);
    }
}

/* Computes df of one head, and adds the head's contribution to the gradient of the state. */
static double head_grad(const oracle_lattn *a, const double *state, const oracle_token *t,
                        const query *q, const double *dout, double *df, double *dstate)
{
    const fv_lattn_state l = layout(a);
    const uint32_t width = FV_BLOCKS * a->d, slice = a->dv / FV_STREAMS;
    double *dturned = doubles(width), *back = doubles(width);
    double scale[FV_STREAMS], dz[FV_STREAMS], dw = 0., mean = 0., gate = 0.;
    for (uint32_t s = 0; s < FV_STREAMS; s++) {
        double by_o = 0., by_mean = 0., by_out = 0.;
        for (uint32_t j = s * slice; j < (s + 1) * slice; j++) {
            by_o += dout[j] * q->o[j];
            by_mean += CENTRED ? dout[j] * state[l.vmean + j] : 0.;
            by_out += t->out ? dout[j] * t->out[q->head * a->dv + j] : 0.;
        }
        scale[s] = 1.;
        dz[s] = 0.;
        if (a->plain) {
            mean = q->w;
            dw = by_mean;
        } else if (q->z[s] >= FLT_MIN) {
            scale[s] = fv_norm(q->z[s], q->eps);
            mean = norm_mean(q);
#if FV_WANTS & FV_WANT_CENTRED
            dw = fv_norm_mean_slope_w(q->z[s], q->eps) * by_mean;
            dz[s] = q->gate * fv_norm_mean_slope_z(q->z[s], q->w, q->eps) * by_mean;
#endif
        } else {
            scale[s] = 0.;
        }
        if (!t->out)
            by_out = q->gate * (scale[s] * by_o + mean * by_mean);
        if (!a->plain && scale[s] != 0.)
            dz[s] += fv_norm_slope(q->z[s], q->eps) * (by_out - q->gate * mean * by_mean);
        gate += by_out;
        scale[s] *= q->gate;
    }
    dw *= q->gate;
    mean *= q->gate;
    for (uint32_t i = 0; i < width; i++) {
        dturned[i] = CENTRED ? dw * a->scale * state[l.w + i] : 0.;
        for (uint32_t j = 0; j < a->dv; j++) {
            const size_t s = j / slice;
            const size_t at = l.s + ((i / a->d ^ s) * a->d + i % a->d) * a->dv + j;
            dturned[i] += scale[s] * dout[j] * a->scale * state[at];
            if (dstate)
                dstate[at] += a->scale * q->turned[i] * scale[s] * dout[j];
        }
        for (uint32_t s = 0; dstate && s < FV_STREAMS; s++)
            dstate[l.m + (i / a->d ^ s) * a->d + i % a->d] += a->scale * dz[s] * q->f[i];
        if (dstate && CENTRED)
            dstate[l.w + i] += a->scale * dw * q->turned[i];
    }
    for (uint32_t j = 0; dstate && CENTRED && j < a->dv; j++)
        dstate[l.vmean + j] += mean * dout[j];
    rotate(a, t, dturned, back, true);
    for (uint32_t i = 0; i < width; i++) {
        df[i] = back[i];
        for (uint32_t s = 0; s < FV_STREAMS; s++)
            df[i] += dz[s] * a->scale * state[l.m + (i / a->d ^ s) * a->d + i % a->d];
    }
    free(dturned);
    free(back);
    return gate;
}

static void apply_grad(const oracle_lattn *a, const double *state, const oracle_token *t,
                       const double *dout, double *dx, double *dstate, double *gate)
{
    const size_t width = FV_BLOCKS * a->d, floats = layout(a).floats;
    double *df = doubles(a->heads * width);
    for (uint32_t h = 0; h < a->heads; h++) {
        query q = query_open(a, state + h * floats, t, h);
        const double g = head_grad(a, state + h * floats, t, &q, dout + (size_t)h * a->dv,
                                   df + h * width, dstate ? dstate + h * floats : NULL);
        if (gate)
            gate[h] = g;
        query_close(&q);
    }
    for (uint32_t h = 0; dx && h < a->heads; h++) {
        double *shift = shift_of(a, state + h * floats, -1.);
        row_grad(a, 1, t->x, h, shift, df, dx + (size_t)h * a->d);
        free(shift);
    }
    free(df);
}

/* ---- keys ---- */

static void reduce(const oracle_lattn *a, double *state, const oracle_token *t)
{
    const fv_lattn_state l = layout(a);
    const uint32_t width = FV_BLOCKS * a->d;
    double *f = doubles(2 * width), *turned = f + width;
    for (uint32_t h = 0; h < a->heads; h++, state += l.floats) {
        double *shift = shift_of(a, state, 1.);
        const double g = a->mean * (t->gate ? t->gate[h] : 1.);
        features(a, 0, t->x, h, shift, f);
        rotate(a, t, f, turned, false);
        for (uint32_t i = 0; i < width; i++) {
            state[l.m + i] += g * f[i];
            if (CENTRED)
                state[l.w + i] += g * turned[i];
            for (uint32_t j = 0; j < a->dv; j++)
                state[l.s + (size_t)i * a->dv + j] +=
                    g * turned[i] * (t->v[h * a->dv + j] - (CENTRED ? state[l.vmean + j] : 0.));
        }
        free(shift);
    }
    free(f);
}

static void reduce_grad(const oracle_lattn *a, const double *state, const double *dstate,
                        const oracle_token *t, double *dx, double *dv, double *gate)
{
    const fv_lattn_state l = layout(a);
    const size_t width = FV_BLOCKS * a->d;
    double *f = doubles(3 * width), *turned = f + width, *back = turned + width;
    double *df = doubles(a->heads * width);
    for (uint32_t h = 0; h < a->heads; h++) {
        const double *s = state + h * l.floats, *ds = dstate + h * l.floats;
        const double g = t->gate ? t->gate[h] : 1.;
        double *shift = shift_of(a, s, 1.), *mine = df + h * width, sum = 0.;
        features(a, 0, t->x, h, shift, f);
        rotate(a, t, f, turned, false);
        for (uint32_t j = 0; j < a->dv; j++)
            dv[h * a->dv + j] = CENTRED ? a->mean * ds[l.vmean + j] : 0.;
        for (uint32_t i = 0; i < width; i++) {
            mine[i] = CENTRED ? ds[l.w + i] : 0.;
            for (uint32_t j = 0; j < a->dv; j++) {
                const double cell = ds[l.s + (size_t)i * a->dv + j];
                mine[i] += cell * (t->v[h * a->dv + j] - (CENTRED ? s[l.vmean + j] : 0.));
                dv[h * a->dv + j] += a->mean * cell * (g * turned[i] - (CENTRED ? s[l.w + i] : 0.));
            }
        }
        rotate(a, t, mine, back, true);
        for (uint32_t i = 0; i < width; i++) {
            mine[i] = g * a->mean * (back[i] + ds[l.m + i]);
            sum += f[i] * mine[i];
        }
        if (gate)
            gate[h] = sum;
        free(shift);
    }
    for (uint32_t h = 0; h < a->heads; h++) {
        double *shift = shift_of(a, state + h * l.floats, 1.);
        row_grad(a, 0, t->x, h, shift, df, dx + (size_t)h * a->d);
        free(shift);
    }
    free(f);
    free(df);
}

static void param_grad(const oracle_lattn *a, const double *x, const double *dx, double *out)
{
#if FV_PARAMS
    const uint32_t n = a->heads * a->d;
    for (uint32_t i = 0; i < n; i++) {
        const fv_row r = channel(a, i / a->d, i % a->d, NULL);
        for (int p = 0; p < FV_PARAMS; p++)
            out[(uint32_t)p * n + i] += fv_param_term(p, x[i], dx[i], r) *
                                        fv_param_slope(p, a->param[(uint32_t)p * n + i], a->alpha);
    }
#else
    (void)a, (void)x, (void)dx, (void)out;
#endif
}

const oracle_mech FV_MECH_NAME(oracle, grad) = {apply, apply_grad, reduce, reduce_grad, param_grad};
