/* scan_rows.h: packs a head's rows for both forms of SCAN, after features, norms, scale, gates and
 * decays are applied. */
#ifndef FOVEA_PLATFORM_TMPL_SCAN_ROWS_H
#define FOVEA_PLATFORM_TMPL_SCAN_ROWS_H

#include <math.h>
#include <string.h>

#include "ops/contracts/sequence.h"
#include "ops/mech_traits.h"
#include "platform/cpu/cpu_kernels.h"
#include "platform/cpu/feature_maps.h"
#include "platform/cpu/vec/math.h"
#include "platform/cpu/vec/row.h"
#include "platform/cpu/vec/tile.h"

#define SCAN_FEATURES FV_NAME(fv_features)

enum { SCAN_BLOCK = 4 * FV_W }; /* rows of features are padded with zeros to a multiple of this */

/* Widths of a problem, and offsets of the packed rows in the scratch. */
typedef struct scan_rows {
    size_t d, width, dv, widthp, dvp; /* width: of the features */
    size_t q, k;                      /* [all_rows][widthp] */
    size_t v;                         /* [all_rows][dvp] */
    size_t part, lost; /* e^a and 1 - e^a: [all_rows], or by channel [all_rows][widthp] */
    size_t beta, read; /* [all_rows]; read: what a row's output is multiplied by */
    /* FV_FLAG_CENTRED: coefficients of the mean [all_rows]; means of the values [all_rows][dvp]. */
    size_t share, mean;
    size_t raw; /* [all_rows][d]: queries, and afterwards keys, converted to float32 */
    size_t floats;
} scan_rows;

FV_FN scan_rows scan_lay_out(const fv_problem *p, size_t rows)
{
    const size_t all_rows = fv_tile_round(rows, FV_W > FV_TILE_M ? FV_W : FV_TILE_M);
    scan_rows l = {.d = p->dim[FV_ATTN_D], .dv = p->dim[FV_ATTN_DV]};
    l.width = l.d * fv_mech_table[p->mech]->blocks;
    l.widthp = fv_tile_round(l.width, SCAN_BLOCK);
    l.dvp = fv_tile_round(l.dv, FV_TILE_COLS);
    const size_t decays = p->flags & FV_FLAG_DECAY_CHANNEL ? all_rows * l.widthp : all_rows;
    l.k = l.q + all_rows * l.widthp;
    l.v = l.k + all_rows * l.widthp;
    l.part = l.v + all_rows * l.dvp;
    l.lost = l.part + decays;
    l.beta = l.lost + decays;
    l.read = l.beta + all_rows;
    l.share = l.read + all_rows;
    l.mean = l.share + all_rows;
    l.raw = l.mean + (p->flags & FV_FLAG_CENTRED ? all_rows * l.dvp : 0);
    l.floats = l.raw + (p->in == FV_F32 ? 0 : all_rows * l.d);
    return l;
}

/* Returns the number of multiply-adds between one token and the state. The costs of both forms are
 * proportional to it. */
FV_FN double scan_work(const fv_problem *p)
{
    const double width = (double)p->dim[FV_ATTN_D] * fv_mech_table[p->mech]->blocks;
    return width * p->dim[FV_ATTN_DV];
}

FV_FN int scan_lanes(size_t left)
{
    return left < FV_W ? (int)left : FV_W;
}

FV_FN float *scan_state(const fv_call *c, const scan_rows *l, size_t head)
{
    return (float *)c->p[FV_SCAN_STATE] + head * l->width * l->dv;
}

/* Returns the head's Z. All Z follow the S of all heads in the state. */
FV_FN float *scan_divisor(const fv_args *a, const fv_call *c, const scan_rows *l, size_t head)
{
    return scan_state(c, l, a->prob.heads) + head * l->width;
}

/* Returns the head's means of the values, which follow the Z of all heads. After these comes each
 * head's number of tokens. */
FV_FN float *scan_mean(const fv_args *a, const fv_call *c, const scan_rows *l, size_t head)
{
    return scan_divisor(a, c, l, a->prob.heads) + head * l->dv;
}

FV_FN float *scan_count(const fv_args *a, const fv_call *c, const scan_rows *l, size_t head)
{
    return scan_mean(a, c, l, a->prob.heads) + head;
}

/* Returns whether outputs are divided by q.Z + eps, where Z is the decayed sum of the keys. */
FV_FN int scan_divides(const fv_problem *p)
{
    return !(p->flags & (FV_FLAG_UNNORMALISED | FV_FLAG_CENTRED));
}

