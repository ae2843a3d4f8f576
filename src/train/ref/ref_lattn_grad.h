/* ref_lattn_grad.h: the functions that the references of the gradients of linear attention share.
 * They pass a gradient through the normalisation, rotation and features of a row. Must be included
 * before any file that includes mech/mech.h. */
#ifndef FOVEA_SRC_ADAPT_REF_LATTN_GRAD_H
#define FOVEA_SRC_ADAPT_REF_LATTN_GRAD_H

#define FV_DERIVE
#include "ops/ref/ref_lattn.h"
#include "train/ref/train_ref_kernels.h"
#include "train/ref/training.h"

/* Sets *from and *to: the gradient of head h of a row needs the feature gradients of heads [*from,
 * *to). */
static inline void ref_grad_heads(const ref_row *s, uint32_t h, uint32_t *from, uint32_t *to)
{
    *from = FV_STAT_WIDE ? 0 : h;
    *to = FV_STAT_WIDE ? s->heads : h + 1;
}

/* Copies channel i of df, whose blocks have d channels, to `out`. */
static inline void ref_grad_channel(float out[FV_BLOCKS], const float *df, uint32_t d, uint32_t i)
{
    for (uint32_t b = 0; b < FV_BLOCKS; b++)
        out[b] = df[b * d + i];
}

/* Computes dx of the row's head from df, the gradients of features: FV_BLOCKS * d values for each
 * head of ref_grad_heads. */
static inline void ref_row_grad(float *dx, const ref_row *s, int query, const float *df)
{
    const fv_row done = ref_statistics(s, query);
    const uint32_t width = FV_BLOCKS * s->d;
    float sum[2] = {0.f, 0.f}, g[FV_BLOCKS];
    uint32_t from, to;
    ref_grad_heads(s, s->head, &from, &to);
#if FV_SUMS || FV_SUMS_KEY
    for (int t = 0; t < (query ? FV_SUMS : FV_SUMS_KEY); t++) {
        double total = 0.;
        for (uint32_t h = from; h < to; h++) {
            for (uint32_t i = 0; i < s->d; i++) {
                fv_row r = ref_channel(s, query, h, i);
                for (int u = 0; u < 3; u++)
                    r.stat[u] = done.stat[u];
                ref_grad_channel(g, df + (h - from) * width, s->d, i);
                total += (double)fv_sum_term(t, query, ref_value(s, h, i), g, r);
            }
        }
        sum[t] = (float)total;
    }
#endif
    (void)to;
    for (uint32_t i = 0; i < s->d; i++) {
        fv_row r = ref_channel(s, query, s->head, i);
        for (int u = 0; u < 3; u++)
            r.stat[u] = done.stat[u];
        ref_grad_channel(g, df + (s->head - from) * width, s->d, i);
        dx[i] = fv_phi_grad(query, ref_value(s, s->head, i), g, r, sum);
    }
}

/* Applies the rotation's transpose. */
static inline void ref_rotate_back(float *f, const ref_row *s)
{
    for (uint32_t b = 0; s->turn.cos[0] && b < FV_BLOCKS; b++)
        ref_turn_pairs_back(f + b * s->d, f + b * s->d, &s->turn, s->d);
}

/* ---- queries ---- */

/* One head of a query's row, and the factors of its gradients:
 *
 *   do_c = scale[s] dout_c of stream s;   dvmean += mean dout;   dz, dw */
typedef struct ref_query {
    ref_row row;
    const float *state, *dout;
    float scale[FV_STREAMS], mean, dz[FV_STREAMS], dw;
} ref_query;

/* Returns a query. Sets f and turned to its FV_BLOCKS * d features, before and after the
 * rotation. */
