/* ref_lattn.h: code that the references of LATTN_REDUCE, LATTN_MERGE and LATTN_APPLY share:
 * computes the features of a row, and merges two states. */
#ifndef FOVEA_SRC_REF_REF_LATTN_H
#define FOVEA_SRC_REF_REF_LATTN_H

#include <float.h>
#include <stdbool.h>

#include "base/half.h"
#include "mech/mech.h"
#include "ops/contracts/linear_attention.h"
#include "ops/kernel.h"
#include "ops/mech_traits.h"
#include "ops/ref/ref_rope.h"

/* A row of q or k of a head, and the other data on which its features depend. */
typedef struct ref_row {
    const void *x; /* row with the channels of all heads */
    enum fv_type type;
    uint32_t heads, d, head;
    const float *param; /* the learned vectors: FV_PARAMS rows of heads * d */
    float alpha;
    const float *shift; /* shift of the head's channels, which is added for a query and
                           subtracted for a key; NULL: none */
    float gate;
    ref_turn turn; /* cos NULL: no rotation */
} ref_row;

/* Returns the gate of row r and head h. */
static inline float ref_gate_at(const fv_args *a, const fv_call *c, size_t r, uint32_t h)
{
    const float *gate = c->p[FV_REDUCE_GATE];
    return a->prob.flags & FV_FLAG_GATED ? gate[r * a->ld[FV_REDUCE_GATE] + h] : 1.f;
}

/* Returns row r of the call and head h, without its gate. The operands that belong to the row have
 * the same numbers for K in LATTN_REDUCE and Q in LATTN_APPLY. */
static inline ref_row ref_row_at(const fv_args *a, const fv_call *c, size_t r, uint32_t h,
                                 float alpha, const float *shift)
{
    _Static_assert((int)FV_REDUCE_K == (int)FV_APPLY_Q &&
                       (int)FV_REDUCE_PARAM == (int)FV_APPLY_PARAM &&
                       (int)FV_REDUCE_GATE == (int)FV_APPLY_GATE,
                   "the operands from the first to the last of these have the same numbers");
    const enum fv_type type = a->type[FV_REDUCE_K];
    ref_row row = {.x = fv_element(c->p[FV_REDUCE_K], type, r * a->ld[FV_REDUCE_K]),
                   .type = type,
                   .heads = a->prob.heads,
                   .d = a->prob.dim[FV_ATTN_D],
                   .head = h,
                   .param = c->p[FV_REDUCE_PARAM],
                   .alpha = alpha,
                   .shift = shift,
                   .gate = 1.f};
    if (a->prob.flags & FV_FLAG_ROPE)
        row.turn = ref_turn_at(c->p[FV_REDUCE_COS], a->ld[FV_REDUCE_COS], c->p[FV_REDUCE_SIN],
                               a->ld[FV_REDUCE_SIN], c->row0 + r, a->u[0], row.d);
    return row;
}

/* Returns channel i of a head. */
static inline float ref_value(const ref_row *s, uint32_t head, uint32_t i)
{
    return fv_value_get(s->x, s->type, head * s->d + i);
}

static inline fv_row ref_channel(const ref_row *s, int query, uint32_t head, uint32_t i)
{
    fv_row r = {.shift = s->shift ? (query ? -s->shift[i] : s->shift[i]) : 0.f, .alpha = s->alpha};
#if FV_PARAMS
    for (uint32_t p = 0; p < FV_PARAMS; p++)
        r.param[p] = fv_param((int)p, s->param[(p * s->heads + head) * s->d + i], s->alpha);
#endif
    (void)head;
    return r;
}