FV_FN const float *scan_scalar(const fv_args *a, const fv_call *c, int operand, size_t row)
{
    return (const float *)c->p[operand] + row * a->ld[operand];
}

/* Computes features of rows of Q or K. */
static void scan_map(float *out, float *raw, const fv_args *a, const fv_call *c, const scan_rows *l,
                     int operand, size_t head, size_t row, size_t rows)
{
    const enum fv_type type = a->prob.in;
    const void *x = fv_element(c->p[operand], type, row * a->ld[operand] + head * l->d);
    size_t ld = a->ld[operand];
    if (type != FV_F32) {
        for (size_t r = 0; r < rows; r++)
            fv_row_convert(raw + r * l->d, FV_F32, fv_element(x, type, r * ld), type, l->d);
        x = raw;
        ld = l->d;
    }
    SCAN_FEATURES[a->prob.mech](out, l->widthp, x, ld, rows, l->d, operand == FV_SCAN_Q);
    for (size_t r = 0; r < rows; r++)
        memset(out + r * l->widthp + l->width, 0, (l->widthp - l->width) * sizeof *out);
}

/* Multiplies x by `factor`; if `unit`, also normalises x to a norm of 1 first. */
static void scan_scale(float *x, size_t n, int unit, float factor)
{
    if (unit) {
        fv_v square = fv_set(0.f);
        for (size_t i = 0; i < n; i += FV_W)
            square = fv_fma(fv_load(x + i), fv_load(x + i), square);
        factor /= sqrtf(fv_hsum(square) + 1e-6f);
    }
    if (factor == 1.f)
        return;
    for (size_t i = 0; i < n; i += FV_W)
        fv_store(x + i, fv_mul(fv_load(x + i), fv_set(factor)));
}

/* Computes e^a and 1 - e^a, each to full precision. The smaller of the two would be inaccurate if
 * it were computed as 1 minus the other. And a factor near 1 that is rounded the same way for every
 * token would make the state drift. */
FV_FN void scan_decay(float *part, float *lost, fv_v log)
{
    fv_store(part, fv_exp(log));
    fv_store(lost, fv_neg(fv_expm1(log)));
}

static void scan_decays(float *part, float *lost, const fv_args *a, const fv_call *c,
                        const scan_rows *l, size_t head, size_t row, size_t rows)
{
    if (a->prob.flags & FV_FLAG_DECAY_CHANNEL) {
        for (size_t r = 0; r < rows; r++) {
            const float *log = scan_scalar(a, c, FV_SCAN_DECAY, row + r) + head * l->d;
            for (size_t i = 0; i < l->widthp; i += FV_W)
                scan_decay(part + r * l->widthp + i, lost + r * l->widthp + i,
                           fv_load_n(log + i, i < l->d ? scan_lanes(l->d - i) : 0));
        }
        return;
    }
    const size_t padded = fv_tile_round(rows, FV_W);
    for (size_t r = 0; r < padded; r++)
        part[r] = a->prob.flags & FV_FLAG_DECAY && r < rows
                      ? scan_scalar(a, c, FV_SCAN_DECAY, row + r)[head]
                      : 0.f;
    for (size_t r = 0; r < padded; r += FV_W)
        scan_decay(part + r, lost + r, fv_load(part + r));
}

/* Packs `rows` rows of a head, from row `row` of the call on. */
static void scan_take(float *m, const fv_args *a, const fv_call *c, const scan_rows *l, size_t head,
                      size_t row, size_t rows)
{
    const uint32_t flags = a->prob.flags;
    const int plain = (flags & FV_FLAG_UNNORMALISED) != 0, unit = (flags & FV_FLAG_L2) != 0;
    const float scale = flags & FV_FLAG_CENTRED ? 1.f : a->f[0]; /* scan_centre has its own */
    const enum fv_type type = a->prob.in;
    scan_map(m + l->q, m + l->raw, a, c, l, FV_SCAN_Q, head, row, rows);
    scan_map(m + l->k, m + l->raw, a, c, l, FV_SCAN_K, head, row, rows);
    scan_decays(m + l->part, m + l->lost, a, c, l, head, row, rows);
    for (size_t r = 0; r < rows; r++) {
        const size_t at = row + r;
        float *v = m + l->v + r * l->dvp;
        float gate_q = 1.f, gate_k = 1.f;
        if (flags & FV_FLAG_GATED) {
            if (c->p[FV_SCAN_GATE_Q])
                gate_q = scan_scalar(a, c, FV_SCAN_GATE_Q, at)[head];
            gate_k = scan_scalar(a, c, FV_SCAN_GATE_K, at)[head];
        }
        scan_scale(m + l->q + r * l->widthp, l->widthp, unit, plain ? scale * gate_q : scale);
        fv_row_convert(v, FV_F32,
                       fv_element(c->p[FV_SCAN_V], type, at * a->ld[FV_SCAN_V] + head * l->dv),
                       type, l->dv);
        memset(v + l->dv, 0, (l->dvp - l->dv) * sizeof *v);
        if (flags & FV_FLAG_DELTA) {
            scan_scale(m + l->k + r * l->widthp, l->widthp, unit, 1.f);
            scan_scale(v, l->dvp, 0, gate_k);
            m[l->beta + r] = scan_scalar(a, c, FV_SCAN_BETA, at)[head];
        } else {
            scan_scale(m + l->k + r * l->widthp, l->widthp, unit, gate_k);
        }
        m[l->read + r] = plain ? 1.f : gate_q;
    }
}

