/* boxes_tmpl.c: implements SINE, DEFORM and REFINE with vec.h's vector functions. */
#include <math.h>

#include "ops/contracts/rows.h"
#include "ops/contracts/softmax_attention.h"
#include "ops/ref/ref_deform.h"
#include "platform/cpu/cpu_kernels.h"
#include "platform/cpu/vec/math.h"
#include "platform/cpu/vec/row.h"

/* Returns sin(2 pi t) for |t| < 1, from the sine or cosine of the distance to the nearest quarter
 * turn. */
FV_FN fv_v sine(fv_v t)
{
    t = fv_sub(t, fv_round(t));
    const fv_v quarter = fv_round(fv_mul(t, fv_set(4.f))), size = fv_abs(quarter);
    const fv_v left = fv_mul(fv_fma(quarter, fv_set(-0.25f), t), fv_set(6.28318531f));
    const fv_v s = fv_sin_small(left), cosine = fv_cos_small(left);
    const fv_v one = fv_sel_lt0(quarter, fv_neg(cosine), cosine);
    const fv_v far = fv_sel_lt(size, fv_set(1.5f), one, fv_neg(s));
    return fv_sel_lt(size, fv_set(0.5f), s, far);
}

#if FV_FUSED
/* Returns the exact rounding error of a product: a b - p, where p is a b rounded to float. */
FV_FN fv_v product_error(fv_v a, fv_v b, fv_v p)
{
    return fv_fma(a, b, fv_neg(p));
}
#else
/* Returns the leading 12 bits of x's significand, so that a product of two such halves is exact. */
FV_FN fv_v first_bits(fv_v x)
{
    const fv_v wide = fv_mul(x, fv_set(4097.f));
    return fv_sub(wide, fv_sub(wide, x));
}

FV_FN fv_v product_error(fv_v a, fv_v b, fv_v p)
{
    const fv_v a1 = first_bits(a), a2 = fv_sub(a, a1), b1 = first_bits(b), b2 = fv_sub(b, b1);
    const fv_v error = fv_add(fv_sub(fv_mul(a1, b1), p), fv_mul(a1, b2));
    return fv_add(fv_add(error, fv_mul(a2, b1)), fv_mul(a2, b2));
}
#endif

/* Returns the fractional part of x times the rates from i on, in revolutions. `low`, unless NULL,
 * has the low-order parts of the rates. */
FV_FN fv_v revolutions_of(fv_v x, const float *rate, const float *low, size_t i, int n)
{
    const fv_v most = fv_set(0x1p22f), r = fv_load_n(rate + i, n), revolutions = fv_mul(x, r);
    const fv_v y = fv_min(most, fv_max(fv_neg(most), revolutions));
    fv_v error = product_error(x, r, revolutions);
    if (low)
        error = fv_fma(x, fv_load_n(low + i, n), error);
    return fv_add(fv_sub(y, fv_round(y)), fv_sel_lt(fv_abs(revolutions), most, error, fv_set(0.f)));
}

void FV_NAME(fv_k_sine_f32)(const fv_args *a, const fv_call *c)
{
    const size_t width = a->prob.dim[FV_ROW_C], parts = a->prob.dim[FV_SINE_PARTS];
    const float *rate = c->p[FV_SINE_RATE], *phase = c->p[FV_SINE_PHASE];
    const float *low = a->u[0] ? rate + width : NULL;
    for (size_t r = 0; r < c->rows; r++) {
        const float *in = (const float *)c->p[FV_SINE_IN] + r * a->ld[FV_SINE_IN];
        float *out = (float *)c->p[FV_SINE_OUT] + r * a->ld[FV_SINE_OUT];
        for (size_t p = 0; p < parts; p++, out += width) {
            const fv_v x = fv_set(in[p]);
            for (size_t i = 0; i < width; i += FV_W) {
                const int n = fv_lanes(width - i);
                const fv_v t = fv_add(revolutions_of(x, rate, low, i, n), fv_load_n(phase + i, n));
                fv_store_n(out + i, sine(t), n);
            }
        }
    }
}