/* Returns the row's statistics, completed for use by the feature map. */
static inline fv_row ref_statistics(const ref_row *s, int query)
{
    fv_row done = {.shift = 0.f, .alpha = s->alpha};
#if FV_STATS
    const bool shifts = FV_WANTS & FV_WANT_SHIFT;
    const int count = query ? FV_STATS : FV_STATS_KEY;
    const uint32_t h0 = FV_STAT_WIDE ? 0 : s->head, h1 = FV_STAT_WIDE ? s->heads : s->head + 1;
    if (count == 0 || (shifts && !s->shift))
        return done;
    for (int t = 0; t < count; t++) {
        const bool max = FV_STAT_MAX >> t & 1;
        double sum = max ? -INFINITY : 0.; /* in double, because a float sum of many equal terms
                                              would drift */
        for (uint32_t h = h0; h < h1; h++) {
            for (uint32_t i = 0; i < s->d; i++) {
                fv_row r = ref_channel(s, query, h, i);
                for (int u = 0; u < t; u++)
                    r.stat[u] = done.stat[u];
                const float x = fv_stat(t, query, ref_value(s, h, i), r);
                sum = max ? (double)fv_max((float)sum, x) : sum + (double)x;
            }
        }
        done.stat[t] = (float)sum;
    }
    done = fv_stats_done(query, done);
#endif
    (void)s, (void)query;
    return done;
}

/* Computes the features of the row's head times its gate: FV_BLOCKS * d floats. */
static inline void ref_features(float *out, const ref_row *s, int query)
{
    const fv_row done = ref_statistics(s, query);
    for (uint32_t i = 0; i < s->d; i++) {
        fv_row r = ref_channel(s, query, s->head, i);
        for (int t = 0; t < 3; t++)
            r.stat[t] = done.stat[t];
        float f[FV_BLOCKS];
        fv_phi(f, query, ref_value(s, s->head, i), r);
        for (uint32_t b = 0; b < FV_BLOCKS; b++)
            out[b * s->d + i] = s->gate * f[b];
    }
}

/* Rotates pairs (2j, 2j + 1) of every block. */
static inline void ref_rotate(float *f, const ref_row *s)
{
    for (uint32_t b = 0; s->turn.cos[0] && b < FV_BLOCKS; b++)
        ref_turn_pairs(f + b * s->d, f + b * s->d, &s->turn, s->d);
}

/* Merges the state `p` of one head into `s`. With CENTRED, where s has n tokens, p has n', and v
 * and v' are the means of their values:
 *
 *   S += S' + u^T (v' - v),  u = (n w' - n' w) / (n + n');   v += n' / (n + n') (v' - v) */
static inline void ref_fold(float *s, const float *p, const fv_lattn_state *at, size_t width,
                            size_t dv)
{
    const bool centred = FV_WANTS & FV_WANT_CENTRED, shifts = FV_WANTS & FV_WANT_SHIFT;
    const float n = centred ? s[at->count] : 1.f, np = centred ? p[at->count] : 1.f;
    for (size_t i = 0; i < width; i++) {
        float fade = 1.f, fade_p = 1.f, u = 0.f;
        if (shifts) {
            const float top = fv_max(s[at->shift + i], p[at->shift + i]);
            fade = expf(s[at->shift + i] - top);
            fade_p = expf(p[at->shift + i] - top);
            s[at->shift + i] = top;
        }
        if (centred) {
            u = n / (n + np) * p[at->w + i] - np / (n + np) * s[at->w + i];
            s[at->w + i] += p[at->w + i];
        }
        s[at->m + i] = fade * s[at->m + i] + fade_p * p[at->m + i];
        for (size_t j = 0; j < dv; j++) {
            float *x = s + at->s + i * dv + j;
            *x = fade * *x + fade_p * p[at->s + i * dv + j];
            if (centred)
                *x += u * (p[at->vmean + j] - s[at->vmean + j]);
        }
    }
    for (size_t j = 0; centred && j < dv; j++)
        s[at->vmean + j] += np / (n + np) * (p[at->vmean + j] - s[at->vmean + j]);
    if (centred)
        s[at->count] = n + np;
}

#endif