static inline ref_query ref_query_at(const fv_args *a, const fv_call *c, size_t r, uint32_t h,
                                     const fv_lattn_state *l, float *f, float *turned)
{
    const uint32_t d = a->prob.dim[FV_ATTN_D], dv = a->prob.dim[FV_ATTN_DV];
    const uint32_t width = FV_BLOCKS * d, slice = dv / FV_STREAMS;
    const bool plain = a->prob.flags & FV_FLAG_UNNORMALISED;
    const bool shifted = FV_WANTS & FV_WANT_SHIFT && !plain;
    const float *state = (const float *)c->p[FV_APPLY_STATE] + h * l->floats;
    const float *out = (const float *)c->p[FV_QUERY_GRAD_FORWARD] +
                       r * a->ld[FV_QUERY_GRAD_FORWARD] + (size_t)h * dv;
    ref_query q = {.row = ref_row_at(a, c, r, h, a->f[2], shifted ? state + l->shift : NULL),
                   .state = state,
                   .dout = (const float *)c->p[FV_QUERY_GRAD_DOUT] + r * a->ld[FV_QUERY_GRAD_DOUT] +
                           (size_t)h * dv};
    const float gate = ref_gate_at(a, c, r, h);
    float eps = fv_max(a->f[1], FLT_MIN), w = 0.f;
    ref_features(f, &q.row, 1);
    for (uint32_t i = 0; i < width; i++)
        turned[i] = f[i];
    ref_rotate(turned, &q.row);
    if (q.row.shift && a->f[1] > 0.f)
        eps = fv_max(FLT_MIN, a->f[1] * expf(-ref_statistics(&q.row, 1).stat[0]));
#if FV_WANTS & FV_WANT_CENTRED
    for (uint32_t i = 0; i < width; i++)
        w += turned[i] * (a->f[0] * state[l->w + i]);
#endif
    for (uint32_t s = 0; s < FV_STREAMS; s++) {
        float z = 0.f, given = 0.f, centre = 0.f;
        for (uint32_t i = 0; i < width; i++)
            z += f[i] * (a->f[0] * state[l->m + (i / d ^ s) * d + i % d]);
        for (uint32_t i = s * slice; i < (s + 1) * slice; i++) {
            given += q.dout[i] * out[i];
            if (FV_WANTS & FV_WANT_CENTRED)
                centre += gate * q.dout[i] * state[l->vmean + i];
        }
        if (plain) {
            q.scale[s] = gate;
            q.mean = gate * w;
            q.dw = centre;
            continue;
        }
        if (z < FLT_MIN)
            continue;
        q.scale[s] = gate * fv_norm(z, eps);
#if FV_WANTS & FV_WANT_CENTRED
        const float mean = fv_norm_mean(z, w, eps);
        q.mean = gate * mean;
        q.dw = fv_norm_mean_slope_w(z, eps) * centre;
        q.dz[s] = fv_norm_slope(z, eps) * (given - mean * centre) +
                  fv_norm_mean_slope_z(z, w, eps) * centre;
#else
        q.dz[s] = fv_norm_slope(z, eps) * given;
#endif
    }
    return q;
}

/* ---- keys ---- */

/* One head of a key's row, and the gradients of its features. */
typedef struct ref_key {
    ref_row row;
    const float *state, *dstate, *v;
} ref_key;

/* Returns a key. Sets f to the features of the row without its gate, and df to the gradients of the
 * features with it: FV_BLOCKS * d values each. */
static inline ref_key ref_key_at(const fv_args *a, const fv_call *c, size_t r, uint32_t h,
                                 const fv_lattn_state *l, float *f, float *df)
{
    const uint32_t d = a->prob.dim[FV_ATTN_D], dv = a->prob.dim[FV_ATTN_DV];
    const uint32_t width = FV_BLOCKS * d;
    const bool shifted = FV_WANTS & FV_WANT_SHIFT && !(a->prob.flags & FV_FLAG_UNNORMALISED);
    const float *state = (const float *)c->p[FV_KEY_GRAD_STATE] + h * l->floats;
    ref_key k = {.row = ref_row_at(a, c, r, h, a->f[1], shifted ? state + l->shift : NULL),
                 .state = state,
                 .dstate = (const float *)c->p[FV_KEY_GRAD_DSTATE] + h * l->floats,
                 .v = (const float *)c->p[FV_REDUCE_V] + r * a->ld[FV_REDUCE_V] + (size_t)h * dv};
    ref_features(f, &k.row, 0);
    for (uint32_t i = 0; i < width; i++) {
        df[i] = FV_WANTS & FV_WANT_CENTRED ? k.dstate[l->w + i] : 0.f;
        for (uint32_t j = 0; j < dv; j++)
            df[i] += k.dstate[l->s + (size_t)i * dv + j] *
                     (FV_WANTS & FV_WANT_CENTRED ? k.v[j] - state[l->vmean + j] : k.v[j]);
    }
    ref_rotate_back(df, &k.row);
    for (uint32_t i = 0; i < width; i++)
        df[i] = a->f[0] * (df[i] + k.dstate[l->m + i]);
    k.row.gate = ref_gate_at(a, c, r, h);
    return k;
}

#endif