/* ---- deformable attention ----
 *
 * Samples are processed in blocks: first the positions and weights of all values that the block's
 * samples read, then their sum, which stays in registers over the block. */

enum { BLOCK = 16, CORNERS = 4, VECTORS = 4 };

/* The places of the values that are read, with their weights, and their number. */
typedef struct reads {
    size_t from[BLOCK * CORNERS];
    float part[BLOCK * CORNERS];
    size_t n;
} reads;

FV_FN void add_read(reads *to, ptrdiff_t from, float part)
{
    to->from[to->n] = (size_t)from;
    to->part[to->n++] = part;
}

/* Appends the values around one sample, times `e`. Most samples have four. The branches are written
 * out, because a list of corners would be read before its stores have reached the cache. */
FV_FN void add_sample(reads *to, const fv_args *a, const fv_deform_level *l, const float *box,
                      const float *offset, float e)
{
    const int32_t width = (int32_t)l->width, height = (int32_t)l->height;
    float x, y;
    fv_deform_place(&x, &y, a, l, box, offset);
    if (!fv_deform_inside(x, l->width) || !fv_deform_inside(y, l->height))
        return;
    const int32_t left = (int32_t)(x + 1.f) - 1, top = (int32_t)(y + 1.f) - 1;
    const float right = x - (float)left, low = y - (float)top;
    const float upper = e * (1.f - low), lower = e * low;
    const ptrdiff_t row = (ptrdiff_t)a->ld[FV_DEFORM_VALUES], line = row * width;
    const ptrdiff_t from = (ptrdiff_t)l->first * row + top * line + left * row;
    const bool first = left >= 0, second = left + 1 < width;
    if (top >= 0 && first)
        add_read(to, from, upper * (1.f - right));
    if (top >= 0 && second)
        add_read(to, from + row, upper * right);
    if (top + 1 < height && first)
        add_read(to, from + line, lower * (1.f - right));
    if (top + 1 < height && second)
        add_read(to, from + line + row, lower * right);
}

/* Where the values of a head are. The type is a constant of the caller. */
typedef struct deform_values {
    const void *rows;
    enum fv_type type;
    size_t first; /* the head's first column */
} deform_values;

/* Adds `count` vectors of columns from i on to the result. The last one has n columns. */
FV_FN void sum_columns(float *out, const deform_values *values, const reads *r, size_t i, int count,
                       int n)
{
    fv_v sum[VECTORS];
    for (int v = 0; v < count; v++)
        sum[v] = fv_load_n(out + i + (size_t)v * FV_W, v + 1 < count ? FV_W : n);
    for (size_t k = 0; k < r->n; k++) {
        const fv_v part = fv_set(r->part[k]);
        const size_t from = r->from[k] + values->first + i;
        for (int v = 0; v < count; v++)
            sum[v] = fv_fma(part,
                            fv_row_load(values->rows, values->type, from + (size_t)v * FV_W,
                                        v + 1 < count ? FV_W : n),
                            sum[v]);
    }
    for (int v = 0; v < count; v++)
        fv_store_n(out + i + (size_t)v * FV_W, sum[v], v + 1 < count ? FV_W : n);
}

FV_FN void sum_reads(float *out, const deform_values *values, const reads *r, size_t d)
{
    size_t i = 0;
    for (; d - i > VECTORS * FV_W; i += VECTORS * FV_W)
        sum_columns(out, values, r, i, VECTORS, FV_W);
    for (; d - i > 2 * FV_W; i += 2 * FV_W)
        sum_columns(out, values, r, i, 2, FV_W);
    if (d - i > FV_W)
        sum_columns(out, values, r, i, 2, (int)(d - i - FV_W));
    else
        sum_columns(out, values, r, i, 1, (int)(d - i));
}

FV_FN void scale_values(float *out, float factor, size_t d)
{
    for (size_t i = 0; i < d; i += FV_W) {
        const int n = fv_lanes(d - i);
        fv_store_n(out + i, fv_mul(fv_set(factor), fv_load_n(out + i, n)), n);
    }
}