/* Advances a mean by n values x: mean += (x - mean) rate; returns the new mean. */
FV_FN fv_v scan_advance(float *mean, fv_v x, float rate, int n)
{
    const fv_v old = fv_load_n(mean, n);
    const fv_v now = fv_fma(fv_set(rate), fv_sub(x, old), old);
    fv_store_n(mean, now, n);
    return now;
}

/* Converts the packed rows of FV_FLAG_CENTRED to those of an ordinary scan with decay. Keys and
 * values become differences to their running means, values also divided by the number of tokens.
 * Computes the decays and the factors of the output, and advances the means and the number of
 * tokens. */
static void scan_centre(float *m, const fv_args *a, const fv_call *c, const scan_rows *l,
                        size_t head, size_t rows)
{
    float *z = scan_divisor(a, c, l, head), *mean = scan_mean(a, c, l, head);
    float *count = scan_count(a, c, l, head);
    for (size_t r = 0; r < rows; r++) {
        float *q = m + l->q + r * l->widthp, *k = m + l->k + r * l->widthp;
        float *v = m + l->v + r * l->dvp, *means = m + l->mean + r * l->dvp;
        const float before = *count, now = before + 1.f, rate = 1.f / now;
        const fv_v scale = fv_set(a->f[0] + a->f[2] * now);
        fv_v sum = fv_set(0.f);
        for (size_t i = 0; i < l->width; i += FV_W) {
            const int n = scan_lanes(l->width - i);
            const fv_v old = fv_load_n(z + i, n), x = fv_load(k + i);
            const fv_v query = fv_mul(fv_load(q + i), scale);
            sum = fv_fma(query, scan_advance(z + i, x, rate, n), sum);
            fv_store(k + i, fv_sub(x, old));
            fv_store(q + i, query);
        }
        for (size_t j = 0; j < l->dv; j += FV_W) {
            const fv_v x = fv_load(v + j);
            const fv_v to = scan_advance(mean + j, x, rate, scan_lanes(l->dv - j));
            fv_store(means + j, to);
            fv_store(v + j, fv_mul(fv_sub(x, to), fv_set(rate)));
        }
        const float weight = fv_hsum(sum), over = m[l->read + r] / (weight + a->f[1]);
        m[l->share + r] = over * weight;
        m[l->read + r] += over;
        m[l->part + r] = before * rate;
        m[l->lost + r] = rate;
        *count = now;
    }
}

/* Returns the output of row r, columns from j on, where x is q S. */
FV_FN fv_v scan_output(const fv_problem *p, const float *m, const scan_rows *l, size_t r, size_t j,
                       fv_v x)
{
    x = fv_mul(x, fv_set(m[l->read + r]));
    if (p->flags & FV_FLAG_CENTRED)
        x = fv_fma(fv_set(m[l->share + r]), fv_load(m + l->mean + r * l->dvp + j), x);
    return x;
}

/* The coefficients of fv_fma(more, x, keep * x) = e^a x. If e^a is at least 1/2, keep is 1 and more
 * is -(1 - e^a); else keep is 0 and more is e^a. */
FV_FN void scan_fade(float *keep, float *more, fv_v part, fv_v lost)
{
    const fv_v half = fv_set(0.5f);
    fv_store(keep, fv_sel_lt(part, half, fv_set(0.f), fv_set(1.f)));
    fv_store(more, fv_sel_lt(part, half, part, fv_neg(lost)));
}

#endif
