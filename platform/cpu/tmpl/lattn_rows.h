/* lattn_rows.h: features and statistics of rows of q or k in linear attention, for one mechanism.
 * The templates of LATTN and of its gradients share it. mech/mech.h must be included before it. */
#ifndef FOVEA_PLATFORM_TMPL_LATTN_ROWS_H
#define FOVEA_PLATFORM_TMPL_LATTN_ROWS_H

#include <stdbool.h>

#include "ops/mech_traits.h"
#include "platform/cpu/vec/math.h"

enum {
    CENTRED = (FV_WANTS & FV_WANT_CENTRED) != 0,
    SHIFT = (FV_WANTS & FV_WANT_SHIFT) != 0,
    AT_LEAST_1 = 1, /* the size of an array that may be unused */
};

/* Rows of q or k: of all heads while statistics are computed, else of one head. */
typedef struct source {
    const float *x;
    size_t ld;
    const float *next;  /* the rows that are read after these, with the same stride */
    const float *param; /* learned vectors after finish_params(): FV_PARAMS rows of dp per head */
    size_t dp;
    const float *shift; /* of dp channels, with the sign that the mechanism needs; NULL: no shift */
    /* FV_STATS rows with a stride of statld; a row has one value for each row of x */
    const float *stat;
    size_t statld;
    float alpha; /* the operation's constant */
} source;

/* Loads parameters, statistics and shift for channels [i, i + FV_W) of row r. */
FV_FN fv_row row_at(const source *s, int query, size_t r, size_t i)
{
    fv_row row;
    FV_UNROLL
    for (int p = 0; p < 2; p++)
        row.param[p] = p < FV_PARAMS ? fv_load(s->param + p * s->dp + i) : fv_set(0.f);
    const int stats = query ? FV_STATS : FV_STATS_KEY;
    FV_UNROLL
    for (int t = 0; t < 3; t++)
        row.stat[t] =
            t < stats && !(SHIFT && !s->shift) ? fv_set(s->stat[t * s->statld + r]) : fv_set(0.f);
    row.shift = SHIFT && s->shift ? fv_load(s->shift + i) : fv_set(0.f);
    row.alpha = s->alpha;
    return row;
}

/* Computes features of channels [i, i + n) of row r, which is at x. Lanes beyond are set to zero,
 * since phi(0) may not be 0. */
FV_FN void map(fv_v f[FV_BLOCKS], const source *s, int query, const float *x, size_t r, size_t i,
               int n)
{
    fv_phi(f, query, n == FV_W ? fv_load(x + i) : fv_load_n(x + i, n), row_at(s, query, r, i));
    FV_UNROLL
    for (int b = 0; b < FV_BLOCKS && n < FV_W; b++)
        f[b] = fv_first_n(f[b], n);
}

/* Computes statistics of `rows` rows over the channels of `heads` heads, beginning at s->x. */
FV_FN void row_statistics(float *stat, const source *s, int query, size_t rows, size_t heads,
                          size_t d)
{
#if FV_STATS
    const int count = query ? FV_STATS : FV_STATS_KEY;
    FV_UNROLL
    for (int t = 0; t < FV_STATS; t++) {
        const bool max = FV_STAT_MAX >> t & 1;
        const fv_v none = fv_set(max ? -INFINITY : 0.f);
        for (size_t r = 0; t < count && r < rows; r++) {
            fv_v sum = none;
            for (size_t h = 0; h < heads; h++) {
                source head = *s;
                if (FV_PARAMS)
                    head.param += h * FV_PARAMS * s->dp;
                for (size_t i = 0; i < d; i += FV_W) {
                    const int n = fv_lanes(d - i);
                    fv_v x = fv_load_n(s->x + r * s->ld + h * d + i, n);
                    x = fv_stat(t, query, x, row_at(&head, query, r, i));
                    if (n < FV_W)
                        x = fv_blend_n(x, none, n);
                    sum = max ? fv_max(sum, x) : fv_add(sum, x);
                }
            }
            stat[t * s->statld + r] = max ? fv_hmax(sum) : fv_hsum(sum);
        }
    }
    for (size_t r = 0; count && r < rows; r += FV_W) {
        const int n = fv_lanes(rows - r);
        fv_row row = {.shift = fv_set(0.f), .alpha = s->alpha};
        FV_UNROLL
        for (int t = 0; t < FV_STATS; t++)
            row.stat[t] = fv_load_n(stat + t * s->statld + r, n);
        row = fv_stats_done(query, row);
        FV_UNROLL
        for (int t = 0; t < FV_STATS; t++)
            fv_store_n(stat + t * s->statld + r, row.stat[t], n);
    }
#else
    (void)stat, (void)s, (void)query, (void)rows, (void)heads, (void)d;
#endif
}

/* Converts the learned vectors of all heads to the form that phi reads: FV_PARAMS rows of dp per
 * head. */
static inline void finish_params(float *out, const float *raw, size_t heads, size_t d, size_t dp,
                                 fv_v alpha)
{
#if FV_PARAMS
    for (size_t h = 0; h < heads; h++) {
        for (int p = 0; p < FV_PARAMS; p++) {
            for (size_t i = 0; i < d; i += FV_W) {
                const int n = fv_lanes(d - i);
                fv_v x = fv_load_n(raw + (p * heads + h) * d + i, n);
                fv_store(out + (h * FV_PARAMS + p) * dp + i, fv_param(p, x, alpha));
            }
        }
    }
#else
    (void)out, (void)raw, (void)heads, (void)d, (void)dp, (void)alpha;
#endif
}

/* ---- hooks ---- */

static bool applies(const fv_problem *p)
{
    return p->in == FV_F32 && p->out == FV_F32 && p->acc != FV_BF16 &&
           fv_lattn_applies(FV_STREAMS, FV_WANTS, p);
}

#define RATE (FV_W * 4e9) /* assumed FLOP/s of a core */

#endif