/* Computes the deformable attention of one head for one row. The pointers are to the head's
 * offsets, weights and result. */
FV_FN void attend(const fv_args *a, const deform_values *values, const float *box,
                  const float *offset, const float *weight, float *out)
{
    const size_t d = a->prob.dim[FV_ATTN_D], points = a->prob.dim[FV_DEFORM_POINTS];
    const size_t samples = points * a->prob.dim[FV_DEFORM_LEVELS];
    const fv_deform_level *level = a->table;
    float max = -INFINITY, sum = 0.f;
    size_t of_level = 0; /* samples of *level so far */
    for (size_t p = 0; p < samples; p++)
        max = weight[p] > max ? weight[p] : max;
    memset(out, 0, d * sizeof *out);
    for (size_t first = 0; first < samples; first += BLOCK) {
        const size_t end = samples - first < BLOCK ? samples - first : BLOCK;
        float e[BLOCK];
        reads r;
        r.n = 0;
        for (size_t p = 0; p < end; p += FV_W) {
            const int n = fv_lanes(end - p);
            const fv_v w = fv_load_n(weight + first + p, n);
            fv_store_n(e + p, fv_exp_neg(fv_sub(w, fv_set(max))), n);
        }
        for (size_t p = 0; p < end; p++, of_level++) {
            if (of_level == points) {
                of_level = 0;
                level++;
            }
            sum += e[p];
            add_sample(&r, a, level, box, offset + 2 * (first + p), e[p]);
        }
        sum_reads(out, values, &r, d);
    }
    scale_values(out, 1.f / sum, d);
}

FV_FN void deform_rows(const fv_args *a, const fv_call *c, enum fv_type type)
{
    const size_t d = a->prob.dim[FV_ATTN_D];
    const size_t samples = (size_t)a->prob.dim[FV_DEFORM_LEVELS] * a->prob.dim[FV_DEFORM_POINTS];
    for (size_t r = 0; r < c->rows; r++) {
        const float *box = (const float *)c->p[FV_DEFORM_BOX] + r * a->ld[FV_DEFORM_BOX];
        const float *offset = (const float *)c->p[FV_DEFORM_OFFSET] + r * a->ld[FV_DEFORM_OFFSET];
        const float *weight = (const float *)c->p[FV_DEFORM_WEIGHT] + r * a->ld[FV_DEFORM_WEIGHT];
        float *out = (float *)c->p[FV_DEFORM_OUT] + r * a->ld[FV_DEFORM_OUT];
        for (size_t h = 0; h < a->prob.heads; h++) {
            const deform_values values = {c->p[FV_DEFORM_VALUES], type, h * d};
            attend(a, &values, box, offset + 2 * h * samples, weight + h * samples, out + h * d);
        }
    }
}

void FV_NAME(fv_k_deform_f32)(const fv_args *a, const fv_call *c)
{
    if (a->prob.in == FV_F32)
        deform_rows(a, c, FV_F32);
    else
        deform_rows(a, c, FV_BF16);
}

/* ---- boxes ---- */

void FV_NAME(fv_k_refine_f32)(const fv_args *a, const fv_call *c)
{
    for (size_t r = 0; r < c->rows; r++) {
        const float *box = (const float *)c->p[FV_REFINE_BOX] + r * a->ld[FV_REFINE_BOX];
        const float *delta = (const float *)c->p[FV_REFINE_DELTA] + r * a->ld[FV_REFINE_DELTA];
        float *out = (float *)c->p[FV_REFINE_OUT] + r * a->ld[FV_REFINE_OUT];
        const fv_v side = fv_load_n(box + 2, 2);
        const fv_v grown = fv_mul(side, fv_exp(fv_load_n(delta + 2, 2)));
        fv_store_n(out, fv_fma(fv_load_n(delta, 2), side, fv_load_n(box, 2)), 2);
        fv_store_n(out + 2, grown, 2);
    }
}
